//! Creating the ReplicaSet of the current template.

use std::{collections::BTreeMap, sync::Arc};

use common::{
    selector::with_match_label,
    template::{POD_TEMPLATE_HASH, Template},
};
use serde_json::{Value, json};

use crate::{
    decide::{
        conditions::{self, NEW_REPLICA_SET, REPLICA_SET_CREATE_ERROR},
        draft::{Draft, Set},
        revision, scale,
    },
    objects::{DeploymentStatus, REPLICA_SETS, REVISION, ReplicaSet, StrategyType},
    plan::{Action, Event, OnFailure, Step},
    snapshot::Snapshot,
};

/// How many ReplicaSets may have been made from one template without any of them having it.
const SPOILED_LIMIT: usize = 5;
/// The longest name of a ReplicaSet.
const NAME_LIMIT: usize = 253;

/// What became of a creation that did not succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CreateFailure {
    /// The name belongs to something else.
    Collision,
    /// The server refused it, and says why.
    Refused(String),
}

/// Plans the creation of the newest ReplicaSet and what is said of it; the draft fails if that is hopeless.
///
/// Upstream: `getNewReplicaSet`.
pub fn create(draft: &mut Draft<'_>) {
    let template = &draft.spec().template;
    let hash = template.hash(draft.status.collision_count);
    let name: Arc<str> = name(&draft.deployment().metadata.name, &hash).into();
    if is_hopeless(draft) {
        let why = format!(
            "the last {SPOILED_LIMIT} ReplicaSets made from this template were stored with another one: \
             something changes ReplicaSets on their way in"
        );
        for step in failed(draft.snapshot, &draft.status, &name, &CreateFailure::Refused(why.clone())) {
            draft.push(step);
        }
        return draft.fail(refusal(&name, &why));
    }
    let limits = draft.limits();
    let replicas = match draft.spec().strategy.kind {
        StrategyType::RollingUpdate => limits.grown(draft.total(), 0),
        _ => limits.replicas,
    };
    let next = revision::next(draft).to_string();
    let mut annotations = revision::copied(draft.deployment(), |_| None);
    annotations.insert(REVISION.to_owned(), next.clone());
    annotations.extend(scale::annotations(limits));
    let body = Box::new(body(draft.snapshot, &name, &hash, replicas, &annotations));
    let step = Step::new(Action::CreateReplicaSet { set: Arc::clone(&name), body }, "no ReplicaSet has this template");
    let told = Event::normal("ScalingReplicaSet", format!("Scaled up replica set {name} from 0 to {replicas}"));
    draft.push(if replicas > 0 { step.telling(told) } else { step });
    draft.new = Some(draft.sets.len());
    draft.sets.push(Set::created(Arc::clone(&name), replicas, annotations));
    let mut status = draft.status.clone();
    if draft.spec().deadline().is_some() {
        let message = format!("Created new replica set {name:?}");
        conditions::set(&mut status, conditions::progressing(NEW_REPLICA_SET, &message, draft.snapshot.now));
    }
    draft.write(status, Some(next), "a rollout begins");
}

/// What is written and said when the creation of `set` failed, after which the sync fails. `status` is what this sync has
/// last written.
pub fn failed(snapshot: &Snapshot, status: &DeploymentStatus, set: &str, failure: &CreateFailure) -> Vec<Step> {
    let mut new = status.clone();
    match failure {
        CreateFailure::Collision => {
            new.collision_count = Some(status.collision_count.unwrap_or(0).saturating_add(1));
            let write = Action::WriteStatus { status: Box::new(new), revision: None };
            vec![Step::new(write, "the next name is another one").on_failure(OnFailure::Ignore)]
        }
        CreateFailure::Refused(why) => {
            let message = refusal(set, why);
            let mut steps = Vec::new();
            let condition = conditions::progressing(REPLICA_SET_CREATE_ERROR, &message, snapshot.now);
            if snapshot.deployment.spec.deadline().is_some() && conditions::set(&mut new, condition) {
                let write = Action::WriteStatus { status: Box::new(new), revision: None };
                steps.push(Step::new(write, "the rollout cannot begin").on_failure(OnFailure::Ignore));
            }
            let event = Event::warning(REPLICA_SET_CREATE_ERROR, message);
            steps.push(Step::new(Action::Tell, "the rollout cannot begin").telling(event));
            steps
        }
    }
}

