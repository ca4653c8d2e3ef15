//! Caches and tallies, and the handlers that enqueue the quotas that an event concerns.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Weak},
    time::Duration,
};

use common::{
    api::Api,
    discovery::DiscoveredResources,
    informer::{InformerConfig, SinkInformer},
    partial_object::PartialObject,
    pods::PODS,
    prelude::*,
    store::ByNamespace,
};
use parking_lot::Mutex;
use tokio::task::JoinSet;

use crate::{
    decide::{ExtendedUsage, KindState},
    extended::{claims_with_pods, extended_resources},
    names,
    objects::{
        CLAIMS, Claim, CountedObject, DEVICE_CLASSES, DeviceClass, Gates, Pod, Quota, RESOURCE_CLAIMS, ResourceClaim,
        SERVICES, Service,
    },
    tally::{NamespaceTally, Tally, TallyEvent, TallySink, TallyState},
    usage::UsageSums,
};

/// Pause between two reads of discovery.
const DISCOVERY_PERIOD: Duration = Duration::from_secs(30);
/// Pause after a failed read of discovery as long as none has succeeded.
const FIRST_DISCOVERY_RETRY: Duration = Duration::from_secs(1);
/// Verbs that a kind must support to be counted.
const REQUIRED_VERBS: [&str; 4] = ["create", "list", "watch", "delete"];

/// The caches, and the queue to which their handlers add.
pub(crate) struct Watch {
    pub(crate) quotas: Arc<Store<Quota>>,
    pub(crate) device_classes: Arc<Store<DeviceClass>>,
    pub(crate) gates: Gates,
    pub(crate) ledger: Ledger,
    kinds: Mutex<Kinds>,
    queue: Queue<NamespacedName>,
    api: Api,
    config: InformerConfig,
}

/// The kinds that quotas need, and those that are watched.
#[derive(Default)]
struct Kinds {
    /// The namespaces with a quota that needs the kind.
    needed: BTreeMap<Text, BTreeSet<Text>>,
    watched: BTreeMap<Text, WatchedKind>,
    /// The kinds that can be counted, from the last successful discovery; `None` before the first one.
    served: Option<BTreeMap<Text, Resource>>,
    /// Error of the last discovery; `None` if it has succeeded.
    discovery_error: Option<String>,
    /// The task that reads discovery; empty until a kind needs it.
    discovery: JoinSet<()>,
}

/// A kind of which the objects are counted, or DeviceClasses.
struct WatchedKind {
    resource: Resource,
    tally: Arc<Tally>,
    informer: Box<dyn AnyInformer>,
    /// Informers of the namespaces that have got a quota after the start of `informer`, until their first list is complete.
    namespace_informers: BTreeMap<Text, Box<dyn AnyInformer>>,
}

impl WatchedKind {
    fn failure(&self, namespace: &Text) -> Option<String> {
        let informer = self.namespace_informers.get(namespace).unwrap_or(&self.informer);
        informer.informer_status().error.map(|(error, _)| format!("{} cannot be listed: {error}", self.resource))
    }
}

impl Watch {
    /// Starts the informer of quotas. `period` is the interval of full resyncs.
    pub(crate) fn start(
        context: &LoopContext,
        queue: Queue<NamespacedName>,
        gates: Gates,
        period: Option<Duration>,
    ) -> Arc<Self> {
        let watch = Arc::new(Self {
            quotas: Arc::default(),
            device_classes: Arc::default(),
            gates,
            ledger: context.ledger(),
            kinds: Mutex::default(),
            queue,
            api: context.api.clone(),
            config: context.short_lived_cache_config(),
        });
        let handling = Arc::clone(&watch);
        let handler = Box::new(move |event: &CacheEvent<Quota>, origin: ChangeOrigin| handling.on_quota(event, origin));
        let config = InformerConfig { resync_interval: period, ..context.long_lived_cache_config() };
        let informer =
            Informer::start_with_store(context.api.clone(), config, Arc::clone(&watch.quotas), vec![handler]);
        context.add_informer(Arc::new(informer), &watch.quotas);
        watch
    }

