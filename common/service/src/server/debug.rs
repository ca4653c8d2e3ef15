//! Pages below `/debug`: queues, caches, explanations and graphs of the control loops.

use std::fmt::Write as _;

use axum::{
    extract::{Path, Query, State as Extract},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse as _, Response},
    routing::{self, MethodRouter},
};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{ServerState, accept};
use crate::runtime::RunningLoop;

#[derive(Debug, Default, Deserialize)]
pub(super) struct PageParameters {
    key: Option<String>,
    format: Option<String>,
}

/// Returns the handler of a page that shows one value for each loop, as JSON or as text.
pub(super) fn loop_values_page(of: fn(&dyn RunningLoop, Option<&str>) -> Value) -> MethodRouter<ServerState> {
    let answer = move |Extract(state): Extract<ServerState>,
                       Query(parameters): Query<PageParameters>,
                       headers: HeaderMap| async move {
        let key = parameters.key.as_deref().filter(|key| !key.is_empty());
        let loops = state.inner.loops.lock().clone();
        let all: Map<_, _> = loops.iter().map(|(name, running)| ((*name).to_owned(), of(&**running, key))).collect();
        let value = Value::Object(all);
        let is_text = match parameters.format {
            Some(format) => format == "text",
            None => accept(&headers).starts_with("text/"),
        };
        if is_text {
            let mut out = String::new();
            render(&mut out, &value, 0);
            return ([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], out);
        }
        let mut out = serde_json::to_string_pretty(&value).unwrap_or_default();
        out.push('\n');
        ([(header::CONTENT_TYPE, "application/json")], out)
    };
    routing::get(answer)
}

/// Answers with the object graph of the loop in the path, as upstream, or of the first loop with a graph. The format is DOT.
///
/// The query parameter `uid`, which can be repeated, limits the graph to the connections of these objects.
pub(super) async fn graph_page(
    Extract(state): Extract<ServerState>,
    name: Option<Path<String>>,
    Query(query): Query<Vec<(String, String)>>,
) -> Response {
    let uids: Vec<String> = query.into_iter().filter(|(name, _)| name == "uid").map(|(_, uid)| uid).collect();
    let loops = state.inner.loops.lock().clone();
    let mut wanted = loops.iter().filter(|(known, _)| name.as_ref().is_none_or(|Path(name)| name == known));
    match wanted.find_map(|(_, running)| running.debug_graph(&uids)) {
        Some(graph) => ([(header::CONTENT_TYPE, "text/vnd.graphviz")], graph).into_response(),
        None => (StatusCode::NOT_FOUND, "\n").into_response(),
    }
}

pub(super) async fn get_verbosity(Extract(state): Extract<ServerState>) -> String {
    format!("{}\n", state.inner.log.verbosity())
}

pub(super) async fn set_verbosity(Extract(state): Extract<ServerState>, body: String) -> Response {
    match body.trim().parse() {
        Ok(verbosity) => {
            state.inner.log.set_verbosity(verbosity);
            tracing::info!(verbosity, "Changed the log's verbosity");
            format!("successfully set klog.logging.verbosity to {verbosity}\n").into_response()
        }
        Err(_) => (StatusCode::BAD_REQUEST, format!("{:?} is not a verbosity\n", body.trim())).into_response(),
    }
}

/// Writes a value as text, with one line for each field or item, indented below its parent.
fn render(out: &mut String, value: &Value, depth: usize) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let _ = write!(out, "{:indent$}{name}:", "", indent = depth * 2);
                render_after(out, value, depth);
            }
        }
        Value::Array(items) => {
            for item in items {
                let _ = write!(out, "{:indent$}-", "", indent = depth * 2);
                render_after(out, item, depth);
            }
        }
        scalar => {
            let _ = writeln!(out, "{:indent$}{}", "", format_scalar(scalar), indent = depth * 2);
        }
    }
}

fn render_after(out: &mut String, value: &Value, depth: usize) {
    match value {
        Value::Object(fields) if fields.is_empty() => out.push_str(" none\n"),
        Value::Array(items) if items.is_empty() => out.push_str(" none\n"),
        Value::Object(_) | Value::Array(_) => {
            out.push('\n');
            render(out, value, depth + 1);
        }
        scalar => {
            let _ = writeln!(out, " {}", format_scalar(scalar));
        }
    }
}

/// Formats a value that is neither an object nor an array on one line.
fn format_scalar(value: &Value) -> String {
    match value {
        Value::String(text) => text.replace('\n', " "),
        Value::Null => "-".to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn text_is_indented_lines() {
        let mut out = String::new();
        let value =
            json!({"loop": {"depth": 2, "keys": ["a/b", {"key": "c", "why": "two\nlines"}], "late": [], "x": null}});
        render(&mut out, &value, 0);
        assert_eq!(
            out,
            "loop:\n  depth: 2\n  keys:\n    - a/b\n    -\n      key: c\n      why: two lines\n  late: none\n  x: -\n"
        );
    }
}
