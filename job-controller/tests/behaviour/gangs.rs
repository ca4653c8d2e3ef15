//! Gangs: Indexed Jobs that run all their Pods at once, with the gate `WorkloadWithJob`.

use std::time::Duration;

use common::settings::Settings;
use sandbox::{Action, Rule, Sandbox};
use serde_json::{Value, json};

use crate::world::{JOBS, ME, NS, Setup, World, job_with, name};

const WORKLOADS: &str = "workloads.scheduling.k8s.io";
const GROUPS: &str = "podgroups.scheduling.k8s.io";

async fn world() -> World {
    let settings = Settings::new().with_gate("GenericWorkload", true).with_gate("WorkloadWithJob", true);
    World::with(Setup { builder: Sandbox::builder().gate("GenericWorkload", true), settings, ..Setup::default() }).await
}

/// Builds a Job with three Pods that run at once and never finish.
fn gang(name: &str) -> Value {
    job_with(name, &[], json!({"completions": 3, "parallelism": 3, "completionMode": "Indexed"}))
}

async fn all(world: &World, resource: &str) -> Vec<Value> {
    world.sandbox.list(resource, Some(NS)).await.unwrap()
}

/// Returns the group of each Pod; null for a Pod without a group.
async fn groups_of_pods(world: &World) -> Vec<Value> {
    world.pods().await.iter().map(|pod| pod["spec"]["schedulingGroup"]["podGroupName"].clone()).collect()
}

/// JOB-64.
#[tokio::test(start_paused = true)]
async fn a_gang_gets_a_workload_a_group_and_pods_that_name_it() {
    let world = world().await;
    let job = world.apply(gang("sum")).await;
    world.settle().await;
    let (workloads, groups) = (all(&world, WORKLOADS).await, all(&world, GROUPS).await);
    let ([workload], [group]) = (&*workloads, &*groups) else { panic!("{workloads:?} {groups:?}") };
    let owner = json!({"apiVersion": "batch/v1", "kind": "Job", "name": "sum", "uid": job["metadata"]["uid"],
        "controller": true, "blockOwnerDeletion": true});
    assert_eq!(workload["metadata"]["ownerReferences"], json!([owner]));
    assert!(name(workload).starts_with("sum-"));
    let policy = json!({"gang": {"minCount": 3}});
    assert_eq!(workload["spec"]["controllerRef"], json!({"apiGroup": "batch", "kind": "Job", "name": "sum"}));
    let template = &workload["spec"]["podGroupTemplates"][0];
    assert_eq!((&template["name"], &template["schedulingPolicy"]), (&json!("sum-pgt-0"), &policy));
    let origin = json!({"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "Workload", "name": name(workload),
        "uid": workload["metadata"]["uid"]});
    assert_eq!(group["metadata"]["ownerReferences"], json!([owner, origin]));
    assert!(name(group).starts_with(&format!("{}-sum-pgt-0-", name(workload))));
    let reference = json!({"workload": {"workloadName": name(workload), "podGroupTemplateName": "sum-pgt-0"}});
    let spec = &group["spec"];
    assert_eq!((&spec["podGroupTemplateRef"], &spec["schedulingPolicy"]), (&reference, &policy));
    assert_eq!(groups_of_pods(&world).await, vec![json!(name(group)); 3]);
    let expected = format!("Normal WorkloadCreated Created Workload {} for Job sum", name(workload));
    assert!(world.events().await.contains(&expected));
    assert_eq!((world.asked("create", WORKLOADS), world.asked("create", GROUPS)), (1, 1));
}

/// JOB-64.
#[tokio::test(start_paused = true)]
async fn other_jobs_and_disabled_gates_get_no_group() {
    let on = world().await;
    on.apply(job_with("loose", &[], json!({"completions": 3, "parallelism": 2, "completionMode": "Indexed"}))).await;
    let mut grouped = gang("grouped");
    grouped["spec"]["template"]["spec"]["schedulingGroup"] = json!({"podGroupName": "mine"});
    on.apply(grouped).await;
    on.settle().await;
    assert!(all(&on, WORKLOADS).await.is_empty() && all(&on, GROUPS).await.is_empty());
    let mut groups = groups_of_pods(&on).await;
    groups.sort_by_key(ToString::to_string);
    assert_eq!(groups, [json!("mine"), json!("mine"), json!("mine"), Value::Null, Value::Null]);

    let builder = Sandbox::builder().gate("GenericWorkload", true);
    let off = World::with(Setup { builder, ..Setup::default() }).await;
    off.apply(gang("sum")).await;
    off.settle().await;
    assert!(all(&off, WORKLOADS).await.is_empty());
    assert_eq!(groups_of_pods(&off).await, vec![Value::Null; 3]);
    assert_eq!(off.asked("list", WORKLOADS) + off.asked("watch", WORKLOADS), 0, "they are not watched");
}

