//! The loop that protects objects of one kind, and its use for PersistentVolumes and VolumeAttributesClasses.

pub mod decide;

use std::{future, sync::Arc, time::Duration};

use common::{
    api::PatchFormat, informer::CacheEventHandler, prelude::*, runtime::ServedInformer, settings::FeatureGate,
};
use jiff::Timestamp;
use serde_json::json;

use self::decide::{
    FinalizerChange, MAX_NAMED_USERS, Plan, Snapshot, UNSEEN_USER_RECHECK_DELAY, Usage, usage_of_class, usage_of_volume,
};
use crate::objects::{ByClass, Claim, Class, NamesClasses, PersistentVolume, Protected};

/// The gate of VolumeAttributesClasses.
pub const VOLUME_ATTRIBUTES_CLASS: FeatureGate =
    FeatureGate::always_on("VolumeAttributesClass", "Protects VolumeAttributesClasses that claims or volumes name");

/// `persistentvolume-protection-controller`: protects PersistentVolumes that are bound. It records no Events.
pub const VOLUME_PROTECTION_LOOP: LoopDefinition =
    LoopDefinition::new("persistentvolume-protection-controller", "pv-protection", start_volumes)
        .with_user_agent_and_component("pv-protection-controller", "");
/// `volumeattributesclass-protection-controller`: protects classes that are named. It records no Events.
pub const CLASS_PROTECTION_LOOP: LoopDefinition =
    LoopDefinition::new("volumeattributesclass-protection-controller", "", start_classes)
        .with_user_agent_and_component("volumeattributesclass-protection-controller", "");

/// The version of the API of classes.
const CLASS_API_VERSIONS: [&str; 1] = ["storage.k8s.io/v1"];
/// Delay after which a class is synced again if its first list has not been processed.
const FIRST_LIST_RECHECK_DELAY: Duration = Duration::from_secs(1);

/// The caches of a kind of protected objects, and how the users of an object are found.
pub trait Protection: Send + Sync + Sized + 'static {
    /// The kind.
    type Object: Protected;

    /// Returns the cache of the objects.
    fn objects(&self) -> Result<&Store<Self::Object>, NoSnapshot>;
    /// Returns what uses a terminating object.
    fn usage(&self, object: &Self::Object, now: Timestamp) -> Result<Usage, NoSnapshot>;
    /// Asks the server for a user that the caches lack, and describes it in one line.
    fn find_unseen_user(
        _: &Arc<Self::Object>,
        _: Io<'_, ProtectionController<Self>>,
    ) -> impl Future<Output = Result<Option<String>, SyncError>> + Send {
        future::ready(Ok(None))
    }
    /// Cleans up the memory after a sync of an object.
    fn after_sync(&self, _: &Self::Object) {}
}

/// The loop of one kind of protected objects.
pub struct ProtectionController<P> {
    pub(crate) protection: P,
    ledger: Ledger,
}

impl<P: Protection> ProtectionController<P> {
    /// Starts the loop with one worker, as upstream.
    pub(crate) fn start(
        name: &'static str,
        context: LoopContext,
        queue: Queue<NamespacedName>,
        protection: P,
    ) -> Arc<dyn RunningLoop> {
        let controller = Arc::new(Self { protection, ledger: context.ledger() });
        Loop::start(name, context, controller, queue, 1)
    }
}

struct VolumeCaches(Arc<Store<PersistentVolume>>);

impl Protection for VolumeCaches {
    type Object = PersistentVolume;

    fn objects(&self) -> Result<&Store<PersistentVolume>, NoSnapshot> {
        Ok(&self.0)
    }

    fn usage(&self, volume: &PersistentVolume, _: Timestamp) -> Result<Usage, NoSnapshot> {
        Ok(usage_of_volume(volume))
    }
}

struct ClassCaches {
    /// The cache of classes, once the first list has been read.
    classes: ServedInformer<Class>,
    claims: Arc<Store<Claim>>,
    volumes: Arc<Store<PersistentVolume>>,
}

impl Protection for ClassCaches {
    type Object = Class;

    fn objects(&self) -> Result<&Store<Class>, NoSnapshot> {
        let unread = || NoSnapshot::waiting_because("classes are not listed yet", FIRST_LIST_RECHECK_DELAY);
        self.classes.get().map(|(_, classes)| &**classes).ok_or_else(unread)
    }

    fn usage(&self, class: &Class, _: Timestamp) -> Result<Usage, NoSnapshot> {
        // Objects that cannot be decoded are listed here, and may name the class.
        let unreadable = IndexValue::Text(Text::default());
        self.claims.list_by_index(ByClass, &unreadable)?;
        self.volumes.list_by_index(ByClass, &unreadable)?;
        let name = IndexValue::Text(Text::new(&class.metadata.name));
        let counts = [self.claims.count_by_index(ByClass, &name), self.volumes.count_by_index(ByClass, &name)];
        let claims = self.claims.list_some_by_index(ByClass, &name, MAX_NAMED_USERS);
        let volumes = self.volumes.list_some_by_index(ByClass, &name, MAX_NAMED_USERS);
        Ok(usage_of_class(counts, &claims, &volumes))
    }
}

