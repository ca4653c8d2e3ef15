//! Revision numbers, rollbacks, name collisions, duplicate revisions, and the history limit.

use std::sync::Arc;

use common::{
    api::{Api, PatchFormat, RequestTarget},
    settings::OperatorSettings,
};
use http::Request;
use http_body_util::{BodyExt as _, Full};
use parking_lot::Mutex;
use sandbox::{Action, ConnectionCut, Rule, loops::Loops};
use serde_json::{Value, json};
use tower::Service as _;

use crate::world::{CONTROLLER_IDENTITY, NAMESPACE, REVISIONS, SETS, TestCluster, daemon_set, object_name};

/// Returns a line for each revision, ordered by number: its number and the image of its template.
async fn revision_lines(world: &TestCluster) -> Vec<String> {
    let mut all: Vec<(i64, String)> = world
        .sandbox
        .list(REVISIONS, Some(NAMESPACE))
        .await
        .unwrap()
        .iter()
        .map(|one| {
            let image = one["data"]["spec"]["template"]["spec"]["containers"][0]["image"].as_str().unwrap_or("none");
            (one["revision"].as_i64().unwrap(), image.to_owned())
        })
        .collect();
    all.sort();
    all.into_iter().map(|(number, image)| format!("{number} {image}")).collect()
}

/// DAEMONSET-36, DAEMONSET-38.
#[tokio::test(start_paused = true)]
async fn a_rollback_makes_the_earlier_revision_the_newest() {
    let world = TestCluster::new().await;
    let mut object = daemon_set(json!({}));
    object["metadata"]["annotations"] = json!({"kubernetes.io/change-cause": "first"});
    world.create_object(object).await;
    world.wait_until_settled().await;
    let first = world.object_names(REVISIONS).await.remove(0);
    let stored = world.get(REVISIONS, &first).await;
    assert_eq!(stored["metadata"]["annotations"]["kubernetes.io/change-cause"], "first");
    let hash = stored["metadata"]["labels"]["controller-revision-hash"].clone();
    world.roll_out("img:2", json!({})).await;
    world.wait_until_settled().await;
    assert_eq!(revision_lines(&world).await, ["1 img:1", "2 img:2"]);
    // A rollback by kubectl: it sends the data of a revision as a strategic merge patch of the DaemonSet.
    let (keeper, gate) = common::gate::closed_write_gate(world.clock.clone());
    keeper.open_without_deadline();
    let kubectl = Api::new(world.sandbox.client("kubectl"), world.clock.clone(), gate, "kubectl");
    let target = RequestTarget::object(daemonset_controller::objects::DAEMON_SETS, NAMESPACE, "agent");
    kubectl.patch(target, PatchFormat::Strategic, &stored["data"]).await.unwrap();
    world.wait_until_settled().await;
    assert_eq!(revision_lines(&world).await, ["2 img:2", "3 img:1"]);
    assert_eq!(world.images().await, ["node-0 img:1", "node-1 img:1", "node-2 img:1"]);
    for pod in world.pods().await {
        assert_eq!(pod["metadata"]["labels"]["controller-revision-hash"], hash);
    }
    assert_eq!(world.get(REVISIONS, &first).await["data"], stored["data"]);
}

/// DAEMONSET-42.
#[tokio::test(start_paused = true)]
async fn a_name_taken_by_another_template_is_skipped() {
    let taken = {
        let world = TestCluster::new().await;
        world.create_object(daemon_set(json!({}))).await;
        world.wait_until_settled().await;
        world.object_names(REVISIONS).await.remove(0)
    };
    let world = TestCluster::new().await;
    world
        .create_object(
            json!({"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": {"name": taken, "namespace": NAMESPACE},
        "data": {"spec": {"template": {"$patch": "replace"}}}, "revision": 1}),
        )
        .await;
    world.create_object(daemon_set(json!({}))).await;
    world.wait_until_settled().await;
    let status = world.status().await;
    assert_eq!((&status["collisionCount"], &status["numberReady"]), (&json!(1), &json!(3)));
    let names = world.object_names(REVISIONS).await;
    assert_eq!(names.len(), 2, "{names:?}");
    let other = names.iter().find(|name| **name != taken).unwrap();
    let hash = other.strip_prefix("agent-").unwrap();
    assert_eq!(world.pod_on("node-0").await["metadata"]["labels"]["controller-revision-hash"], hash);
    world.clear_records();
    world.wait(60).await;
    assert!(world.own_writes().is_empty());
}

