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
    runtime::LoopInformer,
    store::ByNamespace,
};
use parking_lot::Mutex;
use tokio::task::JoinSet;

use crate::{
    decide::KindState,
    extended::ExtendedUsage,
    names,
    objects::{
        CLAIMS, Claim, CountedObject, DEVICE_CLASSES, DeviceClass, Gates, Pod, Quota, RESOURCE_CLAIMS, ResourceClaim,
        SERVICES, Service,
    },
    tally::{NamespaceTally, Tally, TallyEvent, TallySink},
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
    pub(crate) ledger: Ledger,
    gates: Gates,
    state: Mutex<WatchState>,
    queue: Queue<NamespacedName>,
    api: Api,
    config: InformerConfig,
}

/// The kinds that quotas need, and the discovery that finds them.
#[derive(Default)]
struct WatchState {
    kinds: BTreeMap<Text, Kind>,
    /// The kinds that can be counted, from the last successful discovery; `None` before the first one.
    served: Option<BTreeMap<Text, Resource>>,
    /// Error of the last discovery; `None` if it has succeeded.
    discovery_error: Option<String>,
    /// The task that reads discovery; empty until a kind needs it.
    discovery: JoinSet<()>,
}

/// A kind that a quota needs: one whose objects are counted, or DeviceClasses.
#[derive(Default)]
struct Kind {
    /// The namespaces with a quota that needs the kind.
    namespaces: BTreeSet<Text>,
    /// `None` if the kind is not served.
    watched: Option<WatchedKind>,
}

struct WatchedKind {
    resource: Resource,
    tally: Arc<Tally>,
    informer: LoopInformer,
    /// Informers of the namespaces that have got a quota after the start of `informer`, until their first list is complete.
    namespace_informers: BTreeMap<Text, LoopInformer>,
}

impl WatchedKind {
    /// Returns the namespace of the tally that has the objects for a quota of `namespace`.
    fn namespace_of_objects(&self, namespace: &Text) -> Text {
        if self.resource.is_namespaced() { namespace.clone() } else { Text::default() }
    }

