//! Taints of nodes, and what Pods tolerate.

use std::{
    hash::BuildHasher as _,
    sync::{Arc, LazyLock},
};

use parking_lot::Mutex;
use serde::{Deserialize, Deserializer, Serialize};
use smallvec::SmallVec;

use crate::{intern::Text, map::Seeded};

/// Effect: what does not tolerate the taint is not scheduled there.
pub const NO_SCHEDULE: &str = "NoSchedule";
/// Effect: what does not tolerate the taint does not stay there either.
pub const NO_EXECUTE: &str = "NoExecute";

/// A taint of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Taint {
    /// Its key.
    pub key: Text,
    /// Its value; many have none.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub value: Text,
    /// What it does to Pods.
    pub effect: Text,
    /// When it was added, as it is written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_added: Option<Text>,
}

impl Taint {
    /// Whether both are the same taint, whatever their values: a node has one of a key and an effect.
    pub fn matches(&self, other: &Self) -> bool {
        self.key == other.key && self.effect == other.effect
    }
}

/// What a Pod tolerates.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Toleration {
    /// The key of the taint; every key if empty.
    pub key: Text,
    /// How values are compared.
    pub operator: Text,
    /// The value.
    pub value: Text,
    /// The effect; every effect if empty.
    pub effect: Text,
    /// For how long, where the effect is `NoExecute`; for ever if none.
    #[serde(rename = "tolerationSeconds")]
    pub seconds: Option<i64>,
}

impl Toleration {
    /// Whether it is of that taint. `compares`: operators `Lt` and `Gt` mean something (gate
    /// `TaintTolerationComparisonOperators`); otherwise such a toleration is of none.
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

/// The tolerations of a Pod, in their order. Shared: most Pods of a cluster tolerate the same. Takes one word.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tolerations(Option<Arc<Box<[Toleration]>>>);

/// Lists that were read lately. One that is not among them is kept, too, in the place of the one that has not been read for longest
/// among those of its bucket: no user can end the sharing for others, and reading a list costs the same however many there are.
struct Recent {
    buckets: Box<[Bucket]>,
    seed: Seeded,
}

/// Lists, the one that was read last in front.
type Bucket = SmallVec<[Arc<Box<[Toleration]>>; WAYS]>;

/// How many buckets there are.
const BUCKETS: usize = 256;
/// How many lists a bucket has.
const WAYS: usize = 4;

static SHARED: LazyLock<Mutex<Recent>> = LazyLock::new(Mutex::default);

impl Default for Recent {
    fn default() -> Self {
        Self { buckets: vec![Bucket::new(); BUCKETS].into(), seed: Seeded::default() }
    }
}

impl Recent {
    /// The list that is kept of those that are equal to this one.
    fn share(&mut self, list: Vec<Toleration>) -> Arc<Box<[Toleration]>> {
        let at = self.seed.hash_one(&list) % BUCKETS as u64;
        let bucket = &mut self.buckets[at as usize];
        let known = bucket.iter().position(|known| ***known == *list);
        let shared = match known {
            Some(at) => bucket.remove(at),
            None => Arc::new(list.into()),
        };
        bucket.truncate(WAYS - 1);
        bucket.insert(0, Arc::clone(&shared));
        shared
    }
}

impl From<Vec<Toleration>> for Tolerations {
    fn from(list: Vec<Toleration>) -> Self {
        Self((!list.is_empty()).then(|| SHARED.lock().share(list)))
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
    fn a_toleration_is_of_taints_with_its_key_effect_and_value() {
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
    fn lists_of_others_do_not_end_the_sharing() {
        let mut recent = Recent::default();
        let list = |key: &str| vec![Toleration { key: key.into(), ..Toleration::default() }];
        // A tenant keeps more lists in use than are shared at all.
        let mut in_use: Vec<_> = (0..3000).map(|n| recent.share(list(&format!("other-{n}")))).collect();
        for turn in 0..100 {
            let shared = recent.share(list("usual"));
            assert!(Arc::ptr_eq(&shared, &recent.share(list("usual"))), "turn {turn}");
            in_use.push(recent.share(list(&format!("further-{turn}"))));
        }
        let kept = recent.buckets.iter().map(SmallVec::len);
        assert!(kept.clone().sum::<usize>() > BUCKETS && kept.max() == Some(WAYS));
    }

    #[test]
    fn equal_lists_are_kept_once() {
        let read = || serde_json::from_str::<Tolerations>(r#"[{"key":"once","operator":"Exists"}]"#).unwrap();
        let (a, b) = (read(), read());
        assert!(Arc::ptr_eq(a.0.as_ref().unwrap(), b.0.as_ref().unwrap()));
        assert!(serde_json::from_str::<Tolerations>("null").unwrap().is_empty());
    }
}
