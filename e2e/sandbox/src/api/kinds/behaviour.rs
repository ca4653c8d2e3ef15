//! What a kind does beyond what the recorded resources and the schema say of it.

use jiff::Timestamp;
use serde_json::Value;

use super::{Env, Hub, errors::Errors};

/// The cell of an object in the column of a name, if it is not simply the value at a path.
pub(super) type Cell = fn(&Value, Timestamp, &str) -> Option<Value>;

/// The functions of one kind; `None` where it does as most kinds do.
#[derive(Default)]
pub(super) struct Behaviour {
    /// Defaults beyond those of the schema. Idempotent.
    pub(super) default: Option<fn(&mut Value)>,
    pub(super) prepare_create: Option<fn(&mut Value, &Env<'_>)>,
    pub(super) prepare_update: Option<fn(&mut Value, &Value, &Env<'_>)>,
    pub(super) prepare_status: Option<fn(&mut Value, &Value, &Env<'_>)>,
    /// Checks beyond those of the schema; the old object is null on creation.
    pub(super) validate: Option<fn(&mut Errors, &Value, &Value)>,
    pub(super) validate_status: Option<fn(&mut Errors, &Value, &Value)>,
    /// Value of a selectable field where it is not simply that of a path.
    pub(super) field: Option<fn(&Value, &str) -> Option<String>>,
    pub(super) cell: Option<Cell>,
    pub(super) row_conditions: Option<fn(&Value) -> Vec<Value>>,
    pub(super) type_error: Option<fn(&Value) -> Option<String>>,
    pub(super) hub: Option<Hub>,
}