/// DAEMONSET-40.
#[tokio::test(start_paused = true)]
async fn of_two_equal_revisions_the_newer_stays_and_no_pod_is_restarted() {
    let world = TestCluster::new().await;
    world.create_object(daemon_set(json!({}))).await;
    world.wait_until_settled().await;
    let first = world.object_names(REVISIONS).await.remove(0);
    let mut twin = world.get(REVISIONS, &first).await;
    let owners = twin["metadata"]["ownerReferences"].take();
    twin["metadata"] = json!({"name": "agent-twin", "namespace": NAMESPACE, "ownerReferences": owners,
        "labels": {"app": "agent", "controller-revision-hash": "twin"}});
    twin["revision"] = json!(7);
    world.clear_records();
    world.create_object(twin).await;
    // The creation of a revision by another client does not enqueue its DaemonSet. The change of a label does.
    world.merge_patch(SETS, "agent", json!({"metadata": {"labels": {"poked": "1"}}})).await;
    world.wait_until_settled().await;
    assert_eq!(world.object_names(REVISIONS).await, ["agent-twin"]);
    assert_eq!(world.pod_writes(), ["~node-0", "~node-1", "~node-2"]);
    for pod in world.pods().await {
        assert_eq!(pod["metadata"]["labels"]["controller-revision-hash"], "twin");
    }
    assert_eq!(world.status().await["updatedNumberScheduled"], json!(3));
}

/// DAEMONSET-41.
#[tokio::test(start_paused = true)]
async fn earlier_revisions_are_kept_up_to_the_limit() {
    let world = TestCluster::new().await;
    world.create_object(daemon_set(json!({"revisionHistoryLimit": 1}))).await;
    world.wait_until_settled().await;
    for n in 2..6 {
        world.roll_out(&format!("img:{n}"), json!({})).await;
        world.wait_until_settled().await;
    }
    assert_eq!(revision_lines(&world).await, ["4 img:4", "5 img:5"]);
}

/// DAEMONSET-41.
#[tokio::test(start_paused = true)]
async fn a_revision_in_use_is_kept_beyond_the_limit() {
    let world = TestCluster::new().await;
    world.create_object(daemon_set(json!({"revisionHistoryLimit": 0, "updateStrategy": {"type": "OnDelete"}}))).await;
    world.wait_until_settled().await;
    for n in 2..4 {
        world.roll_out(&format!("img:{n}"), json!({})).await;
        world.wait_until_settled().await;
    }
    assert_eq!(revision_lines(&world).await, ["1 img:1", "3 img:3"]);
    for pod in world.pods().await {
        world.sandbox.delete("pods", Some(NAMESPACE), object_name(&pod)).await.unwrap();
    }
    world.wait_until_settled().await;
    assert_eq!(revision_lines(&world).await, ["3 img:3"]);
}

