use common::{intern::Text, meta::Key};
use jiff::SignedDuration;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{
    rosters::Rosters,
    world::{World, empty, pod, read, world},
};

/// Formats everything in a roster that syncs depend on, so that two rosters can be compared.
fn seen(roster: &Roster, world: &World) -> String {
    let set: Arc<DaemonSet> = read(&world.set);
    let nodes = roster.nodes(&set, 100, &world.cursors, &BTreeSet::new(), &world.around());
    format!("{nodes:#?}\n{:#?}\n{:#?}", roster.unselected(), roster.hashes)
}

#[derive(Clone, Debug)]
enum Step {
    Pod { node: usize, second: bool, state: usize },
    Node { node: usize, state: usize },
    Template(usize),
    Limits(usize),
    Failed { node: usize, seconds: i64 },
    Time(i64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..4usize, any::<bool>(), 0..10usize).prop_map(|(node, second, state)| Step::Pod { node, second, state }),
        2 => (0..4usize, 0..4usize).prop_map(|(node, state)| Step::Node { node, state }),
        1 => (0..2usize).prop_map(Step::Template),
        1 => (0..4usize).prop_map(Step::Limits),
        1 => (0..4usize, 0..30i64).prop_map(|(node, seconds)| Step::Failed { node, seconds }),
        1 => (0..40i64).prop_map(Step::Time),
    ]
}

/// Returns a Pod in one of nine states by number; `None` for every other number.
fn state(n: usize) -> Option<crate::world::PodBuilder> {
    Some(match n {
        0 => pod(),
        1 => pod().of("b"),
        2 => pod().ready(5),
        3 => pod().unready(),
        4 => pod().phase("Failed"),
        5 => pod().terminating(),
        6 => pod().pending(),
        7 => pod().label("app", "other"),
        // The owner reference has the uid of the DaemonSet and another name, so the Pod does not belong to the roster.
        8 => pod().owner_name("other"),
        _ => return None,
    })
}

proptest! {
    /// After any events, an updated roster equals a roster that is built from the caches.
    /// DAEMONSET-63.
    #[test]
    fn an_updated_roster_equals_a_new_roster(steps in prop::collection::vec(step(), 1..25)) {
        let mut world = world(3).spec("minReadySeconds", json!(20));
        let mut hash = "a";
        let uid = &read::<DaemonSet>(&world.set).metadata.uid.clone();
        let key = Key::new("shop", "agent");
        let rosters = Rosters::default();
        let with = |work: &mut dyn FnMut(&mut Roster)| rosters.with(&key, uid, |record| record.roster.as_mut().map(work));
        rosters.with(&key, uid, |record| record.roster = Some(world.roster(hash)));
        for step in steps {
            match step {
                Step::Pod { node, second, state: n } => {
                    let name = format!("p{node}{}", if second { "x" } else { "" });
                    let old = world.pods.iter().position(|pod| pod["metadata"]["name"] == *name).map(|at| world.pods.remove(at));
                    let new = state(n).map(|pod| pod.named(&name, &format!("n{node}")));
                    let cached = |pod: &Option<Value>| pod.as_ref().map(read);
                    rosters.pod_changed(cached(&old).as_ref(), cached(&new).as_ref());
                    world.pods.extend(new);
                }
                Step::Node { node, state } => {
                    let name = format!("n{node}");
                    world = match state {
                        0 => world.without_node(&name),
                        1 => world.taint(node, "NoSchedule"),
                        2 => world.taint(node, "NoExecute"),
                        _ => world.node(json!({"metadata": {"name": name}})),
                    };
                    rosters.node_changed(&Text::new(&name));
                }
                Step::Template(n) => hash = ["a", "b"][n],
                Step::Limits(n) => {
                    let [unavailable, surge] = [[json!(1), json!(0)], [json!(0), json!("50%")], [json!(0), json!(2)], [json!("x"), json!(0)]][n].clone();
                    world = world.limits(unavailable, surge);
                }
                Step::Failed { node, seconds } => {
                    world = world.failed_until(node, seconds);
                    with(&mut |roster| roster.back_off_changed(&Text::new(&format!("n{node}"))));
                }
                Step::Time(seconds) => world.now += SignedDuration::from_secs(seconds),
            }
            let set: Arc<DaemonSet> = read(&world.set);
            let mut kept = String::new();
            with(&mut |roster| {
                world.around().update(roster, &set, hash, world.now);
                kept = seen(roster, &world);
            });
            prop_assert_eq!(kept, seen(&world.roster(hash), &world));
        }
    }
}

/// DAEMONSET-63.
#[test]
fn a_sync_decides_only_the_changed_nodes() {
    let mut world = world(5000).spec("minReadySeconds", json!(60));
    let set: Arc<DaemonSet> = read(&world.set);
    let mut roster = world.roster("a");
    assert_eq!(roster.take_decided(), 5000);
    let around = world.around();
    // Without an event, no node is decided.
    around.update(&mut roster, &set, "a", world.now);
    assert_eq!(roster.take_decided(), 0);
    // After an event of one Pod, one node is decided.
    let (old, new) = (pod().named("p7", "n7"), pod().ready(10).named("p7", "n7"));
    roster.remove(&read(&old));
    roster.insert(&read(&new));
    around.update(&mut roster, &set, "a", world.now);
    assert_eq!(roster.take_decided(), 1);
    // After a change of one node, one node is decided.
    roster.node_changed(&Text::new("n9"));
    around.update(&mut roster, &set, "a", world.now);
    assert_eq!(roster.take_decided(), 1);
    // After one Pod has become available, one node is decided.
    around.update(&mut roster, &set, "a", world.now + SignedDuration::from_secs(50));
    assert_eq!(roster.take_decided(), 1);
    // With a new revision, all nodes are decided.
    around.update(&mut roster, &set, "b", world.now + SignedDuration::from_secs(50));
    assert_eq!(roster.take_decided(), 5000);
    // The snapshot lists only one of the 5000 outdated nodes, because `maxUnavailable` is 1. No node blocks the rollout.
    let nodes = roster.nodes(&set, 250, &world.cursors, &BTreeSet::new(), &around);
    assert_eq!((nodes.candidates.nodes.len(), nodes.candidates.count), (1, 5000));
    assert_eq!(nodes.blocking.nodes.len(), 0);
    drop(around);
    world = world.limits(json!("100%"), json!(0));
    let set: Arc<DaemonSet> = read(&world.set);
    assert_eq!(roster.nodes(&set, 250, &world.cursors, &BTreeSet::new(), &world.around()).candidates.nodes.len(), 250);
}

#[test]
fn nodes_without_pods_on_which_none_should_run_are_not_kept() {
    let mut placed = crate::world::template("a");
    placed["spec"]["nodeSelector"] = json!({"disk": "ssd"});
    let world = empty(100)
        .spec("template", placed)
        .node(json!({"metadata": {"name": "n5", "labels": {"disk": "ssd"}}}))
        .pod(8, pod());
    let mut roster = world.roster("a");
    assert_eq!(roster.nodes.keys().map(Text::as_str).collect::<Vec<_>>(), ["n5", "n8"]);
    let removed: Value = world.pods[0].clone();
    roster.remove(&read(&removed));
    world.around().update(&mut roster, &read::<DaemonSet>(&world.set), "a", world.now);
    assert_eq!(roster.nodes.keys().map(Text::as_str).collect::<Vec<_>>(), ["n5"]);
}