    /// Returns the state of the objects; the error says what has to end before they are counted.
    fn state(&self, kind: &Text, namespace: &Text) -> Result<KindState, String> {
        let informer = self.namespace_informers.get(namespace).unwrap_or(&self.informer);
        let read = |tally: &NamespaceTally| match (tally.is_listed(), tally.unreadable()) {
            (true, None) => Ok(KindState::Counted(tally.sums.clone())),
            (true, Some(why)) => Ok(KindState::Failed(format!("{kind} {why}"))),
            (false, _) => match (**informer).as_ref().informer_status().error {
                Some((error, _)) => Ok(KindState::Failed(format!("{} cannot be listed: {error}", self.resource))),
                None => Err(format!("the first list of {kind}")),
            },
        };
        // Only a quota that has just been deleted has a namespace that is not kept.
        self.tally.read(&self.namespace_of_objects(namespace), read).unwrap_or(Ok(KindState::Unserved))
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
            ledger: context.ledger(),
            gates,
            state: Mutex::default(),
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
                self.follow_namespace(namespace);
                self.queue.add(quota.metadata.key(), priority_of(quota));
            }
            CacheEvent::Updated { old, new } => {
                if old.kinds != new.kinds || old.has_extended_resources != new.has_extended_resources {
                    self.follow_namespace(namespace);
                }
                let is_resync = origin == ChangeOrigin::Resync;
                let priority = if old.conditions == new.conditions { priority_of(new) } else { Priority::Normal };
                if is_resync || old.conditions != new.conditions || old.hard != new.hard {
                    self.queue.add(new.metadata.key(), if is_resync { Priority::Low } else { priority });
                }
            }
            CacheEvent::Deleted(_) => {
                self.follow_namespace(namespace);
                self.ledger.forget_owner(uid);
            }
            // The sync says why the quota cannot be read.
            CacheEvent::Unreadable(_) => {
                self.follow_namespace(namespace);
                self.queue.add(event.meta().key(), origin);
            }
        }
    }

    fn quotas_of(&self, namespace: &Text) -> Vec<Arc<Quota>> {
        self.quotas.list_decoded_by_index(ByNamespace, &IndexValue::Text(namespace.clone()))
    }

    /// Returns the kinds that a quota needs: for extended resources also ResourceClaims and DeviceClasses.
    fn kinds_of(&self, quota: &Quota) -> BTreeSet<Text> {
        let needs_devices = self.gates.extended_resources && quota.has_extended_resources;
        let devices = [RESOURCE_CLAIMS, DEVICE_CLASSES].into_iter().filter(|_| needs_devices);
        quota.kinds.iter().cloned().chain(devices.map(|resource| Text::new(&resource.to_string()))).collect()
    }

    /// Watches the kinds that the quotas of a namespace need, and forgets its objects of other kinds.
    fn follow_namespace(self: &Arc<Self>, namespace: &Text) {
        let quotas = self.quotas_of(namespace);
        let needed: BTreeSet<Text> = quotas.iter().flat_map(|quota| self.kinds_of(quota)).collect();
        let WatchState { kinds, served, discovery, .. } = &mut *self.state.lock();
        kinds.retain(|name, kind| {
            if !needed.contains(name)
                && kind.namespaces.remove(namespace)
                && let Some(watched) = &mut kind.watched
                && watched.resource.is_namespaced()
            {
                watched.tally.remove_namespace(namespace);
                watched.namespace_informers.remove(namespace);
            }
            !kind.namespaces.is_empty()
        });
        for name in &needed {
            let kind = kinds.entry(name.clone()).or_default();
            if kind.namespaces.insert(namespace.clone()) {
                if names::core_resource(name).is_none() && discovery.is_empty() {
                    discovery.spawn(discover(Arc::downgrade(self), self.api.clone()));
                }
                self.follow_kind(name, kind, served.as_ref());
            }
        }
    }

    /// Watches a kind if it is served, with all namespaces that need it, and ends the watch of a kind that is not.
    fn follow_kind(self: &Arc<Self>, name: &Text, kind: &mut Kind, served: Option<&BTreeMap<Text, Resource>>) {
        let resource = names::core_resource(name).or_else(|| served?.get(name).cloned());
        kind.watched.take_if(|watched| Some(&watched.resource) != resource.as_ref());
        let Some(resource) = resource else { return };
        if let Some(watched) = &mut kind.watched {
            for namespace in &kind.namespaces {
                if watched.tally.add_namespace(&watched.namespace_of_objects(namespace)) {
                    self.list_namespace(watched, namespace);
                }
            }
            return;
        }
        let (watch, concerned) = (Arc::downgrade(self), name.clone());
        let tally = Arc::new(Tally::new(self.gates, move |namespace, event| {
            if let Some(watch) = watch.upgrade() {
                watch.on_tally_event(&concerned, namespace, event);
            }
        }));
        let informer = self.start_informer(&resource, &tally, None);
        let watched = WatchedKind { resource, tally, informer, namespace_informers: BTreeMap::new() };
        for namespace in &kind.namespaces {
            watched.tally.add_namespace(&watched.namespace_of_objects(namespace));
        }
        kind.watched = Some(watched);
    }

    /// Starts an informer of a namespace. It ends after its first list.
    fn list_namespace(&self, watched: &mut WatchedKind, namespace: &Text) {
        let informer = self.start_informer(&watched.resource, &watched.tally, Some(namespace));
        watched.namespace_informers.insert(namespace.clone(), informer);
    }

    /// Starts the informer of a kind, in all namespaces or in one.
    fn start_informer(&self, resource: &Resource, tally: &Arc<Tally>, namespace: Option<&Text>) -> LoopInformer {
        let start = [
            (PODS, start_tally::<Pod> as fn(_, _, _, _) -> _),
            (SERVICES, start_tally::<Service>),
            (CLAIMS, start_tally::<Claim>),
            (RESOURCE_CLAIMS, start_tally::<ResourceClaim>),
            (DEVICE_CLASSES, start_tally::<DeviceClass>),
        ];
        let start = start
            .iter()
            .find(|(typed, _)| typed == resource)
            .map_or(start_tally::<PartialObject> as _, |(_, start)| *start);
        let config = InformerConfig { resource: Some(resource.clone()), ..self.config.clone() };
        start(&self.api, config, Arc::clone(tally), namespace.cloned())
    }

    /// Enqueues the quotas that the kind concerns, in a namespace or, for a cluster-scoped kind, in all. Starts and ends the
    /// informer of a namespace.
    fn on_tally_event(&self, name: &Text, namespace: &Text, event: TallyEvent) {
        let mut concerned = vec![namespace.clone()];
        if event != TallyEvent::Released
            && let Some(kind) = self.state.lock().kinds.get_mut(name)
        {
            match &mut kind.watched {
                Some(watched) if event == TallyEvent::Unlisted => return self.list_namespace(watched, namespace),
                // The event may be that of an earlier informer.
                Some(watched) if watched.tally.read(namespace, NamespaceTally::is_listed) == Some(true) => {
                    watched.namespace_informers.remove(namespace);
                }
                _ => {}
            }
            if namespace.is_empty() {
                concerned = kind.namespaces.iter().cloned().collect();
            }
        }
        for quota in concerned.iter().flat_map(|namespace| self.quotas_of(namespace)) {
            let is_of_devices = || *name == *RESOURCE_CLAIMS.to_string() || *name == *DEVICE_CLASSES.to_string();
            if quota.kinds.contains(name) || quota.has_extended_resources && is_of_devices() {
                self.queue.add(quota.metadata.key(), Priority::Low);
            }
        }
    }

    fn apply_discovery(self: &Arc<Self>, discovered: Result<BTreeMap<Text, Resource>, String>) {
        let mut concerned = Vec::new();
        let WatchState { kinds, served, discovery_error, .. } = &mut *self.state.lock();
        *discovery_error = discovered.as_ref().err().cloned();
        match discovered {
            Err(error) => tracing::warn!(err = error, "Discovery failed"),
            Ok(found) => {
                let before = served.replace(found);
                for (name, kind) in kinds.iter_mut().filter(|(name, _)| names::core_resource(name).is_none()) {
                    let resource = served.as_ref().and_then(|served| served.get(name));
                    if before.is_none() || before.as_ref().and_then(|before| before.get(name)) != resource {
                        self.follow_kind(name, kind, served.as_ref());
                        concerned.extend(kind.namespaces.iter().cloned());
                    }
                }
            }
        }
        for quota in concerned.iter().flat_map(|namespace| self.quotas_of(namespace)) {
            self.queue.add(quota.metadata.key(), Priority::Low);
        }
    }

    /// Reads what is known of the objects that a quota counts.
    ///
    /// # Errors
    /// If neither the objects of a kind nor a failure is known yet; says what has to end first.
    pub(crate) fn read_kinds(&self, quota: &Quota) -> Result<(BTreeMap<Text, KindState>, ExtendedUsage), String> {
        let WatchState { kinds, served, discovery_error, .. } = &*self.state.lock();
        let watched = |kind: &str| kinds.get(kind).and_then(|kind| kind.watched.as_ref());
        let namespace = &quota.metadata.namespace;
        let state = |kind: &Text| match (watched(kind), served, discovery_error) {
            (Some(watched), ..) => watched.state(kind, namespace),
            (None, Some(_), _) => Ok(KindState::Unserved),
            (None, None, Some(error)) => Ok(KindState::Failed(format!("discovery: {error}"))),
            (None, None, None) => Err("the first discovery".to_owned()),
        };
        let states = self.kinds_of(quota).into_iter().map(|kind| Ok((kind.clone(), state(&kind)?)));
        let states = states.collect::<Result<BTreeMap<_, _>, String>>()?;
        let [classes, claims, pods] = [DEVICE_CLASSES, RESOURCE_CLAIMS, PODS].map(|resource| {
            let kind = resource.to_string();
            watched(&kind).filter(|_| matches!(states.get(&*kind), Some(KindState::Counted(_))))
        });
        let (Some(classes), Some(claims), Some(pods)) = (classes, claims, pods) else {
            return Ok((states, ExtendedUsage::default()));
        };
        let extended = classes.tally.read(&Text::default(), |classes| {
            claims
                .tally
                .read(namespace, |claims| pods.tally.read(namespace, |pods| ExtendedUsage::new(classes, claims, pods)))
        });
        Ok((states, extended.flatten().flatten().unwrap_or_default()))
    }

    /// Returns the informers of all watched kinds.
    pub(crate) fn informers(&self) -> Vec<LoopInformer> {
        let state = self.state.lock();
        let watched = state.kinds.values().filter_map(|kind| kind.watched.as_ref());
        watched.map(|watched| Arc::clone(&watched.informer)).collect()
    }

    /// Returns a message about kinds that cannot be listed or watched, or about discovery; `None` without problems.
    pub(crate) fn problem(&self) -> Option<String> {
        let discovery = self.state.lock().discovery_error.as_ref().map(|error| format!("discovery: {error}"));
        let stale = self.informers().into_iter().filter_map(|informer| (*informer).as_ref().stale_error());
        let problems: Vec<String> = discovery.into_iter().chain(stale).collect();
        (!problems.is_empty()).then(|| problems.join("; "))
    }
}

fn start_tally<K: CountedObject>(
    api: &Api,
    config: InformerConfig,
    tally: Arc<Tally>,
    namespace: Option<Text>,
) -> LoopInformer {
    let config = InformerConfig {
        namespace: namespace.as_ref().map(ToString::to_string).unwrap_or_default(),
        is_metadata_only: K::RESOURCE == PartialObject::RESOURCE,
        ..config
    };
    Arc::new(SinkInformer::start_with_sink(api.clone(), config, TallySink::<K>::new(tally, namespace)))
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
        let known = watch.state.lock().served.clone();
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
            // A version that is known, and stale, stays.
            kinds.entry(Text::new(&resource.to_string())).or_insert_with(|| resource.clone());
        }
    }
    kinds
}

#[cfg(test)]
mod tests;
