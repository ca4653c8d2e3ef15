//! Decisions about Jobs with `spec.backoffLimitPerIndex`.

use serde_json::json;

use crate::world::{JobBuilder, PodBuilder, job, pod};

fn limited(completions: u32, limit: u32) -> JobBuilder {
    job("j")
        .indexed(completions, completions)
        .spec_field("backoffLimitPerIndex", limit)
        .status_field("failedIndexes", "")
}

/// JOB-34.
#[test]
fn a_failed_pod_is_kept_until_its_replacement_exists() {
    let first = pod("a").index(3).index_failures(0, 0).failed();
    let world =
        limited(4, 1).status_field("completedIndexes", "0-2").status_field("succeeded", 3).with_pods([first.clone()]);
    assert_eq!(world.describe_scaling(), "create 3/1");
    assert!(
        world.counted_pod_names_losing_finalizer().is_empty()
            && world.first_status().uncounted_terminated_pods.is_empty()
    );
    let replaced = limited(4, 1)
        .status_field("completedIndexes", "0-2")
        .status_field("succeeded", 3)
        .with_pods([first.clone(), pod("b").index(3).index_failures(1, 0)]);
    assert_eq!(
        (replaced.describe_scaling().as_str(), replaced.counted_pod_names_losing_finalizer()),
        ("nothing", vec!["a".to_owned()])
    );
    let given_up = limited(5, 1)
        .status_field("completedIndexes", "0-2")
        .status_field("succeeded", 3)
        .status_field("failed", 1)
        .with_pods([pod("b").index(3).index_failures(1, 0).failed()]);
    let status = given_up.first_status();
    assert_eq!((status.failed_indexes.as_deref(), status.uncounted_terminated_pods.failed.len()), (Some("3"), 1));
    assert_eq!(given_up.describe_scaling(), "create 4/0");
}

/// JOB-35.
#[test]
fn failed_indexes_are_written_only_with_a_limit_per_index() {
    assert_eq!(job("j").indexed(2, 2).with_pods([]).first_status().failed_indexes, None);
    let fresh = job("j").indexed(2, 2).spec_field("backoffLimitPerIndex", 0).with_pods([]);
    assert_eq!(fresh.first_status().failed_indexes.as_deref(), Some(""));
    assert_eq!(
        job("j").indexed(2, 2).status_field("failedIndexes", "1").with_pods([]).first_status().failed_indexes,
        None
    );
}

/// JOB-32, JOB-33.
#[test]
fn policies_decide_whether_a_failure_fails_the_index() {
    let rules = json!({"rules": [
        {"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [7]}},
        {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [8]}},
    ]});
    let with = |code: i32, counted: u32, ignored: u32| {
        let job = limited(2, 3).spec_field("podFailurePolicy", rules.clone()).spec_field("parallelism", 1);
        job.with_pods([pod("a").index(0).index_failures(counted, ignored).failed_with_exit_code_at(code, -9999)])
    };
    let failed = |world: &crate::world::SyncFixture| world.first_status().failed_indexes.unwrap().to_string();
    assert_eq!((failed(&with(7, 0, 0)).as_str(), with(7, 0, 0).describe_scaling().as_str()), ("0", "create 1/0"));
    assert_eq!((failed(&with(8, 3, 1)).as_str(), with(8, 3, 1).describe_scaling().as_str()), ("", "create 0/3+2"));
    assert_eq!((failed(&with(1, 2, 1)).as_str(), with(1, 2, 1).describe_scaling().as_str()), ("", "create 0/3+1"));
    assert_eq!((failed(&with(1, 3, 0)).as_str(), with(1, 3, 0).describe_scaling().as_str()), ("0", "create 1/0"));
}

