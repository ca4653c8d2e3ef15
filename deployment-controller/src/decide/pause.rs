//! Writes the condition `Progressing` when a pause begins or ends.
//!
//! Without this condition, a Deployment paused for longer than its progress deadline would be reported as stuck when it resumes.

use crate::decide::{
    conditions::{self, PAUSED, PROGRESS_DEADLINE_EXCEEDED, RESUMED, progress_is},
    draft::Draft,
};

/// Plans the condition `Progressing` for the start or the end of a pause. An exceeded deadline stays in the condition.
///
/// Upstream: `checkPausedConditions`.
pub fn note(draft: &mut Draft<'_>) {
    if draft.spec().deadline().is_none() || progress_is(&draft.status, PROGRESS_DEADLINE_EXCEEDED) {
        return;
    }
    let (reason, message, why) = match (draft.spec().paused, progress_is(&draft.status, PAUSED)) {
        (true, false) => (PAUSED, "Deployment is paused", "a pause begins"),
        (false, true) => (RESUMED, "Deployment is resumed", "a pause ends"),
        _ => return,
    };
    let mut status = draft.status.clone();
    conditions::set(&mut status, conditions::progressing(reason, message, draft.snapshot.now));
    draft.write(status, None, why);
}

#[cfg(test)]
mod tests {
    use crate::{decide::conditions::*, world::World};

    /// DEPLOYMENT-45.
    #[test]
    fn a_pause_and_its_end_are_reported_once() {
        let mut world = World::new(3).set("a", 3, 3).current("a").condition(PROGRESSING, NEW_REPLICA_SET_AVAILABLE);
        world.spec["paused"] = true.into();
        let plan = world.plan();
        assert_eq!(plan.progress(), (PAUSED, "Unknown", "Deployment is paused"));
        world.store(&plan);
        assert_eq!(world.settle(), 0);
        world.spec["paused"] = false.into();
        let plan = world.plan();
        assert_eq!(plan.statuses()[0].1, (RESUMED.to_owned(), "Unknown".to_owned()));
    }

    /// DEPLOYMENT-45.
    #[test]
    fn a_stuck_rollout_stays_stuck() {
        let mut world = World::new(3).set("a", 3, 3).current("a").condition(PROGRESSING, PROGRESS_DEADLINE_EXCEEDED);
        world.spec["paused"] = true.into();
        assert_eq!(world.plan().progress().0, PROGRESS_DEADLINE_EXCEEDED);
    }

    /// DEPLOYMENT-45.
    #[test]
    fn nothing_is_reported_without_a_deadline() {
        let mut world = World::new(3).set("a", 3, 3).current("a");
        world.status = serde_json::json!({});
        world.spec["paused"] = true.into();
        world.spec["progressDeadlineSeconds"] = i32::MAX.into();
        assert_eq!(world.plan().progress().0, "");
    }
}
