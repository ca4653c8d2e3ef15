//! Objects that are known not to exist.

use common::map::HashSet;

use super::{ABSENT, Identity};

/// Names and uids in references are as long as whoever writes them likes. An object's are shorter than this; what is longer
/// is looked up each time.
const LONGEST: usize = 512;

/// A bounded set of identities, those asked for lately first. Uids never come back, so nothing here can become wrong; what
/// is forgotten is asked for again.
#[derive(Default)]
pub(super) struct Absent {
    young: HashSet<Identity>,
    old: HashSet<Identity>,
}

impl Absent {
    pub(super) fn insert(&mut self, identity: Identity) {
        if identity.name.len() + identity.uid.to_string().len() > LONGEST {
            return;
        }
        if self.young.len() >= ABSENT / 2 {
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
