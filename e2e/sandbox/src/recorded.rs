//! Objects that a real API server sent, as the frames of a watch.

use common::api::WireFormat;
use serde_json::{Value, json};

use crate::api::protobuf::write_event;

/// A recorded object of that plural name, with its `kind` and `apiVersion`; `None` if there is none of that name.
pub fn object(plural: &str, name: &str) -> Option<Value> {
    include_str!("../../goldens/protobuf.jsonl").lines().find_map(|line| {
        let mut answer: Value = serde_json::from_str(line).ok()?;
        let is_list = answer["what"] == "list" && answer["path"].as_str()?.ends_with(&format!("/{plural}"));
        let list = is_list.then(|| answer["json"].take())?;
        let mut object = list["items"].as_array()?.iter().find(|item| item["metadata"]["name"] == name)?.clone();
        object["kind"] = json!(list["kind"].as_str()?.strip_suffix("List")?);
        object["apiVersion"] = list["apiVersion"].clone();
        Some(object)
    })
}

/// The frame of a watch event about an object.
///
/// # Errors
/// If the object is none, or its kind has no protobuf encoding.
pub fn frame(format: WireFormat, event: &str, object: &Value) -> Result<Vec<u8>, String> {
    match format {
        WireFormat::Json => {
            let fields = object.as_object().ok_or("not an object")?;
            // Servers write these first.
            let first = ["kind", "apiVersion", "metadata"];
            let rest = fields.iter().filter(|(field, _)| !first.contains(&field.as_str()));
            let leading = first.into_iter().map(|field| (field, &object[field]));
            let all = leading.chain(rest.map(|(field, value)| (field.as_str(), value)));
            let texts: Vec<String> = all.map(|(field, value)| format!("\"{field}\":{value}")).collect();
            Ok(format!("{{\"type\":\"{event}\",\"object\":{{{}}}}}\n", texts.join(",")).into_bytes())
        }
        WireFormat::Protobuf => write_event(event, object),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::protobuf::parse_event;

    #[test]
    fn frames_of_both_formats_have_the_recorded_object() {
        let pod = object("pods", "web-0").unwrap();
        assert_eq!((&pod["kind"], &pod["apiVersion"]), (&json!("Pod"), &json!("v1")));
        let line = frame(WireFormat::Json, "ADDED", &pod).unwrap();
        assert_eq!(serde_json::from_slice::<Value>(&line).unwrap(), json!({"type": "ADDED", "object": pod}));
        let event = parse_event(&frame(WireFormat::Protobuf, "MODIFIED", &pod).unwrap()).unwrap();
        assert_eq!(
            (&event["type"], &event["object"]["spec"]["nodeName"]),
            (&json!("MODIFIED"), &pod["spec"]["nodeName"])
        );
        assert_eq!(object("pods", "no-such-pod"), None);
    }
}
