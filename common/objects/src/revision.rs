//! `ControllerRevisions`: the history of the Pod template of a `StatefulSet` or `DaemonSet`.
//!
//! The controllers write `data` byte for byte as upstream does, because upstream compares the stored bytes, and because only
//! this form does not change when a server encodes it again. Clients that read a revision as JSON receive the data in another
//! form. Therefore this module compares data in canonical form, without null members.

pub mod body;
pub mod template;

use std::cmp::Ordering;

use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use crate::{
    json::RawJson,
    meta::Meta,
    object::{Object, Resource},
    siphash::SipHash,
    wire::{MessageSchema, messages},
};

/// Group, version and names of the resource `controllerrevisions`.
pub const CONTROLLER_REVISIONS: Resource =
    Resource::namespaced("apps", "v1", "controllerrevisions", "ControllerRevision");

/// `SipHash` key for digests of revision data. The value is arbitrary, and the same in every process.
const KEY: [u64; 2] = [0x6e6f_6e65_7420_7265, 0x7669_7369_6f6e_7300];

/// Representation of JSON numbers in the data of a revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberEncoding {
    /// Integers are written exactly, as upstream's `DaemonSet` controller does.
    Exact,
    /// All numbers are rounded to IEEE doubles, as upstream's `StatefulSet` controller does. Differs from `Exact` above 2^53.
    Doubles,
}

/// The data of a revision: a patch with the Pod template.
#[derive(Clone, Debug)]
pub struct RevisionData {
    bytes: Box<[u8]>,
    digest: u128,
}

impl RevisionData {
    /// Creates the data of a revision of `template`: a patch that replaces `spec.template`.
    ///
    /// `None` if the template is not an object.
    pub fn from_value(mut template: Value, numbers: NumberEncoding) -> Option<Self> {
        template.as_object_mut()?.insert("$patch".to_owned(), Value::from("replace"));
        let value = json!({ "spec": { "template": template } });
        Some(Self { bytes: encode_go_json(&value, numbers).into(), digest: digest(&value, numbers) })
    }

    /// Returns the encoded data, from which the hash is computed and which is sent to the server.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns a digest of the data in canonical form. Equal digests mean equal data.
    pub fn digest(&self) -> u128 {
        self.digest
    }
}

/// A `ControllerRevision` that keeps a digest in place of its data.
///
/// The data can take a megabyte, and every user with the right to create revisions can store many that no controller owns. If a
/// cache kept their data, one namespace could determine how much memory the controller needs. The data are therefore read from
/// the server when they are needed ([`RevisionWithData`]).
#[derive(Clone, Debug)]
pub struct ControllerRevision {
    /// `metadata` with the labels and the owner of the revision.
    pub meta: Meta,
    /// Number of the revision. The newest revision has the highest number.
    pub revision: i64,
    digest: u128,
}

impl ControllerRevision {
    /// Whether the revision contains `data`. Compares digests of the canonical form.
    pub fn has_data(&self, data: &RevisionData) -> bool {
        self.digest == data.digest
    }

    /// Whether this revision and `other` contain the same data. Compares digests of the canonical form.
    pub fn has_same_data_as(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

impl Object for ControllerRevision {
    const RESOURCE: Resource = CONTROLLER_REVISIONS;
    type Indexes = ();
    const PROTOBUF_SCHEMA: Option<&'static MessageSchema> = Some(&messages::CONTROLLER_REVISION);

    fn meta(&self) -> &Meta {
        &self.meta
    }
}

impl<'de> Deserialize<'de> for ControllerRevision {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        RevisionWithData::deserialize(deserializer).map(|with_data| with_data.revision)
    }
}

/// A `ControllerRevision` with its data, as the server sends it. Caches do not keep this type.
#[derive(Debug)]
pub struct RevisionWithData {
    revision: ControllerRevision,
    /// Parsed data; `None` if the data are not valid JSON.
    data: Option<Value>,
}

impl RevisionWithData {
    /// Returns the revision and the Pod template in its data, or `None` if the data contain no template.
    pub fn into_revision_and_template(self) -> (ControllerRevision, Option<Value>) {
        (self.revision, self.data.and_then(take_template))
    }
}

impl<'de> Deserialize<'de> for RevisionWithData {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Wire {
            metadata: Meta,
            revision: Option<i64>,
            data: RawJson,
        }
        let Wire { metadata, revision, data } = Wire::deserialize(deserializer)?;
        let value = data.parse_value().ok();
        // Data that cannot be parsed are equal only to data with the same text.
        let digest =
            value.as_ref().map_or_else(|| hash(data.text().as_bytes()), |value| digest(value, NumberEncoding::Exact));
        let revision = ControllerRevision { meta: metadata, revision: revision.unwrap_or(0), digest };
        Ok(Self { revision, data: value })
    }
}

