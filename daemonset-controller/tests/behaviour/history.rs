//! Revision numbers, rollbacks, name collisions, duplicate revisions, and the history limit.

use crate::world::*;

/// Returns a line for each revision, ordered by number: its number and the image of its template.
async fn revision_lines(world: &World) -> Vec<String> {
    let line = |one: &Value| {
        let image = text(&one["data"]["spec"]["template"]["spec"]["containers"][0], "image").to_owned();
        (one["revision"].as_i64().unwrap(), image)
    };
    let mut all: Vec<(i64, String)> = world.list(REVISIONS).await.iter().map(line).collect();
    all.sort();
    all.into_iter().map(|(number, image)| format!("{number} {image}")).collect()
}

/// DAEMONSET-42.
#[tokio::test(start_paused = true)]
async fn a_name_taken_by_another_template_is_skipped() {
    let (world, ..) = conformance::a_taken_revision_name_counts_as_a_collision(&cluster(), agent()).await;
    assert_eq!(world.status().await["numberReady"], 3);
}

/// Creates a newer revision, `agent-twin`, that is equal to the only one. Returns the name of the older.
async fn create_twin(world: &World) -> String {
    let first = world.names(REVISIONS).await.remove(0);
    let mut twin = world.get(REVISIONS, &first).await;
    let owners = twin["metadata"]["ownerReferences"].take();
    twin["metadata"] = json!({"name": "agent-twin", "namespace": NAMESPACE, "ownerReferences": owners,
        "labels": {"app": "agent", "controller-revision-hash": "twin"}});
    twin["revision"] = json!(7);
    world.create(twin).await;
    first
}

/// DAEMONSET-40.
#[tokio::test(start_paused = true)]
async fn of_two_equal_revisions_the_newer_stays_and_no_pod_is_restarted() {
    let world = cluster().settled(agent()).await;
    world.clear_log();
    create_twin(&world).await;
    // The creation of a revision by another client does not enqueue its DaemonSet. The change of a label does.
    world.patch_and_settle(SETS, "agent", json!({"metadata": {"labels": {"poked": "1"}}})).await;
    assert_eq!(world.names(REVISIONS).await, ["agent-twin"]);
    assert_eq!(pod_writes(&world), ["~node-0", "~node-1", "~node-2"]);
    for pod in world.pods().await {
        assert_eq!(pod["metadata"]["labels"]["controller-revision-hash"], "twin");
    }
    assert_eq!(world.status().await["updatedNumberScheduled"], json!(3));
}

