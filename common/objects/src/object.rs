//! Projections, which are structs with the fields of a kind that a controller reads, and the decoding of objects into them.

use std::{
    cmp::Ordering,
    fmt::{self, Write as _},
    hash::{Hash, Hasher},
    sync::Arc,
};

use serde::{Deserialize, de::DeserializeOwned};

use crate::{
    head::ObjectHead,
    index::StoreIndexes,
    intern::Text,
    meta::Meta,
    wire::{self, MessageSchema},
};

/// Group, version and names of a resource of the API server.
///
/// Resources known at compile time are constants; clones of a discovered resource share one allocation.
#[derive(Clone)]
pub struct Resource(Names);

#[derive(Clone)]
enum Names {
    BuiltIn(Fields<&'static str>),
    Discovered(Arc<Fields<Text>>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Fields<S> {
    group: S,
    version: S,
    plural: S,
    kind: S,
    is_namespaced: bool,
}

impl Resource {
    /// Creates a resource with objects that belong to namespaces. The core group is the empty string.
    ///
    /// ```
    /// # use nonet_objects::object::Resource;
    /// const REPLICA_SETS: Resource = Resource::namespaced("apps", "v1", "replicasets", "ReplicaSet");
    /// assert_eq!(REPLICA_SETS.path("ns", "web", "scale"), "/apis/apps/v1/namespaces/ns/replicasets/web/scale");
    /// ```
    pub const fn namespaced(
        group: &'static str,
        version: &'static str,
        plural: &'static str,
        kind: &'static str,
    ) -> Self {
        Self(Names::BuiltIn(Fields { group, version, plural, kind, is_namespaced: true }))
    }

    /// Creates a resource with cluster-scoped objects. The core group is the empty string.
    pub const fn cluster_scoped(
        group: &'static str,
        version: &'static str,
        plural: &'static str,
        kind: &'static str,
    ) -> Self {
        Self(Names::BuiltIn(Fields { group, version, plural, kind, is_namespaced: false }))
    }

    /// Creates a resource with names that are known only at run time.
    pub fn discovered(group: &str, version: &str, plural: &str, kind: &str, is_namespaced: bool) -> Self {
        let [group, version, plural, kind] = [group, version, plural, kind].map(Text::new);
        Self(Names::Discovered(Arc::new(Fields { group, version, plural, kind, is_namespaced })))
    }

    fn fields(&self) -> Fields<&str> {
        match &self.0 {
            Names::BuiltIn(fields) => *fields,
            Names::Discovered(fields) => {
                let Fields { group, version, plural, kind, is_namespaced } = &**fields;
                Fields { group, version, plural, kind, is_namespaced: *is_namespaced }
            }
        }
    }

    /// API group; empty for the core group.
    pub fn group(&self) -> &str {
        self.fields().group
    }

    /// API version, for example `v1`.
    pub fn version(&self) -> &str {
        self.fields().version
    }

    /// Plural name in paths, for example `replicasets`.
    pub fn plural(&self) -> &str {
        self.fields().plural
    }

    /// `kind` in an object of the resource, for example `ReplicaSet`.
    pub fn kind(&self) -> &str {
        self.fields().kind
    }

    /// Whether the API group belongs to Kubernetes, so that kube-apiserver serves it from etcd.
    pub fn is_of_kubernetes(&self) -> bool {
        let group = self.group();
        !group.contains('.') || group.ends_with(".k8s.io")
    }

    /// Whether objects belong to namespaces; false for cluster-scoped kinds.
    pub fn is_namespaced(&self) -> bool {
        self.fields().is_namespaced
    }

    /// Returns the value of `apiVersion`: `group/version`, or only the version for the core group.
    pub fn api_version(&self) -> String {
        let Fields { group, version, .. } = self.fields();
        if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
    }

    /// Returns the URL path of a collection (`name` is empty), an object, or a subresource.
    ///
    /// Percent-encodes special characters, so that each name is one segment of the path. Some names are chosen by users.
    pub fn path(&self, namespace: &str, name: &str, subresource: &str) -> String {
        let Fields { group, version, plural, is_namespaced, .. } = self.fields();
        let mut path = if group.is_empty() { "/api".to_owned() } else { format!("/apis/{group}") };
        push_segment(&mut path, version);
        if is_namespaced && !namespace.is_empty() {
            path.push_str("/namespaces");
            push_segment(&mut path, namespace);
        }
        for part in [plural, name, subresource].into_iter().filter(|part| !part.is_empty()) {
            push_segment(&mut path, part);
        }
        path
    }
}

/// The object, collection or subresource that a request addresses.
#[derive(Clone, Debug)]
pub struct RequestTarget<'a> {
    /// API group, version and plural name of the object or collection.
    pub resource: Resource,
    /// Namespace; empty for cluster-scoped objects and for all namespaces.
    pub namespace: &'a str,
    /// Name; empty for a collection.
    pub name: &'a str,
    /// Subresource, for example `status`; empty for none.
    pub subresource: &'a str,
}

impl<'a> RequestTarget<'a> {
    /// Creates the target for an object, without a subresource.
    pub fn object(resource: Resource, namespace: &'a str, name: &'a str) -> Self {
        Self { resource, namespace, name, subresource: "" }
    }

    /// Creates the target for the subresource `status` of an object.
    pub fn status(resource: Resource, namespace: &'a str, name: &'a str) -> Self {
        Self { resource, namespace, name, subresource: "status" }
    }

    /// Returns the URL path of the request, without a query string.
    pub fn path(&self) -> String {
        self.resource.path(self.namespace, self.name, self.subresource)
    }
}

/// Appends a segment to a path and percent-encodes it where necessary. Upstream: `url.PathEscape`.
fn push_segment(path: &mut String, segment: &str) {
    path.push('/');
    // Software that normalizes paths treats the segments `.` and `..` as directories.
    let dots = matches!(segment, "." | "..");
    for byte in segment.bytes() {
        match byte {
            b'.' if dots => path.push_str("%2E"),
            _ if byte.is_ascii_alphanumeric() || b"-_.~$&+:=@".contains(&byte) => path.push(byte as char),
            // Writing to a string cannot fail.
            _ => drop(write!(path, "%{byte:02X}")),
        }
    }
}

/// Whether API servers accept `name` as the name of an object. Rejects the empty name, `.`, `..`, and names with `/` or `%`.
///
/// Upstream: `apimachinery/pkg/api/validation/path`, `IsValidPathSegmentName`.
pub fn is_valid_object_name(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && !name.contains(['/', '%'])
}

/// Writes `plural.group`, for example `replicasets.apps`, as in logs and metrics; only the plural name for the core group.
impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Fields { group, plural, .. } = self.fields();
        if group.is_empty() { f.write_str(plural) } else { write!(f, "{plural}.{group}") }
    }
}

