//! The oracles of Jobs.

use super::{
    Actor::{Impostor, User},
    *,
};

const ORACLES: Oracles = Oracles("job");
const CONTROLLER: Actor = Impostor("job-controller");
const JOBS: &str = "jobs.batch";
const PODS: &str = "pods";
const INDEX: &str = "batch.kubernetes.io/job-completion-index";
const TIME: &str = "2026-11-21T10:00:00Z";

/// A Job of two Pods, both at once.
fn job(spec: Value) -> Act {
    User.creates(move |_| {
        let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "sum"},
            "spec": {"completions": 2, "parallelism": 2, "template":
                {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "img:1"}]}}}});
        with_spec(job, &spec)
    })
}

fn indexed(mut spec: Value) -> Act {
    spec["completionMode"] = json!("Indexed");
    job(spec)
}

fn sum(world: &World) -> &Value {
    world.get(JOBS, "default", "sum").unwrap()
}

/// A Pod of the Job that runs until it is deleted.
fn member(world: &World, name: &str) -> Value {
    let job = sum(world);
    let mut pod = job["spec"]["template"].clone();
    pod["apiVersion"] = json!("v1");
    pod["kind"] = json!("Pod");
    pod["metadata"]["name"] = json!(name);
    pod["metadata"]["finalizers"] = json!(["batch.kubernetes.io/job-tracking"]);
    pod["metadata"]["ownerReferences"] = controlled_by(job);
    pod
}

fn creates_with(name: &'static str, change: impl Fn(&mut Value) + 'static) -> Act {
    CONTROLLER.creates(move |world| {
        let mut pod = member(world, name);
        change(&mut pod);
        pod
    })
}

fn creates(name: &'static str) -> Act {
    creates_with(name, |_| ())
}

/// A Pod whose container exits with that code.
fn creates_ending(name: &'static str, code: &'static str) -> Act {
    creates_with(name, move |pod| pod["metadata"]["annotations"] = json!({"sim/exit": code, "sim/after": "1"}))
}

fn set_index(pod: &mut Value, index: &str) {
    pod["metadata"]["annotations"][INDEX] = json!(index);
    pod["metadata"]["labels"][INDEX] = json!(index);
    pod["spec"]["hostname"] = json!(format!("sum-{index}"));
}

fn creates_for(name: &'static str, index: &'static str) -> Act {
    creates_with(name, move |pod| set_index(pod, index))
}

fn untracks(name: &'static str) -> Act {
    CONTROLLER.patches(PODS, name, json!({"metadata": {"finalizers": null}}))
}

fn says(status: Value) -> Act {
    CONTROLLER.patches_status(JOBS, "sum", status)
}

