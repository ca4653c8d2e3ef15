//! Detects a second writer, which is another process that runs the same loop, from a sample of the watch events.
//!
//! A write is evidence of a second writer if it is of a kind that only a loop of this process should make, and this process has
//! not made the write.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use serde_json::value::RawValue;

use crate::{
    api::{FIELD_MANAGER, WireFormat},
    clock::{Clock, Instant},
    meta::ResourceVersion,
    object::Resource,
    succession::WriteLog,
};

mod watch_line;

pub use watch_line::{JsonWatchEvent, WatchedMetadata, WatchedObject};

/// Time at the start of a leader's term in which writes of other processes are ignored, because the last writes of the
/// predecessor may still arrive.
pub const PREDECESSOR_WRITE_GRACE_PERIOD: Duration = Duration::from_secs(60);

/// Period in which at most [`SAMPLES`] objects are decoded.
const PERIOD: Duration = Duration::from_secs(15);
/// Maximum number of objects that are decoded in each [`PERIOD`].
const SAMPLES: u32 = 8;
/// Delay before the sampler decides about a write, because the answer to a write may arrive after its watch event.
const SETTLE: Duration = Duration::from_secs(10);
/// Time after a write of this process to an object during which the object's watch events are attributed to that write.
const EXPLAINED: Duration = Duration::from_secs(60);
/// Largest difference between the time of a new write in `managedFields` and the clock of this machine.
const SKEW: SignedDuration = SignedDuration::from_secs(60);

/// Writes of one kind that only one control loop makes, under the field manager of kube-controller-manager.
#[derive(Clone, Copy, Debug)]
pub struct OwnedWrites {
    /// API group of the objects; empty for the core group.
    pub group: &'static str,
    /// Resource name in the plural, such as `replicasets`.
    pub plural: &'static str,
    /// Subresource that is written; empty for the object itself.
    pub subresource: &'static str,
    /// Text that the `fieldsV1` of such a write contains; empty if every field counts.
    pub required_fields_v1_text: &'static str,
    /// Label key and value of the objects that the loop writes; `None` if the loop writes all objects of the kind.
    pub required_label: Option<(&'static str, &'static str)>,
}

impl OwnedWrites {
    /// Describes all writes to the `status` subresource of a kind.
    pub const fn of_status(group: &'static str, plural: &'static str) -> Self {
        Self { group, plural, subresource: "status", required_fields_v1_text: "", required_label: None }
    }

    /// Describes all writes to the objects of a kind themselves, without their subresources.
    pub const fn of_object(group: &'static str, plural: &'static str) -> Self {
        Self { group, plural, subresource: "", required_fields_v1_text: "", required_label: None }
    }

    fn is_of(&self, resource: &Resource) -> bool {
        self.group == resource.group() && self.plural == resource.plural()
    }
}

/// Searches watch events for writes of a second writer. Decodes at most `SAMPLES` objects in each `PERIOD`.
#[derive(Debug)]
pub struct WriteSampler {
    clock: Clock,
    writes: WriteLog,
    /// Kinds of writes that only loops of this process should make, each with the index of the loop.
    owned: Vec<(usize, OwnedWrites)>,
    is_active: AtomicBool,
    state: Mutex<SamplerState>,
}

#[derive(Debug, Default)]
struct SamplerState {
    period_began: Option<Instant>,
    samples: u32,
    candidates: Vec<Candidate>,
}

/// A write that a second writer may have made, because no answer so far has shown that this process made the write.
#[derive(Debug)]
struct Candidate {
    loop_index: usize,
    seen: Instant,
    version: ResourceVersion,
    namespace: String,
    name: String,
}

impl WriteSampler {
    /// Creates a sampler that examines nothing until [`Self::activate`]. The position of a list in `owned` is the loop's index.
    pub fn new(clock: Clock, writes: WriteLog, owned: impl IntoIterator<Item = &'static [OwnedWrites]>) -> Arc<Self> {
        let of_loops = owned.into_iter().enumerate();
        let owned: Vec<(usize, OwnedWrites)> =
            of_loops.flat_map(|(loop_index, all)| all.iter().map(move |owned| (loop_index, *owned))).collect();
        writes.remember_recent_writes(owned.iter().map(|(_, owned)| (owned.group, owned.plural)).collect());
        Arc::new(Self { clock, writes, owned, is_active: AtomicBool::new(false), state: Mutex::default() })
    }

    /// Begins to sample watch events; until then, [`Self::examine_watch_event`] does nothing.
    pub fn activate(&self) {
        self.is_active.store(true, Relaxed);
    }

