//! Pods, and the names that tie them to their StatefulSet and ordinal.

use std::ops::Deref;

use common::{
    conditions::seconds,
    head::ObjectHead,
    json::JsonStr,
    pods::{PODS, Phase, Pod, PodCondition, PodSpec, PodStatus},
    prelude::*,
    wire::{MessageSchema, messages},
};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Deserializer};

use super::{POD_NAME_LABEL, REVISION_LABEL, STATEFUL_SETS};

/// Greatest difference between the start time of a Pod and the transition time of its first condition `Ready`.
///
/// The kubelet reads its clock once for each of the two, at nearly the same time, and truncates both to whole seconds.
const START_JITTER: SignedDuration = SignedDuration::from_secs(1);

/// A Pod in the cache: a Pod of a StatefulSet, or an orphan.
#[derive(Clone, Debug)]
pub struct CachedPod {
    pod: Pod,
    /// Volume name and claim name of each volume that mounts a claim, sorted by volume name.
    claims: Box<[(Text, Text)]>,
    never_ready: bool,
}

impl Deref for CachedPod {
    type Target = Pod;
    fn deref(&self) -> &Pod {
        &self.pod
    }
}

impl CachedPod {
    /// Returns the metadata, without annotations and finalizers.
    pub fn meta(&self) -> &Meta {
        &self.pod.meta
    }

    /// Returns the ordinal in the name; `None` if the name does not end in `-<digits>` or the digits exceed an `i32`.
    pub fn ordinal(&self) -> Option<i32> {
        let (set, _) = self.pod.meta.name.rsplit_once('-')?;
        parse_ordinal(set, &self.pod.meta.name)?
    }

    /// Returns the name of the claim that the volume mounts; `None` if no volume of this name mounts a claim.
    pub fn volume_claim_name(&self, volume: &str) -> Option<&str> {
        let at = self.claims.binary_search_by(|(name, _)| name.as_str().cmp(volume)).ok()?;
        self.claims.get(at).map(|(_, claim)| claim.as_str())
    }

    /// Returns `true` if the Pod has never been ready since it was started.
    ///
    /// The kubelet writes the start time and the first condition `Ready` together, so a condition that changed later has been
    /// `True`. A Pod that has the condition but no start time counts as having been ready.
    pub fn was_never_ready(&self) -> bool {
        self.never_ready
    }

    /// Returns the value of the label `controller-revision-hash`; empty without the label.
    pub fn revision_name(&self) -> &str {
        self.pod.meta.labels.get(REVISION_LABEL).unwrap_or_default()
    }

    /// Returns whether the Pod lacks `statefulset.kubernetes.io/pod-name`, the label by which Pods are watched.
    pub fn lacks_name_label(&self) -> bool {
        self.pod.meta.labels.get(POD_NAME_LABEL).is_none()
    }

    /// Returns whether the phase is `Running` and the condition `Ready` is `True`.
    pub fn is_running_and_ready(&self) -> bool {
        self.pod.phase == Phase::Running && self.pod.is_ready()
    }

    /// Returns whether the Pod is terminating, or has not been ready for at least `min_ready_seconds`.
    pub fn is_unavailable(&self, min_ready_seconds: i32, now: Timestamp) -> bool {
        self.pod.meta.is_deleting() || !self.pod.is_available(min_ready_seconds, now)
    }
}

impl Object for CachedPod {
    const RESOURCE: Resource = PODS;
    type Indexes = (ByController, OrphansByNamespace);
    const PROTOBUF_SCHEMA: Option<&'static MessageSchema> = Some(&messages::POD);
    const HEAD_FILTER: Option<fn(&ObjectHead<'_>) -> bool> =
        Some(|head| head.controller_kind().is_none_or(|kind| kind == STATEFUL_SETS.kind()));

    fn meta(&self) -> &Meta {
        &self.pod.meta
    }

    fn drop_unneeded_fields(&mut self) {
        self.pod.meta.drop_annotations_and_finalizers();
    }
}

impl<'de> Deserialize<'de> for CachedPod {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Wire<'a> {
            metadata: Meta,
            spec: Option<WireSpec>,
            #[serde(borrow)]
            status: Option<WireStatus<'a>>,
        }
        #[derive(Default, Deserialize)]
        struct WireSpec {
            volumes: Option<Vec<Volume>>,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Volume {
            #[serde(default)]
            name: Text,
            persistent_volume_claim: Option<Source>,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Source {
            #[serde(default)]
            claim_name: Text,
        }
        let Wire { metadata, spec, status } = Wire::deserialize(deserializer)?;
        let volumes = spec.unwrap_or_default().volumes.unwrap_or_default().into_iter();
        let mut claims: Vec<(Text, Text)> =
            volumes.filter_map(|v| Some((v.name, v.persistent_volume_claim?.claim_name))).collect();
        claims.sort_by(|(a, _), (b, _)| a.as_str().cmp(b.as_str()));
        let status = status.unwrap_or_default();
        let phase = status.phase.as_deref().map_or(Phase::Other, Phase::parse);
        let never_ready = status.was_never_ready();
        let status = PodStatus {
            phase,
            readiness: PodCondition::readiness(status.conditions.as_deref()),
            ..PodStatus::default()
        };
        Ok(Self { pod: Pod::new(metadata, PodSpec::default(), &status), claims: claims.into(), never_ready })
    }
}

/// The fields of a Pod's `status` that this crate reads. The parser skips all other fields, such as the container statuses.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireStatus<'a> {
    #[serde(borrow)]
    phase: Option<JsonStr<'a>>,
    #[serde(borrow)]
    conditions: Option<Vec<PodCondition<'a>>>,
    #[serde(default, with = "seconds")]
    start_time: Option<Timestamp>,
}

