//! Owners that are known not to exist.

use common::map::HashSet;

use super::{ABSENT_CAPACITY, Identity};

/// Maximum length in bytes of name and UID together. Real objects are shorter, but a reference may contain texts of any length.
/// A longer identity is not stored; the owner is looked up each time.
const MAX_IDENTITY_BYTES: usize = 512;

/// A bounded set of identities without an object. When full, it drops the least recently used identities, which are looked up
/// again when needed. UIDs are never reused, so a stored identity cannot become wrong.
#[derive(Default)]
pub(super) struct AbsentObjects {
    young: HashSet<Identity>,
    old: HashSet<Identity>,
}

impl AbsentObjects {
    pub(super) fn insert(&mut self, identity: Identity) {
        if identity.name.len() + identity.uid.to_string().len() > MAX_IDENTITY_BYTES {
            return;
        }
        if self.young.len() >= ABSENT_CAPACITY / 2 {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(identity);
    }

    pub(super) fn contains(&mut self, identity: &Identity) -> bool {
        if self.young.contains(identity) {
            return true;
        }
        let known = self.old.contains(identity);
        if known {
            self.insert(identity.clone());
        }
        known
    }
}

#[cfg(test)]
mod tests;
