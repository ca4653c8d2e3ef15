//! The cost of a sync depends on the Pods and claims that exist, and never on numbers in a spec.
//!
//! These tests run in their own process, because they limit its memory. An allocation beyond the limit aborts the process.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that panics fails")]

#[path = "behaviour/world.rs"]
#[allow(dead_code, reason = "shared with the other tests")]
mod world;

use std::{alloc::System, collections::BTreeMap, sync::Arc};

use cap::Cap;
use common::{
    controller::Decision,
    meta::NamespacedName,
    object::Object,
    refs::{self, Owner},
    revision::{NumberEncoding, template::PodTemplateWithRevisionData},
};
use jiff::Timestamp;
use parking_lot::Mutex;
use proptest::prelude::*;
use sandbox::memory::limited;
use serde_json::{Value, json};
use statefulset_controller::{
    StatefulSetController,
    decide::{
        decide,
        ordinals::{MAX_POD_CREATIONS_PER_SYNC, MAX_VOLUME_CLAIM_LOOKUPS_PER_SYNC, missing_ordinals},
        scaling::MAX_VOLUME_CLAIM_WRITES_PER_POD,
    },
    objects::{CachedPod, CachedRevision, STATEFUL_SETS, StatefulSet, parse_ordinal},
    plan::{Plan, PodWork},
    reports::ReportedMismatches,
    snapshot::{FeatureSettings, Snapshot},
};

use crate::world::{NAMESPACE, SETS, World, set};

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

/// Maximum memory of one decision and its explanation, in bytes.
const DECISION: usize = 8 << 20;
/// Maximum memory of the API server with a hundred sets, its nodes and the controller together, in bytes.
const CLUSTER: usize = 512 << 20;

/// Serializes the tests, because the memory limit applies to the whole process.
static ALONE: Mutex<()> = Mutex::new(());

fn read<T: Object>(value: &Value) -> Option<Arc<T>> {
    let mut object: T = serde_json::from_str(&value.to_string()).ok()?;
    object.drop_unneeded_fields();
    Some(Arc::new(object))
}

fn pod(ordinal: i32, ready: bool) -> Value {
    let name = format!("web-{ordinal}");
    let owner =
        json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "SET", "controller": true});
    json!({"metadata": {"name": name, "namespace": NAMESPACE, "uid": format!("POD-{ordinal}"), "resourceVersion": "1",
            "labels": {"app": "web", "controller-revision-hash": "web-old", "statefulset.kubernetes.io/pod-name": name},
            "ownerReferences": [owner]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}]}})
}

/// Returns the snapshot of a sync of `object`; `None` if the decoder refuses `object`.
fn snapshot(object: &Value, pods: &[(i32, bool)], limits: FeatureSettings) -> Option<Snapshot> {
    let set: Arc<StatefulSet> = read(object)?;
    let owner = Owner::new(STATEFUL_SETS, &set.metadata);
    let mut pods: Vec<Arc<CachedPod>> = pods.iter().filter_map(|(n, ready)| read(&pod(*n, *ready))).collect();
    pods.dedup_by(|a, b| a.meta().name == b.meta().name);
    let is_member = |pod: &Arc<CachedPod>| parse_ordinal("web", &pod.meta().name).is_some();
    Some(Snapshot {
        template: Arc::new(PodTemplateWithRevisionData::new(set.template.clone(), NumberEncoding::Doubles).ok()?),
        revisions: refs::claim_dependents(&owner, &set.selector, Vec::<Arc<CachedRevision>>::new(), |_| true).unwrap(),
        pods: refs::claim_dependents(&owner, &set.selector, pods, is_member).unwrap(),
        volume_claims: BTreeMap::new(),
        reported_mismatches: ReportedMismatches::default(),
        features: limits,
        now: Timestamp::from_second(1_800_000_000).unwrap(),
        owner,
        set,
    })
}

