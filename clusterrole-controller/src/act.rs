//! Writes the rules of an aggregated role.

use common::prelude::*;
use serde_json::json;

use crate::{
    ClusterRoleController,
    objects::{CLUSTER_ROLES, PolicyRule},
};

/// The owner of `rules` in `managedFields`, as upstream's.
const FIELD_MANAGER: &str = "clusterrole-aggregation-controller";

/// Replaces the rules of exactly this version of a role. The list is sent even if it is empty, because the server would otherwise
/// keep the rules of other managers.
pub(crate) async fn write_rules(
    role: &Meta,
    rules: &[PolicyRule],
    why: String,
    io: Io<'_, ClusterRoleController>,
) -> Result<Requeue, SyncError> {
    let body = io.encode_body(|| {
        json!({"apiVersion": CLUSTER_ROLES.api_version(), "kind": CLUSTER_ROLES.kind(),
            "metadata": {"name": role.name}, "rules": rules})
    });
    let apply = Request::apply(CLUSTER_ROLES, &role.namespace, &role.name, FIELD_MANAGER, body)
        .with_precondition(Some(Precondition::for_exact_version(role)))
        .with_role(ObjectRole::SyncedObject)
        .with_reason(why);
    match io.send(apply).await {
        Ok(_) => Ok(Requeue::AfterPlannedDelay),
        // The role was changed, deleted or recreated. The cache is about to show that.
        Err(refusal) if refusal.class == RefusalClass::VersionConflict => Ok(Requeue::Conflict),
        Err(refusal) => Err(SyncError::from_refusal("cannot write the rules", &refusal)),
    }
}
