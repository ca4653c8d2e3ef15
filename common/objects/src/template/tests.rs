use proptest::{collection::vec, prelude::*};
use serde_json::json;

use super::*;
use crate::{
    object::EncodedObject,
    wire::tests::{self as encoded, number, pair, text},
};

fn template(value: &Value) -> Template {
    Template::from_value(value)
}

fn web() -> Value {
    json!({
        "metadata": {"labels": {"app": "web"}, "annotations": {"a": "1"}, "finalizers": ["f"]},
        "spec": {"restartPolicy": "Always", "containers": [{"name": "c", "image": "i:1", "newer": {"x": [1]}}],
            "securityContext": {}},
    })
}

#[test]
fn templates_are_equal_as_in_upstream() {
    #[derive(Deserialize)]
    struct Pair {
        a: Template,
        b: Template,
        equal: bool,
    }
    for line in include_str!("../../tests/data/template-equality.jsonl").lines() {
        let pair: Pair = serde_json::from_str(line).unwrap();
        assert_eq!((pair.a.validation_error(), pair.b.validation_error()), (None, None));
        assert_eq!(pair.a == pair.b, pair.equal, "{line}");
    }
}

#[test]
fn templates_are_equal_as_in_the_table() {
    let with = |path: &str, value: Option<Value>| {
        let mut template = web();
        let (parent, name) = path.rsplit_once('/').unwrap();
        let parent = template.pointer_mut(parent).unwrap().as_object_mut().unwrap();
        match value {
            Some(value) => parent.insert(name.to_owned(), value),
            None => parent.remove(name),
        };
        self::template(&template)
    };
    let (absent, hash) = (None, "/metadata/labels/pod-template-hash");
    for (path, a, b, equal) in [
        ("/spec/volumes", absent.clone(), Some(json!(null)), true),
        ("/spec/volumes", absent.clone(), Some(json!([])), true),
        ("/metadata/annotations", absent.clone(), Some(json!({})), true),
        ("/spec/nodeSelector", absent.clone(), Some(json!({})), true),
        ("/spec/securityContext", absent.clone(), Some(json!({})), false),
        ("/spec/securityContext", Some(json!(null)), Some(json!({})), false),
        ("/spec/priority", absent.clone(), Some(json!(0)), false),
        ("/spec/hostname", absent.clone(), Some(json!("")), true),
        ("/spec/hostNetwork", absent.clone(), Some(json!(false)), true),
        ("/spec/overhead", Some(json!({"memory": "1Gi"})), Some(json!({"memory": "1073741824"})), true),
        ("/spec/overhead", Some(json!({"cpu": "1e3"})), Some(json!({"cpu": "1k"})), true),
        ("/spec/overhead", Some(json!({"cpu": "1"})), Some(json!({"cpu": "1001m"})), false),
        ("/spec/overhead", Some(json!({"cpu": "0"})), absent.clone(), false),
        ("/metadata/annotations", Some(json!({"cpu": "1e3"})), Some(json!({"cpu": "1k"})), false),
        (
            "/metadata/creationTimestamp",
            Some(json!("2026-01-01T00:00:00Z")),
            Some(json!("2026-01-01T01:00:00+01:00")),
            true,
        ),
        ("/metadata/creationTimestamp", absent.clone(), Some(json!(null)), true),
        ("/spec/newerPort", Some(json!(80)), Some(json!("80")), false),
        ("/spec/newerField", absent.clone(), Some(json!(null)), true),
        ("/spec/newerField", absent.clone(), Some(json!([])), true),
        ("/spec/newerField", absent.clone(), Some(json!({})), false),
        ("/spec/newerField", absent.clone(), Some(json!(false)), false),
        ("/spec/newerField", Some(json!({"a": null})), Some(json!({})), true),
        ("/spec/newerList", Some(json!([1, 2])), Some(json!([2, 1])), false),
        (hash, absent.clone(), Some(json!("abc")), true),
        (hash, Some(json!("def")), Some(json!("abc")), true),
        ("/metadata/annotations/pod-template-hash", absent, Some(json!("abc")), false),
    ] {
        let (left, right) = (with(path, a.clone()), with(path, b.clone()));
        assert_eq!(left == right, equal, "{path}: {a:?} and {b:?}");
        assert_eq!(left.meaning_digest() == right.meaning_digest(), equal);
    }
}

