//! Gangs: Indexed Jobs that run all their Pods at the same time, with the gate `WorkloadWithJob`.

use std::time::Duration;

use common::settings::OperatorSettings;
use sandbox::{Action, Rule, Sandbox};
use serde_json::{Value, json};

use crate::world::{CONTROLLER_IDENTITY, ClusterSetup, JOBS_RESOURCE, NAMESPACE, TestCluster, job_with_spec, name};

const WORKLOADS: &str = "workloads.scheduling.k8s.io";
const GROUPS: &str = "podgroups.scheduling.k8s.io";

async fn world() -> TestCluster {
    let settings =
        OperatorSettings::new().with_feature_gate("GenericWorkload", true).with_feature_gate("WorkloadWithJob", true);
    TestCluster::with_setup(ClusterSetup {
        builder: Sandbox::builder().gate("GenericWorkload", true),
        settings,
        ..ClusterSetup::default()
    })
    .await
}

/// Builds a Job with three Pods that run at the same time and never finish.
fn gang(name: &str) -> Value {
    job_with_spec(name, &[], json!({"completions": 3, "parallelism": 3, "completionMode": "Indexed"}))
}

async fn all(world: &TestCluster, resource: &str) -> Vec<Value> {
    world.sandbox.list(resource, Some(NAMESPACE)).await.unwrap()
}

/// Returns the group of each Pod; null for a Pod without a group.
async fn groups_of_pods(world: &TestCluster) -> Vec<Value> {
    world.pods().await.iter().map(|pod| pod["spec"]["schedulingGroup"]["podGroupName"].clone()).collect()
}

/// JOB-64.
#[tokio::test(start_paused = true)]
async fn a_gang_gets_a_workload_a_group_and_pods_that_name_it() {
    let world = world().await;
    let job = world.create_object(gang("sum")).await;
    world.wait_until_settled().await;
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
    assert_eq!((world.request_count("create", WORKLOADS), world.request_count("create", GROUPS)), (1, 1));
}

/// JOB-64.
#[tokio::test(start_paused = true)]
async fn other_jobs_and_disabled_gates_get_no_group() {
    let on = world().await;
    on.create_object(job_with_spec(
        "loose",
        &[],
        json!({"completions": 3, "parallelism": 2, "completionMode": "Indexed"}),
    ))
    .await;
    let mut grouped = gang("grouped");
    grouped["spec"]["template"]["spec"]["schedulingGroup"] = json!({"podGroupName": "mine"});
    on.create_object(grouped).await;
    on.wait_until_settled().await;
    assert!(all(&on, WORKLOADS).await.is_empty() && all(&on, GROUPS).await.is_empty());
    let mut groups = groups_of_pods(&on).await;
    groups.sort_by_key(ToString::to_string);
    assert_eq!(groups, [json!("mine"), json!("mine"), json!("mine"), Value::Null, Value::Null]);

    let builder = Sandbox::builder().gate("GenericWorkload", true);
    let off = TestCluster::with_setup(ClusterSetup { builder, ..ClusterSetup::default() }).await;
    off.create_object(gang("sum")).await;
    off.wait_until_settled().await;
    assert!(all(&off, WORKLOADS).await.is_empty());
    assert_eq!(groups_of_pods(&off).await, vec![Value::Null; 3]);
    assert_eq!(off.request_count("list", WORKLOADS) + off.request_count("watch", WORKLOADS), 0, "they are not watched");
}

#[tokio::test(start_paused = true)]
async fn a_suspended_gang_has_its_group_before_it_has_pods() {
    let world = world().await;
    let mut job = gang("sum");
    job["spec"]["suspend"] = json!(true);
    world.create_object(job).await;
    world.wait_until_settled().await;
    let groups = all(&world, GROUPS).await;
    assert_eq!((groups.len(), world.pods().await.len()), (1, 0));
    world.patch_job_spec("sum", json!({"suspend": false})).await;
    world.wait_until_settled().await;
    assert_eq!(groups_of_pods(&world).await, vec![json!(name(&groups[0])); 3]);
    assert_eq!((world.request_count("create", WORKLOADS), world.request_count("create", GROUPS)), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_deleted_group_is_created_again_and_a_restart_creates_nothing() {
    let mut world = world().await;
    world.create_object(gang("sum")).await;
    world.wait_until_settled().await;
    world.crash_loops();
    world.start();
    world.wait_until_settled().await;
    world.touch_job("sum").await;
    world.wait_until_settled().await;
    assert_eq!((world.request_count("create", WORKLOADS), world.request_count("create", GROUPS)), (1, 1));
    let group = all(&world, GROUPS).await.remove(0);
    world.merge(GROUPS, name(&group), json!({"metadata": {"finalizers": null}})).await;
    world.sandbox.delete(GROUPS, Some(NAMESPACE), name(&group)).await.unwrap();
    world.touch_job("sum").await;
    world.wait_until_settled().await;
    let again = all(&world, GROUPS).await;
    assert_eq!(name(&again[0]), name(&group));
    assert_ne!(again[0]["metadata"]["uid"], group["metadata"]["uid"]);
    assert_eq!(world.request_count("create", WORKLOADS), 1);
}

/// JOB-65.
#[tokio::test(start_paused = true)]
async fn a_job_started_before_the_gate_was_on_gets_no_group() {
    let builder = Sandbox::builder().gate("GenericWorkload", true);
    let mut world = TestCluster::with_setup(ClusterSetup { builder, ..ClusterSetup::default() }).await;
    world.create_object(gang("sum")).await;
    world.wait_until_settled().await;
    world.crash_loops();
    world.set_gate("GenericWorkload", true);
    world.set_gate("WorkloadWithJob", true);
    world.start();
    world.wait_until_settled().await;
    let pod = name(&world.pods().await[0]).to_owned();
    world.sandbox.delete("pods", Some(NAMESPACE), &pod).await.unwrap();
    world.wait_seconds(60).await;
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
        "metadata": {"name": "mine", "namespace": NAMESPACE}, "spec": {"controllerRef": reference, "podGroupTemplates": templates}});
    world.create_object(mine).await;
    world.wait_until_settled().await;
    world.create_object(gang("sum")).await;
    world.wait_until_settled().await;
    assert_eq!((all(&world, WORKLOADS).await.len(), all(&world, GROUPS).await.len()), (1, 0));
    assert_eq!(groups_of_pods(&world).await, vec![Value::Null; 3]);
}

