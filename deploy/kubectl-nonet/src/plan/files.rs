//! The objects in the files of `plan -f`.

use serde_json::Value;

use super::is_namespaced;
use crate::facts::to_one_line;

/// Reasons why a file has no usable objects.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// The text cannot be parsed.
    #[error("{file} is neither YAML nor JSON: {why}")]
    Syntax {
        /// Name of the file.
        file: String,
        /// Message of the parser.
        why: String,
    },
    /// A document lacks a field that every object has.
    #[error("{file}: document {document} is not an object of Kubernetes: it has no {missing}")]
    NotAnObject {
        /// Name of the file.
        file: String,
        /// Position of the document in the file, counted from 1.
        document: usize,
        /// The missing field.
        missing: &'static str,
    },
    /// The file has no documents.
    #[error("{0} contains no objects")]
    Empty(String),
}

/// Returns the objects of a file in their order. Items of lists follow in place of the list.
///
/// An object gets `namespace` if its kind needs one and it has none. Fields that only the server sets are removed.
pub fn parse(file: &str, text: &str, namespace: &str) -> Result<Vec<Value>, FileError> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text)
        .map_err(|why| FileError::Syntax { file: file.to_owned(), why: to_one_line(&why.to_string()) })?;
    let mut objects = Vec::new();
    for (index, document) in documents.into_iter().enumerate().filter(|(_, document)| !document.is_null()) {
        let items = match document {
            Value::Object(mut list) if list.get("items").is_some_and(Value::is_array) => {
                list.remove("items").and_then(|items| items.as_array().cloned()).unwrap_or_default()
            }
            object => vec![object],
        };
        for mut object in items {
            if let Some(missing) = missing_field(&object) {
                return Err(FileError::NotAnObject { file: file.to_owned(), document: index + 1, missing });
            }
            clean(&mut object, namespace);
            objects.push(object);
        }
    }
    if objects.is_empty() { Err(FileError::Empty(file.to_owned())) } else { Ok(objects) }
}

fn missing_field(object: &Value) -> Option<&'static str> {
    let fields = [("/apiVersion", "apiVersion"), ("/kind", "kind"), ("/metadata/name", "metadata.name")];
    let is_missing = |path: &str| object.pointer(path).and_then(Value::as_str).is_none_or(str::is_empty);
    fields.into_iter().find(|(path, _)| is_missing(path)).map(|(_, field)| field)
}

fn clean(object: &mut Value, namespace: &str) {
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    let is_namespaced = is_namespaced(object) == Some(true);
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    for field in ["creationTimestamp", "generation", "managedFields", "resourceVersion", "selfLink", "uid"] {
        metadata.remove(field);
    }
    if is_namespaced {
        metadata.entry("namespace").or_insert_with(|| namespace.into());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn documents_and_lists_become_objects_in_order() {
        let text = "\
apiVersion: v1
kind: ConfigMap
metadata: {name: a, uid: u, namespace: own}
---
# a comment
---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Secret, metadata: {name: b}}
- {apiVersion: apps/v1, kind: Deployment, metadata: {name: c}, status: {replicas: 1}}
- {apiVersion: v1, kind: Node, metadata: {name: d}}
";
        let object = |api_version: &str, kind: &str, namespace: &str, name: &str| json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": namespace}});
        let expected = [
            object("v1", "ConfigMap", "own", "a"),
            object("v1", "Secret", "shop", "b"),
            object("apps/v1", "Deployment", "shop", "c"),
            json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "d"}}),
        ];
        assert_eq!(parse("f", text, "shop").unwrap(), expected);
        let json = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "b"}}).to_string();
        assert_eq!(parse("f", &json, "shop").unwrap(), expected[1..2]);
    }

    #[test]
    fn an_error_names_the_file_the_document_and_the_missing_field() {
        let error = |text: &str| parse("new.yaml", text, "shop").unwrap_err().to_string();
        assert_eq!(error("# nothing\n"), "new.yaml contains no objects");
        assert_eq!(error("hello"), "new.yaml: document 1 is not an object of Kubernetes: it has no apiVersion");
        assert_eq!(
            error("{apiVersion: v1, kind: Pod, metadata: {name: a}}\n---\n{apiVersion: v1, kind: Pod, metadata: {}}"),
            "new.yaml: document 2 is not an object of Kubernetes: it has no metadata.name"
        );
        assert!(error("a: [").starts_with("new.yaml is neither YAML nor JSON: "));
    }
}
