//! PATCH: the four kinds of patches.

mod apply;
pub(crate) mod json_patch;
mod merge;
mod strategic;

use serde_json::Value;

use crate::{
    api::{
        logic::MergeList,
        names::{invalid, quoted},
        resource::Resource,
    },
    value::{json, object::tidy_meta},
    verbs::{
        core::Core,
        request::{Call, FieldValidation, WriteOptions},
        status::{ApiError, ApiResult},
        write::{Part, Written, check_url_name, match_namespace},
    },
};

use strategic::MergeError;

pub(crate) enum Patch {
    Json(Vec<json_patch::Operation>),
    Merge(Value),
    Strategic(Value),
}

/// Kind of a patch by its media type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Media {
    Json,
    Merge,
    Strategic,
    Apply,
}

fn media(call: &Call) -> ApiResult<Media> {
    Ok(match call.media() {
        "application/json-patch+json" => Media::Json,
        "application/merge-patch+json" => Media::Merge,
        "application/strategic-merge-patch+json" if call.resource.is_custom() => {
            return Err(ApiError::unknown_format(
                "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
            ));
        }
        "application/strategic-merge-patch+json" => Media::Strategic,
        "application/apply-patch+yaml" => Media::Apply,
        _ => return Err(ApiError::unsupported_media_type()),
    })
}

fn parse(media: Media, call: &Call, duplicates: &mut Vec<String>) -> ApiResult<Patch> {
    let leading = if media == Media::Strategic { "" } else { "error decoding patch: " };
    let bad = |why: &str| ApiError::bad_request(format!("{leading}{why}"));
    let value = json::parse(&call.body, duplicates).map_err(|why| bad(&why))?;
    if media == Media::Json {
        if !value.is_array() {
            return Err(bad("json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"));
        }
        return json_patch::parse(value).map(Patch::Json).map_err(|why| bad(&why));
    }
    if !value.is_object() {
        let kind = json::kind_of(&value);
        return Err(bad(&format!("json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}")));
    }
    Ok(if media == Media::Merge { Patch::Merge(value) } else { Patch::Strategic(value) })
}

/// Parses the patch in a request; server-side apply is none that can be taken apart from its object.
pub(crate) fn parse_patch(call: &Call) -> ApiResult<Patch> {
    match media(call)? {
        Media::Apply => Err(ApiError::unsupported_media_type()),
        media => parse(media, call, &mut Vec::new()),
    }
}

impl Patch {
    fn apply(&self, resource: &Resource, current: &Value) -> ApiResult<Value> {
        self.apply_with(current, &|path| resource.merge_list(path))
    }

    /// Applies the patch to an object whose lists merge as `lists` says.
    pub(crate) fn apply_with(&self, current: &Value, lists: &dyn Fn(&str) -> Option<MergeList>) -> ApiResult<Value> {
        match self {
            Self::Json(operations) => json_patch::apply(operations, current).ok_or_else(ApiError::patch_refused),
            Self::Merge(patch) => {
                let mut new = current.clone();
                merge::merge(&mut new, patch);
                Ok(new)
            }
            Self::Strategic(patch) => strategic::merge(current, patch, lists).map_err(|e| match e {
                MergeError::Malformed(why) => ApiError::bad_request(why),
                MergeError::NoKey(why) => ApiError::unexplained(why),
            }),
        }
    }

    /// What the server shows of a patch whose result is not an object of the kind.
    fn shown(&self, result: &Value) -> String {
        match self {
            Self::Strategic(patch) => quoted(&go_map(patch)),
            _ => quoted(&json::text(result)),
        }
    }
}

/// A value as Go prints maps.
fn go_map(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let fields: Vec<String> = map.iter().map(|(k, v)| format!("{k}:{}", go_map(v))).collect();
            format!("map[{}]", fields.join(" "))
        }
        Value::Array(list) => format!("[{}]", list.iter().map(go_map).collect::<Vec<_>>().join(" ")),
        Value::String(s) => s.clone(),
        Value::Null => "<nil>".into(),
        other => other.to_string(),
    }
}

impl Core {
    /// Handles PATCH on an object or its status. Tells whether the object was created.
    pub(crate) fn patch(&self, call: &mut Call, part: Part) -> ApiResult<(Written, bool)> {
        let media = media(call)?;
        let options = call.write_options("PatchOptions")?;
        if media == Media::Apply {
            return self.apply(call, &options, part);
        }
        let resource = call.resource.clone();
        self.get(call)?;
        let mut duplicates = Vec::new();
        let patch = parse(media, call, &mut duplicates)?;
        let mut warnings = Vec::new();
        let written = self.update(call, &options, part, None, |current| {
            let patched = patch.apply(&resource, current)?;
            let shown = |result: &Value| patch.shown(result);
            let new = self.accept_patched(&resource, patched, &duplicates, &options, &shown, &mut warnings)?;
            check_patched(call, &resource, new)
        })?;
        call.warnings.extend(warnings);
        Ok((written, false))
    }

    /// Sees that what a patch made is an object of the kind; defaults it.
    pub(crate) fn accept_patched(
        &self,
        resource: &Resource,
        mut new: Value,
        duplicates: &[String],
        options: &WriteOptions,
        shown: &dyn Fn(&Value) -> String,
        warnings: &mut Vec<String>,
    ) -> ApiResult<Value> {
        let refuse = |new: &Value, why: &str| ApiError::invalid_as("", "", "", &[invalid("patch", &shown(new), why)]);
        self.settle(resource, &mut new).map_err(|why| refuse(&new, &why))?;
        let before = (options.validation == FieldValidation::Strict).then(|| new.clone());
        let complaints = self.prune(resource, &mut new, duplicates);
        if !complaints.is_empty() {
            match options.validation {
                FieldValidation::Strict => {
                    let why = format!("strict decoding error: {}", complaints.join(", "));
                    return Err(refuse(before.as_ref().unwrap_or(&new), &why));
                }
                FieldValidation::Warn => warnings.extend(complaints),
                FieldValidation::Ignore => {}
            }
        }
        resource.default(&mut new);
        tidy_meta(&mut new);
        Ok(new)
    }
}

/// The result of a patch must still be the object in the URL.
fn check_patched(call: &Call, resource: &Resource, mut new: Value) -> ApiResult<Value> {
    check_url_name(call.name(), &new)?;
    match_namespace(resource, call.namespace.as_deref(), &mut new)?;
    Ok(new)
}
