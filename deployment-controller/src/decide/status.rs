//! The counts of `status`, and the condition `Available`.

use crate::{
    decide::{
        conditions,
        draft::{DraftReplicaSet, PlanDraft},
    },
    objects::DeploymentStatus,
    snapshot::TerminatingReplicasSupport,
};

/// Computes the status with the stored condition `Progressing`.
///
/// The status counts the ReplicaSets as this sync found or created them; the next sync counts the size changes of this sync.
/// Upstream: `calculateStatus`.
pub fn calculate_status(draft: &PlanDraft<'_>) -> DeploymentStatus {
    let (total, available) =
        (sum(draft, |set| set.replicas_in_status), sum(draft, DraftReplicaSet::available_replicas));
    let mut status = DeploymentStatus {
        observed_generation: draft.deployment().metadata.generation,
        replicas: sum(draft, DraftReplicaSet::status_replicas),
        updated_replicas: draft.new_set().map_or(0, DraftReplicaSet::status_replicas),
        ready_replicas: sum(draft, |set| set.status().ready_replicas.into()),
        available_replicas: available,
        unavailable_replicas: (total - available).max(0),
        terminating_replicas: terminating(draft),
        collision_count: draft.status.collision_count,
        conditions: draft.status.conditions.clone(),
    };
    let enough = available >= draft.snapshot.rollout_limits.min_available_pods();
    conditions::set_condition(&mut status, conditions::available_condition(enough, draft.snapshot.now));
    status
}

fn sum<'d, 'a>(draft: &'d PlanDraft<'a>, of: impl Fn(&'d DraftReplicaSet<'a>) -> i64) -> i64 {
    draft.sets.iter().map(of).sum()
}

/// Plans a write of the status, without an update of `Progressing`, if the status differs from the stored one.
pub fn plan_status_write(draft: &mut PlanDraft<'_>) {
    let status = calculate_status(draft);
    draft.push_status_write(status, None, "counts or availability changed");
}

/// Returns the number of terminating Pods; `None` if a ReplicaSet that its controller has observed does not report the number.
fn terminating(draft: &PlanDraft<'_>) -> Option<i64> {
    if draft.snapshot.terminating_replicas_support == TerminatingReplicasSupport::Disabled {
        return None;
    }
    draft.sets.iter().map(DraftReplicaSet::status).try_fold(0, |sum, status| match status.terminating_replicas {
        None if status.observed_generation == 0 => Some(sum),
        None => None,
        Some(count) => Some(sum + i64::from(count)),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{decide::conditions::*, world::DeploymentBuilder};

    /// DEPLOYMENT-53, DEPLOYMENT-55.
    #[test]
    fn counts_are_sums_over_all_sets() {
        let mut world = DeploymentBuilder::new(4).with_set("a", 3, 2).with_new_set("b", 2, 1);
        world.sets[0]["status"]["readyReplicas"] = json!(3);
        world.sets[1]["status"]["terminatingReplicas"] = json!(2);
        let snapshot = world.snapshot();
        let status = calculate_status(&PlanDraft::new(&snapshot));
        assert_eq!((status.replicas, status.updated_replicas, status.ready_replicas), (5, 2, 4));
        assert_eq!((status.available_replicas, status.unavailable_replicas), (3, 2));
        assert_eq!((status.terminating_replicas, status.observed_generation), (Some(2), 1));
        assert!(common::conditions::is_true(&status.conditions, AVAILABLE));
    }

    /// DEPLOYMENT-53.
    #[test]
    fn unavailable_is_never_below_zero() {
        let snapshot = DeploymentBuilder::new(2).with_new_set("a", 2, 5).snapshot();
        assert_eq!(calculate_status(&PlanDraft::new(&snapshot)).unavailable_replicas, 0);
    }

    /// DEPLOYMENT-54, DEPLOYMENT-75.
    #[test]
    fn terminating_pods_are_known_only_if_all_sets_report_them() {
        for (observed, value, want) in
            [(0, json!(null), Some(0)), (1, json!(null), None), (1, json!(3), Some(3)), (0, json!(1), Some(1))]
        {
            let mut world = DeploymentBuilder::new(2).with_new_set("a", 2, 2);
            world.sets[0]["status"]["observedGeneration"] = json!(observed);
            world.sets[0]["status"]["terminatingReplicas"] = value;
            let mut snapshot = world.snapshot();
            assert_eq!(calculate_status(&PlanDraft::new(&snapshot)).terminating_replicas, want);
            snapshot.terminating_replicas_support = TerminatingReplicasSupport::Disabled;
            assert_eq!(calculate_status(&PlanDraft::new(&snapshot)).terminating_replicas, None);
        }
    }

    /// DEPLOYMENT-75.
    #[test]
    fn a_count_that_the_server_drops_does_not_cause_a_write() {
        let mut world = DeploymentBuilder::new(2).with_new_set("a", 2, 2);
        world.sets[0]["status"]["terminatingReplicas"] = json!(1);
        let mut snapshot = world.snapshot();
        snapshot.terminating_replicas_support = TerminatingReplicasSupport::DroppedByServer;
        let mut draft = PlanDraft::new(&snapshot);
        let status = calculate_status(&draft);
        assert_eq!(status.terminating_replicas, Some(1));
        draft.status = DeploymentStatus { terminating_replicas: None, ..status.clone() };
        assert!(!draft.push_status_write(status.clone(), None, "nothing new"));
        assert!(draft.push_status_write(DeploymentStatus { ready_replicas: 1, ..status }, None, "another count"));
        assert_eq!(draft.status.terminating_replicas, Some(1), "the count is written with other changes");
    }

    /// DEPLOYMENT-55.
    #[test]
    fn the_available_condition_has_its_own_times() {
        let world = DeploymentBuilder::new(4).with_new_set("a", 4, 2);
        let plan = world.plan();
        let condition = plan.last_written_status().conditions.into_iter().find(|c| c.kind == AVAILABLE).unwrap();
        assert_eq!((&*condition.reason, &*condition.status), (MINIMUM_REPLICAS_UNAVAILABLE, "False"));
        assert_eq!((condition.last_update_time, condition.last_transition_time), (Some(world.now), Some(world.now)));
    }

    /// DEPLOYMENT-56.
    #[test]
    fn a_deployment_that_is_being_deleted_gets_only_a_status() {
        let mut world = DeploymentBuilder::new(4).with_set("a", 2, 1).with_new_set("b", 2, 2);
        world.is_deleting = true;
        let plan = world.plan();
        assert_eq!(
            (plan.size_changes(), plan.deleted_sets().len(), plan.revision_and_progress_of_status_writes().len()),
            (vec![], 0, 1)
        );
    }
}
