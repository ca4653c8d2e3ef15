mod properties;

use common::{intern::Text, meta::Uid};

use super::OwnerState;
use crate::world::{World, test_object};

/// GC-11, GC-15.
#[test]
fn an_owner_is_virtual_until_a_monitor_sees_it() {
    let mut w = World::default();
    assert_eq!(w.write_and_observe(&test_object("c").owner("o")), ["judge o"]);
    assert!(w.is_virtual("o"));
    assert_eq!(w.write_and_observe(&test_object("o")), [""; 0], "the owner is as the reference says");
    assert!(!w.is_virtual("o"));
    assert_eq!(w.observe_deletion(&test_object("o")), ["judge c"]);
    let view = w.graph.node_view(&Uid::new("c")).unwrap();
    assert_eq!(view.owner_states, [OwnerState::Absent]);
}

/// GC-11, GC-14.
#[test]
fn an_owner_that_was_never_there_frees_its_dependents() {
    let mut w = World::default();
    w.write_and_observe(&test_object("c").owner("o"));
    let owner = w.identity("ConfigMap", "ns", "o", "o");
    assert_eq!(w.report_absent(&owner), ["judge c"]);
    assert_eq!(w.graph.len(), 1, "no virtual node is left behind");
    assert_eq!(w.graph.node_view(&Uid::new("c")).unwrap().owner_states, [OwnerState::Absent]);
}

/// GC-41.
#[test]
fn a_wrong_reference_that_is_seen_first_does_not_affect_a_right_one() {
    let mut w = World::default();
    let bad = test_object("bad").owner_as("Secret", "a", "u", false);
    let good = test_object("good").owner_as("ConfigMap", "a", "u", false);
    assert_eq!(w.write_and_observe(&bad), ["judge u"]);
    assert_eq!(w.write_and_observe(&good), ["judge good"], "the reference names another location");
    assert_eq!(w.location("u"), "Secret ns/a");
    let claimed = w.identity("Secret", "ns", "a", "u");
    assert_eq!(w.report_absent(&claimed), ["judge bad", "forget u", "later u"]);
    assert_eq!(w.location("u"), "ConfigMap ns/a");
    assert_eq!(w.graph.node_view(&Uid::new("bad")).unwrap().owner_states, [OwnerState::Absent]);
    assert_eq!(w.graph.node_view(&Uid::new("good")).unwrap().owner_states, [OwnerState::Unknown]);
    assert_eq!(w.write_and_observe(&test_object("a").uid("u")), [""; 0]);
}

/// GC-41.
#[test]
fn an_owner_seen_elsewhere_enqueues_dependents_with_wrong_references() {
    let mut w = World::default();
    w.write_and_observe(&test_object("bad").owner_as("Secret", "a", "u", false));
    w.write_and_observe(&test_object("good").owner_as("ConfigMap", "a", "u", false));
    assert_eq!(w.write_and_observe(&test_object("a").uid("u")), ["judge bad", "forget u"]);
    // The answer of the server concerns only the identity that `bad` claims, not the observed object.
    let claimed = w.identity("Secret", "ns", "a", "u");
    assert_eq!(w.report_absent(&claimed), ["judge bad"]);
    assert!(w.graph.node(&Uid::new("u")).is_some());
    assert_eq!(w.graph.node_view(&Uid::new("good")).unwrap().owner_states, [OwnerState::Present]);
}

/// GC-42.
#[test]
fn each_claimed_identity_is_looked_up_once() {
    let mut w = World::default();
    for (name, kind) in [("x", "B"), ("y", "A"), ("z", "C")] {
        w.write_and_observe(&test_object(name).owner_as(kind, "o", "u", false));
    }
    let mut tried = Vec::new();
    let mut work = Vec::new();
    for _ in 0..3 {
        let place = w.location("u");
        let kind = place.split(' ').next().unwrap().to_owned();
        let identity = w.identity(&kind, "ns", "o", "u");
        work = w.report_absent(&identity);
        tried.push(kind);
    }
    assert_eq!(tried, ["B", "C", "A"]);
    assert!(w.graph.node(&Uid::new("u")).is_none(), "no claimed identity exists");
    let judged = ["x", "y", "z"].map(|name| format!("judge {name}"));
    assert!(judged.iter().all(|judge| work.contains(judge)), "{work:?}");
}

