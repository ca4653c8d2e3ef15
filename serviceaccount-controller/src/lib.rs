//! Gives each namespace the ServiceAccount `default` and the certificate authorities of the API server.
//!
//! # What it promises
//!
//! Each namespace of the phase `Active` has the ServiceAccount `default` and the ConfigMap `kube-root-ca.crt` ([`namespaced`]). The
//! only data of the ConfigMap is the bundle: the PEM text of the certificate authorities ([`ca_bundle_file`]). An existing account is
//! never changed. A ConfigMap that another client changes is repaired, once a second at most. With the feature gate
//! `ClusterTrustBundle`, a ClusterTrustBundle has the bundle, too, and its signer has no other one ([`trust_bundles`]). An unusable
//! bundle is never published: the last good one stays.
//!
//! # How it is laid out
//!
//! The three loops have their own queues and workers. They share the cache of Namespaces and the bundle.
//!
//! ```text
//!                      ca_bundle_file: every 30 s ──► bundle ──┐
//!                                                              ▼
//! Namespaces, objects ──► queue of a loop ──► observe ──► Snapshot ──► decide.rs ──► Plan ──► act ──► API server
//! ```
//!
//! # Where it differs from upstream
//!
//! - Only the accounts and ConfigMaps with these names are watched. Of a ConfigMap, the hash of the data is cached.
//! - Nothing is written to namespaces that are not `Active`.
//! - A creation brings its key back after a second, and events of the written objects count after a second.
//! - Patches and deletions name the UID and the version of the object, and patches keep the fields of others.
//! - The bundle is read again while the process runs, an unusable one is reported and not published, and the file that the
//!   kubeconfig names is read.
//! - A key in `binaryData` with the name of the bundle is removed.
//! - The version of the API of ClusterTrustBundles is looked for until it is served.

pub mod namespaced;
pub mod objects;
pub mod trust_bundles;

mod metrics;
#[cfg(test)]
mod world;

use std::time::Duration;

use common::{app::ProgramDefinition, ca_bundle_file, prelude::LoopDefinition, settings::EXPECTATIONS_TIMEOUT};

/// The delay of a sync after an event of an object that the loop writes, and after a creation. It limits the writes to an object
/// that another client changes again and again.
const OWN_OBJECT_DELAY: Duration = Duration::from_secs(1);

/// The loops for accounts, ConfigMaps and ClusterTrustBundles.
pub const LOOPS: &[LoopDefinition] =
    &[namespaced::SERVICE_ACCOUNT_LOOP, namespaced::ROOT_CA_LOOP, trust_bundles::TRUST_BUNDLE_LOOP];

/// Name, flags and loops of the binary.
pub const DEFINITION: ProgramDefinition = ProgramDefinition {
    name: "serviceaccount-controller",
    version: env!("CARGO_PKG_VERSION"),
    about: "Gives each namespace the ServiceAccount default and the certificate authorities of the API server.",
    loops: LOOPS,
    workers_flags: &[],
    feature_gates: &[trust_bundles::CLUSTER_TRUST_BUNDLE],
    tunables: &[EXPECTATIONS_TIMEOUT],
    single_value_flags: &[ca_bundle_file::ROOT_CA_FILE],
};
