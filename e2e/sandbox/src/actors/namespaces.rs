//! The namespace controller: deletes the content of a terminating namespace, and finalizes it once nothing is left.
//!
//! Upstream: `pkg/controller/namespace`.

use std::{collections::BTreeSet, sync::Arc};

use serde_json::Value;

use crate::{
    api::resource::{Key, Resource},
    store::{Change, Event, NamespaceState, Store, audit::Author},
    value::object::{at, child, finalizers, is_deleting},
    verbs::{
        core::{Actor, Core},
        delete::Deleting,
        request::DeleteOptions,
    },
};

const NAMESPACES: &str = "namespaces";
const IDENTITY: &str = "system:serviceaccount:kube-system:namespace-controller";
/// The finalizer of this controller, in `spec.finalizers`.
const FINALIZER: &str = "kubernetes";

/// Without it a deleted namespace stays, as does its content.
pub(crate) struct NamespaceController;

impl Actor for NamespaceController {
    fn changed(&self, core: &Core, store: &mut Store, resource: &Resource, event: &Event) {
        if &*resource.table == NAMESPACES {
            let name = event.key.name();
            let was_terminating = event.before.as_ref().is_some_and(|before| is_deleting(&before.value()));
            if !was_terminating && store.namespace(name) == Some(NamespaceState::Terminating) {
                empty(core, store, name);
            }
            finalize(core, store, name);
        } else if let (Change::Deleted, Some(namespace)) = (event.change, event.key.namespace()) {
            finalize(core, store, namespace);
        }
    }
}

fn empty(core: &Core, store: &mut Store, namespace: &str) {
    let author = Author::sandbox(IDENTITY, "delete");
    let registry = core.registry();
    let mut done: BTreeSet<Arc<str>> = BTreeSet::new();
    for resource in registry.all().filter(|r| r.namespaced) {
        if !done.insert(Arc::clone(&resource.table)) {
            continue;
        }
        for (key, _) in store.list(&resource.table, Some(namespace), None, None).unwrap_or_default() {
            let options = DeleteOptions { propagation: Some("Background".into()), ..DeleteOptions::default() };
            let deleting = Deleting { core, author, resource, options };
            // What cannot be deleted now (it has finalizers) is waited for.
            drop(deleting.delete(store, &key));
        }
    }
}

/// Takes the controller's finalizer from a terminating namespace in which nothing is left.
fn finalize(core: &Core, store: &mut Store, name: &str) {
    if store.namespace(name) != Some(NamespaceState::Terminating) || store.count_in(name) > 0 {
        return;
    }
    let (registry, key) = (core.registry(), Key::new(None, name));
    let Some(resource) = registry.get("", "v1", NAMESPACES) else { return };
    let Some(mut namespace) = store.get(NAMESPACES, &key).map(|version| Value::clone(&version.value())) else { return };
    let all = at(&namespace, &["spec", "finalizers"]).as_array().cloned().unwrap_or_default();
    let others: Vec<Value> = all.iter().filter(|finalizer| **finalizer != FINALIZER).cloned().collect();
    let author = Author::sandbox(IDENTITY, "update");
    if others.is_empty() && finalizers(&namespace).is_empty() {
        core.remove(store, &author, resource, &key);
    } else if others.len() < all.len() {
        child(&mut namespace, "spec").insert("finalizers".into(), others.into());
        core.put(store, &author, resource, &key, namespace);
    }
}
