//! What a controller reads of an object: its resource, its projection, and what becomes of objects that cannot be read.

use std::{
    fmt::{self, Write as _},
    sync::Arc,
};

use serde::{Deserialize, de::DeserializeOwned};

use crate::{index::Indexes, meta::Meta};

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
    ///
    /// Whatever a name holds, it is one segment: some come from objects that anybody may write.
    pub fn path(&self, namespace: &str, name: &str, subresource: &str) -> String {
        let mut path = if self.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", self.group) };
        push_segment(&mut path, self.version);
        if self.namespaced && !namespace.is_empty() {
            path.push_str("/namespaces");
            push_segment(&mut path, namespace);
        }
        for part in [self.plural, name, subresource].into_iter().filter(|part| !part.is_empty()) {
            push_segment(&mut path, part);
        }
        path
    }
}

/// One subject of a request: an object, a collection (empty name) or a subresource.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// The resource.
    pub resource: Resource,
    /// Namespace; empty for cluster-scoped objects or all namespaces.
    pub namespace: &'a str,
    /// Name; empty for the collection.
    pub name: &'a str,
    /// Subresource; empty for none.
    pub subresource: &'a str,
}

impl<'a> Target<'a> {
    /// An object.
    pub fn object(resource: Resource, namespace: &'a str, name: &'a str) -> Self {
        Self { resource, namespace, name, subresource: "" }
    }

    /// Its `/status`.
    pub fn status(resource: Resource, namespace: &'a str, name: &'a str) -> Self {
        Self { resource, namespace, name, subresource: "status" }
    }

    /// The path of it.
    pub fn path(&self) -> String {
        self.resource.path(self.namespace, self.name, self.subresource)
    }
}

/// Adds a segment to a path, percent-encoded where it has to be. Upstream: `url.PathEscape`.
fn push_segment(path: &mut String, segment: &str) {
    path.push('/');
    // These two mean a directory to whoever tidies paths.
    let dots = matches!(segment, "." | "..");
    for byte in segment.bytes() {
        match byte {
            b'.' if dots => path.push_str("%2E"),
            _ if byte.is_ascii_alphanumeric() || b"-_.~$&+:=@".contains(&byte) => path.push(byte as char),
            // Writing into a string cannot fail.
            _ => drop(write!(path, "%{byte:02X}")),
        }
    }
}