impl fmt::Debug for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fields().fmt(f)
    }
}

impl PartialEq for Resource {
    fn eq(&self, other: &Self) -> bool {
        self.fields() == other.fields()
    }
}

impl Eq for Resource {}

impl PartialOrd for Resource {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Resource {
    fn cmp(&self, other: &Self) -> Ordering {
        self.fields().cmp(&other.fields())
    }
}

impl Hash for Resource {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.fields().hash(state);
    }
}

/// A projection: the fields of a kind that one controller reads.
pub trait Object: DeserializeOwned + Send + Sync + 'static {
    /// The resource that is listed and watched for the projection.
    const RESOURCE: Resource;
    /// Field selector of the lists and watches; empty for all objects of the kind.
    ///
    /// The API server sends only objects that match. If an object stops matching, the watch reports it as deleted, in its last
    /// matching state. `docs/decisions/0016-filters.md` lists the objects that each selector hides.
    const FIELD_SELECTOR: &'static str = "";
    /// The secondary indexes of a cache of this kind, as a tuple; `()` for none.
    type Indexes: StoreIndexes<Self>;

    /// Returns `metadata`, which every projection contains.
    fn meta(&self) -> &Meta;

    /// Schema of the protobuf message of the kind. With `None`, lists and watches use JSON.
    ///
    /// Custom resources need JSON. Objects with a part that a controller passes on without decoding also need JSON, because the
    /// part may have fields that only a newer server knows.
    const PROTOBUF_SCHEMA: Option<&'static MessageSchema> = None;

    /// Decides from the [`ObjectHead`] of an object whether the object can concern the controller, before the rest is decoded.
    /// `None` means that every object can concern it. [`is_cached`](Object::is_cached) must reject every object that this
    /// function rejects.
    const HEAD_FILTER: Option<fn(head: &ObjectHead<'_>) -> bool> = None;

    /// Decodes a projection that needs only the metadata, from the JSON of the metadata. `None` for all other projections.
    ///
    /// `_json` begins with the value of `metadata`; the text after that value must be ignored.
    fn from_metadata_json(_json: &str) -> Option<serde_json::Result<Self>> {
        None
    }

    /// Drops fields that are not needed after decoding, for example unused annotations, before the object is cached.
    fn drop_unneeded_fields(&mut self) {}

    /// Whether the object was received in protobuf, and has fields that this version does not know and the controller needs. The
    /// informer then reads all objects in JSON, in which unknown fields have names.
    fn has_hidden_fields(&self) -> bool {
        false
    }

    /// Whether the cache stores the object. By default, the cache stores the objects that can concern the controller.
    fn is_cached(&self) -> bool {
        self.can_concern_controller()
    }

    /// Whether [`HEAD_FILTER`](Object::HEAD_FILTER) accepts the decoded object; true without a filter.
    fn can_concern_controller(&self) -> bool {
        Self::HEAD_FILTER.is_none_or(|concerns| concerns(&ObjectHead::from_meta(self.meta())))
    }
}

