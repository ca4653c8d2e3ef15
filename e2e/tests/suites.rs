// Written by `cargo run -p tools --bin generate`.
//! Every suite in one program: three at once, each in a process of its own.
//!
//! `cargo test -p e2e --test suites` runs them all, `... -- deployment::` those of one suite.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

mod lost_node;

use std::process::ExitCode;

use e2e::suite::run_all;

mod cronjob;
mod daemonset;
mod daemonset_handover;
mod deployment;
mod endpointslice;
mod endpointslice_mirroring;
mod failover;
mod gc;
mod job;
mod job_handover;
mod node_lifecycle;
mod nodes;
mod outage;
mod pod_gc;
mod replicaset;
mod statefulset;
mod taint_eviction;

fn main() -> ExitCode {
    run_all(vec![
        failover::suite(),
        deployment::suite(),
        daemonset_handover::suite(),
        outage::suite(),
        cronjob::suite(),
        job_handover::suite(),
        gc::suite(),
        job::suite(),
        node_lifecycle::suite(),
        replicaset::suite(),
        daemonset::suite(),
        endpointslice::suite(),
        endpointslice_mirroring::suite(),
        nodes::suite(),
        pod_gc::suite(),
        statefulset::suite(),
        taint_eviction::suite(),
    ])
}
