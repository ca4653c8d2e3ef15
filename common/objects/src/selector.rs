//! Label selectors, which are compiled once and matched often.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::{
    intern::{Labels, Text},
    json::JsonStr,
    wire::{self, RawFields, RawMessage, messages::LABEL_SELECTOR},
};

/// A label selector in compiled form.
///
/// A null selector matches nothing, and an empty selector matches everything. An invalid selector matches nothing and has a
/// [`Selector::validation_error`]. Decoding never fails, so that an object with an invalid selector can still be decoded.
/// Upstream: `pkg/apis/meta/v1`, `LabelSelectorAsSelector`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    state: State,
    /// Labels that an object must have with these values.
    labels: Labels,
    /// Further requirements, which must all be met. Sorted by key.
    expressions: Box<[Requirement]>,
    /// Number of expressions that require the presence of their key.
    needed: usize,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Null,
    Valid,
    Invalid(Box<SelectorError>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: Text,
    operator: Operator,
    /// Values for `In` and `NotIn`, sorted and without duplicates.
    values: Box<[Text]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
}

/// Reasons why a selector is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    /// A field has a value of the wrong type. Holds the name of the field and the expected type.
    #[error("selector: {0} is not {1}")]
    WrongType(&'static str, &'static str),
    /// The operator is not `In`, `NotIn`, `Exists` or `DoesNotExist`.
    #[error("selector: {0:?} is not a valid label selector operator")]
    UnknownOperator(String),
    /// An expression with `In` or `NotIn` has no values. Holds the key.
    #[error("selector: {0:?}: for 'in', 'notin' operators, values set can't be empty")]
    NoValues(String),
    /// An expression with `Exists` or `DoesNotExist` has values. Holds the key.
    #[error("selector: {0:?}: values set must be empty for exists and does not exist")]
    UnexpectedValues(String),
    /// A label key is invalid by [`is_label_key`]. Holds the key.
    #[error("selector: {0:?} is not a valid label key")]
    InvalidKey(String),
    /// A label value is invalid by [`is_label_value`]. Holds the key and the value.
    #[error("selector: {1:?} is not a valid label value for {0:?}")]
    InvalidValue(String, String),
}

impl Selector {
    /// Compiles a `LabelSelector` from `spec.selector`. `null` gives the selector that matches nothing.
    pub fn from_value(value: &Value) -> Self {
        compile(value).unwrap_or_else(Self::invalid)
    }

    /// Compiles the selector of a `ReplicationController`, which supports only equality. An empty map selects nothing.
    pub fn from_map(labels: Labels) -> Self {
        if labels.is_empty() {
            return Self::default();
        }
        let checked = check_labels(&labels).map(|()| Self { state: State::Valid, labels, ..Self::default() });
        checked.unwrap_or_else(Self::invalid)
    }

    fn invalid(error: SelectorError) -> Self {
        Self { state: State::Invalid(Box::new(error)), ..Self::default() }
    }

    /// Returns the reason why the selector is invalid; `None` for a valid or null selector.
    pub fn validation_error(&self) -> Option<&SelectorError> {
        if let State::Invalid(error) = &self.state { Some(error) } else { None }
    }

    /// Returns the selector itself. An invalid selector is an error, and a null selector is not.
    pub fn validate(&self) -> Result<&Self, SelectorError> {
        self.validation_error().map_or(Ok(self), |error| Err(error.clone()))
    }

    /// Whether the selector is missing or `null`, and therefore selects nothing.
    pub fn is_null(&self) -> bool {
        self.state == State::Null
    }

    /// Whether the selector is valid and has no requirements, and therefore selects everything.
    pub fn is_empty(&self) -> bool {
        self.state == State::Valid && self.labels.is_empty() && self.expressions.is_empty()
    }

    /// Whether the selector selects objects with these labels; false for a null or invalid selector.
    pub fn matches(&self, labels: &Labels) -> bool {
        self.state == State::Valid && labels.contains_all(&self.labels) && self.expressions_hold(labels)
    }

    /// Whether `labels` meet all expressions. If there are more expressions than labels, evaluates only the expressions on keys
    /// of `labels`. Otherwise a selector with many expressions would slow down the handling of every event.
    fn expressions_hold(&self, labels: &Labels) -> bool {
        if self.expressions.len() <= labels.as_slice().len() {
            return self.expressions.iter().all(|requirement| requirement.admits(labels.get(&requirement.key)));
        }
        let mut met = 0;
        for (requirement, value) in self.on_keys_of(labels) {
            if !requirement.admits(Some(value)) {
                return false;
            }
            met += usize::from(requirement.operator.needs_key());
        }
        // Expressions that do not need their key are met if the key is missing.
        met == self.needed
    }