    fn on_quota(self: &Arc<Self>, event: &CacheEvent<Quota>, origin: ChangeOrigin) {
        let Meta { namespace, uid, .. } = event.meta();
        match event {
            CacheEvent::Added(quota) => {
                self.need_kinds(namespace, &quota.kinds);
                self.queue.add(quota.metadata.key(), priority_of(quota));
            }
            CacheEvent::Updated { old, new } => {
                if old.kinds != new.kinds {
                    self.need_kinds(namespace, &new.kinds);
                    self.drop_unneeded_kinds(namespace);
                }
                if origin == ChangeOrigin::Resync {
                    self.queue.add(new.metadata.key(), Priority::Low);
                } else if old.conditions != new.conditions {
                    self.queue.add(new.metadata.key(), Priority::Normal);
                } else if old.hard != new.hard {
                    self.queue.add(new.metadata.key(), priority_of(new));
                }
            }
            CacheEvent::Deleted(_) => {
                self.drop_unneeded_kinds(namespace);
                self.ledger.forget_owner(uid);
            }
            // The sync says why the quota cannot be read.
            CacheEvent::Unreadable(_) => self.queue.add(event.meta().key(), origin),
        }
    }

    fn need_kinds(self: &Arc<Self>, namespace: &Text, kinds: &[Text]) {
        let mut state = self.kinds.lock();
        for kind in kinds {
            if !self.gates.extended_resources && *kind == *DEVICE_CLASSES.to_string() {
                continue;
            }
            if state.needed.entry(kind.clone()).or_default().insert(namespace.clone()) {
                self.follow_kind(&mut state, kind);
            }
        }
    }

    /// Forgets the objects of the namespace in the tallies that no quota of the namespace needs.
    fn drop_unneeded_kinds(&self, namespace: &Text) {
        let quotas = self.quotas_of(namespace);
        let needed_kinds: BTreeSet<&Text> = quotas.iter().flat_map(|quota| &quota.kinds).collect();
        let mut state = self.kinds.lock();
        let Kinds { needed, watched, .. } = &mut *state;
        needed.retain(|kind, namespaces| {
            if !needed_kinds.contains(kind)
                && namespaces.remove(namespace)
                && let Some(watched) = watched.get_mut(kind)
            {
                watched.tally.remove_namespace(namespace);
                watched.namespace_informers.remove(namespace);
            }
            !namespaces.is_empty()
        });
    }

    fn quotas_of(&self, namespace: &Text) -> Vec<Arc<Quota>> {
        self.quotas.list_decoded_by_index(ByNamespace, &IndexValue::Text(namespace.clone()))
    }

    /// Watches a needed kind if it is served, with all namespaces that need it, and ends the watch of a kind that is not.
    fn follow_kind(self: &Arc<Self>, kinds: &mut Kinds, kind: &Text) {
        let Kinds { needed, watched, served, discovery, .. } = kinds;
        let core_resource = names::core_resource(kind);
        if core_resource.is_none() && discovery.is_empty() {
            discovery.spawn(discover(Arc::downgrade(self), self.api.clone()));
        }
        let resource = core_resource.or_else(|| served.as_ref()?.get(kind).cloned());
        watched.retain(|known, watched| known != kind || resource.as_ref() == Some(&watched.resource));
        let (Some(resource), Some(namespaces)) = (resource, needed.get(kind)) else { return };
        if let Some(WatchedKind { tally, namespace_informers, .. }) = watched.get_mut(kind) {
            for namespace in namespaces.iter().filter(|namespace| tally.add_namespace(namespace)) {
                let informer = self.start_informer(kind, &resource, tally, Some(namespace));
                namespace_informers.extend(informer.map(|informer| (namespace.clone(), informer)));
            }
            return;
        }
        let (watch, concerned) = (Arc::downgrade(self), kind.clone());
        let tally = Arc::new(Tally::new(self.gates, move |namespace, event| {
            if let Some(watch) = watch.upgrade() {
                watch.on_tally_event(&concerned, namespace, event);
            }
        }));
        for namespace in namespaces {
            tally.add_namespace(namespace);
        }
        if let Some(informer) = self.start_informer(kind, &resource, &tally, None) {
            let new = WatchedKind { resource, tally, informer, namespace_informers: BTreeMap::new() };
            watched.insert(kind.clone(), new);
        }
    }

