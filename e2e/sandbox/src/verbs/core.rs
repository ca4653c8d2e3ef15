//! The heart of the server: storage, registry, switches, and the actors that follow its writes.

use std::{collections::BTreeMap, sync::Arc};

use common::clock::Clock;
use jiff::Timestamp;
use parking_lot::{Mutex, RwLock};
use serde_json::Value;

use crate::{
    api::{
        kinds,
        logic::Env,
        names,
        resource::{Key, Registry, Resource},
    },
    store::{
        Event, Store,
        audit::{Author, Requests, Writes},
    },
    value::{errors::FieldError, gates},
    verbs::{
        access::{Access, User},
        faults::Faults,
        webhooks::Webhooks,
    },
};

const NAMESPACES: &str = "namespaces";

/// How the server is set up.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) keep_unknown_fields: bool,
    pub(crate) protobuf: bool,
    pub(crate) managed_fields: bool,
    pub(crate) rbac: bool,
    pub(crate) aggregates_rules: bool,
    pub(crate) records_rights: bool,
    pub(crate) owner_references: bool,
    pub(crate) restricted_endpoints: bool,
    pub(crate) service_accounts: bool,
    pub(crate) gates: BTreeMap<String, bool>,
    pub(crate) advertised: Option<String>,
}

impl Setup {
    fn gate(&self, name: &str) -> bool {
        self.gates.get(name).copied().unwrap_or_else(|| gates::default_of(name))
    }
}

/// Acts on what is written, as a controller of the cluster does.
pub(crate) trait Actor: Send + Sync {
    /// Acts on a change that has just been stored and logged.
    fn changed(&self, core: &Core, store: &mut Store, resource: &Resource, event: &Event);
}

/// Everything a sandbox consists of.
pub(crate) struct Core {
    pub(crate) clock: Clock,
    pub(crate) setup: Setup,
    pub(crate) store: Mutex<Store>,
    registry: RwLock<Arc<Registry>>,
    pub(crate) faults: Faults,
    pub(crate) webhooks: Webhooks,
    pub(crate) writes: Writes,
    pub(crate) requests: Requests,
    pub(crate) access: Access,
    pub(crate) users: Mutex<BTreeMap<String, Arc<User>>>,
    actors: Vec<Box<dyn Actor>>,
}

impl Core {
    pub(crate) fn new(clock: Clock, setup: Setup, history: usize, writes: usize, actors: Vec<Box<dyn Actor>>) -> Self {
        let registry = kinds::registry(|name| setup.gate(name));
        let mut core = Self {
            faults: Faults::new(clock.clone()),
            webhooks: Webhooks::default(),
            access: Access::new(setup.rbac, setup.aggregates_rules, setup.records_rights),
            clock,
            setup,
            store: Mutex::new(Store::new(history)),
            registry: RwLock::new(registry),
            writes: Writes::new(0),
            requests: Requests::default(),
            users: Mutex::default(),
            actors,
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
    pub(crate) fn token(&self, identity: &str) -> String {
        let mut users = self.users.lock();
        if let Some((token, _)) = users.iter().find(|(_, user)| user.name == identity) {
            return token.clone();
        }
        let token = format!("sandbox-{}", self.clock.random_uuid());
        users.insert(token.clone(), Arc::new(User::of(identity)));
        token
    }

    pub(crate) fn registry(&self) -> Arc<Registry> {
        self.registry.read().clone()
    }

    /// Serves these resources from now on.
    pub(crate) fn serve(&self, registry: Registry) {
        *self.registry.write() = Arc::new(registry);
    }

    /// The server's time, whole seconds.
    pub(crate) fn now(&self) -> Timestamp {
        let now = self.clock.now();
        Timestamp::from_second(now.as_second()).unwrap_or(now)
    }

    /// Lets a strategy use the server's time and gates.
    pub(crate) fn with_env<R>(&self, strategy: impl FnOnce(&Env<'_>) -> R) -> R {
        let gate = |name: &str| self.gate(name);
        strategy(&Env { now: self.now(), gate: &gate })
    }

    /// Leaves out what a feature gate allows.
    pub(crate) fn allow_by_gates(&self, errors: &mut Vec<FieldError>) {
        errors.retain(|error| !error.allowed_by.is_some_and(|gate| self.gate(gate)));
    }

    /// Whether a feature gate of the API server is on.
    pub(crate) fn gate(&self, name: &str) -> bool {
        self.setup.gate(name)
    }

    /// Stores an object (in its stored form) and lets the actors react.
    pub(crate) fn put(
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

    /// Removes an object and lets the actors react.
    pub(crate) fn remove(
        &self,
        store: &mut Store,
        author: &Author<'_>,
        resource: &Resource,
        key: &Key,
    ) -> Option<Arc<Event>> {
        let event = store.remove(&resource.table, key, self.clock.monotonic_now())?;
        self.after(store, author, resource, &event);
        Some(event)
    }

    fn after(&self, store: &mut Store, author: &Author<'_>, resource: &Resource, event: &Event) {
        self.writes.record(author, &resource.group, &resource.plural, event, self.now());
        for actor in &self.actors {
            actor.changed(self, store, resource, event);
        }
    }
}