    /// Returns the expressions on the keys of `labels`, each with the value of its label.
    fn on_keys_of<'a>(&'a self, labels: &'a Labels) -> impl Iterator<Item = (&'a Requirement, &'a str)> {
        labels.iter().flat_map(|(key, value)| {
            let from = self.expressions.partition_point(|requirement| requirement.key.as_str() < key);
            let on_key = self.expressions[from..].iter().take_while(move |requirement| requirement.key.as_str() == key);
            on_key.map(move |requirement| (requirement, value))
        })
    }

    /// Whether the selector selects `labels`. False if the selector is empty or there are no labels.
    ///
    /// With this function, controllers find the objects that may adopt an orphan.
    pub fn matches_orphan(&self, labels: &Labels) -> bool {
        !labels.is_empty() && !self.is_empty() && self.matches(labels)
    }

    /// Returns `matchLabels`: the labels that an object must have with these values.
    pub fn match_labels(&self) -> &Labels {
        &self.labels
    }
}

/// Returns a copy of a received `LabelSelector` with one more entry in `matchLabels`. All other fields remain unchanged.
///
/// # Errors
/// The selector is corrupted.
pub fn with_match_label(raw_selector: &RawMessage, key: &str, value: &str) -> Result<RawMessage, wire::Error> {
    #[derive(Default, Deserialize, Serialize)]
    #[serde(rename_all = "camelCase", default)]
    struct MatchLabels<'a> {
        #[serde(borrow)]
        match_labels: Option<BTreeMap<JsonStr<'a>, JsonStr<'a>>>,
    }
    #[derive(Serialize)]
    struct Extended<'a> {
        #[serde(flatten)]
        labels: MatchLabels<'a>,
        #[serde(flatten)]
        others: RawFields<'a>,
    }
    let mut labels: MatchLabels<'_> = raw_selector.decode(&LABEL_SELECTOR)?;
    labels.match_labels.get_or_insert_default().insert(key.into(), value.into());
    let others = raw_selector.fields_without(&LABEL_SELECTOR, &["matchLabels"]);
    raw_selector.encode_in_same_format(&LABEL_SELECTOR, &Extended { labels, others })
}

impl Operator {
    /// Whether the operator selects only objects that have the key.
    fn needs_key(self) -> bool {
        matches!(self, Self::In | Self::Exists)
    }
}

impl Requirement {
    /// Whether an object with this value of the key meets the requirement. `None` means that the object does not have the key.
    fn admits(&self, value: Option<&str>) -> bool {
        let is_listed = |value| self.values.binary_search_by(|listed| listed.as_str().cmp(value)).is_ok();
        match self.operator {
            Operator::In => value.is_some_and(is_listed),
            Operator::NotIn => !value.is_some_and(is_listed),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
        }
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.operator {
            Operator::Exists => f.write_str(&self.key),
            Operator::DoesNotExist => write!(f, "!{}", self.key),
            Operator::In => write!(f, "{} in ({})", self.key, self.values.join(",")),
            Operator::NotIn => write!(f, "{} notin ({})", self.key, self.values.join(",")),
        }
    }
}

/// Writes the selector in the form of the query parameter `labelSelector`, sorted by key.
///
/// A selector that matches nothing is written as a contradiction, because an empty parameter would select everything.
impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.state != State::Valid {
            return f.write_str("nothing,!nothing");
        }
        let mut parts: Vec<(&str, String)> = self.labels.iter().map(|(k, v)| (k, format!("{k}={v}"))).collect();
        parts.extend(self.expressions.iter().map(|r| (r.key.as_str(), r.to_string())));
        parts.sort_by(|a, b| a.0.cmp(b.0));
        f.write_str(&parts.into_iter().map(|(_, part)| part).collect::<Vec<_>>().join(","))
    }
}

impl<'de> Deserialize<'de> for Selector {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::from_value(&Value::deserialize(deserializer)?))
    }
}