    /// Starts the informer of a kind, in all namespaces or in one.
    fn start_informer(
        &self,
        kind: &Text,
        resource: &Resource,
        tally: &Arc<Tally>,
        namespace: Option<&Text>,
    ) -> Option<Box<dyn AnyInformer>> {
        let is = |resource: Resource| **kind == resource.to_string();
        Some(if **kind == *"pods" {
            self.start_tally::<Pod>(resource, tally, namespace, false)
        } else if is(SERVICES) {
            self.start_tally::<Service>(resource, tally, namespace, false)
        } else if is(CLAIMS) {
            self.start_tally::<Claim>(resource, tally, namespace, false)
        } else if is(RESOURCE_CLAIMS) {
            self.start_tally::<ResourceClaim>(resource, tally, namespace, false)
        } else if is(DEVICE_CLASSES) {
            if namespace.is_some() {
                return None;
            }
            let (api, config) = (self.api.clone(), self.config.clone());
            Box::new(Informer::start_with_store(api, config, Arc::clone(&self.device_classes), Vec::new()))
        } else {
            self.start_tally::<PartialObject>(resource, tally, namespace, true)
        })
    }

    fn start_tally<K: CountedObject>(
        &self,
        resource: &Resource,
        tally: &Arc<Tally>,
        namespace: Option<&Text>,
        is_metadata_only: bool,
    ) -> Box<dyn AnyInformer> {
        let config = InformerConfig {
            resource: Some(resource.clone()),
            namespace: namespace.map(ToString::to_string).unwrap_or_default(),
            is_metadata_only,
            ..self.config.clone()
        };
        let tally = Arc::clone(tally);
        let sink = match namespace {
            None => TallySink::<K>::of_cluster(tally),
            Some(namespace) => TallySink::of_namespace(tally, namespace.clone()),
        };
        Box::new(SinkInformer::start_with_sink(self.api.clone(), config, sink))
    }

    /// Enqueues the quotas of the namespace that the kind concerns. Ends the informer of the namespace after its first list.
    fn on_tally_event(&self, kind: &Text, namespace: &Text, event: TallyEvent) {
        if event == TallyEvent::Listed
            && let Some(watched) = self.kinds.lock().watched.get_mut(kind)
        {
            watched.namespace_informers.remove(namespace);
        }
        for quota in self.quotas_of(namespace) {
            if quota.kinds.contains(kind) {
                self.queue.add(quota.metadata.key(), Priority::Low);
            }
        }
    }

    fn apply_discovery(self: &Arc<Self>, discovered: Result<BTreeMap<Text, Resource>, String>) {
        let mut state = self.kinds.lock();
        match discovered {
            Err(error) => {
                tracing::warn!(err = error, "Discovery failed");
                state.discovery_error = Some(error);
            }
            Ok(served) => {
                state.discovery_error = None;
                let before = state.served.replace(served);
                let kinds = state.needed.keys().chain(state.watched.keys());
                let kinds: BTreeSet<_> = kinds.filter(|kind| names::core_resource(kind).is_none()).cloned().collect();
                let mut concerned = BTreeSet::new();
                for kind in &kinds {
                    let served_as = |served: &BTreeMap<Text, Resource>| served.get(kind).cloned();
                    if before.as_ref().map(served_as) != state.served.as_ref().map(served_as) {
                        self.follow_kind(&mut state, kind);
                        concerned.extend(
                            state.needed.get(kind).into_iter().flatten().cloned().map(|namespace| (namespace, kind)),
                        );
                    }
                }
                drop(state);
                for (namespace, kind) in concerned {
                    self.on_tally_event(kind, &namespace, TallyEvent::Released);
                }
            }
        }
    }

    /// Returns what is known of the objects of a kind in a namespace, and reads them with `read` if all are counted.
    pub(crate) fn state_of(
        &self,
        kind: &Text,
        namespace: &Text,
        read: impl FnOnce(&NamespaceTally) -> KindState,
    ) -> KindState {
        let state = self.kinds.lock();
        let Kinds { watched, served, discovery_error, .. } = &*state;
        let Some(watched) = watched.get(kind) else {
            return match (served, discovery_error) {
                (Some(_), _) => KindState::Unserved,
                (None, Some(error)) => KindState::Failed(format!("discovery: {error}")),
                (None, None) => KindState::Awaited("the first discovery".to_owned()),
            };
        };
        let state = watched.tally.read(namespace, |tally| match tally.state() {
            TallyState::Counted => read(tally),
            TallyState::Unreadable(why) => KindState::Failed(format!("{kind} {why}")),
            TallyState::Unlisted => match watched.failure(namespace) {
                Some(error) => KindState::Failed(error),
                None => KindState::Awaited(format!("the first list of {kind}")),
            },
        });
        // Only a quota that has just been deleted has a namespace that is not kept.
        state.unwrap_or(KindState::Unserved)
    }