#[tokio::test(start_paused = true)]
async fn a_suspended_gang_has_its_group_before_it_has_pods() {
    let world = world().await;
    let mut job = gang("sum");
    job["spec"]["suspend"] = json!(true);
    world.apply(job).await;
    world.settle().await;
    let groups = all(&world, GROUPS).await;
    assert_eq!((groups.len(), world.pods().await.len()), (1, 0));
    world.change("sum", json!({"suspend": false})).await;
    world.settle().await;
    assert_eq!(groups_of_pods(&world).await, vec![json!(name(&groups[0])); 3]);
    assert_eq!((world.asked("create", WORKLOADS), world.asked("create", GROUPS)), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_deleted_group_is_created_again_and_a_restart_creates_nothing() {
    let mut world = world().await;
    world.apply(gang("sum")).await;
    world.settle().await;
    world.crash();
    world.start();
    world.settle().await;
    world.poke("sum").await;
    world.settle().await;
    assert_eq!((world.asked("create", WORKLOADS), world.asked("create", GROUPS)), (1, 1));
    let group = all(&world, GROUPS).await.remove(0);
    world.merge(GROUPS, name(&group), json!({"metadata": {"finalizers": null}})).await;
    world.sandbox.delete(GROUPS, Some(NS), name(&group)).await.unwrap();
    world.poke("sum").await;
    world.settle().await;
    let again = all(&world, GROUPS).await;
    assert_eq!(name(&again[0]), name(&group));
    assert_ne!(again[0]["metadata"]["uid"], group["metadata"]["uid"]);
    assert_eq!(world.asked("create", WORKLOADS), 1);
}

/// JOB-65.
#[tokio::test(start_paused = true)]
async fn a_job_started_before_the_gate_was_on_gets_no_group() {
    let builder = Sandbox::builder().gate("GenericWorkload", true);
    let mut world = World::with(Setup { builder, ..Setup::default() }).await;
    world.apply(gang("sum")).await;
    world.settle().await;
    world.crash();
    world.switch("GenericWorkload", true);
    world.switch("WorkloadWithJob", true);
    world.start();
    world.settle().await;
    let pod = name(&world.pods().await[0]).to_owned();
    world.sandbox.delete("pods", Some(NS), &pod).await.unwrap();
    world.wait(60).await;
    assert_eq!(groups_of_pods(&world).await, vec![Value::Null; 3], "one was replaced");
    assert!(all(&world, WORKLOADS).await.is_empty());
    let explained = format!("{:?}", world.loops.as_ref().unwrap().explain(Some("shop/sum")));
    assert!(explained.contains("one by one, not as a gang: no Workload refers to the Job"), "{explained}");
}

/// JOB-65.
#[tokio::test(start_paused = true)]
async fn a_workload_of_another_writer_is_not_changed() {
    let world = world().await;
    let reference = json!({"apiGroup": "batch", "kind": "Job", "name": "sum"});
    let templates = json!([{"name": "t", "schedulingPolicy": {"basic": {}}}]);
    let mine = json!({"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "Workload",
        "metadata": {"name": "mine", "namespace": NS}, "spec": {"controllerRef": reference, "podGroupTemplates": templates}});
    world.apply(mine).await;
    world.settle().await;
    world.apply(gang("sum")).await;
    world.settle().await;
    assert_eq!((all(&world, WORKLOADS).await.len(), all(&world, GROUPS).await.len()), (1, 0));
    assert_eq!(groups_of_pods(&world).await, vec![Value::Null; 3]);
}

/// JOB-87.
#[tokio::test(start_paused = true)]
async fn leftovers_of_a_deleted_job_are_not_used() {
    let world = world().await;
    world.apply(gang("sum")).await;
    world.settle().await;
    // No garbage collector runs here, so the Workload and the group of the deleted Job stay.
    world.remove("sum", "Background").await;
    world.apply(gang("sum")).await;
    world.settle().await;
    let (workloads, groups) = (all(&world, WORKLOADS).await, all(&world, GROUPS).await);
    assert_eq!((workloads.len(), groups.len()), (2, 2));
    let job = world.get(JOBS, "sum").await;
    let ours = groups.iter().find(|group| group["metadata"]["ownerReferences"][0]["uid"] == job["metadata"]["uid"]);
    let named = groups_of_pods(&world).await;
    assert_eq!(named.iter().filter(|group| **group == name(ours.unwrap())).count(), 3);
}

/// If a create of a Workload or `PodGroup` fails, one object of each kind exists in the end, and every Pod names the group.
/// JOB-64.
#[tokio::test(start_paused = true)]
async fn faults_leave_one_workload_and_one_group() {
    for fault in [Action::CutBefore, Action::CutAfter, Action::InternalError] {
        for (resource, plural) in [(WORKLOADS, "workloads"), (GROUPS, "podgroups")] {
            for crash in [false, true] {
                let mut world = world().await;
                let rule = Rule::new(fault.clone()).identity(ME).verb("create").resource(plural);
                world.sandbox.faults().add(rule.times(1));
                world.apply(gang("sum")).await;
                if crash {
                    while world.asked("create", resource) == 0 {
                        world.clock.sleep(Duration::from_millis(1)).await;
                    }
                    world.crash();
                    world.wait(1).await;
                    world.start();
                }
                world.settle().await;
                let what = format!("{fault:?} of {resource}, crash: {crash}");
                assert_eq!(world.sandbox.faults().hits(&fault), 1, "{what}");
                let (workloads, groups) = (all(&world, WORKLOADS).await, all(&world, GROUPS).await);
                assert_eq!((workloads.len(), groups.len()), (1, 1), "{what}");
                assert_eq!(groups_of_pods(&world).await, vec![json!(name(&groups[0])); 3], "{what}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_taken_name_blocks_the_job_and_is_reported() {
    let world = world().await;
    // The name of the Workload depends on the Job's UID. So the Job is created first, then another Workload with that name and
    // without a reference to the Job, and then the Job is resumed.
    let mut job = gang("sum");
    job["spec"]["suspend"] = json!(true);
    let rule = Rule::new(Action::InternalError).identity(ME).verb("create").resource("workloads");
    world.sandbox.faults().add(rule);
    world.apply(job).await;
    world.wait(3).await;
    let job = world.get(JOBS, "sum").await;
    let read = serde_json::from_value(job).unwrap();
    let taken = job_controller::jobs::decide::gang::workload_name(&read);
    let templates = json!([{"name": "t", "schedulingPolicy": {"basic": {}}}]);
    let other = json!({"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "Workload",
        "metadata": {"name": taken, "namespace": NS}, "spec": {"podGroupTemplates": templates}});
    world.apply(other).await;
    world.sandbox.faults().clear();
    world.change("sum", json!({"suspend": false})).await;
    world.wait(30).await;
    assert!(world.pods().await.is_empty());
    let explained = format!("{:?}", world.loops.as_ref().unwrap().explain(Some("shop/sum")));
    assert!(explained.contains("ensuring Workload and PodGroup for Job shop/sum: "), "{explained}");
    assert!(explained.contains("already exists"), "{explained}");
    let asked = || world.asked("create", WORKLOADS);
    let before = asked();
    while asked() == before {
        world.clock.sleep(Duration::from_millis(1)).await;
    }
    let began = world.clock.instant();
    while asked() < before + 5 {
        world.clock.sleep(Duration::from_millis(1)).await;
    }
    let took = world.clock.instant().saturating_duration_since(began);
    assert!(
        (Duration::from_millis(40)..Duration::from_millis(60)).contains(&took),
        "five attempts, 10 ms apart: {took:?}"
    );
    world.wait(1).await;
    assert_eq!(asked(), before + 5, "and no more in one sync");
    // The other Workload is deleted, so that the name is free.
    world.sandbox.delete(WORKLOADS, Some(NS), &taken).await.unwrap();
    world.wait(90).await;
    assert_eq!((all(&world, GROUPS).await.len(), world.pods().await.len()), (1, 3));
}
