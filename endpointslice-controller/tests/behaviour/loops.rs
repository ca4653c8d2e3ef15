//! The resources that a process watches, for each choice of loops.

use crate::world::*;

/// The sandbox's name for the watch of Pods with an address.
const PODS: &str = "pods?status.podIP!=";

/// ENDPOINTSLICE-1.
#[tokio::test(start_paused = true)]
async fn each_choice_of_loops_watches_only_the_resources_that_its_loops_read() {
    let reads: &[(&str, &[&str])] = &[
        ("endpointslice-controller", &[SLICES, "nodes", PODS, "services"]),
        ("endpointslice-mirroring-controller", &["endpoints", SLICES, "services"]),
        ("endpoints-controller", &["endpoints", PODS, "services"]),
    ];
    conformance::each_choice_of_loops_watches_only_what_it_reads(endpointslice_controller::LOOPS, reads).await;
}
