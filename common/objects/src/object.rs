//! What a controller reads of an object: its resource, its projection, and what becomes of objects that cannot be read.

use std::{
    fmt::{self, Write as _},
    sync::Arc,
};

use serde::{Deserialize, de::DeserializeOwned};

use crate::{
    head::Head,
    index::Indexes,
    meta::Meta,
    wire::{self, Message},
};

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

    /// The message in which the protobuf encoding has the kind. Without one, lists and watches of it are JSON.
    ///
    /// JSON is for custom resources, and for objects of which a part is passed on unread: it may have fields of a newer server.
    const PROTOBUF: Option<&'static Message> = None;

    /// Whether an object with that head can concern this controller: asked before anything else is read of the object. An object of
    /// which that is false is never [kept](Object::keep).
    const CONCERNS: Option<fn(head: &Head<'_>) -> bool> = None;

    /// Reads a projection that needs the metadata only, from the JSON of the metadata. `None` for all other projections.
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
        Self::CONCERNS.is_none_or(|concerns| concerns(&Head::of(self.meta())))
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

/// An object as the API server sent it.
#[derive(Clone, Copy, Debug)]
pub enum Encoded<'a> {
    /// As JSON.
    Json(&'a str),
    /// As a protobuf message, without its envelope.
    Protobuf(&'a [u8]),
}

impl<'a> Encoded<'a> {
    /// The head of an object that cannot concern a controller that reads `K`; `None` if the object can, or if it looks unusual.
    pub fn foreign_head<K: Object>(self) -> Option<Head<'a>> {
        let concerns = K::CONCERNS?;
        let head = match self {
            Self::Json(json) => Head::deserialize(&mut serde_json::Deserializer::from_str(metadata(json)?)).ok()?,
            Self::Protobuf(_) => self.metadata::<Head<'a>>().ok()?,
        };
        let is_foreign = !head.name().is_empty() && !concerns(&head);
        is_foreign.then_some(head)
    }

    /// Reads the metadata of an object, whatever the rest of it is.
    ///
    /// # Errors
    /// If it has none, or they do not fit what is read.
    pub fn metadata<T: Deserialize<'a>>(self) -> Result<T, String> {
        #[derive(Deserialize)]
        struct Bare<T> {
            metadata: T,
        }
        match self {
            Self::Json(json) => match metadata(json) {
                Some(rest) => T::deserialize(&mut serde_json::Deserializer::from_str(rest)),
                None => serde_json::from_str::<Bare<T>>(json).map(|bare| bare.metadata),
            }
            .map_err(|error| error.to_string()),
            Self::Protobuf(message) => wire::read::<Bare<T>>(&wire::messages::OBJECT, message)
                .map(|bare| bare.metadata)
                .map_err(|error| error.to_string()),
        }
    }

    /// Reads one object; one of which only the metadata can be read is [`Malformed`].
    ///
    /// # Errors
    /// If it cannot be read, or has no name.
    pub fn decode<K: Object>(self) -> Result<K, DecodeError> {
        let read = match self {
            Self::Json(json) => {
                let of_metadata = metadata(json).and_then(K::of_metadata);
                of_metadata.unwrap_or_else(|| serde_json::from_str::<K>(json)).map_err(|error| error.to_string())
            }
            Self::Protobuf(message) => match K::PROTOBUF {
                Some(kind) => wire::read::<K>(kind, message).map_err(|error| error.to_string()),
                None => Err("protobuf, which was not asked for".to_owned()),
            },
        };
        let error = match read {
            Ok(mut object) => {
                if object.meta().name.is_empty() {
                    return Err(DecodeError::Nameless("metadata.name is missing".to_owned()));
                }
                object.trim();
                return Ok(object);
            }
            Err(error) => error,
        };
        match self.metadata::<Meta>() {
            Ok(meta) if !meta.name.is_empty() => Err(DecodeError::Malformed(Arc::new(Malformed { meta, error }))),
            _ => Err(DecodeError::Nameless(error)),
        }
    }
}

/// The text from the beginning of an object's metadata on, if the object looks as servers write it: metadata comes first, or after
/// kind and version.
fn metadata(json: &str) -> Option<&str> {
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
#[derive(Debug)]
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