/// Generates sets with extreme numbers, some of them refused by a server.
fn any_set() -> impl Strategy<Value = Value> {
    let number = || prop::sample::select(vec![0, 1, 3, i64::from(i32::MAX) - 1, i64::from(i32::MAX), -1, i64::MAX]);
    let limit = prop::sample::select(vec![
        json!(null),
        json!(0),
        json!(1),
        json!(i32::MAX),
        json!(i32::MIN),
        json!("100%"),
        json!("999999999999%"),
        json!("-5%"),
        json!("x"),
    ]);
    let strategy = (prop::sample::select(vec!["RollingUpdate", "OnDelete"]), number(), limit);
    let history = prop::sample::select(vec![i32::MIN, -1, 0, i32::MAX]);
    let status = (number(), prop::sample::select(vec![0, i32::MAX]));
    let templates = prop::sample::select(vec![0usize, 1, 50, 3000]);
    (number(), number(), number(), any::<bool>(), strategy, (history, templates), status).prop_map(
        |(replicas, start, ready, parallel, (kind, partition, limit), (history, templates), (current, collisions))| {
            let claims: Vec<Value> = (0..templates).map(|n| json!({"metadata": {"name": format!("c{n}")}})).collect();
            json!({
                "metadata": {"name": "web", "namespace": NAMESPACE, "uid": "SET", "generation": 1, "resourceVersion": "5"},
                "spec": {"replicas": replicas, "ordinals": {"start": start}, "minReadySeconds": ready, "serviceName": "web",
                    "podManagementPolicy": if parallel { "Parallel" } else { "OrderedReady" },
                    "selector": {"matchLabels": {"app": "web"}},
                    "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": []}},
                    "updateStrategy": {"type": kind,
                        "rollingUpdate": {"partition": partition, "maxUnavailable": limit}},
                    "revisionHistoryLimit": history, "volumeClaimTemplates": claims},
                "status": {"currentReplicas": i32::try_from(current).unwrap_or(0), "collisionCount": collisions,
                    "currentRevision": "web-old", "updateRevision": "web-old"},
            })
        },
    )
}

fn count(plan: &Plan, is_counted: fn(&PodWork) -> bool) -> usize {
    plan.pod_plan.phases.iter().flat_map(|phase| &phase.work).filter(|work| is_counted(work)).count()
}

/// Maximum memory of a cached revision, in bytes, regardless of the size of its data.
const REVISION: usize = 8 << 10;

/// STATEFULSET-2.
#[test]
fn the_memory_of_a_cached_revision_does_not_depend_on_its_data() {
    let _alone = ALONE.lock();
    let revision = |n: usize| {
        let ballast = format!("{n}{}", "x".repeat(1 << 20));
        let template =
            json!({"metadata": {"annotations": {"example.com/ballast": ballast}}, "spec": {"containers": []}});
        json!({"metadata": {"name": format!("r{n}"), "namespace": "shop", "uid": format!("R{n}"), "resourceVersion": "1",
            "labels": {"app": "web"}}, "revision": 1, "data": {"spec": {"template": template}}})
    };
    let first: Arc<CachedRevision> = read(&revision(0)).unwrap();
    let before = ALLOCATOR.allocated();
    let cached: Vec<Arc<CachedRevision>> = (1..=20).map(|n| read(&revision(n)).unwrap()).collect();
    let taken = (ALLOCATOR.allocated() - before) / cached.len();
    assert!(taken <= REVISION, "{taken} bytes of a megabyte are kept");
    assert!(!first.has_same_data_as(&cached[0]));
}

proptest! {
    /// STATEFULSET-65, STATEFULSET-86.
    #[test]
    fn no_number_in_a_spec_makes_a_decision_expensive(
        object in any_set(),
        pods in prop::collection::btree_map(prop::sample::select(vec![0, 1, 2, 3, 7, i32::MAX - 1, i32::MAX]), any::<bool>(), 0..6),
        max_unavailable in any::<bool>(), replaces_stuck_pods in any::<bool>(),
    ) {
        let _alone = ALONE.lock();
        let pods: Vec<(i32, bool)> = pods.into_iter().collect();
        let limits = FeatureSettings { is_max_unavailable_enabled: max_unavailable, replaces_stuck_pods, compares_revisions_semantically: true, awaits_own_writes: true };
        let Some(snapshot) = snapshot(&object, &pods, limits) else { return Ok(()) };
        let (plan, explanation) = limited(&ALLOCATOR, DECISION, || {
            let plan = decide(&snapshot);
            let explanation = Decision::<StatefulSetController>::with_forecast(&snapshot, snapshot.now).explain();
            (plan, explanation)
        });
        let work: usize = plan.pod_plan.phases.iter().map(|phase| phase.work.len()).sum();
        let creates = count(&plan, |work| matches!(work, PodWork::Create { .. }));
        let prepares = count(&plan, |work| matches!(work, PodWork::CreateClaims { .. }));
        let begun = creates + prepares;
        prop_assert!(begun <= MAX_POD_CREATIONS_PER_SYNC);
        prop_assert!(begun <= 1 || begun * snapshot.set.volume_claim_templates.len() < MAX_VOLUME_CLAIM_LOOKUPS_PER_SYNC + snapshot.set.volume_claim_templates.len());
        prop_assert!(work - begun <= 3 * pods.len(), "{work} pieces of work for {} Pods", pods.len());
        prop_assert!(explanation.waiting.len() + explanation.actions.len() <= 40, "{explanation:#?}");
        if snapshot.set.is_ordered_ready() {
            prop_assert!(begun <= 1);
        } else {
            // Every missing Pod is either created now or counted as deferred.
            let (first, last) = snapshot.set.ordinals().into_inner();
            let there = pods.iter().filter(|(ordinal, _)| snapshot.set.contains_ordinal(*ordinal)).count();
            let missing = i64::from(last) - i64::from(first) + 1 - there as i64;
            let wanted = if snapshot.owner.is_deleting { 0 } else { missing };
            // An existing Pod also counts as deferred if not all of its claims are created now.
            let counted = creates as i64 + plan.pod_plan.deferred_pod_count;
            prop_assert!((wanted..=wanted + there as i64).contains(&counted), "{counted} of {wanted}");
        }
    }
}

