//! Plans the creation of the ReplicaSet of the current template.

use std::{collections::BTreeMap, sync::Arc};

use common::{
    intern::Labels,
    prelude::*,
    selector::with_match_label,
    template::{POD_TEMPLATE_HASH_LABEL, Template},
    wire::RawMessage,
};
use serde::Serialize;

use crate::{
    decide::{
        conditions::{self, NEW_REPLICA_SET_CREATED, REPLICA_SET_CREATE_ERROR},
        draft::{DraftReplicaSet, PlanDraft},
        revision, scale,
    },
    objects::{Deployment, DeploymentStatus, REPLICA_SETS, REVISION_ANNOTATION, ReplicaSet, StrategyType},
    plan::{Action, Event, OnFailure, Step},
    snapshot::Snapshot,
};

/// Maximum number of ReplicaSets that are created from one template, if the server stores each of them with a changed template.
const MAX_CHANGED_CREATIONS: usize = 5;
/// Maximum length of an object name in bytes.
const MAX_NAME_LENGTH: usize = 253;

/// The cause of a failed creation. The cause determines the steps that report the failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CreateFailure {
    /// Another object has the name of the new ReplicaSet.
    Collision,
    /// The server refused the creation, with this message.
    Refused(String),
}

/// Plans the creation of the new ReplicaSet, with its Event and the new status. If the server has stored too many ReplicaSets
/// with a changed template, plans the report of a failure instead. Upstream: `getNewReplicaSet`.
pub fn plan_new_replica_set(draft: &mut PlanDraft<'_>) {
    let template = &draft.spec().template;
    let hash = template.hash(draft.status.collision_count);
    let name: Arc<str> = replica_set_name(&draft.deployment().metadata.name, &hash).into();
    if is_hopeless(draft) {
        let why = format!(
            "the last {MAX_CHANGED_CREATIONS} ReplicaSets created from this template were stored with a different one: \
             something changes ReplicaSets at creation"
        );
        draft.failure = Some(refusal_message(&name, &why));
        let failure = CreateFailure::Refused(why);
        return draft.steps.extend(creation_failure_steps(draft.snapshot, &draft.status, &name, &failure));
    }
    let limits = draft.snapshot.rollout_limits;
    let replicas = match draft.spec().strategy.kind {
        StrategyType::RollingUpdate => limits.new_set_size(draft.total_replicas(), 0),
        _ => limits.replicas,
    };
    let next = revision::next_revision(draft).to_string();
    let mut annotations = revision::annotations_to_copy(draft.deployment(), |_| None);
    annotations.insert(REVISION_ANNOTATION.to_owned(), next.clone());
    annotations.extend(scale::size_annotations(limits));
    let body = Box::new(NewReplicaSet::new(draft.snapshot, &name, &hash, replicas, annotations.clone()));
    let step = Step::new(Action::CreateReplicaSet { name: Arc::clone(&name), body }, "no ReplicaSet has this template");
    let told = Event::normal("ScalingReplicaSet", format!("Scaled up replica set {name} from 0 to {replicas}"));
    draft.steps.push(if replicas > 0 { step.with_event(told) } else { step });
    draft.new_set_index = Some(draft.sets.len());
    draft.sets.push(DraftReplicaSet::new_planned(Arc::clone(&name), replicas, annotations));
    let mut status = draft.status.clone();
    if draft.spec().effective_progress_deadline_seconds().is_some() {
        let message = format!("Created new replica set {name:?}");
        conditions::set_progressing_condition(&mut status, NEW_REPLICA_SET_CREATED, &message, draft.snapshot.now);
    }
    draft.push_status_write(status, Some(next), "a rollout begins");
}

/// Returns the steps that report a failed creation of `set`; after these steps the sync fails. `status` is the last status that
/// this sync has written.
pub fn creation_failure_steps(
    snapshot: &Snapshot,
    status: &DeploymentStatus,
    set: &str,
    failure: &CreateFailure,
) -> Vec<Step> {
    let mut status = Box::new(status.clone());
    match failure {
        CreateFailure::Collision => {
            status.collision_count = Some(status.collision_count.unwrap_or(0).saturating_add(1));
            let write = Action::WriteStatus { status, revision: None };
            vec![Step::new(write, "the next attempt uses another name").with_on_failure(OnFailure::Ignore)]
        }
        CreateFailure::Refused(why) => {
            let (message, mut steps) = (refusal_message(set, why), Vec::new());
            if snapshot.deployment.spec.effective_progress_deadline_seconds().is_some()
                && conditions::set_progressing_condition(&mut status, REPLICA_SET_CREATE_ERROR, &message, snapshot.now)
            {
                let write = Action::WriteStatus { status, revision: None };
                steps.push(Step::new(write, "the rollout cannot begin").with_on_failure(OnFailure::Ignore));
            }
            let event = Event::warning(REPLICA_SET_CREATE_ERROR, message);
            steps.push(Step::new(Action::OnlyRecordEvent, "the rollout cannot begin").with_event(event));
            steps
        }
    }
}

