//! The Lease of an election, and its encoding.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::{
    Resource as _,
    api::coordination::v1::{self, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::meta::ResourceVersion;

/// The holder identity of a hold: a Lease that an operator creates to prevent leadership (`deploy/controllers/*/hold`).
pub const HAND_OVER_HOLDER_IDENTITY: &str = "held-for-hand-over";

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

    pub(super) fn stated_duration(&self) -> Duration {
        Duration::from_secs(u64::try_from(self.duration_seconds).unwrap_or(0))
    }

    /// Whether an operator holds the Lease for a hand-over. Such a Lease never expires.
    pub fn is_held_for_hand_over(&self) -> bool {
        self.holder_identity == HAND_OVER_HOLDER_IDENTITY
    }
}

/// A Lease: its metadata as the server sent them, and its record.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LeaseObject {
    /// Members of `metadata` as received, without `managedFields`. A write sends them back, so that unknown members are kept.
    pub metadata: Map<String, Value>,
    /// The fields of `spec` that this crate knows. A write drops other fields.
    pub record: LeaseRecord,
}

impl LeaseObject {
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
    metadata.remove("managedFields");
    let record = LeaseRecord {
        holder_identity: spec.holder_identity.unwrap_or_default(),
        duration_seconds: spec.lease_duration_seconds.unwrap_or_default().into(),
        acquire_time: spec.acquire_time.map(|time| time.0),
        renew_time: spec.renew_time.map(|time| time.0),
        transition_count: spec.lease_transitions.unwrap_or_default().into(),
    };
    Ok(LeaseObject { metadata, record })
}
