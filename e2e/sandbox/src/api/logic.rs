//! What the server asks of the objects of a kind.

use jiff::Timestamp;
use serde_json::Value;

use crate::value::errors::FieldError;

/// What most custom resources do alike is done here.
pub(crate) trait Logic: Send + Sync {
    /// Says what the real server's decoder says of the first field whose JSON type is wrong, without the leading
    /// `... cannot be handled as a ...:`; `None` when all types are right.
    fn type_error(&self, _object: &Value) -> Option<String> {
        None
    }

    /// Applies defaults to an object as decoded (create, update, and what a patch yields). Idempotent.
    fn default(&self, _object: &mut Value) {}

    /// Removes fields that this version does not know; returns their paths as the server's strict decoder names them
    /// (`spec.template.bogus`). Not called when the sandbox is told to keep unknown fields.
    fn prune(&self, _object: &mut Value) -> Vec<String> {
        Vec::new()
    }

    /// Strategy on create, after defaulting: resets status, sets `metadata.generation`, generates selectors, and does
    /// what admission does by default (tolerations, priority, finalizers). Name, uid and creation time are set before.
    fn prepare_create(&self, object: &mut Value, env: &Env<'_>);

    /// Strategy on update of the main resource: takes what may not change from `old`, bumps `metadata.generation`.
    fn prepare_update(&self, new: &mut Value, old: &Value, env: &Env<'_>);

    /// Strategy on update of `/status`: takes everything but the status from `old` (annotations etc. as the kind does).
    fn prepare_status(&self, new: &mut Value, old: &Value, env: &Env<'_>);

    fn validate_create(&self, object: &Value) -> Vec<FieldError> {
        self.validate_update(object, &Value::Null)
    }

    fn validate_update(&self, _new: &Value, _old: &Value) -> Vec<FieldError> {
        Vec::new()
    }

    fn validate_status(&self, new: &Value, old: &Value) -> Vec<FieldError> {
        self.validate_update(new, old)
    }

    /// How a strategic merge patch merges the list at a path (dotted, no list index); `None` when it is replaced.
    fn merge_list(&self, _path: &str) -> Option<MergeList> {
        None
    }

    /// Value of a field that a selector may name besides `metadata.name` and `metadata.namespace`: empty for a field
    /// that is not set, `None` for one that may not be named.
    fn field(&self, _object: &Value, _field: &str) -> Option<String> {
        None
    }

    fn columns(&self) -> Vec<TableColumn>;

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Value>;

    /// `conditions` of the row: whether a Pod is finished.
    fn row_conditions(&self, _object: &Value) -> Vec<Value> {
        Vec::new()
    }

    fn converts(&self) -> bool;

    fn to_stored(&self, object: &mut Value);

    fn to_served(&self, object: &mut Value);

    fn name_rule(&self) -> NameRule {
        NameRule::Subdomain
    }

    /// Whether an unknown field of a selector is refused in the kind's own words (`field label not supported: x`).
    fn field_labels(&self) -> bool {
        false
    }

    /// Whether a PUT without `metadata.resourceVersion` is an unconditional update (true) or refused.
    fn unconditional_update(&self) -> bool {
        false
    }

    /// Whether a PUT to a missing name creates it (e.g. Leases, Services: `AllowCreateOnUpdate`).
    fn create_on_update(&self) -> bool {
        false
    }

    fn default_propagation(&self) -> Propagation {
        Propagation::Background
    }

    fn scale_paths(&self) -> Option<&ScalePaths> {
        None
    }

    fn is_custom(&self) -> bool {
        true
    }
}

pub(crate) struct ScalePaths {
    pub(crate) spec_replicas: Vec<String>,
    pub(crate) status_replicas: Vec<String>,
    pub(crate) selector: Option<Vec<String>>,
}

#[derive(Clone, Debug)]
pub(crate) struct TableColumn {
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) format: String,
    pub(crate) description: String,
    /// 0 for always, 1 for `-o wide`.
    pub(crate) priority: i64,
}

/// What strategies may use besides the objects.
pub(crate) struct Env<'a> {
    /// The server's time, whole seconds.
    pub(crate) now: Timestamp,
    /// Whether the feature gate of the API server is on (default positions of 1.36 unless switched).
    pub(crate) gate: &'a dyn Fn(&str) -> bool,
}

/// How a list is merged by a strategic merge patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MergeList {
    /// The key of the elements; empty for a list of primitives.
    pub(crate) key: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameRule {
    /// A DNS subdomain of at most 253 characters.
    Subdomain,
    /// A DNS label of at most 63 characters.
    Label,
    /// A path segment: anything but `.`, `..`, `/` and `%` (RBAC).
    PathSegment,
}

/// What becomes of dependents on deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Propagation {
    /// Dependents go after the owner.
    Background,
    /// Dependents lose their owner reference.
    Orphan,
    /// Dependents go first.
    Foreground,
}
