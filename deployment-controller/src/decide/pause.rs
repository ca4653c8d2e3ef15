//! Writes the condition `Progressing` when a pause begins or ends.
//!
//! Without this condition, a Deployment paused for longer than its progress deadline would be reported as stuck when it resumes.

use crate::decide::{
    conditions::{self, DEPLOYMENT_PAUSED, DEPLOYMENT_RESUMED, PROGRESS_DEADLINE_EXCEEDED, has_progressing_reason},
    draft::PlanDraft,
};

/// Plans the condition `Progressing` for the start or the end of a pause. Does nothing if the deadline is exceeded.
/// Upstream: `checkPausedConditions`.
pub fn plan_pause_condition(draft: &mut PlanDraft<'_>) {
    if draft.spec().effective_progress_deadline_seconds().is_none()
        || has_progressing_reason(&draft.status, PROGRESS_DEADLINE_EXCEEDED)
    {
        return;
    }
    let (reason, message, why) = match (draft.spec().paused, has_progressing_reason(&draft.status, DEPLOYMENT_PAUSED)) {
        (true, false) => (DEPLOYMENT_PAUSED, "Deployment is paused", "a pause begins"),
        (false, true) => (DEPLOYMENT_RESUMED, "Deployment is resumed", "a pause ends"),
        _ => return,
    };
    let mut status = draft.status.clone();
    conditions::set_progressing_condition(&mut status, reason, message, draft.snapshot.now);
    draft.push_status_write(status, None, why);
}

#[cfg(test)]
mod tests {
    use crate::{decide::conditions::*, world::DeploymentBuilder};

    /// DEPLOYMENT-45.
    #[test]
    fn a_pause_and_its_end_are_reported_once() {
        let mut world =
            DeploymentBuilder::new(3).with_new_set("a", 3, 3).with_condition(PROGRESSING, NEW_REPLICA_SET_AVAILABLE);
        world.spec["paused"] = true.into();
        let plan = world.plan();
        assert_eq!(plan.last_progressing_condition(), (DEPLOYMENT_PAUSED, "Unknown", "Deployment is paused"));
        world.apply_plan(&plan);
        assert_eq!(world.apply_until_settled(), 0);
        world.spec["paused"] = false.into();
        let plan = world.plan();
        assert_eq!(
            plan.revision_and_progress_of_status_writes()[0].1,
            (DEPLOYMENT_RESUMED.to_owned(), "Unknown".to_owned())
        );
    }

    /// DEPLOYMENT-44.
    #[test]
    fn a_pause_suspends_a_rollout() {
        let mut world = DeploymentBuilder::new(4).with_set("a", 3, 3).with_new_set("b", 2, 2);
        world.spec["paused"] = true.into();
        assert_eq!(world.plan().size_changes(), []);
        world.spec["paused"] = false.into();
        assert!(!world.plan().size_changes().is_empty());
    }

    /// DEPLOYMENT-45.
    #[test]
    fn a_stuck_rollout_stays_stuck() {
        let mut world =
            DeploymentBuilder::new(3).with_new_set("a", 3, 3).with_condition(PROGRESSING, PROGRESS_DEADLINE_EXCEEDED);
        world.spec["paused"] = true.into();
        assert_eq!(world.plan().last_progressing_condition().0, PROGRESS_DEADLINE_EXCEEDED);
    }

    /// DEPLOYMENT-45.
    #[test]
    fn nothing_is_reported_without_a_deadline() {
        let mut world = DeploymentBuilder::new(3).with_new_set("a", 3, 3);
        world.status = serde_json::json!({});
        world.spec["paused"] = true.into();
        world.spec["progressDeadlineSeconds"] = i32::MAX.into();
        assert_eq!(world.plan().last_progressing_condition().0, "");
    }
}
