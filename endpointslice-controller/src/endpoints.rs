//! The loop that keeps an Endpoints object for every Service with a selector: the predecessor of slices.
//!
//! Deciding is in [`crate::decide::endpoints`]. Where it differs from upstream: Endpoints are patched, onto the version that was
//! looked at; own writes are waited for by the ledger, where upstream remembers one version; deletions name the uid they mean;
//! Endpoints that lack addresses are written only if they change; an object with more ports than the API server accepts lacks
//! some of them.

use std::{sync::Arc, time::Duration};

use common::{
    consistency::{Cache, Ledger},
    controller::{Controller, Loop, Observed, Requeue},
    informer::{AnyInformer, Listened},
    meta::{Key, Uid},
    queue::{Backoff, Queue},
    runtime::{Context, LoopDefinition, Running},
    settings::{Tune, TuneValue, WorkersFlag},
};
use jiff::Timestamp;

use crate::{
    EXPECTATIONS_TIMEOUT, caches,
    decide::endpoints::{self as decide, EndpointsPlan, EndpointsSnapshot, Members},
    error::Error,
    members::SharedMembership,
    memory::{Memories, Memory},
    objects::Endpoints,
    observe::{RECHECK, wait_for_index},
    watch::Parked,
};
use watch::Watch;

mod act;
mod watch;

/// The flag that says how many Services are synced at once.
pub const CONCURRENT_SYNCS: WorkersFlag = WorkersFlag {
    name: "concurrent-endpoint-syncs",
    default: 5,
    min: 1,
    help: "How many Services have their Endpoints synced at once",
};
/// How long changes of Pods are gathered.
pub const UPDATES_BATCH_PERIOD: Tune = Tune {
    name: "endpoint-updates-batch-period",
    default: TuneValue::Duration(Duration::ZERO),
    help: "How long changes of Pods are gathered before the Endpoints of their Services are written",
};

/// The loop of Endpoints.
pub const ENDPOINTS_LOOP: LoopDefinition = LoopDefinition {
    name: "endpoints-controller",
    alias: "endpoint",
    client: "endpoint-controller",
    component: decide::ENDPOINT_CONTROLLER,
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
    members: Arc<SharedMembership>,
    endpoints: Arc<Listened<Endpoints>>,
    memories: Arc<Memories>,
    parked: Arc<Parked>,
    ledger: Ledger,
}

/// The owner of the record in the ledger about the Endpoints of that name: they outlive their Service.
fn record(key: &Key) -> Uid {
    Uid::new(&key.to_string())
}

impl EndpointsController {
    /// Starts watching; keys go to `queue`.
    pub fn new(context: Context, queue: Queue<Key>) -> Self {
        let settings = Arc::clone(&context.settings);
        let ledger = Ledger::new(context.clock.clone(), settings.duration(&EXPECTATIONS_TIMEOUT));
        let members = SharedMembership::shared(&context);
        let endpoints = caches::endpoints(&context);
        let (memories, parked): (Arc<Memories>, Arc<Parked>) = Default::default();
        let watch = Arc::new(Watch {
            queue,
            memories: Arc::clone(&memories),
            parked: Arc::clone(&parked),
            ledger: ledger.clone(),
            cache: Arc::clone(endpoints.store()),
            batch: settings.duration(&UPDATES_BATCH_PERIOD),
        });
        let (service_watch, pod_watch) = (Arc::clone(&watch), Arc::clone(&watch));
        members.services.listen(Box::new(move |event, origin| service_watch.on_service(event, origin)));
        members.listen(move |concerned| pod_watch.on_pod(concerned));
        endpoints.listen(Box::new(move |event, origin| watch.on_endpoints(event, origin)));
        Self { context, members, endpoints, memories, parked, ledger }
    }
}

/// What one sync looks at, and the Service that it is about.
pub struct Observation {
    key: Key,
    snapshot: EndpointsSnapshot,
}

impl Controller for EndpointsController {
    type Key = Key;
    type Snapshot = Observation;
    type Plan = EndpointsPlan;
    type Error = Error;

    fn observe(&self, key: &Key, _now: Timestamp) -> Result<Observed<Observation>, Error> {
        let store = self.endpoints.store();
        let caches: [&dyn Cache; 1] = [&**store];
        if let Some((behind, left)) = self.ledger.behind(&record(key), &caches, Default::default) {
            return Ok(Observed::Waiting { why: behind.to_string(), at_most: left.min(RECHECK) });
        }
        let members = match self.members.services.store().get(&key.namespace, &key.name)? {
            Some(service) => {
                let Some(pods) = self.members.pods_of(&service)? else { return Ok(wait_for_index()) };
                let Memory { seen, settled, .. } = self.memories.of(key, &service.metadata.uid);
                Some(Members { service, pods, seen, settled })
            }
            None => None,
        };
        let snapshot = EndpointsSnapshot { members, endpoints: store.get(&key.namespace, &key.name)? };
        Ok(Observed::Ready(Observation { key: key.clone(), snapshot }))
    }

    fn decide(observation: &Observation) -> EndpointsPlan {
        decide::decide(&observation.snapshot)
    }

    async fn act(&self, observation: Observation, plan: EndpointsPlan) -> Result<Requeue, Error> {
        let Observation { key, snapshot } = observation;
        match (&plan, &snapshot.members) {
            (EndpointsPlan::Delete(endpoints), _) => self.delete(&key, endpoints).await?,
            (EndpointsPlan::Keep(wanted), Some(members)) => self.keep(&key, &members.service, wanted).await?,
            (EndpointsPlan::Keep(_) | EndpointsPlan::Settled(_) | EndpointsPlan::Leave, _) => {}
        }
        Ok(Requeue::No)
    }

    fn informers(&self) -> Vec<&dyn AnyInformer> {
        let SharedMembership { services, pods, .. } = &*self.members;
        vec![services.informer(), pods.informer(), self.endpoints.informer()]
    }

    fn waiting(&self, key: &Key) {
        self.parked.park(key);
    }
}
