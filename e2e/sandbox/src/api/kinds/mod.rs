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
pub(crate) mod decode;
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
pub(crate) mod quantity;
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

use crate::{
    api::logic::{Env, Logic, MergeList, NameRule, Propagation, TableColumn},
    value::{
        errors::{self, Errors, FieldError},
        syntax,
    },
};
pub(crate) use catalog::registry;
use rules::Part;

pub(crate) use catalog::kinds as builtin;
#[cfg(test)]
pub(crate) use schema::omits_zero;
pub(crate) use services::{Allocated, allocate as allocate_service};

/// The schema as protobuf sees it.
pub(crate) mod wire {
    pub(crate) use super::schema::{Type, WireField};

    /// All messages with their fields, in the order of [`Type::Struct`].
    pub(crate) fn messages() -> Vec<(&'static str, &'static [WireField])> {
        super::schema::schema().structs.iter().map(|structure| (structure.id, &*structure.wire)).collect()
    }
}

/// What is known of the objects of one built-in resource.
pub(crate) struct Kind {
    columns: Vec<Column>,
    name: NameRule,
    field_labels: bool,
    unconditional_update: bool,
    create_on_update: bool,
    default_propagation: Propagation,
    /// The structure of its objects in the schema.
    structure: String,
    /// Whether `metadata.generation` is kept.
    counted: bool,
    /// Fields that a selector may name, with the expressions of their values (see [`table`]).
    fields: BTreeMap<String, String>,
    behaviour: behaviour::Behaviour,
}

impl Kind {
    fn validate(
        &self,
        new: &Value,
        old: &Value,
        part: Part,
        more: Option<fn(&mut Errors, &Value, &Value)>,
    ) -> Vec<FieldError> {
        let mut errors = Errors::new();
        let changed = rules::check(&mut errors, &self.structure, new, old, part);
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
        decode::type_error(&self.structure, object).or_else(|| more.and_then(|more| more(object)))
    }

    fn default(&self, object: &mut Value) {
        canonical::canonicalize(&self.structure, object);
        if let Some(default) = self.behaviour.default {
            default(object);
        }
    }

    fn prepare_create(&self, object: &mut Value, env: &Env<'_>) {
        match self.behaviour.prepare_create {
            Some(prepare) => prepare(object, env),
            None => strategy::create(&self.structure, object, self.counted),
        }
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, env: &Env<'_>) {
        match self.behaviour.prepare_update {
            Some(prepare) => prepare(new, old, env),
            None => strategy::update(&self.structure, new, old, self.counted),
        }
    }

    fn prepare_status(&self, new: &mut Value, old: &Value, env: &Env<'_>) {
        match self.behaviour.prepare_status {
            Some(prepare) => prepare(new, old, env),
            None => strategy::status(&self.structure, new, old),
        }
    }

    fn validate_update(&self, new: &Value, old: &Value) -> Vec<FieldError> {
        self.validate(new, old, Part::Content, self.behaviour.validate)
    }

    fn validate_status(&self, new: &Value, old: &Value) -> Vec<FieldError> {
        self.validate(new, old, Part::Status, self.behaviour.validate_status)
    }

    fn merge_list(&self, path: &str) -> Option<MergeList> {
        schema::merge_list(&self.structure, path)
    }

    fn field(&self, object: &Value, field: &str) -> Option<String> {
        match self.behaviour.field {
            Some(value) => value(object, field),
            None => self.fields.get(field).map(|expression| table::field(expression, object)),
        }
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let special = |name: &str| self.behaviour.cell.and_then(|cell| cell(object, now, name));
        let cell = |column: &Column| {
            special(&column.head.name).unwrap_or_else(|| table::cell(&column.cell, &column.head.kind, object, now))
        };
        self.columns.iter().map(cell).collect()
    }

    fn row_conditions(&self, object: &Value) -> Vec<Value> {
        self.behaviour.row_conditions.map_or_else(Vec::new, |conditions| conditions(object))
    }

    fn prune(&self, object: &mut Value) -> Vec<String> {
        decode::prune(&self.structure, object)
    }

    fn columns(&self) -> Vec<TableColumn> {
        self.columns.iter().map(|column| column.head.clone()).collect()
    }

    fn converts(&self) -> bool {
        self.behaviour.hub.is_some()
    }

    fn to_stored(&self, object: &mut Value) {
        if let Some(hub) = &self.behaviour.hub {
            (hub.to_stored)(object);
        }
    }

    fn to_served(&self, object: &mut Value) {
        if let Some(hub) = &self.behaviour.hub {
            (hub.to_served)(object);
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
pub(crate) struct Hub {
    pub(crate) group: &'static str,
    /// Turns an object of the served form into the stored one, `apiVersion` included.
    pub(crate) to_stored: fn(&mut Value),
    /// Turns a stored object into the served form, `apiVersion` included.
    pub(crate) to_served: fn(&mut Value),
}

/// A column of a Table.
struct Column {
    head: TableColumn,
    /// Expression of its cells (see [`table`]).
    cell: Value,
}
