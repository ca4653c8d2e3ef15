//! Formats one line of the log.

use std::fmt::{self, Write as _};

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use tracing::{
    Level, Metadata,
    field::{Field, Visit},
};

/// Message, verbosity and values of an event or a span.
#[derive(Clone, Debug, Default)]
pub(super) struct LogFields {
    message: String,
    pub(super) verbosity: Option<u8>,
    values: Vec<(&'static str, Value)>,
}

impl LogFields {
    pub(super) fn add_span_values(&mut self, outer: &Self) {
        self.values.extend(outer.values.iter().cloned());
    }

    fn put(&mut self, field: &Field, value: Value) {
        match field.name() {
            "message" => self.message = value.as_str().map_or_else(|| value.to_string(), str::to_owned),
            "v" => self.verbosity = value.as_u64().and_then(|v| u8::try_from(v).ok()),
            name => match self.values.iter_mut().find(|(known, _)| *known == name) {
                Some((_, known)) => *known = value,
                None => self.values.push((name, value)),
            },
        }
    }
}

impl Visit for LogFields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, json!(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, json!(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, json!(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, json!(value));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, json!(value));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, json!(format!("{value:?}")));
    }
}

pub(super) struct LogLine<'a> {
    pub(super) metadata: &'a Metadata<'a>,
    pub(super) verbosity: u8,
    pub(super) logged_at: Timestamp,
    pub(super) fields: &'a LogFields,
}

impl LogLine<'_> {
    /// Returns path and line number of the source, such as `src/store.rs:7`. The path keeps the last `directories` directories.
    fn caller(&self, directories: usize) -> String {
        let path = self.metadata.file().unwrap_or(self.metadata.target());
        let start = path.rmatch_indices('/').nth(directories).map_or(0, |(at, _)| at + 1);
        format!("{}:{}", &path[start..], self.metadata.line().unwrap_or(0))
    }

    /// Formats the line as klog does: `I0102 03:04:05.123456       1 file.rs:7] "Message" key="value"`.
    pub(super) fn format_text(&self) -> String {
        let severity = match *self.metadata.level() {
            Level::ERROR => 'E',
            Level::WARN => 'W',
            _ => 'I',
        };
        // For example `2026-01-02T03:04:05.123456Z`.
        let at = format!("{:.6}", self.logged_at);
        let (month, day, time) = (&at[5..7], &at[8..10], &at[11..26]);
        let mut out = String::with_capacity(128);
        let _ = write!(out, "{severity}{month}{day} {time} {:>7} {}] ", std::process::id(), self.caller(0));
        push_quoted(&mut out, &self.fields.message);
        for (key, value) in &self.fields.values {
            let _ = write!(out, " {key}=");
            match value {
                Value::String(text) => push_quoted(&mut out, text),
                other => {
                    let _ = write!(out, "{other}");
                }
            }
        }
        out.push('\n');
        out
    }

    /// Formats the line as a JSON object with upstream's keys.
    pub(super) fn format_json(&self) -> String {
        let mut line = Map::new();
        line.insert("ts".to_owned(), json!(self.logged_at.as_microsecond() as f64 / 1000.0));
        line.insert("caller".to_owned(), json!(self.caller(1)));
        line.insert("msg".to_owned(), json!(self.fields.message));
        match *self.metadata.level() {
            Level::ERROR => None,
            Level::WARN => line.insert("severity".to_owned(), json!("warning")),
            _ => line.insert("v".to_owned(), json!(self.verbosity)),
        };
        for (key, value) in &self.fields.values {
            line.insert((*key).to_owned(), value.clone());
        }
        let mut out = Value::Object(line).to_string();
        out.push('\n');
        out
    }
}

/// Appends a text in quotes, as Go's `%q` does, so that a text with line breaks stays on one line.
fn push_quoted(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => {
                let _ = write!(out, "\\x{:02x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}
