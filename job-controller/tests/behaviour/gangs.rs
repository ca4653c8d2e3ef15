//! Gangs: Indexed Jobs that run all their Pods at the same time, with the gate `WorkloadWithJob`.

use crate::world::*;

const WORKLOADS: &str = "workloads.scheduling.k8s.io";
const GROUPS: &str = "podgroups.scheduling.k8s.io";

/// A cluster with gangs in the API server and in the loops.
fn gang_cluster() -> Cluster {
    server_with_gangs().gate("GenericWorkload", true).gate("WorkloadWithJob", true)
}

/// A cluster with gangs in the API server alone.
fn server_with_gangs() -> Cluster {
    cluster().server(|server| server.gate("GenericWorkload", true))
}

/// Builds a Job with three Pods that run at the same time and never finish.
fn gang(name: &str) -> Value {
    job(name, "", json!({"completions": 3, "parallelism": 3, "completionMode": "Indexed"}))
}

/// Returns the group of each Pod; null for a Pod without a group.
async fn groups_of_pods(world: &World) -> Vec<Value> {
    world.pods().await.iter().map(|pod| pod["spec"]["schedulingGroup"]["podGroupName"].clone()).collect()
}

/// JOB-64.
#[tokio::test(start_paused = true)]
async fn a_gang_gets_a_workload_a_group_and_pods_that_name_it() {
    let world = gang_cluster().start().await;
    let job = world.create_and_settle(gang("sum")).await;
    let (workloads, groups) = (world.list(WORKLOADS).await, world.list(GROUPS).await);
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
    assert_eq!((world.count("create", WORKLOADS), world.count("create", GROUPS)), (1, 1));
}

/// JOB-64.
#[tokio::test(start_paused = true)]
async fn other_jobs_and_disabled_gates_get_no_group() {
    let on = gang_cluster().start().await;
    on.create(job("loose", "", json!({"completions": 3, "parallelism": 2, "completionMode": "Indexed"}))).await;
    let mut grouped = gang("grouped");
    grouped["spec"]["template"]["spec"]["schedulingGroup"] = json!({"podGroupName": "mine"});
    on.create_and_settle(grouped).await;
    assert!(on.list(WORKLOADS).await.is_empty() && on.list(GROUPS).await.is_empty());
    let mut groups = groups_of_pods(&on).await;
    groups.sort_by_key(ToString::to_string);
    assert_eq!(groups, [json!("mine"), json!("mine"), json!("mine"), Value::Null, Value::Null]);

    let off = server_with_gangs().settled(gang("sum")).await;
    assert!(off.list(WORKLOADS).await.is_empty());
    assert_eq!(groups_of_pods(&off).await, vec![Value::Null; 3]);
    assert_eq!(off.count("list", WORKLOADS) + off.count("watch", WORKLOADS), 0, "they are not watched");
}