fn compile(value: &Value) -> Result<Selector, SelectorError> {
    match value {
        Value::Null => return Ok(Selector::default()),
        Value::Object(_) => {}
        _ => return Err(SelectorError::WrongType("it", "an object")),
    }
    let labels = Labels::from_value(&value["matchLabels"]);
    let labels = labels.ok_or(SelectorError::WrongType("matchLabels", "a map of strings"))?;
    check_labels(&labels)?;
    let list = list(&value["matchExpressions"]).ok_or(SelectorError::WrongType("matchExpressions", "a list"))?;
    let mut expressions = list.iter().map(requirement).collect::<Result<Box<[_]>, _>>()?;
    expressions.sort_by(|a, b| a.key.cmp(&b.key));
    let needed = expressions.iter().filter(|requirement| requirement.operator.needs_key()).count();
    Ok(Selector { state: State::Valid, labels, expressions, needed })
}

/// Returns the elements of a list, and no elements for `null`. Returns `None` for any other value.
fn list(value: &Value) -> Option<&[Value]> {
    if value.is_null() { Some(&[]) } else { value.as_array().map(Vec::as_slice) }
}

fn check_labels(labels: &Labels) -> Result<(), SelectorError> {
    labels.iter().try_for_each(|(key, value)| check(key, [value]))
}

fn check<'a>(key: &str, values: impl IntoIterator<Item = &'a str>) -> Result<(), SelectorError> {
    if !is_label_key(key) {
        return Err(SelectorError::InvalidKey(key.to_owned()));
    }
    match values.into_iter().find(|v| !is_label_value(v)) {
        Some(value) => Err(SelectorError::InvalidValue(key.to_owned(), value.to_owned())),
        None => Ok(()),
    }
}

fn requirement(value: &Value) -> Result<Requirement, SelectorError> {
    let text = |name| value[name].as_str().unwrap_or_default();
    let key = text("key");
    let operator = match text("operator") {
        "In" => Operator::In,
        "NotIn" => Operator::NotIn,
        "Exists" => Operator::Exists,
        "DoesNotExist" => Operator::DoesNotExist,
        other => return Err(SelectorError::UnknownOperator(other.to_owned())),
    };
    let values = list(&value["values"]).and_then(|list| list.iter().map(|v| v.as_str().map(Text::new)).collect());
    let mut values: Vec<Text> = values.ok_or(SelectorError::WrongType("values", "a list of strings"))?;
    match (operator, values.is_empty()) {
        (Operator::In | Operator::NotIn, true) => return Err(SelectorError::NoValues(key.to_owned())),
        (Operator::Exists | Operator::DoesNotExist, false) => {
            return Err(SelectorError::UnexpectedValues(key.to_owned()));
        }
        _ => check(key, values.iter().map(Text::as_str))?,
    }
    values.sort();
    values.dedup();
    Ok(Requirement { key: Text::new(key), operator, values: values.into() })
}

/// Whether `key` is a valid label key: a name of at most 63 characters, after an optional DNS subdomain and a slash.
pub fn is_label_key(key: &str) -> bool {
    match key.split_once('/') {
        None => !key.is_empty() && is_label_value(key),
        Some((domain, name)) => is_dns_subdomain(domain) && !name.is_empty() && is_label_value(name),
    }
}

/// Whether `value` is a valid label value: empty, or at most 63 of `[A-Za-z0-9._-]`, beginning and ending alphanumerically.
pub fn is_label_value(value: &str) -> bool {
    let bytes = value.as_bytes();
    bytes.len() <= 63
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
        && [bytes.first(), bytes.last()].iter().all(|b| b.is_none_or(u8::is_ascii_alphanumeric))
}

