//! Names of objects by uid, because the keys of some controllers are uids.

use std::collections::{HashMap, VecDeque};

use crate::sandbox::{Change, Write};

/// The number of deleted objects whose names are kept.
const GONE: usize = 1000;

/// Names by uid.
#[derive(Debug, Default)]
pub(super) struct Names {
    by_uid: HashMap<String, String>,
    /// Oldest first.
    gone: VecDeque<String>,
}

impl Names {
    /// Takes over the object of a write.
    pub(super) fn apply(&mut self, write: &Write) {
        let object = match write.change {
            Change::Added => write.after(),
            Change::Modified => return,
            Change::Deleted => write.before(),
        };
        let Some(uid) = object.as_ref().and_then(|object| object["metadata"]["uid"].as_str()) else { return };
        if write.change == Change::Added {
            let slash = if write.namespace.is_empty() { "" } else { "/" };
            let name = format!("{} {}{slash}{}", write.resource, write.namespace, write.name);
            self.by_uid.insert(uid.to_owned(), name);
            return;
        }
        self.gone.push_back(uid.to_owned());
        if self.gone.len() > GONE
            && let Some(oldest) = self.gone.pop_front()
        {
            self.by_uid.remove(&oldest);
        }
    }

    /// The object of a key that is a known uid; any other key is returned as it is.
    pub(super) fn of<'a>(&'a self, key: &'a str) -> &'a str {
        self.by_uid.get(key).map_or(key, String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::sandbox::Sandbox;

    #[tokio::test]
    async fn a_uid_is_told_as_a_name_also_for_a_while_after_the_end() {
        let sandbox = Sandbox::builder().writes(10).build();
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "namespace": "default"}});
        let made = sandbox.apply(map).await.unwrap();
        let uid = made["metadata"]["uid"].as_str().unwrap();
        sandbox.delete("configmaps", Some("default"), "m").await.unwrap();
        let mut names = Names::default();
        for write in sandbox.writes().all() {
            names.apply(&write);
        }
        assert_eq!(names.of(uid), "configmaps default/m");
        assert_eq!(names.of("default/m"), "default/m");
        assert_eq!(names.gone.len(), 1);
    }
}
