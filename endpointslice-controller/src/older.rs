//! The loop that keeps Endpoints, the older form of slices, for Services with a selector.
//!
//! Deciding is in [`crate::decide::older`]. Where it differs from upstream: Endpoints are patched, onto the version that was
//! looked at; own writes are waited for by the ledger, where upstream remembers one version; deletions name the uid they mean;
//! Endpoints that lack addresses are written only if they change.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use common::{
    api::{self, Delete, Patch, Target, Written},
    consistency::{Cache, Ledger},
    controller::{Controller, Loop, Observed, Requeue, priority},
    events::{EventType, ObjectRef},
    informer::{AnyInformer, Listened},
    meta::{Key, Meta, Uid},
    queue::{Backoff, Queue},
    runtime::{Context, LoopDefinition, Running},
    settings::{Tune, TuneValue, WorkersFlag},
    store::{Event, Origin},
};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    EXPECTATIONS_TIMEOUT, caches,
    decide::{
        mirror::LEADER,
        older::{self, OlderPlan, OlderSnapshot, Wanted},
    },
    error::Error,
    matching,
    memory::{Memories, Memory},
    objects::{ENDPOINTS, Endpoints, Pod, Service},
    observe::{RECHECK, pods_of},
    snapshot::{Member, Place, Snapshot},
    watch::Parked,
};

/// The flag that says how many Services are synced at once.
pub const CONCURRENT_SYNCS: WorkersFlag = WorkersFlag {
    name: "concurrent-endpoint-syncs",
    default: 5,
    min: 1,
    help: "How many Services have their Endpoints synced at once",
};
/// For how long changes of Pods are gathered.
pub const UPDATES_BATCH_PERIOD: Tune = Tune {
    name: "endpoint-updates-batch-period",
    default: TuneValue::Duration(Duration::ZERO),
    help: "For how long changes of Pods are gathered before the Endpoints of their Services are written",
};

/// The loop of Endpoints.
pub const ENDPOINTS_LOOP: LoopDefinition = LoopDefinition {
    name: "endpoints-controller",
    alias: "endpoint",
    client: "endpoint-controller",
    component: older::ENDPOINT_CONTROLLER,
    start,
};

fn start(context: Context) -> Arc<dyn Running> {
    let queue = context.queue("endpoint", Backoff::default());
    let workers = context.settings.workers(&CONCURRENT_SYNCS);
    let controller = EndpointsController::new(context.clone(), queue.clone());
    Loop::start(ENDPOINTS_LOOP.name, context, Arc::new(controller), queue, workers)
}

/// The controller of Endpoints.
pub struct EndpointsController {
    context: Context,
    services: Arc<Listened<Service>>,
    pods: Arc<Listened<Pod>>,
    endpoints: Arc<Listened<Endpoints>>,
    memories: Arc<Memories>,
    parked: Arc<Parked>,
    ledger: Ledger,
}

/// Whose record in the ledger is about the Endpoints of that name: they outlive their Service.
fn record(key: &Key) -> Uid {
    Uid::new(&key.to_string())
}

impl EndpointsController {
    /// Starts watching; keys go to `queue`.
    pub fn new(context: Context, queue: Queue<Key>) -> Self {
        let settings = Arc::clone(&context.settings);
        let batch = settings.duration(&UPDATES_BATCH_PERIOD);
        let ledger = Ledger::new(context.clock.clone(), settings.duration(&EXPECTATIONS_TIMEOUT));
        let (services, pods) = (caches::services(&context), caches::pods(&context));
        let endpoints = caches::endpoints(&context);
        let (memories, parked): (Arc<Memories>, Arc<Parked>) = Default::default();
        let (for_services, for_pods, for_endpoints) = (queue.clone(), queue.clone(), queue);
        let (of_gone, store, woken) = (Arc::clone(&memories), Arc::clone(services.store()), Arc::clone(&parked));
        services.listen(Box::new(move |event, origin| {
            let key = event.meta().key();
            if let Event::Deleted(service) = event {
                of_gone.forget(&key, &service.metadata.uid);
            }
            for_services.add(key, priority(origin));
        }));
        pods.listen(Box::new(move |event, origin| {
            // Each Service comes to the queue by itself then.
            if origin != Origin::Initial {
                for key in matching::concerned(&store, event) {
                    for_pods.gather(key, batch);
                }
            }
        }));
        endpoints.listen(Box::new(move |event, origin| {
            let key = event.meta().key();
            let comes = match event {
                // What was left over goes; a lock has no Service and stays.
                Event::Added(there) => origin == Origin::Initial && there.metadata.annotations.get(LEADER).is_none(),
                Event::Deleted(_) => true,
                Event::Updated { .. } | Event::Unreadable(_) => false,
            };
            if woken.wake(&key) || comes {
                for_endpoints.add(key, priority(origin));
            }
        }));
        Self { context, services, pods, endpoints, memories, parked, ledger }
    }

    fn snapshot(&self, service: Arc<Service>) -> Result<Snapshot, Error> {
        let pods = if service.selects() { pods_of(self.pods.store(), &service)? } else { Vec::new() };
        let members = pods.into_iter().map(|pod| Member { pod, place: Place::Unknown }).collect();
        let memory = self.memories.of(&service.metadata.key(), &service.metadata.uid);
        Ok(Snapshot { service, members, slices: Vec::new(), memory, ratios: None, most: 0 })
    }

