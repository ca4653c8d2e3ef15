//! Limits on the memory of decisions and caches, and extreme values.
//!
//! Such tests are a test program of their own with a counting allocator, because they limit the memory of their process:
//!
//! ```ignore
//! #[global_allocator]
//! static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);
//! static METER: Meter = Meter::new(&ALLOCATOR);
//! ```

use std::{alloc::System, ops::Deref, sync::Arc};

use cap::Cap;
use common::{
    controller::{Controller, Decision, Explanation},
    meta::ResourceVersion,
    object::Object,
    revision::ControllerRevision,
    store::Store,
};
use jiff::Timestamp;
use parking_lot::{Mutex, MutexGuard};
use proptest::{prelude::*, test_runner::TestRunner};
use sandbox::memory;
use serde_json::{Value, json};

/// Counts the memory of a process, and serializes the tests that do, because it counts what all threads allocate.
pub struct Meter {
    allocator: &'static Cap<System>,
    alone: Mutex<()>,
}

impl Meter {
    /// Returns the meter of the global allocator.
    pub const fn new(allocator: &'static Cap<System>) -> Self {
        Self { allocator, alone: Mutex::new(()) }
    }

    /// Waits until no other test measures. A test holds the guard until its end.
    pub fn alone(&self) -> MutexGuard<'_, ()> {
        self.alone.lock()
    }

    /// Runs `work` with so many bytes more than are allocated now. An allocation beyond the limit ends the process.
    pub fn limited<T>(&self, bytes: usize, work: impl FnOnce() -> T) -> T {
        memory::limited(self.allocator, bytes, work)
    }

    /// Limits the memory as [`Meter::limited`] does, until the result is dropped.
    pub fn limit(&self, bytes: usize) -> memory::Limit<System> {
        memory::Limit::of(self.allocator, bytes)
    }

    /// Returns the bytes that are allocated now.
    pub fn allocated(&self) -> usize {
        self.allocator.allocated()
    }

    /// Returns the result of `work`, and the bytes that are allocated after it and were not before.
    pub fn held<T>(&self, work: impl FnOnce() -> T) -> (T, usize) {
        let before = self.allocator.allocated();
        let result = work();
        (result, self.allocator.allocated().saturating_sub(before))
    }

    /// Returns the result of `work`, and the bytes that it allocated, freed ones included.
    pub fn total<T>(&self, work: impl FnOnce() -> T) -> (T, usize) {
        let before = self.allocator.total_allocated();
        let result = work();
        (result, self.allocator.total_allocated() - before)
    }
}

impl Meter {
    /// Returns the bytes that a cache holds for each of so many objects.
    pub fn bytes_per_cached_object<T: Object>(&self, count: usize, object: impl Fn(usize) -> T) -> usize {
        let _alone = self.alone();
        let read = |at: usize| {
            let mut object = object(at);
            object.drop_unneeded_fields();
            object
        };
        let store = Store::<T>::default();
        // The first object causes the allocations that a process makes only once.
        drop(store.replace_objects_for_tests(vec![read(0)], ResourceVersion::parse("1")));
        let all = || drop(store.replace_objects_for_tests((0..count).map(read).collect(), ResourceVersion::parse("2")));
        let ((), held) = self.held(all);
        assert_eq!(store.len(), count);
        println!("{} bytes per cached object", held / count);
        held / count
    }
}

/// Maximum memory of an API server with hostile objects, its nodes and a controller together, in bytes.
const CLUSTER: usize = 512 << 20;
/// Maximum memory of a cached revision, in bytes, regardless of the size of its data.
const REVISION: usize = 8 << 10;

impl Meter {
    /// Runs the test of a cluster in virtual time and within a limit of memory.
    pub fn run_cluster<T>(&self, test: impl Future<Output = T>) -> T {
        let _alone = self.alone();
        self.limited(CLUSTER, || in_virtual_time(test))
    }

    /// Asserts a law for generated values. No other test measures meanwhile, because generated values take memory, too.
    pub fn check<S: Strategy>(&self, values: &S, law: impl Fn(S::Value) -> Result<(), TestCaseError>) {
        let _alone = self.alone();
        TestRunner::default().run(values, law).unwrap_or_else(|error| panic!("{error}"));
    }

    /// Returns the plan of a sync and its explanation, both made with at most so many bytes.
    pub fn decide<C: Controller>(
        &self,
        bytes: usize,
        snapshot: &C::Snapshot,
        now: Timestamp,
    ) -> (C::Plan, Explanation) {
        self.limited(bytes, || (C::decide(snapshot), Decision::<C>::with_forecast(snapshot, now).explain()))
    }

    /// Asserts that a cache keeps no data of a revision, and still knows revisions with other data.
    pub fn check_cached_revisions<T: Object + Deref<Target = ControllerRevision>>(&self) {
        let _alone = self.alone();
        let first: Arc<T> = read(&large_revision(0)).unwrap();
        let (cached, held) = self.held(|| (1..=20).map(|n| read(&large_revision(n)).unwrap()).collect::<Vec<Arc<T>>>());
        let taken = held / cached.len();
        assert!(taken <= REVISION, "{taken} bytes of a megabyte are kept");
        assert!(!first.has_same_data_as(&cached[0]));
    }
}

