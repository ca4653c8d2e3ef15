//! The revision of the new ReplicaSet, and the annotations that it copies from the Deployment.

use std::collections::BTreeMap;

use crate::{
    decide::{
        conditions::{self, FOUND_NEW_REPLICA_SET},
        draft::{DraftReplicaSet, PlanDraft},
    },
    objects::{Deployment, REVISION_ANNOTATION, REVISION_HISTORY_ANNOTATION, is_never_copied_annotation},
    plan::{ReplicaSetChange, Step},
};

/// Maximum length of the revision history in bytes. Upstream: `maxRevHistoryLengthInChars`.
const MAX_REV_HISTORY_LENGTH_IN_CHARS: usize = 2000;

/// Returns the next revision: the highest revision of the old ReplicaSets, plus 1.
pub fn next_revision(draft: &PlanDraft<'_>) -> i64 {
    draft.old_sets().filter_map(DraftReplicaSet::revision).max().unwrap_or(0).max(0).saturating_add(1)
}

/// Plans updates of the annotations, the revision and `minReadySeconds` of the new ReplicaSet, and of the Deployment's revision.
///
/// Does nothing without a new ReplicaSet. Upstream: `getNewReplicaSet`, `SetNewReplicaSetAnnotations`.
pub fn plan_new_set_update(draft: &mut PlanDraft<'_>) {
    let Some(at) = draft.new_set_index else { return };
    let change = new_set_change(draft.deployment(), &draft.sets[at], next_revision(draft));
    if !change.annotations.is_empty() || change.min_ready_seconds.is_some() {
        let why = if change.annotations.contains_key(REVISION_ANNOTATION) {
            "its template is current again"
        } else {
            "annotations or minReadySeconds of the Deployment have changed"
        };
        draft.push_set_change(at, change, |action| Step::new(action, why));
    }
    let set = &draft.sets[at];
    let revision = set.annotation(REVISION_ANNOTATION).unwrap_or_default().to_owned();
    let revision = (draft.revision.as_deref().unwrap_or_default() != revision).then_some(revision);
    let mut status = draft.status.clone();
    if draft.spec().effective_progress_deadline_seconds().is_some()
        && conditions::find_progressing_condition(&status).is_none()
    {
        let message = format!("Found new replica set {:?}", set.name);
        conditions::set_progressing_condition(&mut status, FOUND_NEW_REPLICA_SET, &message, draft.snapshot.now);
    }
    draft.push_status_write(status, revision, "the new ReplicaSet exists");
}

/// Returns the changes to the new ReplicaSet. `next` is the highest revision of all other ReplicaSets, plus 1.
fn new_set_change(deployment: &Deployment, set: &DraftReplicaSet<'_>, next: i64) -> ReplicaSetChange {
    let mut annotations = annotations_to_copy(deployment, |key| set.annotation(key));
    let min_ready = deployment.spec.min_ready_seconds;
    let min_ready = set.cached.is_some_and(|source| source.spec.min_ready_seconds != min_ready).then_some(min_ready);
    let previous = set.annotation(REVISION_ANNOTATION);
    match previous.filter(|text| !text.is_empty()).map_or(Ok(0), str::parse::<i64>) {
        Ok(current) if current < next => {
            annotations.insert(REVISION_ANNOTATION.to_owned(), next.to_string());
            let history = set.annotation(REVISION_HISTORY_ANNOTATION).unwrap_or_default();
            if let Some(history) = previous.and_then(|previous| append_to_history(history, previous)) {
                annotations.insert(REVISION_HISTORY_ANNOTATION.to_owned(), history);
            }
        }
        // Another writer set a revision that is not an integer, so the annotations stay, unless the ReplicaSet is written
        // anyway.
        Err(_) if min_ready.is_none() => annotations.clear(),
        _ => {}
    }
    ReplicaSetChange { size_before_and_after: None, annotations, min_ready_seconds: min_ready }
}

