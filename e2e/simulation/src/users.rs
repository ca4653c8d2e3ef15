//! What users do, as requests to the API server.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::{
    json,
    scenario::{Labelled, Owner, Target, What},
    stage::NAMESPACE,
};
use sandbox::{Refused, Sandbox, nodes::Nodes};

/// Does what a user does, as the identity that the sandbox acts for.
pub(super) async fn perform(sandbox: &Sandbox, what: &What) -> Result<(), Refused> {
    perform_in(sandbox, NAMESPACE, what).await
}

/// Does what a user does in a namespace. In objects, texts of the form `$configmaps/map:/metadata/uid` stand for what is at that
/// pointer of that object.
///
/// # Errors
/// What the server refuses.
pub async fn perform_in(sandbox: &Sandbox, namespace: &str, what: &What) -> Result<(), Refused> {
    let place = Place { sandbox, namespace };
    match what {
        What::Create(object) => sandbox.create(place.resolved(object).await?).await.map(drop),
        What::Merge(target, patch) => place.merge(target, None, patch).await,
        What::MergeStatus(target, patch) => place.merge(target, Some("status"), patch).await,
        What::MergeAll(objects, patch) => {
            for object in place.list(objects).await? {
                place.merge(&Target::new(&objects.resource, json::name(&object)), None, patch).await?;
            }
            Ok(())
        }
        What::Delete(target, options) => delete(sandbox, &target.resource, &place.get(target).await?, options).await,
        What::DeleteAll(objects, options) => {
            for object in place.list(objects).await? {
                // Without grace, an object goes that is being deleted already.
                if !json::is_deleting(&object) || options["gracePeriodSeconds"] == 0 {
                    // An item of a list does not say what it is.
                    let object = place.get(&Target::new(&objects.resource, json::name(&object))).await?;
                    delete(sandbox, &objects.resource, &object, options).await?;
                }
            }
            Ok(())
        }
        What::EvictAll(pods) => {
            for pod in place.list(pods).await?.iter().filter(|pod| !json::is_deleting(pod)) {
                evict(sandbox, pod).await?;
            }
            Ok(())
        }
        What::Webhook(webhook) => {
            sandbox.webhooks().install(webhook.clone());
            Ok(())
        }
        What::Finalize(name) => {
            let mut namespace = sandbox.get("namespaces", None, name).await?;
            namespace["spec"] = json!({"finalizers": []});
            let path = format!("/api/v1/namespaces/{name}/finalize");
            sandbox.send(http::Method::PUT, &path, "application/json", Some(&namespace)).await.map(drop)
        }
        What::NoWebhook(name) => {
            sandbox.webhooks().remove(name);
            Ok(())
        }
        // No request of a user can do it: it is done to nodes, processes and the server.
        What::Silence(_)
        | What::RenewOnly(_)
        | What::Condition(..)
        | What::Restore(_)
        | What::Pause(_)
        | What::Stop(_)
        | What::Outage(_) => Ok(()),
        What::Own(target, owners) => {
            let mut references = Vec::new();
            for Owner { target, blocked } in owners {
                let owner = place.get(target).await?;
                references.push(json!({"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": target.name,
                    "uid": json::uid(&owner), "blockOwnerDeletion": blocked}));
            }
            place.merge(target, None, &json!({"metadata": {"ownerReferences": references}})).await
        }
    }
}

struct Place<'a> {
    sandbox: &'a Sandbox,
    namespace: &'a str,
}

