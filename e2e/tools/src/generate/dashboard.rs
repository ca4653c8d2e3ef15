//! The dashboard for Grafana, from `templates/dashboard.yaml`.

use std::io;

use serde::Deserialize;
use serde_json::{Value, json};

use super::{File, MARK, template};

/// Panels in a row of the dashboard.
const COLUMNS: usize = 3;
/// Height of the first row, and of every other one.
const HEIGHTS: (usize, usize) = (6, 8);

#[derive(Deserialize)]
struct Panel {
    title: String,
    unit: String,
    targets: Vec<(String, String)>,
    kind: Option<String>,
    description: Option<String>,
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
            "type": self.kind.as_deref().unwrap_or("timeseries"),
            "title": self.title,
            "datasource": {"type": "prometheus", "uid": "${datasource}"},
            "fieldConfig": {"defaults": {"unit": self.unit}, "overrides": []},
            "targets": (0..).zip(&self.targets).map(target).collect::<Vec<_>>(),
        });
        if let Some(description) = self.description {
            panel["description"] = description.into();
        }
        panel
    }
}

pub(super) fn files() -> io::Result<[File; 1]> {
    let (_, template) = template!("dashboard.yaml");
    let mut dashboard: Value = serde_saphyr::from_str(template).map_err(io::Error::other)?;
    let panels: Vec<Panel> = serde_json::from_value(dashboard["panels"].take())?;
    let panels = panels.into_iter().enumerate().map(|(index, panel)| panel.into_json(index));
    dashboard["panels"] = panels.collect::<Vec<_>>().into();
    dashboard["description"] = format!("{MARK}.").into();
    let text = serde_json::to_string_pretty(&dashboard)? + "\n";
    Ok([File { path: "deploy/components/monitoring/dashboard.json".to_owned(), text }])
}