#[test]
fn the_digest_is_the_same_in_every_process() {
    assert_eq!(template(&web()).meaning_digest(), 240_004_467_498_912_785_972_526_597_509_892_393_322);
    assert_eq!(template(&json!({})).meaning_digest(), 0);
}

#[test]
fn the_last_of_repeated_members_counts() {
    let read = |text: &str| serde_json::from_str::<Template>(text).unwrap();
    assert_eq!(read(r#"{"spec":{"hostname":"a","hostname":"b"}}"#), read(r#"{"spec":{"hostname":"b"}}"#));
    assert_eq!(read(r#"{"spec":{"hostname":"a","hostname":null}}"#), read(r#"{"spec":{}}"#));
    assert_ne!(read(r#"{"spec":{"hostname":"a","hostname":"b"}}"#), read(r#"{"spec":{"hostname":"a"}}"#));
}

#[test]
fn a_value_that_is_not_a_template_has_a_problem() {
    #[derive(Deserialize)]
    struct Parent {
        #[serde(default)]
        template: Template,
    }
    let deep = format!(r#"{{"spec":{{"x":{}1{}}}}}"#, "[".repeat(200), "]".repeat(200));
    for (text, problem) in [
        (r#"{"metadata":7}"#, "Pod template cannot be read: invalid type: integer `7`, expected metadata"),
        (r#"{"spec":3}"#, "Pod template cannot be read: invalid type: integer `3`, expected an object"),
        (
            r#"{"metadata":{"labels":["a"]}}"#,
            "Pod template cannot be read: invalid type: sequence, expected a map of strings",
        ),
        (r#"{"metadata":{"labels":{"a":1}}}"#, "Pod template cannot be read: invalid type: integer"),
        (&deep, "Pod template cannot be read: recursion limit exceeded"),
    ] {
        let broken: Template = serde_json::from_str(text).unwrap();
        let said = broken.validation_error().unwrap();
        assert!(said.starts_with(problem) && !said.contains('\n'), "{said}");
        assert_eq!(broken, serde_json::from_str(text).unwrap());
        assert_ne!(broken, template(&web()));
        assert_ne!(broken, template(&json!({})));
        assert_eq!(broken.with_label("a", "b"), broken);
        assert!(broken.spec().is_none() && broken.parse_value().is_null() && broken.labels().is_empty());
        assert_eq!(serde_json::to_string(&broken).unwrap(), text);
    }
    for text in ["null", "[]", "\"x\""] {
        assert!(serde_json::from_str::<Template>(text).unwrap_err().to_string().contains("expected an object"));
    }
    let parent: Parent = serde_json::from_str("{}").unwrap();
    assert_eq!(parent.template.validation_error(), Some("Pod template is missing"));
    assert_eq!(serde_json::to_string(&parent.template).unwrap(), "null");
}

#[test]
fn parts_are_read_on_demand() {
    let template = template(&web());
    assert_eq!(template.labels(), &Labels::from_pairs([("app", "web")]));
    assert_eq!(template.annotations().iter().collect::<Vec<_>>(), [("a", "1")]);
    assert_eq!(template.finalizers(), ["f"]);
    assert_eq!(template.decode_spec::<Value>().unwrap(), web()["spec"]);
    let bare = self::template(&json!({}));
    assert!(bare.spec().is_none() && bare.annotations().is_empty() && bare.finalizers().is_empty());
}

#[test]
fn setting_a_label_keeps_everything_else() {
    let original = template(&web());
    let labelled = original.with_label(POD_TEMPLATE_HASH_LABEL, "abc");
    let mut want = web();
    want["metadata"]["labels"]["pod-template-hash"] = json!("abc");
    assert_eq!(labelled.parse_value(), want);
    assert_eq!(labelled.labels().get(POD_TEMPLATE_HASH_LABEL), Some("abc"));
    assert_eq!(labelled, original);
    assert_ne!(original.with_label("x", "y"), original);
    assert_eq!(
        template(&json!({"metadata": null})).with_label("a", "b").parse_value(),
        json!({"metadata": {"labels": {"a": "b"}}})
    );
}

#[test]
fn the_text_is_passed_on_unchanged() {
    let text = r#"{"spec":{"b":1.50,"a":9007199254740993,"newer":"\u00e9"},"metadata":{}}"#;
    let template: Template = serde_json::from_str(text).unwrap();
    assert_eq!(serde_json::to_string(&template).unwrap(), text);
}

#[test]
fn hashes_match_upstream() {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Vector {
        template: Template,
        collision_count: Option<i32>,
        hash: String,
    }
    for line in include_str!("../../tests/data/hash-vectors.jsonl").lines() {
        let vector: Vector = serde_json::from_str(line).unwrap();
        assert_eq!(vector.template.hash(vector.collision_count), vector.hash);
    }
}

/// A template in protobuf.
fn from_message(message: &[u8]) -> Template {
    wire::decode_message::<RawMessage>(&POD_TEMPLATE_SPEC, message).map(Template::new).unwrap()
}

/// The template of [`web`] in protobuf, with further fields in the spec and in the container.
fn message(in_spec: &[Vec<u8>], in_container: &[Vec<u8>]) -> Template {
    let metadata = encoded::message(1, &[pair(11, "app", "web"), pair(12, "a", "1"), text(14, "f")]);
    let container = [vec![text(1, "c"), text(2, "i:1"), encoded::message(8, &[])], in_container.to_vec()].concat();
    let spec = [
        vec![encoded::message(2, &container), text(3, "Always"), number(11, 0), encoded::message(14, &[])],
        in_spec.to_vec(),
    ];
    let message = [metadata, encoded::message(2, &spec.concat())].concat();
    let template = from_message(&message);
    assert_eq!(template.validation_error(), None);
    template
}

#[test]
fn a_message_means_the_same_as_its_json() {
    let mut same = web();
    same["spec"]["containers"][0].as_object_mut().unwrap().remove("newer");
    let (message, json) = (message(&[], &[]), template(&same));
    assert_eq!(message, json);
    assert_eq!(
        (message.labels(), message.annotations(), message.finalizers()),
        (json.labels(), json.annotations(), json.finalizers())
    );
    assert_eq!(message.hash(Some(1)), json.hash(Some(1)));
    let labelled = message.with_label("b", "c").with_label("app", "db");
    assert_eq!(labelled, json.with_label("b", "c").with_label("app", "db"), "{:?}", labelled.validation_error());
    assert_eq!(labelled.labels(), &Labels::from_pairs([("app", "db"), ("b", "c")]));
    assert!(matches!(message.spec().unwrap().encoded(), EncodedObject::Protobuf(_)));
    same["spec"]["containers"][0]["resources"] = json!({});
    assert_eq!(message.parse_value(), same);
}

#[test]
fn unknown_fields_of_a_message_are_compared_and_kept() {
    let plain = message(&[], &[]);
    assert!(!plain.has_hidden_fields());
    let newer = |value: &str| [message(&[text(99, value)], &[]), message(&[], &[text(99, value)])];
    for (a, b) in newer("x").into_iter().zip(newer("y")) {
        assert!(a.has_hidden_fields());
        assert_ne!(a, plain);
        assert_ne!(a, b);
        assert_eq!(a, a.with_label(POD_TEMPLATE_HASH_LABEL, "abc"));
        assert_eq!(a.hash(None), b.hash(None), "upstream's hash does not know the field");
        let spec = a.with_label("b", "c").spec();
        assert_eq!(spec, a.spec());
    }
    assert_ne!(newer("x")[0], newer("x")[1], "the place of a field has a meaning");
    let repeated = [text(99, "x"), text(99, "y")];
    assert_ne!(message(&repeated, &[]), newer("y")[0].clone());
}

#[test]
fn a_damaged_message_has_a_problem() {
    for bytes in [text(2, "\u{7f}"), encoded::message(1, &[number(11, 1)])] {
        let broken = from_message(&bytes);
        assert!(broken.validation_error().unwrap().starts_with("Pod template cannot be read"), "{broken:?}");
        assert_eq!((broken.with_label("a", "b"), broken.spec()), (broken.clone(), None));
    }
}

/// Generates JSON values with at most four levels of nesting.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3i64..300).prop_map(Value::from),
        "[a-z0-9]{0,4}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            vec((name(), inner), 0..5).prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(vec!["spec", "metadata", "labels", "containers", "resources", "limits", "cpu", "volumes"])
            .prop_map(str::to_owned),
        "[a-z]{1,3}",
    ]
}

/// Writes a value as JSON with its members in a random order from `seed`, and with additional null members.
fn scramble(value: &Value, seed: &mut u64) -> String {
    let mut next = |bound: usize| {
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*seed >> 33) as usize % bound
    };
    match value {
        Value::Object(map) => {
            let mut members: Vec<_> = map.iter().collect();
            for at in (1..members.len()).rev() {
                members.swap(at, next(at + 1));
            }
            let strew = next(2) == 0;
            let mut texts: Vec<String> = members
                .into_iter()
                .map(|(k, v)| format!("{}: {}", Value::from(k.as_str()), scramble(v, seed)))
                .collect();
            if strew {
                texts.push(r#""neverSeen": null"#.to_owned());
            }
            format!("{{ {} }}", texts.join(" ,"))
        }
        Value::Array(list) => {
            format!("[{}]", list.iter().map(|v| scramble(v, seed)).collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

/// Whether two values of unknown type mean the same, computed without digests.
fn same(a: Option<&Value>, b: Option<&Value>) -> bool {
    fn something(v: Option<&Value>) -> Option<&Value> {
        v.filter(|v| !v.is_null() && v.as_array().is_none_or(|list| !list.is_empty()))
    }
    match (something(a), something(b)) {
        (None, None) => true,
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            a.keys().chain(b.keys()).all(|name| same(a.get(name), b.get(name)))
        }
        (Some(Value::Array(a)), Some(Value::Array(b))) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(Some(a), Some(b)))
        }
        (a, b) => a == b,
    }
}

proptest! {
    #[test]
    fn order_and_nulls_do_not_matter(spec in any_json(), labels in vec(("[a-c]", "[a-c]{0,2}"), 0..3), seed in any::<u64>()) {
        let labels: serde_json::Map<String, Value> = labels.into_iter().map(|(k, v)| (k, v.into())).collect();
        let value = json!({"metadata": {"annotations": {"x": "y"}, "labels": labels}, "spec": {"newer": spec}});
        let mut seed = seed;
        let scrambled: Template = serde_json::from_str(&format!(" {} ", scramble(&value, &mut seed))).unwrap();
        prop_assert_eq!(scrambled.validation_error(), None);
        prop_assert_eq!(scrambled, template(&value));
    }

    #[test]
    fn unknown_fields_are_compared_by_structure(a in any_json(), b in any_json()) {
        let wrap = |value: &Value| template(&json!({"spec": {"newer": value}}));
        prop_assert_eq!(wrap(&a) == wrap(&b), same(Some(&a), Some(&b)));
    }

    #[test]
    fn no_template_causes_a_panic(value in any_json(), text in "[\\[{}\\],:\"a0 ]{0,20}") {
        let template = template(&value);
        let _ = (template.with_label("a", "b"), template.hash(Some(1)), template.annotations(), template.finalizers());
        if let Ok(template) = serde_json::from_str::<Template>(&text) {
            let _ = (template.spec(), template.with_label("a", "b"));
        }
    }
}
