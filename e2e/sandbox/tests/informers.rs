//! Informers of the product on the sandbox, in both formats, and under everything that can be wrong with a watch.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

use std::{collections::BTreeSet, time::Duration};

use common::{
    api::{Api, WireFormat},
    clock::Clock,
    gate::closed_write_gate,
    informer::{AnyInformer as _, Informer, InformerConfig},
    pods::Pod,
};
use sandbox::{Action, Rule, Sandbox};
use serde_json::{Value, json};

const NAME: &str = "informers";

fn sandbox(protobuf: bool) -> (Sandbox, Clock) {
    let clock = Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap(), 7);
    (Sandbox::builder().clock(clock.clone()).protobuf(protobuf).build(), clock)
}

fn pod(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default", "labels": {"app": name}},
        "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}})
}

fn start(sandbox: &Sandbox, clock: &Clock, format: WireFormat, streaming: bool) -> Informer<Pod> {
    let (_, gate) = closed_write_gate(clock.clone());
    let api = Api::new(sandbox.client(NAME), clock.clone(), gate, NAME).with_preferred_format(format);
    Informer::start(
        api,
        InformerConfig { is_streaming_list_enabled: streaming, ..InformerConfig::default() },
        Vec::new(),
    )
}

fn names(informer: &Informer<Pod>) -> BTreeSet<String> {
    informer.store().all_decoded().iter().map(|pod| pod.meta.name.to_string()).collect()
}

/// Lets the informer catch up.
async fn settle(clock: &Clock) {
    clock.sleep(Duration::from_secs(120)).await;
}

#[tokio::test(start_paused = true)]
async fn both_formats_fill_the_same_cache() {
    for served in [true, false] {
        for streaming in [true, false] {
            let (sandbox, clock) = sandbox(served);
            sandbox.create(pod("before")).await.unwrap();
            let informers =
                [WireFormat::Protobuf, WireFormat::Json].map(|format| start(&sandbox, &clock, format, streaming));
            for informer in &informers {
                informer.wait_until_synced().await;
            }
            sandbox.create(pod("after")).await.unwrap();
            settle(&clock).await;
            let [protobuf, json] = informers.map(|informer| (informer.version(), informer.store().all_decoded()));
            assert_eq!(protobuf.1.len(), 2);
            assert_eq!(protobuf, json, "protobuf served: {served}, streaming: {streaming}");
        }
    }
}

/// Whatever is wrong with a watch, the cache is right afterwards, and never holds anything that is not there.
#[tokio::test(start_paused = true)]
async fn a_damaged_watch_leads_to_the_right_cache() {
    let damage = [
        Action::Garbage,
        Action::HalfLine,
        Action::OverlongFrame,
        Action::UnknownEventType,
        Action::WrongKind,
        Action::ExpireWatch,
        Action::CutWatch,
    ];
    for format in [WireFormat::Protobuf, WireFormat::Json] {
        for damage in &damage {
            // An informer that reads JSON does not look at the kind.
            if *damage == Action::WrongKind && format == WireFormat::Json {
                continue;
            }
            for streaming in [true, false] {
                let (sandbox, clock) = sandbox(true);
                sandbox.create(pod("a")).await.unwrap();
                let informer = start(&sandbox, &clock, format, streaming);
                informer.wait_until_synced().await;
                sandbox.faults().add(Rule::new(damage.clone()).resource("pods").times(2));
                let mut expected = BTreeSet::from(["a".to_owned()]);
                for round in 0..4 {
                    let name = format!("b{round}");
                    sandbox.create(pod(&name)).await.unwrap();
                    expected.insert(name);
                    settle(&clock).await;
                    assert!(names(&informer).is_subset(&expected), "{damage:?} {format:?}");
                }
                assert_eq!(names(&informer), expected, "{damage:?} {format:?} {streaming}");
                let clean = start(&sandbox, &clock, WireFormat::Json, streaming);
                clean.wait_until_synced().await;
                assert_eq!(
                    informer.store().all_decoded(),
                    clean.store().all_decoded(),
                    "{damage:?} {format:?} {streaming}"
                );
                assert!(sandbox.faults().hits(damage) > 0, "{damage:?} {format:?}");
                assert!(informer.stale_error().is_none());
            }
        }
    }
}
