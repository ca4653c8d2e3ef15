//! Tests that malformed input from servers and tenants causes no panic, and does not affect the decoding of other objects.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::object::Resource;

#[derive(Deserialize)]
struct Thing {
    metadata: Meta,
    #[serde(default)]
    size: Option<u32>,
}

impl Object for Thing {
    const RESOURCE: Resource = Resource::namespaced("", "v1", "things", "Thing");
    type Indexes = ();
    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

fn thing(name: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "shop", "uid": format!("uid-{name}"), "resourceVersion": "7",
        "generation": 1, "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {"app": "web"},
        "annotations": {"note": "x"}, "finalizers": ["f"],
        "ownerReferences": [{"apiVersion": "v1", "kind": "Thing", "name": "o", "uid": "u", "controller": true}]},
        "size": 3})
}

/// Generates any JSON value: wrong types, nesting, extreme numbers, long and unusual texts.
fn anything() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,20}|[0-9]{1,40}|-?9{30}".prop_map(Value::from),
        (1usize..4000).prop_map(|length| json!("\u{1f980}".repeat(length))),
        Just(json!("9999-99-99T99:99:99Z")),
    ];
    leaf.prop_recursive(4, 64, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
            prop::collection::btree_map("[a-zA-Z./-]{0,12}", inner, 0..8).prop_map(|map| json!(map)),
        ]
    })
}

/// Selects a field of the object that [`thing`] returns, as a JSON pointer.
fn field() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "/metadata",
        "/metadata/name",
        "/metadata/namespace",
        "/metadata/uid",
        "/metadata/resourceVersion",
        "/metadata/generation",
        "/metadata/creationTimestamp",
        "/metadata/labels",
        "/metadata/labels/app",
        "/metadata/annotations",
        "/metadata/finalizers",
        "/metadata/finalizers/0",
        "/metadata/ownerReferences",
        "/metadata/ownerReferences/0",
        "/metadata/ownerReferences/0/uid",
        "/metadata/ownerReferences/0/controller",
        "/size",
    ])
}

proptest! {
    #[test]
    fn no_line_and_no_page_causes_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), cut in 0usize..600, flip in 0usize..600) {
        let _ = decode_watch_frame::<Thing>(WireFormat::Json, &bytes);
        let _ = decode_list_page::<Thing>(WireFormat::Json, &bytes);
        let mut line = json!({"type": "ADDED", "object": thing("a")}).to_string().into_bytes();
        let mut page = json!({"metadata": {"resourceVersion": "9"}, "items": [thing("a")]}).to_string().into_bytes();
        for text in [&mut line, &mut page] {
            let at = flip % text.len();
            text[at] ^= 0x11;
            text.truncate(cut);
            let _ = decode_watch_frame::<Thing>(WireFormat::Json, text);
            let _ = decode_list_page::<Thing>(WireFormat::Json, text);
        }
    }

    /// An error in the body of an object makes only this object unreadable.
    /// COMMON-9.
    #[test]
    fn an_unreadable_object_leaves_the_others_readable(path in field(), value in anything()) {
        let mut odd = thing("odd");
        *odd.pointer_mut(path).unwrap() = value;
        let line = json!({"type": "MODIFIED", "object": odd}).to_string();
        let read_alone = decode_watch_frame::<Thing>(WireFormat::Json, line.as_bytes());
        let page = json!({"metadata": {"resourceVersion": "9"}, "items": [thing("a"), odd, thing("b")]}).to_string();
        let page = decode_list_page::<Thing>(WireFormat::Json, page.as_bytes());
        let is_readable = match &read_alone {
            Ok(DecodedEvent::Put { entry, .. }) => Some(matches!(entry, CacheEntry::Decoded(_))),
            Ok(_) => None,
            Err(_) => None,
        };
        if !path.starts_with("/metadata") {
            prop_assert!(is_readable.is_some(), "the metadata can be read");
        }
        // The object is readable in a watch event if and only if it is readable in a list.
        match (is_readable, page) {
            (Some(readable), Ok(page)) => {
                let good = page.items.iter().filter(|entry| matches!(entry, CacheEntry::Decoded(_))).count();
                prop_assert_eq!((page.items.len(), good), (3, 2 + usize::from(readable)));
            }
            (None, Err(_)) => {}
            (_, page) => prop_assert!(false, "{is_readable:?}, but the page: {}", page.is_ok()),
        }
    }
}

/// The object is about as large as a server accepts. The cost of decoding an object depends only on its length.
#[test]
fn thousands_of_owners_labels_and_finalizers_are_read() {
    let count = 20_000;
    let mut large = thing("large");
    let metadata = &mut large["metadata"];
    metadata["labels"] = (0..count).map(|n| (format!("l{n}"), json!("v"))).collect();
    metadata["finalizers"] = (0..count).map(|n| json!(format!("f{n}"))).collect();
    let owner =
        |n: usize| json!({"apiVersion": "v1", "kind": "Thing", "name": format!("o{n}"), "uid": format!("u{n}")});
    metadata["ownerReferences"] = (0..count).map(owner).collect();
    let line = json!({"type": "ADDED", "object": large}).to_string();
    let Ok(DecodedEvent::Put { entry: CacheEntry::Decoded(read), .. }) =
        decode_watch_frame::<Thing>(WireFormat::Json, line.as_bytes())
    else {
        panic!("the object can be read");
    };
    assert_eq!((read.metadata.owners.len(), read.metadata.finalizers.len()), (count, count));
    assert_eq!(read.metadata.labels.get("l19999"), Some("v"));
    assert_eq!(read.size, Some(3));
}

#[test]
fn very_deep_nesting_is_an_error_and_no_overflow() {
    let deep = format!("{}1{}", "[".repeat(200_000), "]".repeat(200_000));
    let line = format!("{{\"type\":\"ADDED\",\"object\":{{\"metadata\":{{\"name\":\"a\",\"labels\":{deep}}}}}}}");
    assert!(decode_watch_frame::<Thing>(WireFormat::Json, line.as_bytes()).is_err());
    let page = format!("{{\"items\":[{deep}]}}");
    assert!(decode_list_page::<Thing>(WireFormat::Json, page.as_bytes()).is_err());
}
