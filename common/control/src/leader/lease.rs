//! The Lease of an election, and its encoding.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::{
    Resource as _,
    api::coordination::v1::{self, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::{api::FIELD_MANAGER, meta::ResourceVersion};

/// The holder identity of a held Lease, which no process takes. A process that finds no Lease creates it held; an operator may hold
/// it at any time.
pub const HAND_OVER_HOLDER_IDENTITY: &str = "held-for-hand-over";

/// `leaseDurationSeconds` of a Lease that is created held: ten years, for programs that do not know holds.
const HOLD_DURATION_SECONDS: i64 = 10 * 365 * 24 * 3600;

/// Annotation of a Lease that has a long duration because its leader knows of no standby: JSON with the holder, and with the
/// duration in seconds that a standby writes instead.
const STANDBY_DURATION_ANNOTATION: &str = "nonet/standby-lease-duration";

/// `leaseDurationSeconds` of a Lease that its leader has released, as upstream writes it.
const RELEASED_DURATION_SECONDS: i64 = 1;

/// The five fields of a Lease that an election writes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaseRecord {
    /// `holderIdentity`; empty after a release.
    pub holder_identity: String,
    /// `leaseDurationSeconds`: how long other candidates wait after the last change of the Lease.
    pub duration_seconds: i64,
    /// `acquireTime`: the start of the holder's leadership.
    pub acquire_time: Option<Timestamp>,
    /// `renewTime`: the last renewal, by the holder's clock.
    pub renew_time: Option<Timestamp>,
    /// `leaseTransitions`: the count of changes of the holder.
    pub transition_count: i64,
}

impl LeaseRecord {
    /// Whether the records are equal as upstream compares them: with times in whole seconds.
    pub(super) fn equals_in_seconds(&self, other: &Self) -> bool {
        let seconds = |at: Option<Timestamp>| at.map(Timestamp::as_second);
        self.holder_identity == other.holder_identity
            && self.duration_seconds == other.duration_seconds
            && seconds(self.acquire_time) == seconds(other.acquire_time)
            && seconds(self.renew_time) == seconds(other.renew_time)
            && self.transition_count == other.transition_count
    }

    /// Returns `leaseDurationSeconds`; zero if the field is negative.
    pub(super) fn stated_duration(&self) -> Duration {
        Duration::from_secs(u64::try_from(self.duration_seconds).unwrap_or(0))
    }

    /// Returns a record that prevents leadership until an operator releases it. It keeps what `last` says about past leaders.
    pub(super) fn held(last: Option<&Self>) -> Self {
        Self {
            holder_identity: HAND_OVER_HOLDER_IDENTITY.to_owned(),
            duration_seconds: HOLD_DURATION_SECONDS,
            acquire_time: last.and_then(|last| last.acquire_time),
            renew_time: None,
            transition_count: last.map_or(0, |last| last.transition_count),
        }
    }

    /// Returns the record that a leader writes when nothing in its process can write any more.
    pub(super) fn released(now: Timestamp, transition_count: i64) -> Self {
        Self {
            holder_identity: String::new(),
            duration_seconds: RELEASED_DURATION_SECONDS,
            acquire_time: Some(now),
            renew_time: Some(now),
            transition_count,
        }
    }

    /// Whether the Lease is held: no process leads until an operator releases it. Such a Lease never expires.
    pub fn is_held_for_hand_over(&self) -> bool {
        self.holder_identity == HAND_OVER_HOLDER_IDENTITY
    }

    /// Whether a process has led with this Lease.
    pub fn has_been_led(&self) -> bool {
        self.acquire_time.is_some() || self.transition_count > 0
    }

    /// Whether the Lease is held although a process has led with it, so that no process does its work.
    pub fn is_held_after_leading(&self) -> bool {
        self.is_held_for_hand_over() && self.has_been_led()
    }

    /// Whether no other process has taken the Lease between the two records.
    pub(super) fn is_same_term(&self, other: &Self) -> bool {
        self.transition_count == other.transition_count && self.acquire_time == other.acquire_time
    }

    /// Whether the Lease has a holder that may lead, so that the Lease expires if it does not change.
    pub(super) fn is_led(&self) -> bool {
        !self.holder_identity.is_empty() && !self.is_held_for_hand_over()
    }

    /// Whether the record is one that a leader writes at its release. An operator may have written it as well.
    fn is_released(&self) -> bool {
        self.holder_identity.is_empty()
            && self.duration_seconds == RELEASED_DURATION_SECONDS
            && self.acquire_time == self.renew_time
    }
}

/// The content of [`STANDBY_DURATION_ANNOTATION`].
#[derive(Serialize, Deserialize)]
struct StandbyDuration {
    /// The leader that wrote the annotation. Another holder may have left the annotation in place, and it means nothing then.
    holder: String,
    seconds: i64,
}

/// A Lease: its metadata as the server sent them, and its record.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LeaseObject {
    /// Members of `metadata` as received, without `managedFields`. A write sends them back, so that unknown members are kept.
    pub metadata: Map<String, Value>,
    /// The fields of `spec` that this crate knows. A write drops other fields.
    pub record: LeaseRecord,
    /// Whether `metadata.managedFields` show that another program than a candidate has written the holder: kubectl, or a tool that
    /// puts back an earlier Lease.
    pub(super) has_foreign_holder: bool,
}

