//! Allocations of one watch event.

use allocation_counter::AllocationInfo;
use common::{api::WireFormat, informer::Sink, meta::ResourceVersion};
use sandbox::{
    guards::{Guards, Unmeasured},
    recorded::frame,
};
use serde_json::{Value, json};

use super::{
    caches::{FORMATS, at, cached, cost, filtered, job, lease, node, numbered, pod, revision, slice},
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

#[tokio::test]
async fn a_foreign_event_costs_nothing_in_protobuf() {
    let mut guards = Guards::new("events/foreign", Unmeasured::Fails);
    let g = &mut guards;
    let not_free = [
        foreign(g, "pod/replicaset", cached::<replicaset_controller::pod_cache::CachedPod>, &pod("StatefulSet")),
        foreign(g, "pod/deployment", cached::<deployment_controller::objects::Pod>, &pod("StatefulSet")),
        foreign(
            g,
            "pod/statefulset",
            || filtered::<statefulset_controller::objects::CachedPod>("statefulset.kubernetes.io/pod-name"),
            &pod("ReplicaSet"),
        ),
        foreign(
            g,
            "pod/daemonset",
            || filtered::<daemonset_controller::objects::CachedPod>("controller-revision-hash"),
            &pod("StatefulSet"),
        ),
        foreign(g, "pod/job", cached::<job_controller::objects::CachedPod>, &pod("ReplicaSet")),
        foreign(g, "job/cronjob", cached::<cronjob_controller::objects::Job>, &job("Workflow")),
        foreign(
            g,
            "revision/statefulset",
            cached::<statefulset_controller::objects::CachedRevision>,
            &revision("DaemonSet"),
        ),
        foreign(
            g,
            "revision/daemonset",
            cached::<daemonset_controller::objects::ControllerRevision>,
            &revision("StatefulSet"),
        ),
    ];
    hold(guards);
    // Whatever the table says.
    assert_eq!(not_free.concat(), [""; 0]);
}

#[tokio::test]
async fn an_event_of_a_cached_object_costs_no_more_than_recorded() {
    let mut guards = Guards::new("events/own", Unmeasured::Fails);
    let g = &mut guards;
    own(g, "pod/replicaset", cached::<replicaset_controller::pod_cache::CachedPod>, &pod("ReplicaSet"));
    own(g, "pod/deployment", cached::<deployment_controller::objects::Pod>, &pod("ReplicaSet"));
    own(
        g,
        "pod/statefulset",
        || filtered::<statefulset_controller::objects::CachedPod>("statefulset.kubernetes.io/pod-name"),
        &pod("StatefulSet"),
    );
    own(
        g,
        "pod/daemonset",
        || filtered::<daemonset_controller::objects::CachedPod>("controller-revision-hash"),
        &pod("DaemonSet"),
    );
    own(g, "pod/job", cached::<job_controller::objects::CachedPod>, &pod("Job"));
    own(g, "pod/endpointslice", cached::<endpointslice_controller::objects::Pod>, &pod("ReplicaSet"));
    own(g, "pod/node-lifecycle", cached::<node_lifecycle_controller::objects::CachedPod>, &pod("ReplicaSet"));
    own(g, "node/node-lifecycle", cached::<node_lifecycle_controller::objects::Node>, &node());
    own(g, "node/daemonset", cached::<daemonset_controller::objects::Node>, &node());
    own(g, "node/endpointslice", cached::<endpointslice_controller::objects::Node>, &node());
    own(g, "lease/node-lifecycle", cached::<node_lifecycle_controller::objects::Lease>, &lease());
    own(g, "slice/endpointslice", cached::<endpointslice_controller::objects::Slice>, &slice());
    own(g, "job/cronjob", cached::<cronjob_controller::objects::Job>, &job("CronJob"));
    own(g, "revision/statefulset", cached::<statefulset_controller::objects::CachedRevision>, &revision("StatefulSet"));
    own(g, "revision/daemonset", cached::<daemonset_controller::objects::ControllerRevision>, &revision("DaemonSet"));
    hold(guards);
}
