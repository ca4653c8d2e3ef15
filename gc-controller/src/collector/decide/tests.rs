use common::{
    meta::{ResourceVersion, Uid},
    object::Resource,
};

use super::*;
use crate::{
    graph::Kind,
    world::{self, CONFIG_MAPS, test_object},
};

use KindState::{Synced, Unknown, Unsynced, Unwatched};
use OwnerLookupResult::{Dangling, Solid, WaitingForDependents};

const NODES: Resource = Resource::cluster_scoped("", "v1", "nodes", "Node");

fn of(kind: &str) -> Kind {
    Kind { api_version: "v1".into(), kind: kind.into() }
}

fn owner(kind: KindState, absent: bool) -> OwnerWithState {
    let state = if absent { OwnerState::Absent } else { OwnerState::Unknown };
    world::first_owner(&world::node_view_of_c(&[test_object("c").owner("o")]), kind, state)
}

fn snapshot(owners: Vec<OwnerWithState>) -> Snapshot {
    world::synced_snapshot(world::node_view_of_c(&[test_object("c").owner("o")]), owners)
}

fn delete(propagation: PropagationPolicy) -> Plan {
    Plan::Delete { propagation, owner_count: 1 }
}

/// GC-21, GC-23.
#[test]
fn an_object_is_deleted_unread_only_if_every_owner_is_known_not_to_exist() {
    let gone = || owner(Synced, true);
    assert_eq!(decide(&snapshot(vec![gone()])), delete(PropagationPolicy::Background));
    assert_eq!(decide(&snapshot(vec![owner(Synced, false)])), Plan::LookUpOwners { uncertain_owner_count: 1 });
    assert_eq!(
        decide(&snapshot(vec![gone(), owner(Unwatched, false)])),
        Plan::LookUpOwners { uncertain_owner_count: 1 }
    );
    let mut unseen = snapshot(vec![gone()]);
    unseen.graph_node.version = ResourceVersion::UNKNOWN;
    assert_eq!(decide(&unseen), Plan::LookUpOwners { uncertain_owner_count: 0 });
}

/// GC-30, GC-31.
#[test]
fn an_object_with_an_unresolved_owner_is_parked_and_never_deleted() {
    for kind in [Unknown, Unsynced] {
        let plan = decide(&snapshot(vec![owner(Synced, true), owner(kind, false)]));
        let awaited =
            if kind == Unknown { WaitCondition::KindServed } else { WaitCondition::KindListed }(of("ConfigMap"));
        assert!(matches!(&plan, Plan::Wait(found, _) if *found == awaited), "{kind:?}: {plan:?}");
        // If the owner is known not to exist, the state of its kind does not matter.
        assert!(matches!(decide(&snapshot(vec![owner(kind, true)])), Plan::Delete { .. }));
    }
    let mut unserved = snapshot(vec![owner(Synced, true)]);
    unserved.resource = None;
    assert_eq!(
        decide(&unserved),
        Plan::Wait(WaitCondition::KindServed(of("ConfigMap")), "kind ConfigMap of v1 is not served".into())
    );
}

/// GC-40.
#[test]
fn a_cluster_scoped_object_is_not_collected_for_a_namespaced_owner() {
    let mut global = snapshot(vec![owner(Synced, false)]);
    global.graph_node.identity.namespace = "".into();
    global.resource = Some(NODES);
    assert!(matches!(decide(&global), Plan::Nothing(_)));
    global.owners[0].resource = Some(NODES);
    assert_eq!(decide(&global), Plan::LookUpOwners { uncertain_owner_count: 1 });
}

/// GC-33.
#[test]
fn a_terminating_object_needs_work_only_if_it_waits_for_dependents() {
    let mut going = snapshot(vec![owner(Synced, true)]);
    going.graph_node.is_being_deleted = true;
    assert!(matches!(decide(&going), Plan::Nothing(_)));
    going.graph_node.is_deleting_dependents = true;
    assert_eq!(decide(&going), Plan::RemoveForegroundFinalizer);
    going.graph_node.blocking_dependent_count = 2;
    assert_eq!(decide(&going), Plan::BlockedByDependents(2));
}

/// GC-53.
#[test]
fn foreground_deletion_does_not_finish_while_a_dependent_may_be_unknown() {
    let mut going = snapshot(Vec::new());
    (going.graph_node.is_being_deleted, going.graph_node.is_deleting_dependents) = (true, true);
    going.unsynced_resources = vec!["pods".into()];
    assert_eq!(
        decide(&going),
        Plan::Wait(WaitCondition::EverythingListed, "not all pods are known; one may block the deletion".into())
    );
}

/// GC-32, GC-61.
#[test]
fn finalizers_determine_the_propagation_policy() {
    for (orphans, foreground, expected) in [
        (false, false, PropagationPolicy::Background),
        (false, true, PropagationPolicy::Foreground),
        (true, false, PropagationPolicy::Orphan),
        (true, true, PropagationPolicy::Orphan),
    ] {
        let mut s = snapshot(vec![owner(Synced, true)]);
        (s.graph_node.has_orphan_finalizer, s.graph_node.has_foreground_finalizer) = (orphans, foreground);
        assert_eq!(decide(&s), delete(expected));
    }
}

