//! The resources that a process watches, for each choice of loops.

use std::collections::BTreeSet;

use sandbox::loops::watched_by_choice;

/// Pods that have an address.
const PODS: &str = "pods?status.podIP!=";

/// The resources that a loop reads.
fn read_by(name: &str) -> &'static [&'static str] {
    match name {
        "endpointslice-controller" => &["endpointslices.discovery.k8s.io", "nodes", PODS, "services"],
        "endpointslice-mirroring-controller" => &["endpoints", "endpointslices.discovery.k8s.io", "services"],
        "endpoints-controller" => &["endpoints", PODS, "services"],
        other => panic!("{other}: which resources does it read?"),
    }
}

#[tokio::test(start_paused = true)]
async fn each_choice_of_loops_watches_what_its_loops_read_and_nothing_else() {
    for (loops, watched) in watched_by_choice(endpointslice_controller::LOOPS).await {
        let read: BTreeSet<String> =
            loops.iter().flat_map(|name| read_by(name)).map(|resource| (*resource).to_owned()).collect();
        assert_eq!(watched, read, "{loops:?}");
    }
}
