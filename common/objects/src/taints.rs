//! Taints of nodes and tolerations of Pods.

use std::{
    hash::BuildHasher as _,
    sync::{Arc, LazyLock},
};

use parking_lot::Mutex;
use serde::{Deserialize, Deserializer, Serialize};
use smallvec::SmallVec;

use crate::{intern::Text, map::SeededHashState};

/// Taint effect: Pods that do not tolerate the taint are not scheduled on the node.
pub const NO_SCHEDULE: &str = "NoSchedule";
/// Taint effect: Pods that do not tolerate the taint are not scheduled on the node, and are evicted from it.
pub const NO_EXECUTE: &str = "NoExecute";

/// An entry of a node's `spec.taints`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Taint {
    /// `key` of the taint, for example `node.kubernetes.io/not-ready`.
    pub key: Text,
    /// `value` of the taint; often empty.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub value: Text,
    /// [`NO_SCHEDULE`], [`NO_EXECUTE`] or `PreferNoSchedule`.
    pub effect: Text,
    /// `timeAdded` as the server sent it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_added: Option<Text>,
}

impl Taint {
    /// Whether this taint and `other` have the same key and effect, which identify a taint of a node. Values are not compared.
    pub fn matches(&self, other: &Self) -> bool {
        self.key == other.key && self.effect == other.effect
    }
}

/// An entry of a Pod's `spec.tolerations`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Toleration {
    /// Key of the tolerated taint; empty for every key.
    pub key: Text,
    /// Comparison of the values: `Equal` (also if empty), `Exists`, `Lt` or `Gt`.
    pub operator: Text,
    /// Value to compare with the taint's value.
    pub value: Text,
    /// Effect of the tolerated taint; empty for every effect.
    pub effect: Text,
    /// `tolerationSeconds`: how long a Pod tolerates a `NoExecute` taint; `None` means for ever.
    #[serde(rename = "tolerationSeconds")]
    pub toleration_seconds: Option<i64>,
}

impl Toleration {
    /// Whether this toleration tolerates `taint`. With `compares`, the operators `Lt` and `Gt` are supported (feature gate
    /// `TaintTolerationComparisonOperators`); without it, a toleration with these operators tolerates no taint.
    pub fn tolerates(&self, taint: &Taint, compares: bool) -> bool {
        let any_or = |own: &Text, of: &Text| own.is_empty() || own == of;
        if !any_or(&self.effect, &taint.effect) || !any_or(&self.key, &taint.key) {
            return false;
        }
        let numbers = || Some((taint.value.parse::<i64>().ok()?, self.value.parse::<i64>().ok()?));
        match self.operator.as_str() {
            "" | "Equal" => self.value == taint.value,
            "Exists" => true,
            "Lt" if compares => numbers().is_some_and(|(taint, own)| taint < own),
            "Gt" if compares => numbers().is_some_and(|(taint, own)| taint > own),
            _ => false,
        }
    }
}

/// The tolerations of a Pod, in order. Pods share equal lists. `Tolerations` has the size of one pointer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tolerations(Option<Arc<Box<[Toleration]>>>);

/// Recently read lists of tolerations. A new list replaces the least recently read list of its bucket. Therefore no user can
/// prevent the lists of other users from being shared, and the cost of reading a list does not grow with the number of lists.
struct RecentLists {
    buckets: Box<[Bucket]>,
    seed: SeededHashState,
}

/// Lists of one bucket, most recently read first.
type Bucket = SmallVec<[Arc<Box<[Toleration]>>; MAX_LISTS_PER_BUCKET]>;

/// Number of buckets. With [`MAX_LISTS_PER_BUCKET`], at most 1024 lists are shared.
const BUCKETS: usize = 256;
const MAX_LISTS_PER_BUCKET: usize = 4;

static SHARED: LazyLock<Mutex<RecentLists>> = LazyLock::new(Mutex::default);

impl Default for RecentLists {
    fn default() -> Self {
        Self { buckets: vec![Bucket::new(); BUCKETS].into(), seed: SeededHashState::default() }
    }
}

