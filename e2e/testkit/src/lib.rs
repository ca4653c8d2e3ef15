//! What the tests of all controllers share: a cluster in memory with the loops of one controller.
//!
//! A crate describes its cluster once, and each test adds what it needs:
//!
//! ```no_run
//! # use testkit::prelude::*;
//! # const LOOPS: &[common::runtime::LoopDefinition] = &[];
//! fn cluster() -> Cluster {
//!     Cluster::new(LOOPS, "replicasets.apps", "web").nodes(3)
//! }
//! # fn replica_set(_: usize) -> Value { json!({}) }
//!
//! # async fn test() {
//! let world = cluster().tunable("burst-replicas", 5).settled(replica_set(3)).await;
//! world.fault(rule(Action::InternalError, "create", "pods").times(1));
//! world.change(json!({"replicas": 5})).await;
//! world.settle().await;
//! assert_eq!(world.active_pods().await.len(), 5);
//! # }
//! ```
//!
//! - [`Cluster`] and [`World`]: the API server, nodes, and loops in virtual time; faults, crashes, and counts of requests.
//! - [`objects`]: builders of objects, and what tests read from objects.
//! - [`answers`]: answers that differ from those of the API server.
//! - [`conformance`]: rules that hold for every controller, each driven by a few values of the controller.
//! - [`context_without_server`]: the context of a loop, for unit tests that fill its caches themselves.
//! - [`scene`]: scenes that run in virtual time, and with the real binaries on any cluster.
//! - [`rights`]: the rights that the manifests in `deploy/` give a controller.
//! - [`bounds`]: limits on memory, extreme values, and a cached Pod with all fields of a real one.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that panics fails")]

pub mod answers;
pub mod bounds;
mod cluster;
pub mod conformance;
mod context;
pub mod objects;
pub mod rights;
pub mod scene;
mod world;

pub use self::{
    cluster::{Cluster, Tunable},
    context::context_without_server,
    world::{World, in_seconds, metric, rule},
};

/// The identity of the loops under test, by which the API server counts their requests and writes.
pub const CONTROLLER: &str = "controllers";
/// The namespace of all objects, unless a test names another.
pub const NAMESPACE: &str = "shop";

/// What a test of a controller needs, for `use testkit::prelude::*`.
pub mod prelude {
    pub use std::{
        collections::{BTreeMap, BTreeSet},
        sync::{Arc, atomic::Ordering},
        time::Duration,
    };

    pub use common::{
        clock::Clock,
        object::Resource,
        settings::{OperatorSettings, TunableValue},
    };
    pub use http::Method;
    pub use jiff::{SignedDuration, Timestamp};
    pub use sandbox::{Action, Change, Operation, Rule, Sandbox, Webhook, Write, loops::Loops, nodes::is_ready};
    pub use serde_json::{Value, json};

    pub use crate::{
        CONTROLLER, Cluster, NAMESPACE, World,
        answers::{Answer, LoopRequest, Refuser, RequestFilter, answer, refusal},
        conformance::{self, Scene, Step},
        in_seconds, metric,
        objects::*,
        rule,
    };
}