impl LeaseObject {
    /// Returns a Lease as a candidate writes it.
    pub(super) fn new(metadata: Map<String, Value>, record: LeaseRecord) -> Self {
        Self { metadata, record, has_foreign_holder: false }
    }

    /// Whether the last leader has released the Lease itself, so that it does not write any more.
    pub(super) fn is_released_by_leader(&self) -> bool {
        self.record.is_released() && !self.has_foreign_holder
    }

    /// Returns the duration in seconds that a standby is to write into this Lease; `None` if the duration is not a long one that
    /// the present holder wrote because it knew of no standby.
    pub(super) fn standby_duration_seconds(&self) -> Option<i64> {
        let text = self.metadata.get("annotations")?.get(STANDBY_DURATION_ANNOTATION)?.as_str()?;
        let StandbyDuration { holder, seconds } = serde_json::from_str(text).ok()?;
        let is_shorter = (1..self.record.duration_seconds).contains(&seconds);
        (self.record.is_led() && holder == self.record.holder_identity && is_shorter).then_some(seconds)
    }

    /// Sets the duration. With `standby_duration_seconds`, a standby that finds the Lease writes that duration.
    pub(super) fn set_duration(&mut self, seconds: i64, standby_duration_seconds: Option<i64>) {
        self.record.duration_seconds = seconds;
        let holder = self.record.holder_identity.clone();
        let standby_duration = standby_duration_seconds.map(|seconds| StandbyDuration { holder, seconds });
        self.set_annotation(STANDBY_DURATION_ANNOTATION, standby_duration.map(|duration| json!(duration).to_string()));
    }

    /// Sets an annotation, or removes it if `value` is `None`.
    pub(super) fn set_annotation(&mut self, key: &str, value: Option<String>) {
        match (self.metadata.get_mut("annotations").and_then(Value::as_object_mut), value) {
            (Some(all), Some(value)) => drop(all.insert(key.to_owned(), Value::String(value))),
            (Some(all), None) => drop(all.remove(key)),
            (None, Some(value)) => drop(self.metadata.insert("annotations".to_owned(), json!({ key: value }))),
            (None, None) => {}
        }
    }

    /// Whether the Lease differs from `other` in nothing but the time of a renewal.
    pub(super) fn differs_by_renewal_only(&self, other: &Self) -> bool {
        let annotations = |lease: &Self| lease.metadata.get("annotations").cloned();
        let without_renewal = |lease: &Self| LeaseRecord { renew_time: None, ..lease.record.clone() };
        without_renewal(self) == without_renewal(other)
            && annotations(self) == annotations(other)
            && self.has_foreign_holder == other.has_foreign_holder
    }

    /// Returns `metadata.resourceVersion`.
    pub(super) fn version(&self) -> ResourceVersion {
        self.metadata
            .get("resourceVersion")
            .and_then(Value::as_str)
            .map_or_else(Default::default, ResourceVersion::parse)
    }
}

/// Encodes a Lease for a write. The body contains all five fields of the record, even an empty holder.
pub(super) fn encode_lease(namespace: &str, name: &str, lease: &LeaseObject) -> Value {
    let mut metadata = lease.metadata.clone();
    metadata.insert("namespace".to_owned(), json!(namespace));
    metadata.insert("name".to_owned(), json!(name));
    let record = &lease.record;
    let number = |number: i64| Some(i32::try_from(number).unwrap_or(i32::MAX));
    let spec = LeaseSpec {
        holder_identity: Some(record.holder_identity.clone()),
        lease_duration_seconds: number(record.duration_seconds),
        acquire_time: record.acquire_time.map(MicroTime),
        renew_time: record.renew_time.map(MicroTime),
        lease_transitions: number(record.transition_count),
        ..LeaseSpec::default()
    };
    json!({ "apiVersion": v1::Lease::API_VERSION, "kind": v1::Lease::KIND, "metadata": metadata, "spec": spec })
}

/// Decodes a Lease. Missing fields count as empty.
pub(super) fn decode_lease(bytes: &[u8]) -> Result<LeaseObject, String> {
    /// A Lease with undecoded metadata, so that a write sends back unknown members.
    #[derive(Deserialize)]
    struct Received {
        metadata: Map<String, Value>,
        #[serde(default)]
        spec: LeaseSpec,
    }
    let Received { mut metadata, spec } =
        serde_json::from_slice(bytes).map_err(|error| format!("the lease cannot be read: {error}"))?;
    let has_foreign_holder = metadata.remove("managedFields").is_some_and(|entries| is_holder_foreign(&entries));
    let record = LeaseRecord {
        holder_identity: spec.holder_identity.unwrap_or_default(),
        duration_seconds: spec.lease_duration_seconds.unwrap_or_default().into(),
        acquire_time: spec.acquire_time.map(|time| time.0),
        renew_time: spec.renew_time.map(|time| time.0),
        transition_count: spec.lease_transitions.unwrap_or_default().into(),
    };
    Ok(LeaseObject { metadata, record, has_foreign_holder })
}

/// Whether only other programs than candidates have written the holder. A server that keeps no such entries shows nothing.
fn is_holder_foreign(managed_fields: &Value) -> bool {
    let entries = managed_fields.as_array().map_or(&[][..], Vec::as_slice);
    let mut owners =
        entries.iter().filter(|entry| entry["fieldsV1"]["f:spec"]["f:holderIdentity"].is_object()).peekable();
    owners.peek().is_some() && owners.all(|entry| entry["manager"] != FIELD_MANAGER)
}
