//! From the body of a request to an object of the right kind: parsing, checking, pruning, defaulting.

use serde_json::Value;

use crate::{
    api::{names, protobuf, raw, resource::Resource},
    value::{
        json,
        object::{as_map, tidy_meta},
    },
    verbs::{
        core::Core,
        request::{Call, FieldValidation},
        status::{ApiError, ApiResult},
    },
};

pub(crate) const ACCEPTED: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";

/// Parses the body of a write.
pub(crate) fn parse_body(call: &Call, duplicates: &mut Vec<String>) -> ApiResult<Result<Value, String>> {
    parse_media(call.media(), &call.body, duplicates)
}

/// Parses a body of the given media type; the inner error is the decoder's.
pub(crate) fn parse_media(media: &str, body: &[u8], duplicates: &mut Vec<String>) -> ApiResult<Result<Value, String>> {
    match media {
        "application/json" => Ok(json::parse(body, duplicates)),
        "application/yaml" => Ok(yaml(body)),
        "application/vnd.kubernetes.protobuf" => Ok(protobuf::parse(body)),
        _ => Err(ApiError::unknown_format(ACCEPTED)),
    }
}

/// Parses YAML; JSON is YAML, and parsed as such for its better words.
pub(crate) fn yaml(text: &[u8]) -> Result<Value, String> {
    let mut ignored = Vec::new();
    if let Ok(value) = json::parse(text, &mut ignored) {
        return Ok(value);
    }
    let text = std::str::from_utf8(text).map_err(|e| e.to_string())?;
    serde_saphyr::from_str::<Value>(text).map_err(|e| e.to_string())
}

/// Name of Go's package for a group's internal types, as conversion errors show it.
fn package(group: &str) -> &str {
    match group {
        "" | "events.k8s.io" => "core",
        group => group.split('.').next().unwrap_or(group),
    }
}

/// The first bytes of a body, as the server shows what it could not recognize.
fn summary(body: &[u8]) -> String {
    let (head, more) = if body.len() > 30 { (&body[..30], " ...") } else { (body, "") };
    match head.first() {
        None => "<empty>".into(),
        Some(b'{') => format!("{}{more}", String::from_utf8_lossy(head)),
        Some(_) => {
            head.iter()
                .flat_map(|b| [b >> 4, b & 15])
                .filter_map(|n| char::from_digit(n.into(), 16))
                .collect::<String>()
                + more
        }
    }
}

impl Core {
    /// Why a body of that kind is not taken for `resource`; nothing if it is of the right kind.
    pub(crate) fn kind_error(&self, resource: &Resource, object: &Value) -> Option<String> {
        let (api_version, kind) = (
            object.get("apiVersion").and_then(Value::as_str).unwrap_or_default(),
            object.get("kind").and_then(Value::as_str).unwrap_or_default(),
        );
        if api_version == resource.api_version() && kind == resource.kind {
            return None;
        }
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        if self.registry().of_kind(api_version, kind).is_some() {
            return Some(format!(
                "converting ({version}.{kind}) to ({}.{}): unknown conversion",
                package(&resource.group),
                resource.kind
            ));
        }
        let shown = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
        Some(format!(
            "no kind {} is registered for version {} in scheme \"pkg/api/legacyscheme/scheme.go:30\"",
            names::quoted(kind),
            names::quoted(&shown)
        ))
    }

    /// Fills in `apiVersion` and `kind` where they are missing, and sees that the object is one of `resource`, with
    /// the right JSON types. The error is the decoder's, without its leading words.
    pub(crate) fn settle(&self, resource: &Resource, object: &mut Value) -> Result<(), String> {
        let fields = as_map(object);
        for (field, value) in [("apiVersion", resource.api_version()), ("kind", resource.kind.clone())] {
            if fields.get(field).and_then(Value::as_str).unwrap_or_default().is_empty() {
                fields.insert(field.into(), value.into());
            }
        }
        match self.kind_error(resource, object) {
            Some(why) => Err(why),
            None => resource.type_error(object).map_or(Ok(()), Err),
        }
    }

    /// Removes fields that the server does not know, unless it is told to keep them; returns the complaints.
    pub(crate) fn prune(&self, resource: &Resource, object: &mut Value, duplicates: &[String]) -> Vec<String> {
        let mut found: Vec<String> =
            duplicates.iter().map(|path| format!("duplicate field {}", names::quoted(path))).collect();
        if !self.setup.keep_unknown_fields {
            let unknown = resource.prune(object);
            found.extend(unknown.iter().map(|path| format!("unknown field {}", names::quoted(path))));
        }
        found
    }

    /// The object in the body of a create or update.
    pub(crate) fn decode(&self, call: &mut Call, resource: &Resource, validation: FieldValidation) -> ApiResult<Value> {
        let mut duplicates = Vec::new();
        let parsed = parse_body(call, &mut duplicates)?;
        let unrecognized = |why: &str| {
            ApiError::bad_request(format!(
                "the object provided is unrecognized (must be of type {}): couldn't get version/kind; json parse error: {why} ({})",
                resource.kind,
                summary(&call.body)
            ))
        };
        let mut object = match parsed {
            Err(why) => return Err(unrecognized(&why)),
            Ok(object) if !object.is_object() => {
                let why = format!(
                    "json: cannot unmarshal {} into Go value of type struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}",
                    json::kind_of(&object)
                );
                return Err(unrecognized(&why));
            }
            Ok(object) => object,
        };
        let version = object.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
        let version = match version.rsplit('/').next().unwrap_or_default() {
            "" => resource.version.clone(),
            version => version.to_owned(),
        };
        let kind = match object.get("kind").and_then(Value::as_str).unwrap_or_default() {
            "" => resource.kind.clone(),
            kind => kind.to_owned(),
        };
        let cannot = |why: &str| {
            ApiError::bad_request(format!(
                "{kind} in version {} cannot be handled as a {}: {why}",
                names::quoted(&version),
                resource.kind
            ))
        };
        self.settle(resource, &mut object).map_err(|why| cannot(&why))?;
        let complaints = self.prune(resource, &mut object, &duplicates);
        if !complaints.is_empty() {
            match validation {
                FieldValidation::Strict => {
                    return Err(cannot(&format!("strict decoding error: {}", complaints.join(", "))));
                }
                FieldValidation::Warn => call.warnings.extend(complaints),
                FieldValidation::Ignore => {}
            }
        }
        resource.default(&mut object);
        tidy_meta(&mut object);
        raw::remember(resource, &mut object, &call.body);
        Ok(object)
    }
}