/// Returns the Pod template in the data of a revision, without the patch directive. `None` if the data contain no template.
pub fn extract_template(data: &[u8]) -> Option<Value> {
    take_template(serde_json::from_slice(data).ok()?)
}

fn take_template(mut data: Value) -> Option<Value> {
    let mut template = data.pointer_mut("/spec/template")?.take();
    if let Some(members) = template.as_object_mut() {
        members.remove("$patch");
    }
    Some(template)
}

/// Compares revisions by number, then by creation time, then by name.
pub fn compare_revisions(a: &ControllerRevision, b: &ControllerRevision) -> Ordering {
    let (x, y) = (&a.meta, &b.meta);
    a.revision
        .cmp(&b.revision)
        .then_with(|| x.creation_timestamp.cmp(&y.creation_timestamp))
        .then_with(|| x.name.cmp(&y.name))
}

/// Returns the number for a new revision: the highest number plus 1, and at least 1.
pub fn next_revision_number<'a>(revisions: impl IntoIterator<Item = &'a ControllerRevision>) -> i64 {
    revisions.into_iter().map(|r| r.revision).max().map_or(1, |highest| highest.max(0).saturating_add(1))
}

/// Computes a digest of the value in canonical form, which has no null members.
fn digest(value: &Value, numbers: NumberEncoding) -> u128 {
    hash(&encode(value, numbers, Nulls::Drop))
}

fn hash(bytes: &[u8]) -> u128 {
    let mut hash = SipHash::new(KEY);
    hash.update(bytes);
    hash.finish()
}

/// Encodes JSON as Go does: compact, members sorted by name, with `<`, `>`, `&`, U+2028 and U+2029 escaped.
pub fn encode_go_json(value: &Value, numbers: NumberEncoding) -> Vec<u8> {
    encode(value, numbers, Nulls::Keep)
}

fn encode(value: &Value, numbers: NumberEncoding, nulls: Nulls) -> Vec<u8> {
    let mut encoder = Encoder { out: Vec::with_capacity(1024), numbers, nulls };
    encoder.value(value);
    encoder.out
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Nulls {
    Keep,
    Drop,
}

struct Encoder {
    out: Vec<u8>,
    numbers: NumberEncoding,
    nulls: Nulls,
}

impl Encoder {
    fn value(&mut self, value: &Value) {
        match value {
            Value::Null => self.put("null"),
            Value::Bool(is_true) => self.put(if *is_true { "true" } else { "false" }),
            Value::Number(number) => self.number(number),
            Value::String(text) => self.text(text),
            Value::Array(list) => {
                self.put("[");
                for (at, element) in list.iter().enumerate() {
                    self.put(if at == 0 { "" } else { "," });
                    self.value(element);
                }
                self.put("]");
            }
            Value::Object(map) => {
                let drop = self.nulls == Nulls::Drop;
                let mut members: Vec<_> = map.iter().filter(|(_, value)| !(drop && value.is_null())).collect();
                members.sort_by_key(|(name, _)| *name);
                self.put("{");
                for (at, (name, value)) in members.into_iter().enumerate() {
                    self.put(if at == 0 { "" } else { "," });
                    self.text(name);
                    self.put(":");
                    self.value(value);
                }
                self.put("}");
            }
        }
    }

    fn put(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }

    fn number(&mut self, number: &serde_json::Number) {
        match (number.as_f64(), number.is_f64() || self.numbers == NumberEncoding::Doubles) {
            (Some(double), true) => self.put(&go_double(double)),
            _ => self.put(&number.to_string()),
        }
    }

    fn text(&mut self, text: &str) {
        self.put("\"");
        for c in text.chars() {
            match c {
                '"' => self.put("\\\""),
                '\\' => self.put("\\\\"),
                '\u{8}' => self.put("\\b"),
                '\u{c}' => self.put("\\f"),
                '\n' => self.put("\\n"),
                '\r' => self.put("\\r"),
                '\t' => self.put("\\t"),
                '\0'..'\u{20}' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                    self.put(&format!("\\u{:04x}", u32::from(c)));
                }
                c => self.put(c.encode_utf8(&mut [0; 4])),
            }
        }
        self.put("\"");
    }
}

