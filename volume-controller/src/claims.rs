//! The loop that protects PersistentVolumeClaims that Pods use.

pub mod decide;

mod act;

use std::sync::Arc;

use common::{prelude::*, settings::FeatureGate};
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;

use self::decide::{Plan, Snapshot, uses};
use crate::{
    objects::{ByClaim, CLAIMS, Claim, HeldByNamespace, Pod, Protected, index_value_of_claim},
    protection::{WORKERS, needs_sync},
};

/// The gate of the condition `Unused`; off by default, as upstream.
pub const PERSISTENT_VOLUME_CLAIM_UNUSED_SINCE_TIME: FeatureGate = FeatureGate::off_by_default(
    "PersistentVolumeClaimUnusedSinceTime",
    "Says in the condition Unused of a claim since when no Pod refers to it",
);

/// `persistentvolumeclaim-protection-controller`: protects claims that Pods use. It records no Events.
pub const CLAIM_PROTECTION_LOOP: LoopDefinition =
    LoopDefinition::new("persistentvolumeclaim-protection-controller", "pvc-protection", start)
        .with_user_agent_and_component("pvc-protection-controller", "");

/// How long a list of Pods answers for a claim. A Pod that gets a node later is not in the list.
const LIST_LIFETIME: SignedDuration = SignedDuration::from_secs(5);

/// Caches and memory of the loop.
pub struct ClaimController {
    claims: Arc<Store<Claim>>,
    pods: Arc<Store<Pod>>,
    queue: Queue<NamespacedName>,
    ledger: Ledger,
    writes_condition: bool,
    /// What the last lists of Pods say of claims that have not been synced since.
    list_answers: Mutex<HashMap<Uid, ListAnswer>>,
}

/// What a list of Pods says of a claim.
#[derive(Clone, Copy)]
struct ListAnswer {
    /// The version of the claim that was judged.
    version: ResourceVersion,
    /// The time before the list was requested.
    requested: Timestamp,
    is_used: bool,
}

fn start(context: LoopContext) -> Arc<dyn RunningLoop> {
    let queue = context.new_queue("pvcprotection");
    let (claims, pods) = (context.shared_informer::<Claim>(), context.shared_informer::<Pod>());
    let controller = Arc::new(ClaimController {
        claims: Arc::clone(claims.store()),
        pods: Arc::clone(pods.store()),
        queue: queue.clone(),
        ledger: context.ledger(),
        writes_condition: context.settings.is_feature_gate_on(&PERSISTENT_VOLUME_CLAIM_UNUSED_SINCE_TIME),
        list_answers: Mutex::default(),
    });
    claims.add_handler(handler_from_method(&controller, ClaimController::on_claim));
    pods.add_handler(handler_from_method(&controller, ClaimController::on_pod));
    Loop::start(CLAIM_PROTECTION_LOOP.name, context, controller, queue, WORKERS)
}

impl ClaimController {
    fn on_claim(&self, event: &CacheEvent<Claim>, origin: ChangeOrigin) {
        if let CacheEvent::Deleted(claim) = event {
            self.ledger.forget_owner(&claim.metadata.uid);
            self.list_answers.lock().remove(&claim.metadata.uid);
        }
        if event.cached().is_some_and(|claim| self.writes_condition || needs_sync(&**claim)) {
            self.queue.add(event.meta().key(), origin);
        }
    }

    /// Enqueues the claims that a Pod uses no longer: all that its volumes name.
    fn on_pod(&self, event: &CacheEvent<Pod>, origin: ChangeOrigin) {
        let pod = match event {
            CacheEvent::Deleted(pod) => pod,
            CacheEvent::Updated { old, new } if self.writes_condition || (new.is_shut_down && !old.is_shut_down) => new,
            CacheEvent::Added(pod) if self.writes_condition => pod,
            CacheEvent::Added(_) | CacheEvent::Updated { .. } => return,
            // Its claims are unknown, and it may be deleted.
            CacheEvent::Unreadable(pod) => {
                let held = self.held_claims(&pod.meta.namespace);
                return held.iter().for_each(|claim| self.queue.add(claim.metadata.key(), origin));
            }
        };
        for name in pod.all_claim_names() {
            self.queue.add(NamespacedName::new(&pod.metadata.namespace, name), origin);
        }
    }

