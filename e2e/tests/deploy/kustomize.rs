//! Renders the kustomizations of `deploy/` as `kubectl kustomize` does, where no kubectl is installed.
//!
//! It knows the part of kustomize that `deploy/` uses and refuses everything else by name, so that a new field cannot be ignored
//! silently. Where kubectl is installed, a test compares the two. There is no crate for kustomize, and tests have to run where no
//! kubectl can be installed.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Map, Value, json};

/// A rendered object.
#[derive(Clone)]
struct Object {
    value: Value,
    /// Name before any suffix; targets of patches and references by name still use it.
    original: String,
    /// Suffixes added so far. A reference goes to the object with the suffix of its referrer.
    suffix: String,
}

impl Object {
    fn new(value: Value) -> Self {
        let original = value["metadata"]["name"].as_str().expect("a name").to_owned();
        Self { value, original, suffix: String::new() }
    }

    fn kind(&self) -> &str {
        self.value["kind"].as_str().expect("a kind")
    }

    fn name(&self) -> &str {
        self.value["metadata"]["name"].as_str().expect("a name")
    }

    fn id(&self) -> (String, String) {
        (self.kind().to_owned(), self.name().to_owned())
    }
}

/// What kustomizations have added up to.
#[derive(Default)]
struct Accumulated {
    objects: Vec<Object>,
    /// Where else the namespace stands: kind and path.
    namespaces: Vec<(String, Vec<String>)>,
}

/// Objects by kind and name.
pub(crate) type Rendered = BTreeMap<(String, String), Value>;

/// Reads files once.
#[derive(Default)]
pub(crate) struct Kustomize {
    files: BTreeMap<PathBuf, Vec<Value>>,
}

impl Kustomize {
    /// Renders the kustomization in a directory.
    pub(crate) fn build(&mut self, directory: &Path) -> Rendered {
        let kustomization = self.kustomization(directory);
        self.render(directory, &kustomization)
    }

    /// Renders a kustomization as if it were in a directory.
    pub(crate) fn render(&mut self, directory: &Path, kustomization: &Value) -> Rendered {
        let mut all = Accumulated::default();
        self.accumulate(directory, kustomization, &mut all);
        resolve_names(&mut all.objects);
        let mut out = Rendered::new();
        for object in all.objects {
            let id = object.id();
            assert!(out.insert(id.clone(), object.value).is_none(), "{}: {id:?} twice", directory.display());
        }
        out
    }

    pub(crate) fn kustomization(&mut self, directory: &Path) -> Value {
        let [one] = self.file(&directory.join("kustomization.yaml")) else {
            panic!("{}: not one document", directory.display());
        };
        one.clone()
    }