    /// Whether the sampler examines the watch events of `resource`: some of its fields belong to loops of this process alone.
    pub fn is_sampled(&self, resource: &Resource) -> bool {
        self.owned.iter().any(|(_, owned)| owned.is_of(resource))
    }

    /// Examines the object in a watch frame, unless [`SAMPLES`] is reached or this process has produced `version`.
    pub fn examine_watch_event(
        &self,
        resource: &Resource,
        version: ResourceVersion,
        format: WireFormat,
        frame: &[u8],
        now: Instant,
    ) {
        if !self.is_active.load(Relaxed) || !self.has_budget(now) || self.writes.has_written_version(version) {
            return;
        }
        self.state.lock().samples += 1;
        let Some(metadata) = watch_line::decode_metadata(format, frame) else { return };
        let wall = self.clock.now();
        let found =
            self.owned.iter().find(|(_, owned)| owned.is_of(resource) && is_latest_write(owned, &metadata, wall));
        let Some((loop_index, _)) = found else { return };
        self.state.lock().candidates.push(Candidate {
            loop_index: *loop_index,
            seen: now,
            version,
            namespace: metadata.namespace.as_deref().unwrap_or_default().to_owned(),
            name: metadata.name.to_string(),
        });
    }

    fn has_budget(&self, now: Instant) -> bool {
        let mut state = self.state.lock();
        if state.period_began.is_none_or(|began| now.saturating_duration_since(began) >= PERIOD) {
            (state.period_began, state.samples) = (Some(now), 0);
        }
        state.samples < SAMPLES
    }

    /// Returns the index of the loop for each sampled write that turned out to be from a second writer. Each write is reported
    /// once.
    ///
    /// `leading_since` is the start of this process's term. Writes seen before that time, or within
    /// [`PREDECESSOR_WRITE_GRACE_PERIOD`] after it, are attributed to the predecessor.
    pub fn take_second_writer_loop_indexes(&self, now: Instant, leading_since: Instant) -> Vec<usize> {
        let is_settled = |candidate: &mut Candidate| now.saturating_duration_since(candidate.seen) >= SETTLE;
        let settled: Vec<_> = self.state.lock().candidates.extract_if(.., is_settled).collect();
        let is_another = |Candidate { seen, version, namespace, name, .. }: &&Candidate| {
            let explained_since = seen.checked_sub(EXPLAINED).unwrap_or(*seen);
            *seen >= leading_since + PREDECESSOR_WRITE_GRACE_PERIOD
                && !self.writes.may_have_written_object(*version, namespace, name, explained_since)
        };
        settled.iter().filter(is_another).map(|candidate| candidate.loop_index).collect()
    }
}

