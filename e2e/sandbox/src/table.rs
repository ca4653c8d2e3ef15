//! Answers in the form that was asked for: objects, lists, Tables and metadata alone.

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::{
    json,
    object::{as_map, at, partial},
    request::{Call, Form},
    resource::{Resource, TableColumn},
    status::{ApiError, ApiResult},
    store::Version,
};

pub(super) const NAME_DESCRIPTION: &str = "Name must be unique within a namespace. Is required when creating resources, although some resources may allow a client to request the generation of an appropriate name automatically. Name is primarily intended for creation idempotence and configuration definition. Cannot be updated. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names";
pub(super) const AGE_DESCRIPTION: &str = "CreationTimestamp is a timestamp representing the server time when this object was created. It is not guaranteed to be set in happens-before order across separate operations. Clients may not set this value. It is represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";

/// How much of each object a Table's rows carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IncludeObject {
    Metadata,
    Object,
    None,
}

/// How objects are to be represented.
#[derive(Clone, Copy, Debug)]
pub(super) struct Representation {
    pub(super) form: Form,
    pub(super) include: IncludeObject,
    pub(super) now: Timestamp,
}

impl Representation {
    pub(super) fn of(call: &Call, now: Timestamp) -> ApiResult<Self> {
        let include = match call.query.text("includeObject") {
            "" | "Metadata" => IncludeObject::Metadata,
            "Object" => IncludeObject::Object,
            "None" => IncludeObject::None,
            other if call.accept.form == Form::Table => {
                return Err(ApiError::bad_request(format!(
                    "Unable to convert to Table as requested: includeObject: Invalid value: {}: must be 'Metadata', 'Object', 'None', or empty",
                    super::names::quoted(other)
                )));
            }
            _ => IncludeObject::Metadata,
        };
        Ok(Self { form: call.accept.form, include, now })
    }

    /// Whether objects go out as they are stored.
    pub(super) fn is_stored(&self, resource: &Resource) -> bool {
        self.form == Form::Object && !resource.converts()
    }

    /// A stored object as asked for.
    pub(super) fn version(&self, resource: &Resource, version: &Version) -> Bytes {
        if self.is_stored(resource) {
            version.json()
        } else {
            json::body(&self.object(resource, served(resource, version)))
        }
    }

    /// An object of the served form as asked for.
    pub(super) fn object(&self, resource: &Resource, object: Value) -> Value {
        match self.form {
            Form::Object | Form::Discovery | Form::Protobuf => object,
            Form::Partial => partial(&object),
            Form::Table => {
                let meta = json!({"resourceVersion": at(&object, &["metadata", "resourceVersion"])});
                self.table(resource, &meta, std::iter::once(object), true)
            }
        }
    }

    /// A Table; without column definitions if they were sent before.
    pub(super) fn table(
        &self,
        resource: &Resource,
        metadata: &Value,
        objects: impl Iterator<Item = Value>,
        head: bool,
    ) -> Value {
        let columns = if head { columns(&resource.columns()) } else { Value::Null };
        let rows: Vec<Value> = objects
            .map(|object| {
                let mut row = Map::new();
                row.insert("cells".into(), resource.row(&object, self.now).into());
                let conditions = resource.row_conditions(&object);
                if !conditions.is_empty() {
                    row.insert("conditions".into(), conditions.into());
                }
                match self.include {
                    IncludeObject::Metadata => row.insert("object".into(), partial(&object)),
                    IncludeObject::Object => row.insert("object".into(), object),
                    IncludeObject::None => row.insert("object".into(), Value::Null),
                };
                Value::Object(row)
            })
            .collect();
        json!({
            "kind": "Table", "apiVersion": "meta.k8s.io/v1",
            "metadata": metadata, "columnDefinitions": columns, "rows": rows
        })
    }

    /// A list as asked for.
    pub(super) fn list(&self, resource: &Resource, metadata: Map<String, Value>, items: &[&Version]) -> Bytes {
        let mut metadata = Value::Object(metadata);
        match self.form {
            Form::Table => {
                let objects = items.iter().map(|v| served(resource, v));
                json::body(&self.table(resource, &metadata, objects, true))
            }
            Form::Partial => {
                let objects: Vec<Value> = items.iter().map(|v| partial(&v.value())).collect();
                json::body(&json!({
                    "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1",
                    "metadata": metadata, "items": objects
                }))
            }
            Form::Object | Form::Discovery | Form::Protobuf => {
                if resource.is_custom() {
                    as_map(&mut metadata).entry("continue").or_insert_with(|| "".into());
                }
                let size: usize = items.iter().map(|v| v.item().len() + 64).sum();
                let mut out = Vec::with_capacity(size + 256);
                out.extend_from_slice(b"{\"kind\":");
                json::write_str(&mut out, &resource.list_kind);
                out.extend_from_slice(b",\"apiVersion\":");
                json::write_str(&mut out, &resource.api_version());
                out.extend_from_slice(b",\"metadata\":");
                json::write(&mut out, &metadata);
                out.extend_from_slice(b",\"items\":[");
                for (i, version) in items.iter().enumerate() {
                    if i > 0 {
                        out.push(b',');
                    }
                    if resource.converts() {
                        let mut object = served(resource, version);
                        if !resource.is_custom() {
                            let fields = as_map(&mut object);
                            fields.remove("kind");
                            fields.remove("apiVersion");
                        }
                        json::write(&mut out, &object);
                    } else if resource.is_custom() {
                        out.extend_from_slice(&version.json());
                    } else {
                        out.push(b'{');
                        out.extend_from_slice(version.item());
                    }
                }
                out.extend_from_slice(b"]}");
                out.into()
            }
        }
    }
}

fn columns(columns: &[TableColumn]) -> Value {
    columns
        .iter()
        .map(|c| {
            json!({
                "name": c.name, "type": c.kind, "format": c.format,
                "description": c.description, "priority": c.priority
            })
        })
        .collect()
}

/// A stored object in the form its resource serves.
pub(super) fn served(resource: &Resource, version: &Version) -> Value {
    let mut object = Value::clone(&version.value());
    resource.to_served(&mut object);
    object
}
