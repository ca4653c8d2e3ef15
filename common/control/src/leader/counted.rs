//! The metrics of an election.

use crate::metrics::{Counter, Gauge, Metrics, Stability};

use super::Settings;

pub(super) struct Probations {
    pub(super) begun: Counter,
    pub(super) passed: Counter,
    pub(super) failed: Counter,
}

impl Probations {
    fn new(metrics: &Metrics, name: &str) -> Self {
        let counters = metrics.counter(
            "nonet_leader_probations_total",
            Stability::Alpha,
            "Probations of leading versions: begun or passed by this process, or failed in the previous leader when this process took the lease. 'name' is the string used to identify the lease.",
            &["name", "result"],
        );
        let of = |result: &str| counters.with(&[name, result]);
        Self { begun: of("begun"), passed: of("passed"), failed: of("failed") }
    }
}

/// The metrics of one election, labelled with the name of its Lease.
pub(super) struct ElectionMetrics {
    pub(super) leading: Gauge,
    /// 1 while the Lease is held for a hand-over.
    pub(super) held: Gauge,
    pub(super) slow_path: Counter,
    /// `None` without `--probation`.
    pub(super) probations: Option<Probations>,
}

impl ElectionMetrics {
    pub(super) fn new(metrics: &Metrics, settings: &Settings) -> Self {
        let name = &[&*settings.name];
        let gauge = |metric, help| {
            let gauge = metrics.gauge(metric, Stability::Alpha, help, &["name"]).with(name);
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
            "1 while the lease is held for a hand-over, so that no process leads, as intended. \
             'name' is the string used to identify the lease.",
        );
        let help = "Total number of slow path exercised in renewing leader leases. \
                    'name' is the string used to identify the lease. Please make sure to group by name.";
        let slow_path = metrics.counter("leader_election_slowpath_total", Stability::Alpha, help, &["name"]).with(name);
        let probations = settings.probation.as_ref().map(|_| Probations::new(metrics, &settings.name));
        Self { leading, held, slow_path, probations }
    }
}
