//! Decisions about gangs, and the names of Workloads, templates and `PodGroups`.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::{
    jobs::{
        JobController,
        decide::{
            decide,
            gang::{is_left_over_from_deleted_job, pod_group_name, pod_group_template_name, workload_name},
        },
        plan::PodScheduling,
        snapshot::{SchedulingObjects, Snapshot},
    },
    objects::{PodGroup, Workload},
    world::{JobBuilder, SyncFixture, job, pod},
};
use common::controller::Decision;

/// Builds an owner reference to the Job with this UID, or to a `JobSet` if the UID is `u-other`.
fn owner(uid: &str) -> Value {
    let kind = if uid == "u-other" { "JobSet" } else { "Job" };
    json!([{"apiVersion": "batch/v1", "kind": kind, "name": "j", "uid": uid, "controller": true}])
}

fn workload(name: &str, owner_uid: &str, templates: usize) -> Arc<Workload> {
    let template = |n: usize| json!({"name": format!("t{n}"), "schedulingPolicy": {"gang": {"minCount": 3}}});
    let templates: Vec<Value> = (0..templates).map(template).collect();
    let json = json!({"metadata": {"name": name, "ownerReferences": owner(owner_uid)},
        "spec": {"controllerRef": {"apiGroup": "batch", "kind": "Job", "name": "j"}, "podGroupTemplates": templates}});
    Arc::new(serde_json::from_str(&json.to_string()).unwrap())
}

fn group(name: &str, owner_uid: &str) -> Arc<PodGroup> {
    let json = json!({"metadata": {"name": name, "ownerReferences": owner(owner_uid)}, "spec": {}});
    Arc::new(serde_json::from_str(&json.to_string()).unwrap())
}

/// Builds an Indexed Job that was never started and runs its three Pods at the same time, so that they can be a gang.
fn candidate() -> JobBuilder {
    job("j").indexed(3, 3).status_field("startTime", json!(null))
}

/// Describes how the Pods are scheduled; `known` are the cached Workloads and groups, or `None` with the gate off.
fn describe_scheduling(world: &SyncFixture, known: impl Into<Option<SchedulingObjects>>) -> String {
    let mut snapshot = world.snapshot();
    snapshot.scheduling_objects = known.into();
    match decide(&snapshot).sync_plan.unwrap().pod_scheduling {
        PodScheduling::OneByOne(None) => "ordinary".to_owned(),
        PodScheduling::OneByOne(Some(why)) => why.to_string(),
        PodScheduling::InPodGroup(name) => format!("group {name}"),
        PodScheduling::CreatePodGroup(workload) => format!("make of {}", workload.metadata.name),
        PodScheduling::CreateWorkloadAndPodGroup => "make both".to_owned(),
    }
}

fn known(workloads: &[Arc<Workload>], groups: &[Arc<PodGroup>]) -> SchedulingObjects {
    SchedulingObjects { workloads: workloads.to_vec(), pod_groups: groups.to_vec() }
}

/// JOB-64.
#[test]
fn only_indexed_jobs_whose_pods_all_run_at_once_are_gangs() {
    let nothing = || known(&[], &[]);
    assert_eq!(describe_scheduling(&candidate().with_pods([]), nothing()), "make both");
    assert_eq!(describe_scheduling(&candidate().with_pods([]), None), "ordinary", "the gate is off");
    assert_eq!(
        describe_scheduling(&candidate().spec_field("suspend", true).with_pods([]), nothing()),
        "make both",
        "before it is resumed"
    );
    let grouped = json!({"metadata": {"labels": {"job": "j"}}, "spec": {"schedulingGroup": {"podGroupName": "g"}}});
    for ordinary in [
        candidate().completions(Some(3), 2),
        candidate().completions(Some(1), 1),
        candidate().spec_field("completionMode", "NonIndexed"),
        candidate().completions(None, 3).spec_field("completionMode", "NonIndexed"),
        candidate().spec_field("template", grouped),
        candidate().deleting(),
    ] {
        assert_eq!(describe_scheduling(&ordinary.clone().with_pods([]), nothing()), "ordinary", "{ordinary:?}");
    }
}

/// JOB-65.
#[test]
fn a_job_that_was_started_without_a_workload_gets_none() {
    let started = "no Workload refers to the Job, and it has been started";
    let nothing = || known(&[], &[]);
    assert_eq!(describe_scheduling(&job("j").indexed(3, 3).with_pods([]), nothing()), started, "it has a start time");
    assert_eq!(describe_scheduling(&candidate().with_pods([pod("a").index(0)]), nothing()), started, "it has a Pod");
    assert_eq!(describe_scheduling(&candidate().status_field("failed", 1).with_pods([]), nothing()), started);
    assert_eq!(describe_scheduling(&candidate().status_field("succeeded", 1).with_pods([]), nothing()), started);
    let resumed = candidate().condition("Suspended", "False", "JobResumed", "Job resumed");
    let world = resumed.with_pods([]);
    assert_eq!(describe_scheduling(&world, nothing()), started);
    let snapshot = Snapshot { scheduling_objects: Some(nothing()), ..world.snapshot() };
    let explained = Decision::<JobController>::with_forecast(&snapshot, snapshot.now).explain();
    assert!(
        explained.waiting.contains(&format!("Pods are scheduled one by one, not as a gang: {started}")),
        "{explained:?}"
    );
}

