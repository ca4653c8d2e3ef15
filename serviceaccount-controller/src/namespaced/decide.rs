//! Decides what the object of a namespace needs, as a pure function.

use std::sync::Arc;

use common::{ca_bundle::Bundle, prelude::*};
use serde_json::Value;

use super::KeptObject;

/// What one sync reads.
#[derive(Clone, Debug)]
pub struct Snapshot<K> {
    /// Namespace and name of the object.
    pub key: NamespacedName,
    /// Whether the phase of the Namespace is `Active`.
    pub is_namespace_active: bool,
    /// The object, even if it is terminating; `None` if it does not exist.
    pub object: Option<Arc<K>>,
    /// The bundle to publish; `None` if there has been no usable one. Empty for objects that do not have it.
    pub bundle: Option<Arc<Bundle>>,
}

/// What one sync does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// Nothing, for this reason.
    Keep(&'static str),
    /// The object is created.
    Create,
    /// The fault of the object is corrected by this patch.
    Repair(&'static str, Value),
}

/// Why a loop without a bundle does nothing.
pub(crate) const AWAITS_BUNDLE: &str = "there is no usable bundle yet; /readyz says why";

impl SyncPlan for Plan {
    fn situation(&self) -> String {
        match self {
            Self::Create => "the object is missing".to_owned(),
            Self::Keep(reason) | Self::Repair(reason, _) => (*reason).to_owned(),
        }
    }

    fn wait_reasons(&self) -> Vec<String> {
        let waits = *self == Self::Keep(AWAITS_BUNDLE);
        waits.then(|| AWAITS_BUNDLE.to_owned()).into_iter().collect()
    }
}

/// Plans the creation or the repair of the object.
///
/// Upstream: `syncNamespace` of both loops.
pub fn decide<K: KeptObject>(Snapshot { is_namespace_active, object, bundle, .. }: &Snapshot<K>) -> Plan {
    match (bundle, object) {
        _ if !is_namespace_active => Plan::Keep("the namespace is not active"),
        (None, _) => Plan::Keep(AWAITS_BUNDLE),
        (Some(_), None) => Plan::Create,
        (Some(bundle), Some(object)) => match object.repair(bundle) {
            None => Plan::Keep("the object is right"),
            Some((fault, patch)) => Plan::Repair(fault, patch),
        },
    }
}

#[cfg(test)]
mod tests;
