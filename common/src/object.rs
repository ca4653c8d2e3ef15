//! What a controller reads of an object: its resource, its projection, and what becomes of objects that cannot be read.

use std::{fmt, sync::Arc};

use serde::{Deserialize, de::DeserializeOwned};

use crate::meta::Meta;

/// Coordinates of a resource on the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Resource {
    /// API group, empty for core.
    pub group: &'static str,
    /// Version.
    pub version: &'static str,
    /// Name in paths.
    pub plural: &'static str,
    /// Kind.
    pub kind: &'static str,
    /// Whether objects live in namespaces.
    pub namespaced: bool,
}

impl Resource {
    /// `group/version`, or the version alone for core: the `apiVersion` field.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.to_owned() } else { format!("{}/{}", self.group, self.version) }
    }

    /// The path of a collection (`name` empty), an object, or a subresource of it.
    pub fn path(&self, namespace: &str, name: &str, subresource: &str) -> String {
        let mut path = if self.group.is_empty() {
            format!("/api/{}", self.version)
        } else {
            format!("/apis/{}/{}", self.group, self.version)
        };
        if self.namespaced && !namespace.is_empty() {
            path.push_str("/namespaces/");
            path.push_str(namespace);
        }
        for part in [self.plural, name, subresource] {
            if !part.is_empty() {
                path.push('/');
                path.push_str(part);
            }
        }
        path
    }
}

/// `plural.group`, as logs and metrics name a resource.
impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group.is_empty() { f.write_str(self.plural) } else { write!(f, "{}.{}", self.plural, self.group) }
    }
}

/// A projection: the fields of a kind that one controller reads, and nothing else.
pub trait Object: DeserializeOwned + Send + Sync + 'static {
    /// Where objects of this kind live.
    const RESOURCE: Resource;

    /// Its metadata.
    fn meta(&self) -> &Meta;

    /// Drops what is not needed once the object is read (annotations nobody looks at, ...), before it is cached.
    fn trim(&mut self) {}

    /// Whether the object concerns this controller at all; one that does not is never cached.
    fn keep(&self) -> bool {
        true
    }
}

/// An object whose metadata can be read and whose rest cannot: the work of a buggy server.
#[derive(Debug)]
pub struct Malformed {
    /// Its metadata.
    pub meta: Meta,
    /// What is wrong with it.
    pub error: String,
}

/// Why an object in the cache cannot be used.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{resource} {key} cannot be read: {error}")]
pub struct Unreadable {
    /// The resource.
    pub resource: Resource,
    /// Which object.
    pub key: String,
    /// What is wrong with it.
    pub error: String,
}

/// Reads one object; one that only parses as far as its metadata is [`Malformed`].
pub(crate) fn decode<K: Object>(json: &str) -> Result<K, DecodeError> {
    let error = match serde_json::from_str::<K>(json) {
        Ok(mut object) => {
            if object.meta().name.is_empty() {
                return Err(DecodeError::Nameless("metadata.name is missing".to_owned()));
            }
            object.trim();
            return Ok(object);
        }
        Err(error) => error.to_string(),
    };
    #[derive(Deserialize)]
    struct Bare {
        metadata: Meta,
    }
    match serde_json::from_str::<Bare>(json) {
        Ok(Bare { metadata }) if !metadata.name.is_empty() => {
            Err(DecodeError::Malformed(Arc::new(Malformed { meta: metadata, error })))
        }
        _ => Err(DecodeError::Nameless(error)),
    }
}

/// Why an object could not be read.
pub(crate) enum DecodeError {
    /// Its metadata can be read.
    Malformed(Arc<Malformed>),
    /// Not even that.
    Nameless(String),
}
