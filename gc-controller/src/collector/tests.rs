use common::controller::{Decision, Explanation};
use jiff::Timestamp;

use crate::{
    collector::{
        Collector,
        decide::{KindState, Snapshot},
    },
    graph::OwnerState,
    world::{first_owner, node_view_of_c, synced_snapshot, test_object},
};

fn explain(snapshot: &Snapshot) -> Explanation {
    Decision::<Collector>::with_forecast(snapshot, Timestamp::UNIX_EPOCH).explain()
}

/// Returns the snapshot of an object with one owner in this state and one dependent. The object blocks the owner's deletion.
fn blocking(state: OwnerState) -> Snapshot {
    let view = node_view_of_c(&[test_object("c").blocking_owner("o"), test_object("d").blocking_owner("c")]);
    let owner = first_owner(&view, KindState::Synced, state);
    synced_snapshot(view, vec![owner])
}

/// GC-71.
#[test]
fn a_forecast_expects_that_an_owner_exists_if_it_is_looked_up() {
    let explanation = explain(&blocking(OwnerState::Unknown));
    assert_eq!(explanation.actions, [""; 0]);
    assert_eq!(explanation.situation, "1 owner may still exist; it is deleted unless a lookup finds one");
}

/// GC-21.
#[test]
fn an_object_whose_owners_do_not_exist_is_deleted() {
    let explanation = explain(&blocking(OwnerState::Absent));
    assert_eq!(explanation.actions, ["delete ConfigMap c: no owner keeps it; propagation policy Background"]);
}

/// GC-32, GC-51.
#[test]
fn an_object_whose_owner_waits_for_it_is_deleted_with_its_dependents() {
    let mut waiting = blocking(OwnerState::WaitingForDependents);
    let delete = "delete ConfigMap c: no owner keeps it; propagation policy Foreground";
    assert_eq!(explain(&waiting).actions, [delete]);
    waiting.graph_node.may_be_in_cycle = true;
    let unblock = "stop blocking the owners of ConfigMap c: it and its owners may wait for each other";
    assert_eq!(explain(&waiting).actions, [unblock, delete]);
}
