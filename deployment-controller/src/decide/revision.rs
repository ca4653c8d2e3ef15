//! The revision of the newest ReplicaSet, and what it takes over from the Deployment.

use std::collections::BTreeMap;

use crate::{
    decide::{
        conditions::{self, FOUND_NEW_REPLICA_SET},
        draft::{Draft, Set},
    },
    objects::{Deployment, REVISION, REVISION_HISTORY, is_never_copied},
    plan::{SetChange, Step},
};

/// The longest revision history in bytes. Upstream: `maxRevHistoryLengthInChars`.
const MAX_REV_HISTORY_LENGTH_IN_CHARS: usize = 2000;

/// The revision after those of the old ReplicaSets.
pub fn next(draft: &Draft<'_>) -> i64 {
    draft.old_sets().filter_map(Set::revision).max().unwrap_or(0).max(0).saturating_add(1)
}

/// Brings annotations, revision and `minReadySeconds` of the newest ReplicaSet up to date, and the Deployment's revision.
///
/// Nothing happens without such a ReplicaSet. Upstream: `getNewReplicaSet`, `SetNewReplicaSetAnnotations`.
pub fn sync(draft: &mut Draft<'_>) {
    let Some(at) = draft.new else { return };
    let change = change(draft.deployment(), &draft.sets[at], next(draft));
    if !change.annotations.is_empty() || change.min_ready_seconds.is_some() {
        let why = if change.annotations.contains_key(REVISION) {
            "its template is the newest again"
        } else {
            "it takes over what the Deployment says"
        };
        draft.change(at, change, |action| Step::new(action, why));
    }
    let set = &draft.sets[at];
    let revision = set.annotation(REVISION).unwrap_or_default().to_owned();
    let revision = (draft.revision.as_deref().unwrap_or_default() != revision).then_some(revision);
    let mut status = draft.status.clone();
    if draft.spec().deadline().is_some() && conditions::progress(&status).is_none() {
        let message = format!("Found new replica set {:?}", set.name);
        conditions::set(&mut status, conditions::progressing(FOUND_NEW_REPLICA_SET, &message, draft.snapshot.now));
    }
    draft.write(status, revision, "the newest ReplicaSet is known");
}

/// What changes of the newest ReplicaSet when `next` is the revision after those of all others.
fn change(deployment: &Deployment, set: &Set<'_>, next: i64) -> SetChange {
    let mut annotations = copied(deployment, |key| set.annotation(key));
    let min_ready = deployment.spec.min_ready_seconds;
    let min_ready = set.source.is_some_and(|source| source.spec.min_ready_seconds != min_ready).then_some(min_ready);
    let previous = set.annotation(REVISION);
    match previous.filter(|text| !text.is_empty()).map_or(Ok(0), str::parse::<i64>) {
        Ok(current) if current < next => {
            annotations.insert(REVISION.to_owned(), next.to_string());
            let history = set.annotation(REVISION_HISTORY).unwrap_or_default();
            if let Some(history) = previous.and_then(|previous| append(history, previous)) {
                annotations.insert(REVISION_HISTORY.to_owned(), history);
            }
        }
        // Somebody else's idea of a revision: hands off, unless the ReplicaSet is written anyway.
        Err(_) if min_ready.is_none() => annotations.clear(),
        _ => {}
    }
    SetChange { size: None, annotations, min_ready_seconds: min_ready }
}

