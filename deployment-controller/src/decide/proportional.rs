//! Proportional scaling: all active ReplicaSets share a change of `spec.replicas` during a rollout, so that the change neither
//! speeds up nor reverts the rollout.

use std::cmp::Reverse;

use crate::{decide::draft::PlanDraft, objects::MAX_REPLICAS_ANNOTATION};

/// Returns the index and new size of each `active` ReplicaSet, in the order of the writes.
///
/// Upstream: `scale`, `GetReplicaSetProportion`. These functions multiply in 32 bits, and exceed the maximum number of Pods if
/// a user has scaled a ReplicaSet directly.
pub fn proportional_sizes(draft: &PlanDraft<'_>, active: &[usize]) -> Vec<(usize, i64)> {
    let limits = draft.snapshot.rollout_limits;
    let allowed = if limits.replicas == 0 { 0 } else { limits.max_pods() };
    let total: i64 = active.iter().map(|at| draft.sets[*at].replicas).sum();
    let to_add = allowed - total;
    let order = write_order(draft, active, to_add);
    let mut sizes = share_out(draft, &order, to_add, |fraction| fraction);
    if sizes.iter().map(|(_, size)| size).sum::<i64>() > allowed {
        sizes = share_out(draft, &order, to_add, |fraction| fraction.min(0));
    }
    // ReplicaSets that scale down come first, to make room for those that scale up.
    sizes.sort_by_key(|(at, size)| *size > draft.sets[*at].replicas);
    sizes
}

fn share_out(draft: &PlanDraft<'_>, order: &[usize], to_add: i64, bound: fn(i64) -> i64) -> Vec<(usize, i64)> {
    let mut left = to_add;
    let share = |at: &usize| {
        let share = match to_add {
            _ if left == 0 => 0,
            1.. => bound(size_change_in_proportion(draft, *at)).min(left),
            _ => bound(size_change_in_proportion(draft, *at)).max(left),
        };
        // For sizes near `i32::MAX` the share may be `i64::MAX`, so the sums saturate.
        left = left.saturating_sub(share);
        (*at, draft.sets[*at].replicas.saturating_add(share))
    };
    let mut sizes: Vec<(usize, i64)> = order.iter().map(share).collect();
    if let Some((_, largest)) = sizes.first_mut() {
        *largest = largest.saturating_add(left).max(0);
    }
    sizes
}

/// Returns the indexes by size, largest first. Among equal sizes, the newest scales up first and the oldest scales down first.
fn write_order(draft: &PlanDraft<'_>, active: &[usize], to_add: i64) -> Vec<usize> {
    let mut order = active.to_vec();
    let size = |at: &usize| Reverse(draft.sets[*at].replicas);
    // The indexes are in the order of creation time and then name.
    match to_add {
        1.. => order.sort_by_key(|at| (size(at), Reverse(*at))),
        0 => order.sort_by_key(|at| (Some(*at) == draft.new_set_index, Reverse(*at))),
        _ => order.sort_by_key(|at| (size(at), *at)),
    }
    order
}

