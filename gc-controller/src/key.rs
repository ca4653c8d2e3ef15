//! The key of the two queues, for deletions and for orphaning.

use std::fmt;

use common::prelude::*;

/// An object in a queue, by UID.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ObjectKey(pub Uid);

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl QueueKey for ObjectKey {
    const FORM: &'static str = "the UID of an object";

    /// Accepts only the form of the UIDs that API servers set, so that the name of an object is an error and not an object that
    /// does not exist.
    fn parse(text: &str) -> Option<Self> {
        let has_form = text.len() == 36
            && text.bytes().enumerate().all(|(place, byte)| match place {
                8 | 13 | 18 | 23 => byte == b'-',
                _ => byte.is_ascii_hexdigit(),
            });
        has_form.then(|| Self(Uid::new(text)))
    }

    /// Returns one tenant (the unit for limits on retries) for all objects, because a UID does not contain the namespace.
    fn tenant(&self) -> &'static str {
        ""
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_text_in_the_form_of_a_uid_is_a_key() {
        let uid = "0b9c7a52-6a0e-4f6c-9a31-5f2d1c8e7b40";
        assert_eq!(ObjectKey::parse(uid).map(|key| key.to_string()).as_deref(), Some(uid));
        for text in
            ["", "shop/web", "web", "0b9c7a52", "0b9c7a52-6a0e-4f6c-9a31-5f2d1c8e7b4g", &uid[1..], &format!("{uid}0")]
        {
            assert_eq!(ObjectKey::parse(text), None, "{text}");
        }
    }
}
