//! Gangs: Indexed Jobs that run all their Pods at the same time, with the gate `WorkloadWithJob`.

use crate::world::*;

const WORKLOADS: &str = "workloads.scheduling.k8s.io";
const GROUPS: &str = "podgroups.scheduling.k8s.io";

/// A cluster with gangs in the API server and in the loops.
fn gang_cluster() -> Cluster {
    let cluster = cluster().server(|server| server.gate("GenericWorkload", true));
    cluster.gate("GenericWorkload", true).gate("WorkloadWithJob", true)
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

#[tokio::test(start_paused = true)]
async fn a_workload_name_that_is_taken_blocks_the_job_and_is_reported() {
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
    assert_eq!((world.list(GROUPS).await.len(), world.pods().await.len()), (1, 3), "the gang runs");
}
