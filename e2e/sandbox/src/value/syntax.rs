//! What names, keys and values must look like, in the words of the real server. Each function returns what is wrong;
//! nothing when all is well.

use std::net::IpAddr;

/// A message about a regular expression that does not match, with examples.
fn mismatch(what: &str, regex: &str, examples: &[&str]) -> String {
    if examples.is_empty() {
        return format!("{what} (regex used for validation is '{regex}')");
    }
    let examples: Vec<String> = examples.iter().map(|example| format!("'{example}', ")).collect();
    format!("{what} (e.g. {}regex used for validation is '{regex}')", examples.join(" or "))
}

fn too_long(max: usize) -> String {
    format!("must be no more than {max} characters")
}

fn too_many_bytes(max: usize) -> String {
    format!("must be no more than {max} bytes")
}

pub(crate) fn out_of_range(low: i64, high: i64) -> String {
    format!("must be between {low} and {high}, inclusive")
}

fn lower_alphanumeric(b: u8) -> bool {
    b.is_ascii_lowercase() || b.is_ascii_digit()
}

fn framed(text: &str, edge: impl Fn(u8) -> bool, inner: impl Fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    matches!((bytes.first(), bytes.last()), (Some(&first), Some(&last)) if edge(first) && edge(last))
        && bytes.iter().all(|&b| inner(b))
}

fn is_label(text: &str) -> bool {
    framed(text, lower_alphanumeric, |b| lower_alphanumeric(b) || b == b'-')
}

fn is_subdomain(text: &str) -> bool {
    text.split('.').all(is_label)
}

fn is_word(text: &str) -> bool {
    framed(text, |b| b.is_ascii_alphanumeric(), |b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

const LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const SUBDOMAIN: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const WORD: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const WORD_RULE: &str =
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";

pub(crate) fn label(text: &str) -> Vec<String> {
    let mut wrong = vec![];
    if text.len() > 63 {
        wrong.push(too_long(63));
    }
    if !is_label(text) {
        wrong.push(if is_subdomain(text) {
            "must not contain dots".to_owned()
        } else {
            let rule = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character";
            mismatch(rule, LABEL, &["my-name", "123-abc"])
        });
    }
    wrong
}

pub(crate) fn subdomain(text: &str) -> Vec<String> {
    let mut wrong = vec![];
    if text.len() > 253 {
        wrong.push(too_long(253));
    }
    wrong.extend(subdomain_form(text));
    wrong
}

fn subdomain_form(text: &str) -> Option<String> {
    (!is_subdomain(text)).then(|| {
        let rule = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character";
        mismatch(rule, SUBDOMAIN, &["example.com"])
    })
}

pub(crate) fn qualified_name(text: &str) -> Vec<String> {
    let examples = ["MyName", "my.name", "123-abc"];
    let mut wrong = vec![];
    let name = match text.split_once('/') {
        None => text,
        Some((_, rest)) if rest.contains('/') => {
            let rule = mismatch(WORD_RULE, WORD, &examples);
            return vec![format!(
                "a valid label key {rule} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
        Some(("", name)) => {
            wrong.push("prefix part must be non-empty".to_owned());
            name
        }
        Some((prefix, name)) => {
            if prefix.len() > 253 {
                wrong.push(format!("prefix part {}", too_many_bytes(253)));
            }
            wrong.extend(subdomain_form(prefix).into_iter().map(|message| format!("prefix part {message}")));
            name
        }
    };
    if name.is_empty() {
        wrong.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        wrong.push(format!("name part {}", too_many_bytes(63)));
    }
    if !is_word(name) {
        wrong.push(format!("name part {}", mismatch(WORD_RULE, WORD, &examples)));
    }
    wrong
}

pub(crate) fn condition_reason(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let right = bytes.first().is_some_and(u8::is_ascii_alphabetic)
        && bytes.last().is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_')
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b',' | b':'));
    (!right).then(|| {
        let rule = "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric characters or '_,:', and must end with an alphanumeric character or '_'";
        let examples = ["my_name", "MY_NAME", "MyName", "ReasonA,ReasonB", "ReasonA:ReasonB"];
        mismatch(rule, "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?", &examples)
    })
}

pub(crate) fn label_value(text: &str) -> Vec<String> {
    let mut wrong = vec![];
    if text.len() > 63 {
        wrong.push(too_many_bytes(63));
    }
    if !text.is_empty() && !is_word(text) {
        let rule = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
        wrong.push(mismatch(rule, "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?", &["MyValue", "my_value", "12345"]));
    }
    wrong
}

pub(crate) fn config_key(text: &str) -> Vec<String> {
    let mut wrong = vec![];
    if text.len() > 253 {
        wrong.push(too_long(253));
    }
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.')) {
        let rule = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'";
        wrong.push(mismatch(rule, "[-._a-zA-Z0-9]+", &["key.name", "KEY_NAME", "key-name"]));
    }
    match text {
        "." => wrong.push("must not be '.'".to_owned()),
        ".." => wrong.push("must not be '..'".to_owned()),
        _ if text.starts_with("..") => wrong.push("must not start with '..'".to_owned()),
        _ => {}
    }
    wrong
}

pub(crate) fn port_name(text: &str) -> Vec<String> {
    let mut wrong = vec![];
    if text.len() > 15 {
        wrong.push(too_long(15));
    }
    if text.is_empty() || !text.bytes().all(|b| lower_alphanumeric(b) || b == b'-') {
        wrong.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned());
    }
    if !text.bytes().any(|b| b.is_ascii_lowercase()) {
        wrong.push("must contain at least one letter (a-z)".to_owned());
    }
    if text.contains("--") {
        wrong.push("must not contain consecutive hyphens".to_owned());
    }
    if text.starts_with('-') || text.ends_with('-') {
        wrong.push("must not begin or end with a hyphen".to_owned());
    }
    wrong
}

pub(crate) fn port_number(number: i64) -> Option<String> {
    (!(1..=65535).contains(&number)).then(|| out_of_range(1, 65535))
}

pub(crate) fn percent(text: &str) -> Option<String> {
    let digits = text.strip_suffix('%').unwrap_or_default();
    let valid = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    let rule = "a valid percent string must be a numeric string followed by an ending '%'";
    (!valid).then(|| mismatch(rule, "[0-9]+%", &["1%", "93%"]))
}

pub(crate) fn ip_error(text: &str) -> Option<&'static str> {
    match text.parse::<IpAddr>() {
        Ok(IpAddr::V6(address)) if address.to_ipv4_mapped().is_some() => {
            Some("must not be an IPv4-mapped IPv6 address")
        }
        Ok(_) => None,
        Err(_) if sloppy_ipv4(text).is_some() => Some("must not have leading 0s"),
        Err(_) => Some("must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"),
    }
}

