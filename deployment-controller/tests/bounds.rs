//! The cost of a sync depends on the number of ReplicaSets, and never on the values in a spec or an annotation.
//!
//! These tests need a process of their own, because they limit its memory: an allocation beyond the limit aborts the process.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that panics fails")]

#[path = "behaviour/world.rs"]
#[allow(dead_code, reason = "shared with the other tests")]
mod world;

use std::{alloc::System, collections::BTreeMap, sync::Arc, time::Duration};

use cap::Cap;
use common::{
    controller::Decision,
    object::Object,
    refs::{self, Owner},
};
use deployment_controller::{
    DeploymentController,
    decide::decide,
    limits::RolloutLimits,
    objects::{
        DEPLOYMENTS, DESIRED_REPLICAS_ANNOTATION, Deployment, MAX_REPLICAS_ANNOTATION, REVISION_ANNOTATION,
        REVISION_HISTORY_ANNOTATION, ROLLBACK_TO_ANNOTATION, ReplicaSet,
    },
    plan::Action,
    snapshot::{Snapshot, TerminatingReplicasSupport, sort_by_creation_time},
};
use jiff::Timestamp;
use parking_lot::Mutex;
use proptest::prelude::*;
use sandbox::{Action as Fault, Rule, memory::limited};
use serde_json::{Value, json};

use crate::world::{CONTROLLER_IDENTITY, NAMESPACE, REPLICA_SETS, World, web_deployment};

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

/// Memory limit of one decision and its explanation in bytes, without the objects themselves.
const DECISION: usize = 4 << 20;
/// Memory limit of the API server, its nodes and the controller together, in bytes.
const CLUSTER: usize = 512 << 20;
/// Maximum number of copies of the objects' texts in a plan.
const COPIES: usize = 8;

/// The memory limit applies to the whole process, so the tests run one at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn read<T: Object>(value: &Value) -> Option<T> {
    let mut object: T = serde_json::from_str(&value.to_string()).ok()?;
    object.drop_unneeded_fields();
    Some(object)
}

/// Returns a value for an annotation that should hold a number. No server validates such annotations.
fn any_text() -> impl Strategy<Value = Option<String>> {
    let some =
        ["", "0", "1", "7", "-1", "x", "1e9", "9223372036854775807", "9223372036854775808", "-9223372036854775808"];
    prop_oneof![
        1 => Just(None),
        6 => prop::sample::select(some.to_vec()).prop_map(|text| Some(text.to_owned())),
        1 => prop::sample::select(vec!["9", ",", "1,"]).prop_map(|text| Some(text.repeat(150_000))),
    ]
}

fn any_size() -> impl Strategy<Value = i64> {
    prop::sample::select(vec![0, 1, 5, i64::from(i32::MAX) - 1, i64::from(i32::MAX)])
}

/// Returns a ReplicaSet with extreme numbers.
fn any_set() -> impl Strategy<Value = Value> {
    let annotations = prop::collection::btree_map(
        prop::sample::select(vec![
            REVISION_ANNOTATION,
            REVISION_HISTORY_ANNOTATION,
            DESIRED_REPLICAS_ANNOTATION,
            MAX_REPLICAS_ANNOTATION,
        ]),
        any_text(),
        0..4,
    );
    (annotations, any_size(), any_size(), any_size(), 0..3u8, any::<bool>()).prop_map(
        |(annotations, size, replicas, available, template, owned)| {
            let annotations: BTreeMap<_, _> =
                annotations.into_iter().filter_map(|(key, text)| Some((key, text?))).collect();
            let owner = json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "D",
                "controller": true}]);
            json!({
                "metadata": {"namespace": "shop", "resourceVersion": "1", "generation": 1, "labels": {"app": "web"},
                    "annotations": annotations, "ownerReferences": if owned { owner } else { json!([]) }},
                "spec": {"replicas": size, "template": {"metadata": {"labels": {"app": "web"}},
                    "spec": {"containers": [{"name": "web", "image": format!("web:{template}")}]}}},
                "status": {"replicas": replicas, "readyReplicas": available, "availableReplicas": available,
                    "observedGeneration": 1, "terminatingReplicas": replicas},
            })
        },
    )
}