/// Runs a test in virtual time.
pub fn in_virtual_time<T>(test: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(test)
}

/// Reads an object as a cache does; `None` if the decoder refuses it.
pub fn read<T: Object>(value: &Value) -> Option<Arc<T>> {
    let mut object: T = serde_json::from_str(&value.to_string()).ok()?;
    object.drop_unneeded_fields();
    Some(Arc::new(object))
}

/// Generates one of these values.
pub fn any_of<T: Clone + std::fmt::Debug + 'static>(values: &[T]) -> impl Strategy<Value = T> + use<T> {
    prop::sample::select(values.to_vec())
}

/// Generates numbers at the limits of the API and beyond, and what is not a number.
pub fn any_number() -> impl Strategy<Value = Value> {
    let beyond = i64::from(i32::MAX) + 1;
    let numbers = [0, 1, 3, 7, 100_000, i64::from(i32::MAX) - 1, i64::from(i32::MAX), -1, beyond, i64::MAX];
    let numbers = numbers.map(|number| json!(number));
    any_of(&[&numbers[..], &[json!(i32::MAX), json!(null), json!("many")]].concat())
}

/// Generates limits of rolling updates: numbers and percentages at the limits of the API and beyond.
pub fn any_rollout_limit() -> impl Strategy<Value = Value> {
    let numbers = [0, 1, 3, i64::from(i32::MAX), i64::from(i32::MIN), i64::MAX].map(|number| json!(number));
    let texts = ["0%", "25%", "100%", "2147483647%", "999999999999%", "-5%", "x", ""].map(|text| json!(text));
    any_of(&[&numbers[..], &texts, &[json!(null)]].concat())
}

/// Returns a `ControllerRevision` with a megabyte of data that depends on the number.
fn large_revision(number: usize) -> Value {
    let ballast = format!("{number}{}", "x".repeat(1 << 20));
    let template = json!({"metadata": {"annotations": {"example.com/ballast": ballast}}, "spec": {"containers": []}});
    json!({"metadata": {"name": format!("r{number}"), "namespace": "shop", "uid": format!("R{number}"),
        "resourceVersion": "1", "labels": {"app": "web"}}, "revision": 1, "data": {"spec": {"template": template}}})
}

/// Returns the text of a Pod with all fields of a real one: two containers with probes and volumes, tolerations, conditions,
/// statuses, and managed fields. `metadata` is merged into its metadata.
pub fn full_pod(metadata: Value, minute: usize) -> String {
    let container = |name: &str| {
        json!({"name": name, "image": format!("registry.example.com/team/{name}:v1.2.3"), "imagePullPolicy": "IfNotPresent",
            "ports": [{"containerPort": 8080, "name": "http", "protocol": "TCP"}],
            "env": [{"name": "A", "value": "1"}, {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
            "resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "100m", "memory": "128Mi"}},
            "readinessProbe": {"httpGet": {"path": "/ready", "port": 8080}, "periodSeconds": 10},
            "volumeMounts": [{"mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "name": "kube-api-access"}]})
    };
    let status = |name: &str| {
        let digest = "0123456789abcdef".repeat(4);
        json!({"name": name, "ready": true, "restartCount": 0, "started": true, "image": name,
            "imageID": format!("sha256:{digest}"), "containerID": format!("containerd://{digest}"),
            "state": {"running": {"startedAt": "2026-11-21T09:50:29Z"}}})
    };
    let condition = |kind: &str| {
        json!({"type": kind, "status": "True", "lastProbeTime": null,
            "lastTransitionTime": format!("2026-11-21T09:{minute:02}:29Z")})
    };
    let conditions = ["Initialized", "Ready", "ContainersReady", "PodScheduled"].map(condition);
    let pod = json!({
        "kind": "Pod", "apiVersion": "v1",
        "metadata": {"generation": 1, "creationTimestamp": format!("2026-11-21T08:{minute:02}:01Z"),
            "managedFields": [{"manager": "kube-controller-manager", "operation": "Update", "apiVersion": "v1",
                "fieldsV1": {"f:metadata": {"f:labels": {".": {}, "f:app": {}}}}}]},
        "spec": {"nodeName": format!("node-{:02}", minute / 3), "containers": [container("app"), container("proxy")],
            "restartPolicy": "Always", "serviceAccountName": "default", "schedulerName": "default-scheduler",
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "tolerationSeconds": 300}]},
        "status": {"phase": "Running", "podIP": "10.0.0.1", "startTime": "2026-11-21T09:50:29Z", "qosClass": "Burstable",
            "conditions": conditions,
            "containerStatuses": [status("app"), status("proxy")]},
    });
    crate::objects::merged(pod, json!({ "metadata": metadata })).to_string()
}
