//! A cache of values that are parsed from texts inside objects.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::{json::RawJson, map::HashMap, meta::Uid};

/// Values parsed from one text of each object, for example its Pod template, by the UID of the object.
///
/// Every write of a status brings a new version of the object with the same template. Comparing the text is much cheaper than
/// parsing, encoding and hashing it again.
#[derive(Debug)]
pub struct ParseCache<T>(Mutex<HashMap<Uid, (RawJson, Arc<T>)>>);

impl<T> Default for ParseCache<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> ParseCache<T> {
    /// Returns the parsed value of `raw`. Calls `parse` only if the text of the object is new or has changed.
    pub fn get_or_parse<E>(
        &self,
        object: &Uid,
        raw: &RawJson,
        parse: impl FnOnce(&RawJson) -> Result<T, E>,
    ) -> Result<Arc<T>, E> {
        if let Some((_, known)) = self.0.lock().get(object).filter(|(text, _)| text == raw) {
            return Ok(Arc::clone(known));
        }
        let parsed = Arc::new(parse(raw)?);
        self.0.lock().insert(object.clone(), (raw.clone(), Arc::clone(&parsed)));
        Ok(parsed)
    }

    /// Returns the number of objects with a cached value.
    pub fn len(&self) -> usize {
        self.0.lock().len()
    }

    /// Whether no object has a cached value, as before the first call of [`ParseCache::get_or_parse`].
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Drops the value of an object that no longer exists.
    pub fn forget(&self, object: &Uid) {
        self.0.lock().remove(object);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_text_is_parsed_once_for_each_object() {
        let (parsed, uid, count) = (ParseCache::default(), Uid::new("SET"), std::cell::Cell::new(0));
        let get = |value: Value| {
            let raw = RawJson::from_value(&value).unwrap();
            let parse = |raw: &RawJson| {
                count.set(count.get() + 1);
                raw.parse_value()
            };
            (*parsed.get_or_parse(&uid, &raw, parse).unwrap()).clone()
        };
        assert_eq!((get(json!({"a": 1})), get(json!({"a": 1})), count.get()), (json!({"a": 1}), json!({"a": 1}), 1));
        assert_eq!((get(json!({"b": 1})), get(json!({"b": 1})), count.get()), (json!({"b": 1}), json!({"b": 1}), 2));
        assert_eq!(parsed.len(), 1);
        parsed.forget(&uid);
        assert!(parsed.is_empty());
        assert_eq!((get(json!({"b": 1})), count.get()), (json!({"b": 1}), 3));
    }
}
