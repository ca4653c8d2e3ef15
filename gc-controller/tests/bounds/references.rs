//! The cost of an object depends on its size only, not on the content of its owner references.
//!
//! These tests run in their own process, because they limit its memory. An allocation beyond the limit aborts the process.

use common::{
    controller::Decision,
    meta::{Meta, OwnerRef, Uid},
    object::Resource,
};
use gc_controller::{
    collector::{
        Collector,
        decide::{
            CollectionDecision, KindState, OwnerLookupResult, OwnerWithState, Plan, PropagationPolicy, Snapshot,
            decide, decide_by_owners,
        },
    },
    graph::{Graph, MonitorId, OwnerState, Work},
};
use proptest::prelude::*;
use serde_json::{Value, json};
use testkit::bounds::any_of;

use crate::METER;

/// Bytes that may be allocated in addition to the bytes for references.
const BASE: usize = 1 << 20;
/// Bytes that may be allocated for each byte of references: for the graph, a view and a decision together.
const FACTOR: usize = 16;

const MAPS: Resource = Resource::namespaced("", "v1", "configmaps", "ConfigMap");

/// Generates references as an attacker may write them, up to the size of the largest object that a server stores.
fn any_references() -> impl Strategy<Value = Vec<Value>> {
    let (count, uids) = (any_of(&[0_usize, 1, 2, 100, 5000]), any_of(&[1_usize, 3, usize::MAX]));
    let kind = any_of(&["ConfigMap", "configmap", "ConfigMapList", "", "n\u{e9}ant", "a/b"]);
    let length = any_of(&[0_usize, 20, 200_000]);
    (count, uids, kind, length, any::<[bool; 2]>()).prop_map(|(count, uids, kind, length, [blocks, numbered])| {
        let name = |number: usize| {
            let long = if number == 0 { "x".repeat(length) } else { String::new() };
            format!("{long}owner-{}", if numbered { number } else { 0 })
        };
        let one = |number: usize| {
            json!({"apiVersion": "v1", "kind": kind, "name": name(number), "blockOwnerDeletion": blocks,
                "uid": format!("2ff731ae-b0d1-491c-a286-{:012x}", number % uids)})
        };
        (0..count).map(one).collect()
    })
}

fn meta(version: usize, references: &[Value], deleting: bool) -> Meta {
    let mut meta = json!({"name": "c", "namespace": "shop", "uid": "c", "resourceVersion": version.to_string(),
        "ownerReferences": references});
    if deleting {
        meta["deletionTimestamp"] = json!("2026-11-21T09:00:00Z");
        meta["finalizers"] = json!(["foregroundDeletion"]);
    }
    serde_json::from_str(&meta.to_string()).unwrap()
}

/// Returns the snapshot of object `c`. The kinds of all owners are assumed to be served and synced.
fn snapshot(graph: &mut Graph) -> Snapshot {
    let mut view = graph.node_view(&Uid::new("c")).unwrap();
    let owner = |(reference, state): (OwnerRef, &OwnerState)| OwnerWithState {
        reference,
        kind_state: KindState::Synced,
        resource: Some(MAPS),
        state_in_graph: *state,
    };
    let owners = std::mem::take(&mut view.owner_references).into_iter().zip(&view.owner_states).map(owner).collect();
    Snapshot { graph_node: view, resource: Some(MAPS), is_kind_unsynced: false, owners, unsynced_resources: Vec::new() }
}

/// Applies these states of one object in order, and decides after each. Returns for each state the number of enqueued keys and
/// the number of lines in the explanation.
fn judge(graph: &mut Graph, source: MonitorId, states: &[Meta]) -> Vec<(usize, usize)> {
    let mut costs = Vec::new();
    for state in states {
        let mut work: Vec<Work> = Vec::new();
        graph.apply_object(source, state, &mut work);
        let snapshot = snapshot(graph);
        let plan = decide(&snapshot);
        let explanation = Decision::<Collector>::with_forecast(&snapshot, jiff::Timestamp::UNIX_EPOCH).explain();
        if let Plan::LookUpOwners { uncertain_owner_count: uncertain } = plan {
            assert!(uncertain <= state.owners.len());
        }
        let standings: Vec<(Uid, OwnerLookupResult)> =
            state.owners.iter().map(|owner| (owner.uid.clone(), OwnerLookupResult::Dangling)).collect();
        match decide_by_owners(&standings, 0, || false, PropagationPolicy::Background) {
            CollectionDecision::Keep => assert!(standings.is_empty()),
            CollectionDecision::Release(_) => panic!("no owner is solid"),
            CollectionDecision::Delete { .. } => assert!(!standings.is_empty()),
        }
        costs.push((work.len(), explanation.waiting.len() + explanation.actions.len()));
    }
    costs
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    fn any_the_cost_of_references_is_proportional_to_their_size(
        references in prop::collection::vec(any_references(), 1..4), deleting in any::<bool>(),
    ) {
        let mut graph = Graph::default();
        let source = graph.add_monitor("v1", "ConfigMap");
        let last = references.len() - 1;
        let states: Vec<Meta> = references.iter().enumerate()
            .map(|(n, references)| meta(n + 1, references, deleting && n == last)).collect();
        let texts: usize = references.iter().map(|list| json!(list).to_string().len()).sum();
        let costs = METER.limited(BASE + FACTOR * texts, || judge(&mut graph, source, &states));
        for ((work, lines), state) in costs.iter().zip(&states) {
            prop_assert!(*work <= 2 * state.owners.len() + 2, "{work} keys for {} references", state.owners.len());
            prop_assert!(*lines <= 8, "{lines} lines of explanation");
        }
        let left = METER.limited(BASE + FACTOR * texts, || {
            let mut work = Vec::new();
            graph.apply_deletion(source, &states[last], &mut work);
            work.len()
        });
        prop_assert!(left <= 2 * states[last].owners.len() + 2, "{left} keys for a deleted object");
        prop_assert!(graph.node_view(&Uid::new("c")).is_none());
    }
}

/// GC-75.
#[test]
fn the_cost_of_references_is_proportional_to_their_size() {
    // Generated values take memory, too.
    let _alone = METER.alone();
    any_the_cost_of_references_is_proportional_to_their_size();
}

/// GC-75.
#[test]
fn a_changed_object_keeps_little_of_its_earlier_references() {
    let _alone = METER.alone();
    let mut graph = Graph::default();
    let source = graph.add_monitor("v1", "ConfigMap");
    let references = |from: usize| -> Vec<Value> {
        let one = |n: usize| {
            json!({"apiVersion": format!("v{n}"), "kind": format!("Kind{n}"), "name": format!("owner-{n}"),
                "uid": format!("2ff731ae-b0d1-491c-a286-{n:012x}")})
        };
        (from..from + 2000).map(one).collect()
    };
    let mut see = |version: usize, from: usize| {
        graph.apply_object(source, &meta(version, &references(from), false), &mut Vec::new());
    };
    see(1, 0);
    let ((), grown) = METER.held(|| (2..30).for_each(|version| see(version, version * 2000)));
    // Virtual nodes of former owners remain until the collector has looked them up one by one.
    let each = grown / (28 * 2000);
    assert!(each <= 400, "{each} bytes for each removed reference");
}
