//! Who owns which field: `metadata.managedFields`, and server-side apply's merge and conflicts.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::{
    api::resource::Resource,
    value::{
        json,
        object::{as_map, at, meta_mut, set_meta},
    },
};

/// A field, by its steps as `fieldsV1` writes them: `f:name`, `k:{"key":"value"}`, `v:value`.
type Path = Vec<String>;
type Fields = BTreeSet<Path>;

/// Metadata that nobody owns.
const UNOWNED: [&str; 10] = [
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
    "managedFields",
];

#[derive(Clone, Debug, PartialEq, Eq)]
struct Manager {
    name: String,
    operation: &'static str,
    api_version: String,
    sub: String,
    time: String,
    fields: Fields,
}

/// A field that another manager owns with another value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Conflict {
    /// The other manager, as messages show it.
    pub(crate) manager: String,
    /// The field, as messages show it.
    pub(crate) field: String,
}

/// What an apply wants.
pub(crate) struct Applied<'a> {
    pub(crate) resource: &'a Resource,
    pub(crate) object: &'a Value,
    pub(crate) manager: &'a str,
    pub(crate) sub: &'a str,
    pub(crate) force: bool,
    pub(crate) now: &'a str,
}

fn collect(resource: &Resource, value: &Value, place: &str, path: &mut Path, out: &mut Fields) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (key, inner) in map {
                let skipped = match place {
                    "" => matches!(key.as_str(), "apiVersion" | "kind"),
                    "metadata" => UNOWNED.contains(&key.as_str()),
                    _ => false,
                };
                if skipped {
                    continue;
                }
                path.push(format!("f:{key}"));
                let here = if place.is_empty() { key.clone() } else { format!("{place}.{key}") };
                collect(resource, inner, &here, path, out);
                path.pop();
            }
        }
        Value::Array(list) if !list.is_empty() => match resource.merge_list(place) {
            Some(merge) if merge.key.is_empty() => {
                for item in list {
                    path.push(format!("v:{}", json::text(item)));
                    out.insert(path.clone());
                    path.pop();
                }
            }
            Some(merge) if list.iter().all(|item| item.get(merge.key).is_some()) => {
                for item in list {
                    path.push(format!("k:{}", json::text(&json!({merge.key: item[merge.key]}))));
                    out.insert(path.clone());
                    collect(resource, item, place, path, out);
                    path.pop();
                }
            }
            _ => {
                out.insert(path.clone());
            }
        },
        _ => {
            out.insert(path.clone());
        }
    }
}

fn fields_of(resource: &Resource, object: &Value) -> Fields {
    let mut out = Fields::new();
    if object.as_object().is_some_and(|map| !map.is_empty()) {
        collect(resource, object, "", &mut Path::new(), &mut out);
    }
    out.retain(|path| !path.is_empty() && path.as_slice() != ["f:metadata"]);
    out
}

fn item_matches(item: &Value, key: &str) -> bool {
    let wanted: Value = serde_json::from_str(key).unwrap_or_default();
    wanted.as_object().is_some_and(|wanted| wanted.iter().all(|(k, v)| item.get(k) == Some(v)))
}

fn find<'a>(object: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(object, |value, step| match step.split_at_checked(2)? {
        ("f:", key) => value.get(key),
        ("k:", key) => value.as_array()?.iter().find(|item| item_matches(item, key)),
        ("v:", text) => {
            let wanted: Value = serde_json::from_str(text).ok()?;
            value.as_array()?.iter().find(|item| **item == wanted)
        }
        _ => None,
    })
}

/// Whether a field is the key of its element of a list. It is removed with the element.
fn is_key(path: &[String]) -> bool {
    let [.., element, field] = path else { return false };
    let key = element.strip_prefix("k:").and_then(|key| serde_json::from_str::<Value>(key).ok());
    key.zip(field.strip_prefix("f:")).is_some_and(|(key, field)| key.get(field).is_some())
}

