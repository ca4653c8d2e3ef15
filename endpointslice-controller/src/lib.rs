//! Endpoints of Services: the Pods behind each Service, in the form that kube-proxy and others read.
//!
//! # What it promises
//!
//! Each Service with a selector gets slices that list every selected Pod that has an address and has not finished, once per
//! address type, with its conditions; and always at least one slice. No slice is filled beyond `--max-endpoints-per-slice`.
//! A change takes as few writes as possible, endpoints stay in the slice they are in, and nothing is written where nothing
//! changed. A consumer that follows every write never loses a ready endpoint that is to stay. Slices of others are not touched,
//! and no decision is based on a view that lacks this process's own last writes.
//!
//! # How it is laid out
//!
//! There are three loops: [`slices`] keeps the slices of Services with a selector, [`mirroring`] copies hand-made Endpoints of
//! Services without a selector into slices, and [`endpoints`] keeps an Endpoints object for every Service with a selector. Each
//! one has a folder of its own, laid out like this; a file of the same name beside the folders holds what they share:
//!
//! ```text
//! watch.rs ──► queue ──► observe.rs ──► Snapshot ──► decide.rs ──► Plan ──► act.rs ──► API server
//!     ▲                      ▲                        (pure)                    │
//!     │                      ├────────── memory.rs ◄──────────── notes ─────────┤
//!     └──────────────────────┼───────── own_writes.rs ◄─────────────────────────┘
//!                        members.rs: the Pods of each Service (membership.rs, by_name.rs)
//!                        topology.rs: the zones and the capacity of Nodes (zones.rs)
//! ```
//!
//! [`decide::ports`] finds the numbers of ports on each Pod, [`decide::write_order`] orders the writes.
//!
//! # Where it differs from upstream
//!
//! The reasons are in `docs/decisions/0010-endpoints.md`, and for the first point in `docs/decisions/0016-filters.md`.
//!
//! - Only Pods with an address are watched. The time in `endpoints.kubernetes.io/last-change-trigger-time` does not know of others.
//! - The members of each Service are kept in an index; no event of a Pod and no sync walks over a namespace.
//! - A sync of a large Service considers the Pods and slices that have changed since the last one (`docs/decisions/0019-changed-pods.md`).
//! - Own writes are recognized by version, in `common`'s ledger. Slices are patched and deleted in the version that was decided
//!   on; upstream replaces a reused slice unconditionally.
//! - Writes are ordered so that no endpoint is missing between two of them.
//! - The deletion of a slice is noticed also if another process wrote the slice.
//! - A terminating slice counts as gone.
//! - Endpoints are taken in the order of their Pods' names. Hints are given zone by zone in the order of their names.
//! - Nothing is written where a slice would come out as it is.
//! - New slices of one sync have a limited number of ports in all; the next sync creates the others.
//! - An empty slice stands for a Service only if the Service owns it.
//! - A Pod that has finished brings its Services also if its readiness did not change.
//! - A Service that no longer has a selector is forgotten with its hints.
//! - A Node that comes, or whose zone changes, brings the Services of its Pods: the outcome does not depend on which event came first.
//! - Shares of zones are known before the first sync, and checked once a second while Nodes change.
//! - A sync that keeps failing is retried without end, every 1000 s at last.

pub mod address;
pub mod by_name;
pub mod decide;
pub mod endpoints;
pub mod membership;
pub mod memory;
pub mod mirroring;
pub mod objects;
pub mod packing;
pub mod plan;
pub mod slices;
pub mod zones;

mod act;
mod body;
mod members;
mod metrics;
mod observe;
mod own_writes;
mod topology;
mod watch;
#[cfg(test)]
mod world;

use common::{
    app::Definition,
    runtime::LoopDefinition,
    settings::{EXPECTATIONS_TIMEOUT, FeatureGate},
};

/// `spec.trafficDistribution` is followed. The gate is locked.
pub const PREFER_SAME_TRAFFIC_DISTRIBUTION: FeatureGate =
    FeatureGate::locked("PreferSameTrafficDistribution", "Services may prefer endpoints of the same zone or node");

/// All loops of this crate.
pub const LOOPS: &[LoopDefinition] =
    &[slices::ENDPOINT_SLICE, mirroring::ENDPOINT_SLICE_MIRRORING, endpoints::ENDPOINTS_LOOP];

/// The program.
pub const DEFINITION: Definition = Definition {
    name: "endpointslice-controller",
    version: env!("CARGO_PKG_VERSION"),
    about: "Keeps EndpointSlices and Endpoints: the Pods behind each Service",
    loops: LOOPS,
    workers: &[slices::CONCURRENT_SYNCS, mirroring::CONCURRENT_SYNCS, endpoints::CONCURRENT_SYNCS],
    gates: &[PREFER_SAME_TRAFFIC_DISTRIBUTION],
    tunes: &[EXPECTATIONS_TIMEOUT, slices::MIN_PODS_OF_PACKING],
    flags: &[
        slices::MAX_ENDPOINTS_PER_SLICE,
        slices::UPDATES_BATCH_PERIOD,
        mirroring::MAX_ENDPOINTS_PER_SUBSET,
        mirroring::UPDATES_BATCH_PERIOD,
        endpoints::UPDATES_BATCH_PERIOD,
    ],
};
