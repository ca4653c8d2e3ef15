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
mod tests;
