//! The sizes of owners: kinds that are cached, and the subresource `scale` of all others.

use common::{discovery::DiscoveredResources, prelude::*};
use serde::Deserialize;

use super::Failure;

/// The types of answers to a GET of `scale`.
const SCALE_API_VERSIONS: [&str; 4] = ["autoscaling/v1", "extensions/v1beta1", "apps/v1beta1", "apps/v1beta2"];

/// The number of Pods that an owner should have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerSize {
    /// UID of the object with the size, which for a ReplicaSet of a Deployment is the Deployment.
    pub uid: Uid,
    /// `spec.replicas` of this object.
    pub replicas: i32,
}

/// The kinds of owners whose sizes are cached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CachedKind {
    /// `ReplicationController` of the core group.
    ReplicationController,
    /// `ReplicaSet` of `apps` or `extensions`.
    ReplicaSet,
    /// `Deployment` of `apps` or `extensions`. It controls ReplicaSets, and no Pods.
    Deployment,
    /// `StatefulSet` of `apps`.
    StatefulSet,
}

impl CachedKind {
    /// Returns the kind to which a reference refers, in any version of the group; `None` for a kind that is not cached.
    pub fn of(reference: &OwnerRef) -> Option<Self> {
        let group = reference.api_version.split_once('/').map_or("", |(group, _)| group);
        match (group, reference.kind.as_str()) {
            ("", "ReplicationController") => Some(Self::ReplicationController),
            ("apps" | "extensions", "ReplicaSet") => Some(Self::ReplicaSet),
            ("apps" | "extensions", "Deployment") => Some(Self::Deployment),
            ("apps", "StatefulSet") => Some(Self::StatefulSet),
            _ => None,
        }
    }
}

/// Returns the resource whose subresource `scale` has the size of an owner: in exactly the version of the reference it serves the
/// kind, and it is read in the version that discovery prefers.
///
/// # Errors
/// The kind is not served, or the resource has no such subresource.
pub fn find_scaled_resource(discovered: &DiscoveredResources, owner: &OwnerRef) -> Result<Resource, Failure> {
    let (api_version, kind) = (owner.api_version.as_str(), owner.kind.as_str());
    let unserved = |text| Failure::of_expected_count(SyncErrorClass::Unserved, text);
    let named = discovered.resource_of_kind(api_version, kind).filter(|resource| resource.kind() == kind);
    let named = named.ok_or_else(|| unserved(format!("no matches for kind {kind:?} in version {api_version:?}")))?;
    let is_same = |resource: &Resource| resource.group() == named.group() && resource.plural() == named.plural();
    let preferred = discovered.resources.iter().find(|found| found.is_preferred && is_same(&found.resource));
    let scaled = preferred.filter(|found| found.subresources.iter().any(|subresource| subresource == "scale"));
    scaled.map(|found| found.resource.clone()).ok_or_else(|| {
        let separator = if named.group().is_empty() { "" } else { "." };
        let name = format!("{}{separator}{}", named.plural(), named.group());
        unserved(format!("{name} does not implement the scale subresource"))
    })
}

/// The answer to a GET of `scale`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Scale {
    api_version: String,
    kind: String,
    metadata: Meta,
    spec: ScaleSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ScaleSpec {
    replicas: Option<i32>,
}

impl Scale {
    /// Returns the size if the scale is that of the object with this UID, and `None` if it is that of another object.
    ///
    /// # Errors
    /// The answer is not a scale.
    pub fn size_of(&self, uid: &Uid) -> Result<Option<OwnerSize>, Failure> {
        let Self { api_version, kind, metadata, spec } = self;
        if kind != "Scale" || !SCALE_API_VERSIONS.contains(&api_version.as_str()) {
            let text = format!("the answer is a {kind} of {api_version:?}, and not a Scale");
            return Err(Failure::of_expected_count(SyncErrorClass::Malformed, text));
        }
        let size = || OwnerSize { uid: uid.clone(), replicas: spec.replicas.unwrap_or_default() };
        Ok((metadata.uid == *uid).then(size))
    }
}
