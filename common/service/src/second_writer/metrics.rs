//! Metrics that report evidence of second writers.

use crate::metrics::{Gauge, Gauges, Metrics, Stability};

use super::Evidence;

pub(super) struct SecondWriterMetrics {
    found: Gauges,
    expected: Gauge,
    built_in_leads: Gauge,
    loops: Vec<&'static str>,
}

impl SecondWriterMetrics {
    pub(super) fn new(metrics: &Metrics, loops: Vec<&'static str>) -> Self {
        let gauge = |name, help, labels| metrics.gauge(name, Stability::Alpha, help, labels);
        let made = Self {
            found: gauge(
                "nonet_second_writer",
                "1 while there is evidence of a second writer that runs a control loop of this leader. 'lease' only \
                 means that kube-controller-manager leads and that its loops are unknown.",
                &["controller", "evidence"],
            ),
            expected: gauge(
                "nonet_second_writer_expected",
                "1 while an annotation of the Lease states that a second writer is expected.",
                &[],
            )
            .with_label_values(&[]),
            built_in_leads: gauge(
                "nonet_built_in_manager_leads",
                "1 while this leader sees the Lease of kube-controller-manager being renewed.",
                &[],
            )
            .with_label_values(&[]),
            loops,
        };
        made.clear();
        made
    }

    /// Sets all gauges to 0.
    pub(super) fn clear(&self) {
        for name in &self.loops {
            for evidence in Evidence::ALL {
                self.set_evidence(name, evidence, false);
            }
        }
        self.set_second_writer_expected(false);
        self.set_kube_controller_manager_leads(false);
    }

    pub(super) fn set_evidence(&self, name: &str, evidence: Evidence, is_present: bool) {
        self.found.with_label_values(&[name, evidence.metric_label()]).set(f64::from(is_present));
    }

    pub(super) fn set_second_writer_expected(&self, is_expected: bool) {
        self.expected.set(f64::from(is_expected));
    }

    pub(super) fn set_kube_controller_manager_leads(&self, leads: bool) {
        self.built_in_leads.set(f64::from(leads));
    }
}
