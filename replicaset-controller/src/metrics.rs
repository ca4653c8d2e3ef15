//! The age ratios of deleted Pods, as a metric.

use common::metrics::{Histogram, Metrics, Stability};

/// The controller's own metric families. Cheap to clone; both loops of a process record into the same families.
#[derive(Clone, Debug)]
pub struct ControllerMetrics {
    age_ratio: Histogram,
}

impl ControllerMetrics {
    /// Registers the families in `metrics`.
    pub fn new(metrics: &Metrics) -> Self {
        let age_ratio = metrics.histogram(
            "replicaset_controller_sorting_deletion_age_ratio",
            Stability::Alpha,
            "Age of each ready Pod chosen in a sorted scale-down, as a whole multiple of the age of the youngest ready Pod of its ReplicaSet",
            &[],
            [0.25, 0.5, 1.0, 2.0, 4.0, 8.0],
        );
        Self { age_ratio: age_ratio.with_label_values(&[]) }
    }

    /// Records the ages of Pods chosen for deletion, as multiples of the youngest Pod's age.
    pub fn record_deletion_age_ratios(&self, age_ratios: &[u64]) {
        for ratio in age_ratios {
            self.age_ratio.observe(*ratio as f64);
        }
    }
}
