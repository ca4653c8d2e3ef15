//! The memory cost of decisions about Jobs with numbers and lists at their limits and beyond.

use std::{sync::Arc, time::Duration};

use common::{controller::Decision, prelude::*};
use jiff::Timestamp;
use job_controller::{
    jobs::{
        JobController,
        decide::decide,
        plan::{JobSyncPlan, Plan, ScalingDecision},
        snapshot::{DecisionSettings, FailureRecord, SharedPod, Snapshot},
    },
    objects::{JOBS, Job},
};
use proptest::prelude::*;
use serde_json::{Value, json};
use testkit::bounds::{any_number, any_of};

use crate::METER;

const LIMITS: DecisionSettings = DecisionSettings {
    max_uncounted_pods: 500,
    max_pods_per_sync: 500,
    pod_failure_backoff: Duration::from_secs(10),
    pod_failure_backoff_max: Duration::from_mins(10),
    sync_batch_period: Duration::from_secs(1),
    clears_start_time_on_suspend: true,
};
/// The allowed bytes in use for each byte of the Job and its Pods, with room to parse, join and write sets of indexes.
const MAX_HELD_PER_BYTE: usize = 64;
/// The allowed memory in use, in bytes, that does not depend on the input: for the Pods of one sync, and for texts.
const MAX_HELD_CONSTANT: usize = 1 << 20;
/// The allowed sum of allocations, freed ones included, in bytes for each byte of input. Work proportional to a number in a
/// `spec` would exceed this limit by far. The limit is twice the sum for a failed Job, whose Pods are counted up to three times.
const MAX_TOTAL_PER_BYTE: usize = 80;
/// The allowed sum of allocations, in bytes for each Pod to create; a sync creates at most 500 Pods.
const MAX_TOTAL_PER_CREATE: usize = 2 << 10;
/// The allowed sum of allocations, in bytes, that does not depend on the input.
const MAX_TOTAL_CONSTANT: usize = 96 << 10;

/// Generates valid numbers, mostly large ones.
fn valid() -> impl Strategy<Value = Value> {
    any_of(&[json!(0), json!(3), json!(100_000), json!(i32::MAX), json!(null)])
}

/// Generates texts of index sets, up to a megabyte.
fn indexes() -> impl Strategy<Value = Value> {
    let odd = |count: u32| (0..count).map(|i| (2 * i + 1).to_string()).collect::<Vec<_>>().join(",");
    let runs = |count: u32| (0..count).map(|i| format!("{}-{}", 10 * i, 10 * i + 5)).collect::<Vec<_>>().join(",");
    prop_oneof![
        4 => Just(json!(null)),
        2 => Just(json!("0-2147483646")),
        1 => Just(json!("0-99999999999999999999")),
        1 => Just(json!("2147483645,2147483646")),
        1 => Just(json!("9-1,x,-,,--,7-")),
        1 => Just(Value::from(odd(130_000))),
        1 => Just(Value::from(runs(60_000))),
        1 => Just(Value::from(",".repeat(1 << 20))),
    ]
}

fn uids() -> impl Strategy<Value = Value> {
    let uids =
        |count: usize| (0..count).map(|i| json!(format!("2ff731ae-b0d1-491c-a286-{i:012x}"))).collect::<Vec<_>>();
    prop_oneof![3 => Just(json!(null)), 1 => Just(json!(uids(3))), 1 => Just(json!(uids(20_000)))]
}

fn policies() -> impl Strategy<Value = (Value, Value)> {
    let codes: Vec<i32> = (1..=255).collect();
    let failure =
        json!({"rules": vec![json!({"action": "Count", "onExitCodes": {"operator": "NotIn", "values": codes}}); 20]});
    let success = json!({"rules": vec![json!({"succeededIndexes": "0-2147483646", "succeededCount": i32::MAX}); 20]});
    let one = |policy: Value| prop_oneof![2 => Just(json!(null)), 1 => Just(policy)];
    (one(failure), one(success))
}

