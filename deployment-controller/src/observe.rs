//! Builds a snapshot for a key from indexed reads of the caches.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use common::{
    consistency::LedgerCache,
    controller::Observation,
    informer::{AnyInformer as _, Informer},
    io::SyncError,
    map::HashSet,
    meta::{NamespacedName, Uid},
    refs::{self, DependentClaims, Owner},
    runtime::LoopContext,
    store::{ByController, IndexValue, OrphansByNamespace},
};
use jiff::Timestamp;

use crate::{
    DeploymentController,
    limits::RolloutLimits,
    objects::{DEPLOYMENTS, Deployment, Pod, ReplicaSet, StrategyType},
    snapshot::{Snapshot, sort_by_creation_time},
    watch::RefusedReplicaSetRelease,
};

/// Pause after a refused release of a ReplicaSet before the next attempt. A change of the ReplicaSet ends the pause.
const RELEASE_RETRY_PERIOD: Duration = Duration::from_mins(5);
/// Allowance for clock skew: if a Deployment was created more than this time after the start of this leader's term, no earlier
/// leader has synced it.
const CLOCK_SKEW: Duration = Duration::from_secs(10);
/// Longest wait for the first list of a Deployment's Pods. Normally the end of that list enqueues the Deployment earlier.
const POD_RECHECK: Duration = Duration::from_secs(30);

impl DeploymentController {
    pub(crate) fn observe(&self, key: &NamespacedName, now: Timestamp) -> Result<Observation<Snapshot>, SyncError> {
        let store = self.deployments.store();
        let known = store.with_metadata(&key.namespace, &key.name, |meta| meta.uid.clone());
        let caches: [&dyn LedgerCache; 2] = [&**self.sets.store(), &**store];
        let unseen_write =
            known.as_ref().and_then(|uid| self.watch.ledger.first_unseen_write(uid, &caches, HashSet::default));
        if let Some(behind) = unseen_write {
            return Ok(Observation::waiting_for_own_writes(behind));
        }
        // The Deployment is read after the check of the ledger, so that it is not older than the writes in the ledger.
        let Some(deployment) = store.get(&key.namespace, &key.name)? else {
            self.pods.stop_informer(key);
            return Ok(Observation::Gone);
        };
        if known.as_ref() != Some(&deployment.metadata.uid) {
            // The ledger was checked for a deleted Deployment, which a new Deployment of the same name has replaced.
            return self.observe(key, now);
        }
        let limits = check_deployment(&deployment)?;
        let owned = self.sets.store().list_by_index(ByController, &IndexValue::for_controller(&deployment.metadata))?;
        for set in &owned {
            check_set(set)?;
        }
        // A malformed orphan is skipped, because it would otherwise stop every Deployment of its namespace.
        let namespace = IndexValue::Text(deployment.metadata.namespace.clone());
        let orphans = self.sets.store().list_decoded_by_index(OrphansByNamespace, &namespace);
        let orphans = orphans.into_iter().filter(|set| check_set(set).is_ok());
        let owner = Owner::new(DEPLOYMENTS, &deployment.metadata);
        let selector = &deployment.spec.selector.compiled;
        let mut claims = refs::claim_dependents(&owner, selector, owned.into_iter().chain(orphans), |_| true)
            .map_err(|error| invalid(format!("spec.{error}")))?;
        let release_again = self.keep_refused(&mut claims, now);
        sort_by_creation_time(&mut claims.to_keep);
        let running_pods = if waits_for_pods(&deployment, &claims.to_keep) {
            let pods = self.pods.get_or_start_informer(&deployment, &claims.to_keep);
            if !pods.is_synced() {
                let why = "the Pods, which the strategy Recreate needs, have not been read yet";
                return Ok(Observation::waiting_because(why, POD_RECHECK));
            }
            running_pods(&pods, &claims.to_keep)?
        } else {
            self.pods.stop_informer(key);
            BTreeMap::new()
        };
        let terminating_replicas = self.terminating_replicas(&deployment);
        let shows_predecessors_sets = self.has_all_predecessor_sets(&deployment, now);
        Ok(Observation::Ready(Snapshot {
            deployment,
            owner,
            claims,
            release_retry_after: release_again,
            unfinished_pod_counts: running_pods,
            rollout_limits: limits,
            now,
            terminating_replicas_support: terminating_replicas,
            are_predecessor_sets_cached: shows_predecessors_sets,
        }))
    }
}

