//! `deploy/chart`: the values of each controller, and the schema of all values.

use std::io;

use serde_json::Value;

use super::{File, MARK, by_port, expand, template};

pub(super) fn files() -> io::Result<[File; 2]> {
    let [(path, values), (_, schema)] = [template!("chart/values.yaml"), template!("chart/schema.yaml")];
    let mut schema: Value = serde_saphyr::from_str(&expand(schema, by_port())).map_err(io::Error::other)?;
    close(&mut schema);
    schema["$comment"] = format!("{MARK}.").into();
    let text = serde_json::to_string_pretty(&schema)? + "\n";
    let schema = File { path: "deploy/chart/values.schema.json".to_owned(), text };
    Ok([File::of_deploy(path, &expand(values, by_port())), schema])
}

/// Forbids all properties that an object with `properties` does not name.
fn close(schema: &mut Value) {
    if schema["type"] == "object" && schema.get("properties").is_some() {
        schema["additionalProperties"] = false.into();
    }
    schema
        .as_object_mut()
        .into_iter()
        .flat_map(|fields| fields.values_mut())
        .filter(|field| field.is_object())
        .for_each(close);
}
