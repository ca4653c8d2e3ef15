//! What the process counts, under upstream's names.
//!
//! One [`Metrics`] per process. A family is asked for by name; whoever asks second gets the same one. Label values are
//! bounded by whoever passes them: never an object's name, never anything a user can invent.

mod family;
mod informer;
mod limits;
mod process;
mod text;
mod workqueue;

use std::{collections::BTreeMap, fmt, sync::Arc};

use parking_lot::Mutex;
use prometheus_client::registry::Registry;

use crate::object::Resource;

pub use family::{Counters, Gauges, Histograms};
pub use informer::{HiddenMetrics, InformerMetrics};
pub use limits::Limits;
pub use prometheus_client::metrics::histogram::Histogram;
pub use workqueue::QueueMetrics;

/// A number that only grows.
pub type Counter = prometheus_client::metrics::counter::Counter;
/// A number that goes up and down.
pub type Gauge = prometheus_client::metrics::gauge::Gauge<f64, std::sync::atomic::AtomicU64>;

/// `count` upper bounds: `start`, `start × factor`, ... multiplied one by one, as upstream's are: their last digits show.
pub fn exponential_buckets(start: f64, factor: f64, count: usize) -> impl Iterator<Item = f64> {
    std::iter::successors(Some(start), move |last| Some(last * factor)).take(count)
}

/// How much a metric's name and labels can be relied on; its help text begins with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stability {
    /// May change any time.
    Alpha,
    /// Changes only with notice.
    Beta,
    /// Does not change.
    Stable,
    /// A third party's (`process_*`): nothing is said.
    Unstated,
}

impl Stability {
    fn help(self, text: &str) -> String {
        match self {
            Self::Alpha => format!("[ALPHA] {text}"),
            Self::Beta => format!("[BETA] {text}"),
            Self::Stable => format!("[STABLE] {text}"),
            Self::Unstated => text.to_owned(),
        }
    }
}

/// The metrics of a process. Cheap to clone.
#[derive(Clone)]
pub struct Metrics {
    inner: Arc<Inner>,
}

struct Inner {
    limits: Limits,
    registry: Mutex<Registry>,
    families: Mutex<BTreeMap<&'static str, Family>>,
    probes: Mutex<Vec<Box<dyn Fn() + Send + Sync>>>,
}

enum Family {
    Counters(Counters),
    Gauges(Gauges),
    Histograms(Histograms),
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// No metrics yet.
    pub fn new() -> Self {
        Self::limited(Limits::default())
    }

    /// No metrics yet, and never any but within these limits.
    pub fn limited(limits: Limits) -> Self {
        let (registry, families, probes) = (Mutex::default(), Mutex::default(), Mutex::default());
        Self { inner: Arc::new(Inner { limits, registry, families, probes }) }
    }