/// DAEMONSET-39, DAEMONSET-44.
#[tokio::test(start_paused = true)]
async fn revisions_without_a_hash_or_with_broken_data_do_not_hold_up_the_set() {
    let world = cluster().settled(agent()).await;
    let first = world.names(REVISIONS).await.remove(0);
    let stored = world.get(REVISIONS, &first).await;
    let broken = |name: &str, data: Value| {
        json!({"apiVersion": "apps/v1", "kind": "ControllerRevision", "data": data, "revision": 40,
            "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"app": "agent"}, "ownerReferences": stored["metadata"]["ownerReferences"]}})
    };
    world.create(broken("agent-junk", json!({"junk": [1, null]}))).await;
    world.create(broken("agent-half", json!({"spec": {"template": 7}}))).await;
    world.roll_out_and_settle("img:2").await;
    assert_images(&world, "img:2", "").await;
    let labelled = world.get(REVISIONS, "agent-junk").await;
    assert_eq!(labelled["metadata"]["labels"]["controller-revision-hash"], "agent-junk");
    assert_eq!(labelled["data"], json!({"junk": [1, null]}));
    assert_eq!(revision_lines(&world).await.last().unwrap(), "41 img:2");
}

/// Returns the name and the content of the revision that the controller stores for a DaemonSet with this spec.
async fn stored_revision(spec: Value) -> (String, Value) {
    let world = cluster().settled(daemon_set(spec)).await;
    let name = world.names(REVISIONS).await.remove(0);
    let stored = world.get(REVISIONS, &name).await;
    (name, stored)
}

/// DAEMONSET-43.
#[tokio::test(start_paused = true)]
async fn an_equal_revision_of_another_controller_is_used_with_its_hash() {
    let (taken, mut stored) = stored_revision(json!({})).await;
    let world = cluster().start().await;
    let owner = foreign_controller("apps/v1", "DaemonSet", "agent")[0].clone();
    stored["metadata"] = json!({"name": taken, "namespace": NAMESPACE, "ownerReferences": [owner],
        "labels": {"controller-revision-hash": "foreign"}});
    world.create(stored).await;
    world.create_and_settle(agent()).await;
    for pod in world.pods().await {
        assert_eq!(pod["metadata"]["labels"]["controller-revision-hash"], "foreign");
    }
    assert_eq!(pick(&world.status().await, "updatedNumberScheduled collisionCount"), json!([3, null]));
    // After the revision of the other controller is deleted, the DaemonSet gets a new revision, and no Pod is replaced.
    world.clear_log();
    world.delete(REVISIONS, &taken).await;
    world.patch_and_settle(SETS, "agent", json!({"metadata": {"labels": {"poked": "1"}}})).await;
    assert_eq!(world.names(REVISIONS).await, [taken]);
    assert!(pod_writes(&world).is_empty(), "{:?}", pod_writes(&world));
}

/// DAEMONSET-77.
#[tokio::test(start_paused = true)]
async fn a_refused_adoption_of_a_revision_does_not_hold_up_the_set() {
    let (_, mut stored) = stored_revision(json!({"minReadySeconds": 1})).await;
    let world = cluster().start().await;
    stored["metadata"] = json!({"name": "agent-old", "namespace": NAMESPACE, "labels": {"app": "agent"}});
    stored["data"]["spec"]["template"]["spec"]["containers"][0]["image"] = json!("img:0");
    world.create(stored).await;
    world.fault(rule(Action::Invalid, "patch", "controllerrevisions"));
    world.create(agent()).await;
    world.wait(4).await;
    assert_eq!(world.status().await["numberReady"], json!(3));
    world.assert_event("Warning FailedUpdate Error: cannot adopt ControllerRevision agent-old").await;
    world.assert_waits("revision agent-old stays as it is: the server refused to change it");
    world.wait(300).await;
    world.assert_count("patch", REVISIONS, 3..=8);
    world.clear_faults();
    world.wait(400).await;
    assert_eq!(world.get(REVISIONS, "agent-old").await["metadata"]["ownerReferences"][0]["name"], "agent");
}

/// DAEMONSET-40.
#[tokio::test(start_paused = true)]
async fn a_duplicate_is_adopted_labelled_and_deleted_in_one_sync() {
    let mut world = cluster().settled(agent()).await;
    world.crash();
    let first = world.names(REVISIONS).await.remove(0);
    let mut twin = world.get(REVISIONS, &first).await;
    twin["metadata"] = json!({"name": "agent-twin", "namespace": NAMESPACE, "labels": {"app": "agent"}});
    twin["revision"] = json!(0);
    world.create(twin).await;
    world.clear_log();
    world.start();
    world.settle().await;
    assert_eq!(world.names(REVISIONS).await, [first]);
    assert_eq!((world.count("patch", REVISIONS), world.count("delete", REVISIONS)), (1, 1));
}

/// Starts the controller on a DaemonSet with two equal revisions: the newer one, `agent-twin`, and a duplicate. All Pods have
/// the hash of the duplicate. The server refuses `verb` on `resource`. Also returns the name of the duplicate.
async fn world_with_refused_duplicate(refusal: &Action, verb: &str, resource: &str) -> (World, String) {
    let mut world = cluster().settled(agent()).await;
    world.crash();
    let first = create_twin(&world).await;
    world.fault(rule(refusal.clone(), verb, resource));
    world.clear_log();
    world.start();
    world.wait(4).await;
    (world, first)
}

/// Asserts that a DaemonSet with a duplicate revision makes progress: a new node gets a Pod, and a rollout succeeds.
async fn assert_progress(world: &World) {
    assert!(pod_writes(world).iter().all(|done| done.starts_with('~')), "no Pod is restarted: {:?}", pod_writes(world));
    world.add_nodes(1).await;
    world.wait(10).await;
    assert_eq!(pick(&world.status().await, "numberReady updatedNumberScheduled"), json!([4, 4]));
    assert_eq!(pod_on(world, "node-3").await["metadata"]["labels"]["controller-revision-hash"], "twin");
    world.roll_out("img:2", json!({})).await;
    world.wait(120).await;
    assert_eq!(images(world).await, [0, 1, 2, 3].map(|node| format!("node-{node} img:2")));
}

/// DAEMONSET-75.
#[tokio::test(start_paused = true)]
async fn a_refused_relabelling_of_pods_does_not_hold_up_the_set() {
    for refusal in [Action::Invalid, Action::Forbidden] {
        let (world, first) = world_with_refused_duplicate(&refusal, "patch", "pods").await;
        let pod = name(&pod_on(&world, "node-1").await).to_owned();
        world.assert_event(&format!("Warning FailedUpdate Error: cannot relabel Pod {pod}")).await;
        world.assert_waits(&format!("Pod {pod} stays as it is: the server refused to change it"));
        assert_eq!(world.names(REVISIONS).await.len(), 2, "a revision whose hash Pods have stays");
        world.wait(300).await;
        world.assert_count("patch", "pods", 9..=24);
        assert_progress(&world).await;
        // After the server allows the changes again, the Pods are relabelled and the duplicate is deleted.
        let (world, _) = world_with_refused_duplicate(&refusal, "patch", "pods").await;
        world.clear_faults();
        world.wait(60).await;
        assert_eq!(world.names(REVISIONS).await, ["agent-twin"], "{first}");
        for pod in world.pods().await {
            assert_eq!(pod["metadata"]["labels"]["controller-revision-hash"], "twin");
        }
    }
}

/// DAEMONSET-77.
#[tokio::test(start_paused = true)]
async fn a_refused_deletion_of_a_duplicate_does_not_hold_up_the_set() {
    for refusal in [Action::Invalid, Action::Forbidden] {
        let (world, first) = world_with_refused_duplicate(&refusal, "delete", "controllerrevisions").await;
        world.assert_event(&format!("Warning FailedDelete Error: cannot delete ControllerRevision {first}")).await;
        world.assert_waits(&format!("revision {first} stays as it is"));
        world.wait(300).await;
        world.assert_count("delete", REVISIONS, 3..=8);
        assert_progress(&world).await;
        world.clear_faults();
        world.change(json!({"revisionHistoryLimit": 0})).await;
        world.wait(900).await;
        assert_eq!(revision_lines(&world).await, ["8 img:2"]);
    }
}

/// DAEMONSET-77.
#[tokio::test(start_paused = true)]
async fn a_refused_deletion_of_an_earlier_revision_is_reported_and_tried_again() {
    let world = cluster().settled(daemon_set(json!({"revisionHistoryLimit": 0}))).await;
    let first = world.names(REVISIONS).await.remove(0);
    world.fault(rule(Action::Forbidden, "delete", "controllerrevisions").object(NAMESPACE, &first));
    for image in ["img:2", "img:3"] {
        world.roll_out(image, json!({})).await;
        world.wait(60).await;
    }
    assert_eq!(world.status().await["updatedNumberScheduled"], json!(3));
    world.assert_event(&format!("Warning FailedDelete Error: cannot delete ControllerRevision {first}")).await;
    assert_eq!(revision_lines(&world).await, ["1 img:1", "3 img:3"], "other revisions are deleted");
    world.clear_faults();
    world.wait(900).await;
    assert_eq!(revision_lines(&world).await, ["3 img:3"]);
}

/// DAEMONSET-44.
#[tokio::test(start_paused = true)]
async fn a_revision_with_another_controller_is_not_renumbered() {
    let world = cluster().settled(agent()).await;
    let first = world.names(REVISIONS).await.remove(0);
    world.roll_out_and_settle("img:2").await;
    world.hold("controllerrevisions");
    let owner = foreign_controller("apps/v1", "DaemonSet", "other");
    world.patch(REVISIONS, &first, json!({"metadata": {"ownerReferences": owner}})).await;
    world.clear_log();
    world.roll_out("img:1", json!({})).await;
    world.wait(5).await;
    assert_eq!(world.get(REVISIONS, &first).await["revision"], json!(1));
    assert_eq!(world.count("update", REVISIONS), 0);
    // Its name is that of the current template, so the Pods get its hash.
    world.release("controllerrevisions");
    world.settle().await;
    assert_images(&world, "img:1", "").await;
    assert_eq!(world.get(REVISIONS, &first).await["revision"], json!(1));
}

/// DAEMONSET-77.
#[tokio::test(start_paused = true)]
async fn a_refused_release_of_a_revision_does_not_hold_up_a_rollout() {
    for refusal in [Action::Invalid, Action::Forbidden] {
        let world = cluster().settled(agent()).await;
        let first = world.names(REVISIONS).await.remove(0);
        world.fault(rule(refusal, "patch", "controllerrevisions"));
        world.roll_out("img:2", json!({})).await;
        world.label(REVISIONS, &first, json!({"app": "mine"})).await;
        world.wait(60).await;
        assert_images(&world, "img:2", "").await;
        assert_eq!(world.status().await["numberReady"], json!(3));
        world.assert_event(&format!("Warning FailedUpdate Error: cannot release ControllerRevision {first}")).await;
        world.assert_waits(&format!("revision {first} stays as it is"));
        world.wait(300).await;
        world.assert_count("patch", REVISIONS, 3..=9);
        world.clear_faults();
        world.wait(900).await;
        assert_eq!(world.get(REVISIONS, &first).await["metadata"]["ownerReferences"], Value::Null);
    }
}

/// DAEMONSET-78.
#[tokio::test(start_paused = true)]
async fn a_revision_that_cannot_be_stored_is_reported_and_tried_again() {
    for refusal in [Action::Invalid, Action::Forbidden, Action::InternalError] {
        let world = cluster().start().await;
        world.fault(rule(refusal.clone(), "create", "controllerrevisions"));
        world.create(agent()).await;
        world.wait(10).await;
        world.assert_event("Warning FailedCreate Error creating ControllerRevision agent-").await;
        assert!(world.pods().await.is_empty());
        world.clear_faults();
        world.wait(30).await;
        assert_eq!(world.status().await["numberReady"], json!(3), "{refusal:?}");
    }
}
