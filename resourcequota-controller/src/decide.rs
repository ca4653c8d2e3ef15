//! Computes the status of a quota from the sums of the kinds that it limits, as a pure function.

use std::{collections::BTreeMap, sync::Arc};

use common::{
    prelude::*,
    quantity::{Amount, AmountSum},
};
use jiff::Timestamp;

use crate::{
    extended::{ClaimUsage, ExtendedResources, add_usage_of_claims, is_resource_of_class},
    names::{counts_objects, kind_of, limited_extended_resource},
    objects::{Limit, Limits, Quota, RESOURCE_CLAIMS},
    usage::{ScopeFacts, UsageSums},
};

/// What one sync reads from the caches.
pub struct Snapshot {
    /// The quota, not older than the last write of this process.
    pub quota: Arc<Quota>,
    /// The state of each kind that [`kind_of`] a hard name returns.
    pub kinds: BTreeMap<Text, KindState>,
    /// What ResourceClaims use of extended resources, or why it is unknown; `None` if no name concerns it.
    pub extended: Option<Result<ExtendedUsage, String>>,
    /// The time of the sync.
    pub now: Timestamp,
}

/// What is known of the objects of one kind in the namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KindState {
    /// The server does not serve the kind, or the kind cannot be counted.
    Unserved,
    /// Neither the sums nor a failure is known yet; says what has to end first.
    Awaited(String),
    /// The objects cannot be counted, for this reason.
    Failed(String),
    /// The sums over all objects.
    Counted(UsageSums),
}

impl KindState {
    /// Returns why the kind is not counted.
    pub fn error(self) -> String {
        match self {
            Self::Failed(error) => error,
            Self::Awaited(why) => format!("waits for {why}"),
            Self::Unserved | Self::Counted(_) => String::new(),
        }
    }
}

/// The ResourceClaims of the namespace, and the extended resources of all DeviceClasses.
#[derive(Debug, Default)]
pub struct ExtendedUsage {
    /// The extended resources.
    pub resources: ExtendedResources,
    /// All claims of the namespace, each with its Pod.
    pub claims: Vec<ClaimUsage>,
}

/// The decision about a quota.
#[derive(Debug)]
pub struct Plan {
    /// The new `status.used`.
    pub used: Limits,
    /// Whether the status has to be written.
    pub is_write_needed: bool,
    /// Whether the write lowers a usage.
    pub is_lowering: bool,
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
    let mut is_lowering = false;
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
        is_lowering |= before.zip(new.as_ref()).is_some_and(|(before, new)| new.amount.compare(before.amount).is_lt());
        used.extend(new.map(|new| (name.clone(), new)));
    }
    let is_write_needed = *hard != status.hard || used != status.used;
    Plan { used, is_write_needed, is_lowering, failures, unserved, situation: parts.join("; ") }
}

impl Snapshot {
    /// Returns the usage under a hard name: that of its kind, and for an extended resource also that of ResourceClaims.
    fn usage_under(&self, name: &Text) -> NameUsage {
        let kind = kind_of(name);
        let state = kind.as_ref().and_then(|kind| self.kinds.get(kind)).unwrap_or(&KindState::Unserved);
        let mut total = AmountSum::default();
        match state {
            KindState::Unserved => return NameUsage::Unserved,
            KindState::Failed(_) | KindState::Awaited(_) => return NameUsage::Failed(state.clone().error()),
            KindState::Counted(sums) => {
                let is_counted = |facts: &ScopeFacts| self.quota.counts(facts);
                if counts_objects(name) {
                    total.add(Amount::whole(sums.objects(is_counted).into()));
                } else {
                    sums.add_usage_to(&mut total, name, self.now, is_counted);
                }
            }
        }
        if limited_extended_resource(name).is_some() && kind.is_some_and(|kind| kind == "pods") {
            match &self.extended {
                Some(Ok(extended)) if self.counts_claims(extended) => {
                    add_usage_of_claims(&mut total, name, &extended.claims, &extended.resources, self.now);
                }
                Some(Err(error)) => return NameUsage::Failed(error.clone()),
                Some(Ok(_)) | None => {}
            }
        }
        NameUsage::Counted(total.amount())
    }

    /// Whether the quota counts ResourceClaims, because one of its names concerns them. Their whole usage then counts. Claims
    /// satisfy no scope.
    fn counts_claims(&self, ExtendedUsage { resources, .. }: &ExtendedUsage) -> bool {
        let claims = RESOURCE_CLAIMS.to_string();
        let concerns_claims = |name: &Text| {
            kind_of(name).is_some_and(|kind| *kind == *claims)
                || limited_extended_resource(name).is_some_and(|resource| is_resource_of_class(resources, resource))
        };
        self.quota.conditions.is_empty() && self.quota.hard.keys().any(concerns_claims)
    }
}

#[cfg(test)]
mod tests;
