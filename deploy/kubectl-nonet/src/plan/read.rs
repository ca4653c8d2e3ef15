//! Reads the live objects of a plan with the rights of the caller.

use std::collections::BTreeSet;

use futures::stream::{self, StreamExt as _};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::ListParams;
use serde_json::{Value, json};

use super::{
    live::{IN_NAMESPACES, LiveState, NODES, ReadKind, UnreadList, needed_by},
    steps::text,
};
use crate::{connection::Connection, facts::FactResult};

/// Maximum number of lists that are read at the same time.
const MAX_CONCURRENT_REQUESTS: usize = 8;

/// Reads the objects that concern the given objects. Lists that fail are part of the result.
///
/// # Errors
/// If a list fails without which the plan would be wrong. The error is a message with the way out.
pub async fn read(connection: &Connection, given: &[Value], namespace: &str) -> Result<LiveState, String> {
    let named = given.iter().map(|object| text(object, "/metadata/namespace")).filter(|name| !name.is_empty());
    let mut namespaces: BTreeSet<&str> = named.collect();
    if namespaces.is_empty() {
        namespaces.insert(namespace);
    }
    let mut lists: Vec<(ReadKind, Option<&str>)> = vec![(NODES, None)];
    for namespace in &namespaces {
        lists.extend(IN_NAMESPACES.iter().map(|kind| (*kind, Some(*namespace))));
    }
    let requests = lists
        .into_iter()
        .map(|(kind, namespace)| async move { (kind, namespace, list(connection, kind, namespace).await) });
    let answers: Vec<_> = stream::iter(requests.collect::<Vec<_>>()).buffered(MAX_CONCURRENT_REQUESTS).collect().await;
    let mut live = LiveState::default();
    for (kind, namespace, answer) in answers {
        match answer {
            Ok(objects) => live.objects.extend(objects),
            Err(why) => {
                let needs = |object: &&Value| {
                    text(object, "/metadata/namespace") == namespace.unwrap_or_default()
                        && needed_by(text(object, "/kind")).contains(&kind.kind)
                };
                if let Some(object) = given.iter().find(needs) {
                    let of_kind = text(object, "/kind");
                    return Err(format!("a plan of a {of_kind} needs {}: {why} -> {}", kind.resource, why.remedy()));
                }
                let namespace = namespace.map(str::to_owned);
                live.unread.push(UnreadList { kind, namespace, why: why.to_string() });
            }
        }
    }
    let given_namespaces = given.iter().filter(|object| text(object, "/kind") == "Namespace");
    namespaces.extend(given_namespaces.map(|object| text(object, "/metadata/name")));
    for name in namespaces {
        live.objects.extend(read_namespace(connection, name).await);
    }
    Ok(live)
}

async fn list(connection: &Connection, kind: ReadKind, namespace: Option<&str>) -> FactResult<Vec<Value>> {
    let root = if kind.api_version.contains('/') { "apis" } else { "api" };
    let plural = kind.resource.split('.').next().unwrap_or_default();
    let path = match namespace {
        Some(namespace) => format!("/{root}/{}/namespaces/{namespace}/{plural}", kind.api_version),
        None => format!("/{root}/{}/{plural}", kind.api_version),
    };
    let mut objects: Vec<Value> = connection.list_all(&path, kind.resource, namespace, ListParams::default()).await?;
    // Items of a list do not repeat the kind.
    for object in &mut objects {
        object["apiVersion"] = kind.api_version.into();
        object["kind"] = kind.kind.into();
    }
    Ok(objects)
}

/// Reads a Namespace. Without the right to read it, it is assumed to exist.
async fn read_namespace(connection: &Connection, name: &str) -> Option<Value> {
    match connection.get_object::<Namespace>(None, name).await {
        Ok(found) => serde_json::to_value(found?).ok(),
        Err(_) => Some(json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": name, "uid": format!("simulated-{name}")}, "status": {"phase": "Active"},
        })),
    }
}
