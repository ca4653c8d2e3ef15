//! The fields of ClusterRoles that the controller reads, and the rules that it writes.

use common::{
    json::null_as_default,
    meta::Annotations,
    prelude::*,
    store::{ByNamespace, StoreIndex},
};
use serde::{Deserialize, Serialize};

/// API resource of ClusterRoles.
pub const CLUSTER_ROLES: Resource =
    Resource::cluster_scoped("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole");

/// The fields of a ClusterRole that the controller reads.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterRole {
    /// `metadata` without annotations and finalizers.
    pub metadata: Meta,
    /// The rules that the role grants.
    #[serde(default, deserialize_with = "null_as_default")]
    pub rules: Box<[PolicyRule]>,
    /// Selects roles, whose rules this role gets; `None` if the role is not aggregated.
    #[serde(default)]
    pub aggregation_rule: Option<AggregationRule>,
}

/// The roles that an aggregated role selects.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AggregationRule {
    /// Selectors for the labels of ClusterRoles.
    #[serde(deserialize_with = "null_as_default")]
    pub cluster_role_selectors: Box<[Selector]>,
}

/// A `PolicyRule`. A missing list is equal to an empty one, and empty lists are not written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PolicyRule {
    /// Verbs, such as `get`.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "<[_]>::is_empty")]
    pub verbs: Box<[Text]>,
    /// API groups; the empty text for the core group.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "<[_]>::is_empty")]
    pub api_groups: Box<[Text]>,
    /// Plural names, with a subresource behind a slash.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "<[_]>::is_empty")]
    pub resources: Box<[Text]>,
    /// Names of objects; empty for all objects.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "<[_]>::is_empty")]
    pub resource_names: Box<[Text]>,
    /// Paths that belong to no resource.
    #[serde(rename = "nonResourceURLs", deserialize_with = "null_as_default", skip_serializing_if = "<[_]>::is_empty")]
    pub non_resource_urls: Box<[Text]>,
}

/// Lists the roles with an `aggregationRule`, all under [`cluster_scope`].
#[derive(Clone, Copy, Debug)]
pub struct Aggregated;

impl StoreIndex<ClusterRole> for Aggregated {
    fn value(_: &Meta, role: Option<&ClusterRole>) -> Option<IndexValue> {
        role?.aggregation_rule.as_ref().map(|_| cluster_scope())
    }
}

/// Returns the value under which the indexes of ClusterRoles list all of their objects.
pub fn cluster_scope() -> IndexValue {
    IndexValue::Text(Text::default())
}

impl Object for ClusterRole {
    const RESOURCE: Resource = CLUSTER_ROLES;
    type Indexes = (ByNamespace, Aggregated);

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn drop_unneeded_fields(&mut self) {
        self.metadata.annotations = Annotations::default();
        self.metadata.finalizers = Box::default();
    }
}
