// Written by `cargo run -p tools --bin generate`.
//! Every suite in one program: three at once, each in a process of its own.
//!
//! `cargo test -p e2e --test suites` runs them all, `... -- deployment::` those of one suite.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that panics fails")]

use std::process::ExitCode;

use e2e::suite::run_all;

#[path = "../../clusterrole-controller/tests/behaviour/scenes.rs"]
mod clusterrole;
#[path = "../../cronjob-controller/tests/behaviour/scenes.rs"]
mod cronjob;
#[path = "../../daemonset-controller/tests/behaviour/scenes.rs"]
mod daemonset;
mod daemonset_handover;
#[path = "../../deployment-controller/tests/behaviour/scenes.rs"]
mod deployment;
#[path = "../../disruption-controller/tests/behaviour/scenes.rs"]
mod disruption;
#[path = "../../endpointslice-controller/tests/behaviour/scenes/endpointslice.rs"]
mod endpointslice;
#[path = "../../endpointslice-controller/tests/behaviour/scenes/endpointslice_mirroring.rs"]
mod endpointslice_mirroring;
mod failover;
#[path = "../../gc-controller/tests/behaviour/scenes.rs"]
mod gc;
mod gc_cascades;
#[path = "../../job-controller/tests/behaviour/scenes.rs"]
mod job;
mod job_handover;
mod kubectl;
#[path = "../../node-lifecycle-controller/tests/behaviour/scenes/lost_node.rs"]
mod lost_node;
#[path = "../../namespace-controller/tests/behaviour/scenes.rs"]
mod namespace;
mod namespace_handover;
#[path = "../../node-lifecycle-controller/tests/behaviour/scenes/node_lifecycle.rs"]
mod node_lifecycle;
mod nodes;
mod outage;
#[path = "../../node-lifecycle-controller/tests/behaviour/scenes/pod_gc.rs"]
mod pod_gc;
#[path = "../../replicaset-controller/tests/behaviour/scenes.rs"]
mod replicaset;
#[path = "../../resourcequota-controller/tests/behaviour/scenes.rs"]
mod resourcequota;
#[path = "../../serviceaccount-controller/tests/behaviour/scenes.rs"]
mod serviceaccount;
#[path = "../../statefulset-controller/tests/behaviour/scenes.rs"]
mod statefulset;
#[path = "../../node-lifecycle-controller/tests/behaviour/scenes/taint_eviction.rs"]
mod taint_eviction;
#[path = "../../volume-controller/tests/behaviour/scenes.rs"]
mod volume;
mod whole;

fn main() -> ExitCode {
    run_all(vec![
        failover::suite(),
        whole::suite(),
        deployment::suite(),
        daemonset_handover::suite(),
        outage::suite(),
        cronjob::suite(),
        job_handover::suite(),
        gc::suite(),
        job::suite(),
        node_lifecycle::suite(),
        replicaset::suite(),
        clusterrole::suite(),
        daemonset::suite(),
        disruption::suite(),
        endpointslice::suite(),
        endpointslice_mirroring::suite(),
        gc_cascades::suite(),
        kubectl::suite(),
        namespace::suite(),
        namespace_handover::suite(),
        nodes::suite(),
        pod_gc::suite(),
        resourcequota::suite(),
        serviceaccount::suite(),
        statefulset::suite(),
        taint_eviction::suite(),
        volume::suite(),
    ])
}
