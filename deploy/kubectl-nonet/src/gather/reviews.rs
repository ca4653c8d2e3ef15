//! Access reviews, which show whether the API server grants the controllers their main rights.

use std::collections::BTreeSet;

use futures::{StreamExt as _, stream};
use serde_json::{Value, json};

use super::MAX_CONCURRENT_REQUESTS;
use crate::{
    connection::Connection,
    controllers::{self, Controller},
    facts::{AccessReview, FactResult},
};

/// Reviews the rights of each installed controller. `installed` contains names and namespaces of controllers.
pub(super) async fn review_installed_controllers(
    connection: &Connection,
    installed: BTreeSet<(&str, &str)>,
) -> Vec<AccessReview> {
    let mut reviews = Vec::new();
    for (name, namespace) in installed {
        if let Some(controller) = controllers::ALL.iter().find(|controller| controller.name == name) {
            let denied = review_controller(connection, controller, namespace).await;
            reviews.push(AccessReview { controller_name: controller.name, denied_rights: denied });
        }
    }
    reviews
}

/// Returns the rights that the ServiceAccount of a controller lacks.
async fn review_controller(
    connection: &Connection,
    controller: &Controller,
    namespace: &str,
) -> FactResult<Vec<String>> {
    let mut rights: Vec<(String, Value)> = Vec::new();
    for right in controller.rights {
        let (resource, subresource) = right.resource.split_once('/').unwrap_or((right.resource, ""));
        let group = if right.group.is_empty() { String::new() } else { format!(" ({})", right.group) };
        let attributes =
            json!({"group": right.group, "resource": resource, "subresource": subresource, "verb": right.verb});
        rights.push((format!("{} {}{group}", right.verb, right.resource), attributes));
    }
    for verb in ["get", "update"] {
        let attributes = json!({
            "group": "coordination.k8s.io", "resource": "leases", "namespace": namespace, "name": controller.name, "verb": verb,
        });
        rights.push((format!("{verb} lease {namespace}/{}", controller.name), attributes));
    }
    let user = &format!("system:serviceaccount:{namespace}:nonet-{}", controller.name);
    let answers = rights.into_iter().map(|(shown, attributes)| async move {
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
            "spec": {"user": user, "groups": ["system:authenticated"], "resourceAttributes": attributes},
        });
        let answer = connection.review_access(&review).await?;
        Ok((answer["status"]["allowed"] != true).then_some(shown))
    });
    let answers: Vec<FactResult<Option<String>>> =
        stream::iter(answers).buffered(MAX_CONCURRENT_REQUESTS).collect().await;
    Ok(answers.into_iter().collect::<FactResult<Vec<_>>>()?.into_iter().flatten().collect())
}