#[tokio::test(start_paused = true)]
async fn a_suspended_gang_has_its_group_before_it_has_pods() {
    let world = gang_cluster().start().await;
    world.create_and_settle(with_spec(gang("sum"), json!({"suspend": true}))).await;
    let groups = world.list(GROUPS).await;
    assert_eq!((groups.len(), world.pods().await.len()), (1, 0));
    world.change_and_settle(json!({"suspend": false})).await;
    assert_eq!(groups_of_pods(&world).await, vec![json!(name(&groups[0])); 3]);
    assert_eq!((world.count("create", WORKLOADS), world.count("create", GROUPS)), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_deleted_group_is_created_again_and_a_restart_creates_nothing() {
    let mut world = gang_cluster().settled(gang("sum")).await;
    world.restart();
    world.settle().await;
    world.touch_subject().await;
    world.settle().await;
    assert_eq!((world.count("create", WORKLOADS), world.count("create", GROUPS)), (1, 1));
    let group = world.list(GROUPS).await.remove(0);
    world.patch(GROUPS, name(&group), json!({"metadata": {"finalizers": null}})).await;
    world.delete(GROUPS, name(&group)).await;
    world.touch_subject().await;
    world.settle().await;
    let again = world.list(GROUPS).await;
    assert_eq!(name(&again[0]), name(&group));
    assert_ne!(again[0]["metadata"]["uid"], group["metadata"]["uid"]);
    assert_eq!(world.count("create", WORKLOADS), 1);
}

/// JOB-65.
#[tokio::test(start_paused = true)]
async fn a_job_started_before_the_gate_was_on_gets_no_group() {
    let mut world = server_with_gangs().settled(gang("sum")).await;
    world.crash();
    world.set_gate("GenericWorkload", true);
    world.set_gate("WorkloadWithJob", true);
    world.start();
    world.settle().await;
    let pod = name(&world.pods().await[0]).to_owned();
    world.delete("pods", &pod).await;
    world.wait(60).await;
    assert_eq!(groups_of_pods(&world).await, vec![Value::Null; 3], "one was replaced");
    assert!(world.list(WORKLOADS).await.is_empty());
    let explained = format!("{:?}", world.loops().explain(Some("shop/sum")));
    assert!(explained.contains("one by one, not as a gang: no Workload refers to the Job"), "{explained}");
}

/// JOB-65.
#[tokio::test(start_paused = true)]
async fn a_workload_of_another_writer_is_not_changed() {
    let world = gang_cluster().start().await;
    let reference = json!({"apiGroup": "batch", "kind": "Job", "name": "sum"});
    let templates = json!([{"name": "t", "schedulingPolicy": {"basic": {}}}]);
    let mine = json!({"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "Workload",
        "metadata": {"name": "mine", "namespace": NAMESPACE}, "spec": {"controllerRef": reference, "podGroupTemplates": templates}});
    world.create_and_settle(mine).await;
    world.create_and_settle(gang("sum")).await;
    assert_eq!((world.list(WORKLOADS).await.len(), world.list(GROUPS).await.len()), (1, 0));
    assert_eq!(groups_of_pods(&world).await, vec![Value::Null; 3]);
}

/// JOB-87.
#[tokio::test(start_paused = true)]
async fn leftovers_of_a_deleted_job_are_not_used() {
    let world = gang_cluster().settled(gang("sum")).await;
    // No garbage collector runs here, so the Workload and the `PodGroup` of the deleted Job still exist.
    delete_job(&world, "sum", "Background").await;
    world.create_and_settle(gang("sum")).await;
    let (workloads, groups) = (world.list(WORKLOADS).await, world.list(GROUPS).await);
    assert_eq!((workloads.len(), groups.len()), (2, 2));
    let job = world.subject().await;
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
                let mut world = gang_cluster().start().await;
                world.fault(rule(fault.clone(), "create", plural).times(1));
                world.create(gang("sum")).await;
                if crash {
                    while world.count("create", resource) == 0 {
                        world.wait(0.001).await;
                    }
                    world.crash();
                    world.wait(1).await;
                    world.start();
                }
                world.settle().await;
                let what = format!("{fault:?} of {resource}, crash: {crash}");
                assert_eq!(world.sandbox.faults().hits(&fault), 1, "{what}");
                let (workloads, groups) = (world.list(WORKLOADS).await, world.list(GROUPS).await);
                assert_eq!((workloads.len(), groups.len()), (1, 1), "{what}");
                assert_eq!(groups_of_pods(&world).await, vec![json!(name(&groups[0])); 3], "{what}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_taken_name_blocks_the_job_and_is_reported() {
    let world = gang_cluster().start().await;
    // The name of the Workload depends on the Job's UID. So the Job is created first, then another Workload with that name and
    // without a reference to the Job, and then the Job is resumed.
    let mut job = gang("sum");
    job["spec"]["suspend"] = json!(true);
    world.fault(rule(Action::InternalError, "create", "workloads"));
    world.create(job).await;
    world.wait(3).await;
    let job = world.subject().await;
    let read = serde_json::from_value(job).unwrap();
    let taken = job_controller::jobs::decide::gang::workload_name(&read);
    let templates = json!([{"name": "t", "schedulingPolicy": {"basic": {}}}]);
    let other = json!({"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "Workload",
        "metadata": {"name": taken, "namespace": NAMESPACE}, "spec": {"podGroupTemplates": templates}});
    world.create(other).await;
    world.clear_faults();
    world.change(json!({"suspend": false})).await;
    world.wait(30).await;
    assert!(world.pods().await.is_empty());
    let explained = format!("{:?}", world.loops().explain(Some("shop/sum")));
    assert!(explained.contains("ensuring Workload and PodGroup for Job shop/sum: "), "{explained}");
    assert!(explained.contains("already exists"), "{explained}");
    let asked = || world.count("create", WORKLOADS);
    let before = asked();
    while asked() == before {
        world.wait(0.001).await;
    }
    let began = world.clock.monotonic_now();
    while asked() < before + 5 {
        world.wait(0.001).await;
    }
    let took = world.clock.monotonic_now().saturating_duration_since(began);
    assert!(
        (Duration::from_millis(40)..Duration::from_millis(60)).contains(&took),
        "five attempts, 10 ms apart: {took:?}"
    );
    world.wait(1).await;
    assert_eq!(asked(), before + 5, "and no more in one sync");
    // The other Workload is deleted, so that the name is free.
    world.delete(WORKLOADS, &taken).await;
    world.wait(90).await;
    assert_eq!((world.list(GROUPS).await.len(), world.pods().await.len()), (1, 3));
}