    fn file(&mut self, path: &Path) -> &[Value] {
        self.files.entry(path.to_owned()).or_insert_with(|| {
            let text = fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            serde_saphyr::from_multiple(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
        })
    }

    fn accumulate(&mut self, directory: &Path, kustomization: &Value, all: &mut Accumulated) {
        let shown = directory.display();
        for key in kustomization.as_object().expect("a map").keys() {
            let known = matches!(
                key.as_str(),
                "apiVersion"
                    | "kind"
                    | "resources"
                    | "components"
                    | "configurations"
                    | "configMapGenerator"
                    | "patches"
                    | "namespace"
                    | "nameSuffix"
                    | "labels"
                    | "images"
                    | "replacements"
            );
            assert!(known, "{shown}: the renderer of this test does not know {key:?}");
        }
        for path in texts(&kustomization["resources"]) {
            let path = clean(&directory.join(path));
            if path.is_dir() {
                let of_resource = self.kustomization(&path);
                assert_eq!(of_resource["kind"], "Kustomization", "{}: not a resource", path.display());
                let mut own = Accumulated::default();
                self.accumulate(&path, &of_resource, &mut own);
                all.objects.append(&mut own.objects);
                all.namespaces.append(&mut own.namespaces);
            } else {
                all.objects.extend(self.file(&path).iter().cloned().map(Object::new));
            }
        }
        for path in texts(&kustomization["components"]) {
            let path = clean(&directory.join(path));
            let component = self.kustomization(&path);
            assert_eq!(component["kind"], "Component", "{}: not a component", path.display());
            self.accumulate(&path, &component, all);
        }
        for path in texts(&kustomization["configurations"]) {
            let configuration = self.file(&directory.join(path))[0].clone();
            for (key, fields) in configuration.as_object().expect("a map") {
                assert_eq!(
                    key, "namespace",
                    "{shown}: the renderer of this test does not know configurations of {key:?}"
                );
                for field in array(fields) {
                    let path = field["path"].as_str().unwrap().split('/').map(str::to_owned).collect();
                    all.namespaces.push((field["kind"].as_str().unwrap().to_owned(), path));
                }
            }
        }
        for generator in array(&kustomization["configMapGenerator"]) {
            all.objects.push(Object::new(config_map(directory, generator)));
        }
        for patch in array(&kustomization["patches"]) {
            self.patch(directory, patch, &mut all.objects);
        }
        if let Some(namespace) = kustomization["namespace"].as_str() {
            for object in &mut all.objects {
                set_namespace(object, namespace, &all.namespaces);
            }
        }
        if let Some(suffix) = kustomization["nameSuffix"].as_str() {
            for object in &mut all.objects {
                object.value["metadata"]["name"] = format!("{}{suffix}", object.name()).into();
                object.suffix.push_str(suffix);
            }
        }
        for labels in array(&kustomization["labels"]) {
            assert_eq!(labels["includeSelectors"], true, "{shown}: labels without selectors");
            for object in &mut all.objects {
                set_labels(object, &labels["pairs"]);
            }
        }
        for image in array(&kustomization["images"]) {
            for object in &mut all.objects {
                set_image(&mut object.value, image);
            }
        }
        for replacement in array(&kustomization["replacements"]) {
            replace(&mut all.objects, replacement);
        }
    }

    fn patch(&mut self, directory: &Path, patch: &Value, objects: &mut Vec<Object>) {
        let body: Value = match (patch["path"].as_str(), patch["patch"].as_str()) {
            (Some(path), None) => self.file(&directory.join(path))[0].clone(),
            (None, Some(text)) => serde_saphyr::from_str(text).expect("a patch"),
            _ => panic!("{}: a patch has either a path or a text", directory.display()),
        };
        let target = if patch["target"].is_null() {
            json!({"kind": body["kind"], "name": body["metadata"]["name"]})
        } else {
            patch["target"].clone()
        };
        for key in target.as_object().unwrap().keys() {
            assert!(matches!(key.as_str(), "kind" | "name" | "labelSelector"), "target by {key}");
        }
        let mut kept = Vec::new();
        for mut object in std::mem::take(objects) {
            if !is_target(&object, &target) {
                kept.push(object);
                continue;
            }
            match &body {
                Value::Array(operations) => {
                    for operation in operations {
                        apply(&mut object.value, operation);
                    }
                    kept.push(object);
                }
                body if body["$patch"] == "delete" => {}
                body => {
                    let mut body = body.clone();
                    // They say what the target is, and do not change it.
                    for identity in ["apiVersion", "kind"] {
                        body.as_object_mut().unwrap().remove(identity);
                    }
                    if let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut) {
                        metadata.remove("name");
                    }
                    merge(&mut object.value, &body);
                    kept.push(object);
                }
            }
        }
        *objects = kept;
    }
}

fn texts(value: &Value) -> impl Iterator<Item = &str> {
    array(value).map(|each| each.as_str().expect("a text"))
}

fn array(value: &Value) -> impl Iterator<Item = &Value> {
    assert!(value.is_null() || value.is_array(), "{value} is not a list");
    value.as_array().into_iter().flatten()
}