    /// Returns the terminating claims of a namespace that have the finalizer.
    fn held_claims(&self, namespace: &Text) -> Vec<Arc<Claim>> {
        self.claims.list_decoded_by_index(HeldByNamespace, &IndexValue::Text(namespace.clone()))
    }

    /// Returns what a recent list of Pods says of this version of a claim; `None` without such a list.
    fn list_answer(&self, claim: &Claim, now: Timestamp) -> Option<bool> {
        let ListAnswer { version, requested, is_used } = *self.list_answers.lock().get(&claim.metadata.uid)?;
        (version == claim.metadata.resource_version && is_recent(requested, now)).then_some(is_used)
    }

    /// Returns the cached Pods that name a claim.
    fn cached_pods(&self, claim: &Meta) -> Vec<Arc<Pod>> {
        self.pods.list_decoded_by_index(ByClaim, &index_value_of_claim(&claim.namespace, &claim.name))
    }

    /// Remembers what a list of Pods says of claims, and forgets old lists. A claim that cached Pods use waits for their events.
    fn record_list(&self, requested: Timestamp, now: Timestamp, answers: impl Iterator<Item = (Arc<Claim>, bool)>) {
        let mut list_answers = self.list_answers.lock();
        list_answers.retain(|_, answer| is_recent(answer.requested, now));
        let is_new = |(claim, is_used): &(Arc<Claim>, bool)| {
            !is_used || !self.cached_pods(&claim.metadata).iter().any(|pod| uses(pod, claim))
        };
        for (claim, is_used) in answers.filter(is_new) {
            let answer = ListAnswer { version: claim.metadata.resource_version, requested, is_used };
            list_answers.insert(claim.metadata.uid.clone(), answer);
        }
    }

    fn forget_list_answer(&self, claim: &Claim) {
        self.list_answers.lock().remove(&claim.metadata.uid);
    }
}

fn is_recent(requested: Timestamp, now: Timestamp) -> bool {
    let age = now.duration_since(requested);
    !age.is_negative() && age <= LIST_LIFETIME
}

impl Controller for ClaimController {
    type Key = NamespacedName;
    type Snapshot = Snapshot;
    type Plan = Plan;

    fn observe(&self, key: &NamespacedName, now: Timestamp) -> Result<Snapshot, NoSnapshot> {
        let no_children = |_: &Uid| HashSet::default();
        let (claim, _) = self.ledger.read(&self.claims, key, WaitPolicy::AllWrites, no_children)?;
        let writes_condition = self.writes_condition;
        let pods = if claim.is_held() || (writes_condition && !claim.metadata.is_deleting()) {
            self.cached_pods(&claim.metadata)
        } else {
            Vec::new()
        };
        let is_used_on_server = self.list_answer(&claim, now);
        Ok(Snapshot { claim, pods, is_used_on_server, writes_condition })
    }

    fn decide(snapshot: &Snapshot) -> Plan {
        decide::decide(snapshot)
    }

    async fn act(snapshot: &Snapshot, plan: &Plan, io: Io<'_, Self>) -> Result<Requeue, SyncError> {
        act::act(snapshot, plan, io).await
    }

    fn object(snapshot: &Snapshot) -> InvolvedObject {
        InvolvedObject::new(CLAIMS, &snapshot.claim.metadata)
    }

    /// Drops the ledger record of a claim that was deleted during the sync, because no later event would drop the record.
    fn after_sync(&self, snapshot: &Snapshot) {
        let claim = &snapshot.claim.metadata;
        if !self.claims.contains_object(claim) {
            self.ledger.forget_owner(&claim.uid);
        }
    }
}
