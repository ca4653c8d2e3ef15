//! The loop that creates the claims of ephemeral volumes. Upstream: `pkg/controller/volume/ephemeral`, `ephemeralController`.

pub mod decide;

use std::sync::Arc;

use common::{
    metrics::{Counter, Stability},
    pods::PODS,
    prelude::*,
    settings::WorkersFlag,
    wire::messages,
};
use jiff::Timestamp;
use serde_json::Value;

use self::decide::{Plan, Snapshot, new_claim};
use crate::objects::{ByClaim, Claim, EphemeralVolume, Pod, index_value_of_claim};

/// The number of workers of the loop.
pub const CONCURRENT_EPHEMERAL_VOLUME_SYNCS: WorkersFlag =
    WorkersFlag::new("concurrent-ephemeralvolume-syncs", 5, "How many Pods with ephemeral volumes are synced at once");

/// `ephemeral-volume-controller`: creates the claims of ephemeral volumes.
pub const EPHEMERAL_VOLUME_LOOP: LoopDefinition =
    LoopDefinition::new("ephemeral-volume-controller", "ephemeral-volume", start)
        .with_user_agent_and_component("ephemeral-volume-controller", "ephemeral_volume");

struct EphemeralController {
    claims: Arc<Store<Claim>>,
    pods: Arc<Store<Pod>>,
    queue: Queue<NamespacedName>,
    ledger: Ledger,
    creations: Counter,
    creation_failures: Counter,
}

fn start(context: LoopContext) -> Arc<dyn RunningLoop> {
    let queue = context.new_queue("ephemeral_volume");
    let (claims, pods) = (context.shared_informer::<Claim>(), context.shared_informer::<Pod>());
    // Upstream gives both metrics the same description.
    let help = "Number of PersistentVolumeClaim creation requests";
    let counter = |name| context.metrics.counter(name, Stability::Alpha, help, &[]).with_label_values(&[]);
    let controller = Arc::new(EphemeralController {
        claims: Arc::clone(claims.store()),
        pods: Arc::clone(pods.store()),
        queue: queue.clone(),
        ledger: context.ledger(),
        creations: counter("ephemeral_volume_controller_create_total"),
        creation_failures: counter("ephemeral_volume_controller_create_failures_total"),
    });
    claims.add_handler(handler_from_method(&controller, EphemeralController::on_claim));
    pods.add_handler(handler_from_method(&controller, EphemeralController::on_pod));
    let workers = context.settings.worker_count(&CONCURRENT_EPHEMERAL_VOLUME_SYNCS);
    Loop::start(EPHEMERAL_VOLUME_LOOP.name, context, controller, queue, workers)
}

impl EphemeralController {
    fn on_pod(&self, event: &CacheEvent<Pod>, origin: ChangeOrigin) {
        match event {
            CacheEvent::Added(pod) => self.enqueue(pod, origin),
            CacheEvent::Deleted(pod) => self.ledger.forget_owner(&pod.metadata.uid),
            CacheEvent::Updated { .. } | CacheEvent::Unreadable(_) => {}
        }
    }

    /// Enqueues the Pods that have lost a claim. The event of a claim that cannot be decoded may be its deletion.
    fn on_claim(&self, event: &CacheEvent<Claim>, origin: ChangeOrigin) {
        if event.cached().is_none() {
            let claim = index_value_of_claim(&event.meta().namespace, &event.meta().name);
            self.pods.list_decoded_by_index(ByClaim, &claim).iter().for_each(|pod| self.enqueue(pod, origin));
        }
    }

    fn enqueue(&self, pod: &Pod, origin: ChangeOrigin) {
        if !pod.metadata.is_deleting() && !pod.ephemeral_volumes.is_empty() {
            self.queue.add(pod.metadata.key(), origin);
        }
    }
}

impl Controller for EphemeralController {
    type Key = NamespacedName;
    type Snapshot = Snapshot;
    type Plan = Plan;

    fn observe(&self, key: &NamespacedName, _: Timestamp) -> Result<Snapshot, NoSnapshot> {
        let no_children = |_: &Uid| HashSet::default();
        let (pod, _) = self.ledger.read(&self.pods, key, WaitPolicy::AllWrites, no_children)?;
        if pod.metadata.is_deleting() {
            return Err(NoSnapshot::Gone);
        }
        let volumes = pod.ephemeral_volumes.iter();
        let claims = volumes.map(|volume| self.claims.get(&key.namespace, &volume.claim_name));
        Ok(Snapshot { claims: claims.collect::<Result<_, _>>()?, pod })
    }

    fn decide(snapshot: &Snapshot) -> Plan {
        decide::decide(snapshot)
    }

    async fn act(Snapshot { pod, .. }: &Snapshot, plan: &Plan, io: Io<'_, Self>) -> Result<Requeue, SyncError> {
        for volume in &plan.created {
            create_claim(pod, volume, io).await?;
        }
        let Some((volume, error)) = &plan.foreign else { return Ok(Requeue::AfterPlannedDelay) };
        let error = SyncError::new(SyncErrorClass::Collision, error);
        report(volume, &error, io);
        Err(error)
    }

    fn object(snapshot: &Snapshot) -> InvolvedObject {
        InvolvedObject::new(PODS, &snapshot.pod.metadata)
    }

    /// Drops the ledger record of a Pod that was deleted during the sync, because no later event would drop the record.
    fn after_sync(&self, snapshot: &Snapshot) {
        let pod = &snapshot.pod.metadata;
        if !self.pods.contains_object(pod) {
            self.ledger.forget_owner(&pod.uid);
        }
    }
}

/// Creates the claim of an ephemeral volume.
async fn create_claim(pod: &Pod, volume: &EphemeralVolume, io: Io<'_, EphemeralController>) -> Result<(), SyncError> {
    let EphemeralVolume { name, claim_name, template } = volume;
    let what = format!("create PVC {claim_name}");
    let template: Value = template
        .decode(&messages::PERSISTENT_VOLUME_CLAIM_TEMPLATE)
        .map_err(|error| SyncError::new(SyncErrorClass::Template, format!("{what}: {error}")))?;
    let body = io.encode_body(|| new_claim(pod, claim_name, template));
    let request = Request::create(Claim::RESOURCE, &pod.metadata.namespace, &Arc::from(claim_name.as_str()), body);
    let request = request.with_role(ObjectRole::AwaitedObject);
    let created = io.send(request.with_reason(format!("the ephemeral volume {name} needs it"))).await;
    io.update_memory(|controller| {
        controller.creations.inc();
        controller.creation_failures.inc_by(u64::from(created.is_err()));
    });
    let Err(refusal) = created else { return Ok(()) };
    let error = SyncError::from_refusal(&what, &refusal);
    // The Pod is about to be deleted.
    if refusal.error.has_cause("NamespaceTerminating") {
        return Err(error.with_retry_policy(RetryPolicy::NextEvent));
    }
    report(volume, &error, io);
    Err(error)
}

/// Records the Event about a volume without a usable claim.
fn report(volume: &EphemeralVolume, error: &SyncError, io: Io<'_, EphemeralController>) {
    let message = format!("ephemeral volume {}: {error}", volume.name);
    io.record_event(EventType::Warning, "FailedBinding", message);
}
