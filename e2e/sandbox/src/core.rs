//! The heart of the server: storage, registry, switches, and what the sandbox does by itself after a write.

use std::{collections::BTreeMap, sync::Arc};

use common::clock::Clock;
use jiff::Timestamp;
use parking_lot::{Mutex, RwLock};
use serde_json::Value;

use super::{
    access::{Access, User},
    audit::{Author, Requests, Writes},
    custom,
    delete::Deleting,
    faults::Faults,
    gates,
    kinds::{Env, FieldError},
    names,
    object::{is_deleting, text},
    request::DeleteOptions,
    resource::{Key, Registry, Resource},
    store::{Event, NamespaceState, Store},
    webhooks::Webhooks,
};

const NAMESPACES: &str = "namespaces";
const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";

/// How the server is set up.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    pub(super) keep_unknown_fields: bool,
    pub(super) protobuf: bool,
    pub(super) managed_fields: bool,
    pub(super) rbac: bool,
    pub(super) owner_references: bool,
    pub(super) gates: BTreeMap<String, bool>,
    pub(super) advertised: Option<String>,
}

impl Setup {
    fn gate(&self, name: &str) -> bool {
        self.gates.get(name).copied().unwrap_or_else(|| gates::default_of(name))
    }
}

/// Everything a sandbox consists of.
pub(super) struct Core {
    pub(super) clock: Clock,
    pub(super) setup: Setup,
    pub(super) store: Mutex<Store>,
    registry: RwLock<Arc<Registry>>,
    pub(super) faults: Faults,
    pub(super) webhooks: Webhooks,
    pub(super) writes: Writes,
    pub(super) requests: Requests,
    pub(super) access: Access,
    pub(super) users: Mutex<BTreeMap<String, Arc<User>>>,
}

impl Core {
    pub(super) fn new(clock: Clock, setup: Setup, history: usize, writes: usize) -> Self {
        let registry = Registry::gated(|name| setup.gate(name));
        let mut core = Self {
            faults: Faults::new(clock.clone()),
            webhooks: Webhooks::default(),
            clock,
            setup,
            store: Mutex::new(Store::new(history)),
            registry: RwLock::new(registry),
            writes: Writes::new(0),
            requests: Requests::default(),
            access: Access::default(),
            users: Mutex::default(),
        };
        for name in ["default", "kube-node-lease", "kube-public", "kube-system"] {
            core.create_namespace(name);
        }
        // What is there from the start was written by nobody.
        core.writes = Writes::new(writes);
        core
    }