/// GC-38.
#[test]
fn a_reference_across_namespaces_is_reported_once_the_owner_is_seen() {
    let expected =
        "event ownerRef [v1/ConfigMap, namespace: b, name: o, uid: o] does not exist in namespace \"b\"".to_owned();
    let mut w = World::default();
    w.write_and_observe(&test_object("o"));
    assert_eq!(w.write_and_observe(&test_object("c").namespace("b").owner("o")), [expected.clone(), "judge c".into()]);
    let mut w = World::default();
    w.write_and_observe(&test_object("c").namespace("b").owner("o"));
    assert_eq!(w.write_and_observe(&test_object("o")), [expected, "judge c".into(), "forget o".into()]);
}

/// GC-39.
#[test]
fn a_cluster_scoped_owner_may_be_named_from_anywhere() {
    let mut w = World::default();
    w.write_and_observe(&test_object("o").namespace("").kind("Node"));
    for namespace in ["a", "b", ""] {
        let dependent = test_object(&format!("c{namespace}")).namespace(namespace).owner_as("Node", "o", "o", false);
        assert_eq!(w.write_and_observe(&dependent), [""; 0], "the reference is valid in namespace {namespace:?}");
    }
}

/// GC-15, GC-48.
#[test]
fn foreground_deletion_enqueues_all_dependents_and_the_owner_after_the_last_blocking_one() {
    let mut w = World::default();
    let (o, c, d) = (test_object("o"), test_object("c").blocking_owner("o"), test_object("d").owner("o"));
    w.write_and_observe(&o);
    w.write_and_observe(&c);
    w.write_and_observe(&d);
    let going = o.clone().terminating_with_finalizer("foregroundDeletion");
    assert_eq!(w.write_and_observe(&going), ["judge c", "judge d", "judge o"]);
    assert_eq!(w.write_and_observe(&going), [""; 0], "the deletion has already begun");
    let view = w.graph.node_view(&Uid::new("o")).unwrap();
    assert_eq!((view.blocking_dependent_count, view.dependent_count), (1, 2));
    assert_eq!(
        w.write_and_observe(&test_object("e").blocking_owner("o")),
        ["judge e"],
        "a late dependent is deleted, too"
    );
    assert_eq!(w.observe_deletion(&test_object("e")), [""; 0], "another dependent still blocks");
    assert_eq!(
        w.write_and_observe(&test_object("c").owner("o")),
        ["judge o"],
        "the last blocking dependent stopped blocking"
    );
    assert_eq!(w.observe_deletion(&d), [""; 0], "this dependent never blocked");
    assert_eq!(w.graph.node_view(&Uid::new("o")).unwrap().blocking_dependent_count, 0);
}

/// GC-61, GC-62.
#[test]
fn objects_that_are_terminating_when_the_collector_starts_are_enqueued() {
    let mut w = World::default();
    assert_eq!(w.write_and_observe(&test_object("o").terminating_with_finalizer("orphan")), ["orphan o"]);
    assert_eq!(w.write_and_observe(&test_object("p").terminating_with_finalizer("foregroundDeletion")), ["judge p"]);
    let mut both = test_object("q").terminating_with_finalizer("foregroundDeletion").meta();
    both.finalizers = Box::from([Text::new("foregroundDeletion"), Text::new("orphan")]);
    let source = w.monitor("ConfigMap");
    w.graph.apply_object(source, &both, &mut w.work);
    assert_eq!(w.take_work(), ["orphan q"], "the finalizer orphan has precedence");
}