/// Names Pods in the list of those that have succeeded or failed, and are not counted yet.
fn names(list: &'static str, pods: &'static [&'static str]) -> Act {
    CONTROLLER.acts(move |world| {
        let uid = |pod: &&str| uid(world.get(PODS, "default", pod).unwrap()).to_owned();
        let uids: Vec<String> = pods.iter().map(uid).collect();
        let patch = json!({"status": {"uncountedTerminatedPods": {list: uids}}});
        What::MergeStatus(JOBS.to_owned(), "sum".to_owned(), patch)
    })
}

/// Empties the lists, with so many Pods that have succeeded.
fn counts_succeeded(pods: i64) -> Act {
    says(json!({"uncountedTerminatedPods": null, "succeeded": pods}))
}

fn conditions(kinds: &[&str]) -> Value {
    let condition =
        |kind: &&str| json!({"type": kind, "status": "True", "lastTransitionTime": TIME, "lastProbeTime": TIME});
    kinds.iter().map(condition).collect()
}

fn succeeds() -> Act {
    says(json!({"startTime": TIME, "conditions": conditions(&["SuccessCriteriaMet"])}))
}

fn completes() -> Act {
    let conditions = conditions(&["SuccessCriteriaMet", "Complete"]);
    says(json!({"startTime": TIME, "completionTime": TIME, "conditions": conditions}))
}

fn suspends() -> Act {
    User.patches(JOBS, "sum", json!({"spec": {"suspend": true}}))
}

#[test]
fn pods_that_are_counted_twice_or_not_at_all_are_noticed() {
    let oracle = "counts-each-pod-once";
    let world = [job(json!({})), creates_ending("a", "0"), names("succeeded", &["a"])];
    ORACLES.notice(oracle, &[job(json!({}))], &[says(json!({"failed": 1}))]);
    ORACLES.notice(oracle, &world, &[counts_succeeded(0)]);
    ORACLES.notice(oracle, &world, &[counts_succeeded(1), names("succeeded", &["a"])]);
    ORACLES.notice(oracle, &[indexed(json!({}))], &[says(json!({"succeeded": 1}))]);
    ORACLES.allow(oracle, &world, &[counts_succeeded(1)]);
}

#[test]
fn pods_that_count_as_what_they_are_not_are_noticed() {
    let oracle = "counts-what-happened";
    for list in ["succeeded", "failed"] {
        ORACLES.notice(oracle, &[job(json!({})), creates("a")], &[names(list, &["a"])]);
        let nobody = says(json!({"uncountedTerminatedPods": {list: ["6c3cbd2f-8c0f-4a8e-a4f6-5d3f0a0f0001"]}}));
        ORACLES.notice(oracle, &[job(json!({}))], &[nobody]);
    }
    ORACLES.allow(oracle, &[job(json!({})), creates_ending("a", "0")], &[names("succeeded", &["a"])]);
    ORACLES.allow(oracle, &[job(json!({})), creates_ending("a", "1")], &[names("failed", &["a"])]);
    let running = [indexed(json!({"backoffLimitPerIndex": 0})), creates_for("a", "0")];
    ORACLES.notice(oracle, &running, &[says(json!({"completedIndexes": "0", "succeeded": 1}))]);
    ORACLES.notice(oracle, &running, &[says(json!({"failedIndexes": "0"}))]);
}

#[test]
fn finalizers_that_go_before_their_pods_are_named_are_noticed() {
    let oracle = "finalizers-go-last";
    let world = [job(json!({})), creates_ending("a", "0")];
    ORACLES.notice(oracle, &world, &[untracks("a")]);
    ORACLES.notice(oracle, &[job(json!({})), creates("a")], &[untracks("a")]);
    ORACLES.allow(oracle, &world, &[names("succeeded", &["a"]), untracks("a")]);
}

#[test]
fn pods_that_are_counted_before_their_finalizers_go_are_noticed() {
    let oracle = "finalizers-go-before-it-counts";
    let world = [job(json!({})), creates_ending("a", "0"), names("succeeded", &["a"])];
    ORACLES.notice(oracle, &world, &[counts_succeeded(1)]);
    ORACLES.allow(oracle, &world, &[untracks("a"), counts_succeeded(1)]);
}

#[test]
fn statuses_that_name_too_many_pods_are_noticed() {
    let some = |count: usize| {
        let uids: Vec<String> = (0..count).map(|n| n.to_string()).collect();
        says(json!({"uncountedTerminatedPods": {"succeeded": uids}}))
    };
    for (oracles, oracle, most) in [(ORACLES, "lists-are-sound", 500), (Oracles("job-capped"), "lists-are-short", 2)] {
        oracles.notice(oracle, &[job(json!({})), some(most)], &[some(most + 1)]);
    }
}

#[test]
fn ends_that_are_not_announced_or_are_taken_back_are_noticed() {
    let world = [job(json!({}))];
    ORACLES.notice("the-end-is-announced", &world, &[completes()]);
    ORACLES.allow("the-end-is-announced", &world, &[succeeds(), completes()]);
    ORACLES.notice("the-end-is-final", &world, &[succeeds(), completes(), says(json!({"failed": 1}))]);
    let mut other = conditions(&["SuccessCriteriaMet"]);
    other[0]["reason"] = json!("SecondThoughts");
    ORACLES.notice("the-end-is-final", &world, &[succeeds(), says(json!({ "conditions": other }))]);
}

#[test]
fn pods_for_a_job_that_does_not_run_are_noticed() {
    let oracle = "creates-only-for-the-running";
    let world = [job(json!({}))];
    for stops in [vec![suspends()], vec![succeeds()], terminating(JOBS, "sum")] {
        ORACLES.notice(oracle, &world, &[stops, vec![creates("a")]].concat());
    }
    ORACLES.allow(oracle, &world, &[creates("a")]);
}

#[test]
fn pods_beyond_what_the_job_wants_are_noticed() {
    let oracle = "creates-what-is-wanted";
    ORACLES.notice(oracle, &[job(json!({"parallelism": 1})), creates("a")], &[creates("b")]);
    ORACLES.notice(oracle, &[job(json!({})), creates_ending("a", "0"), creates("b")], &[creates("c")]);
    for (policy, violates) in [("Failed", true), ("TerminatingOrFailed", false)] {
        let job = job(json!({"parallelism": 1, "podReplacementPolicy": policy}));
        let slow = creates_with("a", |pod| pod["metadata"]["annotations"] = json!({"sim/terminate-after": "600"}));
        let slow = [job, slow, User.deletes_with(PODS, "a", json!({"gracePeriodSeconds": 600}))];
        let check = if violates { Oracles::notice } else { Oracles::allow };
        check(&ORACLES, oracle, &slow, &[creates("b")]);
    }
}

#[test]
fn pods_of_wrong_indexes_are_noticed() {
    let (oracle, world) = ("one-pod-an-index", [indexed(json!({"parallelism": 1}))]);
    ORACLES.notice(oracle, &world, &[creates("a")]);
    ORACLES.notice(oracle, &world, &[creates_for("a", "2")]);
    ORACLES.notice(oracle, &world, &[creates_for("a", "1")]);
    ORACLES.notice(oracle, &world, &[creates_for("a", "0"), creates_for("b", "0")]);
    let done = says(json!({"completedIndexes": "0", "succeeded": 1}));
    ORACLES.notice(oracle, &world, &[done, creates_for("a", "0")]);
    ORACLES.allow(oracle, &world, &[creates_for("a", "0"), creates_for("b", "1")]);
}

#[test]
fn pods_without_what_makes_them_the_jobs_are_noticed() {
    let oracle = "pods-are-born-tracked";
    for change in [
        (|pod: &mut Value| pod["metadata"]["finalizers"] = json!([])) as fn(&mut Value),
        |pod| pod["metadata"]["labels"] = json!({}),
        |pod| pod["metadata"]["ownerReferences"] = json!([]),
        |pod| pod["metadata"]["labels"][INDEX] = json!("1"),
        |pod| pod["spec"]["hostname"] = json!("sum"),
    ] {
        let wrong = creates_with("a", move |pod| {
            set_index(pod, "0");
            change(pod);
        });
        ORACLES.notice(oracle, &[indexed(json!({}))], &[wrong]);
    }
    ORACLES.allow(oracle, &[indexed(json!({}))], &[creates_for("a", "0")]);
}

#[test]
fn pods_that_are_deleted_for_no_reason_are_noticed() {
    let oracle = "deletes-for-a-reason";
    let world = [job(json!({})), creates("a")];
    let deletes = || CONTROLLER.deletes(PODS, "a");
    ORACLES.notice(oracle, &world, &[deletes()]);
    let gone = [vec![suspends()], terminating(JOBS, "sum"), vec![deletes()]].concat();
    ORACLES.notice(oracle, &world, &gone);
    ORACLES.notice(oracle, &[User.creates(|_| pod("a", json!([])))], &[deletes()]);
    ORACLES.allow(oracle, &world, &[suspends(), deletes()]);
    ORACLES.allow(oracle, &world, &[creates("b"), creates("c"), deletes()]);
}

#[test]
fn writes_for_a_job_that_another_controller_manages_are_noticed() {
    let world = [job(json!({"managedBy": "example.com/other"}))];
    for act in [creates("a"), says(json!({"active": 0, "ready": 0}))] {
        ORACLES.notice("foreign-jobs-are-untouched", &world, std::slice::from_ref(&act));
        ORACLES.allow("foreign-jobs-are-untouched", &[job(json!({}))], &[act]);
    }
}

#[test]
fn pods_of_others_and_wrong_releases_and_adoptions_are_noticed() {
    let oracle = "foreign-pods-are-untouched";
    let world = [job(json!({})), creates("a")];
    let disowns = || json!({"metadata": {"ownerReferences": null}});
    let annotates = CONTROLLER.patches(PODS, "a", json!({"metadata": {"annotations": {"a": "b"}}}));
    ORACLES.notice(oracle, &[User.creates(|_| pod("a", controlled_by_another("ReplicaSet")))], &[annotates]);
    ORACLES.notice(oracle, &world, &[CONTROLLER.patches(PODS, "a", disowns())]);
    let adopts = CONTROLLER
        .acts(|world| What::merge(PODS, "a", json!({"metadata": {"ownerReferences": controlled_by(sum(world))}})));
    let orphan = [&world[..], &[User.patches(PODS, "a", disowns())]].concat();
    ORACLES.notice(oracle, &orphan, &[terminating(JOBS, "sum"), vec![adopts.clone()]].concat());
    ORACLES.notice(oracle, &[job(json!({})), User.creates(|_| pod("a", json!([])))], std::slice::from_ref(&adopts));
    ORACLES.allow(oracle, &orphan, &[adopts]);
}

#[test]
fn jobs_that_are_removed_too_soon_are_noticed() {
    let removes = CONTROLLER.deletes_with(JOBS, "sum", json!({"propagationPolicy": "Foreground"}));
    let finished = |spec: Value| [job(spec), succeeds(), completes(), removes.clone()];
    let [early, late, kept] =
        [json!({"ttlSecondsAfterFinished": 60}), json!({"ttlSecondsAfterFinished": 20}), json!({})];
    ORACLES.notice("removed-in-time", &[], &finished(early));
    ORACLES.notice("removed-in-time", &[], &finished(kept));
    ORACLES.notice("removed-in-time", &[job(json!({"ttlSecondsAfterFinished": 0}))], std::slice::from_ref(&removes));
    ORACLES.allow("removed-in-time", &[], &finished(late));
}

#[test]
fn a_job_that_is_left_unfinished_or_says_otherwise_is_noticed() {
    let oracle = "jobs-get-there";
    let world = [job(json!({})), creates("a"), creates("b"), says(json!({"active": 2}))];
    for wrong in [
        says(json!({"active": 1})),
        says(json!({"terminating": 1})),
        says(json!({"uncountedTerminatedPods": {"failed": ["somebody"]}})),
        succeeds(),
        suspends(),
        User.deletes(PODS, "b"),
    ] {
        ORACLES.notice(oracle, &world, &[wrong]);
    }
    ORACLES.notice(oracle, &world, &terminating(JOBS, "sum"));
    ORACLES.notice(oracle, &[], &[job(json!({}))]);
}

#[test]
fn counts_that_no_pod_accounts_for_are_noticed() {
    let counted = |count| User.patches_status(JOBS, "sum", json!({"succeeded": count}));
    ORACLES.notice("counts-are-the-truth", &[job(json!({}))], &[counted(1)]);
    let world = [job(json!({})), creates_ending("a", "0")];
    let oracle = "counts-what-became-of-pods";
    ORACLES.notice(oracle, &world, &[untracks("a")]);
    ORACLES.notice(oracle, &world, &[counted(1)]);
    ORACLES.allow(oracle, &world, &[untracks("a"), counted(1)]);
    ORACLES.notice(oracle, &[indexed(json!({}))], &[says(json!({"completedIndexes": "0", "succeeded": 1}))]);
}

#[test]
fn finalizers_that_nobody_takes_away_are_noticed() {
    let oracle = "no-finalizer-is-left";
    ORACLES.notice(oracle, &[job(json!({}))], &[creates_ending("a", "0")]);
    let gone = User.deletes_with(JOBS, "sum", json!({"propagationPolicy": "Background"}));
    ORACLES.notice(oracle, &[job(json!({})), creates("a")], &[gone]);
}

/// Jobs whose Pods are scheduled as a gang.
mod gang {
    use super::*;

    const ORACLES: Oracles = Oracles("job-gang");

    /// A Workload of the Job, or a `PodGroup`.
    fn creates_one(kind: &'static str, name: &'static str, spec: Value, owner: fn(&World) -> Value) -> Act {
        CONTROLLER.creates(move |world| {
            json!({"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": kind, "spec": spec,
                "metadata": {"name": name, "ownerReferences": owner(world)}})
        })
    }

    fn of_sum(world: &World) -> Value {
        controlled_by(sum(world))
    }

    fn creates_workload(name: &'static str, owner: fn(&World) -> Value) -> Act {
        let template = json!({"name": "t", "schedulingPolicy": {"gang": {"minCount": 2}}});
        let reference = json!({"apiGroup": "batch", "kind": "Job", "name": "sum"});
        creates_one("Workload", name, json!({"controllerRef": reference, "podGroupTemplates": [template]}), owner)
    }

    fn creates_group(name: &'static str) -> Act {
        let reference = json!({"workload": {"workloadName": "w", "podGroupTemplateName": "t"}});
        let policy = json!({"gang": {"minCount": 2}});
        creates_one("PodGroup", name, json!({"podGroupTemplateRef": reference, "schedulingPolicy": policy}), of_sum)
    }

    #[test]
    fn gangs_that_are_made_twice_or_for_a_job_that_is_gone_are_noticed() {
        let (oracle, world) = ("gangs-are-made-once", [indexed(json!({})), creates_workload("w", of_sum)]);
        ORACLES.notice(oracle, &world, &[creates_workload("again", of_sum)]);
        ORACLES.notice(oracle, &world, &[creates_group("g"), creates_group("again")]);
        ORACLES.notice(oracle, &[], &[creates_workload("w", |_| controlled_by_another("Job"))]);
    }

    #[test]
    fn members_that_name_no_group_or_another_are_noticed() {
        let oracle = "members-name-their-group";
        let world = [indexed(json!({})), creates_workload("w", of_sum), creates_group("g")];
        let member_of = |group: Value| {
            creates_with("a", move |pod| {
                set_index(pod, "0");
                pod["spec"]["schedulingGroup"] = group.clone();
            })
        };
        for wrong in [json!(null), json!({"podGroupName": "other"})] {
            ORACLES.notice(oracle, &world, &[member_of(wrong)]);
        }
        ORACLES.allow(oracle, &world, &[member_of(json!({"podGroupName": "g"}))]);
    }
}