/// Returns a Deployment with extreme numbers, some of which a server refuses.
fn any_deployment() -> impl Strategy<Value = Value> {
    let limit = || {
        let numbers = [0, 1, 3, i64::from(i32::MAX), i64::from(i32::MIN), i64::MAX].map(|number| json!(number));
        let texts = ["0%", "25%", "100%", "2147483647%", "999999999999%", "-5%", "x", ""].map(|text| json!(text));
        prop::sample::select([numbers.as_slice(), texts.as_slice(), &[json!(null)]].concat())
    };
    let seconds = || prop::sample::select(vec![json!(null), json!(0), json!(1), json!(i32::MAX), json!(-1)]);
    let history =
        prop::sample::select(vec![json!(null), json!(i32::MIN), json!(-1), json!(0), json!(2), json!(i32::MAX)]);
    let kind = prop::sample::select(vec!["RollingUpdate", "Recreate"]);
    let replicas = prop_oneof![any_size(), Just(-1)];
    let note = prop::sample::select(vec![0_usize, 10, 250_000]);
    let counts = (any_size(), any_size());
    (replicas, (kind, limit(), limit()), (seconds(), seconds()), history, any::<[bool; 2]>(), (any_text(), any_text()), note, counts)
        .prop_map(|(replicas, (kind, surge, unavailable), (deadline, ready), history, [paused, deleting], (rollback, revision), note, (updated, available))| {
            let mut annotations = json!({"note": "n".repeat(note)});
            for (key, text) in [(ROLLBACK_TO_ANNOTATION, rollback), (REVISION_ANNOTATION, revision)] {
                if let Some(text) = text {
                    annotations[key] = json!(text);
                }
            }
            let deleted = deleting.then_some("2026-11-21T09:00:00Z");
            json!({
                "metadata": {"name": "web", "namespace": "shop", "uid": "D", "resourceVersion": "1", "generation": 2,
                    "annotations": annotations, "deletionTimestamp": deleted},
                "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "paused": paused,
                    "template": {"metadata": {"labels": {"app": "web"}},
                        "spec": {"containers": [{"name": "web", "image": "web:0"}]}},
                    "strategy": {"type": kind, "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}},
                    "progressDeadlineSeconds": deadline, "minReadySeconds": ready, "revisionHistoryLimit": history},
                "status": {"replicas": updated, "updatedReplicas": updated, "availableReplicas": available,
                    "conditions": [{"type": "Progressing", "status": "True", "reason": "ReplicaSetUpdated",
                        "lastUpdateTime": "2026-11-21T09:00:00Z", "lastTransitionTime": "2026-11-21T09:00:00Z"}]},
            })
        })
}

/// Returns the snapshot for a sync of the Deployment; `None` if the Deployment is malformed.
fn snapshot(deployment: &Value, sets: &[Value]) -> Option<Snapshot> {
    let deployment: Deployment = read(deployment)?;
    let limits = RolloutLimits::from_spec(&deployment.spec).ok()?;
    let sets = sets.iter().enumerate().filter_map(|(number, set)| {
        let mut set = set.clone();
        set["metadata"]["name"] = json!(format!("web-{number}"));
        set["metadata"]["uid"] = json!(format!("S{number}"));
        set["metadata"]["creationTimestamp"] =
            json!(Timestamp::from_second(1_700_000_000 + number as i64).ok()?.to_string());
        read::<ReplicaSet>(&set).map(Arc::new)
    });
    let owner = Owner::new(DEPLOYMENTS, &deployment.metadata);
    let mut claims =
        refs::claim_dependents(&owner, &deployment.spec.selector.compiled, sets.collect::<Vec<_>>(), |_| true).ok()?;
    sort_by_creation_time(&mut claims.to_keep);
    let running_pods = claims.to_keep.iter().map(|set| (set.metadata.uid.clone(), usize::MAX / 4)).collect();
    Some(Snapshot {
        deployment: Arc::new(deployment),
        owner,
        claims,
        release_retry_after: None,
        unfinished_pod_counts: Some(running_pods),
        rollout_limits: limits,
        now: "2026-11-22T09:00:00Z".parse().unwrap(),
        terminating_replicas_support: TerminatingReplicasSupport::Reported,
        are_predecessor_sets_cached: true,
    })
}