/// JOB-34.
#[test]
fn the_pod_with_most_failures_is_kept_then_the_latest() {
    let kept = |pods: Vec<crate::world::PodBuilder>| {
        let plan = limited(2, 9).with_pods(pods).plan();
        plan.pod_summary
            .predecessor_position_by_index
            .values()
            .map(|at| plan.pod_summary.pods[*at].pod.meta().name.to_string())
            .collect::<Vec<_>>()
    };
    let failed = |name: &str, counted: u32, second: i64| {
        pod(name).index(0).index_failures(counted, 0).failed_with_exit_code_at(1, second)
    };
    assert_eq!(kept(vec![failed("a", 1, -50), failed("b", 2, -40)]), ["b"]);
    assert_eq!(kept(vec![failed("a", 2, -50), failed("b", 1, -40)]), ["a"]);
    assert_eq!(kept(vec![failed("a", 1, -50), failed("b", 1, -40)]), ["b"]);
    assert_eq!(kept(vec![failed("a", 1, -40), failed("b", 1, -40)]), ["b"]);
    assert_eq!(kept(vec![failed("a", 1, -40), failed("b", 2, -50)]), ["a"], "a single pass keeps the later end");
    assert_eq!(kept(vec![failed("a", 1, -40), pod("b").index(0)]), [""; 0]);
    assert_eq!(kept(vec![failed("a", 1, -40).without_finalizer()]), [""; 0]);
}

/// JOB-78.
#[test]
fn an_index_in_back_off_delays_no_other_index() {
    let job = limited(4, 9).spec_field("parallelism", 2);
    let waits = pod("a").index(0).index_failures(1, 0).failed_with_exit_code_at(1, -5);
    assert_eq!(job.clone().with_pods([waits.clone()]).describe_scaling(), "create 1/0 2/0, wait 15s");
    let two = [waits, pod("b").index(1).index_failures(0, 0).failed_with_exit_code_at(1, -5)];
    let all = limited(2, 9).with_pods(two.clone());
    assert_eq!(all.describe_scaling(), "wait 5s for 2");
    assert_eq!(
        all.with_failure_record(5, -1).describe_scaling(),
        "wait 5s for 2",
        "failures of the Job do not count here"
    );
    assert_eq!(job.with_pods(two).describe_scaling(), "create 2/0 3/0, wait 5s");
}

/// JOB-36.
#[test]
fn a_job_fails_when_all_indexes_have_finished_or_too_many_have_failed() {
    let with = |completed: &str, failed: &str, most: serde_json::Value| {
        let job = limited(4, 0).status_field("completedIndexes", completed).status_field("failedIndexes", failed);
        job.spec_field("maxFailedIndexes", most).with_pods([]).job_end_text()
    };
    assert_eq!(with("0,1", "2", json!(null)), None);
    let over = "FailureTarget FailedIndexes: Job has failed indexes";
    assert_eq!(with("0-2", "3", json!(null)).as_deref(), Some(over));
    assert_eq!(with("", "0-3", json!(4)).as_deref(), Some(over));
    let many =
        "FailureTarget MaxFailedIndexesExceeded: Job has exceeded the specified maximal number of failed indexes";
    assert_eq!(with("", "1,2", json!(1)).as_deref(), Some(many));
    assert_eq!(with("", "1,2", json!(2)), None);
    assert_eq!(
        limited(2, 0)
            .status_field("completedIndexes", "0,1")
            .status_field("succeeded", 2)
            .with_pods([])
            .job_end_text()
            .unwrap(),
        "SuccessCriteriaMet CompletionsReached: Reached expected number of succeeded pods"
    );
}

#[test]
fn pods_are_missing_even_if_no_index_is_left() {
    let job = limited(3, 0).status_field("failedIndexes", "0").status_field("failed", 1);
    let world = job.with_pods([pod("b").index(1), pod("c").index(2)]);
    assert_eq!(
        (world.describe_scaling().as_str(), world.plan().scaling_decision.metric_action_label()),
        ("no index for 1", "pods_created")
    );
    assert!(!world.creates_or_deletes_pods() && world.job_end_text().is_none());
}

