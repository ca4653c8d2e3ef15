//! Builders for unit tests: a Deployment and its ReplicaSets as JSON, and the plans for them.

use std::{collections::BTreeMap, sync::Arc};

use common::{
    conditions::{self as list, Condition},
    controller::{Decision, Explanation},
    prelude::*,
    refs,
};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    DeploymentController,
    decide::{conditions, decide, scale},
    limits::RolloutLimits,
    objects::{DEPLOYMENTS, Deployment, DeploymentStatus, REVISION_ANNOTATION, ReplicaSet},
    plan::{Action, Plan, ReplicaSetChange},
    snapshot::{Snapshot, TerminatingReplicasSupport, sort_by_creation_time},
};

/// A Deployment `web` with maxSurge and maxUnavailable 25%, and its ReplicaSets.
#[derive(Clone, Debug)]
pub(crate) struct DeploymentBuilder {
    pub(crate) spec: Value,
    pub(crate) status: Value,
    /// Annotations of the Deployment; null stands for only the revision of the new ReplicaSet.
    pub(crate) annotations: Value,
    pub(crate) generation: i64,
    pub(crate) is_deleting: bool,
    pub(crate) sets: Vec<Value>,
    pub(crate) unfinished_pod_counts: Option<BTreeMap<Uid, usize>>,
    pub(crate) now: Timestamp,
    made: i64,
}

impl DeploymentBuilder {
    pub(crate) fn new(replicas: i64) -> Self {
        Self {
            spec: json!({
                "replicas": replicas,
                "selector": {"matchLabels": {"app": "web"}},
                "template": {
                    "metadata": {"labels": {"app": "web"}},
                    "spec": {"containers": [{"name": "web", "image": "web:1"}]},
                },
                "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
                "revisionHistoryLimit": 10,
                "progressDeadlineSeconds": 600,
            }),
            status: json!({}),
            annotations: Value::Null,
            generation: 1,
            is_deleting: false,
            sets: Vec::new(),
            unfinished_pod_counts: Some(BTreeMap::new()),
            now: "2026-11-21T10:00:00Z".parse().unwrap(),
            made: 0,
        }
        .with_condition(conditions::PROGRESSING, conditions::REPLICA_SET_UPDATED)
    }

    fn limits(&self) -> RolloutLimits {
        RolloutLimits::from_spec(&serde_json::from_value(self.spec.clone()).unwrap()).unwrap()
    }

    /// Adds the youngest ReplicaSet, with its own template. All its Pods exist, and `available` of them are available.
    pub(crate) fn with_set(mut self, name: &str, size: i64, available: i64) -> Self {
        let mut template = self.spec["template"].clone();
        template["metadata"]["annotations"]["set"] = json!(name);
        let mut annotations = json!(scale::size_annotations(self.limits()));
        annotations[REVISION_ANNOTATION] = json!((self.made + 1).to_string());
        self.push(name, size, &template, &annotations);
        let status = json!({"replicas": size, "readyReplicas": available, "availableReplicas": available,
            "observedGeneration": 1, "terminatingReplicas": 0});
        self.sets.last_mut().unwrap()["status"] = status;
        self
    }

    /// Adds the youngest ReplicaSet as [`Self::with_set`] does, with the template of the Deployment.
    pub(crate) fn with_new_set(self, name: &str, size: i64, available: i64) -> Self {
        self.with_set(name, size, available).with_current_template(name)
    }

