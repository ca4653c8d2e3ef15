use common::{
    api::Api,
    clock::Clock,
    controller::Controller as _,
    events::Recorder,
    gate::gate,
    meta::{Meta, Version},
    metrics::Metrics,
    queue::{Backoff, Queue},
    runtime::{Context, Shared},
    settings::Settings,
};
use serde_json::json;

use super::*;
use crate::{
    objects::CLAIMS,
    world::{empty, now},
};

/// Returns a controller whose caches the test fills. Its API server never answers.
fn controller() -> StatefulSetController {
    let silent = tower::service_fn(|_: http::Request<kube::client::Body>| {
        std::future::pending::<Result<http::Response<kube::client::Body>, std::convert::Infallible>>()
    });
    let clock = Clock::simulated(now(), 0);
    let (_, gate) = gate(clock.clone());
    let context = Context {
        api: Api::new(kube::Client::new(silent, "default"), clock.clone(), gate.clone(), "test"),
        recorder: Recorder::silent("test", clock.clone()),
        settings: Arc::new(Settings::new()),
        metrics: Metrics::new(),
        accounts: None,
        sampler: None,
        shared: Shared::default(),
        clock: clock.clone(),
        gate,
    };
    StatefulSetController::new(context, Queue::new(clock, Backoff::default(), None))
}

#[tokio::test(start_paused = true)]
async fn a_template_is_parsed_once_until_it_changes() {
    let controller = controller();
    let mut set = empty(3).set;
    let mut template = |version: u64| {
        set["metadata"]["resourceVersion"] = json!(version.to_string());
        set["status"] = json!({"replicas": version});
        if version > 2 {
            set["spec"]["template"]["spec"]["containers"][0]["image"] = json!("img:b");
        }
        controller
            .sets
            .store()
            .fill(vec![serde_json::from_str(&set.to_string()).unwrap()], Version::parse(&version.to_string()));
        match controller.observe(&Key::new("shop", "web"), now()) {
            Ok(Observed::Ready(snapshot)) => snapshot.template,
            _ => panic!("the caches allow a decision"),
        }
    };
    let (first, same, changed) = (template(1), template(2), template(3));
    assert!(Arc::ptr_eq(&first, &same), "a new status does not change the template");
    assert_ne!(first.data().bytes(), changed.data().bytes());
}

/// STATEFULSET-5.
#[tokio::test(start_paused = true)]
async fn a_sync_registers_an_awaited_write_and_an_explanation_does_not() {
    let (controller, key) = (controller(), Key::new("shop", "web"));
    let set = serde_json::from_str(&empty(3).set.to_string()).unwrap();
    controller.sets.store().fill(vec![set], Version::parse("5"));
    controller.claims.store().fill(Vec::new(), Version::parse("8"));
    controller.ledger.wrote(&Uid::new("SET"), CLAIMS, Version::parse("9"));
    let claim = Meta { namespace: "shop".into(), resource_version: Version::parse("9"), ..Meta::default() };
    assert!(matches!(controller.observe(&key, now()), Ok(Observed::Waiting { .. })));
    assert!(controller.awaited_writes.take(CLAIMS, &claim).is_empty());
    controller.waiting(&key);
    assert_eq!(controller.awaited_writes.take(CLAIMS, &claim), [key]);
}
