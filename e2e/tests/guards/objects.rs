//! Bytes that stay allocated for one cached object.

use common::{api::WireFormat, informer::Sink};
use sandbox::{
    guards::{Guards, Unmeasured},
    recorded::frame,
};
use serde_json::Value;

use super::{
    caches::{cached, cost, filtered, job, lease, node, numbered, pod, revision, slice},
    hold,
};

/// Objects before those that count: what all of them share is there by then.
const WARM_UP: usize = 16;
/// Objects that count.
const OBJECTS: usize = 512;

/// Fills a cache. The bytes of an object are those of its own texts, its place in the cache and its places in the indexes.
fn object<S: Sink>(guards: &mut Guards, path: &str, sink: S, object: &Value) {
    let kept = (0..WARM_UP + OBJECTS).map(|number| {
        let frame = frame(WireFormat::Protobuf, "ADDED", &numbered(object.clone(), number)).unwrap();
        cost(&sink, WireFormat::Protobuf, &frame).bytes_current
    });
    let bytes: i64 = kept.skip(WARM_UP).sum();
    assert_eq!(sink.len(), WARM_UP + OBJECTS, "{path} is not cached");
    let bytes = u64::try_from(bytes).unwrap();
    assert!(bytes > 0);
    guards.add(path, "bytes", bytes.div_ceil(OBJECTS as u64));
}

#[tokio::test]
async fn a_cached_object_takes_no_more_memory_than_recorded() {
    let mut guards = Guards::new("objects", Unmeasured::Fails);
    let g = &mut guards;
    object(g, "pod/replicaset", cached::<replicaset_controller::pod_cache::CachedPod>(), &pod("ReplicaSet"));
    object(g, "pod/deployment", cached::<deployment_controller::objects::Pod>(), &pod("ReplicaSet"));
    object(
        g,
        "pod/statefulset",
        filtered::<statefulset_controller::objects::CachedPod>("statefulset.kubernetes.io/pod-name"),
        &pod("StatefulSet"),
    );
    object(
        g,
        "pod/daemonset",
        filtered::<daemonset_controller::objects::CachedPod>("controller-revision-hash"),
        &pod("DaemonSet"),
    );
    object(g, "pod/job", cached::<job_controller::objects::CachedPod>(), &pod("Job"));
    object(g, "pod/endpointslice", cached::<endpointslice_controller::objects::Pod>(), &pod("ReplicaSet"));
    object(g, "pod/node-lifecycle", cached::<node_lifecycle_controller::objects::CachedPod>(), &pod("ReplicaSet"));
    object(g, "node/node-lifecycle", cached::<node_lifecycle_controller::objects::Node>(), &node());
    object(g, "node/daemonset", cached::<daemonset_controller::objects::Node>(), &node());
    object(g, "node/endpointslice", cached::<endpointslice_controller::objects::Node>(), &node());
    object(g, "lease/node-lifecycle", cached::<node_lifecycle_controller::objects::Lease>(), &lease());
    object(g, "slice/endpointslice", cached::<endpointslice_controller::objects::Slice>(), &slice());
    object(g, "job/cronjob", cached::<cronjob_controller::objects::Job>(), &job("CronJob"));
    object(
        g,
        "revision/statefulset",
        cached::<statefulset_controller::objects::CachedRevision>(),
        &revision("StatefulSet"),
    );
    object(
        g,
        "revision/daemonset",
        cached::<daemonset_controller::objects::ControllerRevision>(),
        &revision("DaemonSet"),
    );
    hold(guards);
}
