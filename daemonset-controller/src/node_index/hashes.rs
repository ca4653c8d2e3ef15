use std::{collections::BTreeMap, sync::Arc};

use common::intern::Text;

use crate::objects::SharedPod;

/// The values of the label `controller-revision-hash` on the Pods that a DaemonSet selects.
#[derive(Debug, Default)]
pub(crate) struct PodRevisionHashes {
    /// Number of Pods by hash; Pods without the label count under the empty hash.
    counts: BTreeMap<Text, usize>,
    /// Pods without the label `controller-revision-hash`, by Pod name.
    unlabelled: BTreeMap<Arc<str>, SharedPod>,
}

impl PodRevisionHashes {
    pub(crate) fn add(&mut self, pod: &SharedPod) {
        if pod.lacks_revision_hash_label() {
            self.unlabelled.insert(Arc::clone(&pod.meta().name), Arc::clone(pod));
        }
        *self.counts.entry(Text::new(pod.revision_hash())).or_insert(0) += 1;
    }

    pub(crate) fn remove(&mut self, pod: &SharedPod) {
        self.unlabelled.remove(&pod.meta().name);
        if let Some(count) = self.counts.get_mut(pod.revision_hash()) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(pod.revision_hash());
            }
        }
    }

    /// Whether at least one selected Pod has this hash.
    pub(crate) fn contains_hash(&self, hash: &str) -> bool {
        self.counts.contains_key(hash)
    }

    /// Returns the Pods without the label `controller-revision-hash`, ordered by name.
    pub(crate) fn pods_without_hash_label(&self) -> Vec<SharedPod> {
        self.unlabelled.values().cloned().collect()
    }
}
