//! The keys of a work queue.

use std::{fmt, hash::Hash};

use crate::meta::NamespacedName;

/// The key of an object in a work queue.
pub trait QueueKey: Clone + Ord + Hash + fmt::Display + Send + Sync + 'static {
    /// The form of a key, for the error about a text that is not a key.
    const FORM: &'static str = "the NAMESPACE/NAME of an object";

    /// Parses the output of `Display`; `None` if the text is not a key.
    fn parse(text: &str) -> Option<Self>;

    /// Returns the unit that has its own limit on retries: the namespace of the key, or "" for cluster-scoped objects.
    ///
    /// Many failing keys of one namespace therefore do not delay the failing keys of another namespace.
    fn tenant(&self) -> &str;
}

impl QueueKey for NamespacedName {
    fn parse(text: &str) -> Option<Self> {
        match text.split_once('/') {
            Some((namespace, name)) if !name.is_empty() => Some(Self::new(namespace, name)),
            None if !text.is_empty() => Some(Self::new("", text)),
            _ => None,
        }
    }

    fn tenant(&self) -> &str {
        &self.namespace
    }
}

/// Defines the type of the key of a loop that has a single key, for example because each sync examines the whole cluster.
///
/// `periodic_key!(PassKey, "pass")` defines `PassKey`, whose text in diagnostics is `pass`.
#[macro_export]
macro_rules! periodic_key {
    ($name:ident, $text:literal) => {
        #[doc = concat!("The only key of a queue; its text is `", $text, "`.")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub(crate) struct $name;

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str($text)
            }
        }

        impl $crate::queue::QueueKey for $name {
            const FORM: &'static str = concat!("`", $text, "`");

            fn parse(text: &str) -> Option<Self> {
                (text == $text).then_some(Self)
            }

            fn tenant(&self) -> &'static str {
                ""
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::QueueKey as _;

    periodic_key!(PassKey, "pass");

    #[test]
    fn a_periodic_key_has_one_text() {
        assert_eq!(PassKey.to_string(), "pass");
        assert_eq!((PassKey::parse("pass"), PassKey::parse("other")), (Some(PassKey), None));
    }
}
