//! Keeps the finished Pods sorted by the order of removal. A pass reads only as many Pods as it removes, and sorts none.

use std::{cmp::Ordering, collections::BTreeSet, ops::Bound, sync::Arc};

use common::{pods::Phase, prelude::*};
use parking_lot::Mutex;

use super::decide::compare_removal_order;
use crate::objects::CachedPod;

/// The cached Pods that have finished, sorted by the order of removal. Pods that only finalizers keep do not belong to them.
#[derive(Default)]
pub(super) struct FinishedPods(BTreeSet<ByRemovalOrder>);

/// A Pod that compares by the order of removal, in which namespace and name break all ties.
struct ByRemovalOrder(Arc<CachedPod>);

impl Ord for ByRemovalOrder {
    fn cmp(&self, other: &Self) -> Ordering {
        #[cfg(test)]
        tests::REMOVAL_ORDER_COMPARISON_COUNT.with(|count| count.set(count.get() + 1));
        compare_removal_order(&self.0, &other.0)
    }
}

impl PartialOrd for ByRemovalOrder {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for ByRemovalOrder {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for ByRemovalOrder {}

impl FinishedPods {
    /// Returns the finished Pods of a cache. A handler of the cache keeps them up to date.
    pub(super) fn follow_informer(pod_informer: &SharedInformer<CachedPod>) -> Arc<Mutex<Self>> {
        let finished_pods = Arc::new(Mutex::new(Self::default()));
        let updated_pods = Arc::clone(&finished_pods);
        pod_informer.add_handler(Box::new(move |event, _| updated_pods.lock().apply_event(event)));
        finished_pods
    }

    fn apply_event(&mut self, event: &CacheEvent<CachedPod>) {
        match event {
            CacheEvent::Added(pod) => self.insert(pod),
            CacheEvent::Updated { old, new } => {
                self.remove(old);
                self.insert(new);
            }
            CacheEvent::Deleted(pod) => self.remove(pod),
            CacheEvent::Unreadable(malformed) => self.remove_by_metadata(&malformed.meta),
        }
    }

    pub(super) fn insert(&mut self, pod: &Arc<CachedPod>) {
        if pod.is_finished() && !pod.is_removed() {
            self.0.insert(ByRemovalOrder(Arc::clone(pod)));
        }
    }

    fn remove(&mut self, pod: &Arc<CachedPod>) {
        if pod.is_finished() {
            self.0.remove(&ByRemovalOrder(Arc::clone(pod)));
        }
    }

    /// Removes a Pod that can no longer be decoded, so that only its metadata is known.
    fn remove_by_metadata(&mut self, meta: &Meta) {
        for is_evicted_by_kubelet in [false, true] {
            let meta = meta.clone();
            let pod = CachedPod { meta, phase: Phase::Failed, is_evicted_by_kubelet, ..CachedPod::default() };
            self.0.remove(&ByRemovalOrder(Arc::new(pod)));
        }
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns at most `count` Pods that follow `last_pod` in the order of removal; `None` starts with the first Pod.
    pub(super) fn pods_after(&self, count: usize, last_pod: Option<&Arc<CachedPod>>) -> Vec<Arc<CachedPod>> {
        let from = last_pod.map_or(Bound::Unbounded, |last| Bound::Excluded(ByRemovalOrder(Arc::clone(last))));
        self.0.range((from, Bound::Unbounded)).take(count).map(|ended| Arc::clone(&ended.0)).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use serde_json::json;

    use super::*;
    use crate::{garbage::decide::MAX_FINISHED_PODS_PER_CHUNK, world};

    thread_local! {
        pub(super) static REMOVAL_ORDER_COMPARISON_COUNT: Cell<usize> = const { Cell::new(0) };
    }

    fn pod(name: &str, second: i64, phase: &str) -> Arc<CachedPod> {
        let created = jiff::Timestamp::from_second(1_800_000_000 + second).unwrap().to_string();
        world::pod(name, &json!({"metadata": {"creationTimestamp": created}, "status": {"phase": phase}}))
    }

    fn names(pods: &[Arc<CachedPod>]) -> Vec<&str> {
        pods.iter().map(|pod| &*pod.meta.name).collect()
    }

    /// NODE-65.
    #[test]
    fn ended_pods_follow_the_events_of_the_cache() {
        let mut ended = FinishedPods::default();
        let (old, young) = (pod("old", 1, "Succeeded"), pod("young", 2, "Failed"));
        for event in [
            CacheEvent::Added(Arc::clone(&young)),
            CacheEvent::Added(pod("runs", 0, "Running")),
            CacheEvent::Updated { old: pod("old", 1, "Running"), new: Arc::clone(&old) },
        ] {
            ended.apply_event(&event);
        }
        assert_eq!((ended.len(), names(&ended.pods_after(5, None))), (2, vec!["old", "young"]));
        assert_eq!(names(&ended.pods_after(5, Some(&old))), ["young"]);
        assert_eq!(names(&ended.pods_after(1, None)), ["old"]);
        let mut evicted = CachedPod::clone(&young);
        evicted.is_evicted_by_kubelet = true;
        let evicted = Arc::new(evicted);
        ended.apply_event(&CacheEvent::Updated { old: young, new: Arc::clone(&evicted) });
        assert_eq!(names(&ended.pods_after(5, None)), ["young", "old"], "evicted Pods come first");
        ended.apply_event(&CacheEvent::Deleted(old));
        ended.remove_by_metadata(&evicted.meta);
        assert_eq!(ended.len(), 0);
    }

    #[test]
    fn the_cost_of_a_chunk_does_not_depend_on_the_number_of_ended_pods() {
        let mut ended = FinishedPods::default();
        let pods: Vec<_> = (0..150_000_i64)
            .map(|number| pod(&format!("p{number}"), number.wrapping_mul(0x9e37_79b9_7f4a) % 100_000, "Succeeded"))
            .collect();
        for pod in &pods {
            ended.insert(pod);
        }
        let (mut last, mut steps) = (None, 0);
        loop {
            REMOVAL_ORDER_COMPARISON_COUNT.with(|count| count.set(0));
            let chunk = ended.pods_after(MAX_FINISHED_PODS_PER_CHUNK, last.as_ref());
            let compared = REMOVAL_ORDER_COMPARISON_COUNT.with(Cell::get);
            assert!(compared <= 400, "{compared} comparisons for {MAX_FINISHED_PODS_PER_CHUNK} of {} Pods", pods.len());
            let held = pods.iter().filter(|pod| Arc::strong_count(pod) > 2).count();
            assert!(held <= MAX_FINISHED_PODS_PER_CHUNK + 1, "{held} Pods are referenced by the pass");
            assert!(chunk.is_sorted_by(|a, b| compare_removal_order(a, b).is_lt()));
            let Some(next) = chunk.last() else { break };
            assert!(last.is_none_or(|last| compare_removal_order(&last, next).is_lt()));
            last = Some(Arc::clone(next));
            steps += 1;
            if steps > 3 {
                // Four chunks are enough, because the loop over all Pods would dominate the duration of the test.
                break;
            }
        }
        assert_eq!(steps, 4);
    }
}
