//! A cache of values that are parsed from parts of objects.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::{map::HashMap, meta::Uid, wire::RawMessage};

/// Values parsed from one part of each object, for example its Pod template, by the UID of the object.
///
/// Every write of a status brings a new version of the object with the same template. Comparing the bytes is much cheaper than
/// parsing, encoding and hashing it again.
#[derive(Debug)]
pub struct ParseCache<T>(Mutex<HashMap<Uid, (RawMessage, Arc<T>)>>);

impl<T> Default for ParseCache<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> ParseCache<T> {
    /// Returns the parsed value of `raw`. Calls `parse` only if the part of the object is new or has changed.
    pub fn get_or_parse<E>(
        &self,
        object: &Uid,
        raw: &RawMessage,
        parse: impl FnOnce(&RawMessage) -> Result<T, E>,
    ) -> Result<Arc<T>, E> {
        if let Some((_, known)) = self.0.lock().get(object).filter(|(part, _)| part == raw) {
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
    use serde::Deserialize;
    use serde_json::{Value, json};

    use super::*;
    use crate::wire::messages::POD_TEMPLATE_SPEC;

    #[test]
    fn a_part_is_parsed_once_for_each_object() {
        let (parsed, uid, count) = (ParseCache::default(), Uid::new("SET"), std::cell::Cell::new(0));
        let get = |value: Value| {
            let raw = RawMessage::deserialize(&value).unwrap();
            let parse = |raw: &RawMessage| {
                count.set(count.get() + 1);
                raw.decode::<Value>(&POD_TEMPLATE_SPEC)
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