proptest! {
    /// DEPLOYMENT-68.
    #[test]
    fn no_number_or_text_makes_a_decision_expensive(
        deployment in any_deployment(), sets in prop::collection::vec(any_set(), 0..6),
    ) {
        let _alone = ALONE.lock();
        let Some(snapshot) = snapshot(&deployment, &sets) else { return Ok(()) };
        let texts = deployment.to_string().len() + sets.iter().map(|set| set.to_string().len()).sum::<usize>();
        let (plan, explanation) = limited(&ALLOCATOR, DECISION + COPIES * texts, || {
            let plan = decide(&snapshot);
            let explanation = Decision::<DeploymentController>::with_forecast(&snapshot, snapshot.now).explain();
            (plan, explanation)
        });
        prop_assert!(plan.steps.len() <= 3 * sets.len() + 4, "{} steps for {} ReplicaSets", plan.steps.len(), sets.len());
        prop_assert!(explanation.waiting.len() <= 2 * sets.len() + 4, "{explanation:#?}");
        let most = snapshot.rollout_limits.max_pods();
        for step in &plan.steps {
            match &step.action {
                Action::CreateReplicaSet { body, .. } => {
                    let size = body["spec"]["replicas"].as_i64().unwrap();
                    prop_assert!((0..=most.max(0)).contains(&size), "{size} of {most}");
                }
                Action::ChangeReplicaSet { change, .. } => {
                    prop_assert!(change.size_before_and_after.is_none_or(|(_, to)| to >= 0), "{change:?}");
                }
                _ => {}
            }
        }
    }
}

/// DEPLOYMENT-68.
#[test]
fn memory_grows_in_proportion_to_the_number_of_old_sets() {
    let _alone = ALONE.lock();
    let set = |number: usize| {
        json!({"metadata": {"namespace": "shop", "resourceVersion": "1", "generation": 1, "labels": {"app": "web"},
            "annotations": {REVISION_ANNOTATION: number.to_string()}, "ownerReferences": [{"apiVersion": "apps/v1",
                "kind": "Deployment", "name": "web", "uid": "D", "controller": true}]},
            "spec": {"replicas": 1, "template": {"spec": {"containers": [{"name": "web", "image": format!("web:{number}")}]}}},
            "status": {"replicas": 1, "readyReplicas": 1, "availableReplicas": 1, "observedGeneration": 1}})
    };
    let deployment = json!({"metadata": {"name": "web", "namespace": "shop", "uid": "D", "generation": 1},
        "spec": {"replicas": i32::MAX, "selector": {"matchLabels": {"app": "web"}}, "revisionHistoryLimit": 0,
            "template": {"spec": {"containers": [{"name": "web", "image": "web:new"}]}},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "100%", "maxUnavailable": i32::MAX}}}});
    let sets: Vec<Value> = (0..1000).map(set).collect();
    let snapshot = snapshot(&deployment, &sets).unwrap();
    let plan = limited(&ALLOCATOR, sets.len() * 8192, || decide(&snapshot));
    assert!((1..=2 * sets.len() + 4).contains(&plan.steps.len()), "{} steps", plan.steps.len());
}

/// Namespaces of the hostile Deployments. In `few-pods`, a quota refuses Pods; in `no-sets`, the server refuses ReplicaSets.
const FEW_PODS: &str = "few-pods";
const NO_SETS: &str = "no-sets";
/// Number of ordinary Deployments.
const ORDINARY: usize = 50;
/// Number of Pods that the quota allows for each ReplicaSet.
const QUOTA: i64 = 20;
/// Number of old ReplicaSets of each of two hostile Deployments.
const OLD_SETS: usize = 200;
/// Maximum number of requests for the hostile Deployments: one for each old ReplicaSet, which is scaled down or deleted, and 150
/// for statuses, Events and retries of refused requests.
const HOSTILE_REQUESTS: u64 = 2 * OLD_SETS as u64 + 150;

/// A fault without effect; the sandbox counts the requests that it matches.
const COUNTED: Fault = Fault::Latency(Duration::ZERO);

