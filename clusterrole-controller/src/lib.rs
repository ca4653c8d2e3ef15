//! The ClusterRole aggregation controller: fills the rules of each ClusterRole that has an `aggregationRule`.
//!
//! "Role" means ClusterRole in this crate. An aggregated role is one with an `aggregationRule`.
//!
//! # What it promises
//!
//! If the roles stay as they are, the `rules` of each aggregated role become the union of the rules that it selects, and stay
//! that. No other role is ever written, and none is created. A write replaces `rules` alone, and only if the role is still the
//! object and the version that was judged.
//!
//! # How it is laid out
//!
//! ```text
//! each event of a role ──► the keys of all aggregated roles ──► observe ──► Snapshot ──► decide.rs ──► Plan ──► act ──► API server
//!                                                                  │                      (pure)
//!                                                                  └─ which roles does it reach? ─┘
//! ```
//!
//! # Where it differs from upstream
//!
//! - An aggregated role that is selected counts with its own union, not with the rules that it has. Rules that nothing grants any
//!   more therefore disappear from roles that select each other, and a chain of roles needs one write for each role.
//! - A write names the UID and the version of the role.
//! - An empty union is written as an empty list, so that rules of another writer do not stay.

pub mod decide;
pub mod objects;

mod act;
#[cfg(test)]
mod world;

use std::sync::Arc;

use common::{app::ProgramDefinition, prelude::*, settings::EXPECTATIONS_TIMEOUT, store::ByNamespace};
use jiff::Timestamp;

use crate::{
    decide::{Plan, Snapshot},
    objects::{Aggregated, CLUSTER_ROLES, ClusterRole, cluster_scope},
};

/// Number of roles that are synced concurrently, which upstream fixes, too.
const WORKERS: usize = 5;

/// The loop that fills aggregated roles. It records no Events.
pub const CLUSTER_ROLE_AGGREGATION: LoopDefinition =
    LoopDefinition::new("clusterrole-aggregation-controller", "clusterrole-aggregation", start)
        .with_user_agent_and_component("clusterrole-aggregation-controller", "");
/// The loops that this crate runs.
pub const LOOPS: &[LoopDefinition] = &[CLUSTER_ROLE_AGGREGATION];

/// Name, flags and loops of the binary.
pub const DEFINITION: ProgramDefinition = ProgramDefinition {
    name: "clusterrole-controller",
    version: env!("CARGO_PKG_VERSION"),
    about: "Fills the rules of ClusterRoles that select other ClusterRoles, such as admin, edit and view.",
    loops: LOOPS,
    workers_flags: &[],
    feature_gates: &[],
    tunables: &[EXPECTATIONS_TIMEOUT],
    single_value_flags: &[],
};

/// The cache of the loop that fills aggregated roles.
pub struct ClusterRoleController {
    roles: Arc<Store<ClusterRole>>,
    ledger: Ledger,
}

fn start(context: LoopContext) -> Arc<dyn RunningLoop> {
    let queue = context.new_queue("ClusterRoleAggregator");
    let controller = Arc::new(ClusterRoleController { roles: Arc::default(), ledger: context.ledger() });
    let (watching, keys) = (Arc::clone(&controller), queue.clone());
    let handler = Box::new(move |event: &_, origin| watching.enqueue_aggregated_roles(event, origin, &keys));
    context.start_informer(Arc::clone(&controller.roles), handler);
    Loop::start(CLUSTER_ROLE_AGGREGATION.name, context, controller, queue, WORKERS)
}

impl ClusterRoleController {
    /// Enqueues all aggregated roles, because each of them may select the role of the event. A role that cannot be decoded may be
    /// aggregated, and is enqueued so that its error is reported.
    fn enqueue_aggregated_roles(
        &self,
        event: &CacheEvent<ClusterRole>,
        origin: ChangeOrigin,
        queue: &Queue<NamespacedName>,
    ) {
        match event {
            CacheEvent::Deleted(role) => self.ledger.forget_owner(&role.metadata.uid),
            CacheEvent::Unreadable(role) => queue.add(role.meta.key(), origin),
            CacheEvent::Added(_) | CacheEvent::Updated { .. } => {}
        }
        for role in self.roles.list_decoded_by_index(Aggregated, &cluster_scope()) {
            queue.add(role.metadata.key(), origin);
        }
    }

    /// Returns the roles that a selector of `role` selects, sorted by name.
    fn select(&self, role: &ClusterRole, selector: &Selector) -> Result<Vec<Arc<ClusterRole>>, SyncError> {
        selector.validate().map_err(|error| {
            let text = format!("ClusterRole {}: aggregationRule.clusterRoleSelectors: {error}", role.metadata.name);
            SyncError::new(SyncErrorClass::Malformed, text)
        })?;
        let is_selected = |meta: &Meta| selector.matches(&meta.labels);
        Ok(self.roles.list_by_index_and_metadata(ByNamespace, &cluster_scope(), is_selected)?)
    }
}

impl Controller for ClusterRoleController {
    type Key = NamespacedName;
    type Snapshot = Snapshot;
    type Plan = Plan;

    fn observe(&self, key: &NamespacedName, _: Timestamp) -> Result<Snapshot, NoSnapshot> {
        let (role, _) = self.ledger.read(&self.roles, key, WaitPolicy::AllWrites, |_| HashSet::default())?;
        if role.aggregation_rule.is_none() {
            return Err(NoSnapshot::Gone);
        }
        let sources = decide::find_sources(&role, |role, selector| self.select(role, selector))?;
        Ok(Snapshot { role, sources })
    }

    fn decide(snapshot: &Snapshot) -> Plan {
        decide::decide(snapshot)
    }

    async fn act(snapshot: &Snapshot, plan: &Plan, io: Io<'_, Self>) -> Result<Requeue, SyncError> {
        match &plan.new_rules {
            Some(rules) => act::write_rules(&snapshot.role.metadata, rules, plan.situation.clone(), io).await,
            None => Ok(Requeue::AfterPlannedDelay),
        }
    }

    fn object(snapshot: &Snapshot) -> InvolvedObject {
        InvolvedObject::new(CLUSTER_ROLES, &snapshot.role.metadata)
    }

    /// Drops the ledger record of a role that was deleted during the sync, because no later event would drop the record.
    fn after_sync(&self, snapshot: &Snapshot) {
        let role = &snapshot.role.metadata;
        if !self.roles.contains_object(role) {
            self.ledger.forget_owner(&role.uid);
        }
    }
}
