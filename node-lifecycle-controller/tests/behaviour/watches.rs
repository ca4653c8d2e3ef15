//! The resources that a process watches, for each combination of loops.

use std::collections::BTreeSet;

use sandbox::loops::watched_by_choice;

/// Returns the resources that the loop with this name reads.
fn read_by(name: &str) -> &'static [&'static str] {
    match name {
        "node-lifecycle-controller" => &["leases.coordination.k8s.io", "nodes", "pods"],
        // This loop deletes a Pod because of a taint of the node monitor only if the node sends no heartbeats. The loop
        // therefore watches Leases.
        "taint-eviction-controller" => &["leases.coordination.k8s.io", "nodes", "pods"],
        "pod-garbage-collector-controller" => &["nodes", "pods"],
        other => panic!("{other}: which resources does it read?"),
    }
}

/// NODE-1.
#[tokio::test(start_paused = true)]
async fn each_choice_of_loops_watches_what_its_loops_read_and_nothing_else() {
    for (loops, watched) in watched_by_choice(node_lifecycle_controller::LOOPS).await {
        let read: BTreeSet<String> =
            loops.iter().flat_map(|name| read_by(name)).map(|resource| (*resource).to_owned()).collect();
        assert_eq!(watched, read, "{loops:?}");
    }
}
