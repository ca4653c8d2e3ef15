//! What a kind does beyond its coordinates: the functions of [`Kind`](super::Kind), with what most kinds do filled in.

use jiff::Timestamp;
use serde_json::Value;

use super::{Env, FieldError, Hub, MergeList, NameRule, Propagation};

/// The functions and switches of one kind.
pub(super) struct Behaviour {
    pub(super) default: fn(&mut Value),
    pub(super) prepare_create: fn(&mut Value, &Env<'_>),
    pub(super) prepare_update: fn(&mut Value, &Value, &Env<'_>),
    pub(super) prepare_status: fn(&mut Value, &Value, &Env<'_>),
    pub(super) validate_create: fn(&Value) -> Vec<FieldError>,
    pub(super) validate_update: fn(&Value, &Value) -> Vec<FieldError>,
    pub(super) validate_status: fn(&Value, &Value) -> Vec<FieldError>,
    pub(super) name: NameRule,
    pub(super) merge_keys: fn(&str) -> Option<MergeList>,
    pub(super) field: fn(&Value, &str) -> Option<String>,
    pub(super) field_labels: bool,
    pub(super) unconditional_update: bool,
    pub(super) create_on_update: bool,
    pub(super) default_propagation: Propagation,
    pub(super) row: fn(&Value, Timestamp) -> Vec<Value>,
    pub(super) row_conditions: fn(&Value) -> Vec<Value>,
    pub(super) prune: fn(&mut Value) -> Vec<String>,
    pub(super) type_error: fn(&Value) -> Option<String>,
    pub(super) hub: Option<Hub>,
}

/// A [`Behaviour`] of the wire structure named first; what is not given is as most kinds have it. `counted` kinds keep
/// `metadata.generation`, `plain` ones do not.
macro_rules! behaviour {
    ($id:literal, counted $(, $field:ident: $value:expr)* $(,)?) => {
        $crate::kinds::behaviour::behaviour!(@ $id, true $(, $field: $value)*)
    };
    ($id:literal, plain $(, $field:ident: $value:expr)* $(,)?) => {
        $crate::kinds::behaviour::behaviour!(@ $id, false $(, $field: $value)*)
    };
    (@ $id:literal, $counted:literal $(, $field:ident: $value:expr)*) => {
        $crate::kinds::behaviour::Behaviour {
            $($field: $value,)*
            ..$crate::kinds::behaviour::Behaviour {
                default: |object| $crate::kinds::canonical::canonicalize($id, object),
                prepare_create: |object, _| $crate::kinds::strategy::create($id, object, $counted),
                prepare_update: |new, old, _| $crate::kinds::strategy::update($id, new, old, $counted),
                prepare_status: |new, old, _| $crate::kinds::strategy::status($id, new, old),
                validate_create: |_| vec![],
                validate_update: |_, _| vec![],
                validate_status: |_, _| vec![],
                name: $crate::kinds::NameRule::Subdomain,
                merge_keys: |path| $crate::kinds::schema::merge_list($id, path),
                field: |_, _| None,
                field_labels: false,
                unconditional_update: true,
                create_on_update: false,
                default_propagation: $crate::kinds::Propagation::Background,
                row: $crate::kinds::table::name_and_age,
                row_conditions: |_| vec![],
                prune: |object| $crate::kinds::decode::prune($id, object),
                type_error: |object| $crate::kinds::decode::type_error($id, object),
                hub: None,
            }
        }
    };
}

pub(super) use behaviour;
