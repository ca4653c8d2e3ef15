//! What an object costs the collector depends on the size of the object, whatever its owner references say.
//!
//! A process of its own, because it limits the memory of the process: an allocation beyond the limit aborts it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that panics fails")]

use std::alloc::System;

use cap::Cap;
use common::{
    controller::Decision,
    meta::{Meta, OwnerRef, Uid},
    object::Resource,
};
use gc_controller::{
    collector::{
        Collector,
        decide::{Standing, Verdict, decide, verdict},
        plan::{Plan, Propagation},
        snapshot::{Owner, OwnerKind, Snapshot},
    },
    graph::{Graph, OwnerState, Source, Work},
};
use parking_lot::Mutex;
use proptest::prelude::*;
use sandbox::memory::limited;
use serde_json::{Value, json};

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

/// How much memory everything may take besides what the references take.
const BASE: usize = 1 << 20;
/// How many bytes a byte of references may take: in the graph, in a view of it, and in a decision.
const FACTOR: usize = 16;

const MAPS: Resource = Resource { group: "", version: "v1", plural: "configmaps", kind: "ConfigMap", namespaced: true };

/// The limit is the process's, so one test runs at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// References to owners, as anybody may write them: up to the size of the largest object that a server stores.
fn any_references() -> impl Strategy<Value = Vec<Value>> {
    let count = prop::sample::select(vec![0_usize, 1, 2, 100, 5000]);
    let uids = prop::sample::select(vec![1_usize, 3, usize::MAX]);
    let kind = prop::sample::select(vec!["ConfigMap", "configmap", "ConfigMapList", "", "n\u{e9}ant", "a/b"]);
    let length = prop::sample::select(vec![0_usize, 20, 200_000]);
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

/// What a judgement of the object sees, if all that its references name is of a kind that is known and watched.
fn snapshot(graph: &mut Graph) -> Snapshot {
    let mut view = graph.view(&Uid::new("c")).unwrap();
    let owner = |(reference, state): (OwnerRef, &OwnerState)| Owner {
        reference,
        kind: OwnerKind::Synced,
        resource: Some(MAPS),
        state: *state,
    };
    let owners = std::mem::take(&mut view.owners).into_iter().zip(&view.owner_states).map(owner).collect();
    let now = jiff::Timestamp::UNIX_EPOCH;
    Snapshot { now, view, resource: Some(MAPS), unseen: false, owners, unsynced: Vec::new() }
}

/// Lets a monitor see these states of one object, and judges each.
fn judge(graph: &mut Graph, source: Source, states: &[Meta]) -> Vec<(usize, usize)> {
    let mut costs = Vec::new();
    for state in states {
        let mut work: Vec<Work> = Vec::new();
        graph.put(source, state, &mut work);
        let snapshot = snapshot(graph);
        let plan = decide(&snapshot);
        let explanation = Decision::<Collector>::with_forecast(&snapshot, snapshot.now).explain();
        if let Plan::Verify { uncertain } = plan {
            assert!(uncertain <= state.owners.len());
        }
        let standings: Vec<(Uid, Standing)> =
            state.owners.iter().map(|owner| (owner.uid.clone(), Standing::Dangling)).collect();
        match verdict(&standings, 0, || false, Propagation::Background) {
            Verdict::Keep => assert!(standings.is_empty()),
            Verdict::Release(_) => panic!("nothing is solid"),
            Verdict::Delete { .. } => assert!(!standings.is_empty()),
        }
        costs.push((work.len(), explanation.waiting.len() + explanation.actions.len()));
    }
    costs
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn references_cost_in_proportion_to_their_size(
        references in prop::collection::vec(any_references(), 1..4), deleting in any::<bool>(),
    ) {
        let _alone = ALONE.lock();
        let mut graph = Graph::default();
        let source = graph.source("v1", "ConfigMap");
        let last = references.len() - 1;
        let states: Vec<Meta> = references.iter().enumerate()
            .map(|(n, references)| meta(n + 1, references, deleting && n == last)).collect();
        let texts: usize = references.iter().map(|list| json!(list).to_string().len()).sum();
        let costs = limited(&ALLOCATOR, BASE + FACTOR * texts, || judge(&mut graph, source, &states));
        for ((work, lines), state) in costs.iter().zip(&states) {
            prop_assert!(*work <= 2 * state.owners.len() + 2, "{work} keys for {} references", state.owners.len());
            prop_assert!(*lines <= 8, "{lines} lines of explanation");
        }
        let left = limited(&ALLOCATOR, BASE + FACTOR * texts, || {
            let mut work = Vec::new();
            graph.gone(source, &states[last], &mut work);
            work.len()
        });
        prop_assert!(left <= 2 * states[last].owners.len() + 2, "{left} keys for an object that is gone");
        prop_assert!(graph.view(&Uid::new("c")).is_none());
    }
}

#[test]
fn a_changed_object_leaves_nothing_of_its_earlier_references() {
    let _alone = ALONE.lock();
    let mut graph = Graph::default();
    let source = graph.source("v1", "ConfigMap");
    let references = |from: usize| -> Vec<Value> {
        let one = |n: usize| {
            json!({"apiVersion": format!("v{n}"), "kind": format!("Kind{n}"), "name": format!("owner-{n}"),
                "uid": format!("2ff731ae-b0d1-491c-a286-{n:012x}")})
        };
        (from..from + 2000).map(one).collect()
    };
    let mut see = |version: usize, from: usize| {
        graph.put(source, &meta(version, &references(from), false), &mut Vec::new());
    };
    see(1, 0);
    let before = ALLOCATOR.allocated();
    for version in 2..30 {
        see(version, version * 2000);
    }
    let grown = ALLOCATOR.allocated().saturating_sub(before);
    // The objects that nobody refers to any more are still to be looked for, which the collector does one by one.
    let each = grown / (28 * 2000);
    assert!(each <= 400, "{each} bytes for each reference that is no more");
}
