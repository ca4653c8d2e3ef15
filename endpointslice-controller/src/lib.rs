//! Controllers that write EndpointSlices and Endpoints: the lists of the Pods of each Service, which kube-proxy and other
//! consumers read.
//!
//! # What it promises
//!
//! Each Service with a selector gets EndpointSlices, called slices. They list every selected Pod that has an address and has
//! not finished, once per address type, with its conditions. A Service always has at least one slice. The controller fills no
//! slice beyond `--max-endpoints-per-slice`. A change takes as few writes as possible: endpoints do not move without need, and
//! a slice that has not changed is not written. While an endpoint is ready, it is in some slice after every write. The
//! controller does not write slices of other managers. A sync waits until its caches show the last writes of this process.
//!
//! # How it is laid out
//!
//! There are three loops: [`slices`] writes the slices of Services with a selector, [`mirroring`] copies hand-made Endpoints of
//! Services without a selector into slices, and [`endpoints`] writes the Endpoints of Services with a selector. Each
//! loop has a file with its event handlers and its [`Controller`](common::controller::Controller), and a folder with its pure
//! part. Code that the loops share is in the files below:
//!
//! ```text
//! handlers ──► queue ──► observe ──► Snapshot ──► decide.rs ──► Plan ──► act ──► API server
//! (watch.rs)            (observe.rs)               (pure)              (act.rs)
//!                            ▲                                            │
//!                            ├───── memory.rs, own_writes.rs ◄────────────┘
//!                            ├───── shared_service_pod_index.rs: the Pods of each Service
//!                            └───── topology.rs: the zones and the capacity of Nodes (zones.rs)
//! ```
//!
//! [`decide::ports`] finds the port numbers of each Pod, and [`decide::write_order`] orders the writes.
//!
//! # Where it differs from upstream
//!
//! `docs/decisions/0010-endpoints.md` gives the reasons, and `docs/decisions/0016-filters.md` the reason for the first point.
//!
//! - Only Pods with an address are watched. Other Pods do not affect the time in
//!   `endpoints.kubernetes.io/last-change-trigger-time`.
//! - An index holds the Pods of each Service, so that neither an event of a Pod nor a sync iterates over a namespace.
//! - A sync of a large Service compares only the Pods and slices that have changed since the last sync
//!   (`docs/decisions/0019-changed-pods.md`).
//! - The ledger in `common` recognizes writes of this process by their version. Slices are replaced and deleted with a
//!   precondition on the version in the snapshot; upstream replaces a reused slice unconditionally.
//! - Writes are ordered so that no endpoint is missing between two writes.
//! - The loops notice the deletion of a slice even if another process wrote the slice.
//! - A terminating slice is treated as deleted.
//! - Endpoints are ordered by the names of their Pods. Hints are assigned zone by zone, in the order of the zones' names.
//! - A slice that would not change is not written.
//! - One sync creates slices up to a limit on their total number of ports; the next sync creates the remaining slices.
//! - An empty slice counts as the placeholder of a Service without endpoints only if the Service owns the slice.
//! - A Pod that finishes enqueues its Services even if its readiness did not change.
//! - When a Service loses its selector, the controller removes its memory of the Service, including hints.
//! - A new Node, or a new zone of a Node, enqueues the Services of the Pods there, so the order of events does not matter.
//! - The shares of zones are known before the first sync, and recomputed once a second while Nodes change.
//! - A sync that keeps failing is retried without limit; the back-off grows to 1000 s.

pub mod address;
pub mod decide;
pub mod endpoints;
pub mod memory;
pub mod mirroring;
pub mod objects;
pub mod plan;
pub mod pods_in_slices;
pub mod slices;
pub mod zones;

mod act;
mod body;
mod metrics;
mod observe;
mod own_writes;
mod shared_service_pod_index;
mod topology;
mod watch;
#[cfg(test)]
mod world;

use common::{
    app::ProgramDefinition,
    runtime::LoopDefinition,
    settings::{EXPECTATIONS_TIMEOUT, FeatureGate},
};

/// The feature gate of two values of the field `spec.trafficDistribution`. The gate is locked: they always have an effect.
pub const PREFER_SAME_TRAFFIC_DISTRIBUTION: FeatureGate =
    FeatureGate::always_on("PreferSameTrafficDistribution", "Services may prefer endpoints of the same zone or node");

/// The loops of the binary, which all run unless the command line selects some of them.
pub const LOOPS: &[LoopDefinition] =
    &[slices::ENDPOINT_SLICE_LOOP, mirroring::ENDPOINT_SLICE_MIRRORING_LOOP, endpoints::ENDPOINTS_LOOP];

/// The definition from which `common::app::main` builds the command line and starts the loops.
pub const DEFINITION: ProgramDefinition = ProgramDefinition {
    name: "endpointslice-controller",
    version: env!("CARGO_PKG_VERSION"),
    about: "Keeps EndpointSlices and Endpoints: the Pods behind each Service",
    loops: LOOPS,
    workers_flags: &[slices::CONCURRENT_SYNCS, mirroring::CONCURRENT_SYNCS, endpoints::CONCURRENT_SYNCS],
    feature_gates: &[PREFER_SAME_TRAFFIC_DISTRIBUTION],
    tunables: &[EXPECTATIONS_TIMEOUT, slices::MIN_PODS_TO_RECORD_SLICES],
    single_value_flags: &[
        slices::MAX_ENDPOINTS_PER_SLICE,
        slices::ENDPOINT_SLICE_UPDATES_BATCH_PERIOD,
        mirroring::MAX_ENDPOINTS_PER_SUBSET,
        mirroring::UPDATES_BATCH_PERIOD,
        endpoints::UPDATES_BATCH_PERIOD,
    ],
};
