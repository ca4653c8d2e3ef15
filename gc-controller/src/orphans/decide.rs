use super::{plan::Plan, snapshot::Snapshot};

/// Decides whether the dependents of an object are released now, wait for initial lists, or stay.
pub(super) fn decide(snapshot: &Snapshot) -> Plan {
    let view = &snapshot.view;
    if !view.being_deleted || !view.orphans || view.is_virtual {
        return Plan::Nothing;
    }
    match snapshot.unsynced.first() {
        Some(resource) => Plan::Wait(resource.clone()),
        None => Plan::Release(view.dependents),
    }
}
