//! What this controller counts besides its queue.

use common::metrics::{Histogram, Metrics, Stability};

/// The controller's own metric families. Cheap to clone; both loops of a process feed the same ones.
#[derive(Clone, Debug)]
pub struct ControllerMetrics {
    age_ratio: Histogram,
}

impl ControllerMetrics {
    /// Registers the families.
    pub fn new(metrics: &Metrics) -> Self {
        let age_ratio = metrics.histogram(
            "replicaset_controller_sorting_deletion_age_ratio",
            Stability::Alpha,
            "Age of each ready Pod chosen in a sorted scale-down, as a whole multiple of the age of the youngest ready Pod of its ReplicaSet",
            &[],
            [0.25, 0.5, 1.0, 2.0, 4.0, 8.0],
        );
        Self { age_ratio: age_ratio.with(&[]) }
    }

    /// How old Pods chosen for deletion are, as multiples of the age of the youngest.
    pub fn deletes(&self, age_ratios: &[u64]) {
        for ratio in age_ratios {
            self.age_ratio.observe(*ratio as f64);
        }
    }
}
