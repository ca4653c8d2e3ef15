//! One line of the log.

use std::fmt::{self, Write as _};

use jiff::{Timestamp, tz::TimeZone};
use serde_json::{Map, Value, json};
use tracing::{
    Level,
    field::{Field, Visit},
};

/// What an event or a span carries.
#[derive(Clone, Debug, Default)]
pub(super) struct Fields {
    message: String,
    pub(super) verbosity: Option<u8>,
    values: Vec<(&'static str, Value)>,
}

impl Fields {
    /// Adds the fields of an enclosing span.
    pub(super) fn extend(&mut self, outer: &Self) {
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

impl Visit for Fields {
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

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.put(field, json!(value.to_string()));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, json!(format!("{value:?}")));
    }
}

/// What one line says.
pub(super) struct Line<'a> {
    pub(super) level: Level,
    pub(super) file: &'a str,
    pub(super) number: u32,
    pub(super) verbosity: u8,
    pub(super) at: Timestamp,
    pub(super) fields: &'a Fields,
}

impl Line<'_> {
    /// klog: `I0102 03:04:05.123456       1 file.rs:7] "Message" key="value"`.
    pub(super) fn text(&self) -> String {
        let severity = match self.level {
            Level::ERROR => 'E',
            Level::WARN => 'W',
            _ => 'I',
        };
        let at = self.at.to_zoned(TimeZone::UTC);
        let file = self.file.rsplit('/').next().unwrap_or(self.file);
        let mut out = String::with_capacity(128);
        let _ = write!(
            out,
            "{severity}{:02}{:02} {:02}:{:02}:{:02}.{:06} {:>7} {file}:{}] ",
            at.month(),
            at.day(),
            at.hour(),
            at.minute(),
            at.second(),
            at.subsec_nanosecond() / 1000,
            std::process::id(),
            self.number,
        );
        quote(&mut out, &self.fields.message);
        for (key, value) in &self.fields.values {
            let _ = write!(out, " {key}=");
            match value {
                Value::String(text) => quote(&mut out, text),
                other => {
                    let _ = write!(out, "{other}");
                }
            }
        }
        out.push('\n');
        out
    }

    /// One JSON object.
    pub(super) fn json(&self) -> String {
        let mut line = Map::new();
        line.insert("ts".to_owned(), json!(self.at.as_microsecond() as f64 / 1000.0));
        line.insert("caller".to_owned(), json!(format!("{}:{}", last_two(self.file), self.number)));
        line.insert("msg".to_owned(), json!(self.fields.message));
        if self.level == Level::INFO || self.level == Level::DEBUG || self.level == Level::TRACE {
            line.insert("v".to_owned(), json!(self.verbosity));
        } else if self.level == Level::WARN {
            line.insert("severity".to_owned(), json!("warning"));
        }
        for (key, value) in &self.fields.values {
            line.insert((*key).to_owned(), value.clone());
        }
        let mut out = Value::Object(line).to_string();
        out.push('\n');
        out
    }
}

/// `dir/file.rs` of a path.
fn last_two(path: &str) -> &str {
    let mut slashes = path.rmatch_indices('/').map(|(at, _)| at);
    slashes.nth(1).map_or(path, |at| &path[at + 1..])
}

/// Quotes as Go's `%q` does, so that one event is one line whatever it says.
fn quote(out: &mut String, text: &str) {
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