/// JOB-65.
#[test]
fn existing_objects_are_used_if_they_are_as_expected() {
    let world = job("j").indexed(3, 3).with_pods([pod("a").index(0)]);
    let ours = || workload("w", "u-job", 1);
    assert_eq!(describe_scheduling(&world, known(&[ours()], &[group("g", "u-job")])), "group g");
    assert_eq!(describe_scheduling(&world, known(&[ours()], &[])), "make of w");
    for (workloads, groups, why) in [
        (vec![workload("w", "u-other", 1)], vec![], "Workload w is not controlled by the Job"),
        (vec![ours(), workload("x", "u-other", 1)], vec![], "2 Workloads refer to the Job"),
        (vec![workload("w", "u-job", 2)], vec![], "Workload w has 2 podGroupTemplates, not one"),
        (vec![workload("w", "u-job", 0)], vec![], "Workload w has 0 podGroupTemplates, not one"),
        (vec![ours()], vec![group("g", "u-other")], "PodGroup g is not controlled by the Job"),
        (vec![ours()], vec![group("g", "u-job"), group("h", "u-job")], "2 PodGroups refer to Workload w"),
    ] {
        assert_eq!(describe_scheduling(&world, known(&workloads, &groups)), why);
    }
}

/// JOB-87.
#[test]
fn leftovers_of_a_deleted_job_are_distinguished_from_objects_of_others() {
    let job = job("j").build_job();
    let owned = |api_version: &str, kind: &str, name: &str, uid: &str| {
        let owner = json!([{"apiVersion": api_version, "kind": kind, "name": name, "uid": uid, "controller": true}]);
        let meta = json!({"name": "w", "ownerReferences": owner});
        is_left_over_from_deleted_job(&serde_json::from_str(&meta.to_string()).unwrap(), &job)
    };
    assert!(owned("batch/v1", "Job", "j", "u-before"));
    assert!(!owned("batch/v1", "Job", "j", "u-job"), "it belongs to the Job");
    assert!(!owned("batch/v1", "Job", "k", "u-before") && !owned("batch/v1", "JobSet", "j", "u-before"));
    assert!(!owned("batch.volcano.sh/v1alpha1", "Job", "j", "u-before"));
    assert!(!is_left_over_from_deleted_job(&serde_json::from_str(r#"{"name": "w"}"#).unwrap(), &job));
}

/// The hash in the Workload's name equals the hash that kube-controller-manager computes for the same UID.
/// JOB-64.
#[test]
fn names_equal_upstreams_names() {
    let mut train = job("train").indexed(3, 3);
    train.0["metadata"]["uid"] = json!("40c3eb5f-df47-46a1-92e9-c2e3f0e28c4f");
    let (workload, template) = (workload_name(&train.build_job()), pod_group_template_name(&train.build_job()));
    assert_eq!((&*workload, &*template), ("train-95d665cb4", "train-pgt-0"));
    assert_eq!(pod_group_name(&workload, &template), "train-95d665cb4-train-pgt-0-6d68cdc8f7");
}

/// JOB-87.
#[test]
fn names_are_cut_to_the_maximal_length() {
    let named = |length: usize| {
        let name = "j".repeat(length);
        job(&name).indexed(3, 3).build_job()
    };
    assert_eq!(pod_group_template_name(&named(57)).len(), 63);
    assert_eq!(pod_group_template_name(&named(61)), format!("{}-pgt-0", "j".repeat(57)));
    let mut dashed = named(3);
    dashed.metadata.name = format!("{}-long", "j".repeat(56)).as_str().into();
    assert_eq!(pod_group_template_name(&dashed), format!("{}-pgt-0", "j".repeat(56)));
    assert_eq!(workload_name(&named(253)).len(), 253);
    let both = |workload: usize, template: usize| {
        let name = pod_group_name(&"w".repeat(workload), &"t".repeat(template));
        let count = |of: char| name.chars().filter(|c| *c == of).count();
        let hash = name.rsplit('-').next().unwrap().len();
        (count('w') - name[name.len() - hash..].matches('w').count(), name.len() <= 253)
    };
    assert_eq!(both(10, 10), (10, true));
    assert_eq!(both(2, 250), (2, true));
    assert!(both(250, 3).1 && both(200, 200).1);
}