fn time() -> impl Strategy<Value = Value> {
    any_of(&[json!(null), json!("0001-01-01T00:00:00Z"), json!("2026-11-21T09:00:00Z"), json!("9999-12-30T22:00:00Z")])
}

/// Generates a Job with valid numbers, or with any numbers if `valid_only` is false.
fn job(valid_only: bool) -> impl Strategy<Value = Value> {
    let value = move || if valid_only { valid().boxed() } else { any_number().boxed() };
    let seconds = any_of(&[json!(null), json!(0), json!(i32::MAX), json!(i64::MAX)]);
    let spec = (value(), value(), value(), value(), value(), seconds, any::<[bool; 4]>(), policies());
    let status = (value(), value(), indexes(), indexes(), uids(), uids(), time());
    (spec, status).prop_map(|(spec, status)| {
        let (parallelism, completions, limit, per_index, most, seconds, [indexed, suspend, decided, restarts], policies) = spec;
        let (succeeded, failed, completed, given_up, named, lost, started) = status;
        let conditions = if decided { json!([{"type": "FailureTarget", "status": "True", "reason": "R"}]) } else { json!([]) };
        json!({
            "metadata": {"name": "bad", "namespace": "shop", "uid": "u-bad", "resourceVersion": "5"},
            "spec": {"parallelism": parallelism, "completions": completions, "backoffLimit": limit,
                "backoffLimitPerIndex": per_index, "maxFailedIndexes": most, "activeDeadlineSeconds": seconds,
                "ttlSecondsAfterFinished": seconds, "suspend": suspend,
                "completionMode": if indexed { "Indexed" } else { "NonIndexed" },
                "podFailurePolicy": policies.0, "successPolicy": policies.1,
                "selector": {"matchLabels": {"u": "u-bad"}},
                "template": {"metadata": {"labels": {"u": "u-bad"}},
                    "spec": {"restartPolicy": if restarts { "OnFailure" } else { "Never" }, "terminationGracePeriodSeconds": i64::MAX}}},
            "status": {"succeeded": succeeded, "failed": failed, "completedIndexes": completed, "failedIndexes": given_up,
                "uncountedTerminatedPods": {"succeeded": named, "failed": lost}, "startTime": started, "conditions": conditions},
        })
    })
}