/// Removes a field, and the maps that held nothing else.
fn remove(object: &mut Value, path: &[String]) {
    let Some((step, rest)) = path.split_first() else { return };
    let Some((kind, key)) = step.split_at_checked(2) else { return };
    match (kind, object) {
        ("f:", Value::Object(map)) => {
            if rest.is_empty() {
                map.remove(key);
            } else if let Some(inner) = map.get_mut(key) {
                remove(inner, rest);
                let empty = match inner {
                    Value::Object(inner) => inner.is_empty(),
                    Value::Array(inner) => inner.is_empty(),
                    _ => false,
                };
                if empty {
                    map.remove(key);
                }
            }
        }
        ("k:", Value::Array(list)) => {
            if rest.is_empty() {
                list.retain(|item| !item_matches(item, key));
            } else if let Some(inner) = list.iter_mut().find(|item| item_matches(item, key)) {
                remove(inner, rest);
            }
        }
        ("v:", Value::Array(list)) => {
            let gone: Value = serde_json::from_str(key).unwrap_or_default();
            list.retain(|item| *item != gone);
        }
        _ => {}
    }
}

fn to_v1(fields: &Fields) -> Value {
    let mut root = Value::Object(Map::new());
    for path in fields {
        let mut node = &mut root;
        for step in path {
            node = as_map(node).entry(step.clone()).or_insert_with(|| Value::Object(Map::new()));
        }
        // An element of a list is owned itself besides what is in it.
        if path.last().is_some_and(|step| step.starts_with("k:")) {
            as_map(node).insert(".".into(), json!({}));
        }
    }
    root
}

fn from_v1(value: &Value, path: &mut Path, out: &mut Fields) {
    let Value::Object(map) = value else { return };
    if map.is_empty() || map.contains_key(".") {
        out.insert(path.clone());
    }
    for (step, inner) in map.iter().filter(|(step, _)| *step != ".") {
        path.push(step.clone());
        from_v1(inner, path, out);
        path.pop();
    }
}

fn managers_of(object: &Value) -> Vec<Manager> {
    let list = at(object, &["metadata", "managedFields"]).as_array();
    let entries = list.into_iter().flatten().map(|entry| {
        let text = |field: &str| entry.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
        let mut fields = Fields::new();
        from_v1(at(entry, &["fieldsV1"]), &mut Path::new(), &mut fields);
        Manager {
            name: text("manager"),
            operation: if text("operation") == "Apply" { "Apply" } else { "Update" },
            api_version: text("apiVersion"),
            sub: text("subresource"),
            time: text("time"),
            fields,
        }
    });
    entries.collect()
}

fn set_managers(object: &mut Value, mut managers: Vec<Manager>) {
    managers.retain(|m| !m.fields.is_empty());
    managers.sort_by(|a, b| (a.operation, &a.time, &a.name, &a.sub).cmp(&(b.operation, &b.time, &b.name, &b.sub)));
    if managers.is_empty() {
        meta_mut(object).remove("managedFields");
        return;
    }
    let entries: Vec<Value> = managers
        .iter()
        .map(|m| {
            let mut entry = json!({
                "manager": m.name, "operation": m.operation, "apiVersion": m.api_version,
                "time": m.time, "fieldsType": "FieldsV1", "fieldsV1": to_v1(&m.fields)
            });
            if !m.sub.is_empty() {
                entry["subresource"] = m.sub.as_str().into();
            }
            entry
        })
        .collect();
    set_meta(object, "managedFields", entries);
}

/// A field as messages show it: `.spec.containers[name="a"].image`.
fn shown(path: &[String]) -> String {
    let mut out = String::new();
    for step in path {
        match step.split_at_checked(2) {
            Some(("f:", key)) => {
                out.push('.');
                out.push_str(key);
            }
            Some(("k:", key)) => {
                let key: Value = serde_json::from_str(key).unwrap_or_default();
                let parts: Vec<String> =
                    key.as_object().into_iter().flatten().map(|(k, v)| format!("{k}={}", json::text(v))).collect();
                out.extend(["[", &parts.join(","), "]"]);
            }
            Some(("v:", value)) => out.extend(["[=", value, "]"]),
            _ => {}
        }
    }
    out
}

