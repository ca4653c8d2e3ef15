//! Fields whose bytes are kept: the `data` of a `ControllerRevision`.
//!
//! The real server stores such a field as it came, compares it byte by byte, and writes it compact and escaped. Objects
//! are values here, which have no bytes; the text travels beside them, under a key that no JSON object of a client has
//! on its way from the request to the store, and with the stored version from then on.

use std::collections::BTreeMap;

use serde_json::{Value, value::RawValue};

use crate::{api::resource::Resource, value::object::as_map};

/// Where the text is while the object is on its way.
const KEY: &str = "\0raw";

/// The field whose bytes are kept.
pub(crate) const FIELD: &str = "data";

/// Whether a resource has the field.
pub(crate) fn is_kept(resource: &Resource) -> bool {
    resource.is("apps", "controllerrevisions")
}

/// Remembers the field's text as it stands in the body of a request, if that is JSON.
pub(crate) fn remember(resource: &Resource, object: &mut Value, body: &[u8]) {
    if !is_kept(resource) {
        return;
    }
    let Ok(fields) = serde_json::from_slice::<BTreeMap<&str, &RawValue>>(body) else { return };
    if let Some(text) = fields.get(FIELD) {
        as_map(object).insert(KEY.into(), text.get().into());
    }
}

/// Takes the text off an object again.
pub(crate) fn take(object: &mut Value) -> Option<String> {
    match object.as_object_mut()?.remove(KEY)? {
        Value::String(text) => Some(text),
        _ => None,
    }
}

/// Puts a text onto an object that is to be stored.
pub(crate) fn put(object: &mut Value, text: Option<String>) {
    if let Some(text) = text {
        as_map(object).insert(KEY.into(), text.into());
    }
}

/// JSON without space between its tokens, `<`, `>` and `&` escaped: what becomes of a text that is encoded again.
pub(crate) fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let (mut quoted, mut escaped) = (false, false);
    for c in text.chars() {
        match c {
            ' ' | '\t' | '\r' | '\n' if !quoted => continue,
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                out.push_str(&format_escape(c));
                escaped = false;
                continue;
            }
            '"' if !escaped => quoted = !quoted,
            _ => {}
        }
        escaped = c == '\\' && !escaped;
        out.push(c);
    }
    out
}

fn format_escape(c: char) -> String {
    format!("\\u{:04x}", c as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoding_again_compacts_and_escapes_and_keeps_order() {
        let text = "{ \"b\" : \"<a \\\" b>\",\n \"a\": [1, 2] }";
        assert_eq!(encoded(text), "{\"b\":\"\\u003ca \\\" b\\u003e\",\"a\":[1,2]}");
        assert_eq!(encoded(&encoded(text)), encoded(text));
    }
}
