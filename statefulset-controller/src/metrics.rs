//! What this controller counts besides its queue.

use common::metrics::{Gauges, Metrics, Stability};

use crate::{
    objects::{Management, StatefulSet},
    plan::Unavailable,
};

/// The controller's own metric families. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ControllerMetrics {
    max_unavailable: Gauges,
    unavailable: Gauges,
}

/// Upstream's labels: they name objects, which is why there is a series only where the gate asks for one, and as long as its
/// set is there.
const SET: &[&str] = &["statefulset_namespace", "statefulset_name", "pod_management_policy"];

fn labels(set: &StatefulSet) -> [&str; 3] {
    let policy = match set.management {
        Management::OrderedReady => "OrderedReady",
        Management::Parallel => "Parallel",
    };
    [&set.metadata.namespace, &set.metadata.name, policy]
}

impl ControllerMetrics {
    /// Registers the families.
    pub fn new(metrics: &Metrics) -> Self {
        Self {
            max_unavailable: metrics.gauge(
                "statefulset_controller_statefulset_max_unavailable",
                Stability::Alpha,
                "Maximum number of unavailable pods allowed during StatefulSet rolling updates",
                SET,
            ),
            unavailable: metrics.gauge(
                "statefulset_controller_statefulset_unavailable_replicas",
                Stability::Alpha,
                "Current number of unavailable pods in StatefulSet",
                SET,
            ),
        }
    }

    /// How the rollout of a set stands, where that is decided by numbers.
    pub fn rollout(&self, set: &StatefulSet, unavailable: Unavailable) {
        let Unavailable { limit, now } = unavailable;
        self.max_unavailable.with(&labels(set)).set(f64::from(limit));
        if let Some(now) = now {
            self.unavailable.with(&labels(set)).set(f64::from(now));
        }
    }

    /// A set is gone.
    pub fn forget(&self, set: &StatefulSet) {
        self.max_unavailable.remove(&labels(set));
        self.unavailable.remove(&labels(set));
    }
}
