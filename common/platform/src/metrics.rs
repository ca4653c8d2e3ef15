//! Registry of the process's metrics, which have upstream's names.
//!
//! A process has one [`Metrics`]. A family is registered when it is first requested by name; later requests return the same
//! family. Callers must bound the label values: never an object's name, and never a value that users can choose freely.

mod family;
mod informer;
mod limits;
mod process;
mod text;
mod workqueue;

use std::{any::Any, collections::BTreeMap, fmt, sync::Arc};

use parking_lot::Mutex;
use prometheus_client::{
    metrics::{
        MetricType, TypedMetric,
        family::{Family, MetricConstructor},
    },
    registry::{Metric, Registry},
};

use self::{
    family::{BucketBounds, LabelNames, MetricFamily},
    text::ExpositionFormat,
};
use crate::{
    object::Resource,
    version::{BuildVersion, KUBERNETES_VERSION},
};

pub use family::{Counters, Gauges, Histograms};
pub use informer::{HiddenObjectMetrics, InformerMetrics};
pub use limits::MetricLimits;
pub use prometheus_client::metrics::histogram::Histogram;
pub use workqueue::QueueMetrics;

/// An integer that only increases.
pub type Counter = prometheus_client::metrics::counter::Counter;
/// A floating-point number that increases and decreases.
pub type Gauge = prometheus_client::metrics::gauge::Gauge<f64, std::sync::atomic::AtomicU64>;

/// Returns `count` upper bounds: `start`, `start × factor`, ... Upstream multiplies step by step, and so does this function,
/// because rounding is visible in the last digits of the bounds.
pub fn exponential_buckets(start: f64, factor: f64, count: usize) -> impl Iterator<Item = f64> {
    std::iter::successors(Some(start), move |last| Some(last * factor)).take(count)
}

/// Kubernetes' level of stability for the name and the labels of a metric. The help text begins with the level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stability {
    /// Name and labels may change at any time.
    Alpha,
    /// Name and labels change only after prior notice.
    Beta,
    /// Name and labels do not change.
    Stable,
    /// No stated level, so the help text has no prefix. For metrics that are not Kubernetes' own (`process_*`).
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

/// Kind, help and labels of a registered metric, with or without samples.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricDescription {
    /// `counter`, `gauge` or `histogram`.
    pub kind: &'static str,
    /// Level of the metric, which tells clients how far they can rely on name and labels.
    pub stability: Stability,
    /// The help text, without the stability in front of it.
    pub help: String,
    /// The names of the labels, in the order in which callers pass the values.
    pub label_names: &'static [&'static str],
}

/// The descriptions of all metrics that were registered, by name.
pub type MetricCatalogue = Arc<Mutex<BTreeMap<&'static str, MetricDescription>>>;