/// How an existing ReplicaSet relates to the Deployment that needs a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplicaSetRelation {
    /// Controlled by the Deployment, with its current template.
    Controlled,
    /// An orphan with the current template, which the Deployment can adopt.
    Adoptable,
    /// Any other ReplicaSet: it has another template, another controller or other labels, or it is being deleted.
    NotAdoptable,
}

/// Classifies a ReplicaSet that was read from the API server.
pub fn relation_to_deployment(snapshot: &Snapshot, live: &ReplicaSet) -> ReplicaSetRelation {
    let (deployment, meta) = (&snapshot.deployment, &live.metadata);
    if !live.spec.template.is_digest_of(&deployment.spec.template) {
        return ReplicaSetRelation::NotAdoptable;
    }
    match meta.controller() {
        Some(owner) if owner.uid == deployment.metadata.uid => ReplicaSetRelation::Controlled,
        None if !meta.is_deleting() && deployment.spec.selector.compiled.matches(&meta.labels) => {
            ReplicaSetRelation::Adoptable
        }
        _ => ReplicaSetRelation::NotAdoptable,
    }
}

fn refusal_message(set: &str, why: &str) -> String {
    format!("Failed to create new replica set {set:?}: {why}")
}

/// Whether the server has changed the template of every recent creation: the current name and the names tried before it belong
/// to ReplicaSets of this Deployment, but none of them has the current template. Another creation would not help.
fn is_hopeless(draft: &PlanDraft<'_>) -> bool {
    let owned: Vec<&str> = draft.sets.iter().map(|set| &*set.name).collect();
    let mut count = Some(draft.status.collision_count);
    for _ in 0..MAX_CHANGED_CREATIONS {
        let Some(tried) = count else { return false };
        let name = replica_set_name(&draft.deployment().metadata.name, &draft.spec().template.hash(tried));
        if !owned.contains(&&*name) {
            return false;
        }
        // The first collision changes an absent count to 1, so the value before 1 is `None`.
        count = tried.map(|n| (n > 1).then_some(n - 1));
    }
    true
}

/// Returns the name of a ReplicaSet: the name of the Deployment, shortened if necessary, and the hash of the template.
fn replica_set_name(deployment: &str, hash: &str) -> String {
    let mut end = MAX_NAME_LENGTH.saturating_sub(hash.len() + 1).min(deployment.len());
    while !deployment.is_char_boundary(end) {
        end -= 1;
    }
    let cut = &deployment[..end];
    // A dot before the dash would make the name invalid. Only a shortened name can end in a dot.
    let cut = if end < deployment.len() { cut.trim_end_matches('.') } else { cut };
    format!("{cut}-{hash}")
}

/// The body of the request that creates a ReplicaSet. Template and selector are those of the Deployment, with one label more.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NewReplicaSet {
    api_version: String,
    kind: String,
    metadata: NewMetadata,
    spec: NewSpec,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct NewMetadata {
    name: Arc<str>,
    namespace: Text,
    labels: Labels,
    annotations: BTreeMap<String, String>,
    owner_references: [OwnerRef; 1],
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct NewSpec {
    replicas: i64,
    min_ready_seconds: i32,
    selector: RawMessage,
    template: Template,
}

impl NewReplicaSet {
    fn new(
        snapshot: &Snapshot,
        name: &Arc<str>,
        hash: &str,
        replicas: i64,
        annotations: BTreeMap<String, String>,
    ) -> Self {
        let Deployment { metadata, spec, .. } = snapshot.deployment.as_ref();
        let template = spec.template.with_label(POD_TEMPLATE_HASH_LABEL, hash);
        let selector = spec.selector.raw.as_ref();
        let selector = selector.and_then(|raw| with_match_label(raw, POD_TEMPLATE_HASH_LABEL, hash).ok());
        Self {
            api_version: REPLICA_SETS.api_version(),
            kind: REPLICA_SETS.kind().to_owned(),
            metadata: NewMetadata {
                name: Arc::clone(name),
                namespace: metadata.namespace.clone(),
                labels: template.labels().clone(),
                annotations,
                owner_references: [snapshot.owner.controller_reference()],
            },
            spec: NewSpec {
                replicas,
                min_ready_seconds: spec.min_ready_seconds,
                selector: selector.unwrap_or_default(),
                template,
            },
        }
    }

    /// Returns `spec.replicas`.
    pub fn replicas(&self) -> i64 {
        self.spec.replicas
    }
}

#[cfg(test)]
mod tests;
