//! Subresources other than status and finalize: scale, binding, eviction, log.

use http::StatusCode;
use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::{
    api::{
        custom::follow,
        logic::MergeList,
        names::{self, quoted},
        resource::{Key, Resource},
    },
    store::{Store, Version},
    value::{
        object::{as_map, at, child, is_deleting, meta, set_meta, text},
        selector::{LabelSelector, labels_of},
    },
    verbs::{
        core::Core,
        decode::parse_body,
        delete::Deleting,
        patch,
        read::find,
        reply::Reply,
        request::{Call, DeleteOptions},
        status::{ApiError, ApiResult},
        write::{Part, Written, author, check_url_name},
    },
};

fn done() -> Reply {
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    Reply::Object(StatusCode::CREATED, status)
}

fn read(call: &Call) -> ApiResult<Value> {
    let parsed = parse_body(call, &mut Vec::new())?;
    parsed.map_err(|why| ApiError::bad_request(format!("couldn't get version/kind; json parse error: {why}")))
}

fn scale_of(resource: &Resource, object: &Value) -> Value {
    let (wanted, current, selector) = if let Some(paths) = resource.scale_paths() {
        let number = |path: &[String]| follow(object, path).as_i64().unwrap_or(0);
        let selector = paths.selector.as_ref().and_then(|p| follow(object, p).as_str().map(str::to_owned));
        (number(&paths.spec_replicas), number(&paths.status_replicas), selector.unwrap_or_default())
    } else {
        let selector = at(object, &["spec", "selector"]);
        let selector = if resource.is("", "replicationcontrollers") {
            LabelSelector::from_map(selector)
        } else {
            LabelSelector::from_object(selector).unwrap_or_default()
        };
        let number = |path: &[&str]| at(object, path).as_i64().unwrap_or(0);
        (number(&["spec", "replicas"]), number(&["status", "replicas"]), selector.to_string())
    };
    let mut metadata = serde_json::Map::new();
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        let value = at(object, &["metadata", field]);
        if !value.is_null() {
            metadata.insert(field.into(), value.clone());
        }
    }
    let mut spec = serde_json::Map::new();
    if wanted != 0 {
        spec.insert("replicas".into(), wanted.into());
    }
    let mut status = json!({"replicas": current});
    if !selector.is_empty() {
        status["selector"] = selector.into();
    }
    json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": spec, "status": status})
}

fn set_replicas(resource: &Resource, object: &mut Value, replicas: i64) {
    match resource.scale_paths() {
        Some(paths) => {
            let mut slot = object;
            for step in &paths.spec_replicas {
                slot = as_map(slot).entry(step.clone()).or_insert(Value::Null);
            }
            *slot = replicas.into();
        }
        None => {
            child(object, "spec").insert("replicas".into(), replicas.into());
        }
    }
}

impl Core {
    /// Handles a request for a subresource other than status and finalize.
    pub(crate) fn subresource(&self, call: &mut Call, sub: &str) -> ApiResult<Reply> {
        match (sub, call.verb) {
            ("scale", "get") => {
                let version = self.get(call)?;
                Ok(Reply::Object(StatusCode::OK, scale_of(&call.resource, &version.value())))
            }
            ("scale", _) => self.scale(call),
            ("binding", "create") => self.bind(call),
            ("eviction", "create") => self.evict(call),
            ("token", "create") => self.issue_token(call),
            ("log", "get") => {
                self.get(call)?;
                Ok(Reply::Text(StatusCode::OK, String::new()))
            }
            _ => Err(ApiError::new(501, "NotImplemented", format!("the sandbox does not serve {sub}"))),
        }
    }

    fn scale(&self, call: &mut Call) -> ApiResult<Reply> {
        let options = call.write_options(if call.verb == "patch" { "PatchOptions" } else { "UpdateOptions" })?;
        let resource = call.resource.clone();
        self.get(call)?;
        let patch = match call.verb {
            "patch" => Some(patch::parse_patch(call)?),
            _ => None,
        };
        let given = if patch.is_none() { Some(read(call)?) } else { None };
        let written = self.update(call, &options, Part::Main, None, |current| {
            let scale = match (&patch, given) {
                (Some(patch), _) => patch.apply_with(&scale_of(&resource, current), &|_| None::<MergeList>)?,
                (None, given) => given.unwrap_or_default(),
            };
            check_scale(call.name(), &scale)?;
            let mut new = current.clone();
            let replicas = at(&scale, &["spec", "replicas"]);
            let replicas = match replicas {
                Value::Null => 0,
                other => other.as_i64().ok_or_else(|| {
                    ApiError::bad_request(
                        "Scale in version \"v1\" cannot be handled as a Scale: spec.replicas must be a number",
                    )
                })?,
            };
            if replicas < 0 {
                let why = "must be greater than or equal to 0";
                let error = names::invalid("spec.replicas", &replicas.to_string(), why);
                return Err(ApiError::invalid_as("autoscaling", "Scale", call.name(), &[error]));
            }
            set_replicas(&resource, &mut new, replicas);
            let version = meta(&scale, "resourceVersion");
            if !version.is_empty() {
                set_meta(&mut new, "resourceVersion", version);
            }
            let uid = meta(&scale, "uid");
            if !uid.is_empty() {
                set_meta(&mut new, "uid", uid);
            }
            Ok(new)
        })?;
        let scale = match written {
            Written::Stored(version) => scale_of(&resource, &version.value()),
            Written::Loose(object) => scale_of(&resource, &object),
        };
        Ok(Reply::Object(StatusCode::OK, scale))
    }