impl DeploymentController {
    /// Moves ReplicaSets from `release` back to `keep` if the server refused the release of their current version. Returns the
    /// time until the next attempt.
    fn keep_refused(&self, claims: &mut DependentClaims<Arc<ReplicaSet>>, now: Timestamp) -> Option<Duration> {
        let refused = self.watch.refused_releases.lock();
        let left = |set: &Arc<ReplicaSet>| {
            let known = refused.get(&set.metadata.uid)?;
            let left = RELEASE_RETRY_PERIOD.saturating_sub(now.duration_since(known.refused_at).unsigned_abs());
            (known.replica_set_version == set.metadata.resource_version && !left.is_zero()).then_some(left)
        };
        let again = claims.to_release.iter().filter_map(left).min();
        claims.to_keep.extend(claims.to_release.extract_if(.., |set| left(set).is_some()));
        again
    }

    /// Whether the cache shows every ReplicaSet that earlier leaders may have created for the Deployment.
    fn has_all_predecessor_sets(&self, deployment: &Deployment, now: Timestamp) -> bool {
        let LoopContext { clock, write_gate: gate, .. } = &self.context;
        let led =
            gate.open_since().map_or(Duration::ZERO, |since| clock.monotonic_now().saturating_duration_since(since));
        let since = now.saturating_sub(led).and_then(|since| since.saturating_add(CLOCK_SKEW));
        let meta = &deployment.metadata;
        let is_younger = |since: Timestamp| meta.creation_timestamp.is_some_and(|created| created >= since);
        since.is_ok_and(is_younger) || self.watch.deployments_with_listed_sets.lock().contains(&meta.uid)
    }

    pub(crate) fn record_refused_release(&self, snapshot: &Snapshot, uid: &Uid) {
        let Some(set) = snapshot.claims.to_release.iter().find(|set| set.metadata.uid == *uid) else { return };
        let refused =
            RefusedReplicaSetRelease { replica_set_version: set.metadata.resource_version, refused_at: snapshot.now };
        self.watch.refused_releases.lock().insert(uid.clone(), refused);
    }
}

/// Whether the next step depends on old Pods, which is so under `Recreate` until the new ReplicaSet has its full size.
fn waits_for_pods(deployment: &Deployment, sets: &[Arc<ReplicaSet>]) -> bool {
    let spec = &deployment.spec;
    if spec.strategy.kind != StrategyType::Recreate || spec.paused || deployment.metadata.is_deleting() {
        return false;
    }
    let new = sets.iter().position(|set| set.spec.template.is_digest_of(&spec.template));
    let is_full = new.is_some_and(|new| sets[new].spec.replicas == spec.replicas);
    !is_full && sets.len() > usize::from(new.is_some())
}

fn running_pods(pods: &Informer<Pod>, sets: &[Arc<ReplicaSet>]) -> Result<BTreeMap<Uid, usize>, SyncError> {
    let running = |set: &Arc<ReplicaSet>| {
        let uid = &set.metadata.uid;
        let of_set = pods.store().list_by_index(ByController, &IndexValue::for_controller(&set.metadata))?;
        Ok((uid.clone(), of_set.iter().filter(|pod| pod.is_unfinished()).count()))
    };
    sets.iter().map(running).collect()
}

