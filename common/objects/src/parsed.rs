//! What is parsed out of texts that objects carry, parsed once for each text.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::{json::Raw, map::HashMap, meta::Uid};

/// What was parsed out of one text of each object, by the uid of the object: of its Pod template, for one.
///
/// Every write of a status brings a new version of an object with the template it had before: comparing the text is much cheaper
/// than parsing, encoding and hashing it again.
#[derive(Debug)]
pub struct Parsed<T>(Mutex<HashMap<Uid, (Raw, Arc<T>)>>);

impl<T> Default for Parsed<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Parsed<T> {
    /// What `parse` makes of `raw`. It is called only if the object had another text before, or none.
    pub fn get<E>(&self, object: &Uid, raw: &Raw, parse: impl FnOnce(&Raw) -> Result<T, E>) -> Result<Arc<T>, E> {
        if let Some((_, known)) = self.0.lock().get(object).filter(|(text, _)| text == raw) {
            return Ok(Arc::clone(known));
        }
        let parsed = Arc::new(parse(raw)?);
        self.0.lock().insert(object.clone(), (raw.clone(), Arc::clone(&parsed)));
        Ok(parsed)
    }

    /// Of how many objects something is kept.
    pub fn len(&self) -> usize {
        self.0.lock().len()
    }

    /// Whether nothing is kept.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Drops what was parsed for an object that is gone.
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
        let (parsed, uid, count) = (Parsed::default(), Uid::new("SET"), std::cell::Cell::new(0));
        let get = |value: Value| {
            let raw = Raw::from_value(&value).unwrap();
            let parse = |raw: &Raw| {
                count.set(count.get() + 1);
                raw.value()
            };
            (*parsed.get(&uid, &raw, parse).unwrap()).clone()
        };
        assert_eq!((get(json!({"a": 1})), get(json!({"a": 1})), count.get()), (json!({"a": 1}), json!({"a": 1}), 1));
        assert_eq!((get(json!({"b": 1})), get(json!({"b": 1})), count.get()), (json!({"b": 1}), json!({"b": 1}), 2));
        assert_eq!(parsed.len(), 1);
        parsed.forget(&uid);
        assert!(parsed.is_empty());
        assert_eq!((get(json!({"b": 1})), count.get()), (json!({"b": 1}), 3));
    }
}