/// Registry of all metrics of a process. Cheap to clone; clones share the metrics.
#[derive(Clone, Default)]
pub struct Metrics {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    limits: MetricLimits,
    registry: Mutex<Registry>,
    /// The registered [`MetricFamily`] values, by the name of the metrics.
    families: Mutex<BTreeMap<&'static str, Box<dyn Any + Send>>>,
    probes: Mutex<Vec<Box<dyn Fn() + Send + Sync>>>,
    /// Receives the description of every metric, for the reference pages.
    catalogue: Option<MetricCatalogue>,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Metrics {
    /// Creates an empty registry that serves every metric, with any label value.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates an empty registry that applies `limits` to metrics and label values.
    pub fn with_limits(limits: MetricLimits) -> Self {
        Self { inner: Arc::new(Inner { limits, ..Inner::default() }) }
    }

    /// Creates an empty registry that adds a description of each registered metric to `catalogue`.
    pub fn with_catalogue(catalogue: MetricCatalogue) -> Self {
        Self { inner: Arc::new(Inner { catalogue: Some(catalogue), ..Inner::default() }) }
    }

    /// Returns the counters named `name`. The name is served exactly as given, with or without `_total` at its end.
    pub fn counter(&self, name: &'static str, stability: Stability, help: &str, labels: LabelNames) -> Counters {
        self.family(name, stability, help, labels, Counter::default)
    }

    /// Returns the gauges named `name`, and registers them on the first call.
    pub fn gauge(&self, name: &'static str, stability: Stability, help: &str, labels: LabelNames) -> Gauges {
        self.family(name, stability, help, labels, Gauge::default)
    }

    /// Returns the histograms named `name` with these upper bounds; `+Inf` is added.
    pub fn histogram(
        &self,
        name: &'static str,
        stability: Stability,
        help: &str,
        labels: LabelNames,
        buckets: impl IntoIterator<Item = f64>,
    ) -> Histograms {
        self.family(name, stability, help, labels, BucketBounds(buckets.into_iter().collect()))
    }

    /// Returns the family named `name`, and registers it on the first call.
    fn family<M, C>(
        &self,
        name: &'static str,
        stability: Stability,
        help: &str,
        labels: LabelNames,
        constructor: C,
    ) -> MetricFamily<M, C>
    where
        M: Metric + TypedMetric + Clone,
        C: MetricConstructor<M> + Clone + fmt::Debug + Send + Sync + 'static,
    {
        let mut families = self.inner.families.lock();
        if let Some(known) = families.get(name).and_then(|known| known.downcast_ref::<MetricFamily<M, C>>()) {
            return known.clone();
        }
        let allowed = self.inner.limits.allowed_label_values(name, labels);
        let made = MetricFamily {
            label_names: labels,
            allowed_label_values: allowed,
            metrics_by_labels: Family::new_with_constructor(constructor),
        };
        if let Some(catalogue) = &self.inner.catalogue {
            let kind = match M::TYPE {
                MetricType::Counter => "counter",
                MetricType::Gauge => "gauge",
                MetricType::Histogram => "histogram",
                MetricType::Info | MetricType::Unknown => "untyped",
            };
            catalogue
                .lock()
                .insert(name, MetricDescription { kind, stability, help: help.to_owned(), label_names: labels });
        }
        if families.insert(name, Box::new(made.clone())).is_none() {
            let base = match M::TYPE {
                // The encoder always appends `_total`. The module `text` removes it where upstream's name lacks it.
                MetricType::Counter => name.strip_suffix("_total").unwrap_or(name),
                _ => name,
            };
            self.inner.registry.lock().register(base, stability.help(help), made.metrics_by_labels.clone());
        }
        made
    }

    /// Registers a function that runs before every scrape. It sets gauges that are not kept up to date between scrapes.
    pub fn run_before_each_scrape(&self, probe: impl Fn() + Send + Sync + 'static) {
        self.inner.probes.lock().push(Box::new(probe));
    }

    /// Returns the `workqueue_*` metrics with the label `name`.
    pub fn queue_metrics(&self, name: &str) -> QueueMetrics {
        QueueMetrics::new(self, name)
    }

    /// Returns the `informer_*` metrics for the cache of a resource.
    pub fn informer_metrics(&self, resource: &Resource) -> InformerMetrics {
        InformerMetrics::new(self, resource)
    }

    /// Serves `process_*`, read at every scrape. `started` is the wall-clock time at which the process started.
    pub fn serve_process_metrics(&self, started: jiff::Timestamp) {
        process::register_process_metrics(self, started);
    }

    /// Serves `nonet_build_info`, with the name and version of the controller that runs.
    pub fn serve_nonet_build_info(&self, name: &str, version: &str) {
        let help = "A metric with a constant '1' value labeled by the name of the controller, its own version and commit, and the version of Kubernetes whose behaviour it implements.";
        let labels = &["controller", "version", "commit", "kubernetes_version"];
        let info = self.gauge("nonet_build_info", Stability::Alpha, help, labels);
        info.with_label_values(&[name, version, KUBERNETES_VERSION.commit, KUBERNETES_VERSION.git_version]).set(1.0);
    }

    /// Serves `version_info`, with the implemented version of Kubernetes.
    ///
    /// Upstream's `kubernetes_build_info` is left out: it names the version of the cluster's own components, and alerts compare it
    /// over all of them. Nonet implements one version beside servers of several; `nonet_build_info` has it.
    pub fn serve_version_info(&self, component: &str) {
        let BuildVersion { major_and_minor: minor_version, previous_major_and_minor: previous_minor_version, .. } =
            KUBERNETES_VERSION;
        let help = "Provides the compatibility version info of the component. The component label is the name of the component, usually kube, but is relevant for aggregated-apiservers.";
        let labels = &["binary", "component", "emulation", "min_compat"];
        let info = self.gauge("version_info", Stability::Alpha, help, labels);
        info.with_label_values(&[minor_version, component, minor_version, previous_minor_version]).set(1.0);
    }

    /// Serves `kubernetes_feature_enabled` for a feature gate. `stage` is `ALPHA`, `BETA`, or empty if the gate is locked.
    pub fn serve_feature_gate(&self, name: &str, stage: &str, on: bool) {
        let help = "This metric records the data about the stage and enablement of a k8s feature.";
        let enabled = self.gauge("kubernetes_feature_enabled", Stability::Beta, help, &["name", "stage"]);
        enabled.with_label_values(&[name, stage]).set(f64::from(u8::from(on)));
    }

    /// Renders all metrics as Prometheus text 0.0.4, formatted like that of Kubernetes components.
    pub fn render_prometheus(&self) -> String {
        self.text(ExpositionFormat::Prometheus)
    }

    /// Renders all metrics as `OpenMetrics` 1.0.
    pub fn render_openmetrics(&self) -> String {
        self.text(ExpositionFormat::OpenMetrics)
    }

    fn text(&self, format: ExpositionFormat) -> String {
        self.inner.probes.lock().iter().for_each(|probe| probe());
        let mut encoded = String::new();
        // Writing to a string cannot fail.
        let _ = prometheus_client::encoding::text::encode(&mut encoded, &self.inner.registry.lock());
        let families = self.inner.families.lock();
        let counters = families.iter().filter(|(_, family)| family.is::<Counters>()).map(|(name, _)| *name);
        let bare_counters: Vec<&str> = counters.filter(|name| !name.ends_with("_total")).collect();
        drop(families);
        text::render(&encoded, &bare_counters, &self.inner.limits, format)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_request_returns_the_same_family() {
        let metrics = Metrics::new();
        let first = metrics.counter("things_total", Stability::Beta, "Things", &["kind"]);
        let second = metrics.counter("things_total", Stability::Beta, "Things", &["kind"]);
        first.with_label_values(&["a"]).inc();
        second.with_label_values(&["a"]).inc();
        let text = metrics.render_prometheus();
        assert_eq!(text.matches("# TYPE things_total counter").count(), 1, "{text}");
        assert!(text.contains("things_total{kind=\"a\"} 2\n"), "{text}");
    }

    #[test]
    fn a_catalogue_describes_metrics_without_samples() {
        let catalogue = MetricCatalogue::default();
        let metrics = Metrics::with_catalogue(Arc::clone(&catalogue));
        metrics.counter("things_total", Stability::Beta, "Things", &["kind"]);
        metrics.histogram("age_seconds", Stability::Alpha, "Age", &[], [1.0]);
        let known = catalogue.lock();
        let things = MetricDescription {
            kind: "counter",
            stability: Stability::Beta,
            help: "Things".to_owned(),
            label_names: &["kind"],
        };
        assert_eq!(known.get("things_total"), Some(&things));
        assert_eq!(known.get("age_seconds").map(|age| age.kind), Some("histogram"));
    }

    #[test]
    fn probes_run_before_each_scrape() {
        let metrics = Metrics::new();
        let gauge = metrics.gauge("level", Stability::Alpha, "Level", &[]).with_label_values(&[]);
        metrics.run_before_each_scrape(move || {
            gauge.inc();
        });
        assert!(metrics.render_prometheus().contains("\nlevel 1\n"));
        assert!(metrics.render_prometheus().contains("\nlevel 2\n"));
    }

    #[test]
    fn feature_gates_and_the_implemented_version_are_served_like_upstream() {
        let metrics = Metrics::new();
        metrics.serve_version_info("kube");
        metrics.serve_feature_gate("PodDeletionCost", "BETA", true);
        let text = metrics.render_prometheus();
        assert!(text.contains("kubernetes_feature_enabled{name=\"PodDeletionCost\",stage=\"BETA\"} 1\n"), "{text}");
        assert!(
            text.contains(
                "version_info{binary=\"1.36\",component=\"kube\",emulation=\"1.36\",min_compat=\"1.35\"} 1\n"
            ),
            "{text}"
        );
        // Alerts that compare the versions of all components would fire beside every other version of the API server.
        assert!(!text.contains("kubernetes_build_info"), "{text}");
    }
}
