//! Taints of nodes, and what Pods tolerate.

use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;
use serde::{Deserialize, Deserializer, Serialize};

use crate::{intern::Text, map::HashSet};

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
        match self.operator.as_str() {
            "" | "Equal" => self.value == taint.value,
            "Exists" => true,
            operator @ ("Lt" | "Gt") if compares => match (taint.value.parse::<i64>(), self.value.parse::<i64>()) {
                (Ok(taint), Ok(own)) => {
                    if operator == "Lt" {
                        taint < own
                    } else {
                        taint > own
                    }
                }
                _ => false,
            },
            _ => false,
        }
    }
}

/// The tolerations of a Pod, in their order. Shared: most Pods of a cluster tolerate the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tolerations(Option<Arc<[Toleration]>>);

/// Lists that are in use, or were lately.
static SHARED: LazyLock<Mutex<HashSet<Arc<[Toleration]>>>> = LazyLock::new(Mutex::default);
/// How many are kept before those that nobody uses any more are dropped.
const KEPT: usize = 1024;

impl From<Vec<Toleration>> for Tolerations {
    fn from(list: Vec<Toleration>) -> Self {
        if list.is_empty() {
            return Self(None);
        }
        let mut shared = SHARED.lock();
        if let Some(known) = shared.get(&list[..]) {
            return Self(Some(Arc::clone(known)));
        }
        if shared.len() >= KEPT {
            shared.retain(|known| Arc::strong_count(known) > 1);
        }
        let made: Arc<[Toleration]> = list.into();
        if shared.len() < KEPT {
            shared.insert(Arc::clone(&made));
        }
        Self(Some(made))
    }
}

impl std::ops::Deref for Tolerations {
    type Target = [Toleration];
    fn deref(&self) -> &[Toleration] {
        self.0.as_deref().unwrap_or_default()
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
    fn equal_lists_are_kept_once() {
        let read = || serde_json::from_str::<Tolerations>(r#"[{"key":"once","operator":"Exists"}]"#).unwrap();
        let (a, b) = (read(), read());
        assert!(Arc::ptr_eq(a.0.as_ref().unwrap(), b.0.as_ref().unwrap()));
        assert!(serde_json::from_str::<Tolerations>("null").unwrap().is_empty());
    }
}