impl Manager {
    fn shown(&self) -> String {
        let mut out = crate::api::names::quoted(&self.name);
        if !self.sub.is_empty() {
            out.extend([" with subresource ", &crate::api::names::quoted(&self.sub)]);
        }
        if self.operation == "Update" {
            out.extend([" using ", &self.api_version]);
        }
        out
    }
}

/// Joins what is applied into what is there.
fn join(resource: &Resource, live: &mut Value, applied: &Value, place: &str) {
    match (live, applied) {
        (Value::Object(live), Value::Object(applied)) => {
            for (key, value) in applied {
                let here = if place.is_empty() { key.clone() } else { format!("{place}.{key}") };
                match live.get_mut(key) {
                    Some(slot) => join(resource, slot, value, &here),
                    None => {
                        live.insert(key.clone(), value.clone());
                    }
                }
            }
        }
        (Value::Array(live), Value::Array(applied)) => match resource.merge_list(place) {
            Some(merge) if merge.key.is_empty() => {
                let new: Vec<Value> = applied.iter().filter(|item| !live.contains(item)).cloned().collect();
                live.extend(new);
            }
            Some(merge) => {
                for item in applied {
                    let same = |other: &&mut Value| {
                        other.get(merge.key).is_some() && other.get(merge.key) == item.get(merge.key)
                    };
                    match live.iter_mut().find(same) {
                        Some(slot) => join(resource, slot, item, place),
                        None => live.push(item.clone()),
                    }
                }
            }
            None => live.clone_from(applied),
        },
        (live, applied) => *live = applied.clone(),
    }
}

impl Applied<'_> {
    /// The object after the apply, owners included; or the conflicts. `live` is null where there is none yet.
    pub(crate) fn onto(&self, live: &Value) -> Result<Value, Vec<Conflict>> {
        let mut managers = managers_of(live);
        if live.is_object() && managers.is_empty() {
            managers.push(Manager {
                name: "before-first-apply".into(),
                operation: "Update",
                api_version: self.resource.api_version(),
                sub: String::new(),
                time: self.now.to_owned(),
                fields: fields_of(self.resource, live),
            });
        }
        let wanted = fields_of(self.resource, self.object);
        let mine = managers.iter().position(|m| m.name == self.manager && m.operation == "Apply" && m.sub == self.sub);
        let before = mine.map(|i| managers.swap_remove(i));
        let mut conflicts: Vec<(Conflict, Path)> = Vec::new();
        for manager in &managers {
            for path in wanted.intersection(&manager.fields) {
                let inner = path.last().is_some_and(|step| !step.starts_with("f:"));
                if !inner && find(live, path) != find(self.object, path) {
                    let conflict = Conflict { manager: manager.shown(), field: shown(path) };
                    conflicts.push((conflict, path.clone()));
                }
            }
        }
        if !conflicts.is_empty() && !self.force {
            return Err(conflicts.into_iter().map(|(conflict, _)| conflict).collect());
        }
        for (_, path) in &conflicts {
            for manager in &mut managers {
                manager.fields.remove(path);
            }
        }
        let mut new = if live.is_object() { live.clone() } else { json!({}) };
        join(self.resource, &mut new, self.object, "");
        let gone = before.iter().flat_map(|m| m.fields.difference(&wanted));
        // Deeper fields first, so that an element goes when nothing in it is owned any more.
        let mut gone: Vec<&Path> = gone.collect();
        gone.sort_by_key(|path| std::cmp::Reverse(path.len()));
        for path in gone.into_iter().filter(|path| !is_key(path)) {
            let owned = |fields: &Fields| fields.iter().any(|other| other.starts_with(path));
            if !owned(&wanted) && !managers.iter().any(|m| owned(&m.fields)) {
                remove(&mut new, path);
            }
        }
        let unchanged = before.as_ref().filter(|m| m.fields == wanted).map(|m| m.time.clone());
        managers.push(Manager {
            name: self.manager.to_owned(),
            operation: "Apply",
            api_version: self.resource.api_version(),
            sub: self.sub.to_owned(),
            time: unchanged.unwrap_or_else(|| self.now.to_owned()),
            fields: wanted,
        });
        set_managers(&mut new, managers);
        Ok(new)
    }
}

