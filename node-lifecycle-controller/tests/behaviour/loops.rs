//! The resources that a process watches, for each combination of loops.

use crate::world::*;

/// NODE-1.
#[tokio::test(start_paused = true)]
async fn each_choice_of_loops_watches_what_its_loops_read_and_nothing_else() {
    let reads: &[(&str, &[&str])] = &[
        ("node-lifecycle-controller", &["leases.coordination.k8s.io", "nodes", "pods"]),
        // This loop deletes a Pod because of a taint of the node monitor only if the node sends no heartbeats. The loop
        // therefore watches Leases.
        ("taint-eviction-controller", &["leases.coordination.k8s.io", "nodes", "pods"]),
        ("pod-garbage-collector-controller", &["nodes", "pods"]),
    ];
    conformance::each_choice_of_loops_watches_only_what_it_reads(node_lifecycle_controller::LOOPS, reads).await;
}