/// GC-50.
#[test]
fn a_released_dependent_leaves_its_owner_and_enqueues_a_blocked_owner() {
    let mut w = World::default();
    let (o, c) = (test_object("o"), test_object("c").blocking_owner("o"));
    w.write_and_observe(&o);
    w.write_and_observe(&c);
    assert_eq!(w.write_and_observe(&c.clone().without_owners()), [""; 0], "the owner is not terminating");
    assert_eq!(w.graph.node_view(&Uid::new("o")).unwrap().dependent_count, 0);
    w.write_and_observe(&c);
    w.write_and_observe(&o.clone().terminating_with_finalizer("foregroundDeletion"));
    assert_eq!(w.write_and_observe(&c.clone().without_owners()), ["judge o"]);
    assert_eq!(w.observe_deletion(&o), [""; 0]);
}

/// Returns how many nodes are read during the foreground deletion of an owner with this number of `dependents`. Every
/// [`Work::CheckOwners`](super::Work::CheckOwners) is executed.
fn looks_for_a_foreground_deletion_of(dependents: usize) -> u64 {
    let mut w = World::default();
    let o = test_object("o");
    w.write_and_observe(&o);
    let all: Vec<_> = (0..dependents).map(|n| test_object(&format!("d{n}")).blocking_owner("o")).collect();
    for dependent in &all {
        w.write_and_observe(dependent);
    }
    let before = w.graph.nodes.number_of_reads();
    let judge = |w: &mut World, work: Vec<String>| {
        let uids = work.iter().filter_map(|work| work.strip_prefix("judge "));
        uids.for_each(|uid| drop(w.graph.node_view(&Uid::new(uid))));
    };
    let work = w.write_and_observe(&o.terminating_with_finalizer("foregroundDeletion"));
    judge(&mut w, work);
    for dependent in &all {
        let work = w.observe_deletion(dependent);
        judge(&mut w, work);
    }
    assert_eq!(w.graph.node_view(&Uid::new("o")).map(|view| view.blocking_dependent_count), Some(0));
    w.graph.nodes.number_of_reads() - before
}

/// GC-16.
#[test]
fn the_cost_of_a_foreground_deletion_is_linear_in_the_dependents() {
    let (some, twice) = (looks_for_a_foreground_deletion_of(1000), looks_for_a_foreground_deletion_of(2000));
    assert!(twice < 3 * some, "{some} reads of nodes for 1000 dependents, {twice} for 2000");
    assert!(some < 40 * 1000, "{some} reads of nodes for 1000 dependents");
}

#[test]
fn dependents_of_one_owner_share_their_references() {
    let mut w = World::default();
    w.write_and_observe(&test_object("a").owner("o"));
    w.write_and_observe(&test_object("o"));
    w.write_and_observe(&test_object("b").owner("o"));
    w.write_and_observe(&test_object("other").blocking_owner("o"));
    let node = |name: &str| w.graph.node(&Uid::new(name)).unwrap();
    let of = |name: &str| node(name).owners.as_ptr();
    assert_eq!(of("a"), of("b"));
    assert_ne!(of("a"), of("other"));
    for name in ["a", "other"] {
        assert!(std::sync::Arc::ptr_eq(&node(name).owners[0].name, &node("o").name), "{name}");
    }
}

/// GC-12.
#[test]
fn an_older_version_changes_nothing() {
    let mut w = World::default();
    let (old, new) = (test_object("c").owner("o"), test_object("c"));
    let before = w.next_meta(&old);
    let after = w.next_meta(&new);
    w.observe_object(&new, &after);
    assert_eq!(w.observe_object(&old, &before), [""; 0]);
    assert!(w.graph.node(&Uid::new("c")).unwrap().owners.is_empty());
}