/// Validates a Deployment and returns its limits.
///
/// API validation refuses the same objects, so only a server without validation stores them. The controller leaves such a
/// Deployment alone and reports an error.
fn check_deployment(deployment: &Deployment) -> Result<RolloutLimits, SyncError> {
    let spec = &deployment.spec;
    if let Some(bytes) = deployment.dropped_annotation_bytes {
        return Err(invalid(format!("metadata.annotations are {bytes} bytes, which no server accepts")));
    }
    if spec.selector.compiled.is_null() {
        return Err(invalid("spec.selector is missing"));
    }
    spec.selector.compiled.validate().map_err(|error| invalid(format!("spec.{error}")))?;
    if let Some(problem) = spec.template.validation_error() {
        return Err(invalid(format!("spec.template: {problem}")));
    }
    for (field, value) in [
        ("replicas", Some(spec.replicas)),
        ("minReadySeconds", Some(spec.min_ready_seconds)),
        ("revisionHistoryLimit", spec.revision_history_limit),
        ("progressDeadlineSeconds", spec.progress_deadline_seconds),
    ] {
        if let Some(value) = value.filter(|value| *value < 0) {
            return Err(invalid(format!("spec.{field} is {value}")));
        }
    }
    RolloutLimits::from_spec(spec).map_err(|error| invalid(error.to_string()))
}

/// Returns the error of a sync that has found a malformed Deployment or ReplicaSet.
fn invalid(why: impl Into<String>) -> SyncError {
    SyncError::new("malformed", why)
}

