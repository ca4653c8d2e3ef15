//! What the sandbox knows about each kind: its coordinates, defaults, strategy, validation, table columns and patch keys.
//!
//! Most of it is data: `data/resources-1.36.json` (what was recorded from a real server: names, verbs, columns with
//! their cells, selectable fields) and the schema (types, defaults, checks). The generic server (storage, watch, patch, HTTP)
//! asks only what [`Kind`] answers; everything a kind is special in is behind its [`behaviour::Behaviour`]. Objects are JSON values throughout, so that fields of later API versions survive.

mod autoscalers;
mod behaviour;
mod canonical;
mod catalog;
mod claims;
mod conditions;
mod configs;
mod cron_jobs;
mod daemon_sets;
mod decode;
mod deployments;
mod endpoints;
mod events;
mod job_status;
mod job_validation;
mod jobs;
mod nodes;
mod others;
mod pod_defaults;
mod pod_spec;
mod pod_table;
mod pod_update;
mod pods;
mod policies;
mod quantity;
mod replica_sets;
mod resources;
mod rules;
mod schedules;
mod scheduling;
mod schema;
pub(crate) mod selectors;
mod service_validation;
mod services;
mod stateful_sets;
mod strategy;
pub(crate) mod table;
mod value;
mod workloads;

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;

pub use crate::errors::FieldError;
use crate::{
    errors::{self, Errors},
    logic::{Logic, TableColumn},
    syntax,
};
use rules::Part;

#[cfg(test)]
pub(crate) use schema::omits_zero;
pub use services::{Allocated, allocate as allocate_service};

/// The schema as protobuf sees it.
pub(crate) mod wire {
    pub(crate) use super::schema::{Type, WireField};

    /// All messages with their fields, in the order of [`Type::Struct`].
    pub(crate) fn messages() -> Vec<(&'static str, &'static [WireField])> {
        super::schema::schema().structs.iter().map(|structure| (structure.id, &*structure.wire)).collect()
    }
}

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
    /// Subresources served beside the main resource.
    pub subresources: &'static [Subresource],
    /// Columns of the Table representation.
    pub columns: &'static [Column],
    /// How object names are checked.
    pub name: NameRule,
    /// Whether an unknown field is refused in this kind's own words (`field label not supported: x`) and not in those
    /// of kinds without fields of their own.
    pub field_labels: bool,
    /// Whether a PUT without `metadata.resourceVersion` is an unconditional update (true) or refused.
    pub unconditional_update: bool,
    /// Whether a PUT to a missing name creates it (e.g. Leases, Services: `AllowCreateOnUpdate`).
    pub create_on_update: bool,
    /// Default propagation when a DELETE does not name one.
    pub default_propagation: Propagation,
    /// The structure of its objects in the schema.
    structure: &'static str,
    /// Whether `metadata.generation` is kept.
    counted: bool,
    /// Fields that a selector may name, with the expressions of their values (see [`table`]).
    fields: BTreeMap<String, String>,
    behaviour: behaviour::Behaviour,
}

impl Kind {
    /// The group under which its objects are stored: Events are in one place for two groups.
    pub(crate) fn stored_group(&self) -> &str {
        self.behaviour.hub.as_ref().map_or(self.group, |hub| hub.group)
    }

    fn validate(
        &self,
        new: &Value,
        old: &Value,
        part: Part,
        more: Option<fn(&mut Errors, &Value, &Value)>,
    ) -> Vec<FieldError> {
        let mut errors = Errors::new();
        let changed = rules::check(&mut errors, self.structure, new, old, part);
        if let Some(more) = more {
            more(&mut errors, new, old);
        }
        let mut all = errors.into_list();
        all.extend(changed.into_list());
        all
    }
}

impl Logic for Kind {
    fn type_error(&self, object: &Value) -> Option<String> {
        let more = self.behaviour.type_error;
        decode::type_error(self.structure, object).or_else(|| more.and_then(|more| more(object)))
    }

    fn default(&self, object: &mut Value) {
        canonical::canonicalize(self.structure, object);
        if let Some(default) = self.behaviour.default {
            default(object);
        }
    }

    fn prepare_create(&self, object: &mut Value, env: &Env<'_>) {
        match self.behaviour.prepare_create {
            Some(prepare) => prepare(object, env),
            None => strategy::create(self.structure, object, self.counted),
        }
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, env: &Env<'_>) {
        match self.behaviour.prepare_update {
            Some(prepare) => prepare(new, old, env),
            None => strategy::update(self.structure, new, old, self.counted),
        }
    }

    fn prepare_status(&self, new: &mut Value, old: &Value, env: &Env<'_>) {
        match self.behaviour.prepare_status {
            Some(prepare) => prepare(new, old, env),
            None => strategy::status(self.structure, new, old),
        }
    }

    fn validate_update(&self, new: &Value, old: &Value) -> Vec<FieldError> {
        self.validate(new, old, Part::Content, self.behaviour.validate)
    }

    fn validate_status(&self, new: &Value, old: &Value) -> Vec<FieldError> {
        self.validate(new, old, Part::Status, self.behaviour.validate_status)
    }

    fn merge_list(&self, path: &str) -> Option<MergeList> {
        schema::merge_list(self.structure, path)
    }

    fn field(&self, object: &Value, field: &str) -> Option<String> {
        match self.behaviour.field {
            Some(value) => value(object, field),
            None => self.fields.get(field).map(|expression| table::field(expression, object)),
        }
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let special = |name| self.behaviour.cell.and_then(|cell| cell(object, now, name));
        let cell = |column: &Column| {
            special(column.name).unwrap_or_else(|| table::cell(&column.cell, column.kind, object, now))
        };
        self.columns.iter().map(cell).collect()
    }

    fn row_conditions(&self, object: &Value) -> Vec<Value> {
        self.behaviour.row_conditions.map_or_else(Vec::new, |conditions| conditions(object))
    }

    fn prune(&self, object: &mut Value) -> Vec<String> {
        decode::prune(self.structure, object)
    }

    fn columns(&self) -> Vec<TableColumn> {
        let column = |column: &Column| TableColumn {
            name: column.name.into(),
            kind: column.kind.into(),
            format: column.format.into(),
            description: column.description.into(),
            priority: column.priority.into(),
        };
        self.columns.iter().map(column).collect()
    }

    fn converts(&self) -> bool {
        self.behaviour.hub.is_some()
    }

    fn to_stored(&self, object: &mut Value) {
        if let Some(hub) = &self.behaviour.hub {
            (hub.to_hub)(object);
        }
    }

    fn to_served(&self, object: &mut Value) {
        if let Some(hub) = &self.behaviour.hub {
            (hub.from_hub)(object);
        }
    }

    fn name_rule(&self) -> NameRule {
        self.name
    }

    fn field_labels(&self) -> bool {
        self.field_labels
    }

    fn unconditional_update(&self) -> bool {
        self.unconditional_update
    }

    fn create_on_update(&self) -> bool {
        self.create_on_update
    }

    fn default_propagation(&self) -> Propagation {
        self.default_propagation
    }

    fn is_custom(&self) -> bool {
        false
    }
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
    /// Expression of its cells (see [`table`]).
    cell: Value,
}