/// An object of which only the metadata could be decoded. Only a faulty server sends such an object.
#[derive(Debug)]
pub struct MalformedObject {
    /// Identifies the object by name, UID and version.
    pub meta: Meta,
    /// Message of the decoder about the rest of the object.
    pub error: String,
}

/// Error for a cached object that cannot be used, for example because it is a [`MalformedObject`].
#[derive(Clone, Debug, thiserror::Error)]
#[error("{resource} {key} cannot be read: {error}")]
pub struct CachedObjectError {
    /// Resource of the object. The error message begins with its plural name and group.
    pub resource: Resource,
    /// Namespace and name of the object.
    pub key: String,
    /// Message of the decoder, or another reason why the object cannot be used.
    pub error: String,
}

/// An encoded object as the API server sent it.
#[derive(Clone, Copy, Debug)]
pub enum EncodedObject<'a> {
    /// The JSON text of one object, without a list or a watch event around it.
    Json(&'a str),
    /// A protobuf message without its envelope.
    Protobuf(&'a [u8]),
}

impl<'a> EncodedObject<'a> {
    /// Returns the [`ObjectHead`] of an object that [`Object::HEAD_FILTER`] of `K` rejects. Returns `None` if the filter
    /// accepts the object, if `K` has no filter, or if the metadata cannot be found in the text.
    pub fn head_if_filtered_out<K: Object>(self) -> Option<ObjectHead<'a>> {
        let concerns = K::HEAD_FILTER?;
        let head = match self {
            Self::Json(json) => {
                ObjectHead::deserialize(&mut serde_json::Deserializer::from_str(json_from_metadata(json)?)).ok()?
            }
            Self::Protobuf(_) => self.decode_metadata::<ObjectHead<'a>>().ok()?,
        };
        let is_foreign = !head.name().is_empty() && !concerns(&head);
        is_foreign.then_some(head)
    }

    /// Decodes only the metadata of an object.
    ///
    /// # Errors
    /// The object has no metadata, or `T` cannot be decoded from the metadata.
    pub fn decode_metadata<T: Deserialize<'a>>(self) -> Result<T, String> {
        #[derive(Deserialize)]
        struct Bare<T> {
            metadata: T,
        }
        match self {
            Self::Json(json) => match json_from_metadata(json) {
                Some(rest) => T::deserialize(&mut serde_json::Deserializer::from_str(rest)),
                None => serde_json::from_str::<Bare<T>>(json).map(|bare| bare.metadata),
            }
            .map_err(|error| error.to_string()),
            Self::Protobuf(message) => wire::decode_message::<Bare<T>>(&wire::messages::METADATA_ONLY_OBJECT, message)
                .map(|bare| bare.metadata)
                .map_err(|error| error.to_string()),
        }
    }

    /// Decodes an object, and drops its unneeded fields with [`Object::drop_unneeded_fields`].
    ///
    /// # Errors
    /// [`DecodeError::Malformed`] if only the metadata can be decoded, otherwise [`DecodeError::InvalidMetadata`].
    pub fn decode<K: Object>(self) -> Result<K, DecodeError> {
        let read = match self {
            Self::Json(json) => {
                let of_metadata = json_from_metadata(json).and_then(K::from_metadata_json);
                of_metadata.unwrap_or_else(|| serde_json::from_str::<K>(json)).map_err(|error| error.to_string())
            }
            Self::Protobuf(message) => match K::PROTOBUF_SCHEMA {
                Some(kind) => wire::decode_message::<K>(kind, message).map_err(|error| error.to_string()),
                None => Err("the server sent protobuf although JSON was requested".to_owned()),
            },
        };
        let error = match read {
            Ok(mut object) => {
                if object.meta().name.is_empty() {
                    return Err(DecodeError::InvalidMetadata("metadata.name is missing".to_owned()));
                }
                object.drop_unneeded_fields();
                return Ok(object);
            }
            Err(error) => error,
        };
        match self.decode_metadata::<Meta>() {
            Ok(meta) if !meta.name.is_empty() => Err(DecodeError::Malformed(Arc::new(MalformedObject { meta, error }))),
            _ => Err(DecodeError::InvalidMetadata(error)),
        }
    }
}