impl Place<'_> {
    async fn locate(&self, target: &Target) -> Result<(String, String), Refused> {
        let namespace = target.namespace.clone().unwrap_or_else(|| self.namespace.to_owned());
        let name = match target.name.as_str() {
            "*" => match &*self.sandbox.list(&target.resource, Some(&namespace)).await? {
                [object] => json::name(object).to_owned(),
                _ => target.name.clone(),
            },
            name => name.to_owned(),
        };
        Ok((namespace, name))
    }

    async fn get(&self, target: &Target) -> Result<Value, Refused> {
        let (namespace, name) = self.locate(target).await?;
        self.sandbox.get(&target.resource, Some(&namespace), &name).await
    }

    async fn list(&self, Labelled { resource, key, value }: &Labelled) -> Result<Vec<Value>, Refused> {
        let mut objects = self.sandbox.list(resource, Some(self.namespace)).await?;
        objects.retain(|object| json::labels(object).get(key.as_str()) == Some(&value.as_str()));
        Ok(objects)
    }

    async fn merge(&self, target: &Target, subresource: Option<&str>, patch: &Value) -> Result<(), Refused> {
        let ((namespace, name), patch) = (self.locate(target).await?, self.resolved(patch).await?);
        self.sandbox.merge(&target.resource, Some(&namespace), &name, subresource, patch).await.map(drop)
    }

    /// An object in which every text that stands for a field of another object is that field.
    async fn resolved(&self, object: &Value) -> Result<Value, Refused> {
        let mut fields = BTreeSet::new();
        find_references(object, &mut fields);
        let mut found = BTreeMap::new();
        for field in fields {
            let (target, pointer) = field[1..].split_once(":/").unwrap_or((&field[1..], ""));
            let target = self.get(&Target::read(target)).await?;
            found.insert(field.clone(), json::at(&target, &format!("/{pointer}")).cloned().unwrap_or_default());
        }
        Ok(if found.is_empty() { object.clone() } else { replace_references(object, &found) })
    }
}

fn find_references(value: &Value, fields: &mut BTreeSet<String>) {
    match value {
        Value::String(text) if text.starts_with('$') && text.contains(":/") => _ = fields.insert(text.clone()),
        Value::Array(items) => items.iter().for_each(|item| find_references(item, fields)),
        Value::Object(members) => members.values().for_each(|member| find_references(member, fields)),
        _ => {}
    }
}

fn replace_references(value: &Value, found: &BTreeMap<String, Value>) -> Value {
    match value {
        Value::String(text) => found.get(text).unwrap_or(value).clone(),
        Value::Array(items) => items.iter().map(|item| replace_references(item, found)).collect(),
        Value::Object(members) => {
            members.iter().map(|(key, member)| (key.clone(), replace_references(member, found))).collect()
        }
        other => other.clone(),
    }
}

pub(super) fn switch(nodes: &Nodes, what: &What) {
    let switched = match what {
        What::Silence(node) => nodes.silence(node),
        What::RenewOnly(node) => nodes.renew_only(node),
        What::Condition(node, kind, value) => nodes.set_condition(node, kind, *value),
        What::Restore(node) => nodes.restore(node),
        _ => Ok(()),
    };
    debug_assert!(switched.is_ok(), "{switched:?}");
}

/// Evicts a Pod, unless a budget forbids it, or several do.
async fn evict(sandbox: &Sandbox, pod: &Value) -> Result<(), Refused> {
    let (namespace, name) = (json::text(pod, "/metadata/namespace"), json::name(pod));
    let path = format!("/api/v1/namespaces/{namespace}/pods/{name}/eviction");
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}});
    match sandbox.send(http::Method::POST, &path, "application/json", Some(&eviction)).await {
        Err(refused) if !matches!(refused.code, 429 | 500) => Err(refused),
        _ => Ok(()),
    }
}

async fn delete(sandbox: &Sandbox, resource: &str, object: &Value, options: &Value) -> Result<(), Refused> {
    let (version, namespace) = (json::text(object, "/apiVersion"), json::text(object, "/metadata/namespace"));
    let root = if version.contains('/') { "apis" } else { "api" };
    let namespace = if namespace.is_empty() { String::new() } else { format!("namespaces/{namespace}/") };
    let (plural, name) = (resource.split('.').next().unwrap_or_default(), json::name(object));
    let path = format!("/{root}/{version}/{namespace}{plural}/{name}");
    let mut options = options.clone();
    options["kind"] = json!("DeleteOptions");
    options["apiVersion"] = json!("v1");
    sandbox.send(http::Method::DELETE, &path, "application/json", Some(&options)).await.map(drop)
}