    /// The counters called `name`: exactly that name is served, with or without `_total` at its end.
    pub fn counter(
        &self,
        name: &'static str,
        stability: Stability,
        help: &str,
        labels: &'static [&'static str],
    ) -> Counters {
        let mut families = self.inner.families.lock();
        if let Some(Family::Counters(known)) = families.get(name) {
            return known.clone();
        }
        let made = Counters::new(labels, self.inner.limits.of(name, labels));
        if families.insert(name, Family::Counters(made.clone())).is_none() {
            // The encoder appends the suffix by itself; `text` takes it off again where upstream has none.
            let base = name.strip_suffix("_total").unwrap_or(name);
            self.inner.registry.lock().register(base, stability.help(help), made.family());
        }
        made
    }

    /// The gauges called `name`.
    pub fn gauge(
        &self,
        name: &'static str,
        stability: Stability,
        help: &str,
        labels: &'static [&'static str],
    ) -> Gauges {
        let mut families = self.inner.families.lock();
        if let Some(Family::Gauges(known)) = families.get(name) {
            return known.clone();
        }
        let made = Gauges::new(labels, self.inner.limits.of(name, labels));
        if families.insert(name, Family::Gauges(made.clone())).is_none() {
            self.inner.registry.lock().register(name, stability.help(help), made.family());
        }
        made
    }

    /// The histograms called `name`, with these upper bounds (`+Inf` is added).
    pub fn histogram(
        &self,
        name: &'static str,
        stability: Stability,
        help: &str,
        labels: &'static [&'static str],
        buckets: impl IntoIterator<Item = f64>,
    ) -> Histograms {
        let mut families = self.inner.families.lock();
        if let Some(Family::Histograms(known)) = families.get(name) {
            return known.clone();
        }
        let made = Histograms::new(labels, self.inner.limits.of(name, labels), buckets);
        if families.insert(name, Family::Histograms(made.clone())).is_none() {
            self.inner.registry.lock().register(name, stability.help(help), made.family());
        }
        made
    }

    /// One counter of fractions, without labels.
    fn float_counter(
        &self,
        name: &'static str,
        stability: Stability,
        help: &str,
    ) -> prometheus_client::metrics::counter::Counter<f64, std::sync::atomic::AtomicU64> {
        let made = prometheus_client::metrics::counter::Counter::default();
        let base = name.strip_suffix("_total").unwrap_or(name);
        self.inner.registry.lock().register(base, stability.help(help), made.clone());
        made
    }

    /// Runs `probe` before every scrape, to set gauges that nobody need keep up to date in between.
    pub fn before_scrape(&self, probe: impl Fn() + Send + Sync + 'static) {
        self.inner.probes.lock().push(Box::new(probe));
    }

    /// The `workqueue_*` metrics of the queue called `name`.
    pub fn queue(&self, name: &str) -> QueueMetrics {
        QueueMetrics::new(self, name)
    }

    /// The `informer_*` metrics of the cache of a resource.
    pub fn informer(&self, resource: Resource) -> InformerMetrics {
        InformerMetrics::new(self, resource)
    }

    /// Serves `process_*`, read at every scrape; `started` is the wall-clock time the process came up.
    pub fn process(&self, started: jiff::Timestamp) {
        process::register(self, started);
    }

    /// States which version of which controller runs: `nonet_build_info`.
    pub fn program(&self, name: &str, version: &str) {
        self.gauge(
            "nonet_build_info",
            Stability::Alpha,
            "A metric with a constant '1' value labeled by the name of the controller, its own version and commit, and the version of Kubernetes whose behaviour it has.",
            &["controller", "version", "commit", "kubernetes_version"],
        )
        .with(&[name, version, crate::version::VERSION.commit, crate::version::VERSION.git_version])
        .set(1.0);
    }

    /// States what runs: `kubernetes_build_info` and `version_info`.
    pub fn build(&self, component: &str) {
        let v = crate::version::VERSION;
        self.gauge(
            "kubernetes_build_info",
            Stability::Beta,
            "A metric with a constant '1' value labeled by major, minor, git version, git commit, git tree state, build date, Go version, and compiler from which Kubernetes was built, and platform on which it is running.",
            &["build_date", "compiler", "git_commit", "git_tree_state", "git_version", "go_version", "major", "minor", "platform"],
        )
        .with(&[
            "",
            "rustc",
            v.commit,
            "",
            v.git_version,
            "",
            v.major,
            v.minor,
            &format!("{}/{}", crate::version::os(), crate::version::arch()),
        ])
        .set(1.0);
        self.gauge(
            "version_info",
            Stability::Alpha,
            "Provides the compatibility version info of the component. The component label is the name of the component, usually kube, but is relevant for aggregated-apiservers.",
            &["binary", "component", "emulation", "min_compat"],
        )
        .with(&[v.minor_version, component, v.minor_version, v.previous_minor_version])
        .set(1.0);
    }

    /// States the position of a feature gate: `kubernetes_feature_enabled`. `stage` is `ALPHA`, `BETA` or empty for GA.
    pub fn feature(&self, name: &str, stage: &str, on: bool) {
        self.gauge(
            "kubernetes_feature_enabled",
            Stability::Beta,
            "This metric records the data about the stage and enablement of a k8s feature.",
            &["name", "stage"],
        )
        .with(&[name, stage])
        .set(f64::from(u8::from(on)));
    }

    /// Everything, as Prometheus text 0.0.4 the way Kubernetes components serve it.
    pub fn prometheus(&self) -> String {
        text::prometheus(&self.encode(), &self.bare_counters(), &self.inner.limits)
    }

    /// Everything, as `OpenMetrics` 1.0.
    pub fn openmetrics(&self) -> String {
        text::openmetrics(&self.encode(), &self.bare_counters(), &self.inner.limits)
    }

    fn encode(&self) -> String {
        for probe in self.inner.probes.lock().iter() {
            probe();
        }
        let mut text = String::new();
        // Writing into a string cannot fail.
        let _ = prometheus_client::encoding::text::encode(&mut text, &self.inner.registry.lock());
        text
    }

    /// Counters whose name does not end in `_total`.
    fn bare_counters(&self) -> Vec<&'static str> {
        let families = self.inner.families.lock();
        families
            .iter()
            .filter(|(name, family)| matches!(family, Family::Counters(_)) && !name.ends_with("_total"))
            .map(|(name, _)| *name)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_second_gets_the_same_family() {
        let metrics = Metrics::new();
        let first = metrics.counter("things_total", Stability::Beta, "Things", &["kind"]);
        let second = metrics.counter("things_total", Stability::Beta, "Things", &["kind"]);
        first.with(&["a"]).inc();
        second.with(&["a"]).inc();
        let text = metrics.prometheus();
        assert_eq!(text.matches("# TYPE things_total counter").count(), 1, "{text}");
        assert!(text.contains("things_total{kind=\"a\"} 2\n"), "{text}");
    }

    #[test]
    fn probes_run_before_each_scrape() {
        let metrics = Metrics::new();
        let gauge = metrics.gauge("level", Stability::Alpha, "Level", &[]).with(&[]);
        metrics.before_scrape(move || {
            gauge.inc();
        });
        assert!(metrics.prometheus().contains("\nlevel 1\n"));
        assert!(metrics.prometheus().contains("\nlevel 2\n"));
    }

    #[test]
    fn gates_and_build_are_stated_like_upstream() {
        let metrics = Metrics::new();
        metrics.build("kube");
        metrics.feature("PodDeletionCost", "BETA", true);
        let text = metrics.prometheus();
        assert!(text.contains("kubernetes_feature_enabled{name=\"PodDeletionCost\",stage=\"BETA\"} 1\n"), "{text}");
        assert!(
            text.contains(
                "version_info{binary=\"1.36\",component=\"kube\",emulation=\"1.36\",min_compat=\"1.35\"} 1\n"
            ),
            "{text}"
        );
        assert!(text.contains("# HELP kubernetes_build_info [BETA] "), "{text}");
    }
}
