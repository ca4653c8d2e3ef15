//! Label selectors: parsing with the real server's complaints, and matching.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{
    kinds::syntax::{label_value, qualified_name},
    names::quoted,
    object::at,
};

/// How one label must be.
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
pub(super) struct LabelSelector(Vec<(String, Operator)>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    End,
    Word,
    Open,
    Close,
    Comma,
    Not,
    Equals,
    DoubleEquals,
    NotEquals,
    Greater,
    Less,
    In,
    NotIn,
    Unknown,
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Lexer<'a> {
    fn next(&mut self) -> (Token, &'a str) {
        let rest = &self.text[self.at..];
        let trimmed = rest.trim_start_matches([' ', '\t', '\r', '\n']);
        self.at += rest.len() - trimmed.len();
        let Some(first) = trimmed.chars().next() else { return (Token::End, "") };
        let symbol = |c: char| matches!(c, '=' | '!' | '(' | ')' | ',' | '>' | '<');
        let (token, len) = if symbol(first) {
            match (first, trimmed.as_bytes().get(1)) {
                ('=', Some(b'=')) => (Token::DoubleEquals, 2),
                ('!', Some(b'=')) => (Token::NotEquals, 2),
                ('=', _) => (Token::Equals, 1),
                ('!', _) => (Token::Not, 1),
                ('(', _) => (Token::Open, 1),
                (')', _) => (Token::Close, 1),
                (',', _) => (Token::Comma, 1),
                ('>', _) => (Token::Greater, 1),
                ('<', _) => (Token::Less, 1),
                _ => (Token::Unknown, first.len_utf8()),
            }
        } else {
            let len =
                trimmed.find(|c: char| symbol(c) || matches!(c, ' ' | '\t' | '\r' | '\n')).unwrap_or(trimmed.len());
            match &trimmed[..len] {
                "in" => (Token::In, len),
                "notin" => (Token::NotIn, len),
                _ => (Token::Word, len),
            }
        };
        self.at += len;
        (token, &trimmed[..len])
    }
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    peeked: Option<(Token, &'a str)>,
}

impl<'a> Parser<'a> {
    /// The next token where a value or a key is expected: keywords are words there.
    fn peek(&mut self) -> (Token, &'a str) {
        let (token, text) = self.peek_operator();
        (if matches!(token, Token::In | Token::NotIn) { Token::Word } else { token }, text)
    }
    fn peek_operator(&mut self) -> (Token, &'a str) {
        *self.peeked.get_or_insert_with(|| self.lexer.next())
    }
    fn take(&mut self) -> (Token, &'a str) {
        let next = self.peek();
        self.peeked = None;
        next
    }
    fn take_operator(&mut self) -> (Token, &'a str) {
        let next = self.peek_operator();
        self.peeked = None;
        next
    }

    fn selector(&mut self) -> Result<LabelSelector, String> {
        let mut all = Vec::new();
        loop {
            match self.peek() {
                (Token::Word | Token::Not, _) => {
                    all.push(self.requirement().map_err(|e| format!("unable to parse requirement: {e}"))?);
                    match self.take() {
                        (Token::End, _) => break,
                        (Token::Comma, _) => match self.peek() {
                            (Token::Word | Token::Not, _) => {}
                            (_, text) => return Err(format!("found '{text}', expected: identifier after ','")),
                        },
                        (_, text) => return Err(format!("found '{text}', expected: ',' or 'end of string'")),
                    }
                }
                (Token::End, _) => break,
                (_, text) => return Err(format!("found '{text}', expected: !, identifier, or 'end of string'")),
            }
        }
        all.sort_by(|a: &(String, Operator), b| a.0.cmp(&b.0));
        Ok(LabelSelector(all))
    }

    fn requirement(&mut self) -> Result<(String, Operator), String> {
        let (mut token, mut text) = self.take();
        let absent = token == Token::Not;
        if absent {
            (token, text) = self.take();
        }
        if token != Token::Word {
            return Err(format!("found '{text}', expected: identifier"));
        }
        if let Some(why) = qualified_name(text).first() {
            return Err(format!("<nil>: Invalid value: {}: {why}", quoted(text)));
        }
        let key = text.to_owned();
        if absent {
            return Ok((key, Operator::Absent));
        }
        if matches!(self.peek().0, Token::End | Token::Comma) {
            return Ok((key, Operator::Exists));
        }
        let operator = match self.take_operator() {
            (Token::In, _) => Operator::In(self.values(&key)?),
            (Token::NotIn, _) => Operator::NotIn(self.values(&key)?),
            (Token::Equals | Token::DoubleEquals, _) => Operator::In(self.value(&key)?),
            (Token::NotEquals, _) => Operator::NotIn(self.value(&key)?),
            (Token::Greater, _) => Operator::Above(self.number(&key)?),
            (Token::Less, _) => Operator::Below(self.number(&key)?),
            (_, text) => return Err(format!("found '{text}', expected: in, notin, =, ==, !=, gt, lt")),
        };
        Ok((key, operator))
    }

    fn check(key: &str, values: BTreeSet<String>) -> Result<BTreeSet<String>, String> {
        for (i, value) in values.iter().enumerate() {
            if let Some(why) = label_value(value).first() {
                return Err(format!("values[{i}][{key}]: Invalid value: {}: {why}", quoted(value)));
            }
        }
        Ok(values)
    }

    fn exact(&mut self) -> Result<String, String> {
        if matches!(self.peek().0, Token::End | Token::Comma) {
            return Ok(String::new());
        }
        match self.take() {
            (Token::Word, text) => Ok(text.to_owned()),
            (_, text) => Err(format!("found '{text}', expected: identifier")),
        }
    }

    fn value(&mut self, key: &str) -> Result<BTreeSet<String>, String> {
        let value = self.exact()?;
        Self::check(key, BTreeSet::from([value]))
    }

    fn number(&mut self, key: &str) -> Result<i64, String> {
        let value = self.exact()?;
        Self::check(key, BTreeSet::from([value.clone()]))?;
        value.parse().map_err(|_| {
            format!(
                "values[0]: Invalid value: {}: for 'Gt', 'Lt' operators, the value must be an integer",
                quoted(&value)
            )
        })
    }

    fn values(&mut self, key: &str) -> Result<BTreeSet<String>, String> {
        let (token, text) = self.take();
        if token != Token::Open {
            return Err(format!("found '{text}' expected: '('"));
        }
        let mut set = BTreeSet::new();
        match self.peek() {
            (Token::Close, _) => {
                self.take();
                set.insert(String::new());
                return Ok(set);
            }
            (Token::Word | Token::Comma, _) => {}
            (_, text) => return Err(format!("found '{text}', expected: ',', ')' or identifier")),
        }
        loop {
            match self.take() {
                (Token::Word, text) => {
                    set.insert(text.to_owned());
                    match self.peek() {
                        (Token::Comma, _) => {}
                        (Token::Close, _) => break,
                        (_, text) => return Err(format!("found '{text}', expected: ',' or ')'")),
                    }
                }
                (Token::Comma, _) => {
                    if set.is_empty() {
                        set.insert(String::new());
                    }
                    match self.peek() {
                        (Token::Close, _) => {
                            set.insert(String::new());
                            break;
                        }
                        (Token::Comma, _) => {
                            self.take();
                            set.insert(String::new());
                        }
                        _ => {}
                    }
                }
                (_, text) => return Err(format!("found '{text}', expected: ',', or identifier")),
            }
        }
        match self.take() {
            (Token::Close, _) => Self::check(key, set),
            (_, text) => Err(format!("found '{text}', expected: ')'")),
        }
    }
}

impl LabelSelector {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        Parser { lexer: Lexer { text, at: 0 }, peeked: None }.selector()
    }

    /// From a `LabelSelector` object; an absent one selects nothing.
    pub(super) fn from_object(selector: &Value) -> Option<Self> {
        let selector = selector.as_object()?;
        let strings = |v: Option<&Value>| -> BTreeSet<String> {
            v.and_then(Value::as_array).into_iter().flatten().filter_map(|v| v.as_str().map(str::to_owned)).collect()
        };
        let mut all = Vec::new();
        for (key, value) in selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten() {
            let value = value.as_str().unwrap_or_default().to_owned();
            all.push((key.clone(), Operator::In(BTreeSet::from([value]))));
        }
        for term in selector.get("matchExpressions").and_then(Value::as_array).into_iter().flatten() {
            let values = strings(term.get("values"));
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
    pub(super) fn from_map(labels: &Value) -> Self {
        let of = |(k, v): (&String, &Value)| {
            (k.clone(), Operator::In(BTreeSet::from([v.as_str().unwrap_or_default().to_owned()])))
        };
        Self(labels.as_object().into_iter().flatten().map(of).collect())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
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

/// Labels of an object.
pub(super) fn labels_of(object: &Value) -> BTreeMap<String, String> {
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
    fn malformed_label_selectors_are_refused_in_the_real_server_s_words() {
        for (selector, want) in [
            ("a===b", "unable to parse requirement: found '=', expected: identifier"),
            ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
            ("a in b", "unable to parse requirement: found 'b' expected: '('"),
            ("!", "unable to parse requirement: found '', expected: identifier"),
            (",", "found ',', expected: !, identifier, or 'end of string'"),
            ("a=b,", "found '', expected: identifier after ','"),
            ("a!b", "unable to parse requirement: found '!', expected: in, notin, =, ==, !=, gt, lt"),
            ("a=b c", "found 'c', expected: ',' or 'end of string'"),
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
