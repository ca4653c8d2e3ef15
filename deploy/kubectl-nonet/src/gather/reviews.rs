//! Access reviews: whether the API server grants a controller its main rights.

use std::collections::BTreeSet;

use futures::{StreamExt as _, stream};
use serde_json::{Value, json};

use super::{AT_ONCE, read::Reader};
use crate::{
    controllers::{self, Controller},
    facts::{Read, Review},
};

/// Asks about every controller.
pub(super) async fn ask(reader: &Reader<'_>, installed: BTreeSet<(&'static str, String)>) -> Vec<Review> {
    let known = |(name, namespace): (&str, String)| {
        controllers::ALL.iter().find(|controller| controller.name == name).map(|controller| (controller, namespace))
    };
    let mut reviews = Vec::new();
    for (controller, namespace) in installed.into_iter().filter_map(known) {
        let denied = ask_for(reader, controller, &namespace).await;
        reviews.push(Review { controller: controller.name, denied });
    }
    reviews
}

/// The rights that a controller lacks.
async fn ask_for(reader: &Reader<'_>, controller: &Controller, namespace: &str) -> Read<Vec<String>> {
    let split = |resource: &'static str| resource.split_once('/').unwrap_or((resource, ""));
    let mut rights: Vec<(String, Value)> = Vec::new();
    for right in controller.rights {
        let (resource, subresource) = split(right.resource);
        let shown = if right.group.is_empty() {
            right.resource.to_owned()
        } else {
            format!("{} ({})", right.resource, right.group)
        };
        let attributes =
            json!({"group": right.group, "resource": resource, "subresource": subresource, "verb": right.verb});
        rights.push((format!("{} {shown}", right.verb), attributes));
    }
    for verb in ["get", "update"] {
        let attributes = json!({
            "group": "coordination.k8s.io", "resource": "leases", "namespace": namespace, "name": controller.name, "verb": verb,
        });
        rights.push((format!("{verb} lease {namespace}/{}", controller.name), attributes));
    }
    let user = format!("system:serviceaccount:{namespace}:nonet-{}", controller.name);
    let user = user.as_str();
    let answers = rights.into_iter().map(|(shown, attributes)| async move {
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
            "spec": {"user": user, "groups": ["system:authenticated"], "resourceAttributes": attributes},
        });
        let answer = reader.review(&review).await?;
        Ok((answer["status"]["allowed"] != true).then_some(shown))
    });
    let answers: Vec<Read<Option<String>>> = stream::iter(answers).buffered(AT_ONCE).collect().await;
    Ok(answers.into_iter().collect::<Read<Vec<_>>>()?.into_iter().flatten().collect())
}
