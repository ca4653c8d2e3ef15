//! What is forecast for an object.

use common::{
    controller::{Explanation, Sequenced as _},
    meta::{Meta, Uid},
    object::Resource,
};
use jiff::Timestamp;
use serde_json::json;

use crate::{
    collector::Collector,
    decide::{Owner, OwnerKind, Situation},
    graph::{Graph, OwnerState},
};

const MAPS: Resource = Resource { group: "", version: "v1", plural: "configmaps", kind: "ConfigMap", namespaced: true };

fn explain(situation: &Situation) -> Explanation {
    Collector::explain(situation, situation.now)
}

/// An object with one owner, which it blocks, and one dependent.
fn situation(state: OwnerState) -> Situation {
    let mut graph = Graph::new();
    let source = graph.source("v1", "ConfigMap");
    for (name, owner) in [("c", "o"), ("d", "c")] {
        let owner =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "name": owner, "uid": owner, "blockOwnerDeletion": true});
        let meta =
            json!({"name": name, "namespace": "ns", "uid": name, "resourceVersion": "7", "ownerReferences": [owner]});
        let meta: Meta = serde_json::from_value(meta).unwrap();
        graph.put(source, &meta, &mut Vec::new());
    }
    let mut view = graph.view(&Uid::new("c")).unwrap();
    let reference = view.owners.remove(0);
    let owners = vec![Owner { reference, kind: OwnerKind::Synced, resource: Some(MAPS), state }];
    let now = Timestamp::UNIX_EPOCH;
    Situation { now, view, resource: Some(MAPS), unseen: false, owners, unsynced: Vec::new() }
}

#[test]
fn an_owner_that_is_looked_up_is_expected_to_exist() {
    let explanation = explain(&situation(OwnerState::Unknown));
    assert_eq!(explanation.actions, [""; 0]);
    assert_eq!(explanation.situation, "1 owner not known to be gone; it is deleted unless one is found");
}

#[test]
fn an_object_whose_owners_are_gone_is_deleted() {
    let explanation = explain(&situation(OwnerState::Absent));
    assert_eq!(explanation.actions, ["delete ConfigMap c: no owner keeps it; propagation policy Background"]);
}

#[test]
fn an_object_whose_owner_waits_for_it_is_deleted_with_its_dependents() {
    let mut waiting = situation(OwnerState::Waiting);
    let delete = "delete ConfigMap c: no owner keeps it; propagation policy Foreground";
    assert_eq!(explain(&waiting).actions, [delete]);
    waiting.view.in_cycle = true;
    let unblock = "stop blocking the owners of ConfigMap c: it and its owners may wait for each other";
    assert_eq!(explain(&waiting).actions, [unblock, delete]);
}
