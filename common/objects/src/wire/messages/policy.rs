//! Protobuf schema of PodDisruptionBudgets.

use super::meta::{CONDITION, LABEL_SELECTOR, OBJECT_META};
use crate::wire::schema::{
    MessageSchema,
    ValueType::{Int, IntOrString, Object, Text, Time},
    field_always_in_json, list_field, map_field, omitempty_field, optional_field,
};

/// Schema of `policy/v1.PodDisruptionBudget`.
pub static POD_DISRUPTION_BUDGET: MessageSchema = MessageSchema {
    name: "policy/v1.PodDisruptionBudget",
    fields: &[
        field_always_in_json(1, "metadata", Object(&OBJECT_META)),
        field_always_in_json(2, "spec", Object(&POD_DISRUPTION_BUDGET_SPEC)),
        field_always_in_json(3, "status", Object(&POD_DISRUPTION_BUDGET_STATUS)),
    ],
};

static POD_DISRUPTION_BUDGET_SPEC: MessageSchema = MessageSchema {
    name: "policy/v1.PodDisruptionBudgetSpec",
    fields: &[
        optional_field(1, "minAvailable", IntOrString),
        optional_field(2, "selector", Object(&LABEL_SELECTOR)),
        optional_field(3, "maxUnavailable", IntOrString),
        optional_field(4, "unhealthyPodEvictionPolicy", Text),
    ],
};

static POD_DISRUPTION_BUDGET_STATUS: MessageSchema = MessageSchema {
    name: "policy/v1.PodDisruptionBudgetStatus",
    fields: &[
        omitempty_field(1, "observedGeneration", Int),
        map_field(2, "disruptedPods", Time),
        field_always_in_json(3, "disruptionsAllowed", Int),
        field_always_in_json(4, "currentHealthy", Int),
        field_always_in_json(5, "desiredHealthy", Int),
        field_always_in_json(6, "expectedPods", Int),
        list_field(7, "conditions", Object(&CONDITION)),
    ],
};
