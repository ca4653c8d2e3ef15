//! The metrics `rest_client_*` of requests to the API server.

use std::{collections::BTreeMap, time::Duration};

use parking_lot::Mutex;

use super::{AttemptMeasurement, RequestCallbacks};
use crate::metrics::{Counter, Counters, Histogram, Histograms, Metrics, Stability::Alpha, Stability::Beta};

const DURATIONS: [f64; 12] = [0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0];
const SIZES: [f64; 11] =
    [64.0, 256.0, 512.0, 1024.0, 4096.0, 16384.0, 65536.0, 262_144.0, 1_048_576.0, 4_194_304.0, 16_777_216.0];

/// [`RequestCallbacks`] that counts and measures the requests to one API server.
///
/// Upstream: `component-base/metrics/prometheus/restclient`.
pub struct RequestMetrics {
    host: String,
    total: Counters,
    retries: Counters,
    duration: Histograms,
    throttled: Histograms,
    sent: Histograms,
    received: Histograms,
    /// Metrics by method and status code, kept so that no request allocates memory for its labels.
    handles: Mutex<BTreeMap<(&'static str, Option<u16>), OutcomeMetrics>>,
    methods: Mutex<BTreeMap<&'static str, MethodMetrics>>,
}

#[derive(Clone)]
struct OutcomeMetrics {
    requests: Counter,
    retries: Option<Counter>,
    sent: Histogram,
}

/// Metrics of one HTTP method that do not depend on the outcome of a request.
#[derive(Clone)]
struct MethodMetrics {
    duration: Histogram,
    throttled: Histogram,
    received: Histogram,
}

impl RequestMetrics {
    /// Registers the metrics. `host` is the value of their label `host`, such as `10.96.0.1:443`.
    pub fn new(metrics: &Metrics, host: &str) -> Self {
        let histogram = |name, stability, help: &str, buckets: &[f64]| {
            metrics.histogram(name, stability, help, &["host", "verb"], buckets.iter().copied())
        };
        let size =
            |name, of| histogram(name, Alpha, &format!("{of} size in bytes. Broken down by verb and host."), &SIZES);
        Self {
            host: host.to_owned(),
            total: metrics.counter(
                "rest_client_requests_total",
                Beta,
                "Number of HTTP requests, partitioned by status code, method, and host.",
                &["code", "host", "method"],
            ),
            retries: metrics.counter(
                "rest_client_request_retries_total",
                Beta,
                "Number of request retries, partitioned by status code, verb, and host.",
                &["code", "host", "verb"],
            ),
            duration: histogram(
                "rest_client_request_duration_seconds",
                Beta,
                "Request latency in seconds. Broken down by verb, and host.",
                &DURATIONS,
            ),
            throttled: histogram(
                "rest_client_rate_limiter_duration_seconds",
                Alpha,
                "Client side rate limiter latency in seconds. Broken down by verb, and host.",
                &DURATIONS,
            ),
            sent: size("rest_client_request_size_bytes", "Request"),
            received: size("rest_client_response_size_bytes", "Response"),
            handles: Mutex::default(),
            methods: Mutex::default(),
        }
    }

    fn handles(&self, method: &str, code: Option<u16>, attempt: u32) -> OutcomeMetrics {
        let method = verb(method);
        let labelled = |counters: &Counters| {
            let code = code.map_or_else(|| "<error>".to_owned(), |code| code.to_string());
            counters.with_label_values(&[&code, &self.host, method])
        };
        let mut handles = self.handles.lock();
        let known = handles.entry((method, code)).or_insert_with(|| OutcomeMetrics {
            requests: labelled(&self.total),
            retries: None,
            sent: self.sent.with_label_values(&[&self.host, method]),
        });
        if attempt > 0 {
            known.retries.get_or_insert_with(|| labelled(&self.retries));
        }
        known.clone()
    }

