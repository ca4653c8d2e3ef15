//! Serves what the `CustomResourceDefinition`s in the store define, as the API server itself does.

use std::sync::Arc;

use serde_json::Value;

use crate::{
    api::{
        custom, names,
        resource::{Registry, Resource},
    },
    store::{Change, Event, Store, audit::Author},
    value::object::{at, text},
    verbs::core::{Actor, Core},
};

const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";

/// Adds and removes custom resources, accepts their names, and deletes their objects with the definition.
pub(crate) struct Definitions;

impl Actor for Definitions {
    fn changed(&self, core: &Core, store: &mut Store, resource: &Resource, event: &Event) {
        if &*resource.table != DEFINITIONS {
            return;
        }
        let definition = event.version.value();
        let (group, plural) = (text(&definition, &["spec", "group"]), text(&definition, &["spec", "names", "plural"]));
        let mut registry = Registry::clone(&core.registry());
        let old: Vec<Arc<Resource>> =
            registry.any_version(group, plural).filter(|r| r.is_custom()).into_iter().cloned().collect();
        if old.is_empty() && registry.any_version(group, plural).is_some() {
            return; // a built-in resource is not replaced
        }
        registry.remove(group, plural);
        if event.change == Change::Deleted {
            core.serve(registry);
            let author = Author::sandbox("system:apiserver", "deletecollection");
            for resource in old {
                let all = store.list(&resource.table, None, None, None).unwrap_or_default();
                for (key, _) in all {
                    core.remove(store, &author, &resource, &key);
                }
                store.notify(&resource.table).notify_waiters();
            }
            return;
        }
        for served in custom::served(&definition) {
            registry.add(Arc::new(served));
        }
        core.serve(registry);
        if at(&definition, &["status", "acceptedNames"]) != at(&definition, &["spec", "names"]) {
            let mut established = Value::clone(&definition);
            custom::establish(&mut established, &names::time(core.now()));
            let author = Author::sandbox("system:apiserver", "update");
            core.put(store, &author, resource, &event.key, established);
        }
    }
}