fn check_set(set: &ReplicaSet) -> Result<(), SyncError> {
    let name = &set.metadata.name;
    if let Some(bytes) = set.dropped_annotation_bytes {
        let why = format!("ReplicaSet {name}: metadata.annotations are {bytes} bytes, which no server accepts");
        return Err(invalid(why));
    }
    if let Some(problem) = set.spec.template.malformed_reason() {
        return Err(invalid(format!("ReplicaSet {name}: spec.template: {problem}")));
    }
    let status = &set.status;
    for (field, value) in [
        ("spec.replicas", set.spec.replicas),
        ("status.replicas", status.replicas),
        ("status.readyReplicas", status.ready_replicas),
        ("status.availableReplicas", status.available_replicas),
        ("status.terminatingReplicas", status.terminating_replicas.unwrap_or(0)),
    ] {
        if value < 0 {
            return Err(invalid(format!("ReplicaSet {name}: {field} is {value}")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use common::{
        api::Api,
        clock::Clock,
        events::EventRecorder,
        gate::closed_write_gate,
        meta::ResourceVersion,
        metrics::Metrics,
        object::Object as _,
        queue::{BackoffSettings, Queue},
        runtime::SharedValues,
        settings::OperatorSettings,
        store::CacheEntry,
    };
    use sandbox::Sandbox;
    use serde_json::{Value, json};

    use super::*;

    /// Returns a controller whose informers receive nothing, because its tests never wait.
    fn controller(clock: &Clock) -> DeploymentController {
        let (_, gate) = closed_write_gate(clock.clone());
        let client = Sandbox::builder().clock(clock.clone()).build().client("test");
        let context = LoopContext {
            api: Api::new(client, clock.clone(), gate.clone(), "test"),
            recorder: EventRecorder::discarding_events("test", clock.clone()),
            settings: Arc::new(OperatorSettings::new()),
            metrics: Metrics::new(),
            sync_callbacks: None,
            write_sampler: None,
            shared_values: SharedValues::default(),
            parts: LoopParts::default(),
            clock: clock.clone(),
            write_gate: gate,
        };
        DeploymentController::new(context, Queue::new(clock.clone(), BackoffSettings::default(), None))
    }

    /// With several threads, the cache may receive a write of this controller at any moment of `observe`.
    #[tokio::test(start_paused = true)]
    async fn a_snapshot_holds_each_write_that_the_ledger_takes_for_seen() {
        let clock = Clock::simulated("2026-11-21T09:00:00Z".parse().unwrap(), 1);
        let controller = controller(&clock);
        let key = NamespacedName::new("shop", "web");
        let entry = |version: u64| {
            let written = deployment(|d| {
                d["metadata"] =
                    json!({"namespace": "shop", "name": "web", "uid": "u", "resourceVersion": version.to_string()});
            });
            CacheEntry::Decoded(Arc::new(written))
        };
        controller.deployments.store().put_entry(entry(1), &mut Vec::new());
        for number in 2..3000 {
            let (written, version) = (entry(number), ResourceVersion::parse(&number.to_string()));
            controller.watch.ledger.record_write(&Uid::new("u"), DEPLOYMENTS, version);
            std::thread::scope(|scope| {
                scope.spawn(|| controller.deployments.store().put_entry(written, &mut Vec::new()));
                let snapshot = loop {
                    if let Observation::Ready(snapshot) = controller.observe(&key, clock.now()).unwrap() {
                        break snapshot;
                    }
                };
                assert_eq!(snapshot.deployment.metadata.resource_version, version);
            });
        }
    }

    fn deployment(change: impl FnOnce(&mut Value)) -> Deployment {
        let mut value = json!({"metadata": {"name": "web"}, "spec": {"replicas": 2,
            "selector": {"matchLabels": {"app": "web"}}, "template": {"metadata": {"labels": {"app": "web"}}, "spec": {}},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}}});
        change(&mut value);
        let mut deployment: Deployment = serde_json::from_value(value).unwrap();
        deployment.drop_unneeded_fields();
        deployment
    }

    /// DEPLOYMENT-67, DEPLOYMENT-89.
    #[test]
    fn malformed_deployments_are_refused_with_a_one_line_error() {
        type Change = fn(&mut Value);
        let cases: [(Change, &str); 9] = [
            (|d| d["spec"]["replicas"] = json!(-3), "spec.replicas is -3"),
            (|d| d["spec"]["minReadySeconds"] = json!(-1), "spec.minReadySeconds is -1"),
            (|d| d["spec"]["revisionHistoryLimit"] = json!(-2), "spec.revisionHistoryLimit is -2"),
            (|d| d["spec"]["progressDeadlineSeconds"] = json!(-2), "spec.progressDeadlineSeconds is -2"),
            (|d| d["spec"]["selector"] = json!(null), "spec.selector is missing"),
            (|d| d["spec"]["selector"] = json!(7), "spec.selector: it is not an object"),
            (|d| d["spec"]["template"] = json!("text"), "spec.template: Pod template is not an object"),
            (
                |d| d["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] = json!("300%"),
                "spec.strategy.rollingUpdate.maxUnavailable: 300% is out of range",
            ),
            (
                |d| d["metadata"]["annotations"] = json!({"a": "x".repeat(10 << 20)}),
                "metadata.annotations are 10485761 bytes, which no server accepts",
            ),
        ];
        assert!(check_deployment(&deployment(|_| ())).is_ok());
        for (change, want) in cases {
            assert_eq!(check_deployment(&deployment(change)).unwrap_err().to_string(), want);
        }
    }

    /// DEPLOYMENT-89.
    #[test]
    fn a_malformed_set_is_named_in_the_error() {
        let set = |spec: Value, status: Value| -> ReplicaSet {
            serde_json::from_value(json!({"metadata": {"name": "web-1"}, "spec": spec, "status": status})).unwrap()
        };
        let template = json!({"metadata": {}, "spec": {}});
        assert!(check_set(&set(json!({"template": template}), json!({}))).is_ok());
        for (set, want) in [
            (set(json!({"template": template, "replicas": -1}), json!({})), "ReplicaSet web-1: spec.replicas is -1"),
            (
                set(json!({"template": template}), json!({"availableReplicas": -5})),
                "ReplicaSet web-1: status.availableReplicas is -5",
            ),
            (
                set(json!({"template": [1]}), json!({})),
                "ReplicaSet web-1: spec.template: Pod template is not an object",
            ),
        ] {
            assert_eq!(check_set(&set).unwrap_err().to_string(), want);
        }
    }
}
