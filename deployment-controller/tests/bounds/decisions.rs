//! The cost of a sync depends on the number of ReplicaSets, and never on the values in a spec or an annotation.
//!
//! These tests need a process of their own, because they limit its memory: an allocation beyond the limit aborts the process.

use std::{collections::BTreeMap, sync::Arc};

use common::refs::{self, Owner};
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
use proptest::prelude::*;
use serde_json::{Value, json};
use testkit::bounds::{any_of, any_rollout_limit, read};

use crate::METER;

/// Memory limit of one decision and its explanation in bytes, without the objects themselves.
const DECISION: usize = 4 << 20;
/// Maximum number of copies of the objects' texts in a plan.
const COPIES: usize = 8;

/// Returns a value for an annotation that should hold a number. No server validates such annotations.
fn any_text() -> impl Strategy<Value = Option<String>> {
    let some =
        ["", "0", "1", "7", "-1", "x", "1e9", "9223372036854775807", "9223372036854775808", "-9223372036854775808"];
    prop_oneof![
        1 => Just(None),
        6 => prop::sample::select(some.to_vec()).prop_map(|text| Some(text.to_owned())),
        1 => any_of(&["9", ",", "1,"]).prop_map(|text| Some(text.repeat(150_000))),
    ]
}

fn any_size() -> impl Strategy<Value = i64> {
    any_of(&[0, 1, 5, i64::from(i32::MAX) - 1, i64::from(i32::MAX)])
}

/// Returns a ReplicaSet with extreme numbers.
fn any_set() -> impl Strategy<Value = Value> {
    let annotations = prop::collection::btree_map(
        any_of(&[
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
    let seconds = || any_of(&[json!(null), json!(0), json!(1), json!(i32::MAX), json!(-1)]);
    let history = any_of(&[json!(null), json!(i32::MIN), json!(-1), json!(0), json!(2), json!(i32::MAX)]);
    let kind = any_of(&["RollingUpdate", "Recreate"]);
    let replicas = prop_oneof![any_size(), Just(-1)];
    let note = any_of(&[0_usize, 10, 250_000]);
    let counts = (any_size(), any_size());
    (replicas, (kind, any_rollout_limit(), any_rollout_limit()), (seconds(), seconds()), history, any::<[bool; 2]>(), (any_text(), any_text()), note, counts)
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
    let deployment: Arc<Deployment> = read(deployment)?;
    let limits = RolloutLimits::from_spec(&deployment.spec).ok()?;
    let sets = sets.iter().enumerate().filter_map(|(number, set)| {
        let mut set = set.clone();
        set["metadata"]["name"] = json!(format!("web-{number}"));
        set["metadata"]["uid"] = json!(format!("S{number}"));
        set["metadata"]["creationTimestamp"] =
            json!(Timestamp::from_second(1_700_000_000 + number as i64).ok()?.to_string());
        read::<ReplicaSet>(&set)
    });
    let owner = Owner::new(DEPLOYMENTS, &deployment.metadata);
    let mut claims =
        refs::claim_dependents(&owner, &deployment.spec.selector.compiled, sets.collect::<Vec<_>>(), |_| true).ok()?;
    sort_by_creation_time(&mut claims.to_keep);
    let running_pods = claims.to_keep.iter().map(|set| (set.metadata.uid.clone(), usize::MAX / 4)).collect();
    Some(Snapshot {
        deployment,
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

/// DEPLOYMENT-68.
#[test]
fn no_number_or_text_makes_a_decision_expensive() {
    METER.check(&(any_deployment(), prop::collection::vec(any_set(), 0..6)), |(deployment, sets)| {
        let Some(snapshot) = snapshot(&deployment, &sets) else { return Ok(()) };
        let texts = deployment.to_string().len() + sets.iter().map(|set| set.to_string().len()).sum::<usize>();
        let limit = DECISION + COPIES * texts;
        let (plan, explanation) = METER.decide::<DeploymentController>(limit, &snapshot, snapshot.now);
        prop_assert!(
            plan.steps.len() <= 3 * sets.len() + 4,
            "{} steps for {} ReplicaSets",
            plan.steps.len(),
            sets.len()
        );
        prop_assert!(explanation.waiting.len() <= 2 * sets.len() + 4, "{explanation:#?}");
        let most = snapshot.rollout_limits.max_pods();
        for step in &plan.steps {
            match &step.action {
                Action::CreateReplicaSet { body, .. } => {
                    let size = body.replicas();
                    prop_assert!((0..=most.max(0)).contains(&size), "{size} of {most}");
                }
                Action::ChangeReplicaSet { change, .. } => {
                    prop_assert!(change.size_before_and_after.is_none_or(|(_, to)| to >= 0), "{change:?}");
                }
                _ => {}
            }
        }
        Ok(())
    });
}

/// DEPLOYMENT-68.
#[test]
fn memory_grows_in_proportion_to_the_number_of_old_sets() {
    let _alone = METER.alone();
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
    let plan = METER.limited(sets.len() * 8192, || decide(&snapshot));
    assert!((1..=2 * sets.len() + 4).contains(&plan.steps.len()), "{} steps", plan.steps.len());
}