    fn push(&mut self, name: &str, size: i64, template: &Value, annotations: &Value) {
        self.made += 1;
        let created = Timestamp::from_second(1_700_000_000 + self.made).unwrap();
        self.sets.push(json!({
            "metadata": {
                "name": name, "namespace": "shop", "uid": name, "resourceVersion": "1", "generation": 1,
                "creationTimestamp": created.to_string(), "labels": {"app": "web"}, "annotations": annotations,
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "D",
                    "controller": true}],
            },
            "spec": {"replicas": size, "template": template},
            "status": {"replicas": 0},
        }));
    }

    fn get(&mut self, name: &str) -> &mut Value {
        self.sets.iter_mut().find(|set| set["metadata"]["name"] == name).unwrap()
    }

    /// Gives a ReplicaSet the template of the Deployment and the highest revision.
    pub(crate) fn with_current_template(mut self, name: &str) -> Self {
        let template = self.spec["template"].clone();
        let newest = (self.made + 1).to_string();
        let last = self.sets.last().unwrap()["metadata"]["name"] == name;
        let set = self.get(name);
        set["spec"]["template"] = template;
        if !last {
            set["metadata"]["annotations"][REVISION_ANNOTATION] = json!(newest);
        }
        self
    }

    pub(crate) fn with_annotation(mut self, key: &str, value: &str) -> Self {
        self.sets.last_mut().unwrap()["metadata"]["annotations"][key] = json!(value);
        self
    }

    pub(crate) fn without_annotation(mut self, key: &str) -> Self {
        self.sets.last_mut().unwrap()["metadata"]["annotations"].as_object_mut().unwrap().remove(key);
        self
    }

    pub(crate) fn with_unfinished_pods(mut self, name: &str, count: usize) -> Self {
        self.unfinished_pod_counts.get_or_insert_default().insert(Uid::new(name), count);
        self
    }

    /// Adds or replaces the condition of type `kind`, with the current time and with `reason` also as message.
    pub(crate) fn with_condition(mut self, kind: &str, reason: &str) -> Self {
        let mut status: DeploymentStatus = serde_json::from_value(self.status.clone()).unwrap();
        let condition = Condition { kind: kind.into(), ..conditions::progressing_condition(reason, reason, self.now) };
        list::replace(&mut status.conditions, condition);
        self.status = json!(status);
        self
    }

    pub(crate) fn with_complete_status(self) -> Self {
        let mut world = self.with_condition(conditions::PROGRESSING, conditions::NEW_REPLICA_SET_AVAILABLE);
        for count in ["replicas", "updatedReplicas", "readyReplicas", "availableReplicas"] {
            world.status[count] = world.spec["replicas"].clone();
        }
        world.status["observedGeneration"] = json!(world.generation);
        world.status["terminatingReplicas"] = json!(0);
        let mut status: DeploymentStatus = serde_json::from_value(world.status.clone()).unwrap();
        conditions::set_condition(&mut status, conditions::available_condition(true, world.now));
        world.status = json!(status);
        world
    }

    pub(crate) fn explain(&self) -> Explanation {
        let snapshot = self.snapshot();
        Decision::<DeploymentController>::with_forecast(&snapshot, snapshot.now).explain()
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        let sets: Vec<Arc<ReplicaSet>> = self
            .sets
            .iter()
            .map(|set| {
                let mut set: ReplicaSet = serde_json::from_value(set.clone()).unwrap();
                set.drop_unneeded_fields();
                Arc::new(set)
            })
            .collect();
        let mut metadata = json!({"name": "web", "namespace": "shop", "uid": "D", "resourceVersion": "1",
            "generation": self.generation, "annotations": self.annotations});
        if self.is_deleting {
            metadata["deletionTimestamp"] = json!(self.now.to_string());
        }
        let object = json!({"metadata": metadata, "spec": self.spec, "status": self.status});
        let mut deployment: Deployment = serde_json::from_value(object).unwrap();
        deployment.drop_unneeded_fields();
        if self.annotations.is_null() {
            let newest = sets.iter().find(|set| set.spec.template.is_digest_of(&deployment.spec.template));
            let revision = newest.and_then(|set| set.metadata.annotations.get(REVISION_ANNOTATION));
            deployment.metadata.annotations =
                common::meta::Annotations::from_pairs(revision.map(|revision| (REVISION_ANNOTATION, revision)));
        }
        let owner = Owner::new(DEPLOYMENTS, &deployment.metadata);
        let mut claims = refs::claim_dependents(&owner, &deployment.spec.selector.compiled, sets, |_| true).unwrap();
        sort_by_creation_time(&mut claims.to_keep);
        Snapshot {
            rollout_limits: self.limits(),
            deployment: Arc::new(deployment),
            owner,
            claims,
            release_retry_after: None,
            unfinished_pod_counts: self.unfinished_pod_counts.clone(),
            now: self.now,
            terminating_replicas_support: TerminatingReplicasSupport::Reported,
            are_predecessor_sets_cached: true,
        }
    }

    pub(crate) fn plan(&self) -> Plan {
        decide(&self.snapshot())
    }

    pub(crate) fn apply_plan(&mut self, plan: &Plan) {
        for step in &plan.steps {
            match &step.action {
                Action::CreateReplicaSet { name, body } => {
                    let body = json!(body);
                    let size = body["spec"]["replicas"].as_i64().unwrap();
                    self.push(name, size, &body["spec"]["template"], &body["metadata"]["annotations"]);
                }
                Action::ChangeReplicaSet { name, change } => self.change(name, change),
                Action::DeleteReplicaSet(set) => self.sets.retain(|s| s["metadata"]["name"] != *set.name),
                Action::WriteStatus { status, revision } => {
                    self.status = json!(status);
                    if let (Some(revision), Value::Object(annotations)) = (revision, &mut self.annotations) {
                        annotations.insert(REVISION_ANNOTATION.to_owned(), json!(revision));
                    }
                }
                Action::OnlyRecordEvent => {}
                other => panic!("the test world cannot apply {other:?}"),
            }
        }
    }

    fn change(&mut self, set: &str, change: &ReplicaSetChange) {
        let set = self.get(set);
        if let Some((from, to)) = change.size_before_and_after {
            assert_eq!(set["spec"]["replicas"], from, "a change starts at the current size");
            set["spec"]["replicas"] = json!(to);
            let generation = set["metadata"]["generation"].as_i64().unwrap();
            set["metadata"]["generation"] = json!(generation + 1);
        }
        for (key, value) in &change.annotations {
            set["metadata"]["annotations"][key] = json!(value);
        }
        if let Some(seconds) = change.min_ready_seconds {
            set["spec"]["minReadySeconds"] = json!(seconds);
        }
    }

    /// Applies plans until one has no steps; returns the number of applied plans.
    pub(crate) fn apply_until_settled(&mut self) -> usize {
        for done in 0..50 {
            let plan = self.plan();
            if plan.steps.is_empty() {
                return done;
            }
            self.apply_plan(&plan);
        }
        panic!("still has steps after 50 syncs: {:#?}", self.plan());
    }
}

