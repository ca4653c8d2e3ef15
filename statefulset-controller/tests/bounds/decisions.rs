//! The cost of a sync depends on the Pods and claims that exist, and never on numbers in a spec.
//!
//! These tests run in their own process, because they limit its memory. An allocation beyond the limit aborts the process.

use common::{
    refs::{self, Owner},
    revision::{NumberEncoding, template::PodTemplateWithRevisionData},
};
use proptest::prelude::*;
use statefulset_controller::{
    StatefulSetController,
    decide::ordinals::{MAX_POD_CREATIONS_PER_SYNC, MAX_VOLUME_CLAIM_LOOKUPS_PER_SYNC},
    objects::{CachedPod, CachedRevision, STATEFUL_SETS, StatefulSet, parse_ordinal},
    plan::{Plan, PodWork},
    reports::ReportedMismatches,
    snapshot::{FeatureSettings, Snapshot},
};
use testkit::bounds::{any_of, any_rollout_limit, read};

use crate::{METER, world::*};

/// Maximum memory of one decision and its explanation, in bytes.
const DECISION: usize = 8 << 20;

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
fn snapshot(object: &Value, pods: &[(i32, bool)], features: FeatureSettings) -> Option<Snapshot> {
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
        features,
        now: Timestamp::from_second(1_800_000_000).unwrap(),
        owner,
        set,
    })
}

/// Generates sets with extreme numbers, some of them refused by a server.
fn any_set() -> impl Strategy<Value = Value> {
    let number = || any_of(&[0, 1, 3, i64::from(i32::MAX) - 1, i64::from(i32::MAX), -1, i64::MAX]);
    let limit = any_rollout_limit();
    let strategy = (any_of(&["RollingUpdate", "OnDelete"]), number(), limit);
    let history = any_of(&[i32::MIN, -1, 0, i32::MAX]);
    let status = (number(), any_of(&[0, i32::MAX]));
    let templates = any_of(&[0usize, 1, 50, 3000]);
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

/// STATEFULSET-2.
#[test]
fn the_memory_of_a_cached_revision_does_not_depend_on_its_data() {
    METER.check_cached_revisions::<CachedRevision>();
}

/// STATEFULSET-65, STATEFULSET-86.
#[test]
fn no_number_in_a_spec_makes_a_decision_expensive() {
    let pods = prop::collection::btree_map(any_of(&[0, 1, 2, 3, 7, i32::MAX - 1, i32::MAX]), any::<bool>(), 0..6);
    METER.check(&(any_set(), pods, any::<[bool; 2]>()), |(object, pods, [max_unavailable, replaces_stuck_pods])| {
        let pods: Vec<(i32, bool)> = pods.into_iter().collect();
        let features = FeatureSettings {
            is_max_unavailable_enabled: max_unavailable,
            replaces_stuck_pods,
            compares_revisions_semantically: true,
            awaits_own_writes: true,
        };
        let Some(snapshot) = snapshot(&object, &pods, features) else { return Ok(()) };
        let (plan, explanation) = METER.decide::<StatefulSetController>(DECISION, &snapshot, snapshot.now);
        let work: usize = plan.pod_plan.phases.iter().map(|phase| phase.work.len()).sum();
        let creates = count(&plan, |work| matches!(work, PodWork::Create { .. }));
        let prepares = count(&plan, |work| matches!(work, PodWork::CreateClaims { .. }));
        let begun = creates + prepares;
        prop_assert!(begun <= MAX_POD_CREATIONS_PER_SYNC);
        prop_assert!(
            begun <= 1
                || begun * snapshot.set.volume_claim_templates.len()
                    < MAX_VOLUME_CLAIM_LOOKUPS_PER_SYNC + snapshot.set.volume_claim_templates.len()
        );
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
        Ok(())
    });
}

/// STATEFULSET-65.
#[test]
fn a_set_of_two_thousand_million_replicas_does_not_delay_other_sets() {
    METER.run_cluster(neighbours());
}

/// Asserts that hostile sets do not delay a hundred sets of two Pods, and that the explanations of hostile sets are short.
async fn neighbours() {
    let extreme = |name: &str, policy: &str, start: i32| {
        let spec = merged(
            claims("Retain", "Retain"),
            json!({"podManagementPolicy": policy, "ordinals": {"start": start}, "revisionHistoryLimit": i32::MAX,
                "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": i32::MAX}}}),
        );
        renamed(set(i32::MAX, spec), "hostile", name)
    };
    let hostile = async |world: &World| {
        let mut quota = object("v1", "ResourceQuota", "pods", json!({"hard": {"pods": "20"}}));
        quota["metadata"]["namespace"] = json!("hostile");
        world.create(quota).await;
        for (name, policy, start) in [
            ("ordered", "OrderedReady", 0),
            ("parallel", "Parallel", 0),
            ("ordered-last", "OrderedReady", i32::MAX),
            ("parallel-last", "Parallel", i32::MAX),
        ] {
            world.create(extreme(name, policy, start)).await;
        }
    };
    let ordinary: Vec<Value> = (0..100).map(|n| renamed(web(2), NAMESPACE, &format!("web-{n}"))).collect();
    let is_ready = |set: &Value| set["status"]["readyReplicas"] == 2;
    let world = conformance::hostile_objects_do_not_delay_others(&cluster(), hostile, &ordinary, is_ready).await;
    for name in ["ordered", "parallel"] {
        let explained = world.loops().explain(Some(&format!("hostile/{name}")))[0].to_string();
        assert!(explained.len() < 4000, "{explained}");
    }
    let explained = world.loops().explain(Some("hostile/parallel"))[0].take();
    assert!(explained["waiting"].to_string().contains("more Pods are left to the next syncs"), "{explained}");
}
