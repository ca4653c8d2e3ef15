//! Protobuf schemas of `PodDisruptionBudgets` and `ResourceQuotas`.

use super::meta::{CONDITION, LABEL_SELECTOR, OBJECT_META};
use crate::wire::schema::{
    MessageSchema,
    ValueType::{Int, IntOrString, Object, Quantity, Text, Time},
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

/// Schema of `core/v1.ResourceQuota`.
pub static RESOURCE_QUOTA: MessageSchema = MessageSchema {
    name: "core/v1.ResourceQuota",
    fields: &[
        field_always_in_json(1, "metadata", Object(&OBJECT_META)),
        field_always_in_json(2, "spec", Object(&RESOURCE_QUOTA_SPEC)),
        field_always_in_json(3, "status", Object(&RESOURCE_QUOTA_STATUS)),
    ],
};

static RESOURCE_QUOTA_SPEC: MessageSchema = MessageSchema {
    name: "core/v1.ResourceQuotaSpec",
    fields: &[
        map_field(1, "hard", Quantity),
        list_field(2, "scopes", Text),
        optional_field(3, "scopeSelector", Object(&SCOPE_SELECTOR)),
    ],
};

static SCOPE_SELECTOR: MessageSchema = MessageSchema {
    name: "core/v1.ScopeSelector",
    fields: &[list_field(1, "matchExpressions", Object(&SCOPED_RESOURCE_SELECTOR_REQUIREMENT))],
};

static SCOPED_RESOURCE_SELECTOR_REQUIREMENT: MessageSchema = MessageSchema {
    name: "core/v1.ScopedResourceSelectorRequirement",
    fields: &[
        field_always_in_json(1, "scopeName", Text),
        field_always_in_json(2, "operator", Text),
        list_field(3, "values", Text),
    ],
};

static RESOURCE_QUOTA_STATUS: MessageSchema = MessageSchema {
    name: "core/v1.ResourceQuotaStatus",
    fields: &[map_field(1, "hard", Quantity), map_field(2, "used", Quantity)],
};
