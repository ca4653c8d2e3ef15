//! What the loop of slices counts besides its queue.

use common::{
    map::HashMap,
    meta::Key,
    metrics::{Counter, Counters, Gauge, Gauges, Histogram, Histograms, Metrics, Stability, exponential_buckets},
};
use parking_lot::Mutex;

use crate::plan::{Counts, Plan, Spread};

/// Upper bounds where upstream names none.
const DEFAULT_BUCKETS: [f64; 11] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// What each Service adds to totals.
pub(crate) struct Shares {
    desired: Gauge,
    slices: Gauge,
    enough: Gauge,
    known: Mutex<HashMap<Key, Counts>>,
}

impl Shares {
    /// Totals of endpoints, of slices, and of slices that would be enough.
    pub(crate) fn new(desired: Gauge, slices: Gauge, enough: Gauge) -> Self {
        Self { desired, slices, enough, known: Mutex::default() }
    }

    /// A Service adds these.
    pub(crate) fn set(&self, key: &Key, counts: impl IntoIterator<Item = Counts>) {
        let mut sum = Counts::default();
        for one in counts {
            sum.endpoints += one.endpoints;
            sum.slices += one.slices;
            sum.enough += one.enough;
        }
        let old = self.known.lock().insert(key.clone(), sum);
        self.exchange(old.unwrap_or_default(), sum);
    }

    /// A Service adds nothing any more.
    pub(crate) fn forget(&self, key: &Key) {
        let old = self.known.lock().remove(key);
        self.exchange(old.unwrap_or_default(), Counts::default());
    }

    fn exchange(&self, old: Counts, new: Counts) {
        self.desired.inc_by(new.endpoints as f64 - old.endpoints as f64);
        self.slices.inc_by(new.slices as f64 - old.slices as f64);
        self.enough.inc_by(new.enough as f64 - old.enough as f64);
    }
}

/// The loop's own metrics.
pub(crate) struct ControllerMetrics {
    added: Histogram,
    removed: Histogram,
    shares: Shares,
    changes: Counters,
    changed: Histograms,
    pub(crate) succeeded: Counter,
    pub(crate) stale: Counter,
    pub(crate) failed: Counter,
    distributions: Gauges,
    distribution_of: Mutex<HashMap<Key, &'static str>>,
}

impl ControllerMetrics {
    /// Registers them.
    pub(crate) fn new(metrics: &Metrics) -> Self {
        let many = || exponential_buckets(2.0, 2.0, 15);
        let histogram = |name, help| metrics.histogram(name, Stability::Beta, help, &[], many()).with(&[]);
        let gauge = |name, help| metrics.gauge(name, Stability::Beta, help, &[]).with(&[]);
        let syncs = metrics.counter(
            "endpoint_slice_controller_syncs",
            Stability::Alpha,
            "Number of EndpointSlice syncs",
            &["result"],
        );
        Self {
            added: histogram(
                "endpoint_slice_controller_endpoints_added_per_sync",
                "Number of endpoints added on each Service sync",
            ),
            removed: histogram(
                "endpoint_slice_controller_endpoints_removed_per_sync",
                "Number of endpoints removed on each Service sync",
            ),
            shares: Shares::new(
                gauge("endpoint_slice_controller_endpoints_desired", "Number of endpoints desired"),
                gauge("endpoint_slice_controller_num_endpoint_slices", "Number of EndpointSlices"),
                gauge(
                    "endpoint_slice_controller_desired_endpoint_slices",
                    "Number of EndpointSlices that would exist with perfect endpoint allocation",
                ),
            ),
            changes: metrics.counter(
                "endpoint_slice_controller_changes",
                Stability::Alpha,
                "Number of EndpointSlice changes",
                &["operation"],
            ),
            changed: metrics.histogram(
                "endpoint_slice_controller_endpointslices_changed_per_sync",
                Stability::Alpha,
                "Number of EndpointSlices changed on each Service sync",
                &["topology", "traffic_distribution"],
                DEFAULT_BUCKETS,
            ),
            succeeded: syncs.with(&["success"]),
            stale: syncs.with(&["stale"]),
            failed: syncs.with(&["error"]),
            distributions: metrics.gauge(
                "endpoint_slice_controller_services_count_by_traffic_distribution",
                Stability::Beta,
                "Number of Services using some specific trafficDistribution",
                &["traffic_distribution"],
            ),
            distribution_of: Mutex::default(),
        }
    }

    /// A slice was created, updated or deleted.
    pub(crate) fn changed(&self, operation: &str) {
        self.changes.with(&[operation]).inc();
    }

    /// A Service is about to be what the plan says.
    pub(crate) fn planned(&self, key: &Key, plan: &Plan) {
        for writes in &plan.writes {
            self.added.observe(writes.counts.added as f64);
            self.removed.observe(writes.counts.removed as f64);
        }
        self.shares.set(key, plan.writes.iter().map(|writes| writes.counts));
        self.distribute(key, plan.spread.distribution);
    }

    /// All slices of an address type are written.
    pub(crate) fn done(&self, spread: &Spread, slices: usize) {
        let topology = if spread.by_capacity { "Auto" } else { "Disabled" };
        self.changed.with(&[topology, spread.distribution.unwrap_or("")]).observe(slices as f64);
    }

    /// A Service is gone.
    pub(crate) fn forget(&self, key: &Key) {
        self.shares.forget(key);
        self.distribute(key, None);
    }

    fn distribute(&self, key: &Key, new: Option<&'static str>) {
        let mut known = self.distribution_of.lock();
        let old = match new {
            Some(name) => known.insert(key.clone(), name),
            None => known.remove(key),
        };
        if let Some(name) = old {
            self.distributions.with(&[name]).dec();
        }
        if let Some(name) = new {
            self.distributions.with(&[name]).inc();
        }
    }
}
