//! Builders for tests: a set, its Pods, claims and revisions, and the snapshot of a sync.

use std::{collections::BTreeMap, sync::Arc};

use common::{
    controller::Decision,
    prelude::*,
    refs,
    revision::{NumberEncoding, RevisionData, template::PodTemplateWithRevisionData},
};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::{
    StatefulSetController,
    decide::revisions,
    objects::{CachedVolumeClaim, STATEFUL_SETS, StatefulSet, parse_ordinal},
    plan::{Plan, PodPlan, PodRepair, PodWork},
    reports::ReportedMismatches,
    snapshot::{FeatureSettings, SharedPod, SharedRevision, Snapshot},
};

pub(crate) fn sync_time() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap()
}

pub(crate) fn seconds_ago(seconds: i64) -> Timestamp {
    sync_time() - SignedDuration::from_secs(seconds)
}

fn read<T: Object>(value: &Value) -> Arc<T> {
    let mut object: T = serde_json::from_str(&value.to_string()).unwrap();
    object.drop_unneeded_fields();
    Arc::new(object)
}

pub(crate) fn template(version: &str) -> Value {
    json!({"metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": format!("img:{version}")}]}})
}

fn data(template: &Value) -> Value {
    let data = RevisionData::from_value(template.clone(), NumberEncoding::Doubles).unwrap();
    serde_json::from_slice(data.bytes()).unwrap()
}

/// A set and its cached objects under construction. Revision `web-a` holds template `a`, and so on.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) set: Value,
    pub(crate) revisions: Vec<Value>,
    pub(crate) pods: Vec<Value>,
    pub(crate) volume_claims: Vec<Value>,
    pub(crate) reported_mismatches: ReportedMismatches,
    pub(crate) features: FeatureSettings,
}

/// Builds a set named `web` with `replicas` Pods that needs no change: template `a` is stored, and all Pods exist.
pub(crate) fn world(replicas: i32) -> World {
    let world = empty_set(replicas).revision("a", 1);
    let world = (0..replicas).fold(world, |world, ordinal| world.pod(pod(ordinal)));
    world.status(json!({"replicas": replicas, "readyReplicas": replicas, "availableReplicas": replicas,
        "currentReplicas": replicas, "updatedReplicas": replicas, "currentRevision": "web-a", "updateRevision": "web-a",
        "observedGeneration": 1, "collisionCount": 0}))
}

/// Builds a set named `web` without Pods, revisions and status.
pub(crate) fn empty_set(replicas: i32) -> World {
    let set = json!({
        "metadata": {"name": "web", "namespace": "shop", "uid": "SET", "generation": 1, "resourceVersion": "5"},
        "spec": {"replicas": replicas, "serviceName": "web", "selector": {"matchLabels": {"app": "web"}},
            "podManagementPolicy": "OrderedReady", "template": template("a"),
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}},
    });
    let limits = FeatureSettings { compares_revisions_semantically: true, ..FeatureSettings::default() };
    World {
        set,
        revisions: Vec::new(),
        pods: Vec::new(),
        volume_claims: Vec::new(),
        reported_mismatches: ReportedMismatches::default(),
        features: limits,
    }
}

#[derive(Clone, Debug)]
pub(crate) struct PodBuilder(pub(crate) Value);

/// Builds a Pod of template `a` that has been ready for an hour.
pub(crate) fn pod(ordinal: i32) -> PodBuilder {
    let name = format!("web-{ordinal}");
    let owner =
        json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "SET", "controller": true});
    let labels = json!({"app": "web", "controller-revision-hash": "web-a", "statefulset.kubernetes.io/pod-name": name});
    PodBuilder(json!({
        "metadata": {"name": name, "namespace": "shop", "uid": format!("POD-{ordinal}"), "resourceVersion": "1",
            "labels": labels, "ownerReferences": [owner]},
        "status": {"phase": "Running"},
    }))
    .ready_for(3600)
}