/// JOB-72.
#[test]
fn no_index_is_both_completed_and_failed() {
    let twins =
        || [pod("a").index(0).index_failures(5, 0).failed(), pod("b").index(0).index_failures(5, 0).succeeded()];
    let status = limited(3, 1).with_pods(twins()).first_status();
    assert_eq!((&*status.completed_indexes, status.failed_indexes.as_deref()), ("0", Some("")));
    let before = limited(3, 1).status_field("failedIndexes", "0");
    let world = before.with_pods(twins());
    let status = world.first_status();
    assert_eq!((&*status.completed_indexes, status.failed_indexes.as_deref(), status.succeeded), ("", Some("0"), 0));
    assert_eq!(world.counted_pod_names_losing_finalizer(), ["a", "b"]);
}

/// JOB-95.
#[test]
fn pods_that_the_end_of_the_job_deletes_fail_no_index() {
    let job = || limited(3, 0).spec_field("maxFailedIndexes", 0);
    let failed_indexes = |job: JobBuilder, pods: [PodBuilder; 3]| {
        job.with_pods(pods).first_status().failed_indexes.map(|indexes| indexes.to_string()).unwrap()
    };
    let running = |name: &str, index: u32| pod(name).index(index).index_failures(0, 0);
    let failed = || running("b", 1).failed();
    let deleted = |name: &str, index: u32, second: i64| running(name, index).deleting_at(second);
    // The sync that deletes the Pods.
    assert_eq!(failed_indexes(job(), [running("a", 0), failed(), running("c", 2)]), "1");
    // The process stopped after it had deleted one Pod, or all Pods, and before the status announced the end.
    assert_eq!(failed_indexes(job(), [deleted("a", 0, -3), failed(), running("c", 2)]), "1");
    assert_eq!(failed_indexes(job(), [deleted("a", 0, -3), failed(), deleted("c", 2, -3)]), "1");
    // These Pods have ended meanwhile.
    let only_finished = job().spec_field("podReplacementPolicy", "Failed");
    let stopped = |name: &str, index: u32| deleted(name, index, -3).failed();
    assert_eq!(failed_indexes(only_finished, [stopped("a", 0), failed(), stopped("c", 2)]), "1");
    // The end is announced, and the finalizers are still there.
    let announced = || {
        let message = "Job has exceeded the specified maximal number of failed indexes";
        job().status_field("failedIndexes", "1").condition("FailureTarget", "True", "MaxFailedIndexesExceeded", message)
    };
    assert_eq!(failed_indexes(announced(), [deleted("a", 0, -3), failed(), stopped("c", 2)]), "1");
    // Other ends than the failed indexes themselves.
    let late = limited(3, 0).spec_field("activeDeadlineSeconds", 30);
    assert_eq!(failed_indexes(late, [deleted("a", 0, -3), failed(), deleted("c", 2, -3)]), "1");
    let counted = limited(3, 0).spec_field("backoffLimit", 0);
    assert_eq!(failed_indexes(counted, [deleted("a", 0, -3), failed(), deleted("c", 2, -3)]), "1");
}

/// JOB-95.
#[test]
fn a_pod_that_a_user_deletes_fails_its_index_and_may_end_the_job() {
    let deleted = |name: &str, index: u32, second: i64| pod(name).index(index).index_failures(0, 0).deleting_at(second);
    let of =
        |job: JobBuilder, pods: Vec<PodBuilder>| job.with_pods(pods).first_status().failed_indexes.unwrap().to_string();
    assert_eq!(of(limited(4, 0), vec![deleted("a", 0, -9)]), "0");
    let job = limited(4, 0).spec_field("maxFailedIndexes", 1);
    // The second deletion ends the Job, and the end has deleted the other two Pods.
    let pods = vec![deleted("a", 0, -9), deleted("b", 1, -5), deleted("c", 2, -3), deleted("d", 3, -3)];
    assert_eq!(of(job, pods), "0,1");
}