/// Keeps book of an update that was no apply: who writes a field owns it.
pub(crate) fn track(resource: &Resource, old: &Value, new: &mut Value, manager: &str, sub: Option<&str>, now: &str) {
    let (had, has) = (fields_of(resource, old), fields_of(resource, new));
    let changed: Fields = has.iter().filter(|path| find(old, path) != find(new, path)).cloned().collect();
    let changed: Fields = changed
        .into_iter()
        .filter(|path| path.last().is_some_and(|step| step.starts_with("f:")) || !had.contains(path))
        .collect();
    let removed: Fields = had.difference(&has).cloned().collect();
    if changed.is_empty() && removed.is_empty() {
        return;
    }
    let sub = sub.unwrap_or_default();
    let mut managers = managers_of(old);
    for m in &mut managers {
        m.fields.retain(|path| !changed.contains(path) && !removed.contains(path));
    }
    if !changed.is_empty() {
        let mine = managers.iter_mut().find(|m| m.name == manager && m.operation == "Update" && m.sub == sub);
        if let Some(mine) = mine {
            mine.fields.extend(changed);
            now.clone_into(&mut mine.time);
        } else {
            managers.push(Manager {
                name: manager.to_owned(),
                operation: "Update",
                api_version: resource.api_version(),
                sub: sub.to_owned(),
                time: now.to_owned(),
                fields: changed,
            });
        }
    }
    set_managers(new, managers);
}

#[cfg(test)]
mod tests {
    use http::Method;
    use serde_json::json;

    use crate::Sandbox;

    #[tokio::test(start_paused = true)]
    async fn an_element_that_is_no_longer_applied_is_removed_with_its_key() {
        let sandbox = Sandbox::builder().build();
        let service =
            |ports| json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": ports}});
        sandbox.apply(service(json!([{"name": "a", "port": 80}, {"name": "b", "port": 81}]))).await.unwrap();
        let applied = sandbox.apply(service(json!([{"name": "a", "port": 80}]))).await.unwrap();
        let left = json!([{"name": "a", "port": 80, "protocol": "TCP", "targetPort": 80}]);
        assert_eq!(applied["spec"]["ports"], left);
    }

    #[tokio::test(start_paused = true)]
    async fn ordinary_writes_are_remembered_and_stand_in_the_way_of_an_apply() {
        let sandbox = Sandbox::builder().managed_fields(true).build();
        let all = "/api/v1/namespaces/default/configmaps";
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"},
            "data": {"a": "1", "b": "1"}});
        let path = format!("{all}?fieldManager=maker");
        sandbox.send(Method::POST, &path, "application/json", Some(&object)).await.unwrap();
        let path = format!("{all}/m?fieldManager=editor");
        let edit = json!({"data": {"b": "2"}});
        sandbox.send(Method::PATCH, &path, "application/merge-patch+json", Some(&edit)).await.unwrap();
        let stored = sandbox.get("configmaps", Some("default"), "m").await.unwrap();
        let entries = stored["metadata"]["managedFields"].as_array().unwrap();
        let of = |manager: &str| entries.iter().find(|e| e["manager"] == manager).unwrap();
        assert!(of("maker")["fieldsV1"]["f:data"].get("f:a").is_some(), "{entries:?}");
        assert!(of("maker")["fieldsV1"]["f:data"].get("f:b").is_none(), "{entries:?}");
        assert_eq!(of("editor")["operation"], "Update");
        assert!(of("editor")["fieldsV1"]["f:data"].get("f:b").is_some(), "{entries:?}");
        let applied = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"b": "3"}});
        let path = format!("{all}/m?fieldManager=applier");
        let refused =
            sandbox.send(Method::PATCH, &path, "application/apply-patch+yaml", Some(&applied)).await.unwrap_err();
        assert_eq!(refused.code, 409);
        assert!(refused.to_string().contains("editor"), "{refused}");
    }
}