impl RecentLists {
    /// Returns the shared copy of a list, and marks it as most recently read in its bucket.
    fn share(&mut self, tolerations: Vec<Toleration>) -> Arc<Box<[Toleration]>> {
        let at = self.seed.hash_one(&tolerations) % BUCKETS as u64;
        let bucket = &mut self.buckets[at as usize];
        let known = bucket.iter().position(|known| ***known == *tolerations);
        let shared = match known {
            Some(at) => bucket.remove(at),
            None => Arc::new(tolerations.into()),
        };
        bucket.truncate(MAX_LISTS_PER_BUCKET - 1);
        bucket.insert(0, Arc::clone(&shared));
        shared
    }
}

impl From<Vec<Toleration>> for Tolerations {
    fn from(tolerations: Vec<Toleration>) -> Self {
        Self((!tolerations.is_empty()).then(|| SHARED.lock().share(tolerations)))
    }
}

impl std::ops::Deref for Tolerations {
    type Target = [Toleration];
    fn deref(&self) -> &[Toleration] {
        self.0.as_deref().map(|list| &**list).unwrap_or_default()
    }
}

impl<'de> Deserialize<'de> for Tolerations {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Option::<Vec<Toleration>>::deserialize(deserializer)?.unwrap_or_default().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn toleration(json: serde_json::Value) -> Toleration {
        serde_json::from_str(&json.to_string()).unwrap()
    }

    #[test]
    fn a_toleration_tolerates_taints_with_its_key_effect_and_value() {
        let taint =
            |value: &str| Taint { key: "k".into(), value: value.into(), effect: NO_EXECUTE.into(), time_added: None };
        for (json, value, tolerated) in [
            (serde_json::json!({"key": "k"}), "", true),
            (serde_json::json!({"key": "k"}), "v", false),
            (serde_json::json!({"key": "k", "value": "v"}), "v", true),
            (serde_json::json!({"key": "k", "operator": "Equal", "value": "v", "effect": "NoExecute"}), "v", true),
            (serde_json::json!({"key": "k", "operator": "Exists", "value": "w"}), "v", true),
            (serde_json::json!({"key": "k", "operator": "Exists", "effect": "NoSchedule"}), "v", false),
            (serde_json::json!({"operator": "Exists"}), "v", true),
            (serde_json::json!({"key": "j", "operator": "Exists"}), "v", false),
            (serde_json::json!({"key": "k", "operator": "Newer"}), "", false),
        ] {
            assert_eq!(toleration(json.clone()).tolerates(&taint(value), false), tolerated, "{json} {value}");
        }
        let less = toleration(serde_json::json!({"key": "k", "operator": "Lt", "value": "10"}));
        let more = toleration(serde_json::json!({"key": "k", "operator": "Gt", "value": "10"}));
        let of = |t: &Toleration, value: &str, compares| t.tolerates(&taint(value), compares);
        assert!(of(&less, "9", true) && !of(&less, "10", true) && !of(&less, "9", false) && !of(&less, "x", true));
        assert!(of(&more, "11", true) && !of(&more, "10", true));
    }

    #[test]
    fn lists_of_other_users_do_not_prevent_sharing() {
        let mut recent = RecentLists::default();
        let list = |key: &str| vec![Toleration { key: key.into(), ..Toleration::default() }];
        // A user has more lists in use than the buckets can hold.
        let mut in_use: Vec<_> = (0..3000).map(|n| recent.share(list(&format!("other-{n}")))).collect();
        for turn in 0..100 {
            let shared = recent.share(list("usual"));
            assert!(Arc::ptr_eq(&shared, &recent.share(list("usual"))), "turn {turn}");
            in_use.push(recent.share(list(&format!("further-{turn}"))));
        }
        let kept = recent.buckets.iter().map(SmallVec::len);
        assert!(kept.clone().sum::<usize>() > BUCKETS && kept.max() == Some(MAX_LISTS_PER_BUCKET));
    }

    #[test]
    fn equal_lists_are_stored_once() {
        let read = || serde_json::from_str::<Tolerations>(r#"[{"key":"once","operator":"Exists"}]"#).unwrap();
        let (a, b) = (read(), read());
        assert!(Arc::ptr_eq(a.0.as_ref().unwrap(), b.0.as_ref().unwrap()));
        assert!(serde_json::from_str::<Tolerations>("null").unwrap().is_empty());
    }
}