    fn issue_token(&self, call: &Call) -> ApiResult<Reply> {
        self.get(call)?;
        let mut request = read(call)?;
        let seconds = at(&request, &["spec", "expirationSeconds"]).as_i64().unwrap_or(3600);
        let namespace = call.namespace.as_deref().unwrap_or_default();
        let expires = self.now().saturating_add(SignedDuration::from_secs(seconds)).unwrap_or(self.now());
        let token = self.token(&format!("system:serviceaccount:{namespace}:{}", call.name()));
        as_map(&mut request)
            .insert("status".into(), json!({"token": token, "expirationTimestamp": names::time(expires)}));
        Ok(Reply::Object(StatusCode::CREATED, request))
    }

    fn bind(&self, call: &mut Call) -> ApiResult<Reply> {
        let options = call.write_options("CreateOptions")?;
        let binding = read(call)?;
        let name = meta(&binding, "name");
        if !name.is_empty() {
            check_url_name(call.name(), &binding)?;
        }
        let target = at(&binding, &["target"]);
        let mut errors = Vec::new();
        if !matches!(text(target, &["kind"]), "" | "Node") {
            let kind = quoted(text(target, &["kind"]));
            errors.push(names::unsupported("target.kind", &kind, &["Node", "<empty>"]));
        }
        let node = text(target, &["name"]).to_owned();
        if node.is_empty() {
            errors.push(names::required("target.name", ""));
        }
        if !errors.is_empty() {
            return Err(ApiError::invalid_as("", "Binding", call.name(), &errors));
        }
        let (key, resource) = (call.key(), call.resource.clone());
        let mut store = self.store.lock();
        let old = find(&store, call)?.value();
        let refuse = |why: String| {
            let message = format!("Operation cannot be fulfilled on pods/binding {}: {why}", quoted(key.name()));
            let mut error = ApiError::new(409, "Conflict", message);
            error.details = json!({"name": key.name(), "kind": "pods/binding"}).as_object().cloned();
            error
        };
        for (field, what) in [("uid", "UID"), ("resourceVersion", "ResourceVersion")] {
            let (wanted, found) = (meta(&binding, field), meta(&old, field));
            if !wanted.is_empty() && wanted != found {
                return Err(refuse(format!(
                    "Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {found}"
                )));
            }
        }
        if is_deleting(&old) {
            return Err(refuse(format!("pod {} is being deleted, cannot be assigned to a host", key.name())));
        }
        let assigned = text(&old, &["spec", "nodeName"]);
        if !assigned.is_empty() {
            return Err(refuse(format!("pod {} is already assigned to node {}", key.name(), quoted(assigned))));
        }
        if at(&old, &["spec", "schedulingGates"]).as_array().is_some_and(|gates| !gates.is_empty()) {
            return Err(refuse(format!("pod {} has non-empty .spec.schedulingGates", key.name())));
        }
        let topology =
            store.get("nodes", &Key::new(None, &node)).map(|n| topology_labels(&n.value())).unwrap_or_default();
        let mut new = Value::clone(&old);
        child(&mut new, "spec").insert("nodeName".into(), node.into());
        for field in ["annotations", "labels"] {
            if let Some(given) = at(&binding, &["metadata", field]).as_object().filter(|m| !m.is_empty()) {
                let slot = as_map(crate::value::object::meta_mut(&mut new).entry(field).or_insert(Value::Null));
                slot.extend(given.clone());
            }
        }
        if !topology.is_empty() {
            as_map(crate::value::object::meta_mut(&mut new).entry("labels").or_insert(Value::Null)).extend(topology);
        }
        set_condition(
            &mut new,
            json!({"type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": names::time(self.now())}),
        );
        if !options.dry_run {
            self.put(&mut store, &author(call), &resource, &key, new);
        }
        Ok(done())
    }

    fn evict(&self, call: &mut Call) -> ApiResult<Reply> {
        let write = call.write_options("CreateOptions")?;
        let eviction = read(call)?;
        if !meta(&eviction, "name").is_empty() && meta(&eviction, "name") != call.name() {
            return Err(ApiError::bad_request("name in URL does not match name in Eviction object"));
        }
        let given = eviction.get("deleteOptions").filter(|v| v.is_object());
        let mut options = DeleteOptions::read(Some(given.unwrap_or(&json!({}))), &call.query)?;
        options.dry_run |= write.dry_run;
        let (key, resource) = (call.key(), call.resource.clone());
        let mut store = self.store.lock();
        let pod = find(&store, call)?;
        let value = pod.value();
        let ignored =
            is_deleting(&value) || matches!(text(&value, &["status", "phase"]), "Succeeded" | "Failed" | "Pending");
        if !ignored {
            self.spend_budget(&mut store, call, &pod, options.dry_run)?;
        }
        let author = author(call);
        if !options.dry_run && !is_deleting(&value) {
            let mut new = Value::clone(&value);
            set_condition(
                &mut new,
                json!({
                    "type": "DisruptionTarget", "status": "True", "lastProbeTime": null,
                    "lastTransitionTime": names::time(self.now()),
                    "reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting"
                }),
            );
            self.put(&mut store, &author, &resource, &key, new);
        }
        // The version the caller knows is no longer the newest.
        options.resource_version = None;
        let deleting = Deleting { core: self, author, resource: &resource, options };
        deleting.delete(&mut store, &key)?;
        Ok(done())
    }

