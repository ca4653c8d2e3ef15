//! The writes that the caches of a new leader must show before it decides.
//!
//! The caches of a standby are filled but may lag, so the last Pods that the predecessor created may be missing, and would
//! be created again. A leader that shuts down in good order therefore records in the Lease that it releases, for each resource,
//! the newest version that it wrote ([`WrittenVersions`]). Its successor waits until its caches have reached these versions,
//! usually without a wait. Without these versions (after a crash, or after a write without an answer), the successor
//! waits until its caches are as new as its own term.
//!
//! A deletion that is answered without an object adds no version to the Lease. The successor does not need that version,
//! because a deletion names the UID of its object, so the server refuses to delete a later object with the same name.

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
    head::ObjectHead,
    map::SeededHashState,
    meta::ResourceVersion,
    object::{EncodedObject, RequestTarget, Resource},
    wire::Envelope,
};

/// Lease annotation with the [`WrittenVersions`] of the last holder.
pub const WRITTEN_VERSIONS_ANNOTATION: &str = "nonet/written";

/// Time for which a write may still take effect after its answer was lost, because a server ends requests after a minute.
const LOST_WRITE: Duration = Duration::from_secs(65);
/// Number of bytes at the beginning of an answer that are searched for the version. Only names and other short fields precede
/// the version.
const METADATA: usize = 2048;
const FIELD: &[u8] = b"\"resourceVersion\":\"";

/// Number of the latest writes that [`WriteLog::remember_recent_writes`] keeps.
const RECENT: usize = 1024;

/// Record of the writes of one process. Clones share the record.
#[derive(Clone, Debug, Default)]
pub struct WriteLog(Arc<Mutex<WriteLogState>>);

#[derive(Debug, Default)]
struct WriteLogState {
    newest: BTreeMap<Resource, ResourceVersion>,
    /// The latest writes to selected kinds; `None` until [`WriteLog::remember_recent_writes`] is called.
    recent: Option<Recent>,
    /// Versions that the predecessors wrote, from the Lease.
    inherited: WrittenVersions,
    lost: Option<Instant>,
}

/// A write with the version that its answer reported.
#[derive(Clone, Copy, Debug)]
struct RecentWrite {
    version: ResourceVersion,
    object: u64,
    at: Instant,
}

/// The latest writes to the selected kinds, the oldest first.
#[derive(Debug)]
struct Recent {
    kinds: Vec<(&'static str, &'static str)>,
    writes: VecDeque<RecentWrite>,
}

impl WriteLog {
    /// Records a successful write under the version of the object in its `answer`.
    pub fn record_write_answer(&self, target: RequestTarget<'_>, answer: &[u8], now: Instant) {
        let version = version_of(answer);
        if version.is_known() {
            let mut noted = self.0.lock();
            let newest = noted.newest.entry(target.resource.clone()).or_default();
            *newest = version.max(*newest);
            if let Some(Recent { kinds, writes }) = &mut noted.recent
                && kinds.contains(&(target.resource.group(), target.resource.plural()))
            {
                if writes.len() == RECENT {
                    writes.pop_front();
                }
                writes.push_back(RecentWrite { version, object: object_id(target.namespace, target.name), at: now });
            }
        }
    }

    /// Begins to remember the latest [`RECENT`] writes to objects of `kinds`, each given by an API group and a plural name.
    pub fn remember_recent_writes(&self, kinds: Vec<(&'static str, &'static str)>) {
        self.0.lock().recent = Some(Recent { kinds, writes: VecDeque::new() });
    }

    /// Whether one of the remembered writes produced `version`.
    pub fn has_written_version(&self, version: ResourceVersion) -> bool {
        let noted = self.0.lock();
        noted.recent.as_ref().is_some_and(|recent| recent.writes.iter().any(|write| write.version == version))
    }

