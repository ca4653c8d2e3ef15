//! Malformed objects, as only a faulty server would send them.

use bytes::Bytes;
use common::{clock::Clock, settings::OperatorSettings};
use http::Request;
use http_body_util::{BodyExt as _, Full};
use sandbox::{ConnectionCut, Sandbox, loops::Loops};
use serde_json::json;
use tower::Service as _;

use crate::world::{CONTROLLER_IDENTITY, DEPLOYMENTS, NAMESPACE, REPLICA_SETS, web_deployment};

/// Returns a client that replaces `is` by `said` in every answer of the server.
fn lying(sandbox: &Sandbox, is: &'static str, said: &'static str) -> kube::Client {
    let inner = sandbox.service(CONTROLLER_IDENTITY);
    let service = tower::service_fn(move |request: Request<kube::client::Body>| {
        let mut inner = inner.clone();
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await.map_err(|_| ConnectionCut)?.to_bytes();
            let response = inner.call(Request::from_parts(parts, Full::new(body))).await?;
            Ok::<_, ConnectionCut>(response.map(move |body| {
                body.map_frame(move |frame| {
                    frame.map_data(move |data| Bytes::from(String::from_utf8_lossy(&data).replace(is, said)))
                })
                .boxed_unsync()
            }))
        }
    });
    kube::Client::new(service, "default")
}

/// DEPLOYMENT-39, DEPLOYMENT-63, DEPLOYMENT-89.
#[tokio::test(start_paused = true)]
async fn a_malformed_deployment_backs_off_alone() {
    for (is, said, error) in [
        ("\"replicas\":77", "\"replicas\":-77", "spec.replicas is -77"),
        ("\"replicas\":77", "\"replicas\":\"many\"", "invalid type"),
        ("\"selector\":{\"matchLabels\":{\"app\":\"bad\"}}", "\"selector\":null", "spec.selector is missing"),
        ("\"maxUnavailable\":\"77%\"", "\"maxUnavailable\":\"300%\"", "maxUnavailable: 300% is out of range"),
        ("\"maxUnavailable\":\"77%\"", "\"maxUnavailable\":\"x%\"", "\"x%\" is not an integer"),
        ("\"type\":\"RollingUpdate\"", "\"type\":\"BlueGreen\"", "unexpected deployment strategy type: BlueGreen"),
        ("\"labels\":{\"app\":\"bad\"}", "\"labels\":{\"app\":7}", "cannot be read"),
    ] {
        let clock = Clock::simulated("2026-11-21T09:00:00Z".parse().unwrap(), 7);
        let sandbox = Sandbox::builder().clock(clock.clone()).build();
        sandbox
            .create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}))
            .await
            .unwrap();
        let mut bad = web_deployment(77);
        bad["metadata"]["name"] = json!("bad");
        bad["spec"]["selector"]["matchLabels"]["app"] = json!("bad");
        bad["spec"]["template"]["metadata"]["labels"]["app"] = json!("bad");
        bad["spec"]["strategy"] = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "77%"}});
        let mut good = web_deployment(1);
        good["spec"]["strategy"] = json!({"type": "Recreate"});
        sandbox.create(bad).await.unwrap();
        sandbox.create(good).await.unwrap();
        let loops =
            Loops::start(&lying(&sandbox, is, said), &clock, OperatorSettings::new(), deployment_controller::LOOPS);
        clock.sleep(std::time::Duration::from_secs(60)).await;
        let told = loops.explain(Some("shop/bad"))[0].clone();
        let why = format!("{} {}", told["waiting"], told["lastError"]["error"].as_str().unwrap_or_default());
        assert!(why.contains(error), "{said}: {told:#}");
        // The back-off doubles from 5 ms, so there are few attempts in a minute.
        let failures = told["lastError"]["failures"].as_u64().unwrap();
        assert!((10..=15).contains(&failures), "{said}: {told:#}");
        let good = sandbox.get(DEPLOYMENTS, Some(NAMESPACE), "web").await.unwrap();
        assert_eq!(good["status"]["observedGeneration"], 1, "{said}");
        assert_eq!(
            sandbox.requests().count(Some(CONTROLLER_IDENTITY), Some("create"), Some(REPLICA_SETS)),
            1,
            "{said}"
        );
    }
}
