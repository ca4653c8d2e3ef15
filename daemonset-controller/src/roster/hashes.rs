use std::{collections::BTreeMap, sync::Arc};

use common::intern::Text;

use crate::objects::PodRef;

/// The values of the label `controller-revision-hash` on the Pods that a DaemonSet selects.
#[derive(Debug, Default)]
pub(crate) struct Hashes {
    /// Number of Pods by hash; Pods without the label count under the empty hash.
    counts: BTreeMap<Text, usize>,
    /// Pods without the label `controller-revision-hash`, by Pod name.
    unlabelled: BTreeMap<Arc<str>, PodRef>,
}

impl Hashes {
    pub(crate) fn add(&mut self, pod: &PodRef) {
        if pod.is_unlabelled() {
            self.unlabelled.insert(Arc::clone(&pod.meta().name), Arc::clone(pod));
        }
        *self.counts.entry(Text::new(pod.hash())).or_insert(0) += 1;
    }

    pub(crate) fn remove(&mut self, pod: &PodRef) {
        self.unlabelled.remove(&pod.meta().name);
        if let Some(count) = self.counts.get_mut(pod.hash()) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(pod.hash());
            }
        }
    }

    /// Whether a Pod has this hash.
    pub(crate) fn has(&self, hash: &str) -> bool {
        self.counts.contains_key(hash)
    }

    /// Returns the Pods without the label `controller-revision-hash`, ordered by name.
    pub(crate) fn unlabelled(&self) -> Vec<PodRef> {
        self.unlabelled.values().cloned().collect()
    }
}