    /// Whether this process may have produced `version`, or may have written to the object with this name at or after `since`.
    ///
    /// Also true if the answer to a write was lost at or after `since`, or if not all writes from `since` on are remembered.
    pub fn may_have_written_object(
        &self,
        version: ResourceVersion,
        namespace: &str,
        name: &str,
        since: Instant,
    ) -> bool {
        let noted = self.0.lock();
        let Some(Recent { writes, .. }) = &noted.recent else { return true };
        let remembers_all = writes.len() < RECENT || writes.front().is_some_and(|oldest| oldest.at < since);
        let object = object_id(namespace, name);
        !remembers_all
            || writes.iter().any(|write| write.version == version || (write.object == object && write.at >= since))
            || noted.lost.is_some_and(|lost| lost >= since)
    }

    /// Records that the answer to a write was lost, so that its version is unknown.
    pub fn record_lost_write_answer(&self, now: Instant) {
        self.0.lock().lost = Some(now);
    }

    /// Keeps the versions that the predecessor wrote, to leave them in the Lease for the next leader, too.
    pub fn inherit_written_versions(&self, versions: &WrittenVersions) {
        self.0.lock().inherited = versions.clone();
    }

    /// Returns the versions to leave in the Lease; `None` while a write without an answer may still take effect.
    pub fn written_versions_for_successor(&self, now: Instant) -> Option<WrittenVersions> {
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

/// Returns a hash that identifies an object within this process, except for rare collisions.
fn object_id(namespace: &str, name: &str) -> u64 {
    SeededHashState::default().hash_one((namespace, name))
}

/// Returns the version of the object in an answer. This is the first `resourceVersion`, because the metadata precedes every
/// part that could contain another one.
fn version_of(answer: &[u8]) -> ResourceVersion {
    if let Ok(envelope) = Envelope::decode(answer) {
        // A deletion may be answered with a status, which has no version.
        let object = EncodedObject::Protobuf(envelope.object);
        let head = (envelope.kind != "Status").then(|| object.decode_metadata::<ObjectHead<'_>>().ok()).flatten();
        return head.map(|head| head.resource_version()).unwrap_or_default();
    }
    let head = &answer[..answer.len().min(METADATA)];
    let Some(at) = head.windows(FIELD.len()).position(|window| window == FIELD) else {
        return ResourceVersion::UNKNOWN;
    };
    let digits = head[at + FIELD.len()..].split(|byte| *byte == b'"').next().unwrap_or_default();
    std::str::from_utf8(digits).map_or(ResourceVersion::UNKNOWN, ResourceVersion::parse)
}

/// For each resource, the newest version that a leader has written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrittenVersions(BTreeMap<String, ResourceVersion>);

#[derive(Serialize, Deserialize)]
struct AnnotationValue {
    /// `leaseTransitions` of the Lease when the annotation was written. A later holder that does not know the annotation
    /// keeps it but increments `leaseTransitions`, which shows that the versions are outdated.
    transitions: i64,
    written: WrittenVersions,
}

impl WrittenVersions {
    /// Returns the version that a cache of `resource` must reach; unknown if the leader wrote none.
    pub fn newest_written_version(&self, resource: &Resource) -> ResourceVersion {
        self.0.get(&resource.to_string()).copied().unwrap_or_default()
    }

    /// Formats the value of [`WRITTEN_VERSIONS_ANNOTATION`] for a Lease with this count of transitions.
    pub fn to_annotation(&self, transitions: i64) -> String {
        serde_json::json!(AnnotationValue { transitions, written: self.clone() }).to_string()
    }

    /// Parses the value of [`WRITTEN_VERSIONS_ANNOTATION`]; `None` if it is invalid, or if another process has held the Lease
    /// since the annotation was written.
    pub fn from_annotation(text: &str, transitions: i64) -> Option<Self> {
        let note: AnnotationValue = serde_json::from_str(text).ok()?;
        (note.transitions == transitions).then_some(note.written)
    }
}

/// The start of this process's term as the leader.
#[derive(Clone, Debug)]
pub struct LeadershipStart {
    /// Time at which the gate for writes was opened.
    pub leading_since: Instant,
    /// Versions that the predecessor wrote; `None` if they are unknown.
    pub versions_written_by_predecessor: Option<Arc<WrittenVersions>>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        clock::Clock,
        wire::{encode_object, messages},
    };

    const PODS: Resource = Resource::namespaced("", "v1", "pods", "Pod");
    const SETS: Resource = Resource::namespaced("apps", "v1", "replicasets", "ReplicaSet");

    /// COMMON-54.
    #[tokio::test(start_paused = true)]
    async fn the_newest_version_of_each_resource_is_left_in_the_lease() {
        let (writes, clock) = (WriteLog::default(), Clock::simulated(jiff::Timestamp::UNIX_EPOCH, 0));
        let note = |resource, answer: &str| {
            writes.record_write_answer(
                RequestTarget::object(resource, "shop", ""),
                answer.as_bytes(),
                clock.monotonic_now(),
            );
        };
        note(PODS, r#"{"kind":"Pod","metadata":{"name":"a","uid":"u","resourceVersion":"12"},"spec":{}}"#);
        note(PODS, r#"{"kind":"Pod","metadata":{"name":"b","resourceVersion":"11"}}"#);
        note(SETS, r#"{"kind":"Status","metadata":{},"status":"Success"}"#);
        let left = writes.written_versions_for_successor(clock.monotonic_now()).unwrap();
        assert_eq!(
            (left.newest_written_version(&PODS), left.newest_written_version(&SETS)),
            (ResourceVersion::parse("12"), ResourceVersion::UNKNOWN)
        );
        let text = left.to_annotation(3);
        assert_eq!(text, r#"{"transitions":3,"written":{"pods":"12"}}"#);
        assert_eq!(WrittenVersions::from_annotation(&text, 3), Some(left));
        assert_eq!(WrittenVersions::from_annotation(&text, 4), None, "another process has held the Lease since");
        assert_eq!(WrittenVersions::from_annotation("{}", 3), None);
    }

    #[tokio::test(start_paused = true)]
    async fn versions_of_the_predecessor_reach_the_next_leader_unless_newer_ones_exist() {
        let (writes, clock) = (WriteLog::default(), Clock::simulated(jiff::Timestamp::UNIX_EPOCH, 0));
        writes.inherit_written_versions(
            &WrittenVersions::from_annotation(r#"{"transitions":1,"written":{"pods":"40","replicasets.apps":"9"}}"#, 1)
                .unwrap(),
        );
        let answer = br#"{"metadata":{"resourceVersion":"41"}}"#;
        let target = RequestTarget::object(PODS, "shop", "");
        writes.record_write_answer(target.clone(), answer, clock.monotonic_now());
        let object = json!({"metadata": {"name": "a", "resourceVersion": "42"}});
        let object = encode_object("v1", "PartialObjectMetadata", &messages::METADATA_ONLY_OBJECT, &object).unwrap();
        writes.record_write_answer(target.clone(), &object, clock.monotonic_now());
        let status = encode_object("v1", "Status", &messages::STATUS, &json!({"metadata": {"resourceVersion": "50"}}));
        writes.record_write_answer(target, &status.unwrap(), clock.monotonic_now());
        let left = writes.written_versions_for_successor(clock.monotonic_now()).unwrap();
        assert_eq!(
            (left.newest_written_version(&PODS), left.newest_written_version(&SETS)),
            (ResourceVersion::parse("42"), ResourceVersion::parse("9"))
        );
    }

    /// COMMON-56.
    #[tokio::test(start_paused = true)]
    async fn a_lost_answer_leaves_the_next_leader_no_versions_for_a_while() {
        let (writes, clock) = (WriteLog::default(), Clock::simulated(jiff::Timestamp::UNIX_EPOCH, 0));
        writes.record_lost_write_answer(clock.monotonic_now());
        assert_eq!(writes.written_versions_for_successor(clock.monotonic_now()), None);
        clock.sleep(LOST_WRITE).await;
        assert_eq!(writes.written_versions_for_successor(clock.monotonic_now()), Some(WrittenVersions::default()));
    }
}