/// JOB-87.
#[tokio::test(start_paused = true)]
async fn leftovers_of_a_deleted_job_are_not_used() {
    let world = world().await;
    world.create_object(gang("sum")).await;
    world.wait_until_settled().await;
    // No garbage collector runs here, so the Workload and the `PodGroup` of the deleted Job still exist.
    world.delete_job("sum", "Background").await;
    world.create_object(gang("sum")).await;
    world.wait_until_settled().await;
    let (workloads, groups) = (all(&world, WORKLOADS).await, all(&world, GROUPS).await);
    assert_eq!((workloads.len(), groups.len()), (2, 2));
    let job = world.get(JOBS_RESOURCE, "sum").await;
    let ours = groups.iter().find(|group| group["metadata"]["ownerReferences"][0]["uid"] == job["metadata"]["uid"]);
    let named = groups_of_pods(&world).await;
    assert_eq!(named.iter().filter(|group| **group == name(ours.unwrap())).count(), 3);
}

/// If a create of a Workload or `PodGroup` fails, the retries end with one object of each kind, and every Pod names the group.
/// JOB-64.
#[tokio::test(start_paused = true)]
async fn faults_leave_one_workload_and_one_group() {
    for fault in [Action::CutBefore, Action::CutAfter, Action::InternalError] {
        for (resource, plural) in [(WORKLOADS, "workloads"), (GROUPS, "podgroups")] {
            for crash in [false, true] {
                let mut world = world().await;
                let rule = Rule::new(fault.clone()).identity(CONTROLLER_IDENTITY).verb("create").resource(plural);
                world.sandbox.faults().add(rule.times(1));
                world.create_object(gang("sum")).await;
                if crash {
                    while world.request_count("create", resource) == 0 {
                        world.clock.sleep(Duration::from_millis(1)).await;
                    }
                    world.crash_loops();
                    world.wait_seconds(1).await;
                    world.start();
                }
                world.wait_until_settled().await;
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
    let rule = Rule::new(Action::InternalError).identity(CONTROLLER_IDENTITY).verb("create").resource("workloads");
    world.sandbox.faults().add(rule);
    world.create_object(job).await;
    world.wait_seconds(3).await;
    let job = world.get(JOBS_RESOURCE, "sum").await;
    let read = serde_json::from_value(job).unwrap();
    let taken = job_controller::jobs::decide::gang::workload_name(&read);
    let templates = json!([{"name": "t", "schedulingPolicy": {"basic": {}}}]);
    let other = json!({"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "Workload",
        "metadata": {"name": taken, "namespace": NAMESPACE}, "spec": {"podGroupTemplates": templates}});
    world.create_object(other).await;
    world.sandbox.faults().clear();
    world.patch_job_spec("sum", json!({"suspend": false})).await;
    world.wait_seconds(30).await;
    assert!(world.pods().await.is_empty());
    let explained = format!("{:?}", world.loops.as_ref().unwrap().explain(Some("shop/sum")));
    assert!(explained.contains("ensuring Workload and PodGroup for Job shop/sum: "), "{explained}");
    assert!(explained.contains("already exists"), "{explained}");
    let asked = || world.request_count("create", WORKLOADS);
    let before = asked();
    while asked() == before {
        world.clock.sleep(Duration::from_millis(1)).await;
    }
    let began = world.clock.monotonic_now();
    while asked() < before + 5 {
        world.clock.sleep(Duration::from_millis(1)).await;
    }
    let took = world.clock.monotonic_now().saturating_duration_since(began);
    assert!(
        (Duration::from_millis(40)..Duration::from_millis(60)).contains(&took),
        "five attempts, 10 ms apart: {took:?}"
    );
    world.wait_seconds(1).await;
    assert_eq!(asked(), before + 5, "and no more in one sync");
    // The other Workload is deleted, so that the name is free.
    world.sandbox.delete(WORKLOADS, Some(NAMESPACE), &taken).await.unwrap();
    world.wait_seconds(90).await;
    assert_eq!((all(&world, GROUPS).await.len(), world.pods().await.len()), (1, 3));
}
