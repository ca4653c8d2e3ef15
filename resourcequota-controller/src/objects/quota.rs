//! ResourceQuotas.

use std::collections::{BTreeMap, BTreeSet};

use common::{
    json::null_as_default,
    prelude::*,
    quantity::{Amount, Quantity},
    store::ByNamespace,
    wire::{MessageSchema, messages},
};
use serde::{Deserialize, Deserializer, de::Error as _};

use crate::{names, usage::ScopeFacts};

/// API resource of ResourceQuotas.
pub const QUOTAS: Resource = Resource::namespaced("", "v1", "resourcequotas", "ResourceQuota");

/// Quantities by name, each as received and as a value.
pub type Limits = BTreeMap<Text, Limit>;

/// A ResourceQuota.
#[derive(Debug)]
pub struct Quota {
    /// Metadata, without labels, annotations and finalizers.
    pub metadata: Meta,
    /// `spec.hard`.
    pub hard: Limits,
    /// The scopes, all of which an object has to satisfy.
    pub conditions: Vec<Condition>,
    /// `status`.
    pub status: QuotaStatus,
    /// The kinds of the names in `spec.hard` and `status.hard`, sorted.
    pub kinds: Box<[Text]>,
    /// Whether one of these names limits an extended resource.
    pub has_extended_resources: bool,
}

/// `status` of a [`Quota`]. Admission of the API server writes it, too.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct QuotaStatus {
    /// The limits that admission enforces.
    #[serde(deserialize_with = "null_as_default")]
    pub hard: Limits,
    /// The usage.
    #[serde(deserialize_with = "null_as_default")]
    pub used: Limits,
}

/// A quantity of a quota. Equal if the values are equal.
#[derive(Clone, Debug)]
pub struct Limit {
    /// The text as received.
    pub text: Box<str>,
    /// The value.
    pub amount: Amount,
}

impl PartialEq for Limit {
    fn eq(&self, other: &Self) -> bool {
        self.amount.compare(other.amount).is_eq()
    }
}

impl<'de> Deserialize<'de> for Limit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = serde_json::Value::deserialize(deserializer)?;
        let text = text.as_str().map_or_else(|| text.to_string(), str::to_owned);
        let quantity = Quantity::parse(text.trim()).map_err(|error| D::Error::custom(format!("{text:?}: {error}")))?;
        Ok(Self { text: text.into(), amount: Amount::from(&quantity) })
    }
}

/// A scope of a quota, with the values that it selects.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Condition {
    /// The scope, for example `PriorityClass`.
    #[serde(rename = "scopeName")]
    pub scope: Text,
    /// How the values select.
    #[serde(default)]
    pub operator: Operator,
    /// The values of `In` and `NotIn`.
    #[serde(default, deserialize_with = "null_as_default")]
    pub values: Vec<Text>,
}

/// The operator of a [`Condition`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum Operator {
    /// A value is one of the listed ones.
    In,
    /// No value is one of the listed ones.
    NotIn,
    /// There is a value.
    #[default]
    Exists,
    /// There is no value.
    DoesNotExist,
    /// An operator that this version does not know, which nothing satisfies.
    #[serde(other)]
    Unknown,
}

impl Condition {
    /// Whether an object with these facts satisfies the condition.
    pub fn is_satisfied_by(&self, facts: &ScopeFacts) -> bool {
        match facts {
            ScopeFacts::NoScopes => false,
            ScopeFacts::Pod { is_terminating, is_best_effort, priority_class, has_cross_namespace_affinity } => {
                match &*self.scope {
                    "Terminating" => *is_terminating,
                    "NotTerminating" => !is_terminating,
                    "BestEffort" => *is_best_effort,
                    "NotBestEffort" => !is_best_effort,
                    "CrossNamespacePodAffinity" => *has_cross_namespace_affinity,
                    "PriorityClass" => self.accepts(Some(priority_class).filter(|class| !class.is_empty())),
                    _ => false,
                }
            }
            ScopeFacts::VolumeClaim { attributes_classes } => {
                let accepts_any = || attributes_classes.iter().any(|class| self.accepts(Some(class)));
                &*self.scope == "VolumeAttributesClass"
                    && if attributes_classes.is_empty() { self.accepts(None) } else { accepts_any() }
            }
        }
    }

    fn accepts(&self, value: Option<&Text>) -> bool {
        let is_listed = value.is_some_and(|value| self.values.contains(value));
        match self.operator {
            Operator::In => is_listed,
            Operator::NotIn => !is_listed,
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::Unknown => false,
        }
    }
}

impl Quota {
    /// Whether an object with these facts satisfies all scopes.
    pub fn counts(&self, facts: &ScopeFacts) -> bool {
        self.conditions.iter().all(|condition| condition.is_satisfied_by(facts))
    }
}

impl<'de> Deserialize<'de> for Quota {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Wire {
            metadata: Meta,
            #[serde(default, deserialize_with = "null_as_default")]
            spec: Spec,
            #[serde(default, deserialize_with = "null_as_default")]
            status: QuotaStatus,
        }
        #[derive(Default, Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        struct Spec {
            #[serde(deserialize_with = "null_as_default")]
            hard: Limits,
            #[serde(deserialize_with = "null_as_default")]
            scopes: Vec<Text>,
            #[serde(deserialize_with = "null_as_default")]
            scope_selector: ScopeSelector,
        }
        #[derive(Default, Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        struct ScopeSelector {
            #[serde(deserialize_with = "null_as_default")]
            match_expressions: Vec<Condition>,
        }
        let Wire { metadata, spec, status } = Wire::deserialize(deserializer)?;
        let plain = |scope: Text| Condition { scope, operator: Operator::Exists, values: Vec::new() };
        let mut conditions: Vec<_> = spec.scopes.into_iter().map(plain).collect();
        conditions.extend(spec.scope_selector.match_expressions);
        let names = || spec.hard.keys().chain(status.hard.keys());
        let kinds: BTreeSet<_> = names().filter_map(|name| names::kind_of(name)).collect();
        let (kinds, has_extended_resources) =
            (kinds.into_iter().collect(), names().any(|name| names::is_extended(name)));
        Ok(Self { metadata, hard: spec.hard, conditions, status, kinds, has_extended_resources })
    }
}

impl Object for Quota {
    const RESOURCE: Resource = QUOTAS;
    type Indexes = (ByNamespace,);
    const PROTOBUF_SCHEMA: Option<&'static MessageSchema> = Some(&messages::RESOURCE_QUOTA);

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn drop_unneeded_fields(&mut self) {
        self.metadata.drop_annotations_and_finalizers();
    }
}
