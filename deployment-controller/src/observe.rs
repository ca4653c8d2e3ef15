//! Checks of observed objects, and the parts of a snapshot that come from the memory of earlier syncs.

use std::{sync::Arc, time::Duration};

use common::prelude::*;
use jiff::Timestamp;

use crate::{
    DeploymentController, TERMINATING_REPLICAS_GATE,
    limits::RolloutLimits,
    objects::{Deployment, ReplicaSet},
    snapshot::TerminatingReplicasSupport,
};

/// Pause after a refused release of a ReplicaSet before the next attempt. A change of the ReplicaSet ends the pause.
const RELEASE_RETRY_PERIOD: Duration = Duration::from_mins(5);
/// Allowance for clock skew: if a Deployment was created more than this time after the start of this leader's term, no earlier
/// leader has synced it.
const CLOCK_SKEW: Duration = Duration::from_secs(10);
/// How long to wait before writing `status.terminatingReplicas` again to a server that dropped it.
const TERMINATING_REPLICAS_RETRY_PERIOD: Duration = Duration::from_mins(10);

impl DeploymentController {
    /// Returns how the status of this Deployment reports terminating Pods.
    pub(crate) fn terminating_replicas_support(&self, deployment: &Deployment) -> TerminatingReplicasSupport {
        if !self.context.settings.is_feature_gate_on(&TERMINATING_REPLICAS_GATE) {
            return TerminatingReplicasSupport::Disabled;
        }
        let is_recent = |dropped_at: Instant| {
            self.context.clock.monotonic_now().duration_since(dropped_at) < TERMINATING_REPLICAS_RETRY_PERIOD
        };
        let is_stored = deployment.status.terminating_replicas.is_some();
        if !is_stored && self.terminating_replicas_dropped_at.lock().is_some_and(is_recent) {
            TerminatingReplicasSupport::DroppedByServer
        } else {
            TerminatingReplicasSupport::Reported
        }
    }

    /// Moves ReplicaSets from `to_release` back to `to_keep` if the server refused the release of their current version.
    /// Returns the time until the next attempt.
    pub(crate) fn keep_sets_with_refused_release(
        &self,
        claims: &mut DependentClaims<Arc<ReplicaSet>>,
        now: Timestamp,
    ) -> Option<Duration> {
        let refused_releases = self.watch.refused_releases.lock();
        let remaining_pause = |set: &Arc<ReplicaSet>| {
            let refused = refused_releases.get(&set.metadata.uid)?;
            let pause = RELEASE_RETRY_PERIOD.saturating_sub(now.duration_since(refused.refused_at).unsigned_abs());
            (refused.replica_set_version == set.metadata.resource_version && !pause.is_zero()).then_some(pause)
        };
        let retry_after = claims.to_release.iter().filter_map(remaining_pause).min();
        claims.to_keep.extend(claims.to_release.extract_if(.., |set| remaining_pause(set).is_some()));
        retry_after
    }

    /// Whether the cache shows every ReplicaSet that earlier leaders may have created for the Deployment.
    pub(crate) fn are_predecessor_sets_cached(&self, deployment: &Deployment, now: Timestamp) -> bool {
        let LoopContext { clock, write_gate, .. } = &self.context;
        let leading_since = write_gate.leading_since();
        let term = leading_since.map_or(Duration::ZERO, |since| clock.monotonic_now().saturating_duration_since(since));
        let term_start = now.saturating_sub(term).and_then(|start| start.saturating_add(CLOCK_SKEW));
        let meta = &deployment.metadata;
        let is_younger = |start: Timestamp| meta.creation_timestamp.is_some_and(|created| created >= start);
        term_start.is_ok_and(is_younger) || self.watch.deployments_with_listed_sets.lock().contains(&meta.uid)
    }
}