    async fn delete(&self, key: &Key, endpoints: &Endpoints) -> Result<(), Error> {
        let meta = &endpoints.metadata;
        let version = Some(meta.resource_version);
        let options = Delete { uid: Some(meta.uid.clone()), version, ..Delete::default() };
        match self.context.api.delete(Target::object(ENDPOINTS, &meta.namespace, &meta.name), &options).await {
            Ok(_) => {}
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(Error::request(format!("failed to delete endpoints {key}"), error)),
        }
        self.ledger.deleted(&record(key), ENDPOINTS, &meta.namespace, &meta.name, &meta.uid);
        Ok(())
    }

    async fn write(&self, key: &Key, wanted: &Wanted) -> Result<(), api::Error> {
        let answer = match &wanted.base {
            Some(base) => {
                let target = Target::object(ENDPOINTS, &key.namespace, &key.name);
                self.context.api.patch(target, Patch::Merge, &patch(base, wanted)).await?
            }
            None => {
                let target = Target::object(ENDPOINTS, &key.namespace, "");
                self.context.api.create(target, &whole(key, wanted)).await?
            }
        };
        let written = serde_json::from_slice::<Written>(&answer)?.metadata;
        self.ledger.wrote(&record(key), ENDPOINTS, written.resource_version);
        Ok(())
    }

    async fn keep(&self, key: &Key, service: &Service, wanted: &Wanted) -> Result<(), Error> {
        let memory = Memory {
            uid: service.metadata.uid.clone(),
            seen: Some(Arc::new(wanted.seen.clone())),
            ..Memory::default()
        };
        let is_there = |meta: &Meta| meta.uid == service.metadata.uid;
        if self.services.store().peek(&key.namespace, &key.name, is_there) == Some(true) {
            self.memories.keep(key, memory);
        }
        if !wanted.write {
            return Ok(());
        }
        let Err(error) = self.write(key, wanted).await else { return Ok(()) };
        if error.is_namespace_terminating() {
            return Ok(());
        }
        if !matches!(error, api::Error::NotLeader) {
            let (reason, message) = match &wanted.base {
                None => ("FailedToCreateEndpoint", format!("Failed to create endpoint for service {key}: {error}")),
                Some(_) => ("FailedToUpdateEndpoint", format!("Failed to update endpoint {key}: {error}")),
            };
            let about = match &wanted.base {
                Some(base) => ObjectRef::new(ENDPOINTS, &base.metadata),
                None => ObjectRef::bare(ENDPOINTS, &key.namespace, &key.name, Uid::default()),
            };
            self.context.recorder.event(&about, EventType::Warning, reason, message);
        }
        Err(Error::request(format!("failed to write endpoints {key}"), error))
    }
}

fn whole(key: &Key, wanted: &Wanted) -> Value {
    let annotations: BTreeMap<&str, &str> =
        wanted.annotations().into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
    json!({
        "apiVersion": ENDPOINTS.api_version(), "kind": ENDPOINTS.kind,
        "metadata": {"name": key.name, "namespace": key.namespace, "labels": wanted.labels, "annotations": annotations},
        "subsets": wanted.subsets,
    })
}

/// A merge patch onto the version that was looked at; annotations of others stay.
fn patch(base: &Endpoints, wanted: &Wanted) -> Value {
    let meta = &base.metadata;
    let gone = meta.labels.iter().filter(|(key, _)| wanted.labels.get(key).is_none()).map(|(key, _)| (key, None));
    let labels: BTreeMap<&str, Option<&str>> =
        wanted.labels.iter().map(|(key, value)| (key, Some(value))).chain(gone).collect();
    let annotations: BTreeMap<&str, Option<&str>> =
        wanted.annotations().into_iter().filter(|(name, value)| meta.annotations.get(name) != *value).collect();
    json!({
        "metadata": {"resourceVersion": meta.resource_version, "uid": meta.uid, "labels": labels, "annotations": annotations},
        "subsets": wanted.subsets,
    })
}

/// What one sync looks at, and what it is about.
pub struct Older {
    key: Key,
    inner: OlderSnapshot,
}

impl Controller for EndpointsController {
    type Key = Key;
    type Snapshot = Older;
    type Plan = OlderPlan;
    type Error = Error;

    fn observe(&self, key: &Key, _now: Timestamp) -> Result<Observed<Older>, Error> {
        let store = self.endpoints.store();
        let caches: [&dyn Cache; 1] = [&**store];
        if let Some((behind, left)) = self.ledger.behind(&record(key), &caches, Default::default) {
            return Ok(Observed::Waiting { why: behind.to_string(), at_most: left.min(RECHECK) });
        }
        let service = self.services.store().get(&key.namespace, &key.name)?;
        let service = service.map(|service| self.snapshot(service)).transpose()?;
        let endpoints = store.get(&key.namespace, &key.name)?;
        Ok(Observed::Ready(Older { key: key.clone(), inner: OlderSnapshot { service, endpoints } }))
    }

    fn decide(snapshot: &Older) -> OlderPlan {
        older::decide(&snapshot.inner)
    }

    async fn act(&self, snapshot: Older, plan: OlderPlan) -> Result<Requeue, Error> {
        let Older { key, inner } = snapshot;
        match (&plan, &inner.service) {
            (OlderPlan::Delete(endpoints), _) => self.delete(&key, endpoints).await?,
            (OlderPlan::Keep(wanted), Some(of)) => self.keep(&key, &of.service, wanted).await?,
            (OlderPlan::Keep(_) | OlderPlan::Leave, _) => {}
        }
        Ok(Requeue::No)
    }

    fn informers(&self) -> Vec<&dyn AnyInformer> {
        vec![self.services.informer(), self.pods.informer(), self.endpoints.informer()]
    }

    fn waiting(&self, key: &Key) {
        self.parked.park(key);
    }
}