/// DAEMONSET-39, DAEMONSET-44.
#[tokio::test(start_paused = true)]
async fn revisions_without_a_hash_or_with_broken_data_do_not_hold_up_the_set() {
    let world = TestCluster::new().await;
    world.create_object(daemon_set(json!({}))).await;
    world.wait_until_settled().await;
    let first = world.object_names(REVISIONS).await.remove(0);
    let stored = world.get(REVISIONS, &first).await;
    let broken = |name: &str, data: Value| {
        json!({"apiVersion": "apps/v1", "kind": "ControllerRevision", "data": data, "revision": 40,
            "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"app": "agent"}, "ownerReferences": stored["metadata"]["ownerReferences"]}})
    };
    world.create_object(broken("agent-junk", json!({"junk": [1, null]}))).await;
    world.create_object(broken("agent-half", json!({"spec": {"template": 7}}))).await;
    world.roll_out("img:2", json!({})).await;
    world.wait_until_settled().await;
    assert_eq!(world.images().await, ["node-0 img:2", "node-1 img:2", "node-2 img:2"]);
    let labelled = world.get(REVISIONS, "agent-junk").await;
    assert_eq!(labelled["metadata"]["labels"]["controller-revision-hash"], "agent-junk");
    assert_eq!(labelled["data"], json!({"junk": [1, null]}));
    assert_eq!(revision_lines(&world).await.last().unwrap(), "41 img:2");
}

/// DAEMONSET-78.
#[tokio::test(start_paused = true)]
async fn a_name_that_is_too_long_for_revisions_is_reported() {
    let world = TestCluster::new().await;
    let mut object = daemon_set(json!({}));
    object["metadata"]["name"] = json!(format!("agent{}", "x".repeat(245)));
    world.create_object(object).await;
    world.wait(10).await;
    assert!(
        world.has_event("Warning FailedCreate Error creating ControllerRevision agentxxx").await,
        "{:?}",
        world.events().await
    );
    assert!(world.pods().await.is_empty());
}

/// Returns a client of the sandbox, and the bodies of the client's requests to create revisions.
fn recording_client(world: &TestCluster) -> (kube::Client, Arc<Mutex<Vec<String>>>) {
    let sent: Arc<Mutex<Vec<String>>> = Arc::default();
    let (inner, noted) = (world.sandbox.service(CONTROLLER_IDENTITY), Arc::clone(&sent));
    let service = tower::service_fn(move |request: Request<kube::client::Body>| {
        let (mut inner, noted) = (inner.clone(), Arc::clone(&noted));
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await.map_err(|_| ConnectionCut)?.to_bytes();
            if parts.method == "POST" && parts.uri.path().ends_with("/controllerrevisions") {
                noted.lock().push(String::from_utf8(body.to_vec()).unwrap());
            }
            inner.call(Request::from_parts(parts, Full::new(body))).await
        }
    });
    (kube::Client::new(service, "default"), sent)
}

/// DAEMONSET-37.
#[tokio::test(start_paused = true)]
async fn the_data_of_a_revision_equal_the_bytes_that_upstream_stores() {
    let mut world = TestCluster::new().await;
    let (client, sent) = recording_client(&world);
    world.crash();
    world.loops = Some(Loops::start(&client, &world.clock, OperatorSettings::new(), daemonset_controller::LOOPS));
    let containers = json!([{"name": "web", "image": "nginx:1.27", "args": ["a<b", "x&y"], "imagePullPolicy": "IfNotPresent",
        "resources": {}, "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}]);
    let spec = json!({"containers": containers, "dnsPolicy": "ClusterFirst", "restartPolicy": "Always",
        "schedulerName": "default-scheduler", "securityContext": {}, "terminationGracePeriodSeconds": 30});
    let mut object = daemon_set(json!({}));
    object["spec"]["selector"] = json!({"matchLabels": {"app": "web"}});
    object["spec"]["template"] = json!({"metadata": {"labels": {"app": "web"}}, "spec": spec});
    world.create_object(object).await;
    world.wait_until_settled().await;
    let data = concat!(
        r#"{"spec":{"template":{"$patch":"replace","metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"#,
        r#""args":["a\u003cb","x\u0026y"],"image":"nginx:1.27","imagePullPolicy":"IfNotPresent","name":"web","resources":{},"#,
        r#""terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File"}],"dnsPolicy":"ClusterFirst","#,
        r#""restartPolicy":"Always","schedulerName":"default-scheduler","securityContext":{},"#,
        r#""terminationGracePeriodSeconds":30}}}}"#
    );
    let sent = sent.lock();
    let [body] = &sent[..] else { panic!("{sent:?}") };
    assert!(body.contains(&format!("\"data\":{data},")), "{body}");
}

/// Returns the name and the content of the revision that the controller stores for a DaemonSet with this spec.
async fn stored_revision(spec: Value) -> (String, Value) {
    let world = TestCluster::new().await;
    world.create_object(daemon_set(spec)).await;
    world.wait_until_settled().await;
    let name = world.object_names(REVISIONS).await.remove(0);
    let stored = world.get(REVISIONS, &name).await;
    (name, stored)
}

/// DAEMONSET-43.
#[tokio::test(start_paused = true)]
async fn an_equal_revision_of_another_controller_is_used_with_its_hash() {
    let (taken, mut stored) = stored_revision(json!({})).await;
    let world = TestCluster::new().await;
    let owner = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "00000000-0000-0000-0000-000000000001",
        "controller": true});
    stored["metadata"] = json!({"name": taken, "namespace": NAMESPACE, "ownerReferences": [owner],
        "labels": {"controller-revision-hash": "foreign"}});
    world.create_object(stored).await;
    world.create_object(daemon_set(json!({}))).await;
    world.wait_until_settled().await;
    for pod in world.pods().await {
        assert_eq!(pod["metadata"]["labels"]["controller-revision-hash"], "foreign");
    }
    let status = world.status().await;
    assert_eq!((&status["updatedNumberScheduled"], &status["collisionCount"]), (&json!(3), &Value::Null));
    // After the revision of the other controller is deleted, the DaemonSet gets a new revision, and no Pod is replaced.
    world.clear_records();
    world.sandbox.delete(REVISIONS, Some(NAMESPACE), &taken).await.unwrap();
    world.merge_patch(SETS, "agent", json!({"metadata": {"labels": {"poked": "1"}}})).await;
    world.wait_until_settled().await;
    assert_eq!(world.object_names(REVISIONS).await, [taken]);
    assert!(world.pod_writes().is_empty(), "{:?}", world.pod_writes());
}

/// DAEMONSET-77.
#[tokio::test(start_paused = true)]
async fn a_refused_adoption_of_a_revision_does_not_hold_up_the_set() {
    let (_, mut stored) = stored_revision(json!({"minReadySeconds": 1})).await;
    let world = TestCluster::new().await;
    stored["metadata"] = json!({"name": "agent-old", "namespace": NAMESPACE, "labels": {"app": "agent"}});
    stored["data"]["spec"]["template"]["spec"]["containers"][0]["image"] = json!("img:0");
    world.create_object(stored).await;
    let refuse = Rule::new(Action::Invalid).identity(CONTROLLER_IDENTITY).verb("patch").resource("controllerrevisions");
    world.sandbox.faults().add(refuse);
    world.create_object(daemon_set(json!({}))).await;
    world.wait(4).await;
    assert_eq!(world.status().await["numberReady"], json!(3));
    assert!(world.has_event("Warning FailedUpdate Error: cannot adopt ControllerRevision agent-old").await);
    let waiting = world.explain()["waiting"].to_string();
    assert!(waiting.contains("revision agent-old stays as it is: the server refused to change it"), "{waiting}");
    world.wait(300).await;
    let tries = world.request_count("patch", REVISIONS);
    assert!((3..=8).contains(&tries), "it is retried with growing delays: {tries}");
    world.sandbox.faults().clear();
    world.wait(400).await;
    assert_eq!(world.get(REVISIONS, "agent-old").await["metadata"]["ownerReferences"][0]["name"], "agent");
}

/// DAEMONSET-40.
#[tokio::test(start_paused = true)]
async fn a_duplicate_is_adopted_labelled_and_deleted_in_one_sync() {
    let mut world = TestCluster::new().await;
    world.create_object(daemon_set(json!({}))).await;
    world.wait_until_settled().await;
    world.crash();
    let first = world.object_names(REVISIONS).await.remove(0);
    let mut twin = world.get(REVISIONS, &first).await;
    twin["metadata"] = json!({"name": "agent-twin", "namespace": NAMESPACE, "labels": {"app": "agent"}});
    twin["revision"] = json!(0);
    world.create_object(twin).await;
    world.clear_records();
    world.start();
    world.wait_until_settled().await;
    assert_eq!(world.object_names(REVISIONS).await, [first]);
    assert_eq!((world.request_count("patch", REVISIONS), world.request_count("delete", REVISIONS)), (1, 1));
}

/// Starts the controller on a DaemonSet with two equal revisions: the newer one, `agent-twin`, and a duplicate. All Pods have
/// the hash of the duplicate. The server refuses `verb` on `resource`. Also returns the name of the duplicate.
async fn world_with_refused_duplicate(refusal: &Action, verb: &str, resource: &str) -> (TestCluster, String) {
    let mut world = TestCluster::new().await;
    world.create_object(daemon_set(json!({}))).await;
    world.wait_until_settled().await;
    world.crash();
    let first = world.object_names(REVISIONS).await.remove(0);
    let mut twin = world.get(REVISIONS, &first).await;
    let owners = twin["metadata"]["ownerReferences"].take();
    twin["metadata"] = json!({"name": "agent-twin", "namespace": NAMESPACE, "ownerReferences": owners,
        "labels": {"app": "agent", "controller-revision-hash": "twin"}});
    twin["revision"] = json!(7);
    world.create_object(twin).await;
    world.sandbox.faults().add(Rule::new(refusal.clone()).identity(CONTROLLER_IDENTITY).verb(verb).resource(resource));
    world.clear_records();
    world.start();
    world.wait(4).await;
    (world, first)
}

/// Asserts that a DaemonSet with a duplicate revision makes progress: a new node gets a Pod, and a rollout succeeds.
async fn assert_progress(world: &TestCluster) {
    assert!(
        world.pod_writes().iter().all(|done| done.starts_with('~')),
        "no Pod is restarted: {:?}",
        world.pod_writes()
    );
    world.nodes.add();
    world.nodes.ready().await;
    world.wait(10).await;
    let status = world.status().await;
    assert_eq!((&status["numberReady"], &status["updatedNumberScheduled"]), (&json!(4), &json!(4)));
    assert_eq!(world.pod_on("node-3").await["metadata"]["labels"]["controller-revision-hash"], "twin");
    world.roll_out("img:2", json!({})).await;
    world.wait(120).await;
    let images = ["node-0 img:2", "node-1 img:2", "node-2 img:2", "node-3 img:2"];
    assert_eq!(world.images().await, images);
}

/// DAEMONSET-75.
#[tokio::test(start_paused = true)]
async fn a_refused_relabelling_of_pods_does_not_hold_up_the_set() {
    for refusal in [Action::Invalid, Action::Forbidden] {
        let (world, first) = world_with_refused_duplicate(&refusal, "patch", "pods").await;
        let pod = object_name(&world.pod_on("node-1").await).to_owned();
        let event = format!("Warning FailedUpdate Error: cannot relabel Pod {pod}");
        assert!(world.has_event(&event).await, "{:?}", world.events().await);
        let waiting = world.explain()["waiting"].to_string();
        assert!(waiting.contains(&format!("Pod {pod} stays as it is: the server refused to change it")), "{waiting}");
        assert_eq!(world.object_names(REVISIONS).await.len(), 2, "a revision whose hash Pods have stays");
        world.wait(300).await;
        let tries = world.request_count("patch", "pods");
        assert!((9..=24).contains(&tries), "each of three Pods is retried with growing delays: {tries}");
        assert_progress(&world).await;
        // After the server allows the changes again, the Pods are relabelled and the duplicate is deleted.
        let (world, _) = world_with_refused_duplicate(&refusal, "patch", "pods").await;
        world.sandbox.faults().clear();
        world.wait(60).await;
        assert_eq!(world.object_names(REVISIONS).await, ["agent-twin"], "{first}");
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
        let event = format!("Warning FailedDelete Error: cannot delete ControllerRevision {first}");
        assert!(world.has_event(&event).await, "{:?}", world.events().await);
        let waiting = world.explain()["waiting"].to_string();
        assert!(waiting.contains(&format!("revision {first} stays as it is")), "{waiting}");
        world.wait(300).await;
        let tries = world.request_count("delete", REVISIONS);
        assert!((3..=8).contains(&tries), "it is retried with growing delays: {tries}");
        assert_progress(&world).await;
        world.sandbox.faults().clear();
        world.change_spec(json!({"revisionHistoryLimit": 0})).await;
        world.wait(900).await;
        assert_eq!(revision_lines(&world).await, ["8 img:2"]);
    }
}

/// DAEMONSET-77.
#[tokio::test(start_paused = true)]
async fn a_refused_deletion_of_an_earlier_revision_is_reported_and_tried_again() {
    let world = TestCluster::new().await;
    world.create_object(daemon_set(json!({"revisionHistoryLimit": 0}))).await;
    world.wait_until_settled().await;
    let first = world.object_names(REVISIONS).await.remove(0);
    let refuse =
        Rule::new(Action::Forbidden).identity(CONTROLLER_IDENTITY).verb("delete").resource("controllerrevisions");
    world.sandbox.faults().add(refuse.object(NAMESPACE, &first));
    for image in ["img:2", "img:3"] {
        world.roll_out(image, json!({})).await;
        world.wait(60).await;
    }
    assert_eq!(world.status().await["updatedNumberScheduled"], json!(3));
    let event = format!("Warning FailedDelete Error: cannot delete ControllerRevision {first}");
    assert!(world.has_event(&event).await, "{:?}", world.events().await);
    assert_eq!(revision_lines(&world).await, ["1 img:1", "3 img:3"], "other revisions are deleted");
    world.sandbox.faults().clear();
    world.wait(900).await;
    assert_eq!(revision_lines(&world).await, ["3 img:3"]);
}

/// DAEMONSET-44.
#[tokio::test(start_paused = true)]
async fn a_revision_with_another_controller_is_not_renumbered() {
    let world = TestCluster::new().await;
    world.create_object(daemon_set(json!({}))).await;
    world.wait_until_settled().await;
    let first = world.object_names(REVISIONS).await.remove(0);
    world.roll_out("img:2", json!({})).await;
    world.wait_until_settled().await;
    world.sandbox.faults().hold_watch(CONTROLLER_IDENTITY, "controllerrevisions");
    let owner = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "other", "uid": "00000000-0000-0000-0000-000000000001",
        "controller": true});
    world.merge_patch(REVISIONS, &first, json!({"metadata": {"ownerReferences": [owner]}})).await;
    world.clear_records();
    world.roll_out("img:1", json!({})).await;
    world.wait(5).await;
    assert_eq!(world.get(REVISIONS, &first).await["revision"], json!(1));
    assert_eq!(world.request_count("update", REVISIONS), 0);
}

