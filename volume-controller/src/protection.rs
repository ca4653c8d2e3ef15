//! The loops that protect PersistentVolumes and VolumeAttributesClasses, and what they share with that of claims.

pub mod decide;

use std::{sync::Arc, time::Duration};

use common::{api::PatchFormat, prelude::*, runtime::ServedInformer, settings::FeatureGate};
use jiff::Timestamp;
use serde_json::json;

use self::decide::{FinalizerStep, MAX_NAMED_USERS, Plan, Snapshot, Usage, usage_of_class, usage_of_volume};
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

/// Number of workers of each protection, which upstream fixes, too.
pub(crate) const WORKERS: usize = 1;
/// The version of the API of classes.
const CLASS_API_VERSIONS: [&str; 1] = ["storage.k8s.io/v1"];
/// Delay after which a class is synced again if its first list has not been processed.
const FIRST_LIST_RECHECK_DELAY: Duration = Duration::from_secs(1);

/// The caches of a kind of protected objects.
pub trait ProtectionCaches: Send + Sync + 'static {
    /// The kind.
    type Object: Protected;

    /// Returns the cache of the objects.
    fn objects(&self) -> Result<&Store<Self::Object>, NoSnapshot>;
    /// Returns what uses a terminating object.
    fn usage(&self, object: &Self::Object) -> Result<Usage, NoSnapshot>;
}

/// The loop of one kind of protected objects.
pub struct ProtectionController<C> {
    caches: C,
    ledger: Ledger,
}

struct VolumeCaches(Arc<Store<PersistentVolume>>);

impl ProtectionCaches for VolumeCaches {
    type Object = PersistentVolume;

    fn objects(&self) -> Result<&Store<PersistentVolume>, NoSnapshot> {
        Ok(&self.0)
    }

    fn usage(&self, volume: &PersistentVolume) -> Result<Usage, NoSnapshot> {
        Ok(usage_of_volume(volume))
    }
}

struct ClassCaches {
    /// The cache of classes, once the first list has been read.
    classes: ServedInformer<Class>,
    claims: Arc<Store<Claim>>,
    volumes: Arc<Store<PersistentVolume>>,
}

impl ProtectionCaches for ClassCaches {
    type Object = Class;

    fn objects(&self) -> Result<&Store<Class>, NoSnapshot> {
        let unread = || NoSnapshot::waiting_because("classes are not listed yet", FIRST_LIST_RECHECK_DELAY);
        self.classes.get().map(|(_, classes)| &**classes).ok_or_else(unread)
    }

    fn usage(&self, class: &Class) -> Result<Usage, NoSnapshot> {
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
    let (queue, ledger) = (context.new_queue("pvprotection"), context.ledger());
    let handler = handler_of_protected(queue.clone(), ledger.clone());
    let caches = VolumeCaches(context.watch_shared(handler));
    let controller = Arc::new(ProtectionController { caches, ledger });
    Loop::start(VOLUME_PROTECTION_LOOP.name, context, controller, queue, WORKERS)
}

fn start_classes(context: LoopContext) -> Arc<dyn RunningLoop> {
    let (queue, ledger) = (context.new_queue("vacprotection"), context.ledger());
    let handler = handler_of_protected(queue.clone(), ledger.clone());
    let caches = ClassCaches {
        classes: context.start_informer_once_served(&CLASS_API_VERSIONS, handler, || {}),
        claims: context.watch_shared(handler_of_users::<Claim>(queue.clone())),
        volumes: context.watch_shared(handler_of_users::<PersistentVolume>(queue.clone())),
    };
    let controller = Arc::new(ProtectionController { caches, ledger });
    Loop::start(CLASS_PROTECTION_LOOP.name, context, controller, queue, WORKERS)
}

type Handler<K> = Box<dyn Fn(&CacheEvent<K>, ChangeOrigin) + Send + Sync>;

/// Enqueues an object whose finalizer may have to be added or removed.
fn handler_of_protected<K: Protected>(queue: Queue<NamespacedName>, ledger: Ledger) -> Handler<K> {
    Box::new(move |event, origin| match event {
        CacheEvent::Deleted(object) => ledger.forget_owner(&object.meta().uid),
        _ => {
            if event.cached().is_some_and(|object| needs_sync(&**object)) {
                queue.add(event.meta().key(), origin);
            }
        }
    })
}

/// Whether the finalizer of an object may have to be added or removed.
pub(crate) fn needs_sync<K: Protected>(object: &K) -> bool {
    object.lacks_finalizer() || object.is_held()
}

/// Enqueues the classes that an object names no longer.
fn handler_of_users<K: NamesClasses>(queue: Queue<NamespacedName>) -> Handler<K> {
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

impl<C: ProtectionCaches> Controller for ProtectionController<C> {
    type Key = NamespacedName;
    type Snapshot = Snapshot<C::Object>;
    type Plan = Plan;

    fn observe(&self, key: &NamespacedName, _: Timestamp) -> Result<Self::Snapshot, NoSnapshot> {
        let no_children = |_: &Uid| HashSet::default();
        let (object, _) = self.ledger.read(self.caches.objects()?, key, WaitPolicy::AllWrites, no_children)?;
        let usage = if object.is_held() { self.caches.usage(&object)? } else { Usage::default() };
        Ok(Snapshot { object, usage })
    }

    fn decide(snapshot: &Self::Snapshot) -> Plan {
        decide::decide(snapshot)
    }

    async fn act(snapshot: &Self::Snapshot, plan: &Plan, io: Io<'_, Self>) -> Result<Requeue, SyncError> {
        write_finalizer(&*snapshot.object, plan.step, io).await
    }

    fn ledger_owner(snapshot: &Self::Snapshot) -> LedgerOwner {
        LedgerOwner::Object(snapshot.object.meta().uid.clone())
    }

    /// Drops the ledger record of an object that was deleted during the sync, because no later event would drop the record.
    fn after_sync(&self, snapshot: &Self::Snapshot) {
        let meta = snapshot.object.meta();
        if self.caches.objects().is_ok_and(|objects| !objects.contains_object(meta)) {
            self.ledger.forget_owner(&meta.uid);
        }
    }
}

/// Adds or removes the finalizer, at exactly this version of the object.
pub(crate) async fn write_finalizer<K: Protected, M: Sync>(
    object: &K,
    step: FinalizerStep,
    io: Io<'_, M>,
) -> Result<Requeue, SyncError> {
    let (field, why, failure) = match step {
        FinalizerStep::Keep | FinalizerStep::AwaitUsers => return Ok(Requeue::AfterPlannedDelay),
        FinalizerStep::Add => ("finalizers", "it lacks the finalizer", "cannot add the finalizer"),
        FinalizerStep::Remove => {
            ("$deleteFromPrimitiveList/finalizers", "nothing uses it", "cannot remove the finalizer")
        }
    };
    let body = io.encode_body(|| json!({"metadata": {field: [K::FINALIZER]}}));
    let request = Request::patch(K::RESOURCE, object.meta(), PatchFormat::Strategic, body);
    match io.send(request.with_role(ObjectRole::SyncedObject).with_reason(why)).await {
        Err(refusal) if refusal.class == RefusalClass::VersionConflict => Ok(Requeue::Conflict),
        Err(refusal) if !refusal.is_not_found() => Err(SyncError::from_refusal(failure, &refusal)),
        _ => Ok(Requeue::AfterPlannedDelay),
    }
}