/// Returns the JSON text that begins with the value of `metadata`. Returns `None` if a field other than `kind` and `apiVersion`
/// comes first, which no API server writes.
fn json_from_metadata(json: &str) -> Option<&str> {
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

/// Error of [`EncodedObject::decode`].
#[derive(Debug)]
pub enum DecodeError {
    /// Only the metadata could be decoded. Holds the metadata and the message of the decoder.
    Malformed(Arc<MalformedObject>),
    /// The metadata could not be decoded, or contain no name. Holds the message of the decoder.
    InvalidMetadata(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODES: Resource = Resource::cluster_scoped("", "v1", "nodes", "Node");
    const SETS: Resource = Resource::namespaced("apps", "v1", "replicasets", "ReplicaSet");

    #[test]
    fn paths_match_the_api_server() {
        assert_eq!(NODES.path("", "", ""), "/api/v1/nodes");
        assert_eq!(NODES.path("ignored", "a.b-c", "status"), "/api/v1/nodes/a.b-c/status");
        assert_eq!(SETS.path("ns", "web", ""), "/apis/apps/v1/namespaces/ns/replicasets/web");
        assert_eq!(SETS.path("", "", ""), "/apis/apps/v1/replicasets");
        assert_eq!(NODES.path("", "system:node:a", ""), "/api/v1/nodes/system:node:a");
    }

    #[test]
    fn a_discovered_resource_equals_the_constant_with_its_names() {
        let discovered = Resource::discovered("apps", "v1", "replicasets", "ReplicaSet", true);
        assert_eq!(discovered, SETS);
        assert_eq!(discovered.cmp(&NODES), SETS.cmp(&NODES));
        assert_eq!(crate::map::HashSet::from_iter([discovered, SETS]).len(), 1);
        assert_ne!(Resource::discovered("apps", "v1", "replicasets", "ReplicaSet", false), SETS);
    }

    #[test]
    fn a_name_with_special_characters_is_one_segment() {
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
        fn any_name_is_one_segment(name in "\\PC{1,12}|[./?#% ]{1,6}") {
            let path = NODES.path("", &name, "");
            let segment = path.strip_prefix("/api/v1/nodes/").unwrap();
            proptest::prop_assert!(!segment.contains(['/', '?', '#', ' ']) && segment != "." && segment != "..");
            proptest::prop_assert!(path.parse::<http::Uri>().is_ok_and(|uri| uri.path() == path));
        }
    }

    #[test]
    fn names_that_no_server_accepts_are_rejected() {
        for name in ["", ".", "..", "a/b", "/", "50%"] {
            assert!(!is_valid_object_name(name), "{name:?}");
        }
        for name in ["a", "...", "a?x=1", "my owner", "system:node:a"] {
            assert!(is_valid_object_name(name), "{name:?}");
        }
    }
}
