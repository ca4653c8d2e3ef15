//! Computes the status of a quota from the sums of the kinds that it limits, as a pure function.

use std::{collections::BTreeMap, sync::Arc};

use common::{
    prelude::*,
    quantity::{Amount, AmountSum},
};
use jiff::Timestamp;

use crate::{
    extended::ExtendedUsage,
    names::{counts_objects, is_extended, kind_of, limited_extended_resource},
    objects::{DEVICE_CLASSES, Limit, Limits, Quota, RESOURCE_CLAIMS},
    usage::{ScopeFacts, UsageSums},
};

/// What one sync reads from the caches.
pub struct Snapshot {
    /// The quota, not older than the last write of this process.
    pub quota: Arc<Quota>,
    /// The state of each kind of the quota.
    pub kinds: BTreeMap<Text, KindState>,
    /// What ResourceClaims use of extended resources; nothing if no name concerns it.
    pub extended: ExtendedUsage,
    /// The time of the sync.
    pub now: Timestamp,
}

/// What is known of the objects of one kind in the namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KindState {
    /// The server does not serve the kind, or the kind cannot be counted.
    Unserved,
    /// The objects cannot be counted, for this reason.
    Failed(String),
    /// The sums over all objects.
    Counted(UsageSums),
}

/// The decision about a quota.
#[derive(Debug)]
pub struct Plan {
    /// The new `status.used`.
    pub used: Limits,
    /// Whether the status has to be written.
    pub is_write_needed: bool,
    /// Whether the write lowers a usage, or has the first one of a name.
    pub is_recount_needed: bool,
    /// The reasons why names keep an old value, because their kind cannot be counted.
    pub failures: Vec<String>,
    /// The names that no kind has, or whose kind is not served.
    unserved: Vec<Text>,
    situation: String,
}

impl SyncPlan for Plan {
    fn situation(&self) -> String {
        self.situation.clone()
    }

    fn wait_reasons(&self) -> Vec<String> {
        let unserved =
            self.unserved.iter().map(|name| format!("{name} is not counted, because the server serves no such kind"));
        self.failures.iter().cloned().chain(unserved).collect()
    }
}

/// The usage under one name.
enum NameUsage {
    Counted(Amount),
    /// An error for each kind that cannot be counted.
    Failed(String),
    /// No kind has the name, or its kind is not served.
    Unserved,
}

/// Computes the new status of the quota.
pub fn decide(snapshot: &Snapshot) -> Plan {
    let Quota { hard, status, .. } = &*snapshot.quota;
    let (mut used, mut failures, mut unserved, mut parts) = (Limits::new(), Vec::new(), Vec::new(), Vec::new());
    let mut is_recount_needed = false;
    for (name, limit) in hard {
        let before = status.used.get(name);
        let new = match snapshot.usage_under(name) {
            NameUsage::Counted(amount) => Some(Limit { text: amount.to_string().into(), amount }),
            NameUsage::Failed(error) => {
                if !failures.contains(&error) {
                    failures.push(error);
                }
                before.cloned()
            }
            NameUsage::Unserved => {
                unserved.push(name.clone());
                before.cloned()
            }
        };
        let text = |limit: Option<&Limit>| limit.map_or_else(|| "unknown".to_owned(), |limit| limit.text.to_string());
        parts.push(format!("{name}: {} of {}, and the status says {}", text(new.as_ref()), limit.text, text(before)));
        is_recount_needed |=
            new.as_ref().is_some_and(|new| before.is_none_or(|before| new.amount.compare(before.amount).is_lt()));
        used.extend(new.map(|new| (name.clone(), new)));
    }
    let is_write_needed = *hard != status.hard || used != status.used;
    Plan { used, is_write_needed, is_recount_needed, failures, unserved, situation: parts.join("; ") }
}

impl Snapshot {
    /// Returns the usage under a hard name: that of its kind, and for an extended resource also that of ResourceClaims.
    fn usage_under(&self, name: &Text) -> NameUsage {
        let mut total = AmountSum::default();
        match kind_of(name).and_then(|kind| self.kinds.get(&kind)) {
            None | Some(KindState::Unserved) => return NameUsage::Unserved,
            Some(KindState::Failed(error)) => return NameUsage::Failed(error.clone()),
            Some(KindState::Counted(sums)) => {
                let is_counted = |facts: &ScopeFacts| self.quota.counts(facts);
                if counts_objects(name) {
                    total.add(Amount::whole(sums.objects(is_counted).into()));
                } else {
                    sums.add_usage_to(&mut total, name, self.now, is_counted);
                }
            }
        }
        if is_extended(name) {
            for kind in [RESOURCE_CLAIMS, DEVICE_CLASSES] {
                if let Some(KindState::Failed(error)) = self.kinds.get(&*kind.to_string()) {
                    return NameUsage::Failed(error.clone());
                }
            }
            if self.counts_claims() {
                self.extended.add_to(&mut total, name, self.now);
            }
        }
        NameUsage::Counted(total.amount())
    }

    /// Whether the quota counts ResourceClaims, because one of its names concerns them. Their whole usage then counts. Claims
    /// satisfy no scope.
    fn counts_claims(&self) -> bool {
        let claims = RESOURCE_CLAIMS.to_string();
        let concerns_claims = |name: &Text| {
            kind_of(name).is_some_and(|kind| *kind == *claims)
                || limited_extended_resource(name).is_some_and(|resource| self.extended.has_resource(resource))
        };
        self.quota.conditions.is_empty() && self.quota.hard.keys().any(concerns_claims)
    }
}

#[cfg(test)]
mod tests;
