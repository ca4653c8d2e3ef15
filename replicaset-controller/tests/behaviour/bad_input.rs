//! Malformed objects, as only a faulty server would send them.

use std::sync::Arc;

use bytes::Bytes;
use common::{clock::Clock, settings::OperatorSettings};
use http::Request;
use http_body_util::{BodyExt as _, Full};
use sandbox::{ConnectionCut, Sandbox, loops::Loops};
use serde_json::json;
use tower::Service as _;

use crate::world::{CONTROLLER_IDENTITY, NAMESPACE, replica_set};

/// Returns a client that replaces text in the server's answers. `says` has pairs of original and replacement.
fn lying(sandbox: &Sandbox, says: &'static [(&'static str, &'static str)]) -> kube::Client {
    let inner = sandbox.service(CONTROLLER_IDENTITY);
    let service = tower::service_fn(move |request: Request<kube::client::Body>| {
        let mut inner = inner.clone();
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await.map_err(|_| ConnectionCut)?.to_bytes();
            let response = inner.call(Request::from_parts(parts, Full::new(body))).await?;
            Ok::<_, ConnectionCut>(response.map(|body| {
                body.map_frame(|frame| {
                    frame.map_data(|data| {
                        let text = String::from_utf8_lossy(&data).into_owned();
                        Bytes::from(says.iter().fold(text, |text, (is, said)| text.replace(is, said)))
                    })
                })
                .boxed_unsync()
            }))
        }
    });
    kube::Client::new(service, "default")
}

/// REPLICASET-46, REPLICASET-83.
#[tokio::test(start_paused = true)]
async fn a_malformed_set_backs_off_alone() {
    for (says, error) in [
        (&[("\"replicas\":77", "\"replicas\":-77")][..], "spec.replicas is -77"),
        (&[("\"replicas\":77", "\"replicas\":\"many\"")], "invalid type"),
        (&[("\"minReadySeconds\":55", "\"minReadySeconds\":-1")], "spec.minReadySeconds is -1"),
        (&[("\"selector\":{\"matchLabels\":{\"app\":\"bad\"}}", "\"selector\":null")], "spec.selector is missing"),
        (&[("\"selector\":{\"matchLabels\":{\"app\":\"bad\"}}", "\"selector\":{}")], "spec.selector selects every Pod"),
        (&[("\"labels\":{\"app\":\"bad\"}", "\"labels\":{\"app\":7}")], "labels cannot be read"),
    ] {
        let clock = Clock::simulated("2026-11-21T09:00:00Z".parse().unwrap(), 7);
        // Answers must be JSON, because they are changed as text.
        let sandbox = Sandbox::builder().clock(clock.clone()).protobuf(false).build();
        sandbox
            .create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}))
            .await
            .unwrap();
        let mut bad = replica_set("bad", 77);
        bad["spec"]["minReadySeconds"] = json!(55);
        sandbox.create(bad).await.unwrap();
        sandbox.create(replica_set("good", 3)).await.unwrap();
        let loops = Loops::start(&lying(&sandbox, says), &clock, OperatorSettings::new(), replicaset_controller::LOOPS);
        clock.sleep(std::time::Duration::from_mins(1)).await;
        let pods = sandbox.list("pods", Some(NAMESPACE)).await.unwrap();
        assert_eq!(pods.len(), 3, "{says:?}");
        let told = loops.explain(Some("shop/bad"))[0].clone();
        assert_eq!(told["state"], "failing", "{says:?} {told}");
        assert!(told["waiting"][0].as_str().unwrap().contains(error), "{says:?} {told}");
        // The back-off starts at 5 ms and doubles, so that only few attempts happen in a minute.
        let failures = told["lastError"]["failures"].as_u64().unwrap();
        assert!((10..=15).contains(&failures), "{told}");
        assert_eq!(sandbox.requests().count(Some(CONTROLLER_IDENTITY), Some("create"), Some("pods")), 3);
    }
}

/// REPLICASET-48.
#[tokio::test(start_paused = true)]
async fn a_malformed_pod_stops_its_own_set_and_no_other() {
    let clock = Clock::simulated("2026-11-21T09:00:00Z".parse().unwrap(), 7);
    let sandbox = Sandbox::builder().clock(clock.clone()).protobuf(false).build();
    sandbox.create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})).await.unwrap();
    let resources = json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Gi"}});
    let mut bad = replica_set("bad", 2);
    bad["spec"]["template"]["spec"]["containers"][0]["resources"] = resources.clone();
    sandbox.create(bad).await.unwrap();
    let mut orphan = crate::world::orphan_pod("orphan", "good");
    orphan["spec"]["containers"][0]["resources"] = resources;
    sandbox.create(orphan).await.unwrap();
    sandbox.create(replica_set("good", 3)).await.unwrap();
    let client = Arc::new(lying(&sandbox, &[("\"qosClass\":\"Guaranteed\"", "\"conditions\":7")]));
    let loops = Loops::start(&client, &clock, OperatorSettings::new(), replicaset_controller::LOOPS);
    clock.sleep(std::time::Duration::from_mins(1)).await;
    let count =
        |app: &str, pods: &[serde_json::Value]| pods.iter().filter(|p| p["metadata"]["labels"]["app"] == app).count();
    let pods = sandbox.list("pods", Some(NAMESPACE)).await.unwrap();
    // The malformed orphan is not adopted, and does not delay the other Pods.
    assert_eq!((count("bad", &pods), count("good", &pods)), (2, 4));
    assert_eq!(loops.explain(Some("shop/bad"))[0]["state"], "failing");
    assert_eq!(loops.explain(Some("shop/good"))[0]["state"], "settled");
}
