//! The cost of a sync depends on the ReplicaSets that exist, and never on numbers or texts in a spec or an annotation.
//!
//! A process of its own, because it limits the memory of the process: an allocation beyond the limit aborts it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that panics fails")]

use std::{alloc::System, collections::BTreeMap, sync::Arc};

use cap::Cap;
use common::{
    controller::Sequenced as _,
    object::Object,
    refs::{self, Owner},
};
use deployment_controller::{
    DeploymentController,
    decide::{decide, limits::Limits},
    objects::{
        DEPLOYMENTS, DESIRED_REPLICAS, Deployment, MAX_REPLICAS, REVISION, REVISION_HISTORY, ROLLBACK_TO, ReplicaSet,
    },
    plan::Action,
    snapshot::{Snapshot, TerminatingReplicas, sort_by_creation},
};
use jiff::Timestamp;
use parking_lot::Mutex;
use proptest::prelude::*;
use sandbox::memory::limited;
use serde_json::{Value, json};

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

/// How much memory one decision and its explanation may take besides what the objects themselves take.
const DECISION: usize = 4 << 20;
/// How often a plan may hold a text of the objects.
const COPIES: usize = 8;

/// The limit is the process's, so one test runs at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn read<T: Object>(value: &Value) -> Option<T> {
    let mut object: T = serde_json::from_str(&value.to_string()).ok()?;
    object.trim();
    Some(object)
}

/// Numbers in annotations, as nobody checks them.
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

/// A ReplicaSet with extreme numbers.
fn any_set() -> impl Strategy<Value = Value> {
    let annotations = prop::collection::btree_map(
        prop::sample::select(vec![REVISION, REVISION_HISTORY, DESIRED_REPLICAS, MAX_REPLICAS]),
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

/// A Deployment with extreme numbers, some of which a server refuses.
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
            for (key, text) in [(ROLLBACK_TO, rollback), (REVISION, revision)] {
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

/// What a sync of the Deployment sees; `None` if it is refused.
fn snapshot(deployment: &Value, sets: &[Value]) -> Option<Snapshot> {
    let deployment: Deployment = read(deployment)?;
    let limits = Limits::of(&deployment.spec).ok()?;
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
        refs::claim(&owner, &deployment.spec.selector.compiled, sets.collect::<Vec<_>>(), |_| true).ok()?;
    sort_by_creation(&mut claims.keep);
    let running_pods = claims.keep.iter().map(|set| (set.metadata.uid.clone(), usize::MAX / 4)).collect();
    Some(Snapshot {
        deployment: Arc::new(deployment),
        owner,
        claims,
        release_again: None,
        running_pods,
        limits,
        now: "2026-11-22T09:00:00Z".parse().unwrap(),
        terminating_replicas: TerminatingReplicas::Reported,
        shows_predecessors_sets: true,
    })
}

proptest! {
    #[test]
    fn no_number_or_text_makes_a_decision_expensive(
        deployment in any_deployment(), sets in prop::collection::vec(any_set(), 0..6),
    ) {
        let _alone = ALONE.lock();
        let Some(snapshot) = snapshot(&deployment, &sets) else { return Ok(()) };
        let texts = deployment.to_string().len() + sets.iter().map(|set| set.to_string().len()).sum::<usize>();
        let (plan, explanation) = limited(&ALLOCATOR, DECISION + COPIES * texts, || {
            let plan = decide(&snapshot);
            let explanation = DeploymentController::explain(&snapshot, snapshot.now);
            (plan, explanation)
        });
        prop_assert!(plan.steps.len() <= 3 * sets.len() + 4, "{} steps for {} ReplicaSets", plan.steps.len(), sets.len());
        prop_assert!(explanation.waiting.len() <= 2 * sets.len() + 4, "{explanation:#?}");
        let most = snapshot.limits.most();
        for step in &plan.steps {
            match &step.action {
                Action::CreateReplicaSet { body, .. } => {
                    let size = body["spec"]["replicas"].as_i64().unwrap();
                    prop_assert!((0..=most.max(0)).contains(&size), "{size} of {most}");
                }
                Action::ChangeReplicaSet { change, .. } => {
                    prop_assert!(change.size.is_none_or(|(_, to)| to >= 0), "{change:?}");
                }
                _ => {}
            }
        }
    }
}

#[test]
fn a_thousand_old_sets_take_memory_in_proportion() {
    let _alone = ALONE.lock();
    let set = |number: usize| {
        json!({"metadata": {"namespace": "shop", "resourceVersion": "1", "generation": 1, "labels": {"app": "web"},
            "annotations": {REVISION: number.to_string()}, "ownerReferences": [{"apiVersion": "apps/v1",
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
