//! The loops together: what they watch, and whom they delay.

use crate::world::*;

/// REPLICASET-1.
#[tokio::test(start_paused = true)]
async fn each_choice_of_loops_watches_what_its_loops_read_and_nothing_else() {
    let reads: &[(&str, &[&str])] = &[
        ("replicaset-controller", &["pods", "replicasets.apps"]),
        ("replicationcontroller-controller", &["pods", "replicationcontrollers"]),
    ];
    conformance::each_choice_of_loops_watches_only_what_it_reads(replicaset_controller::LOOPS, reads).await;
}

/// REPLICASET-57.
#[tokio::test(start_paused = true)]
async fn a_set_of_two_billion_replicas_does_not_delay_others() {
    let is_done = |set: &Value| set["status"]["replicas"] == 2;
    let greedy = replica_set("greedy", i32::MAX as usize);
    let cluster = cluster().tunable("burst-replicas", 100);
    conformance::a_greedy_object_does_not_delay_others(&cluster, greedy, |name| replica_set(name, 2), is_done).await;
}
