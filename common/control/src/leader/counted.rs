//! The metrics of an election.

use crate::metrics::{Counter, Gauge, Metrics, Stability};

use super::ElectionSettings;

pub(super) struct ProbationCounters {
    pub(super) begun: Counter,
    pub(super) passed: Counter,
    pub(super) failed: Counter,
}

impl ProbationCounters {
    fn new(metrics: &Metrics, name: &str) -> Self {
        let counters = metrics.counter(
            "nonet_leader_probations_total",
            Stability::Alpha,
            "Probations of leading versions: begun or passed by this process, or failed in the previous leader when this process took the lease. 'name' is the string used to identify the lease.",
            &["name", "result"],
        );
        let of = |result: &str| counters.with_label_values(&[name, result]);
        Self { begun: of("begun"), passed: of("passed"), failed: of("failed") }
    }
}

/// The metrics of one election, labelled with the name of its Lease.
pub(super) struct ElectionMetrics {
    pub(super) leading_gauge: Gauge,
    /// 1 while the Lease is held.
    pub(super) lease_held_gauge: Gauge,
    /// 1 while the Lease is held although a process has led with it.
    pub(super) lease_held_after_leading_gauge: Gauge,
    pub(super) slow_path_total: Counter,
    /// `None` without `--probation`.
    pub(super) probation_counters: Option<ProbationCounters>,
}

impl ElectionMetrics {
    pub(super) fn new(metrics: &Metrics, settings: &ElectionSettings) -> Self {
        let name = &[&*settings.name];
        let gauge = |metric, help| {
            let gauge = metrics.gauge(metric, Stability::Alpha, help, &["name"]).with_label_values(name);
            gauge.set(0.0);
            gauge
        };
        let leading = gauge(
            "leader_election_master_status",
            "Gauge of if the reporting system is master of the relevant lease, 0 indicates backup, 1 indicates master. \
             'name' is the string used to identify the lease. Please make sure to group by name.",
        );
        let held = gauge(
            "nonet_leader_election_held",
            "1 while the lease is held, so that no process leads until an operator releases it. \
             'name' is the string used to identify the lease.",
        );
        let held_after_leading = gauge(
            "nonet_leader_election_held_after_leading",
            "1 while the lease is held although a process has led with it, so that no process does its work any more. \
             'name' is the string used to identify the lease.",
        );
        let help = "Total number of slow path exercised in renewing leader leases. \
                    'name' is the string used to identify the lease. Please make sure to group by name.";
        let slow_path = metrics
            .counter("leader_election_slowpath_total", Stability::Alpha, help, &["name"])
            .with_label_values(name);
        let probations = settings.probation.as_ref().map(|_| ProbationCounters::new(metrics, &settings.name));
        Self {
            leading_gauge: leading,
            lease_held_gauge: held,
            lease_held_after_leading_gauge: held_after_leading,
            slow_path_total: slow_path,
            probation_counters: probations,
        }
    }
}