fn with_claims(pods: i32, templates: usize, policy: &str) -> Snapshot {
    let claims: Vec<Value> = (0..templates).map(|n| json!({"metadata": {"name": format!("c{n}")}})).collect();
    let object = json!({"metadata": {"name": "web", "namespace": NAMESPACE, "uid": "SET"},
        "spec": {"replicas": pods + 1, "podManagementPolicy": policy, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": []}}, "volumeClaimTemplates": claims}});
    let pods: Vec<(i32, bool)> = (0..pods).map(|ordinal| (ordinal, true)).collect();
    let limits = FeatureSettings {
        is_max_unavailable_enabled: false,
        replaces_stuck_pods: false,
        compares_revisions_semantically: true,
        awaits_own_writes: true,
    };
    snapshot(&object, &pods, limits).unwrap()
}

/// STATEFULSET-63.
#[test]
fn a_sync_creates_a_limited_number_of_claims_and_the_pod_after_the_last_claim() {
    let _alone = ALONE.lock();
    for policy in ["OrderedReady", "Parallel"] {
        for (templates, left) in [
            (MAX_VOLUME_CLAIM_WRITES_PER_POD, 0),
            (MAX_VOLUME_CLAIM_WRITES_PER_POD + 1, 1),
            (3000, 3000 - MAX_VOLUME_CLAIM_WRITES_PER_POD),
        ] {
            let snapshot = with_claims(0, templates, policy);
            let plan = limited(&ALLOCATOR, DECISION, || decide(&snapshot));
            let work: Vec<&PodWork> = plan.pod_plan.phases.iter().flat_map(|phase| &phase.work).collect();
            let (claims, creates) = match work[..] {
                [PodWork::Create { claims, .. }] => (claims, true),
                [PodWork::CreateClaims { claims, .. }] => (claims, false),
                _ => panic!("{work:?}"),
            };
            assert_eq!(
                (claims.missing_claims.len(), claims.deferred_claim_count, creates),
                (MAX_VOLUME_CLAIM_WRITES_PER_POD, left, left == 0),
                "{policy}"
            );
            assert_eq!(plan.pod_plan.deferred_pod_count, i64::from(left > 0), "the set is synced again immediately");
        }
    }
}

/// STATEFULSET-64.
#[test]
fn a_set_with_more_claims_than_a_cluster_has_pods_is_refused() {
    let _alone = ALONE.lock();
    for policy in ["OrderedReady", "Parallel"] {
        let snapshot = with_claims(1000, 3000, policy);
        let plan = limited(&ALLOCATOR, DECISION, || decide(&snapshot));
        let problem = "1000 Pods with 3000 claims each are more than the 200000 claims that a StatefulSet may have";
        let explanation = limited(&ALLOCATOR, DECISION, || {
            Decision::<StatefulSetController>::with_forecast(&snapshot, snapshot.now).explain()
        });
        assert_eq!(explanation.waiting, [problem]);
        assert!(explanation.actions.is_empty() && plan.unmanaged_reason.is_some());
        assert!(decide(&with_claims(1000, 200, policy)).unmanaged_reason.is_none());
    }
}

/// STATEFULSET-65, STATEFULSET-86.
#[test]
fn the_number_of_visited_ordinals_depends_on_existing_and_new_pods() {
    let object = |policy: &str| {
        json!({"metadata": {"name": "web", "uid": "SET"},
            "spec": {"replicas": i32::MAX, "podManagementPolicy": policy, "selector": {"matchLabels": {"app": "web"}},
                "template": {}, "volumeClaimTemplates": [{"metadata": {"name": "data"}}]}})
    };
    for (policy, present, stale, visited, missing) in [
        ("OrderedReady", 5, 0, 6, 1),
        ("OrderedReady", 5, 3, 6, 1),
        ("Parallel", 5, 0, 5 + MAX_POD_CREATIONS_PER_SYNC, MAX_POD_CREATIONS_PER_SYNC),
        // Ordinals that wait for a claim do not prevent the creation of Pods for later ordinals.
        ("Parallel", 5, 3, 5 + 3 + MAX_POD_CREATIONS_PER_SYNC, 3 + MAX_POD_CREATIONS_PER_SYNC),
    ] {
        let set: Arc<StatefulSet> = read(&object(policy)).unwrap();
        let visits = std::cell::Cell::new(0);
        let has_pod = |ordinal: i32| {
            visits.set(visits.get() + 1);
            ordinal < present
        };
        let found = missing_ordinals(&set, has_pod, |ordinal| ordinal < present + stale);
        assert_eq!((visits.get(), found.len()), (visited, missing), "{policy} {stale}");
    }
}

/// STATEFULSET-65.
#[test]
fn a_set_of_two_thousand_million_replicas_does_not_delay_other_sets() {
    let _alone = ALONE.lock();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    limited(&ALLOCATOR, CLUSTER, || runtime.block_on(neighbours()));
}

/// Measures the time until a hundred sets of two Pods are ready, with and without hostile sets. Checks their explanations, too.
async fn neighbours() {
    let mut taken = Vec::new();
    for hostile in [false, true] {
        let world = World::new().await;
        let metadata = json!({"name": "hostile"});
        world.apply(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})).await;
        let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "pods", "namespace": "hostile"},
            "spec": {"hard": {"pods": "20"}}});
        world.apply(quota).await;
        let extreme = |name: &str, policy: &str, start: i32| {
            let template = json!({"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}}}});
            let mut object = set(
                i32::MAX,
                json!({"podManagementPolicy": policy, "ordinals": {"start": start}, "revisionHistoryLimit": i32::MAX,
                    "volumeClaimTemplates": [template],
                    "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": i32::MAX}}}),
            );
            object["metadata"] = json!({"name": name, "namespace": "hostile"});
            object["spec"]["selector"] = json!({"matchLabels": {"app": name}});
            object["spec"]["template"]["metadata"]["labels"] = json!({"app": name});
            object
        };
        if hostile {
            for (name, policy, start) in [
                ("ordered", "OrderedReady", 0),
                ("parallel", "Parallel", 0),
                ("ordered-last", "OrderedReady", i32::MAX),
                ("parallel-last", "Parallel", i32::MAX),
            ] {
                world.apply(extreme(name, policy, start)).await;
            }
            world.wait(5).await;
        }
        let began = world.clock.monotonic_now();
        for n in 0..100 {
            let mut object = set(2, json!({}));
            object["metadata"]["name"] = json!(format!("web-{n}"));
            let label = json!({"app": format!("web-{n}")});
            object["spec"]["selector"] = json!({"matchLabels": label});
            object["spec"]["template"]["metadata"]["labels"] = label;
            world.apply(object).await;
        }
        let ready = async || {
            let sets = world.sandbox.list(SETS, Some(NAMESPACE)).await.unwrap();
            sets.iter().all(|set| set["status"]["readyReplicas"] == 2)
        };
        while !ready().await {
            world.wait(1).await;
            assert!(world.clock.monotonic_now() - began < std::time::Duration::from_secs(120), "no progress");
        }
        taken.push(world.clock.monotonic_now() - began);
        // The explanation of a hostile set is short.
        if hostile {
            for name in ["ordered", "parallel"] {
                let key = NamespacedName::new("hostile", name).to_string();
                let explained = world.loops.as_ref().unwrap().explain(Some(&key))[0].to_string();
                assert!(explained.len() < 4000, "{explained}");
            }
            let explained = world.loops.as_ref().unwrap().explain(Some("hostile/parallel"))[0].clone();
            let waiting = explained["waiting"].to_string();
            assert!(waiting.contains("more Pods are left to the next syncs"), "{explained}");
        }
    }
    let [alone, beside] = taken[..] else { panic!("two runs") };
    assert!(beside <= alone + std::time::Duration::from_secs(1), "{alone:?} alone, {beside:?} beside hostile sets");
}
