use sandbox::{Action, Rule};
use serde_json::{Value, json};

use crate::world::{CONTROLLER_IDENTITY, NAMESPACE, TestCluster, web_service};

async fn there(world: &TestCluster) -> Value {
    world.sandbox.get("endpoints", Some(NAMESPACE), "web").await.unwrap()
}

/// ENDPOINTSLICE-55, ENDPOINTSLICE-59.
#[tokio::test(start_paused = true)]
async fn endpoints_are_kept_beside_slices() {
    let world = TestCluster::new().await;
    world.create_object(web_service(&json!({}))).await;
    world.create_pod(0).await;
    world.create_pod_with(1, json!({}), false).await;
    world.wait_seconds(2).await;
    let endpoints = there(&world).await;
    let meta = &endpoints["metadata"];
    assert_eq!(meta["labels"], json!({"tier": "a", "endpoints.kubernetes.io/managed-by": "endpoint-controller"}));
    let uid = |pod: Value| pod["metadata"]["uid"].clone();
    let target = async |name: &str| {
        let uid = uid(world.sandbox.get("pods", Some(NAMESPACE), name).await.unwrap());
        json!({"kind": "Pod", "namespace": NAMESPACE, "name": name, "uid": uid})
    };
    assert_eq!(
        endpoints["subsets"],
        json!([{"addresses": [{"ip": "10.1.0.1", "nodeName": "n0", "targetRef": target("p000").await}],
            "notReadyAddresses": [{"ip": "10.1.0.2", "nodeName": "n1", "targetRef": target("p001").await}],
            "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}]}])
    );
    let written = || world.request_count("patch", "endpoints") + world.request_count("create", "endpoints");
    let before = written();
    world.wait_seconds(60).await;
    assert_eq!(written(), before);
    world.delete_pod(0).await;
    world.delete_pod(1).await;
    world.wait_seconds(2).await;
    assert_eq!(there(&world).await["subsets"], Value::Null);
    world.delete_path("/api/v1/namespaces/NS/services/web").await;
    world.wait_seconds(2).await;
    assert!(
        world.sandbox.get("endpoints", Some(NAMESPACE), "web").await.is_err(),
        "Endpoints are deleted with their Service"
    );
}

#[tokio::test(start_paused = true)]
async fn a_write_with_a_lost_answer_is_corrected_once_the_cache_shows_it() {
    let world = TestCluster::new().await;
    world.create_object(web_service(&json!({}))).await;
    world.create_pod(0).await;
    world.wait_seconds(5).await;
    world.sandbox.faults().hold_watch(CONTROLLER_IDENTITY, "endpoints");
    let failed = Rule::new(Action::CutAfter).identity(CONTROLLER_IDENTITY).verb("patch").resource("endpoints").times(1);
    world.sandbox.faults().add(failed);
    world.set_pod_ready(0, false).await;
    world.wait_seconds(1).await;
    assert!(there(&world).await["subsets"][0]["addresses"].is_null(), "the write took effect");
    // The Pod becomes ready again. In the cached Endpoints, which do not show the write yet, the Pod has always been ready.
    world.set_pod_ready(0, true).await;
    world.wait_seconds(30).await;
    world.sandbox.faults().release_watch(CONTROLLER_IDENTITY, "endpoints");
    world.wait_seconds(5).await;
    assert_eq!(there(&world).await["subsets"][0]["addresses"][0]["ip"], "10.1.0.1");
}

/// ENDPOINTSLICE-59.
#[tokio::test(start_paused = true)]
async fn leftover_endpoints_are_deleted_at_the_start() {
    let mut world = TestCluster::new().await;
    world.crash();
    for (name, annotations) in [("left", json!({})), ("lock", json!({"control-plane.alpha.kubernetes.io/leader": "x"}))]
    {
        world
            .create_object(json!({"apiVersion": "v1", "kind": "Endpoints",
            "metadata": {"name": name, "namespace": NAMESPACE, "annotations": annotations}}))
            .await;
    }
    world.start_loops();
    world.wait_seconds(5).await;
    let left = world.sandbox.list("endpoints", Some(NAMESPACE)).await.unwrap();
    let names: Vec<&str> = left.iter().map(|e| e["metadata"]["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["lock"]);
}

/// ENDPOINTSLICE-59.
#[tokio::test(start_paused = true)]
async fn hand_made_endpoints_stay() {
    let world = TestCluster::new().await;
    world.create_object(web_service(&json!({"selector": null}))).await;
    let made = world
        .create_object(
            json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "web", "namespace": NAMESPACE},
        "subsets": [{"addresses": [{"ip": "10.2.0.1"}], "ports": [{"port": 80}]}]}),
        )
        .await;
    world.wait_seconds(30).await;
    assert_eq!(there(&world).await["metadata"]["resourceVersion"], made["metadata"]["resourceVersion"]);
}

/// ENDPOINTSLICE-61.
#[tokio::test(start_paused = true)]
async fn endpoints_that_wait_for_a_finalizer_are_kept_up_to_date() {
    let world = TestCluster::new().await;
    world.create_object(web_service(&json!({}))).await;
    world.create_pod(0).await;
    world.wait_seconds(2).await;
    world.patch_object("endpoints", "web", json!({"metadata": {"finalizers": ["test/hold"]}})).await;
    world.delete_path("/api/v1/namespaces/NS/endpoints/web").await;
    world.create_pod(1).await;
    world.wait_seconds(60).await;
    assert_eq!(there(&world).await["subsets"][0]["addresses"].as_array().unwrap().len(), 2);
    assert_eq!(world.request_count("create", "endpoints"), 1);
    assert_eq!(world.events().await, Vec::<String>::new());
    world.patch_object("endpoints", "web", json!({"metadata": {"finalizers": null}})).await;
    world.wait_seconds(5).await;
    assert_eq!(there(&world).await["metadata"]["deletionTimestamp"], Value::Null, "created again");
}