/// What a ReplicaSet is that was read live and not expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Namesake {
    /// Controlled by the Deployment, with its current template.
    Ours,
    /// Without a controller, with the Deployment's current template: it can be adopted.
    Adoptable,
    /// Something else.
    Foreign,
}

/// Judges a ReplicaSet that was read live.
pub fn namesake(snapshot: &Snapshot, live: &ReplicaSet) -> Namesake {
    let (deployment, meta) = (&snapshot.deployment, &live.metadata);
    if !live.spec.template.is_of(&deployment.spec.template) {
        return Namesake::Foreign;
    }
    match meta.controller() {
        Some(owner) if owner.uid == deployment.metadata.uid => Namesake::Ours,
        None if !meta.is_deleting() && deployment.spec.selector.compiled.matches(&meta.labels) => Namesake::Adoptable,
        _ => Namesake::Foreign,
    }
}

fn refusal(set: &str, why: &str) -> String {
    format!("Failed to create new replica set {set:?}: {why}")
}

/// Whether the current name and the ones tried before it all belong to ReplicaSets that this Deployment made from its
/// template and that have another one all the same. One more would not be better.
fn is_hopeless(draft: &Draft<'_>) -> bool {
    let owned: Vec<&str> = draft.sets.iter().map(|set| &*set.name).collect();
    let mut count = Some(draft.status.collision_count);
    for _ in 0..SPOILED_LIMIT {
        let Some(tried) = count else { return false };
        let name = name(&draft.deployment().metadata.name, &draft.spec().template.hash(tried));
        if !owned.contains(&&*name) {
            return false;
        }
        // Without a count the first collision makes it 1.
        count = tried.map(|n| (n > 1).then_some(n - 1));
    }
    true
}

/// The name of a ReplicaSet: the Deployment's, cut if need be, and the hash of the template.
fn name(deployment: &str, hash: &str) -> String {
    let mut end = NAME_LIMIT.saturating_sub(hash.len() + 1).min(deployment.len());
    while !deployment.is_char_boundary(end) {
        end -= 1;
    }
    let cut = &deployment[..end];
    // No part of a name may end in a dot before the dash; a name that was not cut never does.
    let cut = if end < deployment.len() { cut.trim_end_matches('.') } else { cut };
    format!("{cut}-{hash}")
}

