//! What the sandbox knows about each kind: its coordinates, defaults, strategy, validation, table columns and patch keys.
//!
//! The generic server (storage, watch, patch, HTTP) asks only what [`Kind`] answers; everything a kind is special in is
//! behind these functions. Objects are JSON values throughout, so that fields of later API versions survive.

mod admission;
mod affinity;
mod behaviour;
mod canonical;
mod catalog;
mod claims;
mod conditions;
mod configs;
mod containers;
mod cron_jobs;
mod daemon_sets;
mod decode;
mod deployments;
mod diff;
mod dump;
mod endpoints;
mod environment;
pub(crate) mod errors;
mod events;
mod job_status;
mod job_validation;
mod jobs;
mod networking;
mod nodes;
mod others;
mod pod_defaults;
mod pod_os;
mod pod_security;
mod pod_spec;
mod pod_table;
mod pod_update;
mod pods;
mod policies;
mod probes;
mod quantity;
mod rbac;
#[cfg(test)]
mod replay;
mod replica_sets;
mod resources;
mod schedules;
mod scheduling;
mod schema;
mod selectors;
mod service_validation;
mod services;
mod stateful_sets;
mod storage;
mod strategy;
pub(crate) mod syntax;
pub(crate) mod table;
mod tolerations;
mod value;
mod volumes;
mod workloads;

use jiff::Timestamp;
use serde_json::Value;

#[cfg(test)]
pub(crate) use schema::omits_zero;
pub use services::{Allocated, allocate as allocate_service};

/// All built-in kinds, groups in the order the real server lists them.
pub fn builtin() -> &'static [Kind] {
    catalog::kinds()
}

