//! Tables to print.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::{logic::TableColumn, object::partial, resource::Resource};

pub(super) const NAME_DESCRIPTION: &str = "Name must be unique within a namespace. Is required when creating resources, although some resources may allow a client to request the generation of an appropriate name automatically. Name is primarily intended for creation idempotence and configuration definition. Cannot be updated. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names";
pub(super) const AGE_DESCRIPTION: &str = "CreationTimestamp is a timestamp representing the server time when this object was created. It is not guaranteed to be set in happens-before order across separate operations. Clients may not set this value. It is represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";

/// How much of each object a Table's rows carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IncludeObject {
    Metadata,
    Object,
    None,
}

/// What rows show beside the cells, and the time to which ages refer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rows {
    pub(super) include: IncludeObject,
    pub(super) now: Timestamp,
}

/// A Table; without column definitions if they were sent before.
pub(super) fn table(
    resource: &Resource,
    metadata: &Value,
    objects: impl Iterator<Item = Value>,
    rows: Rows,
    head: bool,
) -> Value {
    let columns = if head { columns(&resource.columns()) } else { Value::Null };
    let shown: Vec<Value> = objects
        .map(|object| {
            let mut row = Map::new();
            row.insert("cells".into(), resource.row(&object, rows.now).into());
            let conditions = resource.row_conditions(&object);
            if !conditions.is_empty() {
                row.insert("conditions".into(), conditions.into());
            }
            match rows.include {
                IncludeObject::Metadata => row.insert("object".into(), partial(&object)),
                IncludeObject::Object => row.insert("object".into(), object),
                IncludeObject::None => row.insert("object".into(), Value::Null),
            };
            Value::Object(row)
        })
        .collect();
    json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata, "columnDefinitions": columns, "rows": shown
    })
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
