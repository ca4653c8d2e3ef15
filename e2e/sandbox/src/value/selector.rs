//! Label selectors: parsing, with the usual complaints in the real server's words, and matching.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::value::{
    errors::quoted,
    object::{at, strings},
    syntax::{label_value, qualified_name},
};

#[derive(Clone, Debug, PartialEq, Eq)]
enum Operator {
    In(BTreeSet<String>),
    NotIn(BTreeSet<String>),
    Exists,
    Absent,
    Above(i64),
    Below(i64),
}

/// A conjunction of label requirements.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LabelSelector(Vec<(String, Operator)>);

fn is_delimiter(c: char) -> bool {
    c.is_ascii_whitespace() || matches!(c, '=' | '!' | '(' | ')' | ',' | '>' | '<')
}

/// The requirements of a selector: what stands between the commas outside of parentheses.
fn split_requirements(text: &str) -> Vec<&str> {
    let mut depth = 0_i32;
    let ends = text.char_indices().filter(|(_, c)| {
        depth += i32::from(*c == '(') - i32::from(*c == ')');
        *c == ',' && depth <= 0
    });
    let mut from = 0;
    let mut parts = Vec::new();
    for (end, _) in ends {
        parts.push(&text[from..end]);
        from = end + 1;
    }
    parts.push(&text[from..]);
    parts
}

/// Parses what stands behind an operator, for a key.
type ParseOperand = fn(&str, &str) -> Result<Operator, String>;

fn parse_requirement(text: &str) -> Result<(String, Operator), String> {
    let text = text.trim();
    let (absent, text) = text.strip_prefix('!').map_or((false, text), |text| (true, text.trim_start()));
    let (key, rest) = text.split_at(text.find(is_delimiter).unwrap_or(text.len()));
    let rest = rest.trim_start();
    if key.is_empty() {
        return Err(format!("found '{rest}', expected: identifier"));
    }
    if let Some(why) = qualified_name(key).first() {
        return Err(format!("<nil>: Invalid value: {}: {why}", quoted(key)));
    }
    let operators: [(&str, ParseOperand); 7] = [
        ("!=", |key, value| Ok(Operator::NotIn(parse_values(key, value, None)?))),
        ("==", |key, value| Ok(Operator::In(parse_values(key, value, None)?))),
        ("=", |key, value| Ok(Operator::In(parse_values(key, value, None)?))),
        (">", |key, value| Ok(Operator::Above(parse_number(key, value)?))),
        ("<", |key, value| Ok(Operator::Below(parse_number(key, value)?))),
        ("notin", |key, list| Ok(Operator::NotIn(parse_list(key, list)?))),
        ("in", |key, list| Ok(Operator::In(parse_list(key, list)?))),
    ];
    let found = operators.iter().find_map(|(sign, parse)| Some((rest.strip_prefix(sign)?.trim(), parse)));
    let operator = match found {
        _ if absent && rest.is_empty() => Operator::Absent,
        _ if !absent && rest.is_empty() => Operator::Exists,
        Some((operand, parse)) if !absent => parse(key, operand)?,
        _ => return Err(format!("found '{rest}', expected: in, notin, =, ==, !=, gt, lt")),
    };
    Ok((key.to_owned(), operator))
}

/// The values of a text, separated by `separator` if there is one.
fn parse_values(key: &str, text: &str, separator: Option<char>) -> Result<BTreeSet<String>, String> {
    let values: BTreeSet<&str> = match separator {
        Some(separator) => text.split(separator).map(str::trim).collect(),
        None => BTreeSet::from([text]),
    };
    for (i, value) in values.iter().enumerate() {
        if let Some(found) = value.chars().find(|c| is_delimiter(*c)) {
            return Err(format!("found '{found}', expected: identifier"));
        }
        if let Some(why) = label_value(value).first() {
            return Err(format!("values[{i}][{key}]: Invalid value: {}: {why}", quoted(value)));
        }
    }
    Ok(values.into_iter().map(str::to_owned).collect())
}

fn parse_list(key: &str, text: &str) -> Result<BTreeSet<String>, String> {
    let inner = text.strip_prefix('(').ok_or_else(|| format!("found '{text}' expected: '('"))?;
    let inner = inner.strip_suffix(')').ok_or("found '', expected: ',' or ')'")?;
    parse_values(key, inner, Some(','))
}

fn parse_number(key: &str, text: &str) -> Result<i64, String> {
    parse_values(key, text, None)?;
    let why = "for 'Gt', 'Lt' operators, the value must be an integer";
    text.parse().map_err(|_| format!("values[0]: Invalid value: {}: {why}", quoted(text)))
}