/// GC-13.
#[test]
fn objects_missing_from_a_full_set_are_removed_once_it_is_complete() {
    let mut w = World::default();
    let (o, c, other) = (test_object("o"), test_object("c").owner("o"), test_object("x").kind("Secret"));
    for thing in [&o, &c, &other] {
        w.write_and_observe(thing);
    }
    let child = w.next_meta(&c);
    assert_eq!(w.read_list("ConfigMap", std::slice::from_ref(&child), false), [""; 0], "the set is not complete");
    assert_eq!(w.read_list("ConfigMap", std::slice::from_ref(&child), true), ["judge c"]);
    assert!(w.graph.node(&Uid::new("o")).is_none() && w.graph.node(&Uid::new("x")).is_some());
}

/// GC-13.
#[test]
fn an_object_recreated_unseen_has_a_new_node() {
    let mut w = World::default();
    w.write_and_observe(&test_object("o"));
    w.write_and_observe(&test_object("c").owner("o"));
    let set = [w.next_meta(&test_object("o").uid("o2")), w.next_meta(&test_object("c").owner("o"))];
    assert_eq!(w.read_list("ConfigMap", &set, true), ["judge c"]);
    assert!(w.graph.node(&Uid::new("o")).is_none() && w.graph.node(&Uid::new("o2")).is_some());
}

/// GC-13.
#[test]
fn an_object_removed_during_a_full_set_does_not_keep_one_that_the_set_lacks() {
    let mut w = World::default();
    let (a, b) = (test_object("a"), test_object("b"));
    w.write_and_observe(&a);
    w.write_and_observe(&b);
    let source = w.monitor("ConfigMap");
    let mut seen = w.graph.begin_list(source);
    let meta = w.next_meta(&a);
    w.graph.apply_listed_object(&mut seen, &meta, &mut w.work);
    // The server answers that `a` no longer exists. The list then contains only `a`, and the graph only `b`.
    let gone = w.identity("ConfigMap", "ns", "a", "a");
    w.report_absent(&gone);
    w.graph.complete_list(&seen, &mut w.work);
    assert!(w.graph.is_empty());
}

/// GC-5.
#[test]
fn late_events_of_a_stopped_monitor_are_ignored() {
    let mut w = World::default();
    let source = w.monitor("ConfigMap");
    w.write_and_observe(&test_object("a"));
    w.graph.remove_monitor(source, &mut w.work);
    w.take_work();
    assert_eq!(w.write_and_observe(&test_object("b")), [""; 0]);
    assert_eq!(w.observe_deletion(&test_object("a")), [""; 0]);
    assert!(w.graph.node(&Uid::new("b")).is_none() && w.is_virtual("a"));
    assert_eq!(w.read_list("ConfigMap", &[], true), [""; 0]);
    assert!(w.is_virtual("a"));
}

/// GC-14.
#[test]
fn a_virtual_owner_is_removed_with_its_last_reference() {
    let mut w = World::default();
    let (c, d) = (test_object("c").owner("o"), test_object("d").owner("o"));
    w.write_and_observe(&c);
    w.write_and_observe(&d);
    w.write_and_observe(&c.clone().without_owners());
    assert!(w.is_virtual("o"));
    w.observe_deletion(&d);
    assert_eq!(w.graph.len(), 1);
}

/// GC-44, GC-84.
#[test]
fn a_corrected_reference_is_checked_again() {
    let mut w = World::default();
    w.write_and_observe(&test_object("o"));
    let wrong = test_object("c").owner_as("Secret", "o", "o", false);
    assert_eq!(w.write_and_observe(&wrong), ["judge c"]);
    assert_eq!(w.write_and_observe(&test_object("c").owner("o")), [""; 0]);
    assert_eq!(w.write_and_observe(&wrong), ["judge c"]);
}

#[test]
fn an_object_that_owns_itself_is_removed_like_any_other() {
    let mut w = World::default();
    w.write_and_observe(&test_object("c").owner("c"));
    assert_eq!(w.observe_deletion(&test_object("c")), [""; 0]);
    assert!(w.graph.is_empty());
}