/// Returns the annotations of the Deployment that a ReplicaSet with the annotations `known` lacks or has with another value.
pub fn annotations_to_copy<'s>(
    deployment: &Deployment,
    known: impl Fn(&str) -> Option<&'s str>,
) -> BTreeMap<String, String> {
    let all = deployment.metadata.annotations.iter();
    let missing = all.filter(|(key, value)| !is_never_copied_annotation(key) && known(key) != Some(value));
    missing.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

/// Appends a revision to the history, and drops the oldest revisions if the history becomes too long. Returns `None` if the
/// revision alone is too long.
fn append_to_history(history: &str, revision: &str) -> Option<String> {
    if history.is_empty() || history.starts_with(',') {
        return Some(revision.to_owned());
    }
    let mut total = history.len() + revision.len() + 1;
    let mut rest = Some(history);
    while let Some(entries) = rest.filter(|_| total > MAX_REV_HISTORY_LENGTH_IN_CHARS) {
        let (oldest, others) =
            entries.split_once(',').map_or((entries, None), |(oldest, others)| (oldest, Some(others)));
        total -= oldest.len() + 1;
        rest = others;
    }
    if total > MAX_REV_HISTORY_LENGTH_IN_CHARS {
        return None;
    }
    Some(rest.map_or_else(|| revision.to_owned(), |entries| format!("{entries},{revision}")))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::world::DeploymentBuilder;

    /// DEPLOYMENT-18.
    #[test]
    fn histories_grow_and_drop_their_oldest_entries() {
        assert_eq!(append_to_history("", "3").as_deref(), Some("3"));
        assert_eq!(append_to_history("1,3", "5").as_deref(), Some("1,3,5"));
        assert_eq!(append_to_history(",7", "5").as_deref(), Some("5"));
        let entries: Vec<String> = (10..).map(|n: i32| n.to_string()).take(600).collect();
        let mut long = entries.join(",");
        long.truncate(1998);
        let got = append_to_history(&long, "1234").unwrap();
        assert_eq!(got, format!("{},1234", &long[3..]));
        assert_eq!(got.len(), 2000);
        assert_eq!(
            append_to_history("1", &"9".repeat(2000)).as_deref(),
            Some(&*"9".repeat(2000)),
            "all older entries are dropped"
        );
        assert_eq!(append_to_history("1", &"9".repeat(2001)), None);
    }

    /// DEPLOYMENT-17, DEPLOYMENT-19.
    #[test]
    fn the_new_set_gets_the_highest_revision() {
        for (olds, new, want) in [
            (vec!["1", "2", "4"], Some("3"), Some(("5", Some("3")))),
            (vec!["1", "2"], Some("7"), None),
            (vec!["1", "2"], None, Some(("3", None))),
            (vec!["1", "x"], Some("1"), Some(("2", Some("1")))),
            (vec!["2"], Some("seven"), None),
            (vec!["2"], Some(""), Some(("3", Some("")))),
        ] {
            let mut world = DeploymentBuilder::new(3);
            for (at, revision) in olds.iter().enumerate() {
                world = world.with_set(&format!("old{at}"), 0, 0).with_annotation(REVISION_ANNOTATION, revision);
            }
            world = world.with_new_set("new", 3, 3);
            world = match new {
                Some(revision) => world.with_annotation(REVISION_ANNOTATION, revision),
                None => world.without_annotation(REVISION_ANNOTATION),
            };
            let plan = world.plan();
            let got = plan.annotations_of_set("new");
            let got = got
                .get(REVISION_ANNOTATION)
                .map(|r| (r.as_str(), got.get(REVISION_HISTORY_ANNOTATION).map(String::as_str)));
            assert_eq!(got, want, "{olds:?} {new:?}");
        }
    }

    /// DEPLOYMENT-15.
    #[test]
    fn annotations_are_copied_and_never_removed() {
        let mut world = DeploymentBuilder::new(3)
            .with_new_set("a", 3, 3)
            .with_annotation("gone", "1")
            .with_annotation("changed", "old");
        world.annotations = json!({REVISION_ANNOTATION: "1", "changed": "new", "added": "", ROLLBACK: "x",
            "kubectl.kubernetes.io/last-applied-configuration": "{}"});
        let got = world.plan().annotations_of_set("a");
        assert_eq!(got, BTreeMap::from([("changed".into(), "new".into()), ("added".into(), String::new())]));
    }

    const ROLLBACK: &str = crate::objects::ROLLBACK_TO_ANNOTATION;

    /// DEPLOYMENT-16.
    #[test]
    fn min_ready_seconds_are_copied_to_the_set() {
        let mut world = DeploymentBuilder::new(3).with_new_set("a", 3, 3);
        world.spec["minReadySeconds"] = json!(7);
        let change = world.plan().changes_of_set("a").remove(0);
        assert_eq!((change.min_ready_seconds, change.size_before_and_after), (Some(7), None));
    }

    /// DEPLOYMENT-19.
    #[test]
    fn an_unreadable_revision_is_left_alone_until_something_else_is_written() {
        let mut world = DeploymentBuilder::new(3).with_new_set("a", 3, 3).with_annotation(REVISION_ANNOTATION, "seven");
        world.annotations = json!({REVISION_ANNOTATION: "seven", "note": "1"});
        assert!(world.plan().changes_of_set("a").is_empty());
        world.spec["minReadySeconds"] = json!(7);
        assert_eq!(world.plan().annotations_of_set("a"), BTreeMap::from([("note".into(), "1".into())]));
    }

    /// DEPLOYMENT-61.
    #[test]
    fn an_existing_set_starts_the_progress_deadline() {
        let mut world = DeploymentBuilder::new(3).with_new_set("a", 3, 1);
        world.status = json!({});
        world.annotations = json!({});
        let plan = world.plan();
        assert_eq!(
            plan.revision_and_progress_of_status_writes()[0],
            (Some("1".to_owned()), (FOUND_NEW_REPLICA_SET.to_owned(), "True".to_owned()))
        );
    }

    proptest! {
        /// DEPLOYMENT-18.
        #[test]
        fn a_history_never_exceeds_its_maximum_length(entries in prop::collection::vec(0i64..10_000_000, 0..600), next in 1i64..i64::MAX) {
            let mut history = String::new();
            for entry in entries {
                history = append_to_history(&history, &entry.to_string()).unwrap();
                prop_assert!(history.len() <= MAX_REV_HISTORY_LENGTH_IN_CHARS);
            }
            let longer = append_to_history(&history, &next.to_string()).unwrap();
            prop_assert!(longer.ends_with(&next.to_string()));
        }
    }
}