impl LabelSelector {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut all = Vec::new();
        for part in split_requirements(text).into_iter().filter(|_| !text.trim().is_empty()) {
            all.push(parse_requirement(part).map_err(|error| format!("unable to parse requirement: {error}"))?);
        }
        all.sort_by(|a: &(String, Operator), b| a.0.cmp(&b.0));
        Ok(Self(all))
    }

    /// From a `LabelSelector` object; an absent one selects nothing.
    pub(crate) fn from_object(selector: &Value) -> Option<Self> {
        let selector = selector.as_object()?;
        let mut all = Vec::new();
        for (key, value) in selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten() {
            let value = value.as_str().unwrap_or_default().to_owned();
            all.push((key.clone(), Operator::In(BTreeSet::from([value]))));
        }
        for term in selector.get("matchExpressions").and_then(Value::as_array).into_iter().flatten() {
            let values = strings(at(term, &["values"])).into_iter().collect();
            let operator = match term.get("operator").and_then(Value::as_str)? {
                "In" => Operator::In(values),
                "NotIn" => Operator::NotIn(values),
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::Absent,
                _ => return None,
            };
            all.push((term.get("key").and_then(Value::as_str)?.to_owned(), operator));
        }
        all.sort_by(|a, b| a.0.cmp(&b.0));
        Some(Self(all))
    }

    /// From a map of labels that must all be there.
    pub(crate) fn from_map(labels: &Value) -> Self {
        let of = |(k, v): (&String, &Value)| {
            (k.clone(), Operator::In(BTreeSet::from([v.as_str().unwrap_or_default().to_owned()])))
        };
        Self(labels.as_object().into_iter().flatten().map(of).collect())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.0.iter().all(|(key, operator)| {
            let value = labels.get(key);
            match operator {
                Operator::In(set) => value.is_some_and(|v| set.contains(v)),
                Operator::NotIn(set) => value.is_none_or(|v| !set.contains(v)),
                Operator::Exists => value.is_some(),
                Operator::Absent => value.is_none(),
                Operator::Above(n) => value.and_then(|v| v.parse::<i64>().ok()).is_some_and(|v| v > *n),
                Operator::Below(n) => value.and_then(|v| v.parse::<i64>().ok()).is_some_and(|v| v < *n),
            }
        })
    }
}

impl std::fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (i, (key, operator)) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            let joined = |set: &BTreeSet<String>| set.iter().cloned().collect::<Vec<_>>().join(",");
            match operator {
                Operator::In(set) if set.len() == 1 => write!(f, "{key}={}", joined(set))?,
                Operator::In(set) => write!(f, "{key} in ({})", joined(set))?,
                Operator::NotIn(set) if set.len() == 1 => write!(f, "{key}!={}", joined(set))?,
                Operator::NotIn(set) => write!(f, "{key} notin ({})", joined(set))?,
                Operator::Exists => write!(f, "{key}")?,
                Operator::Absent => write!(f, "!{key}")?,
                Operator::Above(n) => write!(f, "{key}>{n}")?,
                Operator::Below(n) => write!(f, "{key}<{n}")?,
            }
        }
        Ok(())
    }
}

pub(crate) fn labels_of(object: &Value) -> BTreeMap<String, String> {
    let labels = at(object, &["metadata", "labels"]).as_object();
    labels.into_iter().flatten().filter_map(|(k, v)| Some((k.clone(), v.as_str()?.to_owned()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    #[test]
    fn label_selectors_select() {
        let have = labels(&[("a", "1"), ("b", "x"), ("in", "y")]);
        for (selector, want) in [
            ("", true),
            ("a=1,b==x", true),
            ("a!=1", false),
            ("c!=1", true),
            ("a in (1, 2)", true),
            ("a notin (1,2)", false),
            ("c notin (1)", true),
            ("a", true),
            ("!a", false),
            ("!c", true),
            ("a>0", true),
            ("a<1", false),
            ("in", true),
            ("in in (y)", true),
            ("c=", false),
            ("a in (,1)", true),
        ] {
            assert_eq!(LabelSelector::parse(selector).unwrap().matches(&have), want, "{selector}");
        }
    }

    #[test]
    fn malformed_label_selectors_are_refused() {
        for (selector, want) in [
            ("a===b", "unable to parse requirement: found '=', expected: identifier"),
            ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
            ("a in b", "unable to parse requirement: found 'b' expected: '('"),
            ("!", "unable to parse requirement: found '', expected: identifier"),
            (",", "unable to parse requirement: found '', expected: identifier"),
            ("a=b,", "unable to parse requirement: found '', expected: identifier"),
            ("a!b", "unable to parse requirement: found '!b', expected: in, notin, =, ==, !=, gt, lt"),
            ("a=b c", "unable to parse requirement: found ' ', expected: identifier"),
            (
                "a<x",
                "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an integer",
            ),
        ] {
            assert_eq!(LabelSelector::parse(selector).unwrap_err(), want, "{selector}");
        }
    }

    #[test]
    fn a_selector_prints_as_kubectl_shows_it() {
        let selector = serde_json::json!({
            "matchLabels": {"app": "web"},
            "matchExpressions": [{"key": "tier", "operator": "In", "values": ["b", "a"]}, {"key": "x", "operator": "DoesNotExist"}]
        });
        assert_eq!(LabelSelector::from_object(&selector).unwrap().to_string(), "app=web,tier in (a,b),!x");
    }
}
