//! The resources that a process watches, for each choice of loops.

use std::collections::BTreeSet;

use sandbox::loops::watched_by_choice;

/// Returns the resources that a loop reads, with the field selector of the watch.
fn read_by(name: &str) -> &'static [&'static str] {
    match name {
        "job-controller" => &["jobs.batch", "pods?spec.restartPolicy!=Always"],
        "ttl-after-finished-controller" => &["jobs.batch"],
        other => panic!("{other}: which resources does it read?"),
    }
}

/// JOB-1, JOB-69.
#[tokio::test(start_paused = true)]
async fn each_choice_of_loops_watches_only_the_resources_that_its_loops_read() {
    for (loops, watched) in watched_by_choice(job_controller::LOOPS).await {
        let read: BTreeSet<String> =
            loops.iter().flat_map(|name| read_by(name)).map(|resource| (*resource).to_owned()).collect();
        assert_eq!(watched, read, "{loops:?}");
    }
}