/// The path without its `..`.
fn clean(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn is_target(object: &Object, target: &Value) -> bool {
    let of_kind = target["kind"].as_str().is_none_or(|kind| kind == object.kind());
    let named = target["name"].as_str().is_none_or(|name| name == object.name() || name == object.original);
    let labels = &object.value["metadata"]["labels"];
    let labelled = target["labelSelector"].as_str().is_none_or(|selector| {
        selector.split(',').all(|term| {
            let (key, value) = term.split_once('=').unwrap_or_else(|| panic!("{selector}: only a=b is known"));
            assert!(!key.ends_with(['!', '=']), "{selector}: only a=b is known");
            labels[key] == value
        })
    });
    of_kind && named && labelled
}

fn config_map(directory: &Path, generator: &Value) -> Value {
    assert_eq!(generator["options"]["disableNameSuffixHash"], true, "names with hashes are not known");
    let data: Map<String, Value> = texts(&generator["files"])
        .map(|file| {
            let (key, path) = file.split_once('=').expect("key=path");
            (key.to_owned(), fs::read_to_string(directory.join(path)).unwrap().into())
        })
        .collect();
    let metadata = json!({"name": generator["name"], "labels": generator["options"]["labels"]});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
}

/// One operation of a JSON patch.
fn apply(object: &mut Value, operation: &Value) {
    let path = operation["path"].as_str().expect("a path");
    let segments: Vec<String> = path.split('/').skip(1).map(|s| s.replace("~1", "/").replace("~0", "~")).collect();
    let (last, parents) = segments.split_last().expect("a path");
    let mut at = object;
    for segment in parents {
        at = match at {
            Value::Array(items) => &mut items[segment.parse::<usize>().expect("an index")],
            at => at.get_mut(segment).unwrap_or_else(|| panic!("{path}: {segment} is missing")),
        };
    }
    let value = operation["value"].clone();
    match (operation["op"].as_str().expect("an operation"), at) {
        ("add", Value::Array(items)) if last == "-" => items.push(value),
        ("add", Value::Array(items)) => items.insert(last.parse().expect("an index"), value),
        ("add", Value::Object(map)) => {
            map.insert(last.clone(), value);
        }
        ("replace", Value::Object(map)) => {
            assert!(map.insert(last.clone(), value).is_some(), "{path}: nothing to replace");
        }
        ("remove", Value::Object(map)) => {
            assert!(map.remove(last).is_some(), "{path}: nothing to remove");
        }
        (operation, _) => panic!("{operation} {path} is not known"),
    }
}

/// A strategic merge patch of the lists that these manifests have.
fn merge(into: &mut Value, patch: &Value) {
    match (into, patch) {
        (Value::Object(into), Value::Object(patch)) => {
            for (key, value) in patch {
                match into.get_mut(key) {
                    Some(Value::Array(items)) if matches!(key.as_str(), "containers" | "env" | "volumes") => {
                        for each in array(value) {
                            match items.iter_mut().find(|item| item["name"] == each["name"]) {
                                Some(item) => merge(item, each),
                                None => items.push(each.clone()),
                            }
                        }
                    }
                    Some(old) => merge(old, value),
                    None => {
                        into.insert(key.clone(), value.clone());
                    }
                }
            }
        }
        (into, patch) => *into = patch.clone(),
    }
}

fn set_namespace(object: &mut Object, namespace: &str, elsewhere: &[(String, Vec<String>)]) {
    // kustomize does not know that a FlowSchema is of the whole cluster; the API server drops its namespace.
    if !matches!(object.kind(), "ClusterRole" | "ClusterRoleBinding" | "Namespace") {
        object.value["metadata"]["namespace"] = namespace.into();
    }
    for (kind, path) in elsewhere {
        if kind == object.kind() {
            set_at(&mut object.value, path, namespace);
        }
    }
}

/// Sets a field, in every item of lists on the way.
fn set_at(value: &mut Value, path: &[String], text: &str) {
    match (value, path) {
        (Value::Array(items), path) => items.iter_mut().for_each(|item| set_at(item, path, text)),
        (value, []) => *value = text.into(),
        (Value::Object(map), [first, rest @ ..]) => {
            if let Some(inner) = map.get_mut(first) {
                set_at(inner, rest, text);
            }
        }
        _ => {}
    }
}

fn set_labels(object: &mut Object, pairs: &Value) {
    let kind = object.kind().to_owned();
    let mut paths = vec!["/metadata/labels"];
    match kind.as_str() {
        "Deployment" => paths.extend(["/spec/selector/matchLabels", "/spec/template/metadata/labels"]),
        "PodDisruptionBudget" => paths.push("/spec/selector/matchLabels"),
        "NetworkPolicy" => paths.push("/spec/podSelector/matchLabels"),
        "ServiceAccount" | "ClusterRole" | "ClusterRoleBinding" | "Role" | "RoleBinding" => {}
        other => panic!("selectors of {other} are not known"),
    }
    for path in paths {
        let labels = object.value.pointer_mut(path).unwrap_or_else(|| panic!("{kind}: no {path}"));
        merge(labels, pairs);
    }
}

fn set_image(object: &mut Value, image: &Value) {
    let spec = if object["kind"] == "Pod" { "/spec" } else { "/spec/template/spec" };
    let Some(spec) = object.pointer_mut(spec) else { return };
    let Some(containers) = spec.get_mut("containers").and_then(Value::as_array_mut) else { return };
    for container in containers {
        let was = container["image"].as_str().expect("an image");
        let (untagged, tag) = match was.rsplit_once(':') {
            Some((name, tag)) if !tag.contains('/') => (name, tag),
            _ => (was, ""),
        };
        if image["name"] != untagged {
            continue;
        }
        let name = image["newName"].as_str().unwrap_or(untagged);
        let tag = image["newTag"].as_str().unwrap_or(tag);
        let new = match image["digest"].as_str() {
            Some(digest) if image["newTag"].is_null() => format!("{name}@{digest}"),
            Some(digest) => format!("{name}:{tag}@{digest}"),
            None => format!("{name}:{tag}"),
        };
        container["image"] = new.into();
    }
}

/// Copies one field to others, or to a part of them between delimiters.
fn replace(objects: &mut [Object], replacement: &Value) {
    let (source, targets) = (&replacement["source"], array(&replacement["targets"]));
    let found: Vec<&Object> = objects.iter().filter(|object| is_selected(object, source)).collect();
    let [from] = found[..] else { panic!("{source}: {} objects", found.len()) };
    let path = segments(source["fieldPath"].as_str().expect("a path"));
    let value = from.value.pointer(&path).and_then(Value::as_str).unwrap_or_else(|| panic!("{source}: no text"));
    let value = value.to_owned();
    for target in targets {
        for object in objects.iter_mut().filter(|object| is_selected(object, &target["select"])) {
            for path in texts(&target["fieldPaths"]) {
                let field = object.value.pointer_mut(&segments(path)).unwrap_or_else(|| panic!("{path} is missing"));
                let delimiter = target["options"]["delimiter"].as_str().expect("a delimiter");
                let index =
                    target["options"]["index"].as_u64().and_then(|n| usize::try_from(n).ok()).expect("an index");
                let mut parts: Vec<&str> = field.as_str().expect("a text").split(delimiter).collect();
                parts[index] = &value;
                *field = parts.join(delimiter).into();
            }
        }
    }
}

/// Whether an object has the kind and, where it is given, the name of a selector. Selectors use names before any change.
fn is_selected(object: &Object, selector: &Value) -> bool {
    selector["kind"] == object.kind() && (selector["name"].is_null() || selector["name"] == *object.original)
}

/// The JSON pointer of a path with dots.
fn segments(path: &str) -> String {
    format!("/{}", path.replace('.', "/"))
}

/// Names that objects give each other follow suffixes and namespaces.
fn resolve_names(objects: &mut [Object]) {
    let all: Vec<(String, String, String, String, Value)> = objects
        .iter()
        .map(|o| {
            let (kind, name) = o.id();
            (kind, o.original.clone(), o.suffix.clone(), name, o.value["metadata"]["namespace"].clone())
        })
        .collect();
    for object in objects {
        let suffix = object.suffix.clone();
        let find = |kind: &str, name: &Value| {
            all.iter()
                .find(|(k, original, s, ..)| k == kind && name == original && *s == suffix)
                .map(|(_, _, _, name, namespace)| (name.clone(), namespace.clone()))
        };
        if object.value["roleRef"].is_object() {
            let kind = object.value["roleRef"]["kind"].as_str().unwrap().to_owned();
            if let Some((name, _)) = find(&kind, &object.value["roleRef"]["name"]) {
                object.value["roleRef"]["name"] = name.into();
            }
            for subject in object.value["subjects"].as_array_mut().unwrap() {
                if let Some((name, namespace)) = find("ServiceAccount", &subject["name"]) {
                    subject["name"] = name.into();
                    if !namespace.is_null() {
                        subject["namespace"] = namespace;
                    }
                }
            }
        }
        let spec = if object.kind() == "Pod" { "/spec" } else { "/spec/template/spec" };
        if let Some(account) = object.value.pointer_mut(spec).and_then(|spec| spec.get_mut("serviceAccountName"))
            && let Some((name, _)) = find("ServiceAccount", account)
        {
            *account = name.into();
        }
    }
}