    fn method_metrics(&self, method: &str) -> MethodMetrics {
        let method = verb(method);
        let mut methods = self.methods.lock();
        let known = methods.entry(method).or_insert_with(|| MethodMetrics {
            duration: self.duration.with_label_values(&[&self.host, method]),
            throttled: self.throttled.with_label_values(&[&self.host, method]),
            received: self.received.with_label_values(&[&self.host, method]),
        });
        known.clone()
    }
}

/// Returns the value of the label `verb`: the method, or `OTHER` for a method that this client does not use.
fn verb(method: &str) -> &'static str {
    ["GET", "POST", "PUT", "PATCH", "DELETE"].into_iter().find(|known| *known == method).unwrap_or("OTHER")
}

impl RequestCallbacks for RequestMetrics {
    fn attempt_finished(&self, measurement: AttemptMeasurement<'_>) {
        let handles = self.handles(measurement.method, measurement.status_code, measurement.attempt_index);
        handles.requests.inc();
        if let Some(retries) = handles.retries.filter(|_| measurement.attempt_index > 0) {
            retries.inc();
        }
        if !measurement.is_watch {
            handles.sent.observe(measurement.sent_bytes as f64);
        }
    }

    fn request_finished(&self, method: &str, took: Duration, received: Option<usize>) {
        let handles = self.method_metrics(method);
        handles.duration.observe(took.as_secs_f64());
        if let Some(received) = received {
            handles.received.observe(received as f64);
        }
    }

    fn attempt_throttled(&self, method: &str, waited: Duration) {
        self.method_metrics(method).throttled.observe(waited.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(method: &str, code: Option<u16>, attempt: u32, watch: bool) -> AttemptMeasurement<'_> {
        AttemptMeasurement { method, status_code: code, sent_bytes: 300, attempt_index: attempt, is_watch: watch }
    }

    #[test]
    fn attempts_are_counted_by_outcome() {
        let metrics = Metrics::new();
        let requests = RequestMetrics::new(&metrics, "10.0.0.1:443");
        requests.attempt_finished(seen("POST", Some(429), 0, false));
        requests.attempt_finished(seen("POST", Some(201), 1, false));
        requests.attempt_finished(seen("GET", None, 0, false));
        requests.attempt_finished(seen("GET", Some(200), 0, true));
        requests.attempt_throttled("POST", Duration::from_secs(1));
        requests.request_finished("POST", Duration::from_secs(3), Some(5000));
        requests.request_finished("GET", Duration::from_millis(30), None);
        let text = metrics.render_prometheus();
        for line in [
            "rest_client_requests_total{code=\"201\",host=\"10.0.0.1:443\",method=\"POST\"} 1",
            "rest_client_requests_total{code=\"429\",host=\"10.0.0.1:443\",method=\"POST\"} 1",
            "rest_client_requests_total{code=\"<error>\",host=\"10.0.0.1:443\",method=\"GET\"} 1",
            "rest_client_request_retries_total{code=\"201\",host=\"10.0.0.1:443\",verb=\"POST\"} 1",
            "rest_client_request_duration_seconds_count{host=\"10.0.0.1:443\",verb=\"GET\"} 1",
            "rest_client_request_duration_seconds_bucket{host=\"10.0.0.1:443\",verb=\"POST\",le=\"2\"} 0",
            "rest_client_request_duration_seconds_bucket{host=\"10.0.0.1:443\",verb=\"POST\",le=\"4\"} 1",
            "rest_client_response_size_bytes_bucket{host=\"10.0.0.1:443\",verb=\"POST\",le=\"4096\"} 0",
            "rest_client_response_size_bytes_bucket{host=\"10.0.0.1:443\",verb=\"POST\",le=\"16384\"} 1",
            "rest_client_response_size_bytes_count{host=\"10.0.0.1:443\",verb=\"GET\"} 0",
            "rest_client_request_size_bytes_bucket{host=\"10.0.0.1:443\",verb=\"POST\",le=\"1.048576e+06\"} 2",
            "rest_client_rate_limiter_duration_seconds_count{host=\"10.0.0.1:443\",verb=\"POST\"} 1",
        ] {
            assert!(text.lines().any(|l| l == line), "{line}\nis not in\n{text}");
        }
    }
}
