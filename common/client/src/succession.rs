//! What a new leader must have seen before it decides anything.
//!
//! A standby's caches are warm, and may lag: Pods that the predecessor created last may be missing, and would be created
//! again. A leader that ends in good order therefore leaves in the Lease, beside its release, the newest version it has
//! written of each resource ([`WrittenVersions`]). Its successor waits until its caches are there, which they are in most cases. Without
//! such a note (a crash, a write whose answer was lost) only the newest state of all that is read will do.
//!
//! A deletion that is answered without an object has no version here. What it means for a successor is little: deletions name
//! the uid they mean, and a second one finds nothing.

use std::{
    collections::{BTreeMap, VecDeque},
    hash::BuildHasher as _,
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::{
    clock::Instant,
    map::Seeded,
    meta::Version,
    object::{Resource, Target},
};

/// The annotation of a Lease that holds what its last holder left.
pub const ANNOTATION: &str = "nonet/written";

/// For how long a write whose answer was lost may still take effect: a server ends requests after a minute.
const LOST_WRITE: Duration = Duration::from_secs(65);
/// How far into an answer its own version stands at most: names come before it, and little else.
const METADATA: usize = 2048;
const FIELD: &[u8] = b"\"resourceVersion\":\"";

/// How many of the latest writes are remembered where somebody asks for them.
const RECENT: usize = 1024;

/// What one process has written. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Writes(Arc<Mutex<Noted>>);

#[derive(Debug, Default)]
struct Noted {
    newest: BTreeMap<Resource, Version>,
    /// The latest writes to objects of certain kinds, if somebody asks for them.
    recent: Option<Recent>,
    /// What a predecessor had left, and the one before it.
    inherited: WrittenVersions,
    lost: Option<Instant>,
}

/// A write that was answered with an object.
#[derive(Clone, Copy, Debug)]
struct RecentWrite {
    version: Version,
    object: u64,
    at: Instant,
}

/// The latest writes to objects of certain kinds, the oldest first.
#[derive(Debug)]
struct Recent {
    kinds: Vec<(&'static str, &'static str)>,
    writes: VecDeque<RecentWrite>,
}

impl Writes {
    /// Notes a write by the object it was answered with.
    pub fn note(&self, target: Target<'_>, answer: &[u8], now: Instant) {
        let version = version_of(answer);
        if version.is_known() {
            let mut noted = self.0.lock();
            let newest = noted.newest.entry(target.resource).or_default();
            *newest = version.max(*newest);
            if let Some(Recent { kinds, writes }) = &mut noted.recent
                && kinds.contains(&(target.resource.group, target.resource.plural))
            {
                if writes.len() == RECENT {
                    writes.pop_front();
                }
                writes.push_back(RecentWrite { version, object: object_id(target.namespace, target.name), at: now });
            }
        }
    }

    /// Remembers the latest [`RECENT`] writes to objects of these kinds from now on: API group and plural name.
    pub fn keep_recent(&self, kinds: Vec<(&'static str, &'static str)>) {
        self.0.lock().recent = Some(Recent { kinds, writes: VecDeque::new() });
    }

    /// Whether that version of an object is one of the latest writes.
    pub fn has_written(&self, version: Version) -> bool {
        let noted = self.0.lock();
        noted.recent.as_ref().is_some_and(|recent| recent.writes.iter().any(|write| write.version == version))
    }

    /// Whether this process may have written that version of an object, or to an object of that name since `since`. It may
    /// have if the answer to a write was lost since then, or if not every write since then is remembered.
    pub fn may_have_written(&self, version: Version, namespace: &str, name: &str, since: Instant) -> bool {
        let noted = self.0.lock();
        let Some(Recent { writes, .. }) = &noted.recent else { return true };
        let remembers_all = writes.len() < RECENT || writes.front().is_some_and(|oldest| oldest.at < since);
        let object = object_id(namespace, name);
        !remembers_all
            || writes.iter().any(|write| write.version == version || (write.object == object && write.at >= since))
            || noted.lost.is_some_and(|lost| lost >= since)
    }

    /// Notes that a write was not answered.
    pub fn note_lost(&self, now: Instant) {
        self.0.lock().lost = Some(now);
    }

    /// Takes over what a predecessor left: what has not been written since is still to be seen by the next.
    pub fn inherit(&self, left: &WrittenVersions) {
        self.0.lock().inherited = left.clone();
    }

    /// What this process leaves to the next; nothing if it does not know itself.
    pub fn left(&self, now: Instant) -> Option<WrittenVersions> {
        let noted = self.0.lock();
        if noted.lost.is_some_and(|lost| now.saturating_duration_since(lost) < LOST_WRITE) {
            return None;
        }
        let mut left = noted.inherited.clone();
        for (resource, version) in &noted.newest {
            let known = left.0.entry(resource.to_string()).or_default();
            *known = (*version).max(*known);
        }
        Some(left)
    }
}

/// Tells objects of one process apart, but for rare collisions.
fn object_id(namespace: &str, name: &str) -> u64 {
    Seeded::default().hash_one((namespace, name))
}

/// The version of the object in an answer: the first there is, since metadata comes before everything that could name others.
fn version_of(answer: &[u8]) -> Version {
    let head = &answer[..answer.len().min(METADATA)];
    let Some(at) = head.windows(FIELD.len()).position(|window| window == FIELD) else { return Version::UNKNOWN };
    let digits = head[at + FIELD.len()..].split(|byte| *byte == b'"').next().unwrap_or_default();
    std::str::from_utf8(digits).map_or(Version::UNKNOWN, Version::parse)
}

/// The newest version a leader has written of each resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrittenVersions(BTreeMap<String, Version>);

#[derive(Serialize, Deserialize)]
struct Note {
    /// Those of the Lease it was left in. A holder that does not know this note leaves an old one in place, and counts on.
    transitions: i64,
    written: WrittenVersions,
}

impl WrittenVersions {
    /// The version a cache of this resource has to show; unknown if nothing was written.
    pub fn of(&self, resource: Resource) -> Version {
        self.0.get(&resource.to_string()).copied().unwrap_or_default()
    }

    /// As the value of [`ANNOTATION`], in a Lease that has changed hands so often.
    pub fn write(&self, transitions: i64) -> String {
        serde_json::json!(Note { transitions, written: self.clone() }).to_string()
    }

    /// What the value of [`ANNOTATION`] says, if it was left by the last holder.
    pub fn read(text: &str, transitions: i64) -> Option<Self> {
        let note: Note = serde_json::from_str(text).ok()?;
        (note.transitions == transitions).then_some(note.written)
    }
}

/// How this process came to lead.
#[derive(Clone, Debug)]
pub struct Succession {
    /// Since when it may write.
    pub since: Instant,
    /// What its predecessor wrote; nothing if that is not known.
    pub left: Option<Arc<WrittenVersions>>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;

    const PODS: Resource = Resource { group: "", version: "v1", plural: "pods", kind: "Pod", namespaced: true };
    const SETS: Resource =
        Resource { group: "apps", version: "v1", plural: "replicasets", kind: "ReplicaSet", namespaced: true };

    #[tokio::test(start_paused = true)]
    async fn the_newest_version_of_each_resource_is_left() {
        let (writes, clock) = (Writes::default(), Clock::simulated(jiff::Timestamp::UNIX_EPOCH, 0));
        let note = |resource, answer: &str| {
            writes.note(Target::object(resource, "shop", ""), answer.as_bytes(), clock.instant());
        };
        note(PODS, r#"{"kind":"Pod","metadata":{"name":"a","uid":"u","resourceVersion":"12"},"spec":{}}"#);
        note(PODS, r#"{"kind":"Pod","metadata":{"name":"b","resourceVersion":"11"}}"#);
        note(SETS, r#"{"kind":"Status","metadata":{},"status":"Success"}"#);
        let left = writes.left(clock.instant()).unwrap();
        assert_eq!((left.of(PODS), left.of(SETS)), (Version::parse("12"), Version::UNKNOWN));
        let text = left.write(3);
        assert_eq!(text, r#"{"transitions":3,"written":{"pods":"12"}}"#);
        assert_eq!(WrittenVersions::read(&text, 3), Some(left));
        assert_eq!(WrittenVersions::read(&text, 4), None, "somebody else has held the Lease since");
        assert_eq!(WrittenVersions::read("{}", 3), None);
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_inherited_and_not_written_since_is_handed_on() {
        let (writes, clock) = (Writes::default(), Clock::simulated(jiff::Timestamp::UNIX_EPOCH, 0));
        writes.inherit(
            &WrittenVersions::read(r#"{"transitions":1,"written":{"pods":"40","replicasets.apps":"9"}}"#, 1).unwrap(),
        );
        let answer = br#"{"metadata":{"resourceVersion":"41"}}"#;
        writes.note(Target::object(PODS, "shop", ""), answer, clock.instant());
        let left = writes.left(clock.instant()).unwrap();
        assert_eq!((left.of(PODS), left.of(SETS)), (Version::parse("41"), Version::parse("9")));
    }

    #[tokio::test(start_paused = true)]
    async fn who_does_not_know_what_was_written_leaves_nothing_for_a_while() {
        let (writes, clock) = (Writes::default(), Clock::simulated(jiff::Timestamp::UNIX_EPOCH, 0));
        writes.note_lost(clock.instant());
        assert_eq!(writes.left(clock.instant()), None);
        clock.sleep(LOST_WRITE).await;
        assert_eq!(writes.left(clock.instant()), Some(WrittenVersions::default()));
    }
}