/// Validates a Deployment and returns its limits.
///
/// API validation refuses the same objects, so only a server without validation stores them. The controller leaves such a
/// Deployment alone and reports an error.
pub(crate) fn check_deployment(deployment: &Deployment) -> Result<RolloutLimits, SyncError> {
    let spec = &deployment.spec;
    if let Some(bytes) = deployment.dropped_annotation_bytes {
        return Err(malformed(format!("metadata.annotations are {bytes} bytes, which no server accepts")));
    }
    if spec.selector.compiled.is_null() {
        return Err(malformed("spec.selector is missing"));
    }
    spec.selector.compiled.validate().map_err(|error| malformed(format!("spec.{error}")))?;
    if let Some(problem) = spec.template.validation_error() {
        return Err(malformed(format!("spec.template: {problem}")));
    }
    check_not_negative(
        "",
        &[
            ("spec.replicas", spec.replicas),
            ("spec.minReadySeconds", spec.min_ready_seconds),
            ("spec.revisionHistoryLimit", spec.revision_history_limit.unwrap_or(0)),
            ("spec.progressDeadlineSeconds", spec.progress_deadline_seconds.unwrap_or(0)),
        ],
    )?;
    RolloutLimits::from_spec(spec).map_err(malformed)
}

/// Fails if a field has a negative value. The error names the object, which is empty or ends in `: `.
fn check_not_negative(object: &str, fields: &[(&str, i32)]) -> Result<(), SyncError> {
    match fields.iter().find(|(_, value)| *value < 0) {
        Some((field, value)) => Err(malformed(format!("{object}{field} is {value}"))),
        None => Ok(()),
    }
}

pub(crate) fn malformed(text: impl Into<String>) -> SyncError {
    SyncError::new(SyncErrorClass::Malformed, text)
}

pub(crate) fn check_set(set: &ReplicaSet) -> Result<(), SyncError> {
    let (name, status) = (&set.metadata.name, &set.status);
    if let Some(bytes) = set.dropped_annotation_bytes {
        let problem = format!("metadata.annotations are {bytes} bytes, which no server accepts");
        return Err(malformed(format!("ReplicaSet {name}: {problem}")));
    }
    if let Some(problem) = set.spec.template.malformed_reason() {
        return Err(malformed(format!("ReplicaSet {name}: spec.template: {problem}")));
    }
    check_not_negative(
        &format!("ReplicaSet {name}: "),
        &[
            ("spec.replicas", set.spec.replicas),
            ("status.replicas", status.replicas),
            ("status.readyReplicas", status.ready_replicas),
            ("status.availableReplicas", status.available_replicas),
            ("status.terminatingReplicas", status.terminating_replicas.unwrap_or(0)),
        ],
    )
}

#[cfg(test)]
mod tests {
    use common::{object::Object as _, settings::OperatorSettings, store::CacheEntry};
    use serde_json::{Value, json};
    use testkit::context_without_server;

    use super::*;
    use crate::objects::DEPLOYMENTS;

    fn controller(clock: &Clock) -> DeploymentController {
        let context = context_without_server(clock, OperatorSettings::new());
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
        controller.deployments.put_entry(entry(1), &mut Vec::new());
        for number in 2..3000 {
            let (written, version) = (entry(number), ResourceVersion::parse(&number.to_string()));
            controller.watch.ledger.record_write(&Uid::new("u"), DEPLOYMENTS, version);
            std::thread::scope(|scope| {
                scope.spawn(|| controller.deployments.put_entry(written, &mut Vec::new()));
                let snapshot = loop {
                    match controller.observe(&key, clock.now()) {
                        Err(NoSnapshot::Waiting { .. }) => {}
                        observed => break observed.unwrap(),
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
        let cases: [(Change, &str); 8] = [
            (|d| d["spec"]["replicas"] = json!(-3), "spec.replicas is -3"),
            (|d| d["spec"]["minReadySeconds"] = json!(-1), "spec.minReadySeconds is -1"),
            (|d| d["spec"]["revisionHistoryLimit"] = json!(-2), "spec.revisionHistoryLimit is -2"),
            (|d| d["spec"]["progressDeadlineSeconds"] = json!(-2), "spec.progressDeadlineSeconds is -2"),
            (|d| d["spec"]["selector"] = json!(null), "spec.selector is missing"),
            (
                |d| d["spec"]["template"] = json!({"spec": 3}),
                "spec.template: Pod template cannot be read: invalid type: integer `3`, expected an object at line 1 column 9",
            ),
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
            (set(json!({"template": template, "replicas": -1}), json!({})), "spec.replicas is -1"),
            (set(json!({"template": template}), json!({"availableReplicas": -5})), "status.availableReplicas is -5"),
        ] {
            assert_eq!(check_set(&set).unwrap_err().to_string(), format!("ReplicaSet web-1: {want}"));
        }
    }
}