/// The cost of creating fifty Deployments and of changing their image.
struct Rollouts {
    taken: Duration,
    /// Number of writes for the fifty Deployments, by verb and resource.
    writes: BTreeMap<String, u64>,
    /// Number of requests for the fifty Deployments, including refused ones.
    requests: u64,
    /// Number of all other requests of the controller.
    hostile: u64,
}

/// DEPLOYMENT-68.
#[test]
fn hostile_deployments_do_not_slow_down_others() {
    let _alone = ALONE.lock();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let (alone, beside) =
        limited(&ALLOCATOR, CLUSTER, || runtime.block_on(async { (rollouts(false).await, rollouts(true).await) }));
    assert_eq!(beside.writes, alone.writes);
    assert_eq!(beside.requests, alone.requests);
    assert_eq!(beside.taken, alone.taken);
    assert_eq!(alone.hostile, 0);
    let bounds = 2 * OLD_SETS as u64..=HOSTILE_REQUESTS;
    assert!(bounds.contains(&beside.hostile), "{} requests for the hostile Deployments", beside.hostile);
}

/// Creates fifty Deployments and changes their image, with or without hostile Deployments beside them.
async fn rollouts(beside_hostile: bool) -> Rollouts {
    let mut world = World::new().await;
    // A real ReplicaSet controller would create billions of Pods; `play_replica_sets` only writes statuses.
    world.replica_set_controller = None;
    if beside_hostile {
        add_hostile(&world).await;
    }
    let mut counted = Rule::new(COUNTED).identity(CONTROLLER_IDENTITY);
    counted.matcher.namespace = Some(NAMESPACE.to_owned());
    world.sandbox.faults().add(counted);
    world.clear_logs();
    let began = world.clock.monotonic_now();
    for number in 0..ORDINARY {
        world.create_object(named(web_deployment(2), NAMESPACE, &format!("web-{number}"))).await;
    }
    until_complete(&world).await;
    let image = |image: &str| json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}});
    if beside_hostile {
        for (namespace, name) in [(FEW_PODS, "huge"), (NO_SETS, "refused")] {
            world.sandbox.merge(world::DEPLOYMENTS, Some(namespace), name, None, image("img:3")).await.unwrap();
        }
    }
    for number in 0..ORDINARY {
        let name = format!("web-{number}");
        world.sandbox.merge(world::DEPLOYMENTS, Some(NAMESPACE), &name, None, image("img:2")).await.unwrap();
    }
    until_complete(&world).await;
    let taken = world.clock.monotonic_now() - began;

    let mut writes = BTreeMap::new();
    for write in world
        .sandbox
        .writes()
        .all()
        .iter()
        .filter(|write| write.identity == CONTROLLER_IDENTITY && write.namespace == NAMESPACE)
    {
        let kind = format!("{} {}/{}", write.verb, write.resource, write.subresource.as_deref().unwrap_or_default());
        *writes.entry(kind).or_default() += 1;
    }
    let requests = world.sandbox.faults().hits(&COUNTED);
    let hostile = world.sandbox.requests().count(Some(CONTROLLER_IDENTITY), None, None) - requests;
    Rollouts { taken, writes, requests, hostile }
}

fn named(mut object: Value, namespace: &str, name: &str) -> Value {
    object["metadata"] = json!({"name": name, "namespace": namespace, "labels": {"app": name}});
    object["spec"]["selector"] = json!({"matchLabels": {"app": name}});
    object["spec"]["template"]["metadata"]["labels"] = json!({"app": name});
    object
}

