//! Costs of a monitor that must not grow: allocations for each event, and bytes in the graph for each object. The recorded
//! costs are in `e2e/guards.txt`.

use std::sync::Arc;

use allocation_counter::{AllocationInfo, measure};
use common::{
    api::WireFormat,
    informer::{Sink as _, apply_watch_frame},
    metrics::Metrics,
    prelude::*,
};
use sandbox::{
    guards::{Guards, Unmeasured},
    recorded,
};
use serde_json::{Value, json};

use super::GraphSink;
use crate::{collection::CollectorState, metrics::ControllerMetrics};

/// Number of unmeasured events at the start, which intern texts and fill tables.
const WARM_UP: usize = 32;
const EVENTS: usize = 32;
const OBJECTS: usize = 512;

/// Returns the monitor of Pods in a standby, where no work is enqueued.
fn monitor() -> GraphSink {
    let clock = Clock::simulated(jiff::Timestamp::UNIX_EPOCH, 1);
    let queue = || Queue::new(clock.clone(), BackoffSettings::default(), None);
    let metrics = ControllerMetrics::new(&Metrics::default());
    let recorder = EventRecorder::discarding_events("guards", clock.clone());
    let collection = CollectorState::new([queue(), queue()], recorder, metrics, true);
    let source = collection.graph.lock().add_monitor("v1", "Pod");
    GraphSink::new(Arc::new(collection), source)
}

/// Returns the metadata of a Pod of a ReplicaSet, as the server sends it to a watch of metadata only.
fn pod(number: usize, version: usize) -> Value {
    let mut metadata = recorded::object("pods", "web-0").unwrap()["metadata"].take();
    let mut owner = metadata["ownerReferences"][1].take();
    owner["kind"] = json!("ReplicaSet");
    metadata["ownerReferences"] = json!([owner]);
    metadata["finalizers"] = json!([]);
    metadata["name"] = json!(format!("web-7c99d5cb8d-{number:05}"));
    metadata["uid"] = json!(format!("2ff731ae-b0d1-491c-a286-{number:012x}"));
    metadata["resourceVersion"] = json!(version.to_string());
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata})
}

fn cost(sink: &GraphSink, format: WireFormat, event: &str, pod: &Value) -> AllocationInfo {
    let frame = recorded::frame(format, event, pod).unwrap();
    let mut result = Ok(());
    let cost = measure(|| result = apply_watch_frame(sink, format, &frame));
    assert_eq!(result, Ok(()));
    cost
}

/// Adds the lowest of the costs. Higher costs include the growth of a table.
fn add_lowest(guards: &mut Guards, path: &str, costs: &[AllocationInfo]) {
    guards.add(path, "allocations", costs.iter().map(|cost| cost.count_total).min().unwrap());
    guards.add(path, "bytes", costs.iter().map(|cost| cost.bytes_total).min().unwrap());
}

fn hold(guards: Guards) {
    let failures = guards.failures().unwrap();
    assert!(failures.is_empty(), "costs have grown:\n{}", failures.join("\n"));
}

#[test]
fn an_event_of_an_object_costs_no_more_than_recorded() {
    let mut guards = Guards::new("collector/events", Unmeasured::Fails);
    let all = WARM_UP + EVENTS;
    for (name, format) in [("protobuf", WireFormat::Protobuf), ("json", WireFormat::Json)] {
        let sink = monitor();
        let added: Vec<_> = (0..all).map(|number| cost(&sink, format, "ADDED", &pod(number, number + 1))).collect();
        assert_eq!(sink.len(), all);
        add_lowest(&mut guards, &format!("{name}/pod/added"), &added[WARM_UP..]);
        let modified: Vec<_> =
            (all + 1..=2 * all).map(|version| cost(&sink, format, "MODIFIED", &pod(all - 1, version))).collect();
        assert_eq!(sink.len(), all);
        add_lowest(&mut guards, &format!("{name}/pod/modified"), &modified[WARM_UP..]);
        let deleted: Vec<_> =
            (0..all).map(|number| cost(&sink, format, "DELETED", &pod(number, 2 * all + number + 1))).collect();
        assert_eq!(sink.len(), 0);
        add_lowest(&mut guards, &format!("{name}/pod/deleted"), &deleted[..EVENTS]);
    }
    hold(guards);
}

#[test]
fn an_object_in_the_graph_takes_no_more_memory_than_recorded() {
    let mut guards = Guards::new("collector/objects", Unmeasured::Fails);
    let sink = monitor();
    let kept = (0..WARM_UP + OBJECTS)
        .map(|number| cost(&sink, WireFormat::Protobuf, "ADDED", &pod(number, number + 1)).bytes_current);
    let bytes: i64 = kept.skip(WARM_UP).sum();
    assert_eq!(sink.len(), WARM_UP + OBJECTS);
    guards.add("pod", "bytes", u64::try_from(bytes).unwrap().div_ceil(OBJECTS as u64));
    hold(guards);
}