    /// Returns what ResourceClaims of the namespace use of extended resources; `None` if the server does not serve them.
    pub(crate) fn extended_usage(&self, namespace: &Text) -> Result<Option<ExtendedUsage>, KindState> {
        let kind = |resource: Resource| Text::new(&resource.to_string());
        let listed = |_: &NamespaceTally| KindState::Counted(UsageSums::default());
        match self.state_of(&kind(RESOURCE_CLAIMS), namespace, listed) {
            KindState::Unserved => return Ok(None),
            KindState::Counted(_) => {}
            state => return Err(state),
        }
        let state = self.kinds.lock();
        let [classes, claims, pods] =
            [DEVICE_CLASSES, RESOURCE_CLAIMS, PODS].map(|resource| state.watched.get(&kind(resource)));
        let (Some(classes), Some(claims), Some(pods)) = (classes, claims, pods) else { return Ok(None) };
        if !classes.informer.is_synced() {
            return Err(match classes.failure(namespace) {
                Some(error) => KindState::Failed(error),
                None => KindState::Awaited("the first list of DeviceClasses".to_owned()),
            });
        }
        let resources = extended_resources(&self.device_classes.all_decoded());
        let claims =
            claims.tally.read(namespace, |claims| pods.tally.read(namespace, |pods| claims_with_pods(claims, pods)));
        Ok(Some(ExtendedUsage { resources, claims: claims.flatten().unwrap_or_default() }))
    }

    /// Returns a message about kinds that cannot be listed or watched, or about discovery; `None` without problems.
    pub(crate) fn problem(&self) -> Option<String> {
        let state = self.kinds.lock();
        let discovery = state.discovery_error.as_ref().map(|error| format!("discovery: {error}"));
        let mut problems: Vec<String> = discovery.into_iter().collect();
        problems.extend(state.watched.values().filter_map(|watched| watched.informer.stale_error()));
        (!problems.is_empty()).then(|| problems.join("; "))
    }
}

/// Returns the priority of a quota whose `spec.hard` is new. It is normal if the status does not have the same limits, or if it
/// lacks a usage, because admission then enforces the wrong limits or refuses objects.
fn priority_of(quota: &Quota) -> Priority {
    let lacks_usage = |name: &Text| names::kind_of(name).is_some() && !quota.status.used.contains_key(name);
    let is_current = quota.hard == quota.status.hard && !quota.status.hard.keys().any(lacks_usage);
    if is_current { Priority::Low } else { Priority::Normal }
}

/// Reads discovery periodically.
async fn discover(watch: Weak<Watch>, api: Api) {
    loop {
        let discovered = DiscoveredResources::read(&api).await;
        let Some(watch) = watch.upgrade() else { return };
        let known = watch.kinds.lock().served.clone();
        let countable = discovered.map_err(|error| error.to_string()).and_then(|discovered| {
            let kinds = countable_kinds(&discovered, known.as_ref());
            if kinds.is_empty() {
                Err("the API server serves no kind that can be counted".to_owned())
            } else {
                Ok(kinds)
            }
        });
        let has_succeeded = known.is_some() || countable.is_ok();
        watch.apply_discovery(countable);
        drop(watch);
        api.clock().sleep(if has_succeeded { DISCOVERY_PERIOD } else { FIRST_DISCOVERY_RETRY }).await;
    }
}

/// Returns the kinds that can be counted, and DeviceClasses. Known kinds of group versions with failed discovery stay.
fn countable_kinds(
    discovered: &DiscoveredResources,
    known: Option<&BTreeMap<Text, Resource>>,
) -> BTreeMap<Text, Resource> {
    let stale = known.into_iter().flatten().filter(|(_, resource)| discovered.is_stale(resource));
    let mut kinds: BTreeMap<_, _> = stale.map(|(kind, resource)| (kind.clone(), resource.clone())).collect();
    for found in &discovered.resources {
        let resource = &found.resource;
        // Of these two kinds, more than metadata is read, in one version.
        let typed =
            [RESOURCE_CLAIMS, DEVICE_CLASSES].into_iter().find(|typed| typed.to_string() == resource.to_string());
        let is_right_version = typed.as_ref().map_or(found.is_preferred, |typed| typed.version() == resource.version());
        let is_in_namespaces = resource.is_namespaced() || typed.is_some();
        if is_right_version && is_in_namespaces && found.supports(&REQUIRED_VERBS) && !names::is_ignored(resource) {
            kinds.insert(Text::new(&resource.to_string()), resource.clone());
        }
    }
    kinds
}

#[cfg(test)]
mod tests;
