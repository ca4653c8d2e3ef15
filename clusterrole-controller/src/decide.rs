//! Finds the roles that an aggregated role reaches, and turns their rules into a plan, as pure functions.

use std::sync::Arc;

use common::prelude::*;

use crate::objects::{ClusterRole, PolicyRule};

/// What one sync reads from the cache.
pub struct Snapshot {
    /// The aggregated role.
    pub role: Arc<ClusterRole>,
    /// The roles from which its rules come, as [`find_sources`] returns them.
    pub sources: Vec<Arc<ClusterRole>>,
}

/// The decision about one aggregated role.
#[derive(Debug, PartialEq, Eq)]
pub struct Plan {
    /// The union, in its order, if `rules` must be written; `None` if the role has exactly these rules.
    pub new_rules: Option<Vec<PolicyRule>>,
    /// The numbers of rules that the role and the union have, in words.
    pub situation: String,
}

impl SyncPlan for Plan {
    fn situation(&self) -> String {
        self.situation.clone()
    }
}

/// Returns the roles without an `aggregationRule` that an aggregated role selects, itself or through other aggregated roles, in the
/// order in which their rules are in the union. Each role is visited once, so roles may select each other. `select` returns the
/// roles that a selector of a role selects, sorted by name.
///
/// # Errors
/// The first error of `select`.
pub fn find_sources<E>(
    role: &Arc<ClusterRole>,
    select: impl Fn(&ClusterRole, &Selector) -> Result<Vec<Arc<ClusterRole>>, E>,
) -> Result<Vec<Arc<ClusterRole>>, E> {
    let (mut visited, mut sources) = (HashSet::default(), Vec::new());
    // The next role is at the end. An explicit stack, because a chain of roles may be longer than the stack of a thread.
    let mut to_visit = vec![Arc::clone(role)];
    while let Some(role) = to_visit.pop() {
        if !visited.insert(Arc::clone(&role.metadata.name)) {
            continue;
        }
        let Some(rule) = &role.aggregation_rule else {
            sources.push(role);
            continue;
        };
        for selector in rule.cluster_role_selectors.iter().rev() {
            let selected = select(&role, selector)?;
            to_visit.extend(selected.into_iter().rev().filter(|selected| !visited.contains(&selected.metadata.name)));
        }
    }
    Ok(sources)
}

/// Plans a write if the rules of the role differ from the union: each rule of the sources at its first place.
///
/// Upstream: `pkg/controller/clusterroleaggregation`, `syncClusterRole`. It selects only directly, and counts an aggregated role
/// with the rules that it has.
pub fn decide(Snapshot { role, sources }: &Snapshot) -> Plan {
    let mut seen = HashSet::default();
    let rules = sources.iter().flat_map(|source| &source.rules);
    let union: Vec<&PolicyRule> = rules.filter(|rule| seen.insert(*rule)).collect();
    let is_equal = role.rules.iter().eq(union.iter().copied());
    let situation = format!(
        "it has {} rules, and the union of {} ClusterRoles has {}",
        role.rules.len(),
        sources.len(),
        union.len()
    );
    Plan { new_rules: (!is_equal).then(|| union.into_iter().cloned().collect()), situation }
}

#[cfg(test)]
mod tests;
