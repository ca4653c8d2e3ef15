//! Allocations of one watch event.

use std::fmt::Debug;

use allocation_counter::AllocationInfo;
use common::{api::WireFormat, informer::Sink, meta::ResourceVersion, object::Object};
use sandbox::{
    guards::{Guards, Unmeasured},
    recorded::frame,
};
use serde_json::{Value, json};

use crate::projections::table::{self, Row, Visitor};

use super::{
    caches::{FORMATS, at, cached, cost, filtered, numbered, recorded_object},
    hold,
};

/// Events before those that count: texts are interned and tables have room by then.
const WARM_UP: usize = 32;
/// Events that count.
const EVENTS: usize = 32;

fn add(guards: &mut Guards, path: &str, (allocations, bytes): (u64, u64)) {
    guards.add(path, "allocations", allocations);
    guards.add(path, "bytes", bytes);
}

/// The lowest cost: that of an event for which no table grows.
fn lowest(costs: &[AllocationInfo]) -> (u64, u64) {
    let least = |count: fn(&AllocationInfo) -> u64| costs.iter().map(count).min().unwrap();
    (least(|cost| cost.count_total), least(|cost| cost.bytes_total))
}

/// The highest cost.
fn highest(costs: &[AllocationInfo]) -> (u64, u64) {
    let most = |count: fn(&AllocationInfo) -> u64| costs.iter().map(count).max().unwrap();
    (most(|cost| cost.count_total), most(|cost| cost.bytes_total))
}

/// The events of an object that does not concern the controller: not one of them may cost more than recorded. The result lists
/// what allocates in protobuf.
fn foreign<S: Sink>(guards: &mut Guards, path: &str, sink: impl Fn() -> S, object: &Value) -> Vec<String> {
    let mut not_free = Vec::new();
    for (name, format) in FORMATS {
        for event in ["ADDED", "MODIFIED", "DELETED"] {
            let sink = sink();
            let costs: Vec<_> = (1..=WARM_UP + EVENTS)
                .map(|version| cost(&sink, format, &frame(format, event, &at(object.clone(), version)).unwrap()))
                .collect();
            let version = (WARM_UP + EVENTS).to_string();
            assert_eq!((sink.len(), sink.version()), (0, ResourceVersion::parse(&version)), "{path} is not foreign");
            let highest = highest(&costs[WARM_UP..]);
            add(guards, &format!("{name}/{path}/{}", event.to_lowercase()), highest);
            if format == WireFormat::Protobuf && highest != (0, 0) {
                not_free.push(format!("{path} {event}: {} allocations of {} bytes", highest.0, highest.1));
            }
        }
    }
    not_free
}

/// The events of an object that is cached.
fn own<S: Sink>(guards: &mut Guards, path: &str, sink: impl Fn() -> S, object: &Value) {
    let all = WARM_UP + EVENTS;
    for (name, format) in FORMATS {
        let sink = sink();
        let event = |event: &str, object: &Value| cost(&sink, format, &frame(format, event, object).unwrap());
        let added: Vec<_> = (0..all).map(|number| event("ADDED", &numbered(object.clone(), number))).collect();
        assert_eq!(sink.len(), all, "{path} is not cached");
        add(guards, &format!("{name}/{path}/added"), lowest(&added[WARM_UP..]));
        let last = numbered(object.clone(), all - 1);
        let updated: Vec<_> =
            (all + 1..=2 * all).map(|version| event("MODIFIED", &at(last.clone(), version))).collect();
        assert_eq!((sink.len(), sink.version()), (all, ResourceVersion::parse(&(2 * all).to_string())));
        add(guards, &format!("{name}/{path}/modified"), lowest(&updated[WARM_UP..]));
        let gone = |number: usize| {
            let mut gone = at(numbered(object.clone(), number), 2 * all + number + 1);
            gone["metadata"]["deletionTimestamp"] = json!("2026-11-26T11:22:52Z");
            gone
        };
        let deleted: Vec<_> = (0..all).map(|number| event("DELETED", &gone(number))).collect();
        assert_eq!(sink.len(), 0);
        add(guards, &format!("{name}/{path}/deleted"), lowest(&deleted[..EVENTS]));
    }
}

/// Guards the events of objects that do not concern a controller, and lists what allocates in protobuf.
struct Foreign(Guards, Vec<String>);

impl Visitor for Foreign {
    fn visit<P: Object + Debug>(&mut self, row: Row) {
        let Some(guarded) = row.guards else { return };
        let Some(owner) = guarded.foreign_owner else { return };
        let (kind, object) = recorded_object(P::RESOURCE.plural(), owner);
        let path = format!("{kind}/{}", guarded.controller);
        let Self(guards, not_free) = self;
        not_free.extend(match guarded.label {
            Some(label) => foreign(guards, &path, || filtered::<P>(label), &object),
            None => foreign(guards, &path, cached::<P>, &object),
        });
    }
}

#[tokio::test]
async fn a_foreign_event_costs_nothing_in_protobuf() {
    let mut measured = Foreign(Guards::new("events/foreign", Unmeasured::Fails), Vec::new());
    table::visit(&mut measured);
    let Foreign(guards, not_free) = measured;
    hold(guards);
    // Whatever the table says.
    assert_eq!(not_free, [""; 0]);
}

/// Guards the events of cached objects.
struct Own(Guards);

impl Visitor for Own {
    fn visit<P: Object + Debug>(&mut self, row: Row) {
        let Some(guarded) = row.guards else { return };
        let (kind, object) = recorded_object(P::RESOURCE.plural(), guarded.owner);
        let path = format!("{kind}/{}", guarded.controller);
        match guarded.label {
            Some(label) => own(&mut self.0, &path, || filtered::<P>(label), &object),
            None => own(&mut self.0, &path, cached::<P>, &object),
        }
    }
}

#[tokio::test]
async fn an_event_of_a_cached_object_costs_no_more_than_recorded() {
    let mut measured = Own(Guards::new("events/own", Unmeasured::Fails));
    table::visit(&mut measured);
    hold(measured.0);
}
