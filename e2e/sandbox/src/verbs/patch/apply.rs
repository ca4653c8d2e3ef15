//! Server-side apply.

use serde_json::Value;

use crate::{
    api::{names, resource::Resource},
    value::object::{at, meta, meta_mut, set_meta, text},
    verbs::{
        access::Attributes,
        core::Core,
        decode::yaml,
        managed::{Applied, Conflict},
        request::{Call, WriteOptions},
        status::{ApiError, ApiResult},
        write::{Part, Written, check_url_name, match_namespace},
    },
};

fn refused(mut conflicts: Vec<Conflict>) -> ApiError {
    conflicts.sort_by(|a, b| (&a.manager, &a.field).cmp(&(&b.manager, &b.field)));
    let one = conflicts.len() == 1;
    let mut parts: Vec<String> = Vec::new();
    let mut managers: Vec<&str> = conflicts.iter().map(|c| &*c.manager).collect();
    managers.dedup();
    for manager in managers {
        let fields: Vec<&str> = conflicts.iter().filter(|c| c.manager == manager).map(|c| &*c.field).collect();
        let fields = fields.join("\n- ");
        let text = if one {
            format!("conflict with {manager}: {fields}")
        } else {
            format!("conflicts with {manager}:\n- {fields}")
        };
        parts.push(text);
    }
    let plural = if one { "conflict" } else { "conflicts" };
    let message = format!("Apply failed with {} {plural}: {}", conflicts.len(), parts.join("\n"));
    let mut error = ApiError::new(409, "Conflict", message);
    let causes: Vec<Value> = conflicts
        .iter()
        .map(|c| {
            serde_json::json!({
                "reason": "FieldManagerConflict", "message": format!("conflict with {}", c.manager), "field": c.field
            })
        })
        .collect();
    let mut details = serde_json::Map::new();
    details.insert("causes".into(), causes.into());
    error.details = Some(details);
    error
}

/// Group, version and kind as Go prints them.
fn shown_kind(object: &Value) -> String {
    let api_version = text(object, &["apiVersion"]);
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    format!("{group}/{version}, Kind={}", text(object, &["kind"]))
}

impl Core {
    pub(super) fn apply(&self, call: &mut Call, options: &WriteOptions, part: Part) -> ApiResult<(Written, bool)> {
        let resource = call.resource.clone();
        let object = yaml(&call.body).map_err(|why| ApiError::bad_request(format!("error decoding YAML: {why}")))?;
        let applied = self.check_applied(call, &resource, object)?;
        let force = call.query.flag("force").unwrap_or(false);
        let now = names::time(self.clock.now());
        let manager = call.query.text("fieldManager").to_owned();
        let sub = if part == Part::Status { "status" } else { "" };
        let apply = Applied { resource: &resource, object: &applied, manager: &manager, sub, force, now: &now };
        let options = WriteOptions { applied: true, ..options.clone() };
        let mut warnings = Vec::new();
        let shown = |result: &Value| names::shown(result);
        if let Err(missing) = self.get(call) {
            if part == Part::Status {
                return Err(missing);
            }
            match (meta(&applied, "uid"), meta(&applied, "resourceVersion")) {
                ("", "") => {}
                ("", _) => return Err(ApiError::stale(&resource, call.name())),
                (uid, _) => {
                    let why = format!(
                        "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
                    );
                    return Err(ApiError::conflict(&resource, call.name(), why));
                }
            }
            let (namespace, name) = (call.namespace.as_deref(), call.name.as_deref());
            let (group, plural) = (&resource.group, &resource.plural);
            let create = Attributes { verb: "create", group, resource: plural, sub: None, namespace, name };
            self.access.check(&self.store.lock(), &call.identity, &create)?;
            let new = apply.onto(&Value::Null).map_err(refused)?;
            let new = self.accept_patched(&resource, new, &[], &options, &shown, &mut warnings)?;
            let written = self.create_object(call, new, &options)?;
            return Ok((written, true));
        }
        let written = self.update(call, &options, part, None, |current| {
            let new = apply.onto(current).map_err(refused)?;
            let mut new = self.accept_patched(&resource, new, &[], &options, &shown, &mut warnings)?;
            if meta(&applied, "resourceVersion").is_empty() {
                set_meta(&mut new, "resourceVersion", meta(current, "resourceVersion"));
            }
            Ok(new)
        })?;
        call.warnings.extend(warnings);
        Ok((written, false))
    }

    /// Sees that what is applied is an object of the kind, with the name in the URL.
    fn check_applied(&self, call: &Call, resource: &Resource, mut object: Value) -> ApiResult<Value> {
        if text(&object, &["apiVersion"]) != resource.api_version() || text(&object, &["kind"]) != resource.kind {
            return Err(ApiError::bad_request(format!("invalid object type: {}", shown_kind(&object))));
        }
        if at(&object, &["metadata", "managedFields"]).is_array() {
            return Err(ApiError::bad_request("metadata.managedFields must be nil"));
        }
        let name = format!("({}/{}; {})", meta(&object, "namespace"), meta(&object, "name"), shown_kind(&object));
        if meta(&object, "name").is_empty() {
            set_meta(&mut object, "name", call.name());
        }
        check_url_name(call.name(), &object)?;
        match_namespace(resource, call.namespace.as_deref(), &mut object)?;
        let typed = |why: &str| ApiError::unexplained(format!("failed to create typed patch object {name}: {why}"));
        self.settle(resource, &mut object).map_err(|why| typed(&why))?;
        if !self.setup.keep_unknown_fields && !resource.is_custom() {
            let mut pruned = object.clone();
            if let Some(unknown) = resource.prune(&mut pruned).first() {
                return Err(typed(&format!(".{unknown}: field not declared in schema")));
            }
        }
        // Nulls own nothing, and neither does the empty metadata that encoders leave behind.
        meta_mut(&mut object).retain(|_, value| !value.is_null());
        Ok(object)
    }
}
