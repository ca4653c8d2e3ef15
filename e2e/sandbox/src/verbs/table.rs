//! Tables to print.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::{
    api::{logic::TableColumn, resource::Resource},
    value::object::partial,
};

/// How much of each object a Table's rows carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IncludeObject {
    Metadata,
    Object,
    None,
}

/// What rows show beside the cells, and the time to which ages refer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rows {
    pub(crate) include: IncludeObject,
    pub(crate) now: Timestamp,
}

/// A Table; without column definitions if they were sent before.
pub(crate) fn table(
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