/// Returns the change of a ReplicaSet's size in proportion to the change of the maximum number of Pods; negative to scale down.
fn size_change_in_proportion(draft: &PlanDraft<'_>, at: usize) -> i64 {
    let (limits, set) = (draft.snapshot.rollout_limits, &draft.sets[at]);
    if limits.replicas == 0 {
        return -set.replicas;
    }
    let before =
        set.parse_replicas_annotation(MAX_REPLICAS_ANNOTATION).filter(|max| *max > 0).unwrap_or(draft.status.replicas);
    if before <= 0 {
        return 0;
    }
    let [size, most, max] = [set.replicas, limits.max_pods(), before].map(i128::from);
    // Rounds half away from zero; all operands are positive.
    let share = (2 * size * most + max) / (2 * max);
    i64::try_from(share).unwrap_or(i64::MAX) - set.replicas
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::{objects::DESIRED_REPLICAS_ANNOTATION, world::DeploymentBuilder};

    /// Scales `sets`, given oldest first with the new ReplicaSet last, and returns their names and new sizes.
    fn scaled(replicas: i64, surge: i64, sets: &[(&str, i64, &str)], status: i64) -> Vec<(String, i64)> {
        let mut world = DeploymentBuilder::new(replicas);
        world.spec["strategy"]["rollingUpdate"] = json!({"maxSurge": surge, "maxUnavailable": 1});
        for (name, size, max) in sets {
            world = world
                .with_set(name, *size, 0)
                .with_annotation(DESIRED_REPLICAS_ANNOTATION, &(replicas + 1).to_string());
            world = if max.is_empty() {
                world.without_annotation(MAX_REPLICAS_ANNOTATION)
            } else {
                world.with_annotation(MAX_REPLICAS_ANNOTATION, max)
            };
        }
        world.status["replicas"] = json!(status);
        let world = world.with_current_template(sets.last().unwrap().0);
        let plan = world.plan();
        let mut sizes: Vec<(String, i64)> = sets.iter().map(|(name, size, _)| ((*name).to_owned(), *size)).collect();
        let sum = |sizes: &[(String, i64)]| sizes.iter().map(|(_, size)| size).sum::<i64>();
        let most = sum(&sizes).max(if replicas == 0 { 0 } else { replicas + surge });
        for (name, _, to) in plan.size_changes() {
            sizes.iter_mut().find(|(n, _)| *n == name).unwrap().1 = to;
            assert!(sum(&sizes) <= most, "a write raises the sum above the maximum: {sizes:?}");
        }
        for (name, ..) in sets {
            let annotations = plan.annotations_of_set(name);
            assert_eq!(
                annotations.get(DESIRED_REPLICAS_ANNOTATION),
                Some(&replicas.to_string()),
                "annotations are rewritten"
            );
            assert_eq!(annotations.get(MAX_REPLICAS_ANNOTATION), Some(&(replicas + surge).to_string()));
        }
        sizes
    }

    /// DEPLOYMENT-43.
    #[test]
    fn each_set_gets_its_share() {
        for (replicas, surge, sets, status, want) in [
            (12, 2, vec![("old", 6, "10"), ("new", 4, "10")], 10, vec![8, 6]),
            (20, 4, vec![("a", 7, "15"), ("b", 5, "15"), ("c", 3, "15")], 15, vec![11, 8, 5]),
            (6, 1, vec![("a", 7, "15"), ("b", 5, "15"), ("c", 3, "15")], 15, vec![3, 2, 2]),
            (12, 0, vec![("a", 4, "10"), ("b", 3, "10"), ("c", 3, "10")], 10, vec![5, 3, 4]),
            (11, 0, vec![("a", 5, "10"), ("b", 5, "10")], 10, vec![5, 6]),
            (9, 0, vec![("a", 5, "10"), ("b", 5, "10")], 10, vec![4, 5]),
            (5, 0, vec![("a", 5, "10"), ("b", 5, "10")], 10, vec![2, 3]),
            (4, 0, vec![("a", 5, "5"), ("b", 1, "5")], 6, vec![3, 1]),
            (2, 0, vec![("a", 1, "4"), ("b", 1, "4"), ("c", 2, "4")], 4, vec![1, 1, 0]),
            (0, 3, vec![("old", 8, "13"), ("new", 5, "13")], 13, vec![0, 0]),
            (10, 2, vec![("a", 6, "9"), ("b", 6, "14")], 12, vec![6, 6]),
            (12, 2, vec![("old", 6, ""), ("new", 4, "")], 0, vec![10, 4]),
        ] {
            let got: Vec<i64> = scaled(replicas, surge, &sets, status).into_iter().map(|(_, size)| size).collect();
            assert_eq!(got, want, "{replicas} {surge} {sets:?}");
        }
    }

    /// DEPLOYMENT-81.
    #[test]
    fn a_set_scaled_by_hand_does_not_exceed_the_maximum() {
        // Upstream scales `hand` to 12, six times its size, and `new` to 0.
        let got = scaled(6, 0, &[("hand", 2, "1"), ("new", 6, "6")], 8);
        assert_eq!(got, [("hand".to_owned(), 2), ("new".to_owned(), 4)]);
    }

    /// DEPLOYMENT-81.
    #[test]
    fn products_do_not_overflow() {
        let got = scaled(1_000_000, 0, &[("a", 60_000, "100000"), ("b", 40_000, "100000")], 100_000);
        assert_eq!(got, [("a".to_owned(), 600_000), ("b".to_owned(), 400_000)]);
        let most = i64::from(i32::MAX);
        let got = scaled(most - 1, most, &[("a", most, "1"), ("b", 1, "1")], 2);
        assert_eq!(got.iter().map(|(_, size)| size).sum::<i64>(), 2 * most - 1);
    }

    proptest! {
        /// DEPLOYMENT-81.
        #[test]
        fn sizes_add_up_to_the_maximum_unless_the_largest_set_is_too_small(
            replicas in 0i64..200, surge in 0i64..50,
            sets in prop::collection::vec((1i64..80, 0i64..200), 2..6), status in 0i64..300,
        ) {
            let named: Vec<(String, i64, String)> =
                sets.iter().enumerate().map(|(at, (size, max))| (format!("s{at}"), *size, max.to_string())).collect();
            let named: Vec<(&str, i64, &str)> = named.iter().map(|(n, s, m)| (&**n, *s, &**m)).collect();
            let got = scaled(replicas, surge, &named, status);
            let after: i64 = got.iter().map(|(_, size)| size).sum();
            let allowed = if replicas == 0 { 0 } else { replicas + surge };
            prop_assert!(got.iter().all(|(_, size)| *size >= 0));
            // The largest ReplicaSet absorbs what the rounding leaves, but only down to size 0. That happens only if the sum was
            // above the maximum before.
            let before: i64 = sets.iter().map(|(size, _)| size).sum();
            let largest = sets.iter().map(|(size, _)| *size).max().unwrap_or(0);
            let is_emptied = got.iter().zip(&sets).any(|((_, size), (before, _))| *size == 0 && *before == largest);
            prop_assert!(after == allowed || (allowed < after && after <= before && is_emptied));
        }
    }
}
