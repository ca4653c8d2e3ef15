//! The deprecated annotation that requests a rollback of a Deployment.

use crate::{
    decide::{
        create,
        draft::{Draft, Set},
    },
    objects::ROLLBACK_TO,
    plan::{Action, Event, SetRef, Step},
    snapshot::Snapshot,
};

/// Returns the requested revision; 0 means the revision before the newest. A value that is not an integer is ignored.
pub fn requested(snapshot: &Snapshot) -> Option<i64> {
    snapshot.deployment.metadata.annotations.get(ROLLBACK_TO)?.parse().ok()
}

/// Plans the rollback and the removal of the annotation; only the removal if the rollback is impossible.
///
/// Upstream: `rollback`.
pub fn roll_back(draft: &mut Draft<'_>, revision: i64) {
    if draft.new.is_none() {
        create::create(draft);
    }
    if draft.fails() {
        return;
    }
    let not_found = |message: &str| {
        let event = Event::warning("DeploymentRollbackRevisionNotFound", message);
        Step::new(Action::ClearRollback, "there is nothing to roll back to").telling(event)
    };
    let revision = if revision == 0 { last(draft) } else { revision };
    if revision == 0 {
        return draft.push(not_found("Unable to find last revision."));
    }
    let found = draft.old_sets().chain(draft.new_set()).find(|set| set.revision() == Some(revision));
    let Some(found) = found else {
        return draft.push(not_found("Unable to find the revision to rollback to."));
    };
    let deployment = &draft.deployment().metadata.name;
    let other = found.source.filter(|source| !source.spec.template.is_of(&draft.spec().template));
    let step = if let Some(source) = other {
        let action = Action::RollBack(SetRef::of(&source.metadata));
        let message = format!("Rolled back deployment {deployment:?} to revision {revision}");
        Step::new(action, "a rollback was requested").telling(Event::normal("DeploymentRollback", message))
    } else {
        let message = format!("The rollback revision contains the same template as current deployment {deployment:?}");
        let event = Event::warning("DeploymentRollbackTemplateUnchanged", message);
        Step::new(Action::ClearRollback, "the template is already the requested one").telling(event)
    };
    draft.push(step);
}

/// Returns the second-highest revision; 0 if there is none.
fn last(draft: &Draft<'_>) -> i64 {
    let mut revisions: Vec<i64> = draft.sets.iter().filter_map(Set::revision).collect();
    revisions.sort_unstable();
    revisions.iter().rev().nth(1).copied().unwrap_or(0).max(0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{objects::REVISION, world::World};

    fn world(request: &str) -> World {
        let mut world = World::new(3)
            .set("a", 0, 0)
            .annotate(REVISION, "1")
            .set("b", 0, 0)
            .annotate(REVISION, "2")
            .set("c", 3, 3)
            .annotate(REVISION, "3")
            .current("c");
        world.annotations = json!({REVISION: "3", ROLLBACK_TO: request});
        world
    }

    /// DEPLOYMENT-46, DEPLOYMENT-49.
    #[test]
    fn requests_are_fulfilled_or_cleared() {
        for (request, target, want) in [
            ("1", Some("a"), "Rolled back deployment \"web\" to revision 1"),
            ("0", Some("b"), "Rolled back deployment \"web\" to revision 2"),
            ("3", None, "The rollback revision contains the same template as current deployment \"web\""),
            ("9", None, "Unable to find the revision to rollback to."),
            ("-1", None, "Unable to find the revision to rollback to."),
        ] {
            let plan = world(request).plan();
            assert_eq!(plan.events(), [want], "{request}");
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
        let mut only = World::new(3).set("c", 3, 3).current("c");
        only.annotations = json!({REVISION: "1", ROLLBACK_TO: "0"});
        assert_eq!(only.plan().events(), ["Unable to find last revision."]);
        let mut twice = World::new(3).set("a", 0, 0).annotate(REVISION, "4").set("c", 3, 3).annotate(REVISION, "4");
        twice = twice.current("c");
        twice.annotations = json!({REVISION: "4", ROLLBACK_TO: "0"});
        let event = &twice.plan().events()[0];
        assert_eq!(event, "Rolled back deployment \"web\" to revision 4");
    }

    /// DEPLOYMENT-46.
    #[test]
    fn requests_that_are_not_integers_or_come_during_a_pause_are_left_alone() {
        for request in ["", "x", "1.5"] {
            assert!(world(request).plan().events().is_empty(), "{request:?}");
        }
        let mut paused = world("1");
        paused.spec["paused"] = json!(true);
        assert!(paused.plan().events().is_empty());
    }
}