fn start_volumes(context: LoopContext) -> Arc<dyn RunningLoop> {
    let queue = context.new_queue("pvprotection");
    let volumes = context.watch_shared(handler_of_protected(&queue, &context.ledger()));
    ProtectionController::start(VOLUME_PROTECTION_LOOP.name, context, queue, VolumeCaches(volumes))
}

fn start_classes(context: LoopContext) -> Arc<dyn RunningLoop> {
    let queue = context.new_queue("vacprotection");
    let handler = handler_of_protected(&queue, &context.ledger());
    let caches = ClassCaches {
        classes: context.start_informer_once_served(&CLASS_API_VERSIONS, handler, || {}),
        claims: context.watch_shared(handler_of_users::<Claim>(queue.clone())),
        volumes: context.watch_shared(handler_of_users::<PersistentVolume>(queue.clone())),
    };
    ProtectionController::start(CLASS_PROTECTION_LOOP.name, context, queue, caches)
}

/// Enqueues an object whose finalizer may have to be added or removed.
pub(crate) fn handler_of_protected<K: Protected>(
    queue: &Queue<NamespacedName>,
    ledger: &Ledger,
) -> CacheEventHandler<K> {
    let (queue, ledger) = (queue.clone(), ledger.clone());
    Box::new(move |event, origin| {
        if let CacheEvent::Deleted(object) = event {
            ledger.forget_owner(&object.meta().uid);
        } else if event.cached().is_some_and(|object| object.lacks_finalizer() || object.is_held()) {
            queue.add(event.meta().key(), origin);
        }
    })
}

/// Enqueues the classes that an object names no longer.
fn handler_of_users<K: NamesClasses>(queue: Queue<NamespacedName>) -> CacheEventHandler<K> {
    Box::new(move |event, origin| {
        let (old, new) = match event {
            CacheEvent::Updated { old, new } => (old, new.class_names()),
            CacheEvent::Deleted(old) => (old, Vec::new()),
            CacheEvent::Added(_) | CacheEvent::Unreadable(_) => return,
        };
        for name in old.class_names().into_iter().filter(|name| !new.contains(name)) {
            queue.add(NamespacedName::new("", name), origin);
        }
    })
}

impl<P: Protection> Controller for ProtectionController<P> {
    type Key = NamespacedName;
    type Snapshot = Snapshot<P::Object>;
    type Plan = Plan;

    fn observe(&self, key: &NamespacedName, now: Timestamp) -> Result<Self::Snapshot, NoSnapshot> {
        let no_children = |_: &Uid| HashSet::default();
        let objects = self.protection.objects()?;
        let (object, _) = self.ledger.read(objects, key, WaitPolicy::AllWrites, no_children)?;
        let usage = if object.is_held() { self.protection.usage(&object, now)? } else { Usage::default() };
        Ok(Snapshot { object, usage })
    }

    fn decide(snapshot: &Self::Snapshot) -> Plan {
        decide::decide(snapshot)
    }

    async fn act(
        Snapshot { object, .. }: &Self::Snapshot,
        plan: &Plan,
        io: Io<'_, Self>,
    ) -> Result<Requeue, SyncError> {
        let Some(change) = plan.change else { return Ok(Requeue::AfterPlannedDelay) };
        let finalizer = P::Object::FINALIZER;
        let (format, metadata, why) = match change {
            FinalizerChange::Add => {
                let others = object.meta().finalizers.iter().map(Text::as_str);
                let all: Vec<_> = others.chain([finalizer]).collect();
                // A strategic merge patch would put it first.
                (PatchFormat::Merge, json!({"finalizers": all}), "it lacks the finalizer")
            }
            FinalizerChange::Remove => {
                if plan.usage.needs_live_list
                    && let Some(user) = P::find_unseen_user(object, io).await?
                {
                    io.explain_deviation(user);
                    return Ok(Requeue::After(UNSEEN_USER_RECHECK_DELAY));
                }
                let removal = json!({"$deleteFromPrimitiveList/finalizers": [finalizer]});
                (PatchFormat::Strategic, removal, "nothing uses it")
            }
        };
        let body = io.encode_body(|| json!({ "metadata": metadata }));
        let request = Request::patch(P::Object::RESOURCE, object.meta(), format, body);
        match io.send(request.with_role(ObjectRole::SyncedObject).with_reason(why)).await {
            Err(refusal) if refusal.class == RefusalClass::VersionConflict => Ok(Requeue::Conflict),
            Err(refusal) if !refusal.is_not_found() => {
                Err(SyncError::from_refusal("cannot change the finalizers", &refusal))
            }
            _ => Ok(Requeue::AfterPlannedDelay),
        }
    }

    fn ledger_owner(snapshot: &Self::Snapshot) -> LedgerOwner {
        LedgerOwner::Object(snapshot.object.meta().uid.clone())
    }

    /// Drops the ledger record of an object that was deleted during the sync, because no later event would drop the record.
    fn after_sync(&self, Snapshot { object, .. }: &Self::Snapshot) {
        self.protection.after_sync(object);
        if self.protection.objects().is_ok_and(|objects| !objects.contains_object(object.meta())) {
            self.ledger.forget_owner(&object.meta().uid);
        }
    }
}