    /// Takes an eviction out of the budget that the Pod belongs to, or refuses it.
    fn spend_budget(&self, store: &mut Store, call: &Call, pod: &Version, dry_run: bool) -> ApiResult<()> {
        let registry = self.registry();
        let Some(budgets) = registry.get("policy", "v1", "poddisruptionbudgets") else { return Ok(()) };
        let object = pod.value();
        let labels = labels_of(&object);
        let all = store.list(&budgets.table, call.namespace.as_deref(), None, None).unwrap_or_default();
        let mut matching = all.into_iter().filter(|(_, budget)| {
            LabelSelector::from_object(at(&budget.value(), &["spec", "selector"])).is_some_and(|s| s.matches(&labels))
        });
        let Some((key, budget)) = matching.next() else { return Ok(()) };
        if matching.next().is_some() {
            return Err(ApiError::unexplained(
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
            ));
        }
        let budget = budget.value();
        let conditions = at(&object, &["status", "conditions"]).as_array();
        let ready = conditions
            .is_some_and(|list| list.iter().any(|c| text(c, &["type"]) == "Ready" && text(c, &["status"]) == "True"));
        let number = |path: &[&str]| at(&budget, path).as_i64().unwrap_or(0);
        let (current, desired) = (number(&["status", "currentHealthy"]), number(&["status", "desiredHealthy"]));
        if !ready {
            let always = text(&budget, &["spec", "unhealthyPodEvictionPolicy"]) == "AlwaysAllow";
            if always || (current >= desired && desired > 0) {
                return Ok(());
            }
        }
        let refuse = |cause: String, retry: u64| {
            let message = "Cannot evict pod as it would violate the pod's disruption budget.";
            let mut error = ApiError::retry_later(429, "TooManyRequests", message, retry);
            error = error.cause("DisruptionBudget", &cause);
            if retry == 0 {
                error.retry_after = None;
                error.details.iter_mut().for_each(|d| drop(d.remove("retryAfterSeconds")));
            }
            error
        };
        if number(&["status", "observedGeneration"]) < number(&["metadata", "generation"]) {
            let cause = format!("The disruption budget {} is still being processed by the server.", key.name());
            return Err(refuse(cause, 10));
        }
        let allowed = number(&["status", "disruptionsAllowed"]);
        if allowed <= 0 {
            let failed = at(&budget, &["status", "conditions"]).as_array().into_iter().flatten().find(|condition| {
                text(condition, &["type"]) == "DisruptionAllowed" && text(condition, &["reason"]) == "SyncFailed"
            });
            let cause = match failed.map(|condition| text(condition, &["message"])) {
                Some(message) => format!(
                    "The disruption budget {} does not allow evicting pods currently because it failed sync: {message}",
                    key.name()
                ),
                None => format!(
                    "The disruption budget {} needs {desired} healthy pods and has {current} currently",
                    key.name()
                ),
            };
            return Err(refuse(cause, 0));
        }
        if !dry_run {
            let mut new = Value::clone(&budget);
            let status = child(&mut new, "status");
            status.insert("disruptionsAllowed".into(), (allowed - 1).into());
            let disrupted = as_map(status.entry("disruptedPods").or_insert(Value::Null));
            disrupted.insert(call.name().to_owned(), names::time(self.now()).into());
            self.put(store, &author(call), budgets, &key, new);
        }
        Ok(())
    }
}

fn check_scale(name: &str, scale: &Value) -> ApiResult<()> {
    match meta(scale, "name") {
        "" => Ok(()),
        _ => check_url_name(name, scale),
    }
}

/// Puts a condition in the place of the one of its type, or at the end.
fn set_condition(pod: &mut Value, condition: Value) {
    let status = child(pod, "status");
    let slot = status.entry("conditions").or_insert_with(|| json!([]));
    if !slot.is_array() {
        *slot = json!([]);
    }
    let Value::Array(list) = slot else { return };
    match list.iter_mut().find(|c| c.get("type") == condition.get("type")) {
        Some(old) => *old = condition,
        None => list.push(condition),
    }
}

/// The labels a Pod takes over from the node it is bound to.
fn topology_labels(node: &Value) -> serde_json::Map<String, Value> {
    ["topology.kubernetes.io/zone", "topology.kubernetes.io/region"]
        .into_iter()
        .filter_map(|key| Some((key.to_owned(), at(node, &["metadata", "labels"]).get(key)?.clone())))
        .collect()
}