/// Whether the latest entry of `managedFields` is a write that `owned` describes, made close to `now`.
fn is_latest_write(owned: &OwnedWrites, metadata: &WatchedMetadata<'_>, now: Timestamp) -> bool {
    let label = |key| metadata.labels.as_ref().and_then(|labels| labels.get(key)?.as_deref());
    // The request that sets a deletion timestamp leaves no trace in `managedFields`, so the latest write is unknown.
    if metadata.deletion_timestamp.is_some()
        || owned.required_label.is_some_and(|(key, value)| label(key) != Some(value))
    {
        return false;
    }
    let Some(latest) = metadata.managed_fields.iter().filter_map(|entry| entry.time).max() else { return false };
    let mut of_latest = metadata.managed_fields.iter().filter(|entry| entry.time == Some(latest));
    // Times are whole seconds, so the order of two writes within one second is unknown.
    let (Some(entry), None) = (of_latest.next(), of_latest.next()) else { return false };
    let fields = entry.fields_v1.map_or("", RawValue::get);
    &*entry.manager == FIELD_MANAGER
        && entry.subresource.as_deref().unwrap_or_default() == owned.subresource
        && fields.contains(owned.required_fields_v1_text)
        && now.duration_since(latest).abs() <= SKEW
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::api::RequestTarget;

    const SETS: Resource = Resource::namespaced("apps", "v1", "replicasets", "ReplicaSet");
    const OWNED: &[OwnedWrites] = &[OwnedWrites::of_status("apps", "replicasets")];

    fn entry(manager: &str, subresource: &str, time: &str) -> Value {
        let mut entry = json!({"manager": manager, "operation": "Update", "apiVersion": "apps/v1", "time": time,
            "fieldsType": "FieldsV1", "fieldsV1": {"f:status": {"f:replicas": {}}}});
        if !subresource.is_empty() {
            entry["subresource"] = json!(subresource);
        }
        entry
    }

    fn line(name: &str, entries: &[Value]) -> Vec<u8> {
        json!({"type": "MODIFIED", "object": {"kind": "ReplicaSet", "metadata":
            {"name": name, "namespace": "shop", "labels": {"a": "b\\"}, "managedFields": entries}}})
        .to_string()
        .into_bytes()
    }

    /// Encodes a length-delimited field of a protobuf message.
    fn field(number: u32, bytes: &[u8]) -> Vec<u8> {
        let varint = |mut value: u32| {
            let mut out = Vec::new();
            while value >= 0x80 {
                out.push(value as u8 | 0x80);
                value >>= 7;
            }
            out.push(value as u8);
            out
        };
        [&varint(number << 3 | 2)[..], &varint(bytes.len() as u32), bytes].concat()
    }

    /// Encodes the event of [`line`] as a protobuf frame.
    fn frame(name: &str, entries: &[Value]) -> Vec<u8> {
        let entry = |entry: &Value| {
            let text = |name: &str| entry[name].as_str().unwrap_or_default().as_bytes();
            let time: Timestamp = entry["time"].as_str().unwrap().parse().unwrap();
            let seconds = u32::try_from(time.as_second()).unwrap();
            let mut seconds_field = vec![1 << 3];
            seconds_field.extend((0..5).map(|at| (seconds >> (7 * at)) as u8 & 0x7f | if at < 4 { 0x80 } else { 0 }));
            let fields = field(1, entry["fieldsV1"].to_string().as_bytes());
            let parts =
                [field(1, text("manager")), field(4, &seconds_field), field(7, &fields), field(8, text("subresource"))];
            field(17, &parts.concat())
        };
        let entries: Vec<u8> = entries.iter().flat_map(entry).collect();
        let label = field(11, &[field(1, b"a"), field(2, b"b")].concat());
        let metadata = field(1, &[field(1, name.as_bytes()), field(3, b"shop"), label, entries].concat());
        let kind = field(1, &[field(1, b"apps/v1"), field(2, b"ReplicaSet")].concat());
        let envelope = [b"k8s\0".to_vec(), kind, field(2, &metadata)].concat();
        [field(1, b"MODIFIED"), field(2, &field(1, &envelope))].concat()
    }

    struct World {
        format: WireFormat,
        clock: Clock,
        writes: WriteLog,
        sampler: Arc<WriteSampler>,
        since: Instant,
        next: u64,
    }

    impl World {
        /// Creates the sampler of a process that has been the leader for an hour.
        async fn new() -> Self {
            let clock = Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap(), 0);
            let writes = WriteLog::default();
            let sampler = WriteSampler::new(clock.clone(), writes.clone(), [OWNED]);
            let since = clock.monotonic_now();
            clock.sleep(Duration::from_hours(1)).await;
            sampler.activate();
            Self { format: WireFormat::Json, clock, writes, sampler, since, next: 100 }
        }

        /// Delivers a watch event of an object. An entry has the manager, the subresource, and the age of the write in seconds.
        fn brings(&mut self, name: &str, entries: &[(&str, &str, i64)]) -> ResourceVersion {
            let at = |ago: i64| (self.clock.now() - SignedDuration::from_secs(ago)).to_string();
            let entries: Vec<_> = entries.iter().map(|(manager, sub, ago)| entry(manager, sub, &at(*ago))).collect();
            self.next += 1;
            let version = ResourceVersion::parse(&self.next.to_string());
            let frame = match self.format {
                WireFormat::Json => line(name, &entries),
                WireFormat::Protobuf => frame(name, &entries),
            };
            self.sampler.examine_watch_event(&SETS, version, self.format, &frame, self.clock.monotonic_now());
            version
        }

        async fn confirmed(&self) -> usize {
            self.clock.sleep(Duration::from_secs(15)).await;
            self.sampler.take_second_writer_loop_indexes(self.clock.monotonic_now(), self.since).len()
        }
    }

    /// COMMON-75.
    #[tokio::test(start_paused = true)]
    async fn a_status_that_this_process_has_not_written_reveals_a_second_writer() {
        for format in [WireFormat::Json, WireFormat::Protobuf] {
            let mut world = World { format, ..World::new().await };
            world.brings("web", &[(FIELD_MANAGER, "", 90), (FIELD_MANAGER, "status", 0)]);
            assert_eq!(world.confirmed().await, 1, "{format:?}");
            assert_eq!(world.confirmed().await, 0, "a write is reported once");
            world.brings("user", &[(FIELD_MANAGER, "status", 5), ("kubectl-edit", "", 0)]);
            assert_eq!(world.confirmed().await, 0, "{format:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_after_the_event_explains_the_write() {
        let mut world = World::new().await;
        let version = world.brings("web", &[(FIELD_MANAGER, "status", 0)]);
        let answer = format!(r#"{{"metadata":{{"resourceVersion":"{version}"}}}}"#);
        world.writes.record_write_answer(
            RequestTarget::status(SETS, "shop", "web"),
            answer.as_bytes(),
            world.clock.monotonic_now(),
        );
        assert_eq!(world.confirmed().await, 0);
        world.brings("web", &[(FIELD_MANAGER, "status", 0)]);
        assert_eq!(world.confirmed().await, 0, "a recent own write to the object explains the event");
        world.brings("api", &[(FIELD_MANAGER, "status", 0)]);
        assert_eq!(world.confirmed().await, 1, "another object");
    }

    /// COMMON-75.
    #[tokio::test(start_paused = true)]
    async fn users_other_loops_and_old_writes_are_no_evidence() {
        let mut world = World::new().await;
        world.brings("user", &[(FIELD_MANAGER, "status", 5), ("kubectl-edit", "", 0)]);
        world.brings("same-second", &[(FIELD_MANAGER, "status", 0), ("kubectl-edit", "", 0)]);
        world.brings("scaled", &[(FIELD_MANAGER, "status", 5), (FIELD_MANAGER, "", 0)]);
        world.brings("uncovered", &[(FIELD_MANAGER, "status", 3600)]);
        let mut deleted: Value =
            serde_json::from_slice(&line("deleted", &[entry(FIELD_MANAGER, "status", "2026-01-01T01:00:15Z")]))
                .unwrap();
        deleted["object"]["metadata"]["deletionTimestamp"] = json!("2026-01-01T01:00:15Z");
        world.sampler.examine_watch_event(
            &SETS,
            ResourceVersion::parse("7"),
            WireFormat::Json,
            deleted.to_string().as_bytes(),
            world.clock.monotonic_now(),
        );
        assert_eq!(world.confirmed().await, 0);
    }

    /// COMMON-75.
    #[tokio::test(start_paused = true)]
    async fn a_lost_answer_may_have_been_the_write() {
        let mut world = World::new().await;
        world.writes.record_lost_write_answer(world.clock.monotonic_now());
        world.brings("web", &[(FIELD_MANAGER, "status", 0)]);
        assert_eq!(world.confirmed().await, 0);
    }

    /// COMMON-75.
    #[tokio::test(start_paused = true)]
    async fn a_predecessor_is_no_second_writer() {
        let mut world = World::new().await;
        world.since = world.clock.monotonic_now();
        world.clock.sleep(PREDECESSOR_WRITE_GRACE_PERIOD / 2).await;
        world.brings("web", &[(FIELD_MANAGER, "status", 0)]);
        assert_eq!(world.confirmed().await, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn more_writes_than_are_remembered_are_no_evidence() {
        let mut world = World::new().await;
        let version = world.brings("web", &[(FIELD_MANAGER, "status", 0)]);
        // When the sampler decides about the watch event of `web`, it no longer remembers that this process wrote `web`.
        for n in 0..3000 {
            let version = if n == 0 { version } else { ResourceVersion::parse(&(10_000 + n).to_string()) };
            let answer = format!(r#"{{"metadata":{{"resourceVersion":"{version}"}}}}"#);
            let target = RequestTarget::status(SETS, "shop", if n == 0 { "web" } else { "other" });
            world.writes.record_write_answer(target, answer.as_bytes(), world.clock.monotonic_now());
        }
        assert_eq!(world.confirmed().await, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn the_budget_limits_the_samples_and_own_writes_do_not_use_it() {
        let mut world = World::new().await;
        for n in 1..=100 {
            let answer = format!(r#"{{"metadata":{{"resourceVersion":"{n}"}}}}"#);
            world.writes.record_write_answer(
                RequestTarget::status(SETS, "shop", "own"),
                answer.as_bytes(),
                world.clock.monotonic_now(),
            );
            let own = ResourceVersion::parse(&n.to_string());
            world.sampler.examine_watch_event(
                &SETS,
                own,
                WireFormat::Json,
                &line("own", &[]),
                world.clock.monotonic_now(),
            );
        }
        for n in 0..100 {
            world.brings(&format!("web-{n}"), &[(FIELD_MANAGER, "status", 0)]);
        }
        assert_eq!(world.confirmed().await, SAMPLES as usize);
    }
}