fn body(snapshot: &Snapshot, name: &str, hash: &str, replicas: i64, annotations: &BTreeMap<String, String>) -> Value {
    let spec = &snapshot.deployment.spec;
    let template: Template = spec.template.with_label(POD_TEMPLATE_HASH, hash);
    let selector = spec.selector.raw.as_ref().and_then(|raw| raw.value().ok()).unwrap_or_default();
    json!({
        "apiVersion": REPLICA_SETS.api_version(),
        "kind": REPLICA_SETS.kind,
        "metadata": {
            "name": name,
            "namespace": snapshot.deployment.metadata.namespace,
            "labels": template.labels(),
            "annotations": annotations,
            "ownerReferences": [snapshot.owner.controller_ref()],
        },
        "spec": {
            "replicas": replicas,
            "minReadySeconds": spec.min_ready_seconds,
            "selector": with_match_label(&selector, POD_TEMPLATE_HASH, hash),
            "template": template.value(),
        },
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{decide::conditions::*, world::World};

    #[test]
    fn names_are_cut_and_never_end_in_a_dot() {
        assert_eq!(name("web", "766489fbc8"), "web-766489fbc8");
        let long = "a".repeat(253);
        assert_eq!(name(&long, "766489fbc8"), format!("{}-766489fbc8", "a".repeat(242)));
        let dotted = format!("{}.{}", "a".repeat(241), "b".repeat(11));
        assert_eq!(name(&dotted, "766489fbc8"), format!("{}-766489fbc8", "a".repeat(241)));
        let dashed = format!("{}-{}", "a".repeat(241), "b".repeat(11));
        assert_eq!(name(&dashed, "766489fbc8"), format!("{}--766489fbc8", "a".repeat(241)));
        assert_eq!(name(&"a".repeat(242), "766489fbc8").len(), 253);
    }

    #[test]
    fn the_first_set_is_made_from_the_template_with_everything_in_it() {
        let mut world = World::new(4);
        world.status = json!({});
        world.annotations = json!({"note": "1"});
        world.spec["template"]["spec"]["nobodyKnows"] = json!({"this": [1, null]});
        world.spec["selector"]["matchExpressions"] = json!([{"key": "app", "operator": "Exists"}]);
        world.spec["minReadySeconds"] = json!(3);
        let plan = world.plan();
        let (name, body) = plan.created().unwrap();
        let hash = name.strip_prefix("web-").unwrap();
        let mut template = world.spec["template"].clone();
        template["metadata"]["labels"][POD_TEMPLATE_HASH] = json!(hash);
        assert_eq!(
            body,
            json!({
                "apiVersion": "apps/v1", "kind": "ReplicaSet",
                "metadata": {
                    "name": name, "namespace": "shop",
                    "labels": {"app": "web", POD_TEMPLATE_HASH: hash},
                    "annotations": {"note": "1", REVISION: "1", "deployment.kubernetes.io/desired-replicas": "4",
                        "deployment.kubernetes.io/max-replicas": "5"},
                    "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web",
                        "uid": "D", "controller": true, "blockOwnerDeletion": true}],
                },
                "spec": {
                    "replicas": 4, "minReadySeconds": 3, "template": template,
                    "selector": {"matchLabels": {"app": "web", POD_TEMPLATE_HASH: hash},
                        "matchExpressions": [{"key": "app", "operator": "Exists"}]},
                },
            })
        );
        assert_eq!(plan.events(), [format!("Scaled up replica set {name} from 0 to 4")]);
        let first = (Some("1".to_owned()), (NEW_REPLICA_SET.to_owned(), "True".to_owned()));
        assert_eq!(plan.statuses()[0], first);
        let last = plan.last_status();
        assert_eq!((last.observed_generation, last.unavailable_replicas, last.terminating_replicas), (1, 4, Some(0)));
    }

    #[test]
    fn without_a_deadline_only_the_revision_is_written() {
        let mut world = World::new(4);
        world.status = json!({});
        world.annotations = json!({});
        world.spec["progressDeadlineSeconds"] = json!(i32::MAX);
        assert_eq!(world.plan().statuses()[0], (Some("1".to_owned()), (String::new(), String::new())));
    }

    #[test]
    fn a_collision_asks_for_another_name() {
        let snapshot = World::new(1).snapshot();
        let mut status = DeploymentStatus::default();
        for want in [1, 2] {
            let steps = failed(&snapshot, &status, "web-x", &CreateFailure::Collision);
            assert_eq!((steps.len(), steps[0].on_failure), (1, OnFailure::Ignore));
            let Action::WriteStatus { status: written, revision: None } = &steps[0].action else { panic!() };
            assert_eq!(written.collision_count, Some(want));
            status = (**written).clone();
        }
    }

    #[test]
    fn a_refusal_is_said_in_condition_and_event() {
        let mut world = World::new(1);
        let refused = CreateFailure::Refused("exceeded quota".to_owned());
        let message = r#"Failed to create new replica set "web-x": exceeded quota"#;
        let steps = failed(&world.snapshot(), &DeploymentStatus::default(), "web-x", &refused);
        let Action::WriteStatus { status, .. } = &steps[0].action else { panic!() };
        assert_eq!(&*progress(status).unwrap().message, message);
        assert_eq!(steps[1].event, Some(Event::warning(REPLICA_SET_CREATE_ERROR, message)));
        assert_eq!(failed(&world.snapshot(), status, "web-x", &refused).len(), 1, "the condition is there already");
        world.spec["progressDeadlineSeconds"] = json!(null);
        assert_eq!(failed(&world.snapshot(), &DeploymentStatus::default(), "web-x", &refused).len(), 1);
    }

    #[test]
    fn sets_that_never_have_the_template_are_not_made_for_ever() {
        let mut world = World::new(2);
        for made in 1..=SPOILED_LIMIT {
            let (name, _) = world.plan().created().unwrap();
            world = world.set(&name, 2, 0);
            let plan = world.plan();
            if made < SPOILED_LIMIT {
                assert_eq!(plan.created().unwrap().0, name, "the name is tried, and taken");
                world.status["collisionCount"] = json!(made);
            } else {
                assert_eq!(plan.created(), None);
                assert!(plan.failure.as_ref().unwrap().contains("something changes ReplicaSets"));
                assert_eq!(plan.progress().0, REPLICA_SET_CREATE_ERROR);
            }
        }
        world.spec["template"]["metadata"]["annotations"] = json!({"try": "again"});
        assert!(world.plan().created().is_some());
    }
}
