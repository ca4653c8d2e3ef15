//! Pod templates in JSON and in protobuf: they mean the same, and have the same hash.

use common::{
    template::Template,
    wire::{WatchEvent, decode_message, messages},
};
use proptest::prelude::*;
use serde::Deserialize;
use serde_json::{Value, json};

/// Templates with every field, and with unusual values.
fn corpus() -> Vec<Value> {
    let vectors = [
        include_str!("../../common/objects/tests/data/hash-vectors.jsonl"),
        include_str!("../../common/objects/tests/data/hash-vectors-more.jsonl"),
    ];
    let lines = vectors.into_iter().flat_map(str::lines);
    lines.map(|line| serde_json::from_str::<Value>(line).unwrap()["template"].take()).collect()
}

/// The template as a server sends it in both formats; `None` if no server has such a template.
fn in_both_formats(template: &Value) -> Option<[Template; 2]> {
    #[derive(Deserialize)]
    struct Set {
        spec: Spec,
    }
    #[derive(Deserialize)]
    struct Spec {
        template: Template,
    }
    let set = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {}, "spec": {"template": template}});
    let frame = sandbox::protobuf::write_event("ADDED", &set).ok()?;
    let message = WatchEvent::decode(&frame).unwrap().object.object;
    let json: Set = serde_json::from_str(&set.to_string()).unwrap();
    let protobuf: Set = decode_message(&messages::REPLICA_SET, message).unwrap();
    Some([json.spec.template, protobuf.spec.template])
}

/// Checks that a template reads the same in both formats. Returns whether a server has such a template.
fn check_same(template: &Value) -> bool {
    let Some([json, protobuf]) = in_both_formats(template) else { return false };
    // Fields that the schema does not have are compared in their own format only.
    if json.validation_error().is_some() || protobuf.has_hidden_fields() {
        return false;
    }
    assert_eq!(protobuf.validation_error(), None, "{template}");
    assert_eq!(protobuf.meaning_digest(), json.meaning_digest(), "{template}\n{}", protobuf.parse_value());
    assert_eq!(protobuf.hash(Some(1)), json.hash(Some(1)), "{template}");
    assert_eq!(protobuf.labels(), json.labels(), "{template}");
    let [labelled, wanted] = [&protobuf, &json].map(|template| template.with_label("pod-template-hash", "x"));
    assert_eq!(labelled.labels(), wanted.labels(), "{template}");
    assert_eq!(labelled.hash(None), wanted.hash(None), "{template}");
    true
}

#[test]
fn templates_mean_the_same_in_both_formats() {
    let compared = corpus().iter().filter(|template| check_same(template)).count();
    assert!(compared > 120, "{compared}");
}

/// The paths of all members and elements.
fn paths(value: &Value, path: &str, out: &mut Vec<String>) {
    let mut visit = |name: &str, inner: &Value| {
        let path = format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"));
        paths(inner, &path, out);
        out.push(path);
    };
    match value {
        Value::Object(members) => members.iter().for_each(|(name, inner)| visit(name, inner)),
        Value::Array(list) => list.iter().enumerate().for_each(|(at, inner)| visit(&at.to_string(), inner)),
        _ => {}
    }
}

proptest! {
    #[test]
    fn changed_templates_mean_the_same_in_both_formats(
        at in any::<prop::sample::Index>(),
        member in any::<prop::sample::Index>(),
        value in prop::sample::select(vec![json!(""), json!(0), json!(false), json!({}), json!([])]),
    ) {
        let mut template = at.get::<Value>(&corpus()).clone();
        let mut found = Vec::new();
        paths(&template, "", &mut found);
        prop_assume!(!found.is_empty());
        *template.pointer_mut(member.get::<String>(&found)).unwrap() = value;
        check_same(&template);
    }
}