impl PodBuilder {
    pub(crate) fn ready_for(mut self, seconds: i64) -> Self {
        let since = seconds_ago(seconds).to_string();
        self.0["status"]["conditions"] = json!([{"type": "Ready", "status": "True", "lastTransitionTime": since}]);
        self
    }
    /// Makes the Pod unready for the last 30 seconds. It was ready before.
    pub(crate) fn unready(mut self) -> Self {
        let (started, changed) = (seconds_ago(3600).to_string(), seconds_ago(30).to_string());
        self.0["status"]["startTime"] = json!(started);
        self.0["status"]["conditions"] = json!([{"type": "Ready", "status": "False", "lastTransitionTime": changed}]);
        self
    }
    pub(crate) fn never_ready(mut self) -> Self {
        self = self.unready();
        self.0["status"]["conditions"][0]["lastTransitionTime"] = self.0["status"]["startTime"].clone();
        self
    }
    pub(crate) fn phase(mut self, phase: &str) -> Self {
        self.0["status"]["phase"] = json!(phase);
        if phase == "Running" { self } else { self.unready() }
    }
    pub(crate) fn being_deleted(mut self) -> Self {
        self.0["metadata"]["deletionTimestamp"] = json!(seconds_ago(1).to_string());
        self
    }
    pub(crate) fn of_revision(mut self, template: &str) -> Self {
        self.0["metadata"]["labels"]["controller-revision-hash"] = json!(format!("web-{template}"));
        self
    }
    pub(crate) fn orphan(mut self) -> Self {
        self.0["metadata"]["ownerReferences"] = json!([]);
        self
    }
    pub(crate) fn name(mut self, name: &str) -> Self {
        self.0["metadata"]["name"] = json!(name);
        self
    }
    pub(crate) fn without_name_label(mut self) -> Self {
        self.0["metadata"]["labels"].as_object_mut().unwrap().remove("statefulset.kubernetes.io/pod-name");
        self
    }
    pub(crate) fn with_volume_claim(mut self, ordinal: i32) -> Self {
        self.0["spec"]["volumes"] =
            json!([{"name": "data", "persistentVolumeClaim": {"claimName": format!("data-web-{ordinal}")}}]);
        self
    }
}