/// GC-31.
#[test]
fn a_virtual_node_is_looked_up_once_its_kind_is_synced() {
    let mut s = snapshot(Vec::new());
    s.graph_node.is_virtual = true;
    assert_eq!(decide(&s), Plan::LookUpObject);
    s.is_kind_unsynced = true;
    assert_eq!(
        decide(&s),
        Plan::Wait(WaitCondition::KindListed(of("ConfigMap")), "not all objects of kind ConfigMap are known".into())
    );
}

fn owners(standings: &[(&str, OwnerLookupResult)]) -> Vec<(Uid, OwnerLookupResult)> {
    standings.iter().map(|(uid, standing)| (Uid::new(uid), *standing)).collect()
}

/// GC-20, GC-21, GC-22, GC-32, GC-43, GC-51.
#[test]
fn verdicts_follow_the_table() {
    let background = PropagationPolicy::Background;
    let release = |uids: &[&str]| CollectionDecision::Release(uids.iter().map(|uid| Uid::new(uid)).collect());
    let go = |propagation, unblock| CollectionDecision::Delete { propagation, unblock };
    for (standings, dependents, in_cycle, expected) in [
        (&[][..], 0, false, CollectionDecision::Keep),
        (&[("a", Solid)][..], 3, true, CollectionDecision::Keep),
        (&[("a", Solid), ("b", Dangling), ("c", WaitingForDependents)], 0, false, release(&["b", "c"])),
        (&[("a", Dangling)], 5, true, go(background, false)),
        (&[("a", WaitingForDependents)], 0, false, go(background, false)),
        (&[("a", WaitingForDependents), ("b", Dangling)], 1, false, go(PropagationPolicy::Foreground, false)),
        (&[("a", WaitingForDependents)], 1, true, go(PropagationPolicy::Foreground, true)),
        // References are removed by UID, so a wrong reference is kept if a correct reference has the same UID.
        (&[("a", Solid), ("a", Dangling)], 0, false, CollectionDecision::Keep),
        (&[("b", Dangling), ("a", Solid), ("b", Dangling)], 0, false, release(&["b"])),
    ] {
        assert_eq!(
            decide_by_owners(&owners(standings), dependents, || in_cycle, background),
            expected,
            "{standings:?}"
        );
    }
    assert_eq!(
        decide_by_owners(&owners(&[("a", Dangling)]), 1, || false, PropagationPolicy::Orphan),
        go(PropagationPolicy::Orphan, false)
    );
}

proptest::proptest! {
    /// GC-20, GC-43, GC-83.
    #[test]
    fn an_object_with_a_solid_owner_is_never_deleted_nor_released_from_it(
        standings in proptest::collection::vec((0u8..4, 0u8..3), 0..8),
        dependents in 0usize..3,
        in_cycle: bool,
    ) {
        let owners: Vec<(Uid, OwnerLookupResult)> = standings
            .iter()
            .map(|(uid, s)| (Uid::new(&uid.to_string()), [Solid, Dangling, WaitingForDependents][usize::from(*s)]))
            .collect();
        let solid = |uid: &Uid| owners.iter().any(|(u, s)| u == uid && *s == Solid);
        match decide_by_owners(&owners, dependents, || in_cycle, PropagationPolicy::Background) {
            CollectionDecision::Keep => assert!(owners.iter().all(|(uid, _)| solid(uid))),
            CollectionDecision::Release(uids) => {
                assert!(uids.iter().all(|uid| !solid(uid)));
                assert!(owners.iter().all(|(uid, _)| solid(uid) || uids.contains(uid)));
                assert!(owners.iter().any(|(_, s)| *s == Solid));
            }
            CollectionDecision::Delete { .. } => assert!(!owners.is_empty() && owners.iter().all(|(_, s)| *s != Solid)),
        }
    }

    /// GC-23.
    #[test]
    fn an_object_with_an_owner_that_may_exist_is_never_deleted_unread(
        owners in proptest::collection::vec((0u8..4, proptest::bool::ANY, proptest::bool::ANY), 0..5),
        virtually: bool, being_deleted: bool, deleting_dependents: bool, served: bool,
    ) {
        let owners: Vec<OwnerWithState> = owners
            .into_iter()
            .map(|(kind, namespaced, absent)| {
                let kind = [Unknown, Unwatched, Unsynced, Synced][usize::from(kind)];
                OwnerWithState { resource: Some(if namespaced { CONFIG_MAPS } else { NODES }), ..owner(kind, absent) }
            })
            .collect();
        let certain = !owners.is_empty() && owners.iter().all(|o| o.state_in_graph == OwnerState::Absent);
        let mut s = snapshot(owners);
        s.resource = served.then_some(CONFIG_MAPS);
        (s.graph_node.is_virtual, s.graph_node.is_being_deleted) = (virtually, being_deleted);
        s.graph_node.is_deleting_dependents = deleting_dependents;
        if let Plan::Delete { .. } = decide(&s) {
            assert!(certain && served && !virtually && !being_deleted);
        }
    }
}