/// DAEMONSET-77.
#[tokio::test(start_paused = true)]
async fn a_refused_release_of_a_revision_does_not_hold_up_a_rollout() {
    for refusal in [Action::Invalid, Action::Forbidden] {
        let world = TestCluster::new().await;
        world.create_object(daemon_set(json!({}))).await;
        world.wait_until_settled().await;
        let first = world.object_names(REVISIONS).await.remove(0);
        let refuse = Rule::new(refusal).identity(CONTROLLER_IDENTITY).verb("patch").resource("controllerrevisions");
        world.sandbox.faults().add(refuse);
        world.roll_out("img:2", json!({})).await;
        world.merge_patch(REVISIONS, &first, json!({"metadata": {"labels": {"app": "mine"}}})).await;
        world.wait(60).await;
        assert_eq!(world.images().await, ["node-0 img:2", "node-1 img:2", "node-2 img:2"]);
        assert_eq!(world.status().await["numberReady"], json!(3));
        let event = format!("Warning FailedUpdate Error: cannot release ControllerRevision {first}");
        assert!(world.has_event(&event).await, "{:?}", world.events().await);
        let waiting = world.explain()["waiting"].to_string();
        assert!(waiting.contains(&format!("revision {first} stays as it is")), "{waiting}");
        world.wait(300).await;
        let tries = world.request_count("patch", REVISIONS);
        assert!((3..=9).contains(&tries), "it is retried with growing delays: {tries}");
        world.sandbox.faults().clear();
        world.wait(900).await;
        assert_eq!(world.get(REVISIONS, &first).await["metadata"]["ownerReferences"], Value::Null);
    }
}

/// DAEMONSET-78.
#[tokio::test(start_paused = true)]
async fn a_revision_that_cannot_be_stored_is_reported_and_tried_again() {
    for refusal in [Action::Invalid, Action::Forbidden, Action::InternalError] {
        let world = TestCluster::new().await;
        world.sandbox.faults().add(
            Rule::new(refusal.clone()).identity(CONTROLLER_IDENTITY).verb("create").resource("controllerrevisions"),
        );
        world.create_object(daemon_set(json!({}))).await;
        world.wait(10).await;
        let is_reported = world.has_event("Warning FailedCreate Error creating ControllerRevision agent-").await;
        assert!(is_reported, "{refusal:?}: {:?}", world.events().await);
        world.sandbox.faults().clear();
        world.wait(30).await;
        assert_eq!(world.status().await["numberReady"], json!(3), "{refusal:?}");
    }
}
