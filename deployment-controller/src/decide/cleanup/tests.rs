use std::{cell::Cell, cmp::Ordering};

use proptest::prelude::*;
use serde_json::json;

use super::sorted_by_revision;
use crate::{objects::REVISION_ANNOTATION, world::DeploymentBuilder};

fn world(limit: i64, olds: &[(&str, i64)]) -> DeploymentBuilder {
    let mut world = DeploymentBuilder::new(3);
    for (revision, size) in olds {
        world = world.with_set(&format!("r{revision}"), *size, *size).with_annotation(REVISION_ANNOTATION, revision);
    }
    world = world
        .with_set("new", 3, 3)
        .with_annotation(REVISION_ANNOTATION, "99")
        .with_current_template("new")
        .with_complete_status();
    world.spec["revisionHistoryLimit"] = json!(limit);
    world.annotations = json!({REVISION_ANNOTATION: "99"});
    // The history is also cleaned during a pause, when old ReplicaSets may have Pods.
    world.spec["paused"] = json!(true);
    world
}

/// DEPLOYMENT-50, DEPLOYMENT-51, DEPLOYMENT-52.
#[test]
fn old_idle_sets_beyond_the_limit_are_deleted() {
    for (limit, olds, want) in [
        (2, vec![("1", 0), ("2", 3), ("3", 0), ("4", 0), ("5", 0)], vec!["r1", "r3"]),
        (0, vec![("1", 0), ("2", 0)], vec!["r1", "r2"]),
        (10, (1..=10).map(|n| (["1", "2", "3", "4", "5", "6", "7", "8", "9", "10"][n - 1], 0)).collect(), vec![]),
        (1, vec![("5", 0), ("3", 0), ("4", 0)], vec!["r3", "r4"]),
        (1, vec![("x", 0), ("3", 0)], vec!["rx"]),
        (i64::from(i32::MAX), vec![("1", 0)], vec![]),
    ] {
        assert_eq!(world(limit, &olds).plan().deleted_sets(), want, "{limit} {olds:?}");
    }
    let mut unlimited = world(0, &[("1", 0)]);
    unlimited.spec["revisionHistoryLimit"] = json!(null);
    assert!(unlimited.plan().deleted_sets().is_empty());
}

/// DEPLOYMENT-51.
#[test]
fn busy_sets_and_sets_being_deleted_stay() {
    let mut busy = world(0, &[("1", 0), ("2", 0), ("3", 0)]);
    busy.sets[0]["status"]["replicas"] = json!(1);
    busy.sets[1]["metadata"]["generation"] = json!(9);
    assert_eq!(busy.plan().deleted_sets(), ["r3"]);
    let mut going = world(1, &[("1", 0), ("2", 0)]);
    going.sets[0]["metadata"]["deletionTimestamp"] = json!("2026-11-21T09:00:00Z");
    assert!(going.plan().deleted_sets().is_empty(), "a ReplicaSet that is being deleted does not count");
}

/// DEPLOYMENT-52.
#[test]
fn the_history_is_cleaned_after_the_rollout() {
    let mut rolling = world(0, &[("1", 0)]);
    rolling.spec["paused"] = json!(false);
    assert_eq!(rolling.plan().deleted_sets(), ["r1"]);
    rolling.status["availableReplicas"] = json!(2);
    assert!(rolling.plan().deleted_sets().is_empty());
}
thread_local! {
    static COMPARISONS: Cell<usize> = const { Cell::new(0) };
}

/// A sort key that counts its comparisons.
#[derive(PartialEq, Eq)]
struct Age(usize);

impl PartialOrd for Age {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Age {
    fn cmp(&self, other: &Self) -> Ordering {
        COMPARISONS.set(COMPARISONS.get() + 1);
        self.0.cmp(&other.0)
    }
}

type Item = (usize, Option<i64>);

fn sorted(items: Vec<Item>) -> Vec<Item> {
    sorted_by_revision(items, |(_, revision)| *revision, |(age, _)| Age(*age))
}

/// Reference implementation in quadratic time: inserts each item behind the last item that has to come before it.
fn by_insertion(mut items: Vec<Item>) -> Vec<Item> {
    items.sort_unstable();
    let mut out: Vec<Item> = Vec::new();
    for (age, revision) in items {
        let follows = |(other, of_other): &Item| match (revision, of_other) {
            (Some(a), Some(b)) if a != *b => a > *b,
            _ => age > *other,
        };
        let at = out.iter().rposition(follows).map_or(0, |at| at + 1);
        out.insert(at, (age, revision));
    }
    out
}

proptest! {
    /// DEPLOYMENT-50.
    #[test]
    fn the_order_follows_revisions_and_then_ages(
        revisions in prop::collection::vec(prop::option::weighted(0.8, -2i64..9), 0..20), seed in any::<prop::sample::Index>(),
    ) {
        let mut items: Vec<Item> = revisions.into_iter().enumerate().collect();
        let wanted = by_insertion(items.clone());
        if !items.is_empty() {
            let at = seed.index(items.len());
            items.rotate_left(at);
        }
        prop_assert_eq!(sorted(items), wanted);
    }
}

/// DEPLOYMENT-68.
#[test]
fn ten_thousand_sets_are_sorted_in_few_comparisons() {
    const SETS: usize = 10_000;
    let kinds: [fn(usize) -> Option<i64>; 4] = [
        |n| Some(n as i64),
        |n| Some(-(n as i64)),
        |n| Some((n * 7919 % 10_007) as i64),
        |n| if n % 2 == 0 { None } else { Some(-(n as i64)) },
    ];
    for (at, revision) in kinds.into_iter().enumerate() {
        let items = (0..SETS).map(|age| (SETS - age, revision(age))).collect();
        COMPARISONS.set(0);
        assert_eq!(sorted(items).len(), SETS);
        // Ten thousand items need about fourteen comparisons each.
        assert!(COMPARISONS.get() <= 15 * SETS, "{at}: {} comparisons", COMPARISONS.get());
    }
}