impl Plan {
    fn actions<'p, T>(&'p self, of: impl Fn(&'p Action) -> Option<T>) -> Vec<T> {
        self.steps.iter().filter_map(|step| of(&step.action)).collect()
    }

    pub(crate) fn changes_of_set(&self, set: &str) -> Vec<ReplicaSetChange> {
        self.actions(|action| match action {
            Action::ChangeReplicaSet { name, change } if **name == *set => Some(change.clone()),
            _ => None,
        })
    }

    pub(crate) fn annotations_of_set(&self, name: &str) -> BTreeMap<String, String> {
        self.changes_of_set(name).into_iter().flat_map(|change| change.annotations).collect()
    }

    pub(crate) fn size_changes(&self) -> Vec<(String, i64, i64)> {
        self.actions(|action| match action {
            Action::ChangeReplicaSet { name, change } => {
                change.size_before_and_after.map(|(from, to)| (name.to_string(), from, to))
            }
            _ => None,
        })
    }

    pub(crate) fn created_set_name_and_body(&self) -> Option<(String, Value)> {
        let created = self.actions(|action| match action {
            Action::CreateReplicaSet { name, body } => Some((name.to_string(), json!(body))),
            _ => None,
        });
        created.into_iter().next()
    }

    pub(crate) fn deleted_sets(&self) -> Vec<String> {
        self.actions(|action| match action {
            Action::DeleteReplicaSet(set) => Some(set.name.to_string()),
            _ => None,
        })
    }

    pub(crate) fn event_messages(&self) -> Vec<String> {
        self.steps.iter().filter_map(|step| step.event.as_ref()).map(|event| event.message.clone()).collect()
    }

    fn status_writes(&self) -> Vec<(&DeploymentStatus, &Option<String>)> {
        self.actions(|action| match action {
            Action::WriteStatus { status, revision } => Some((&**status, revision)),
            _ => None,
        })
    }

    /// Returns the revision, and the reason and status of `Progressing`, of each status write.
    pub(crate) fn revision_and_progress_of_status_writes(&self) -> Vec<(Option<String>, (String, String))> {
        let one = |status: &DeploymentStatus| {
            conditions::find_progressing_condition(status)
                .map_or_else(Default::default, |c| (c.reason.to_string(), c.status.to_string()))
        };
        self.status_writes().into_iter().map(|(status, revision)| (revision.clone(), one(status))).collect()
    }

    pub(crate) fn last_written_status(&self) -> DeploymentStatus {
        self.status_writes().last().expect("the status is written").0.clone()
    }

    /// Returns reason, status and message of `Progressing` in the last status write.
    pub(crate) fn last_progressing_condition(&self) -> (&str, &str, &str) {
        let (status, _) = *self.status_writes().last().expect("the status is written");
        conditions::find_progressing_condition(status)
            .map_or(("", "", ""), |c| (c.reason.as_str(), c.status.as_str(), &*c.message))
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.steps.is_empty() && self.requeue == Requeue::AfterPlannedDelay && self.failure.is_none()
    }
}