/// GC-5, GC-82.
#[test]
fn objects_of_a_removed_monitor_become_virtual() {
    let mut w = World::default();
    w.write_and_observe(&test_object("o").kind("Widget"));
    w.write_and_observe(&test_object("c").owner_as("Widget", "o", "o", false));
    let source = w.monitor("Widget");
    w.graph.remove_monitor(source, &mut w.work);
    assert_eq!(w.take_work(), ["judge o"]);
    assert!(w.is_virtual("o") && !w.is_virtual("c"));
    let again = w.graph.add_monitor("v1", "Widget");
    let meta = w.next_meta(&test_object("o").kind("Widget"));
    w.graph.apply_object(again, &meta, &mut w.work);
    assert!(!w.is_virtual("o"));
}

/// GC-19.
#[test]
fn the_dot_export_shows_owners_and_missing_objects() {
    let mut w = World::default();
    w.write_and_observe(&test_object("a\"b").owner("o"));
    w.write_and_observe(&test_object("lonely"));
    let dot = w.graph.to_dot(&[]);
    assert!(dot.starts_with("strict digraph full {\n  // Node definitions.\n  \"a\\\"b\" [\n"), "{dot}");
    assert!(
        dot.contains("    label=\"uid=o\\nnamespace=ns\\nConfigMap.v1/o\\nvirtual\\n\"\n    group=\"\"\n"),
        "{dot}"
    );
    assert!(dot.ends_with("  // Edge definitions.\n  \"a\\\"b\" -> \"o\";\n}\n"), "{dot}");
    assert!(!dot.contains("lonely"));
    assert_eq!(w.graph.to_dot(&[Uid::new("nobody")]), "strict digraph full {\n}\n");
    let owner = w.identity("ConfigMap", "ns", "o", "o");
    w.report_absent(&owner);
    let around = w.graph.to_dot(&[Uid::new("a\"b")]);
    assert!(around.contains("\\nmissingFromGraph\\n\""), "{around}");
    assert!(around.contains("    missing=\"true\"\n"), "{around}");
}

#[test]
fn kinds_without_users_are_removed() {
    let mut w = World::default();
    let source = w.monitor("ConfigMap");
    for n in 0..1000 {
        let mut forged = test_object("c").meta();
        let kind = format!("K{n}");
        let reference =
            serde_json::json!({"apiVersion": "example.com/v1", "kind": kind, "name": "o", "uid": n.to_string()});
        forged.owners = serde_json::from_value(serde_json::json!([reference])).unwrap();
        forged.resource_version = common::meta::ResourceVersion::parse(&(n + 1).to_string());
        w.graph.apply_object(source, &forged, &mut w.work);
        assert_eq!((w.graph.kinds.len(), w.graph.len()), (2, 2), "{n}");
        assert_eq!(w.graph.node_view(&Uid::new("c")).unwrap().owner_references[0].kind, *kind);
    }
    w.observe_deletion(&test_object("c"));
    w.graph.remove_monitor(source, &mut w.work);
    assert_eq!(w.graph.kinds.len(), 0);
}