impl WireStatus<'_> {
    fn was_never_ready(&self) -> bool {
        let Some(ready) = PodCondition::find_ready(self.conditions.as_deref()) else { return true };
        let Some((changed, started)) = ready.last_transition_time.zip(self.start_time) else { return false };
        !ready.is_true() && changed.duration_since(started) <= START_JITTER
    }
}

/// Returns the ordinal in a Pod's name: `None` if the name is not `<set>-<digits>`, `Some(None)` if the digits exceed an `i32`.
///
/// `web-01` has ordinal 1, as `web-1` has. Upstream: `pkg/controller/statefulset`, `getParentNameAndOrdinal`.
pub fn parse_ordinal(set: &str, pod: &str) -> Option<Option<i32>> {
    let (parent, digits) = pod.rsplit_once('-')?;
    if parent != set || digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    Some(digits.parse().ok())
}

/// Returns whether the ordinal in a Pod's name has leading zeros. A set never creates a Pod with such a name.
pub fn has_leading_zero(pod: &str) -> bool {
    pod.rsplit_once('-').is_some_and(|(_, digits)| digits.len() > 1 && digits.starts_with('0'))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(owner: Option<&str>, spec: Value) -> CachedPod {
        let owners: Vec<Value> =
            owner.map(|kind| json!({"kind": kind, "name": "o", "uid": "u", "controller": true})).into_iter().collect();
        let json = json!({"metadata": {"name": "p", "ownerReferences": owners}, "spec": spec});
        serde_json::from_str(&json.to_string()).unwrap()
    }

    /// STATEFULSET-1.
    #[test]
    fn only_pods_of_sets_and_orphans_are_cached() {
        for (owner, keep) in [(Some("StatefulSet"), true), (None, true), (Some("ReplicaSet"), false)] {
            assert_eq!(pod(owner, json!({})).is_cached(), keep, "{owner:?}");
        }
    }

    #[test]
    fn claims_are_found_by_the_name_of_their_volume() {
        let volumes = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data-web-0"}}, {"name": "tmp", "emptyDir": {}}]);
        let pod = pod(None, json!({ "volumes": volumes }));
        assert_eq!(
            (pod.volume_claim_name("data"), pod.volume_claim_name("tmp"), pod.volume_claim_name("x")),
            (Some("data-web-0"), None, None)
        );
    }

    #[test]
    fn many_volumes_are_found_by_name() {
        let volume =
            |n: usize| json!({"name": format!("v{n}"), "persistentVolumeClaim": {"claimName": format!("c{n}")}});
        let pod = pod(None, json!({"volumes": (0..40).rev().map(volume).collect::<Vec<_>>()}));
        assert!((0..40).all(|n| pod.volume_claim_name(&format!("v{n}")) == Some(format!("c{n}").as_str())));
    }

    /// STATEFULSET-68.
    #[test]
    fn a_pod_whose_readiness_changed_after_its_start_has_been_ready() {
        let pod = |status: Value| {
            let json = json!({"metadata": {"name": "p"}, "status": status});
            serde_json::from_str::<CachedPod>(&json.to_string()).unwrap()
        };
        let ready = |status: &str, changed: Value| {
            json!({"phase": "Running", "startTime": "2026-11-21T09:00:00Z",
                "conditions": [{"type": "Ready", "status": status, "lastTransitionTime": changed}]})
        };
        for (status, never) in [
            (json!({}), true),
            (json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "True"}]}), true),
            (ready("False", json!("2026-11-21T09:00:00Z")), true),
            (ready("False", json!("2026-11-21T09:00:01Z")), true),
            (ready("False", json!("2026-11-21T09:00:02Z")), false),
            (ready("True", json!("2026-11-21T09:00:00Z")), false),
            (ready("False", json!(null)), false),
            (
                json!({"conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": "2026-11-21T09:00:00Z"}]}),
                false,
            ),
        ] {
            assert_eq!(pod(status.clone()).was_never_ready(), never, "{status}");
        }
    }

    /// STATEFULSET-6, STATEFULSET-11, STATEFULSET-12.
    #[test]
    fn a_name_gives_set_and_ordinal() {
        for (name, ordinal) in [
            ("web-0", Some(Some(0))),
            ("web-17", Some(Some(17))),
            ("web-2147483647", Some(Some(i32::MAX))),
            ("web-2147483648", Some(None)),
            ("web-01", Some(Some(1))),
            ("web-00", Some(Some(0))),
            ("web-0000000000000000000007", Some(Some(7))),
            ("web-02147483648", Some(None)),
            ("web-99999999999999999999", Some(None)),
            ("web-", None),
            ("web", None),
            ("web-a", None),
            ("web-+1", None),
            ("web-0-1", None),
            ("webs-1", None),
        ] {
            assert_eq!(parse_ordinal("web", name), ordinal, "{name}");
        }
        assert_eq!(parse_ordinal("web-0", "web-0-1"), Some(Some(1)));
        for (name, leading) in [("web-0", false), ("web-10", false), ("web-00", true), ("web-01", true)] {
            assert_eq!(has_leading_zero(name), leading, "{name}");
        }
    }
}