/// Whether `text` is a DNS subdomain (RFC 1123), the form that most object names must have.
pub fn is_dns_subdomain(text: &str) -> bool {
    text.len() <= 253
        && text.split('.').all(|label| {
            !label.is_empty()
                && label.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
                && !label.starts_with('-')
                && !label.ends_with('-')
        })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        Labels::from_pairs(pairs.iter().copied())
    }

    #[test]
    fn a_null_selector_selects_nothing_and_an_empty_one_everything() {
        let (null, empty) = (Selector::from_value(&Value::Null), Selector::from_value(&json!({})));
        for set in [Labels::empty(), labels(&[("a", "1")])] {
            assert!(!null.matches(&set));
            assert!(empty.matches(&set));
        }
        assert!(null.is_null() && !null.is_empty() && empty.is_empty() && !empty.is_null());
        assert!(Selector::from_value(&json!({"matchLabels": {}, "matchExpressions": null})).is_empty());
    }

    #[test]
    fn expressions_match_like_upstream() {
        let cases = [
            (json!({"matchLabels": {"a": "1"}}), [true, false, false]),
            (json!({"matchExpressions": [{"key": "a", "operator": "In", "values": ["1", "2"]}]}), [true, true, false]),
            (json!({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["1"]}]}), [false, true, true]),
            (json!({"matchExpressions": [{"key": "a", "operator": "Exists"}]}), [true, true, false]),
            (
                json!({"matchExpressions": [{"key": "a", "operator": "DoesNotExist", "values": null}]}),
                [false, false, true],
            ),
            (
                json!({"matchLabels": {"a": "2"}, "matchExpressions": [{"key": "b", "operator": "DoesNotExist"}]}),
                [false, true, false],
            ),
        ];
        let sets = [labels(&[("a", "1")]), labels(&[("a", "2")]), labels(&[("b", "1")])];
        for (selector, want) in cases {
            let compiled = Selector::from_value(&selector);
            assert_eq!(compiled.validation_error(), None);
            assert_eq!(sets.each_ref().map(|set| compiled.matches(set)), want, "{selector}");
        }
    }

    #[test]
    fn an_invalid_selector_names_its_problem_and_matches_nothing() {
        let long = "x".repeat(64);
        for (selector, want) in [
            (json!("app=web"), "selector: it is not an object"),
            (json!({"matchLabels": ["a"]}), "selector: matchLabels is not a map of strings"),
            (json!({"matchLabels": {"a": 1}}), "selector: matchLabels is not a map of strings"),
            (json!({"matchLabels": {"": "1"}}), r#"selector: "" is not a valid label key"#),
            (json!({"matchLabels": {"a": "-"}}), r#"selector: "-" is not a valid label value for "a""#),
            (json!({"matchExpressions": {}}), "selector: matchExpressions is not a list"),
            (
                json!({"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}),
                r#"selector: "Gt" is not a valid label selector operator"#,
            ),
            (json!({"matchExpressions": [7]}), r#"selector: "" is not a valid label selector operator"#),
            (
                json!({"matchExpressions": [{"key": "a", "operator": "In"}]}),
                r#"selector: "a": for 'in', 'notin' operators, values set can't be empty"#,
            ),
            (
                json!({"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["x"]}]}),
                r#"selector: "a": values set must be empty for exists and does not exist"#,
            ),
            (
                json!({"matchExpressions": [{"key": "a", "operator": "In", "values": [null]}]}),
                "selector: values is not a list of strings",
            ),
            (
                json!({"matchExpressions": [{"key": "A_.b/", "operator": "Exists"}]}),
                r#"selector: "A_.b/" is not a valid label key"#,
            ),
            (
                json!({"matchLabels": {"a": long}}),
                &format!(r#"selector: "{}" is not a valid label value for "a""#, "x".repeat(64)),
            ),
        ] {
            let compiled: Selector = serde_json::from_value(selector.clone()).unwrap();
            assert_eq!(compiled.validation_error().unwrap().to_string(), want, "{selector}");
            assert!(!compiled.matches(&labels(&[("a", "1")])) && !compiled.is_empty() && compiled.validate().is_err());
        }
    }

    #[test]
    fn a_map_selects_equal_labels_and_an_empty_map_selects_nothing() {
        let selector = Selector::from_map(labels(&[("app", "web")]));
        assert!(selector.matches(&labels(&[("app", "web"), ("x", "y")])));
        assert!(!selector.matches(&labels(&[("app", "db")])));
        assert!(!Selector::from_map(Labels::empty()).matches(&Labels::empty()));
        assert!(Selector::from_map(labels(&[("a", "_")])).validation_error().is_some());
    }

    #[test]
    fn an_empty_selector_does_not_match_orphans() {
        let set = labels(&[("a", "1")]);
        assert!(!Selector::from_value(&json!({})).matches_orphan(&set));
        let negative = json!({"matchExpressions": [{"key": "b", "operator": "DoesNotExist"}]});
        assert!(Selector::from_value(&negative).matches_orphan(&set));
        assert!(!Selector::from_value(&negative).matches_orphan(&Labels::empty()));
    }

    #[test]
    fn writes_the_query_parameter() {
        let selector = Selector::from_value(&json!({
            "matchLabels": {"tier": "front", "app": "web"},
            "matchExpressions": [
                {"key": "env", "operator": "NotIn", "values": ["z", "b"]},
                {"key": "old", "operator": "DoesNotExist"},
                {"key": "k8s.io/part", "operator": "Exists"},
                {"key": "zone", "operator": "In", "values": ["a"]},
            ],
        }));
        assert_eq!(selector.to_string(), "app=web,env notin (b,z),k8s.io/part,!old,tier=front,zone in (a)");
        assert_eq!(Selector::from_value(&json!({})).to_string(), "");
        assert_eq!(Selector::default().to_string(), "nothing,!nothing");
    }

    #[test]
    fn values_are_sorted_and_distinct() {
        let expression = json!({"key": "zone", "operator": "In", "values": ["c", "a", "b", "c", "a"]});
        let selector = Selector::from_value(&json!({"matchExpressions": [expression]}));
        assert_eq!(selector.to_string(), "zone in (a,b,c)");
        for (zone, selected) in [("a", true), ("b", true), ("c", true), ("", false), ("aa", false), ("d", false)] {
            assert_eq!(selector.matches(&labels(&[("zone", zone)])), selected, "{zone}");
        }
    }

    #[test]
    fn only_the_expressions_on_keys_of_the_labels_are_evaluated() {
        let absent = |n: u32| json!({"key": format!("k{n}"), "operator": "DoesNotExist"});
        let mut expressions: Vec<Value> = (0..10_000).map(absent).collect();
        expressions.push(json!({"key": "app", "operator": "NotIn", "values": ["db"]}));
        expressions.push(json!({"key": "app", "operator": "Exists"}));
        let selector = Selector::from_value(&json!({"matchExpressions": expressions}));
        let (web, other) = (labels(&[("app", "web"), ("tier", "front")]), labels(&[("app", "web"), ("k77", "")]));
        assert_eq!(selector.on_keys_of(&web).count(), 2);
        assert!(selector.matches(&web) && !selector.matches(&other));
        assert!(!selector.matches(&labels(&[("tier", "front")])) && !selector.matches(&labels(&[("app", "db")])));
    }

    #[test]
    fn adding_a_match_label_keeps_everything_else() {
        let extended = |selector: Value, key| {
            let selector = RawMessage::deserialize(selector).unwrap();
            serde_json::to_value(with_match_label(&selector, key, "abc").unwrap()).unwrap()
        };
        assert_eq!(
            extended(json!({"matchLabels": {"app": "web"}, "matchExpressions": [], "newer": 1}), "pod-template-hash"),
            json!({"matchLabels": {"app": "web", "pod-template-hash": "abc"}, "matchExpressions": [], "newer": 1})
        );
        assert_eq!(extended(json!({"matchLabels": null}), "a"), json!({"matchLabels": {"a": "abc"}}));
    }

    proptest! {
        #[test]
        fn no_json_causes_a_panic(text in "\\PC{0,40}", key in "[a-zA-Z0-9./_-]{0,70}", operator in "(In|NotIn|Exists|Foo)") {
            let selector = Selector::from_value(&json!({"matchLabels": {key.clone(): text},
                "matchExpressions": [{"key": key, "operator": operator, "values": [text]}]}));
            let _ = (selector.to_string(), selector.matches(&Labels::empty()));
        }

        #[test]
        fn labels_are_selected_if_every_expression_selects_them(
            expressions in prop::collection::vec(("[a-d]", 0..4usize, prop::collection::vec("[x-z]", 1..4)), 0..6),
            pairs in prop::collection::btree_map("[a-d]", "[x-z]", 0..4),
        ) {
            let set = Labels::from_pairs(pairs.iter().map(|(k, v)| (k.as_str(), v.as_str())));
            let expression = |(key, operator, values): &(String, usize, Vec<String>)| {
                let values = if *operator < 2 { json!(values) } else { json!([]) };
                let operator = ["In", "NotIn", "Exists", "DoesNotExist"][*operator];
                json!({"key": key, "operator": operator, "values": values})
            };
            let holds = |(key, operator, values): &(String, usize, Vec<String>)| {
                let value = pairs.get(key);
                let listed = value.is_some_and(|value| values.contains(value));
                [listed, !listed, value.is_some(), value.is_none()][*operator]
            };
            let all: Vec<Value> = expressions.iter().map(expression).collect();
            let selector = Selector::from_value(&json!({"matchExpressions": all}));
            prop_assert_eq!(selector.matches(&set), expressions.iter().all(holds));
        }

        #[test]
        fn not_in_is_the_opposite_of_in(value in "[a-c]", values in prop::collection::vec("[a-c]", 1..4), has in any::<bool>()) {
            let set = if has { labels(&[("k", &value)]) } else { Labels::empty() };
            let matches = |operator: &str| {
                Selector::from_value(&json!({"matchExpressions": [{"key": "k", "operator": operator, "values": values}]}))
                    .matches(&set)
            };
            prop_assert_ne!(matches("In"), matches("NotIn"));
        }
    }
}
