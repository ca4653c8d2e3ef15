use super::{plan::Plan, snapshot::Snapshot};

/// Decides whether the dependents of an object are released now, after all initial lists are complete, or not at all.
pub(super) fn decide(snapshot: &Snapshot) -> Plan {
    let view = &snapshot.graph_node;
    if !view.is_being_deleted || !view.has_orphan_finalizer || view.is_virtual {
        return Plan::Nothing;
    }
    match snapshot.unsynced_resources.first() {
        Some(resource) => Plan::Wait(resource.clone()),
        None => Plan::Release(view.dependent_count),
    }
}