/// GC-9.
#[test]
fn an_object_that_two_monitors_see_outlives_the_first() {
    let mut w = World::default();
    let (o, c) = (test_object("o").kind("Old"), test_object("c").owner_as("Old", "o", "o", false));
    let (old, new) = (w.monitor("Old"), w.monitor("New"));
    let meta = w.next_meta(&o);
    w.observe_object(&o, &meta);
    w.write_and_observe(&c);
    // The second monitor sees the object in the same version, under another group.
    w.graph.apply_object(new, &meta, &mut w.work);
    let mut seen = w.graph.begin_list(new);
    w.graph.apply_listed_object(&mut seen, &meta, &mut w.work);
    assert_eq!(w.take_work(), [""; 0]);
    w.graph.remove_monitor(old, &mut w.work);
    assert_eq!(w.take_work(), ["judge c", "forget o"], "a dependent that names the removed group is judged");
    assert!(!w.is_virtual("o"));
    assert_eq!(w.location("o"), "New ns/o");
    assert_eq!((w.graph.object_count(new), w.graph.object_count(old)), (1, 0));
    w.graph.complete_list(&seen, &mut w.work);
    assert!(w.graph.node(&Uid::new("o")).is_some(), "the set in progress contains the object");
    let empty = w.graph.begin_list(new);
    w.graph.complete_list(&empty, &mut w.work);
    assert_eq!(w.take_work(), ["judge c"], "the last monitor of the object no longer has it");
    assert!(w.graph.node(&Uid::new("o")).is_none() && w.graph.others.is_empty());
}

/// GC-67.
#[test]
fn pending_work_is_derived_from_the_graph() {
    let mut w = World::default();
    for thing in [
        test_object("o"),
        test_object("fine").owner("o"),
        test_object("free"),
        test_object("lost").owner("gone"),
        test_object("wrong").owner_as("Secret", "o", "o", false),
        test_object("late").owner("going"),
        test_object("going").terminating_with_finalizer("foregroundDeletion"),
        test_object("released").terminating_with_finalizer("orphan"),
        test_object("elsewhere").namespace("b").owner("o"),
        test_object("hearsay").owner("nobody"),
    ] {
        w.write_and_observe(&thing);
    }
    w.write_and_observe(&test_object("gone"));
    w.observe_deletion(&test_object("gone"));
    let todo = |w: &mut World| {
        let (mut part, mut out) = (0, Vec::new());
        while w.graph.add_pending_work(part, &mut out) {
            part += 1;
        }
        w.work = out;
        let mut all = w.take_work();
        all.sort();
        all
    };
    let event = "event ownerRef [v1/ConfigMap, namespace: b, name: o, uid: o] does not exist in namespace \"b\"";
    let judged = ["elsewhere", "going", "late", "lost", "nobody", "wrong"].map(|uid| format!("judge {uid}"));
    let expected: Vec<String> =
        [event.to_owned()].into_iter().chain(judged).chain(["orphan released".to_owned()]).collect();
    assert_eq!(todo(&mut w), expected);
    w.observe_deletion(&test_object("o"));
    assert!(todo(&mut w).contains(&"judge fine".to_owned()));
}

/// GC-16.
#[test]
fn the_cost_of_a_change_is_linear_in_the_owners() {
    const MANY: usize = 10_000;
    let mut w = World::default();
    let of = |owners: std::ops::Range<usize>, blocks: bool| {
        owners.fold(test_object("c"), |c, n| {
            let name = format!("o{n}");
            c.owner_as("ConfigMap", &name, &name, blocks)
        })
    };
    for n in 0..MANY {
        w.write_and_observe(&test_object(&format!("o{n}")));
    }
    let before = w.graph.nodes.number_of_reads();
    assert_eq!(w.write_and_observe(&of(0..MANY, true)), [""; 0]);
    let blocking = |w: &World| {
        (0..MANY).map(|n| w.graph.node(&Uid::new(&format!("o{n}"))).unwrap().blocking_dependent_count).sum::<u32>()
    };
    assert_eq!(blocking(&w), MANY as u32);
    w.write_and_observe(&of(MANY / 2..MANY, true));
    assert_eq!(blocking(&w), MANY as u32 / 2);
    w.write_and_observe(&of(0..MANY, false));
    assert_eq!(blocking(&w), 0);
    assert_eq!(w.graph.node_view(&Uid::new("c")).unwrap().owner_references.len(), MANY);
    w.observe_deletion(&test_object("c"));
    let looks = w.graph.nodes.number_of_reads() - before;
    assert!(looks < 50 * MANY as u64, "{looks} reads of nodes");
}
