//! The hashes that Pods carry in a label.

use std::{collections::BTreeMap, sync::Arc};

use common::intern::Text;

use crate::objects::PodRef;

/// The labels of the hash on the Pods that a set selects.
#[derive(Debug, Default)]
pub(crate) struct Hashes {
    /// How many Pods carry a hash.
    counts: BTreeMap<Text, usize>,
    /// Pods without the label, by name.
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

    /// Whether a Pod carries that hash.
    pub(crate) fn has(&self, hash: &str) -> bool {
        self.counts.contains_key(hash)
    }

    /// The Pods without the label.
    pub(crate) fn unlabelled(&self) -> Vec<PodRef> {
        self.unlabelled.values().cloned().collect()
    }
}