/// Formats a double with the shortest digits that parse to the same number, in Go's notation.
fn go_double(double: f64) -> String {
    let size = double.abs();
    if size != 0.0 && !(1e-6..1e21).contains(&size) {
        let text = format!("{double:e}");
        return if text.contains("e-") { text } else { text.replace('e', "e+") };
    }
    double.to_string()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::hash::controller_revision_hash;

    const GOLDEN: &str = r#"{"spec":{"template":{"$patch":"replace","metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"args":["a\u003cb","x\u0026y"],"image":"nginx:1.27","imagePullPolicy":"IfNotPresent","name":"web","resources":{},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File"}],"dnsPolicy":"ClusterFirst","restartPolicy":"Always","schedulerName":"default-scheduler","securityContext":{},"terminationGracePeriodSeconds":30}}}}"#;

    fn template() -> Value {
        json!({"metadata": {"labels": {"app": "web"}}, "spec": {
            "terminationGracePeriodSeconds": 30, "securityContext": {}, "schedulerName": "default-scheduler",
            "restartPolicy": "Always", "dnsPolicy": "ClusterFirst",
            "containers": [{"name": "web", "image": "nginx:1.27", "args": ["a<b", "x&y"], "resources": {},
                "imagePullPolicy": "IfNotPresent", "terminationMessagePolicy": "File",
                "terminationMessagePath": "/dev/termination-log"}]}})
    }

    fn data(template: &Value) -> RevisionData {
        RevisionData::from_value(template.clone(), NumberEncoding::Exact).unwrap()
    }

    fn with_data(name: &str, number: i64, created: i64, data: &Value) -> RevisionWithData {
        let created = jiff::Timestamp::from_second(created).unwrap();
        let json = json!({"metadata": {"name": name, "creationTimestamp": created}, "revision": number, "data": data});
        serde_json::from_str(&json.to_string()).unwrap()
    }

    fn revision(name: &str, number: i64, created: i64, data: &Value) -> Arc<ControllerRevision> {
        Arc::new(with_data(name, number, created, data).revision)
    }

    #[test]
    fn data_and_names_match_the_golden_revision() {
        for numbers in [NumberEncoding::Exact, NumberEncoding::Doubles] {
            let data = RevisionData::from_value(template(), numbers).unwrap();
            assert_eq!(String::from_utf8_lossy(data.bytes()), GOLDEN);
            assert_eq!(data.bytes().len(), 443);
            let names = [0, 1, 2].map(|count| controller_revision_hash(data.bytes(), Some(count)));
            assert_eq!(names, ["7c99d5cb8d", "7c99d5cb8f", "7c99d5cb94"]);
        }
        let unescaped = GOLDEN.replace("\\u003c", "<").replace("\\u0026", "&");
        assert_eq!(
            (unescaped.len(), controller_revision_hash(unescaped.as_bytes(), Some(0)).as_str()),
            (433, "5c7c9d95c8")
        );
    }

    #[test]
    fn json_is_encoded_as_in_go() {
        #[derive(Deserialize)]
        struct Case {
            json: String,
            go: String,
        }
        for line in include_str!("../tests/data/go-json.jsonl").lines() {
            let case: Case = serde_json::from_str(line).unwrap();
            let value: Value = serde_json::from_str(&case.json).unwrap();
            assert_eq!(
                String::from_utf8(encode_go_json(&value, NumberEncoding::Doubles)).unwrap(),
                case.go,
                "{}",
                case.json
            );
        }
    }

    #[test]
    fn integers_are_exact_unless_rounded() {
        let value = json!({"a": 9_007_199_254_740_993_i64, "b": i64::MIN, "c": u64::MAX});
        let text = |numbers| String::from_utf8(encode_go_json(&value, numbers)).unwrap();
        assert_eq!(
            text(NumberEncoding::Exact),
            r#"{"a":9007199254740993,"b":-9223372036854775808,"c":18446744073709551615}"#
        );
        assert_eq!(
            text(NumberEncoding::Doubles),
            r#"{"a":9007199254740992,"b":-9223372036854776000,"c":18446744073709552000}"#
        );
    }

    #[test]
    fn nulls_and_empty_objects_stay_in_the_bytes() {
        let bytes = data(&json!({"metadata": {"creationTimestamp": null}, "spec": {"securityContext": {}}}));
        assert_eq!(
            String::from_utf8_lossy(bytes.bytes()),
            r#"{"spec":{"template":{"$patch":"replace","metadata":{"creationTimestamp":null},"spec":{"securityContext":{}}}}}"#
        );
    }

    #[test]
    fn revisions_are_compared_by_their_data() {
        let ours = data(&template());
        let mut stored: Value = serde_json::from_str(GOLDEN).unwrap();
        assert!(revision("a", 1, 0, &stored).has_data(&ours));
        stored["spec"]["template"]["metadata"]["creationTimestamp"] = Value::Null;
        assert!(revision("a", 1, 0, &stored).has_data(&ours));
        assert!(revision("a", 1, 0, &stored).has_same_data_as(&revision("b", 2, 9, &stored)));
        stored["spec"]["template"]["metadata"]["labels"]["app"] = json!("db");
        assert!(!revision("a", 1, 0, &stored).has_data(&ours));
        for odd in [json!({}), json!(null), json!([1]), json!({"spec": {"template": null}})] {
            assert!(!revision("a", 1, 0, &odd).has_data(&ours));
        }
        assert!(RevisionData::from_value(Value::Null, NumberEncoding::Exact).is_none());
    }

    #[test]
    fn the_template_can_be_extracted() {
        let stored = serde_json::from_str(GOLDEN).unwrap();
        assert_eq!(with_data("a", 1, 0, &stored).into_revision_and_template().1, Some(template()));
        for odd in [json!({}), json!(null), json!([1])] {
            assert_eq!(with_data("a", 1, 0, &odd).into_revision_and_template().1, None);
        }
    }

    #[test]
    fn sorts_by_number_age_and_name() {
        let mut list = [
            revision("d", 3, 10, &json!({})),
            revision("c", 2, 20, &json!({})),
            revision("b", 2, 10, &json!({})),
            revision("a", 2, 20, &json!({})),
        ];
        list.sort_by(|a, b| compare_revisions(a, b));
        assert_eq!(list.iter().map(|r| &*r.meta.name).collect::<Vec<_>>(), ["b", "a", "c", "d"]);
    }

    #[test]
    fn the_next_number_is_one_above_the_highest() {
        let list = [revision("a", 1, 0, &json!({})), revision("b", 3, 0, &json!({})), revision("c", 2, 0, &json!({}))];
        assert_eq!(next_revision_number(list.iter().map(|r| &**r)), 4);
        assert_eq!(next_revision_number(None), 1);
        assert_eq!(next_revision_number([&*revision("a", -7, 0, &json!({}))]), 1);
        assert_eq!(next_revision_number([&*revision("a", i64::MAX, 0, &json!({}))]), i64::MAX);
    }

    proptest! {
        #[test]
        fn encoded_json_can_be_parsed_again(text in "\\PC{0,20}", control in "[\\x00-\\x1f<>&\u{2028}\u{2029}\u{7f}\u{1f600}]{0,8}", n in any::<i64>()) {
            let value = json!({ control.clone(): [text, control], "n": n });
            let bytes = encode_go_json(&value, NumberEncoding::Exact);
            prop_assert_eq!(serde_json::from_slice::<Value>(&bytes).unwrap(), value);
            prop_assert!(!bytes.iter().any(|b| *b < 0x20 || b"<>&".contains(b)));
        }

        #[test]
        fn formatted_doubles_can_be_parsed_again(double in any::<f64>()) {
            prop_assume!(double.is_finite());
            prop_assert_eq!(go_double(double).parse::<f64>().unwrap().to_bits(), double.to_bits());
        }
    }
}
