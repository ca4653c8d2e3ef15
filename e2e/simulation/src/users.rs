//! What users do, as requests to the API server.

use serde_json::{Value, json};

use super::{
    json,
    scenario::{Owner, What},
    stage::NAMESPACE,
};
use sandbox::{Refused, Sandbox, nodes::Nodes};

/// Does what a user does, as the identity that the sandbox acts for.
pub(super) async fn perform(sandbox: &Sandbox, what: &What) -> Result<(), Refused> {
    match what {
        What::Create(object) => sandbox.create(object.clone()).await.map(drop),
        What::Merge(resource, name, patch) => {
            sandbox.merge(resource, Some(NAMESPACE), name, None, patch.clone()).await.map(drop)
        }
        What::MergeStatus(resource, name, patch) => {
            sandbox.merge(resource, Some(NAMESPACE), name, Some("status"), patch.clone()).await.map(drop)
        }
        What::MergeAll(resource, key, value, patch) => {
            for object in sandbox.list(resource, Some(NAMESPACE)).await? {
                if json::labels(&object).get(key.as_str()) == Some(&value.as_str()) {
                    let name = json::name(&object);
                    sandbox.merge(resource, Some(NAMESPACE), name, None, patch.clone()).await?;
                }
            }
            Ok(())
        }
        What::Delete(resource, name, options) => {
            let object = sandbox.get(resource, Some(NAMESPACE), name).await?;
            delete(sandbox, resource, &object, options).await
        }
        What::DeleteAll(resource, key, value, options) => {
            for object in sandbox.list(resource, Some(NAMESPACE)).await? {
                let labelled = json::labels(&object).get(key.as_str()) == Some(&value.as_str());
                // Without grace, an object goes that is being deleted already.
                if labelled && (!json::is_deleting(&object) || options["gracePeriodSeconds"] == 0) {
                    // An item of a list does not say what it is.
                    let object = sandbox.get(resource, Some(NAMESPACE), json::name(&object)).await?;
                    delete(sandbox, resource, &object, options).await?;
                }
            }
            Ok(())
        }
        What::Webhook(webhook) => {
            sandbox.webhooks().install(webhook.clone());
            Ok(())
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
        What::Own(resource, name, owners) => {
            let mut references = Vec::new();
            for Owner { resource, name, blocked } in owners {
                let owner = sandbox.get(resource, Some(NAMESPACE), name).await?;
                references.push(json!({"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": name,
                    "uid": json::uid(&owner), "blockOwnerDeletion": blocked}));
            }
            let patch = json!({"metadata": {"ownerReferences": references}});
            sandbox.merge(resource, Some(NAMESPACE), name, None, patch).await.map(drop)
        }
    }
}

/// Does to nodes what a user does.
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
