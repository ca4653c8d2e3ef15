//! The deprecated annotation that requests a rollback of a Deployment.

use crate::{
    decide::{
        create,
        draft::{DraftReplicaSet, PlanDraft},
    },
    objects::ROLLBACK_TO_ANNOTATION,
    plan::{Action, Event, ReplicaSetNameAndUid, Step},
    snapshot::Snapshot,
};

/// Returns the requested revision; 0 means the revision before the newest. A value that is not an integer is ignored.
pub fn requested_rollback_revision(snapshot: &Snapshot) -> Option<i64> {
    snapshot.deployment.metadata.annotations.get(ROLLBACK_TO_ANNOTATION)?.parse().ok()
}

/// Plans the rollback and the removal of the annotation; only the removal if the rollback is impossible. Upstream:
/// `rollback`.
pub fn plan_rollback(draft: &mut PlanDraft<'_>, revision: i64) {
    if draft.new_set_index.is_none() {
        create::plan_new_replica_set(draft);
    }
    if draft.failure.is_some() {
        return;
    }
    let not_found = |message: &str| {
        let event = Event::warning("DeploymentRollbackRevisionNotFound", message);
        Step::new(Action::ClearRollback, "there is nothing to roll back to").with_event(event)
    };
    let revision = if revision == 0 { previous_revision(draft) } else { revision };
    if revision == 0 {
        return draft.steps.push(not_found("Unable to find last revision."));
    }
    let found = draft.old_sets().chain(draft.new_set()).find(|set| set.revision() == Some(revision));
    let Some(found) = found else {
        return draft.steps.push(not_found("Unable to find the revision to rollback to."));
    };
    let deployment = &draft.deployment().metadata.name;
    let other = found.cached.filter(|source| !source.spec.template.is_digest_of(&draft.spec().template));
    let step = if let Some(source) = other {
        let action = Action::RollBack(ReplicaSetNameAndUid::from_meta(&source.metadata));
        let message = format!("Rolled back deployment {deployment:?} to revision {revision}");
        Step::new(action, "a rollback was requested").with_event(Event::normal("DeploymentRollback", message))
    } else {
        let message = format!("The rollback revision contains the same template as current deployment {deployment:?}");
        let event = Event::warning("DeploymentRollbackTemplateUnchanged", message);
        Step::new(Action::ClearRollback, "the template is already the requested one").with_event(event)
    };
    draft.steps.push(step);
}

/// Returns the second-highest revision; 0 if there are fewer than two.
fn previous_revision(draft: &PlanDraft<'_>) -> i64 {
    let mut revisions: Vec<i64> = draft.sets.iter().filter_map(DraftReplicaSet::revision).collect();
    revisions.sort_unstable();
    revisions.iter().rev().nth(1).copied().unwrap_or(0).max(0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{objects::REVISION_ANNOTATION, world::DeploymentBuilder};

    fn world(request: &str) -> DeploymentBuilder {
        let mut world = DeploymentBuilder::new(3)
            .with_set("a", 0, 0)
            .with_annotation(REVISION_ANNOTATION, "1")
            .with_set("b", 0, 0)
            .with_annotation(REVISION_ANNOTATION, "2")
            .with_set("c", 3, 3)
            .with_annotation(REVISION_ANNOTATION, "3")
            .with_current_template("c");
        world.annotations = json!({REVISION_ANNOTATION: "3", ROLLBACK_TO_ANNOTATION: request});
        world
    }

    /// DEPLOYMENT-46, DEPLOYMENT-49.
    #[test]
    fn requests_are_fulfilled_or_cleared() {
        for (request, target, want) in [
            ("1", Some("a"), "Rollback: Rolled back deployment \"web\" to revision 1"),
            ("0", Some("b"), "Rollback: Rolled back deployment \"web\" to revision 2"),
            (
                "3",
                None,
                "RollbackTemplateUnchanged: The rollback revision contains the same template as current deployment \"web\"",
            ),
            ("9", None, "RollbackRevisionNotFound: Unable to find the revision to rollback to."),
            ("-1", None, "RollbackRevisionNotFound: Unable to find the revision to rollback to."),
        ] {
            let plan = world(request).plan();
            let events = plan.steps.iter().filter_map(|step| step.event.as_ref());
            let events: Vec<String> = events.map(|event| format!("{}: {}", event.reason, event.message)).collect();
            assert_eq!(events, [format!("Deployment{want}")], "{request}");
            let last = &plan.steps.last().unwrap().action;
            match target {
                Some(name) => assert!(matches!(last, Action::RollBack(set) if *set.name == *name), "{request}"),
                None => assert_eq!(*last, Action::ClearRollback, "{request}"),
            }
        }
    }

    /// DEPLOYMENT-46.
    #[test]
    fn the_last_revision_needs_two_revisions() {
        let mut only = DeploymentBuilder::new(3).with_new_set("c", 3, 3);
        only.annotations = json!({REVISION_ANNOTATION: "1", ROLLBACK_TO_ANNOTATION: "0"});
        assert_eq!(only.plan().event_messages(), ["Unable to find last revision."]);
        let mut twice = DeploymentBuilder::new(3)
            .with_set("a", 0, 0)
            .with_annotation(REVISION_ANNOTATION, "4")
            .with_set("c", 3, 3)
            .with_annotation(REVISION_ANNOTATION, "4");
        twice = twice.with_current_template("c");
        twice.annotations = json!({REVISION_ANNOTATION: "4", ROLLBACK_TO_ANNOTATION: "0"});
        let event = &twice.plan().event_messages()[0];
        assert_eq!(event, "Rolled back deployment \"web\" to revision 4");
    }

    /// DEPLOYMENT-46.
    #[test]
    fn requests_that_are_not_integers_or_come_during_a_pause_are_left_alone() {
        for request in ["", "x", "1.5"] {
            assert!(world(request).plan().event_messages().is_empty(), "{request:?}");
        }
        let mut paused = world("1");
        paused.spec["paused"] = json!(true);
        assert!(paused.plan().event_messages().is_empty());
    }
}