/// An IPv4 address with leading zeros, as older software reads it.
fn sloppy_ipv4(text: &str) -> Option<IpAddr> {
    let octets: Vec<&str> = text.split('.').collect();
    if octets.len() != 4 || !octets.iter().all(|o| !o.is_empty() && o.bytes().all(|b| b.is_ascii_digit())) {
        return None;
    }
    let numbers: Vec<u8> = octets.iter().filter_map(|octet| octet.parse().ok()).collect();
    <[u8; 4]>::try_from(numbers).ok().map(IpAddr::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_what_is_right() {
        assert!(label("a-1").is_empty() && subdomain("a.b-c").is_empty());
        assert!(qualified_name("example.com/My_name.x").is_empty() && qualified_name("x").is_empty());
        assert!(label_value("").is_empty() && label_value("A_b-1.c").is_empty());
        assert!(config_key("a.b_C").is_empty() && port_name("http-1").is_empty());
        assert!(percent("25%").is_none() && port_number(1).is_none());
        assert!(ip_error("10.0.0.1").is_none() && ip_error("::1").is_none());
    }

    #[test]
    fn says_what_is_wrong() {
        assert_eq!(label("a.b"), ["must not contain dots"]);
        assert_eq!(port_name("a--b").len(), 1);
        assert_eq!(config_key("..x"), ["must not start with '..'"]);
        assert_eq!(ip_error("010.0.0.1"), Some("must not have leading 0s"));
        assert_eq!(ip_error("::ffff:1.2.3.4"), Some("must not be an IPv4-mapped IPv6 address"));
    }
}