/// Whether an object can have that name at all: others are refused by every server, and no path leads to them.
///
/// Upstream: `apimachinery/pkg/api/validation/path`, `IsValidPathSegmentName`; clients there refuse to ask for others.
pub fn can_be_name(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && !name.contains(['/', '%'])
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
    /// The field selector of its lists and watches; empty for all objects of the kind.
    ///
    /// The API server sends no other object. An object that no longer matches arrives as deleted, with its last state that did.
    /// `docs/decisions/0016-filters.md` says what each selector hides.
    const FIELD_SELECTOR: &'static str = "";
    /// The indexes of caches of this kind.
    type Indexes: Indexes<Self>;

    /// Its metadata.
    fn meta(&self) -> &Meta;

    /// Whether an object whose managing controller is of the given kind, or which has none, can concern this controller: asked before
    /// anything else is read of the object. An object of which that is false is never [kept](Object::keep).
    const CONCERNS: Option<fn(controller: Option<&str>) -> bool> = None;

    /// Reads an object from the JSON of its metadata, where nothing else of it is read.
    ///
    /// What follows the metadata in `json` is to be ignored.
    fn of_metadata(_json: &str) -> Option<serde_json::Result<Self>> {
        None
    }

    /// Drops what is not needed once the object is read (annotations nobody looks at, ...), before it is cached.
    fn trim(&mut self) {}

    /// Whether the object concerns this controller at all; one that does not is never cached.
    fn keep(&self) -> bool {
        self.is_concern()
    }

    /// What [`CONCERNS`](Object::CONCERNS) says of the object.
    fn is_concern(&self) -> bool {
        Self::CONCERNS.is_none_or(|concerns| concerns(self.meta().controller().map(|owner| &*owner.kind)))
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
pub fn decode<K: Object>(json: &str) -> Result<K, DecodeError> {
    let of_metadata = metadata(json).and_then(K::of_metadata);
    let error = match of_metadata.unwrap_or_else(|| serde_json::from_str::<K>(json)) {
        Ok(mut object) => {
            if object.meta().name.is_empty() {
                return Err(DecodeError::Nameless("metadata.name is missing".to_owned()));
            }
            object.trim();
            return Ok(object);
        }
        Err(error) => error.to_string(),
    };
    match decode_meta(json) {
        Ok(meta) if !meta.name.is_empty() => Err(DecodeError::Malformed(Arc::new(Malformed { meta, error }))),
        _ => Err(DecodeError::Nameless(error)),
    }
}

/// Reads the metadata of an object, whatever the rest of it is.
pub fn decode_meta(json: &str) -> serde_json::Result<Meta> {
    #[derive(Deserialize)]
    struct Bare {
        metadata: Meta,
    }
    match metadata(json) {
        Some(rest) => Meta::deserialize(&mut serde_json::Deserializer::from_str(rest)),
        None => serde_json::from_str::<Bare>(json).map(|bare| bare.metadata),
    }
}

/// The text from the beginning of an object's metadata on, if the object looks as servers write it: metadata comes first, or after
/// kind and version.
pub fn metadata(json: &str) -> Option<&str> {
    let mut rest = json.strip_prefix('{')?;
    loop {
        rest = rest.strip_prefix('"')?;
        if let Some(value) = rest.strip_prefix("metadata\":") {
            return value.starts_with('{').then_some(value);
        }
        let value = rest.strip_prefix("kind\":\"").or_else(|| rest.strip_prefix("apiVersion\":\""))?;
        let (text, after) = value.split_once('"')?;
        if text.contains('\\') {
            return None;
        }
        rest = after.strip_prefix(',')?;
    }
}

/// Why an object could not be read.
pub enum DecodeError {
    /// Its metadata can be read.
    Malformed(Arc<Malformed>),
    /// Not even that.
    Nameless(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODES: Resource = Resource { group: "", version: "v1", plural: "nodes", kind: "Node", namespaced: false };
    const SETS: Resource =
        Resource { group: "apps", version: "v1", plural: "replicasets", kind: "ReplicaSet", namespaced: true };

    #[test]
    fn a_path_is_the_servers() {
        assert_eq!(NODES.path("", "", ""), "/api/v1/nodes");
        assert_eq!(NODES.path("ignored", "a.b-c", "status"), "/api/v1/nodes/a.b-c/status");
        assert_eq!(SETS.path("ns", "web", ""), "/apis/apps/v1/namespaces/ns/replicasets/web");
        assert_eq!(SETS.path("", "", ""), "/apis/apps/v1/replicasets");
        assert_eq!(NODES.path("", "system:node:a", ""), "/api/v1/nodes/system:node:a");
    }

    #[test]
    fn a_name_is_one_segment_whatever_it_holds() {
        for (name, segment) in [
            ("playground-node-1/proxy/pods", "playground-node-1%2Fproxy%2Fpods"),
            ("a?x=1", "a%3Fx=1"),
            ("my owner", "my%20owner"),
            ("a#b", "a%23b"),
            ("100%", "100%25"),
            (".", "%2E"),
            ("..", "%2E%2E"),
            ("...", "..."),
            ("\u{e9}\n", "%C3%A9%0A"),
        ] {
            assert_eq!(NODES.path("", name, ""), format!("/api/v1/nodes/{segment}"));
            assert_eq!(SETS.path(name, "x", ""), format!("/apis/apps/v1/namespaces/{segment}/replicasets/x"));
        }
    }

    proptest::proptest! {
        #[test]
        fn no_name_leaves_its_segment(name in "\\PC{1,12}|[./?#% ]{1,6}") {
            let path = NODES.path("", &name, "");
            let segment = path.strip_prefix("/api/v1/nodes/").unwrap();
            proptest::prop_assert!(!segment.contains(['/', '?', '#', ' ']) && segment != "." && segment != "..");
            proptest::prop_assert!(path.parse::<http::Uri>().is_ok_and(|uri| uri.path() == path));
        }
    }

    #[test]
    fn what_no_server_stores_is_no_name() {
        for name in ["", ".", "..", "a/b", "/", "50%"] {
            assert!(!can_be_name(name), "{name:?}");
        }
        for name in ["a", "...", "a?x=1", "my owner", "system:node:a"] {
            assert!(can_be_name(name), "{name:?}");
        }
    }
}
