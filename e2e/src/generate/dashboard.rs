//! The dashboard for Grafana, from a table of its panels.

use std::io;

use serde_json::{Value, json};

use super::{File, MARK};

/// Panels in a row of the dashboard.
const COLUMNS: usize = 3;
/// Height of the first row, and of every other one.
const HEIGHTS: (usize, usize) = (6, 8);

/// A panel: a chart over time, or the current values.
struct Panel {
    title: &'static str,
    unit: &'static str,
    /// Each expression with the legend of its series. `OWN` selects the chosen controllers, and `RATE` is the interval of rates.
    targets: &'static [(&'static str, &'static str)],
    kind: &'static str,
    description: Option<&'static str>,
}

impl Panel {
    const fn new(title: &'static str, unit: &'static str, targets: &'static [(&'static str, &'static str)]) -> Self {
        Self { title, unit, targets, kind: "timeseries", description: None }
    }

    const fn with_current_values(self) -> Self {
        Self { kind: "stat", ..self }
    }

    const fn described(self, description: &'static str) -> Self {
        Self { description: Some(description), ..self }
    }

    fn into_json(self, index: usize) -> Value {
        let (row, column) = (index / COLUMNS, index % COLUMNS);
        let (first, other) = HEIGHTS;
        let (y, height) = if row == 0 { (0, first) } else { (first + (row - 1) * other, other) };
        let width = 24 / COLUMNS;
        let target = |(index, (expression, legend)): (u8, &(&str, &str))| {
            let expression = expression.replace("OWN", r#"namespace=~"$namespace", job=~"$job""#);
            let expression = expression.replace("RATE", "$__rate_interval");
            json!({"refId": char::from(b'A' + index).to_string(), "expr": expression, "legendFormat": legend})
        };
        let mut panel = json!({
            "id": index + 1,
            "gridPos": {"x": column * width, "y": y, "w": width, "h": height},
            "type": self.kind,
            "title": self.title,
            "datasource": datasource(),
            "fieldConfig": {"defaults": {"unit": self.unit}, "overrides": []},
            "targets": (0..).zip(self.targets).map(target).collect::<Vec<_>>(),
        });
        if let Some(description) = self.description {
            panel["description"] = description.into();
        }
        panel
    }
}

fn datasource() -> Value {
    json!({"type": "prometheus", "uid": "${datasource}"})
}

/// A variable with the values of a label.
fn variable(name: &str, query: &str) -> Value {
    json!({
        "name": name, "type": "query", "datasource": datasource(), "query": query,
        "includeAll": true, "multi": true, "refresh": 2,
    })
}

/// The dashboard.
pub(super) fn files() -> io::Result<[File; 1]> {
    let mut job = variable("job", r#"label_values(nonet_build_info{namespace=~"$namespace"}, job)"#);
    job["label"] = "controller".into();
    let panels: Vec<Value> = PANELS.into_iter().enumerate().map(|(index, panel)| panel.into_json(index)).collect();
    let dashboard = json!({
        "description": format!("{MARK}."),
        "title": "Nonet",
        "uid": "nonet",
        "tags": ["kubernetes", "nonet"],
        "schemaVersion": 39,
        "editable": true,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [
            {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"},
            variable("namespace", "label_values(nonet_build_info, namespace)"),
            job,
        ]},
        "panels": panels,
    });
    let mut text = serde_json::to_string_pretty(&dashboard)?;
    text.push('\n');
    Ok([File { path: "deploy/components/monitoring/dashboard.json".to_owned(), text }])
}

/// The panels from left to right and from top to bottom.
const PANELS: [Panel; 29] = [
    Panel::new("Leaders", "none", &[("sum by (name) (leader_election_master_status{OWN})", "{{name}}")])
        .with_current_values()
        .described("Exactly one for each controller, independent of the number of replicas."),
    Panel::new("Memory", "bytes", &[("sum by (job) (process_resident_memory_bytes{OWN})", "{{job}}")]),
    Panel::new("CPU", "short", &[("sum by (job) (rate(process_cpu_seconds_total{OWN}[RATE]))", "{{job}}")])
        .described("CPU cores in use."),
    Panel::new("Keys in the queue", "short", &[("sum by (name) (workqueue_depth{OWN})", "{{name}}")]),
    Panel::new(
        "Time in the queue, 99th percentile",
        "s",
        &[(
            "histogram_quantile(0.99, sum by (name, le) (rate(workqueue_queue_duration_seconds_bucket{OWN}[RATE])))",
            "{{name}}",
        )],
    ),
    Panel::new(
        "Duration of syncs, 99th percentile",
        "s",
        &[(
            "histogram_quantile(0.99, sum by (name, le) (rate(workqueue_work_duration_seconds_bucket{OWN}[RATE])))",
            "{{name}}",
        )],
    ),
    Panel::new(
        "Syncs per second",
        "ops",
        &[("sum by (name) (rate(workqueue_work_duration_seconds_count{OWN}[RATE]))", "{{name}}")],
    ),
    Panel::new(
        "Failed syncs per second",
        "ops",
        &[
            ("sum by (name, error) (rate(nonet_sync_errors_total{OWN}[RATE]))", "{{name}}: {{error}}"),
            ("sum by (name) (rate(nonet_sync_panics_total{OWN}[RATE]))", "{{name}}: panic"),
        ],
    ),
    Panel::new(
        "Retries per second",
        "ops",
        &[("sum by (name) (rate(workqueue_retries_total{OWN}[RATE]))", "{{name}}")],
    ),
    Panel::new(
        "Requests per second",
        "reqps",
        &[("sum by (job, method) (rate(rest_client_requests_total{OWN}[RATE]))", "{{job}} {{method}}")],
    ),
    Panel::new(
        "Failed requests per second",
        "reqps",
        &[(r#"sum by (job, code) (rate(rest_client_requests_total{OWN, code!~"2.."}[RATE]))"#, "{{job}} {{code}}")],
    ),
    Panel::new(
        "Duration of requests, 99th percentile",
        "s",
        &[(
            "histogram_quantile(0.99, sum by (job, verb, le) (rate(rest_client_request_duration_seconds_bucket{OWN}[RATE])))",
            "{{job}} {{verb}}",
        )],
    ),
    Panel::new(
        "Finished Jobs per second",
        "ops",
        &[("sum by (result) (rate(job_controller_jobs_finished_total{OWN}[RATE]))", "{{result}}")],
    ),
    Panel::new(
        "Objects in the graph of the garbage collector",
        "short",
        &[("max by (job) (nonet_gc_graph_nodes{OWN})", "objects")],
    ),
    Panel::new(
        "Resources that cannot be watched",
        "none",
        &[("max by (group, resource) (nonet_gc_resource_failing{OWN}) == 1", "{{resource}}.{{group}}")],
    )
    .with_current_values()
    .described("The garbage collector does not collect their dependents."),
    Panel::new(
        "Share of ready nodes by zone",
        "percent",
        &[("min by (zone) (node_collector_zone_health{OWN})", "{{zone}}")],
    ),
    Panel::new(
        "Tainted nodes per second",
        "short",
        &[
            ("sum by (zone) (rate(node_collector_evictions_total{OWN}[5m]))", "{{zone}}"),
            ("max by (job) (nonet_node_tainted_share{OWN})", "share of nodes tainted or waiting"),
        ],
    ),
    Panel::new(
        "Time without a live view of nodes",
        "s",
        &[("max by (job) (nonet_node_monitor_blind_seconds{OWN})", "blind for")],
    ),
    Panel::new(
        "Decisions about a DaemonSet on a node, per second",
        "ops",
        &[("sum by (job) (rate(nonet_daemonset_nodes_decided_total{OWN}[RATE]))", "{{job}}")],
    ),
    Panel::new(
        "DaemonSet syncs skipped because of a stale cache, per second",
        "ops",
        &[("sum by (resource) (rate(daemonset_controller_stale_sync_skips_total{OWN}[RATE]))", "{{resource}}")],
    ),
    Panel::new(
        "Pods deleted from nodes per second",
        "ops",
        &[
            ("sum by (job) (rate(taint_eviction_controller_pod_deletions_total{OWN}[RATE]))", "taint eviction"),
            ("sum by (reason) (rate(pod_gc_collector_force_delete_pods_total{OWN}[RATE]))", "garbage: {{reason}}"),
            (
                "sum by (reason) (rate(pod_gc_collector_force_delete_pod_errors_total{OWN}[RATE]))",
                "refused: {{reason}}",
            ),
        ],
    ),
    Panel::new(
        "Nodes not tainted because of --node-taint-max-share",
        "short",
        &[("max by (job) (nonet_node_taints_held{OWN})", "held")],
    ),
    Panel::new(
        "Failed writes to nodes, in five minutes",
        "short",
        &[("sum by (error) (increase(nonet_node_writes_failed_total{OWN}[5m]))", "{{error}}")],
    ),
    Panel::new(
        "Versions",
        "short",
        &[("count by (job, version, commit) (nonet_build_info{OWN})", "{{job}} {{version}} {{commit}}")],
    )
    .with_current_values(),
    Panel::new("Held controllers", "short", &[("max by (name) (nonet_leader_election_held{OWN})", "{{name}}")]),
    Panel::new(
        "Signs of a second writer",
        "short",
        &[("max by (controller, evidence) (nonet_second_writer{OWN}) > 0", "{{controller}} {{evidence}}")],
    ),
    Panel::new("Replicas that are not ready", "short", &[("count by (job) (nonet_ready{OWN} == 0)", "{{job}}")]),
    Panel::new(
        "Probations in an hour",
        "short",
        &[("sum by (job, result) (increase(nonet_leader_probations_total{OWN}[1h]))", "{{job}} {{result}}")],
    ),
    Panel::new(
        "Time until client certificates expire",
        "s",
        &[(
            "min by (job, instance) (nonet_client_certificate_expiration_timestamp_seconds{OWN}) - time()",
            "{{job}} {{instance}}",
        )],
    )
    .with_current_values(),
];