/// The Deployment's annotations that a ReplicaSet with these `known` ones lacks or has otherwise. Those removed from the Deployment stay.
pub fn copied<'s>(deployment: &Deployment, known: impl Fn(&str) -> Option<&'s str>) -> BTreeMap<String, String> {
    let all = deployment.metadata.annotations.iter();
    let missing = all.filter(|(key, value)| !is_never_copied(key) && known(key) != Some(value));
    missing.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

/// The history with one more revision; its oldest entries go when it becomes too long. None if not even that helps.
fn append(history: &str, revision: &str) -> Option<String> {
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
    use crate::world::World;

    #[test]
    fn the_table_of_histories() {
        assert_eq!(append("", "3").as_deref(), Some("3"));
        assert_eq!(append("1,3", "5").as_deref(), Some("1,3,5"));
        assert_eq!(append(",7", "5").as_deref(), Some("5"));
        let entries: Vec<String> = (10..).map(|n: i32| n.to_string()).take(600).collect();
        let mut long = entries.join(",");
        long.truncate(1998);
        let got = append(&long, "1234").unwrap();
        assert_eq!(got, format!("{},1234", &long[3..]));
        assert_eq!(got.len(), 2000);
        assert_eq!(append("1", &"9".repeat(2000)).as_deref(), Some(&*"9".repeat(2000)), "all others had to go");
        assert_eq!(append("1", &"9".repeat(2001)), None);
    }

    #[test]
    fn the_table_of_revisions() {
        for (olds, new, want) in [
            (vec!["1", "2", "4"], Some("3"), Some(("5", Some("3")))),
            (vec!["1", "2"], Some("7"), None),
            (vec!["1", "2"], None, Some(("3", None))),
            (vec!["1", "x"], Some("1"), Some(("2", Some("1")))),
            (vec!["2"], Some("seven"), None),
            (vec!["2"], Some(""), Some(("3", Some("")))),
        ] {
            let mut world = World::new(3);
            for (at, revision) in olds.iter().enumerate() {
                world = world.set(&format!("old{at}"), 0, 0).annotate(REVISION, revision);
            }
            world = world.set("new", 3, 3).current("new");
            world = match new {
                Some(revision) => world.annotate(REVISION, revision),
                None => world.unannotate(REVISION),
            };
            let plan = world.plan();
            let got = plan.annotations("new");
            let got = got.get(REVISION).map(|r| (r.as_str(), got.get(REVISION_HISTORY).map(String::as_str)));
            assert_eq!(got, want, "{olds:?} {new:?}");
        }
    }

    #[test]
    fn annotations_are_copied_and_never_taken_back() {
        let mut world = World::new(3).set("a", 3, 3).current("a").annotate("gone", "1").annotate("changed", "old");
        world.annotations = json!({REVISION: "1", "changed": "new", "added": "", ROLLBACK: "x",
            "kubectl.kubernetes.io/last-applied-configuration": "{}"});
        let got = world.plan().annotations("a");
        assert_eq!(got, BTreeMap::from([("changed".into(), "new".into()), ("added".into(), String::new())]));
    }

    const ROLLBACK: &str = crate::objects::ROLLBACK_TO;

    #[test]
    fn min_ready_seconds_reach_the_set() {
        let mut world = World::new(3).set("a", 3, 3).current("a");
        world.spec["minReadySeconds"] = json!(7);
        let change = world.plan().changes("a").remove(0);
        assert_eq!((change.min_ready_seconds, change.size), (Some(7), None));
    }

    #[test]
    fn an_unreadable_revision_is_left_alone_until_something_else_is_written() {
        let mut world = World::new(3).set("a", 3, 3).current("a").annotate(REVISION, "seven");
        world.annotations = json!({REVISION: "seven", "note": "1"});
        assert!(world.plan().changes("a").is_empty());
        world.spec["minReadySeconds"] = json!(7);
        assert_eq!(world.plan().annotations("a"), BTreeMap::from([("note".into(), "1".into())]));
    }

    #[test]
    fn a_set_that_was_there_starts_the_deadline() {
        let mut world = World::new(3).set("a", 3, 1).current("a");
        world.status = json!({});
        world.annotations = json!({});
        let plan = world.plan();
        assert_eq!(plan.statuses()[0], (Some("1".to_owned()), (FOUND_NEW_REPLICA_SET.to_owned(), "True".to_owned())));
    }

    proptest! {
        #[test]
        fn a_history_never_grows_beyond_its_bound(entries in prop::collection::vec(0i64..10_000_000, 0..600), next in 1i64..i64::MAX) {
            let mut history = String::new();
            for entry in entries {
                history = append(&history, &entry.to_string()).unwrap();
                prop_assert!(history.len() <= MAX_REV_HISTORY_LENGTH_IN_CHARS);
            }
            let longer = append(&history, &next.to_string()).unwrap();
            prop_assert!(longer.ends_with(&next.to_string()));
        }
    }
}