    fn create_namespace(&self, name: &str) {
        let registry = self.registry();
        let Some(resource) = registry.get("", "v1", NAMESPACES) else { return };
        let mut object = serde_json::json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": name, "uid": self.clock.random_uuid(), "creationTimestamp": names::time(self.clock.now())}
        });
        resource.default(&mut object);
        self.with_env(|env| resource.prepare_create(&mut object, env));
        let author = Author::sandbox("system:apiserver", "create");
        self.put(&mut self.store.lock(), &author, resource, &Key::new(None, name), object);
    }

    /// A bearer token by which a client is known as `identity`; always the same one.
    pub(super) fn token(&self, identity: &str) -> String {
        let mut users = self.users.lock();
        if let Some((token, _)) = users.iter().find(|(_, user)| user.name == identity) {
            return token.clone();
        }
        let token = format!("sandbox-{}", self.clock.random_uuid());
        users.insert(token.clone(), Arc::new(User::of(identity)));
        token
    }

    pub(super) fn registry(&self) -> Arc<Registry> {
        self.registry.read().clone()
    }

    /// The server's time, whole seconds.
    pub(super) fn now(&self) -> Timestamp {
        let now = self.clock.now();
        Timestamp::from_second(now.as_second()).unwrap_or(now)
    }

    /// Lets a strategy use the server's time and gates.
    pub(super) fn with_env<R>(&self, strategy: impl FnOnce(&Env<'_>) -> R) -> R {
        let gate = |name: &str| self.gate(name);
        strategy(&Env { now: self.now(), gate: &gate })
    }

    /// Whether a feature gate of the API server is on.
    /// Leaves out what a feature gate allows.
    pub(super) fn allow_by_gates(&self, errors: &mut Vec<FieldError>) {
        errors.retain(|error| !error.allowed_by.is_some_and(|gate| self.gate(gate)));
    }

    pub(super) fn gate(&self, name: &str) -> bool {
        self.setup.gate(name)
    }

    /// Stores an object (in its stored form) and lets the sandbox react.
    pub(super) fn put(
        &self,
        store: &mut Store,
        author: &Author<'_>,
        resource: &Resource,
        key: &Key,
        object: Value,
    ) -> Arc<Event> {
        let event = store.put(&resource.table, key, object, self.clock.monotonic_now());
        self.after(store, author, resource, &event);
        event
    }

    /// Removes an object and lets the sandbox react.
    pub(super) fn remove(
        &self,
        store: &mut Store,
        author: &Author<'_>,
        resource: &Resource,
        key: &Key,
    ) -> Option<Arc<Event>> {
        let event = store.remove(&resource.table, key, self.clock.monotonic_now())?;
        self.after(store, author, resource, &event);
        if let Some(namespace) = key.namespace() {
            self.finish_namespace(store, namespace);
        }
        Some(event)
    }

    fn after(&self, store: &mut Store, author: &Author<'_>, resource: &Resource, event: &Event) {
        self.writes.record(author, &resource.group, &resource.plural, event, self.now());
        if &*resource.table == DEFINITIONS {
            self.definition_changed(store, resource, event);
        }
    }

    /// Serves what a definition says, and says so in its status.
    fn definition_changed(&self, store: &mut Store, resource: &Resource, event: &Event) {
        let definition = event.version.value();
        let (group, plural) = (text(&definition, &["spec", "group"]), text(&definition, &["spec", "names", "plural"]));
        let mut registry = Registry::clone(&self.registry());
        let old: Vec<Arc<Resource>> =
            registry.any_version(group, plural).filter(|r| r.is_custom()).into_iter().cloned().collect();
        if old.is_empty() && registry.any_version(group, plural).is_some() {
            return; // a built-in resource is not replaced
        }
        registry.remove(group, plural);
        if event.change == super::store::Change::Deleted {
            *self.registry.write() = Arc::new(registry);
            let author = Author::sandbox("system:apiserver", "deletecollection");
            for resource in old {
                let all = store.list(&resource.table, None, None, None).unwrap_or_default();
                for (key, _) in all {
                    self.remove(store, &author, &resource, &key);
                }
                store.notify(&resource.table).notify_waiters();
            }
            return;
        }
        for served in custom::served(&definition) {
            registry.add(Arc::new(served));
        }
        *self.registry.write() = Arc::new(registry);
        let accepted = super::object::at(&definition, &["status", "acceptedNames"]);
        let names = super::object::at(&definition, &["spec", "names"]);
        if accepted != names {
            let mut established = Value::clone(&definition);
            custom::establish(&mut established, &names::time(self.now()));
            let author = Author::sandbox("system:apiserver", "update");
            self.put(store, &author, resource, &event.key, established);
        }
    }

    /// Plays the namespace controller: removes what is in a terminating namespace.
    pub(super) fn empty_namespace(&self, store: &mut Store, namespace: &str) {
        let author = Author::sandbox("system:serviceaccount:kube-system:namespace-controller", "delete");
        let registry = self.registry();
        let mut done: Vec<Arc<str>> = Vec::new();
        for resource in registry.all().filter(|r| r.namespaced) {
            if done.contains(&resource.table) {
                continue;
            }
            done.push(resource.table.clone());
            for (key, _) in store.list(&resource.table, Some(namespace), None, None).unwrap_or_default() {
                let options = DeleteOptions { propagation: Some("Background".into()), ..DeleteOptions::default() };
                let deleting = Deleting { core: self, author, resource, options };
                // What cannot be deleted now (it has finalizers) is waited for.
                drop(deleting.delete(store, &key));
            }
        }
        self.finish_namespace(store, namespace);
    }

    /// Removes a terminating namespace in which nothing is left.
    pub(super) fn finish_namespace(&self, store: &mut Store, namespace: &str) {
        if store.namespace(namespace) != Some(NamespaceState::Terminating) || store.count_in(namespace) > 0 {
            return;
        }
        let key = Key::new(None, namespace);
        let held = store.get(NAMESPACES, &key).is_some_and(|v| {
            let value = v.value();
            let others = super::object::at(&value, &["spec", "finalizers"]).as_array();
            let others = others.is_some_and(|list| list.iter().any(|f| f != "kubernetes"));
            others || !super::object::finalizers(&value).is_empty() || !is_deleting(&value)
        });
        if held {
            return;
        }
        let registry = self.registry();
        if let Some(resource) = registry.get("", "v1", NAMESPACES) {
            let author = Author::sandbox("system:serviceaccount:kube-system:namespace-controller", "update");
            self.remove(store, &author, resource, &key);
        }
    }
}
