//! The dashboard for Grafana, from the list of its panels.

use std::io;

use serde::Deserialize;
use serde_json::{Value, json};

use super::{File, MARK, template};

/// Panels in a row of the dashboard.
const COLUMNS: usize = 3;
/// Height of the first row, and of every other one.
const HEIGHTS: (usize, usize) = (6, 8);

/// A panel of `templates/dashboard.yaml`.
#[derive(Deserialize)]
struct Panel {
    title: String,
    unit: String,
    targets: Vec<(String, String)>,
    #[serde(default = "timeseries")]
    kind: String,
    description: Option<String>,
}

fn timeseries() -> String {
    "timeseries".to_owned()
}

impl Panel {
    fn into_json(self, index: usize) -> Value {
        let (row, column) = (index / COLUMNS, index % COLUMNS);
        let (first, other) = HEIGHTS;
        let (y, height) = if row == 0 { (0, first) } else { (first + (row - 1) * other, other) };
        let width = 24 / COLUMNS;
        let target = |(index, (expression, legend)): (u8, &(String, String))| {
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
            "targets": (0..).zip(&self.targets).map(target).collect::<Vec<_>>(),
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
    let (_, panels) = template!("dashboard.yaml");
    let panels: Vec<Panel> = serde_saphyr::from_str(panels).map_err(io::Error::other)?;
    let panels: Vec<Value> = panels.into_iter().enumerate().map(|(index, panel)| panel.into_json(index)).collect();
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
