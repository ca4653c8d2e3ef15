//! Tests of the resources that a process watches, for each choice of loops.

use std::collections::BTreeSet;

use sandbox::loops::watched_by_choice;

/// The sandbox's name for the watch of Pods with an address.
const PODS: &str = "pods?status.podIP!=";

/// Returns the resources that the loop with this name needs.
fn read_by(name: &str) -> &'static [&'static str] {
    match name {
        "endpointslice-controller" => &["endpointslices.discovery.k8s.io", "nodes", PODS, "services"],
        "endpointslice-mirroring-controller" => &["endpoints", "endpointslices.discovery.k8s.io", "services"],
        "endpoints-controller" => &["endpoints", PODS, "services"],
        other => panic!("{other}: which resources does it read?"),
    }
}

/// ENDPOINTSLICE-1.
#[tokio::test(start_paused = true)]
async fn each_choice_of_loops_watches_only_the_resources_that_its_loops_read() {
    for (loops, watched) in watched_by_choice(endpointslice_controller::LOOPS).await {
        let read: BTreeSet<String> =
            loops.iter().flat_map(|name| read_by(name)).map(|resource| (*resource).to_owned()).collect();
        assert_eq!(watched, read, "{loops:?}");
    }
}
