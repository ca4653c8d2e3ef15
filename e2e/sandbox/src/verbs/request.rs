//! A request taken apart: path, query and options.

use std::sync::Arc;

use bytes::Bytes;
use http::Method;
use serde_json::Value;

use crate::{
    api::{
        names::{forbidden, quoted, required, unsupported},
        resource::{Key, Resource},
    },
    value::errors::FieldError,
    verbs::{
        accept::Accept,
        status::{ApiError, ApiResult},
    },
};

/// Percent-decodes a part of a URL; `+` is a space in queries.
fn decode(text: &str, plus: bool) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut i = 0;
    while let Some(&c) = bytes.get(i) {
        let hex = |j: usize| bytes.get(j).and_then(|c| (*c as char).to_digit(16));
        match (c, hex(i + 1), hex(i + 2)) {
            (b'%', Some(high), Some(low)) => {
                out.push((high * 16 + low) as u8);
                i += 3;
                continue;
            }
            (b'+', _, _) if plus => out.push(b' '),
            _ => out.push(c),
        }
        i += 1;
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// The decoded segments of a path.
pub(crate) fn segments(path: &str) -> Vec<String> {
    path.split('/').filter(|s| !s.is_empty()).map(|s| decode(s, false)).collect()
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn parse(query: &str) -> Self {
        let pairs = query.split('&').filter(|p| !p.is_empty()).map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(key, true), decode(value, true))
        });
        Self(pairs.collect())
    }

    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(k, _)| k == key).map(|(_, v)| &**v)
    }

    pub(crate) fn text(&self, key: &str) -> &str {
        self.get(key).unwrap_or_default()
    }

    pub(crate) fn all(&self, key: &str) -> Vec<&str> {
        self.0.iter().filter(|(k, _)| k == key).map(|(_, v)| &**v).collect()
    }

    /// Go's reading of a flag: everything but `0`, `false` and nothing at all is true.
    pub(crate) fn flag(&self, key: &str) -> Option<bool> {
        self.get(key).map(|v| !matches!(v.to_ascii_lowercase().as_str(), "0" | "false"))
    }

    pub(crate) fn int(&self, key: &str) -> ApiResult<Option<i64>> {
        match self.get(key) {
            None | Some("") => Ok(None),
            Some(text) => text.parse().map(Some).map_err(|_| {
                ApiError::bad_request(format!("strconv.ParseInt: parsing {}: invalid syntax", quoted(text)))
            }),
        }
    }
}

/// What is done with fields that the server does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    Strict,
    Warn,
    Ignore,
}

/// The common options of writes.
#[derive(Clone, Debug)]
pub(crate) struct WriteOptions {
    pub(crate) dry_run: bool,
    pub(crate) validation: FieldValidation,
    pub(crate) manager: String,
    /// Whether owners of fields are settled already: the write is a server-side apply.
    pub(crate) applied: bool,
}

pub(crate) struct Call {
    pub(crate) resource: Arc<Resource>,
    pub(crate) namespace: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) sub: Option<String>,
    pub(crate) verb: &'static str,
    pub(crate) identity: String,
    pub(crate) agent: String,
    pub(crate) query: Query,
    pub(crate) accept: Accept,
    pub(crate) content_type: String,
    pub(crate) body: Bytes,
    pub(crate) warnings: Vec<String>,
}

impl Call {
    pub(crate) fn name(&self) -> &str {
        self.name.as_deref().unwrap_or_default()
    }

    /// The place of the object.
    pub(crate) fn key(&self) -> Key {
        Key::new(self.namespace.as_deref(), self.name())
    }

    /// The media type of the body, without parameters.
    pub(crate) fn media(&self) -> &str {
        self.content_type.split(';').next().unwrap_or_default().trim()
    }

    /// Reads and checks the options of a write, given as `kind` in messages (`CreateOptions`, ...).
    pub(crate) fn write_options(&self, kind: &str) -> ApiResult<WriteOptions> {
        let mut errors: Vec<FieldError> = Vec::new();
        let dry: Vec<&str> = self.query.all("dryRun");
        let apply = self.media() == "application/apply-patch+yaml" && self.verb == "patch";
        if kind == "PatchOptions" {
            if !apply && self.query.get("force").is_some() {
                errors.push(forbidden("force", "may not be specified for non-apply patch"));
            }
            if apply && self.query.text("fieldManager").is_empty() {
                errors.push(required("fieldManager", "is required for apply patch"));
            }
        }
        let manager = self.query.text("fieldManager");
        if manager.len() > 128 {
            errors.push(FieldError {
                reason: "FieldValueTooLong",
                field: "fieldManager".into(),
                message: "Too long: may not be more than 128 bytes".into(),
                allowed_by: None,
            });
        }
        errors.extend(dry_run_error(&dry));
        let validation = match self.query.text("fieldValidation") {
            "" | "Warn" => FieldValidation::Warn,
            "Strict" => FieldValidation::Strict,
            "Ignore" => FieldValidation::Ignore,
            other => {
                errors.push(unsupported("fieldValidation", &quoted(other), &["", "Ignore", "Strict", "Warn"]));
                FieldValidation::Ignore
            }
        };
        if !errors.is_empty() {
            return Err(ApiError::invalid_options(kind, &errors));
        }
        let manager = if manager.is_empty() { self.agent.split('/').next().unwrap_or_default() } else { manager };
        Ok(WriteOptions { dry_run: !dry.is_empty(), validation, manager: manager.to_owned(), applied: false })
    }
}

