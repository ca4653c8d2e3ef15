//! The loop that protects PersistentVolumeClaims that Pods use.

pub mod decide;

use std::sync::Arc;

use common::{informer::CacheEventHandler, io::CollectionPages, partial_object::ObjectPage, pods::PODS, prelude::*};
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;

use self::decide::{LiveUsage, usage_of_claim, uses};
use crate::{
    objects::{ByClaim, Claim, HeldByNamespace, Pod, index_value_of_claim},
    protection::{Protection, ProtectionController, decide::Usage, handler_of_protected},
};

/// `persistentvolumeclaim-protection-controller`: protects claims that Pods use. It records no Events.
pub const CLAIM_PROTECTION_LOOP: LoopDefinition =
    LoopDefinition::new("persistentvolumeclaim-protection-controller", "pvc-protection", start)
        .with_user_agent_and_component("pvc-protection-controller", "");

const POD_PAGE: &str = "limit=500";
/// Selects the Pods with a node, because others use no claim.
const PODS_WITH_NODE: &str = "fieldSelector=spec.nodeName%21%3D";
/// How long a list of Pods answers for a claim. A Pod that gets a node later is not in the list.
const LIST_LIFETIME: SignedDuration = SignedDuration::from_secs(1);

struct ClaimProtection {
    claims: Arc<Store<Claim>>,
    pods: Arc<Store<Pod>>,
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

impl ListAnswer {
    fn is_recent(self, now: Timestamp) -> bool {
        let age = now.duration_since(self.requested);
        !age.is_negative() && age <= LIST_LIFETIME
    }
}

fn start(context: LoopContext) -> Arc<dyn RunningLoop> {
    let queue = context.new_queue("pvcprotection");
    let claims = context.watch_shared(handler_of_protected(&queue, &context.ledger()));
    let pods = context.watch_shared(handler_of_pods(queue.clone(), Arc::clone(&claims)));
    let protection = ClaimProtection { claims, pods, list_answers: Mutex::default() };
    ProtectionController::start(CLAIM_PROTECTION_LOOP.name, context, queue, protection)
}

/// Enqueues the claims that a Pod uses no longer: all that its volumes name.
fn handler_of_pods(queue: Queue<NamespacedName>, claims: Arc<Store<Claim>>) -> CacheEventHandler<Pod> {
    Box::new(move |event, origin| {
        let pod = match event {
            CacheEvent::Deleted(pod) => pod,
            CacheEvent::Updated { old, new } if new.is_shut_down && !old.is_shut_down => new,
            CacheEvent::Added(_) | CacheEvent::Updated { .. } => return,
            // Its claims are unknown, and it may be deleted.
            CacheEvent::Unreadable(pod) => {
                let held = held_claims(&claims, &pod.meta.namespace);
                return held.iter().for_each(|claim| queue.add(claim.metadata.key(), origin));
            }
        };
        for name in pod.all_claim_names() {
            queue.add(NamespacedName::new(&pod.metadata.namespace, name), origin);
        }
    })
}

/// Returns the terminating claims of a namespace that have the finalizer.
fn held_claims(claims: &Store<Claim>, namespace: &Text) -> Vec<Arc<Claim>> {
    claims.list_decoded_by_index(HeldByNamespace, &IndexValue::Text(namespace.clone()))
}

impl ClaimProtection {
    /// Returns the cached Pods that name a claim.
    fn cached_pods(&self, claim: &Meta) -> Vec<Arc<Pod>> {
        self.pods.list_decoded_by_index(ByClaim, &index_value_of_claim(&claim.namespace, &claim.name))
    }

    /// Remembers what a list of Pods says of claims, and forgets old lists. A claim that cached Pods use waits for their events.
    fn record_list(&self, requested: Timestamp, now: Timestamp, answers: impl Iterator<Item = (Arc<Claim>, bool)>) {
        let mut list_answers = self.list_answers.lock();
        list_answers.retain(|_, answer| answer.is_recent(now));
        let is_new = |(claim, is_used): &(Arc<Claim>, bool)| {
            !is_used || !self.cached_pods(&claim.metadata).iter().any(|pod| uses(pod, claim))
        };
        for (claim, is_used) in answers.filter(is_new) {
            let answer = ListAnswer { version: claim.metadata.resource_version, requested, is_used };
            list_answers.insert(claim.metadata.uid.clone(), answer);
        }
    }
}

impl Protection for ClaimProtection {
    type Object = Claim;

    fn objects(&self) -> Result<&Store<Claim>, NoSnapshot> {
        Ok(&self.claims)
    }

    fn usage(&self, claim: &Claim, now: Timestamp) -> Result<Usage, NoSnapshot> {
        let Meta { uid, resource_version, .. } = &claim.metadata;
        let is_valid = |answer: &&ListAnswer| answer.version == *resource_version && answer.is_recent(now);
        let is_used_on_server = self.list_answers.lock().get(uid).filter(is_valid).map(|answer| answer.is_used);
        Ok(usage_of_claim(claim, &self.cached_pods(&claim.metadata), is_used_on_server))
    }

    /// Lists the Pods of the namespace. Remembers what the list says of the other claims that were terminating before it was
    /// requested.
    ///
    /// Upstream: `pkg/controller/volume/pvcprotection`, `askAPIServer`.
    async fn find_unseen_user(
        claim: &Arc<Claim>,
        io: Io<'_, ProtectionController<Self>>,
    ) -> Result<Option<String>, SyncError> {
        let failed = |refusal| SyncError::from_refusal("cannot list the Pods that may use the claim", &refusal);
        let namespace = &claim.metadata.namespace;
        let held = io.observe_again(|controller| Some(held_claims(&controller.protection.claims, namespace)));
        let mut usage = LiveUsage::new(held.into_iter().flatten().chain([Arc::clone(claim)]));
        let requested = io.now();
        let mut pages = CollectionPages::new(POD_PAGE).with_selector(PODS_WITH_NODE);
        while let Some(query) = pages.next_query() {
            if !pages.is_at_start() {
                io.explain_deviation("the list of Pods has several pages");
            }
            let request = Request::list(PODS, namespace, query);
            match io.send(request.with_reason("the cache may lack a Pod that uses the claim")).await {
                Ok(answer) => {
                    let page: ObjectPage<Pod> = pages.advance(&answer).map_err(failed)?;
                    page.items.iter().for_each(|pod| usage.add(pod));
                }
                Err(refusal) if pages.restart_if_expired(&refusal) => usage.restart(),
                Err(refusal) => return Err(failed(refusal)),
            }
        }
        let user = usage.take_user(claim);
        let now = io.now();
        io.update_memory(|controller| controller.protection.record_list(requested, now, usage.into_answers()));
        Ok(user.map(|name| format!("Pod {name}, which the cache lacks, uses the claim")))
    }

    /// Forgets the answer about the claim, because a list answers for one sync.
    fn after_sync(&self, claim: &Claim) {
        self.list_answers.lock().remove(&claim.metadata.uid);
    }
}
