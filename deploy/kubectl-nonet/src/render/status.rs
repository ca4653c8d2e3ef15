//! Renders the status of the controllers as text or JSON.

use serde_json::json;

use super::line;
use crate::check::status::{ControllerStatus, StatusReport};

/// Headers of the columns.
const HEADERS: [&str; 8] = ["CONTROLLER", "NAMESPACE", "STATE", "STANDBYS", "LED FOR", "LEADER", "VERSION", "IMAGE"];

/// Renders a table with a row for each controller, the findings, and how to read what the API server does not know.
pub fn to_text(report: &StatusReport) -> String {
    if let Some(line) = &report.without_nonet {
        return format!("{line}\n");
    }
    let mut text = if report.controllers.is_empty() { String::new() } else { table(&report.controllers) };
    text.extend(report.findings.iter().map(line));
    if let Some(command) = report.controllers.iter().find_map(|controller| controller.port_forward.as_ref()) {
        text += "queues, failing keys, watches and shadow differences are in the answers of each process, which need a token \
            (docs/operating.md, Read the reasons):\n  ";
        text += command;
        text += "\n";
    }
    text
}

/// Renders the report as one JSON object.
pub fn to_json(report: &StatusReport) -> String {
    let object = json!({
        "controllers": report.controllers,
        "findings": report.findings,
        "notInstalled": report.without_nonet,
        "exitCode": report.exit_code(),
    });
    format!("{object:#}\n")
}

fn table(controllers: &[ControllerStatus]) -> String {
    let mut rows = vec![HEADERS.map(str::to_owned)];
    rows.extend(controllers.iter().map(row));
    let mut widths = [0; HEADERS.len()];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.len().max(*width);
        }
    }
    let lines: Vec<String> = rows
        .iter()
        .map(|row| {
            let cells: Vec<String> = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
            format!("{}\n", cells.join("   ").trim_end())
        })
        .collect();
    lines.concat()
}

fn row(controller: &ControllerStatus) -> [String; HEADERS.len()] {
    let or_dash = |cell: &Option<String>| cell.clone().unwrap_or_else(|| "-".to_owned());
    let standbys = controller.ready_standbys.zip(controller.standbys);
    let images = (!controller.images.is_empty()).then(|| controller.images.join(","));
    [
        controller.name.to_owned(),
        controller.namespace.clone(),
        controller.state.text().to_owned(),
        standbys.map_or("unknown".to_owned(), |(ready, all)| format!("{ready}/{all} ready")),
        or_dash(&controller.led_for),
        or_dash(&controller.leader),
        or_dash(&controller.version),
        or_dash(&images),
    ]
}
