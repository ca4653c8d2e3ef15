//! Metrics of rolling updates.

use common::metrics::{Gauges, Metrics, Stability};

use crate::{
    objects::{PodManagementPolicy, StatefulSet},
    plan::UnavailablePods,
};

/// Gauges by set: the number of unavailable Pods, and the upper limit of this number. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ControllerMetrics {
    max_unavailable: Gauges,
    unavailable: Gauges,
}

/// Label names of upstream. The labels name objects, so a series exists only with the gate `MaxUnavailableStatefulSet`, and
/// only until its set is deleted.
const LABEL_NAMES: &[&str] = &["statefulset_namespace", "statefulset_name", "pod_management_policy"];

fn labels(set: &StatefulSet) -> [&str; 3] {
    let policy = match set.pod_management_policy {
        PodManagementPolicy::OrderedReady => "OrderedReady",
        PodManagementPolicy::Parallel => "Parallel",
    };
    [&set.metadata.namespace, &set.metadata.name, policy]
}

impl ControllerMetrics {
    /// Registers the two gauges.
    pub fn new(metrics: &Metrics) -> Self {
        Self {
            max_unavailable: metrics.gauge(
                "statefulset_controller_statefulset_max_unavailable",
                Stability::Alpha,
                "Maximum number of unavailable pods allowed during StatefulSet rolling updates",
                LABEL_NAMES,
            ),
            unavailable: metrics.gauge(
                "statefulset_controller_statefulset_unavailable_replicas",
                Stability::Alpha,
                "Current number of unavailable pods in StatefulSet",
                LABEL_NAMES,
            ),
        }
    }

    /// Sets the limit of unavailable Pods for a set, and the number of unavailable Pods if the plan counted them.
    pub fn record_unavailable_pods(&self, set: &StatefulSet, unavailable: UnavailablePods) {
        let UnavailablePods { max_unavailable, count } = unavailable;
        self.max_unavailable.with_label_values(&labels(set)).set(f64::from(max_unavailable));
        if let Some(count) = count {
            self.unavailable.with_label_values(&labels(set)).set(f64::from(count));
        }
    }

    /// Removes the series of a deleted set.
    pub fn forget_set(&self, set: &StatefulSet) {
        self.max_unavailable.remove(&labels(set));
        self.unavailable.remove(&labels(set));
    }
}