fn dry_run_error(dry: &[impl AsRef<str>]) -> Option<FieldError> {
    let list: Vec<String> = dry.iter().map(|mode| quoted(mode.as_ref())).collect();
    let is_wrong = dry.iter().any(|mode| mode.as_ref() != "All");
    is_wrong.then(|| unsupported("dryRun", &format!("[{}]", list.join(",")), &["All"]))
}

/// What a DELETE says about how to delete.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeleteOptions {
    pub(crate) grace: Option<i64>,
    pub(crate) propagation: Option<String>,
    pub(crate) orphan: Option<bool>,
    pub(crate) uid: Option<String>,
    pub(crate) resource_version: Option<String>,
    pub(crate) dry_run: bool,
}

impl DeleteOptions {
    /// From a body, or from the query where there is none.
    pub(crate) fn read(body: Option<&Value>, query: &Query) -> ApiResult<Self> {
        let mut options = Self::default();
        let mut dry: Vec<String> = Vec::new();
        if let Some(body) = body {
            let text = |v: Option<&Value>| v.and_then(Value::as_str).map(str::to_owned);
            options.grace = body.get("gracePeriodSeconds").and_then(Value::as_i64);
            options.propagation = text(body.get("propagationPolicy"));
            options.orphan = body.get("orphanDependents").and_then(Value::as_bool);
            let preconditions = body.get("preconditions");
            options.uid = text(preconditions.and_then(|p| p.get("uid")));
            options.resource_version = text(preconditions.and_then(|p| p.get("resourceVersion")));
            let given = body.get("dryRun").and_then(Value::as_array).into_iter().flatten();
            dry.extend(given.filter_map(|d| d.as_str().map(str::to_owned)));
        } else {
            options.grace = query.int("gracePeriodSeconds")?;
            options.propagation = query.get("propagationPolicy").map(str::to_owned);
            options.orphan = query.flag("orphanDependents");
        }
        // The query may ask for a dry run even where options are in the body.
        dry.extend(query.all("dryRun").into_iter().map(str::to_owned));
        let mut errors = Vec::new();
        if let (Some(policy), Some(_)) = (&options.propagation, options.orphan) {
            errors.push(crate::api::names::invalid(
                "propagationPolicy",
                &quoted(policy),
                "orphanDependents and deletionPropagation cannot be both set",
            ));
        }
        if let Some(policy) = &options.propagation
            && !matches!(&**policy, "Foreground" | "Background" | "Orphan")
        {
            errors.push(unsupported(
                "propagationPolicy",
                &quoted(policy),
                &["Foreground", "Background", "Orphan", "nil"],
            ));
        }
        errors.extend(dry_run_error(&dry));
        if !errors.is_empty() {
            return Err(ApiError::invalid_options("DeleteOptions", &errors));
        }
        options.dry_run = !dry.is_empty();
        Ok(options)
    }
}

/// The RBAC verb of a request for a resource.
pub(crate) fn verb(method: &Method, named: bool, watch: bool) -> Option<&'static str> {
    Some(match (method.as_str(), named) {
        ("GET" | "HEAD", true) => "get",
        ("GET" | "HEAD", false) if watch => "watch",
        ("GET" | "HEAD", false) => "list",
        ("POST", _) => "create",
        ("PUT", _) => "update",
        ("PATCH", _) => "patch",
        ("DELETE", true) => "delete",
        ("DELETE", false) => "deletecollection",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_decoded() {
        let query = Query::parse("labelSelector=a%3Db%2Cc&watch=true&fieldSelector=x+y&limit=");
        assert_eq!(query.text("labelSelector"), "a=b,c");
        assert_eq!(query.text("fieldSelector"), "x y");
        assert_eq!(query.flag("watch"), Some(true));
        assert_eq!(query.int("limit").unwrap(), None);
        assert_eq!(segments("/api/v1//a%2Fb"), ["api", "v1", "a/b"]);
    }
}