fn pods() -> impl Strategy<Value = Vec<Value>> {
    let index = any_of(&["", "0", "1", "7", "2147483646", "2147483647", "99999999999", "-1"]);
    let failures = any_of(&["0", "5", "2147483647", "99999999999", "x"]);
    let phase = any_of(&["Pending", "Running", "Succeeded", "Failed", "Odd"]);
    let pod = (index, failures, phase, any::<bool>(), any::<bool>(), any_of(&[0, i32::MAX]));
    let pod = pod.prop_map(|(index, failures, phase, going, tracked, restarts)| {
        let exited = json!({"exitCode": i32::MAX, "finishedAt": "9999-12-30T22:00:00Z"});
        json!({
            "metadata": {"namespace": "shop", "labels": {"u": "u-bad"}, "resourceVersion": "7",
                "annotations": {"batch.kubernetes.io/job-completion-index": index,
                    "batch.kubernetes.io/job-index-failure-count": failures,
                    "batch.kubernetes.io/job-index-ignored-failure-count": failures},
                "finalizers": if tracked { json!(["batch.kubernetes.io/job-tracking"]) } else { json!([]) },
                "deletionTimestamp": if going { json!("2026-11-21T09:00:00Z") } else { json!(null) },
                "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "bad", "uid": "u-bad", "controller": true}]},
            "spec": {},
            "status": {"phase": phase,
                "containerStatuses": [{"name": "c", "restartCount": restarts, "state": {"terminated": exited}}]},
        })
    });
    prop::collection::vec(pod, 0..12).prop_map(|mut pods| {
        for (at, pod) in pods.iter_mut().enumerate() {
            pod["metadata"]["name"] = json!(format!("bad-{at}"));
            pod["metadata"]["uid"] = json!(format!("2ff731ae-b0d1-491c-a286-{at:012x}"));
        }
        pods
    })
}

fn snapshot(job: Job, pods: &[Value]) -> Snapshot {
    let owner = Owner::new(JOBS, &job.metadata);
    let keep: Vec<SharedPod> =
        pods.iter().map(|pod| Arc::new(serde_json::from_str(&pod.to_string()).unwrap())).collect();
    Snapshot {
        owner,
        pod_claims: DependentClaims { to_keep: keep, ..DependentClaims::default() },
        unselected_pods: Vec::new(),
        pod_uids_with_removed_finalizer: Arc::default(),
        pod_finish_first_seen_at: Arc::default(),
        failure_record: FailureRecord { failure_count_since_success: u32::MAX, last_failure_at: Some(Timestamp::MAX) },
        scheduling_objects: None,
        pod_creation_pause: None,
        pending_writes: None,
        decision_settings: LIMITS,
        now: "2026-11-21T09:00:00Z".parse().unwrap(),
        job: Arc::new(job),
    }
}

/// Decodes the Job, decides about it, explains the plan, and checks the limits. Returns whether the Job can be decoded.
fn is_read_at_bounded_cost(job: &Value, pods: &[Value]) -> Result<bool, TestCaseError> {
    let text = job.to_string();
    let size = text.len() + pods.iter().map(|pod| pod.to_string().len()).sum::<usize>();
    let decide = || {
        let job = serde_json::from_str::<Job>(&text).ok()?;
        let snapshot = snapshot(job, pods);
        let plan = decide(&snapshot);
        let explained = Decision::<JobController>::with_forecast(&snapshot, snapshot.now).explain();
        Some((plan, explained))
    };
    let limited = || METER.limited(size * MAX_HELD_PER_BYTE + MAX_HELD_CONSTANT, decide);
    let ((plan, held), total) = METER.total(|| METER.held(limited));
    let creates = |plan: &Plan| match &plan.sync_plan {
        Ok(JobSyncPlan { scaling_decision: ScalingDecision::Create { pods, .. }, .. }) => pods.len(),
        _ => 0,
    };
    let pods_created = plan.as_ref().map_or(0, |(plan, _)| creates(plan));
    let bound = size * MAX_TOTAL_PER_BYTE + pods_created * MAX_TOTAL_PER_CREATE + MAX_TOTAL_CONSTANT;
    prop_assert!(total <= bound, "{total} bytes in total for {size} and {pods_created} Pods to create");
    if let Some((plan, explained)) = &plan {
        prop_assert!(held <= size * MAX_HELD_PER_BYTE / 2 + MAX_HELD_CONSTANT, "{held} bytes for a plan about {size}");
        prop_assert!(explained.actions.iter().chain(&explained.waiting).all(|line| line.len() < 4096));
        let victims = plan.sync_plan.as_ref().map_or(0, |sync| sync.scaling_decision.pods_to_delete().len());
        prop_assert!(pods_created <= LIMITS.max_pods_per_sync && victims <= pods.len());
    }
    Ok(plan.is_some())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    fn any_the_cost_of_a_job_is_proportional_to_its_size(
        (valid, job) in any::<bool>().prop_flat_map(|valid| (Just(valid), job(valid))),
        pods in pods(),
    ) {
        let read = is_read_at_bounded_cost(&job, &pods)?;
        // Servers reject an Indexed Job without completions.
        prop_assert!(read || !valid || job["spec"]["completions"].is_null());
    }
}

/// JOB-67.
#[test]
fn the_cost_of_a_job_is_proportional_to_its_size() {
    // Generated values take memory, too.
    let _alone = METER.alone();
    any_the_cost_of_a_job_is_proportional_to_its_size();
}
