//! Who uses a ResourceQuota that refuses an object.

use std::collections::BTreeMap;

use common::quantity::{Amount, AmountSum};
use k8s_openapi::api::core::v1::{Pod, ResourceQuota};
use resourcequota_controller::objects::{CountedObject as _, Gates, Pod as CountedPod, Quota};
use serde::de::DeserializeOwned;

use super::scope::{Scope, name};

/// The number of owners of Pods that are named.
const NAMED_USERS: usize = 3;
/// The gates of the default.
const GATES: Gates = Gates { pod_level_resources: true, extended_resources: true };

/// Returns who uses most of the quota that a message of the API server names, such as `exceeded quota: compute, requested: pods=1,
/// used: pods=1, limited: pods=1`: the owners of Pods, with their sums under the first requested name. `None` if the quota cannot be
/// read, or if Pods do not use it.
pub(super) async fn users(scope: &Scope, message: &str) -> Option<String> {
    let (_, refusal) = message.split_once("exceeded quota: ")?;
    let (quota_name, refusal) = refusal.split_once(", requested: ")?;
    let (requested, _) = refusal.split_once('=')?;
    let quotas = scope.list::<ResourceQuota>().await;
    let quota: Quota = projection(quotas.iter().find(|quota| name(&quota.metadata) == quota_name)?)?;
    let mut users = BTreeMap::<String, AmountSum>::new();
    for pod in &*scope.list::<Pod>().await {
        let Some(usage) = projection::<CountedPod>(pod).map(|counted| counted.usage(GATES).usage) else { continue };
        // Each Pod counts here, also a finished one.
        let count = (requested == "count/pods").then_some(&Amount::ONE);
        let amount = count.or_else(|| usage.amounts.get(requested)).filter(|_| quota.counts(&usage.class.facts));
        let Some(amount) = amount else { continue };
        let owner = pod.metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true));
        let user = owner
            .map_or_else(|| format!("Pod {}", name(&pod.metadata)), |owner| format!("{} {}", owner.kind, owner.name));
        users.entry(user).or_default().add(*amount);
    }
    let mut users: Vec<(String, Amount)> = users.into_iter().map(|(user, sum)| (user, sum.amount())).collect();
    users.sort_by(|(_, a), (_, b)| b.compare(*a));
    let named: Vec<String> =
        users.iter().take(NAMED_USERS).map(|(user, amount)| format!("{user} ({amount})")).collect();
    let others = users.len().saturating_sub(NAMED_USERS);
    let others = if others == 0 { String::new() } else { format!(" and {others} others") };
    (!named.is_empty()).then(|| format!("users of {requested} under quota {quota_name}: {}{others}", named.join(", ")))
}

/// Decodes an object as its controller does.
fn projection<T: DeserializeOwned>(object: &impl serde::Serialize) -> Option<T> {
    serde_json::from_value(serde_json::to_value(object).ok()?).ok()
}
