//! Pods, with what makes them somebody's number so-and-so.

use std::ops::Deref;

use common::{
    intern::Text,
    meta::{Annotations, Meta},
    object::{Object, Resource},
    pods::{PODS, Phase, Pod, Spec, Status},
};
use jiff::Timestamp;
use serde::{Deserialize, Deserializer};

use super::{REVISION_LABEL, STATEFUL_SETS};

/// A Pod that may concern this crate: one that a StatefulSet controls, or nobody.
#[derive(Clone, Debug)]
pub struct CachedPod {
    pod: Pod,
    /// The volumes that are claims: name of the volume, name of the claim.
    claims: Box<[(Text, Text)]>,
}

impl Deref for CachedPod {
    type Target = Pod;
    fn deref(&self) -> &Pod {
        &self.pod
    }
}

impl CachedPod {
    /// Its metadata.
    pub fn meta(&self) -> &Meta {
        &self.pod.meta
    }

    /// The claim behind a volume, if there is such a volume and it is one.
    pub fn claim(&self, volume: &str) -> Option<&str> {
        self.claims.iter().find(|(name, _)| name == volume).map(|(_, claim)| claim.as_str())
    }

    /// The revision it was made from; empty if it does not say.
    pub fn revision(&self) -> &str {
        self.pod.meta.labels.get(REVISION_LABEL).unwrap_or_default()
    }

    /// Whether it runs and is ready.
    pub fn is_running_and_ready(&self) -> bool {
        self.pod.phase == Phase::Running && self.pod.is_ready()
    }

    /// Whether it cannot be counted on: not ready for long enough, or going.
    pub fn is_unavailable(&self, min_ready_seconds: i32, now: Timestamp) -> bool {
        self.pod.meta.is_deleting() || !self.pod.is_available(min_ready_seconds, now)
    }
}

impl Object for CachedPod {
    const RESOURCE: Resource = PODS;

    fn meta(&self) -> &Meta {
        &self.pod.meta
    }

    fn trim(&mut self) {
        self.pod.meta.annotations = Annotations::default();
        self.pod.meta.finalizers = Box::default();
    }

    fn keep(&self) -> bool {
        self.pod.meta.controller().is_none_or(|owner| owner.kind == STATEFUL_SETS.kind)
    }
}

impl<'de> Deserialize<'de> for CachedPod {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Wire {
            metadata: Meta,
            #[serde(default)]
            spec: Option<WireSpec>,
            #[serde(default)]
            status: Option<Status>,
        }
        #[derive(Default, Deserialize)]
        struct WireSpec {
            #[serde(default)]
            volumes: Option<Vec<Volume>>,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Volume {
            #[serde(default)]
            name: Text,
            #[serde(default)]
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
        let claims = volumes.filter_map(|v| Some((v.name, v.persistent_volume_claim?.claim_name))).collect();
        Ok(Self { pod: Pod::new(metadata, Spec::default(), &status.unwrap_or_default()), claims })
    }
}

/// Which member of `set` a Pod of that name is: nothing if it is none, and nothing within if its number is one that the set
/// never gives: too large, or written with zeros in front.
///
/// Upstream takes `web-01` for number 1, and may lose `web-1` behind it.
pub fn ordinal_of(set: &str, pod: &str) -> Option<Option<i32>> {
    let (parent, digits) = pod.rsplit_once('-')?;
    if parent != set || digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let exact = digits == "0" || !digits.starts_with('0');
    Some(digits.parse().ok().filter(|_| exact))
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

    #[test]
    fn only_pods_that_concern_us_are_cached() {
        for (owner, keep) in [(Some("StatefulSet"), true), (None, true), (Some("ReplicaSet"), false)] {
            assert_eq!(pod(owner, json!({})).keep(), keep, "{owner:?}");
        }
    }

    #[test]
    fn volumes_that_are_claims_are_known() {
        let volumes = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data-web-0"}}, {"name": "tmp", "emptyDir": {}}]);
        let pod = pod(None, json!({ "volumes": volumes }));
        assert_eq!((pod.claim("data"), pod.claim("tmp"), pod.claim("x")), (Some("data-web-0"), None, None));
    }

    #[test]
    fn a_name_says_whose_number_it_is() {
        for (name, ordinal) in [
            ("web-0", Some(Some(0))),
            ("web-17", Some(Some(17))),
            ("web-2147483647", Some(Some(i32::MAX))),
            ("web-2147483648", Some(None)),
            ("web-01", Some(None)),
            ("web-", None),
            ("web", None),
            ("web-a", None),
            ("web-+1", None),
            ("web-0-1", None),
            ("webs-1", None),
        ] {
            assert_eq!(ordinal_of("web", name), ordinal, "{name}");
        }
        assert_eq!(ordinal_of("web-0", "web-0-1"), Some(Some(1)));
    }
}
