// Written by `cargo run -p e2e --bin generate`.
//! Every suite, and the tests of the playground, in one program: three at once, each in a process of its own.
//!
//! `cargo test -p e2e --test suites` runs them all, `... -- deployment::` those of one suite. Each suite is a program of its
//! own, too: `cargo test -p e2e --test deployment`.
#![allow(dead_code, reason = "each suite has a `main` of its own")]
#![allow(clippy::duplicate_mod, reason = "suites that are programs of their own share helpers")]

use std::process::ExitCode;

use e2e::suite::{Part, run_all};

#[path = "cronjob.rs"]
mod cronjob;
#[path = "daemonset.rs"]
mod daemonset;
#[path = "daemonset_handover.rs"]
mod daemonset_handover;
#[path = "deployment.rs"]
mod deployment;
#[path = "endpointslice.rs"]
mod endpointslice;
#[path = "endpointslice_mirroring.rs"]
mod endpointslice_mirroring;
#[path = "failover.rs"]
mod failover;
#[path = "gc.rs"]
mod gc;
#[path = "job.rs"]
mod job;
#[path = "job_handover.rs"]
mod job_handover;
#[path = "node_lifecycle.rs"]
mod node_lifecycle;
#[path = "nodes.rs"]
mod nodes;
#[path = "playground.rs"]
mod playground;
#[path = "pod_gc.rs"]
mod pod_gc;
#[path = "replicaset.rs"]
mod replicaset;
#[path = "statefulset.rs"]
mod statefulset;
#[path = "taint_eviction.rs"]
mod taint_eviction;

fn main() -> ExitCode {
    run_all(vec![
        Part::Suite(failover::suite()),
        Part::Plain("playground", playground::TESTS),
        Part::Suite(cronjob::suite()),
        Part::Suite(node_lifecycle::suite()),
        Part::Suite(job::suite()),
        Part::Suite(daemonset::suite()),
        Part::Suite(deployment::suite()),
        Part::Suite(statefulset::suite()),
        Part::Suite(replicaset::suite()),
        Part::Suite(gc::suite()),
        Part::Suite(daemonset_handover::suite()),
        Part::Suite(endpointslice::suite()),
        Part::Suite(endpointslice_mirroring::suite()),
        Part::Suite(job_handover::suite()),
        Part::Suite(nodes::suite()),
        Part::Suite(pod_gc::suite()),
        Part::Suite(taint_eviction::suite()),
    ])
}