/// Creates the hostile Deployments, with all numbers at their limits: one with many old ReplicaSets to scale down, one with
/// many old ReplicaSets to delete, and some for which the server refuses ReplicaSets.
async fn add_hostile(world: &World) {
    for namespace in [FEW_PODS, NO_SETS] {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        world.create_object(namespace).await;
    }
    let mut refused = Rule::new(Fault::Forbidden).identity(CONTROLLER_IDENTITY).verb("create").resource("replicasets");
    refused.matcher.namespace = Some(NO_SETS.to_owned());
    world.sandbox.faults().add(refused);
    let extreme = |namespace: &str, name: &str, replicas: i32, history: i32| {
        let mut object = named(web_deployment(0), namespace, name);
        object["spec"]["replicas"] = json!(replicas);
        object["spec"]["revisionHistoryLimit"] = json!(history);
        object["spec"]["minReadySeconds"] = json!(i32::MAX - 1);
        object["spec"]["progressDeadlineSeconds"] = json!(i32::MAX);
        object["spec"]["strategy"] =
            json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "100%", "maxUnavailable": i32::MAX}});
        object
    };
    // Old ReplicaSets are deleted only after their Deployment is complete.
    for (name, replicas, history, size) in [("kept", i32::MAX, i32::MAX, 1), ("deleted", 2, 0, 0)] {
        let deployment = world.create_object(extreme(FEW_PODS, name, replicas, history)).await;
        let uid = &deployment["metadata"]["uid"];
        for number in 0..OLD_SETS {
            let owner =
                json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": name, "uid": uid, "controller": true});
            let labels = json!({"app": name, "pod-template-hash": format!("h{number}")});
            let template = json!({"metadata": {"labels": labels},
                "spec": {"containers": [{"name": "c", "image": format!("old:{number}")}]}});
            let metadata = json!({"name": format!("{name}-h{number}"), "namespace": FEW_PODS, "labels": labels,
                "annotations": {REVISION_ANNOTATION: number.to_string()}, "ownerReferences": [owner]});
            let spec = json!({"replicas": size, "selector": {"matchLabels": labels}, "template": template});
            world
                .create_object(
                    json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata, "spec": spec}),
                )
                .await;
        }
    }
    world.create_object(extreme(FEW_PODS, "huge", i32::MAX, i32::MAX)).await;
    for name in ["refused", "refused-too"] {
        world.create_object(extreme(NO_SETS, name, i32::MAX, i32::MAX)).await;
    }
}

/// Plays the ReplicaSet controller until all ordinary Deployments are complete.
async fn until_complete(world: &World) {
    for _ in 0..120 {
        world.wait(1.0).await;
        play_replica_sets(world).await;
        world.wait(1.0).await;
        let deployments = world.sandbox.list(world::DEPLOYMENTS, Some(NAMESPACE)).await.unwrap();
        let is_complete = |deployment: &Value| {
            let status = &deployment["status"];
            ["replicas", "updatedReplicas", "availableReplicas"].iter().all(|count| status[count] == 2)
                && status["observedGeneration"] == deployment["metadata"]["generation"]
        };
        if deployments.iter().all(is_complete) {
            return;
        }
    }
    panic!("the ordinary Deployments are not complete after 120 rounds");
}

/// Writes the status of each ReplicaSet once: all its Pods are available, or as many as the quota allows. Waits after each
/// write, so that the Deployment controller can act before the next write.
async fn play_replica_sets(world: &World) {
    let sets = world.sandbox.list(REPLICA_SETS, None).await.unwrap();
    for name in sets.iter().map(|set| &set["metadata"]) {
        let (namespace, name) = (name["namespace"].as_str().unwrap(), name["name"].as_str().unwrap());
        let Ok(set) = world.sandbox.get(REPLICA_SETS, Some(namespace), name).await else { continue };
        let (generation, wanted) = (&set["metadata"]["generation"], set["spec"]["replicas"].as_i64().unwrap());
        let pods = if namespace == NAMESPACE { wanted } else { wanted.min(QUOTA) };
        if set["status"]["observedGeneration"] == *generation && set["status"]["replicas"] == json!(pods) {
            continue;
        }
        let failure = json!({"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate",
            "message": "exceeded quota: pods", "lastTransitionTime": "2026-11-21T09:00:00Z"});
        let conditions = if pods < wanted { json!([failure]) } else { json!([]) };
        let status = json!({"replicas": pods, "readyReplicas": pods, "availableReplicas": pods,
            "observedGeneration": generation, "conditions": conditions});
        world
            .sandbox
            .merge(REPLICA_SETS, Some(namespace), name, Some("status"), json!({"status": status}))
            .await
            .unwrap();
        if namespace == NAMESPACE {
            world.wait(0.001).await;
        }
    }
}