/// One served resource.
pub struct Kind {
    /// API group, empty for core.
    pub group: &'static str,
    /// Served version.
    pub version: &'static str,
    /// The feature gate that has to be on for it to be served, if there is one.
    pub gate: Option<&'static str>,
    /// Kind, as in `kind:`.
    pub kind: &'static str,
    /// Resource name in paths.
    pub plural: &'static str,
    /// Singular name in discovery.
    pub singular: &'static str,
    /// Short names in discovery, in the order the real server lists them.
    pub short_names: &'static [&'static str],
    /// Categories in discovery (`all`).
    pub categories: &'static [&'static str],
    /// Whether objects live in namespaces.
    pub namespaced: bool,
    /// Verbs in discovery.
    pub verbs: &'static [&'static str],
    /// `storageVersionHash` in discovery; empty for what is not stored (reviews, bindings).
    pub storage_hash: &'static str,
    /// Where this kind is stored when it is served under several groups or versions (Events); `None` when under itself.
    pub hub: Option<Hub>,
    /// Says what the real server's decoder says of the first field whose JSON type is wrong, without the leading
    /// `... cannot be handled as a ...:`; `None` when all types are right.
    pub type_error: fn(&Value) -> Option<String>,
    /// Subresources served beside the main resource.
    pub subresources: &'static [Subresource],
    /// Applies defaults to an object as decoded (create, update, and what a patch yields). Idempotent.
    pub default: fn(&mut Value),
    /// Strategy on create, after defaulting: resets status, sets `metadata.generation`, generates selectors, and does
    /// what admission does by default (tolerations, priority, finalizers). Name, uid and creation time are set before.
    pub prepare_create: fn(&mut Value, &Env<'_>),
    /// Strategy on update of the main resource: takes what may not change from `old`, bumps `metadata.generation`.
    pub prepare_update: fn(new: &mut Value, old: &Value, &Env<'_>),
    /// Strategy on update of `/status`: takes everything but the status from `old` (annotations etc. as the kind does).
    pub prepare_status: fn(new: &mut Value, old: &Value, &Env<'_>),
    /// Validation on create (metadata is validated by the generic server).
    pub validate_create: fn(&Value) -> Vec<FieldError>,
    /// Validation on update of the main resource.
    pub validate_update: fn(new: &Value, old: &Value) -> Vec<FieldError>,
    /// Validation on update of `/status`.
    pub validate_status: fn(new: &Value, old: &Value) -> Vec<FieldError>,
    /// How object names are checked.
    pub name: NameRule,
    /// Paths (dotted, no list index) of lists that a strategic merge patch merges by key, with the key; primitive
    /// merge lists have an empty key. Absent lists are replaced.
    pub merge_keys: fn(path: &str) -> Option<MergeList>,
    /// Which fields a field selector may name besides `metadata.name` and `metadata.namespace`, and their value: empty
    /// for a field that is not set, `None` for one that may not be named.
    pub field: fn(&Value, field: &str) -> Option<String>,
    /// Whether an unknown field is refused in this kind's own words (`field label not supported: x`) and not in those
    /// of kinds without fields of their own.
    pub field_labels: bool,
    /// Whether a PUT without `metadata.resourceVersion` is an unconditional update (true) or refused.
    pub unconditional_update: bool,
    /// Whether a PUT to a missing name creates it (e.g. Leases, Services: `AllowCreateOnUpdate`).
    pub create_on_update: bool,
    /// Default propagation when a DELETE does not name one.
    pub default_propagation: Propagation,
    /// Columns of the Table representation.
    pub columns: &'static [Column],
    /// Cells of one row, one per column.
    pub row: fn(&Value, now: Timestamp) -> Vec<Value>,
    /// `conditions` of the row: whether a Pod is finished.
    pub row_conditions: fn(&Value) -> Vec<Value>,
    /// Removes fields that this kind's version does not know; returns their paths as the server's strict decoder names
    /// them (`spec.template.bogus`). Not called when the sandbox is told to keep unknown fields.
    pub prune: fn(&mut Value) -> Vec<String>,
}

/// The stored form of a kind that is served under several groups or versions.
pub struct Hub {
    /// Group of the stored form.
    pub group: &'static str,
    /// Version of the stored form.
    pub version: &'static str,
    /// Turns an object of the served form into the stored one, `apiVersion` included.
    pub to_hub: fn(&mut Value),
    /// Turns a stored object into the served form, `apiVersion` included.
    pub from_hub: fn(&mut Value),
}

/// A subresource in discovery.
pub struct Subresource {
    /// Name after the slash.
    pub name: &'static str,
    /// Kind of its body.
    pub kind: &'static str,
    /// Group and version of its body where they differ from the parent's.
    pub group_version: Option<(&'static str, &'static str)>,
    /// Verbs.
    pub verbs: &'static [&'static str],
}

/// What strategies may use besides the objects.
pub struct Env<'a> {
    /// The server's time, whole seconds.
    pub now: Timestamp,
    /// Whether the feature gate of the API server is on (default positions of 1.36 unless switched).
    pub gate: &'a dyn Fn(&str) -> bool,
}

/// A validation failure, in the words of the real server.
pub struct FieldError {
    /// Cause reason, e.g. `FieldValueInvalid`.
    pub reason: &'static str,
    /// Path, e.g. `spec.template.spec.containers[0].image`.
    pub field: String,
    /// Message without the path, e.g. `Invalid value: -1: must be greater than or equal to 0`.
    pub message: String,
    /// The feature gate that allows what was found; none if it is never allowed.
    pub allowed_by: Option<&'static str>,
}

/// How a list is merged by a strategic merge patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MergeList {
    /// The key of the elements; empty for a list of primitives.
    pub key: &'static str,
}

/// What a kind's names must look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// A DNS subdomain of at most 253 characters.
    Subdomain,
    /// A DNS label of at most 63 characters.
    Label,
    /// A DNS label that starts with a letter (Services).
    Rfc1035,
    /// A path segment: anything but `.`, `..`, `/` and `%` (RBAC).
    PathSegment,
}

/// What becomes of dependents on deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// Dependents go after the owner.
    Background,
    /// Dependents lose their owner reference.
    Orphan,
    /// Dependents go first.
    Foreground,
}

/// A column of a Table.
pub struct Column {
    /// Header.
    pub name: &'static str,
    /// Type, as `OpenAPI` calls it.
    pub kind: &'static str,
    /// Format, as `OpenAPI` calls it.
    pub format: &'static str,
    /// Description, as the real server gives it.
    pub description: &'static str,
    /// 0 for always, 1 for `-o wide`.
    pub priority: i32,
}
