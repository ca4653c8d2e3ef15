//! The dashboard for Grafana, from `templates/dashboard.yaml`.

use std::io;

use serde::Deserialize;
use serde_json::{Value, json};

use super::{File, MARK, template};

/// Width of the dashboard in units of its grid.
const WIDTH: usize = 24;
/// Panels beside each other.
const COLUMNS: usize = 3;
/// Height of a panel in units of the grid. The title of a row has the height 1.
const HEIGHT: usize = 8;

/// The selector of the chosen controllers.
const OWN: &str = r#"cluster="$cluster", namespace=~"$namespace", job=~"$job""#;

#[derive(Deserialize)]
struct Row {
    title: String,
    panels: Vec<Panel>,
}

#[derive(Deserialize)]
struct Panel {
    title: String,
    unit: String,
    targets: Vec<(String, String)>,
    kind: Option<String>,
    description: Option<String>,
}

impl Panel {
    fn into_json(self) -> Value {
        let target = |(index, (expression, legend)): (u8, &(String, String))| {
            let expression = expression.replace("OWN", OWN).replace("RATE", "$__rate_interval");
            json!({"refId": char::from(b'A' + index).to_string(), "expr": expression, "legendFormat": legend})
        };
        let mut panel = json!({
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

/// The titles of the rows, each before its panels, with their places in the grid.
fn placed(rows: Vec<Row>) -> Vec<Value> {
    let (mut placed, mut top) = (Vec::new(), 0);
    let mut place = |mut panel: Value, x: usize, y: usize, width: usize, height: usize| {
        panel["id"] = (placed.len() + 1).into();
        panel["gridPos"] = json!({"x": x, "y": y, "w": width, "h": height});
        placed.push(panel);
    };
    for row in rows {
        let lines = row.panels.len().div_ceil(COLUMNS);
        place(json!({"type": "row", "title": row.title, "collapsed": false, "panels": []}), 0, top, WIDTH, 1);
        for (index, panel) in row.panels.into_iter().enumerate() {
            let width = WIDTH / COLUMNS;
            place(panel.into_json(), index % COLUMNS * width, top + 1 + index / COLUMNS * HEIGHT, width, HEIGHT);
        }
        top += 1 + lines * HEIGHT;
    }
    placed
}

pub(super) fn files() -> io::Result<[File; 1]> {
    let (_, template) = template!("dashboard.yaml");
    let mut dashboard: Value = serde_saphyr::from_str(template).map_err(io::Error::other)?;
    let rows = dashboard.as_object_mut().and_then(|dashboard| dashboard.remove("rows")).unwrap_or_default();
    dashboard["panels"] = placed(serde_json::from_value(rows)?).into();
    dashboard["description"] = format!("{MARK}.").into();
    let text = serde_json::to_string_pretty(&dashboard)? + "\n";
    Ok([File { path: "deploy/components/monitoring/dashboard.json".to_owned(), text }])
}