impl World {
    pub(crate) fn spec(mut self, field: &str, value: Value) -> Self {
        self.set["spec"][field] = value;
        self
    }
    pub(crate) fn status(mut self, status: Value) -> Self {
        self.set["status"] = status;
        self
    }
    pub(crate) fn with_parallel_policy(self) -> Self {
        self.spec("podManagementPolicy", json!("Parallel"))
    }
    pub(crate) fn partition(self, partition: i32) -> Self {
        self.spec("updateStrategy", json!({"type": "RollingUpdate", "rollingUpdate": {"partition": partition}}))
    }
    /// Changes the template, as a user does, and stores the new revision.
    pub(crate) fn rollout_to(self, version: &str) -> Self {
        let number = self.revisions.len() as i64 + 1;
        self.template(version).revision(version, number)
    }
    pub(crate) fn template(self, version: &str) -> Self {
        self.spec("template", template(version))
    }
    pub(crate) fn revision(self, version: &str, number: i64) -> Self {
        self.revision_of(version, number, &template(version))
    }
    pub(crate) fn revision_of(mut self, name: &str, number: i64, template: &Value) -> Self {
        let owner =
            json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "SET", "controller": true});
        let meta = json!({"name": format!("web-{name}"), "namespace": "shop", "uid": format!("REV-{name}"),
            "labels": {"app": "web"}, "ownerReferences": [owner]});
        self.revisions.push(json!({"metadata": meta, "revision": number, "data": data(template)}));
        self
    }
    pub(crate) fn pod(mut self, pod: PodBuilder) -> Self {
        self.pods.retain(|known| known["metadata"]["name"] != pod.0["metadata"]["name"]);
        self.pods.push(pod.0);
        self
    }
    pub(crate) fn without_pod(mut self, ordinal: i32) -> Self {
        self.pods.retain(|pod| pod["metadata"]["name"] != format!("web-{ordinal}"));
        self
    }
    /// Gives each Pod an existing claim called `data`.
    pub(crate) fn with_volume_claims(mut self, when_deleted: &str, when_scaled: &str) -> Self {
        self = self.spec("volumeClaimTemplates", json!([{"metadata": {"name": "data"}, "spec": {}}])).spec(
            "persistentVolumeClaimRetentionPolicy",
            json!({"whenDeleted": when_deleted, "whenScaled": when_scaled}),
        );
        let pods = std::mem::take(&mut self.pods);
        for pod in pods {
            let name = pod["metadata"]["name"].as_str().unwrap();
            let ordinal = parse_ordinal("web", name).unwrap().unwrap();
            self = self.volume_claim(ordinal, json!([])).pod(PodBuilder(pod).with_volume_claim(ordinal));
        }
        self
    }
    pub(crate) fn volume_claim(mut self, ordinal: i32, owners: Value) -> Self {
        let name = format!("data-web-{ordinal}");
        self.volume_claims.retain(|claim| claim["metadata"]["name"] != *name);
        self.volume_claims
            .push(json!({"metadata": {"name": name, "namespace": "shop", "uid": format!("PVC-{ordinal}"),
            "resourceVersion": "3", "ownerReferences": owners}}));
        self
    }
    pub(crate) fn without_volume_claim(mut self, ordinal: i32) -> Self {
        self.volume_claims.retain(|claim| claim["metadata"]["name"] != format!("data-web-{ordinal}"));
        self
    }
    pub(crate) fn being_deleted(mut self) -> Self {
        self.set["metadata"]["deletionTimestamp"] = json!(seconds_ago(1).to_string());
        self
    }
    pub(crate) fn max_unavailable(mut self, limit: Value) -> Self {
        self.features.is_max_unavailable_enabled = true;
        self.set["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"] = limit;
        self
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        let set: Arc<StatefulSet> = read(&self.set);
        let owner = Owner::new(STATEFUL_SETS, &set.metadata);
        let pods: Vec<SharedPod> = self.pods.iter().map(read).collect();
        let revisions: Vec<SharedRevision> = self.revisions.iter().map(read).collect();
        let is_member = |pod: &SharedPod| parse_ordinal("web", &pod.meta().name).is_some();
        let claims: BTreeMap<_, _> = self
            .volume_claims
            .iter()
            .map(|claim| (claim["metadata"]["name"].as_str().unwrap().to_owned(), read::<CachedVolumeClaim>(claim)))
            .collect();
        Snapshot {
            revisions: refs::claim_dependents(&owner, &set.selector, revisions, |_| true).unwrap(),
            pods: refs::claim_dependents(&owner, &set.selector, pods, is_member).unwrap(),
            volume_claims: claims,
            reported_mismatches: self.reported_mismatches.clone(),
            features: self.features,
            now: sync_time(),
            template: Arc::new(
                PodTemplateWithRevisionData::new(set.template.clone(), NumberEncoding::Doubles).unwrap(),
            ),
            owner,
            set,
        }
    }

    pub(crate) fn plan(&self) -> Plan {
        crate::decide::decide(&self.snapshot())
    }

    pub(crate) fn actions(&self) -> Vec<String> {
        let snapshot = self.snapshot();
        Decision::<StatefulSetController>::with_forecast(&snapshot, snapshot.now).explain().actions
    }

    /// Returns the work on Pods, abbreviated: `+1` creates, `-1` deletes, `~1` corrects the Pod itself, `pvc 1` creates claims,
    /// `own 1` writes the owner references of claims.
    pub(crate) fn abbreviated_work(&self) -> Vec<String> {
        abbreviate_work(&self.plan().pod_plan)
    }

    /// Returns the hash in the name of the template's revision after this number of collisions.
    pub(crate) fn template_hash(&self, collisions: i32) -> String {
        revisions::template_hash(&self.snapshot().template, collisions)
    }
}

fn number(pod: &SharedPod) -> String {
    pod.meta().name.trim_start_matches("web-").to_owned()
}

pub(crate) fn abbreviate_work(plan: &PodPlan) -> Vec<String> {
    let mut out = Vec::new();
    for work in plan.phases.iter().flat_map(|phase| &phase.work) {
        match work {
            PodWork::Create { ordinal, claims, .. } => {
                out.extend((!claims.missing_claims.is_empty()).then(|| format!("pvc {ordinal}")));
                out.push(format!("+{ordinal}"));
            }
            PodWork::CreateClaims { ordinal, .. } => out.push(format!("pvc {ordinal}")),
            PodWork::Delete { pod, .. } => out.push(format!("-{}", number(pod))),
            PodWork::Repair(PodRepair {
                pod,
                unusable_volume_claims: claims,
                ownership_changes: ownership,
                pod_errors: wrong,
                ..
            }) => {
                let n = number(pod);
                out.extend((!claims.missing_claims.is_empty()).then(|| format!("pvc {n}")));
                out.extend((!ownership.new_owners_by_volume_claim.is_empty()).then(|| format!("own {n}")));
                out.extend(wrong.is_some().then(|| format!("~{n}")));
            }
        }
    }
    out
}
