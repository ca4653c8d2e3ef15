//! The resources that a process watches, for each selection of loops.

use std::collections::BTreeSet;

use sandbox::loops::watched_by_choice;

fn read_by(name: &str) -> &'static [&'static str] {
    match name {
        "replicaset-controller" => &["pods", "replicasets.apps"],
        "replicationcontroller-controller" => &["pods", "replicationcontrollers"],
        other => panic!("{other}: which resources does it read?"),
    }
}

/// REPLICASET-1.
#[tokio::test(start_paused = true)]
async fn each_choice_of_loops_watches_what_its_loops_read_and_nothing_else() {
    for (loops, watched) in watched_by_choice(replicaset_controller::LOOPS).await {
        let read: BTreeSet<String> =
            loops.iter().flat_map(|name| read_by(name)).map(|resource| (*resource).to_owned()).collect();
        assert_eq!(watched, read, "{loops:?}");
    }
}
