//! The loops together: what they watch, and whom they delay.

use crate::world::*;

/// JOB-1, JOB-69.
#[tokio::test(start_paused = true)]
async fn each_choice_of_loops_watches_only_the_resources_that_its_loops_read() {
    let reads: &[(&str, &[&str])] = &[
        ("job-controller", &["jobs.batch", "pods?spec.restartPolicy!=Always"]),
        ("ttl-after-finished-controller", &["jobs.batch"]),
    ];
    conformance::each_choice_of_loops_watches_only_what_it_reads(job_controller::LOOPS, reads).await;
}

/// JOB-67.
#[tokio::test(start_paused = true)]
async fn a_job_with_two_billion_pods_does_not_delay_others() {
    let wanting = |name: &str, pods: i32| job(name, "", json!({"completions": pods, "parallelism": pods}));
    let is_done = |job: &Value| job["status"]["active"] == 2;
    let cluster = cluster().tunable("job-max-pods-per-sync", 100);
    let greedy = wanting("greedy", i32::MAX);
    conformance::a_greedy_object_does_not_delay_others(&cluster, greedy, |name| wanting(name, 2), is_done).await;
}
