//! The fields of Namespaces, ServiceAccounts, ConfigMaps and ClusterTrustBundles that the controller reads.

use std::collections::BTreeMap;

use common::{
    ca_bundle::{Sha256, sha256},
    intern::Labels,
    json::null_as_default,
    prelude::*,
};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// Key of the bundle in `data` of the ConfigMap.
pub const CA_KEY: &str = "ca.crt";
/// Annotation of the ConfigMap that says for what the bundle is good.
pub const DESCRIPTION_ANNOTATION: &str = "kubernetes.io/description";

/// Field selector of the ClusterTrustBundles of API servers.
const SIGNER: &str = "spec.signerName=kubernetes.io/kube-apiserver-serving";

/// Defines a projection of a resource, with a field selector, and without labels, annotations and finalizers.
macro_rules! projection {
    ($scope:ident, $group:literal, $version:literal, $plural:literal, $kind:literal, $field_selector:expr) => {
        const RESOURCE: Resource = Resource::$scope($group, $version, $plural, $kind);
        const FIELD_SELECTOR: &'static str = $field_selector;
        type Indexes = ();

        fn meta(&self) -> &Meta {
            &self.metadata
        }

        fn drop_unneeded_fields(&mut self) {
            self.metadata.labels = Labels::empty();
            self.metadata.drop_annotations_and_finalizers();
        }
    };
}

impl Object for Namespace {
    projection!(cluster_scoped, "", "v1", "namespaces", "Namespace", "");
}

impl Object for ServiceAccount {
    projection!(namespaced, "", "v1", "serviceaccounts", "ServiceAccount", "metadata.name=default");
}

impl Object for ConfigMap {
    projection!(namespaced, "", "v1", "configmaps", "ConfigMap", "metadata.name=kube-root-ca.crt");
}

impl Object for ClusterTrustBundle {
    projection!(cluster_scoped, "certificates.k8s.io", "v1beta1", "clustertrustbundles", "ClusterTrustBundle", SIGNER);
}

/// The fields of a `v1` Namespace that the controller reads.
#[derive(Clone, Debug, Deserialize)]
pub struct Namespace {
    /// `metadata` without labels, annotations and finalizers.
    pub metadata: Meta,
    /// Whether `status.phase` is `Active`.
    #[serde(default, rename = "status", deserialize_with = "is_active")]
    pub is_active: bool,
}

fn is_active<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    Ok(Option::<Value>::deserialize(deserializer)?.is_some_and(|status| status["phase"] == "Active"))
}

/// The ServiceAccount `default` of a namespace.
#[derive(Clone, Debug, Deserialize)]
pub struct ServiceAccount {
    /// `metadata` without labels, annotations and finalizers.
    pub metadata: Meta,
}

/// What the controller has to know of a ConfigMap `kube-root-ca.crt`.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "ConfigMapAsStored")]
pub struct ConfigMap {
    /// `metadata` without labels, annotations and finalizers.
    pub metadata: Meta,
    /// Hash of the bundle in `data`; `None` if `data` has another key or lacks `ca.crt`.
    pub bundle_hash: Option<Sha256>,
    /// Whether `data` has any key.
    pub has_data: bool,
    /// Whether `binaryData` has the key `ca.crt`, so that `data` cannot have it.
    pub has_binary_bundle: bool,
    /// Whether the annotation with the description is not empty.
    pub is_described: bool,
}

/// A decoded ConfigMap that still has its content.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ConfigMapAsStored {
    metadata: Meta,
    #[serde(default, deserialize_with = "null_as_default")]
    data: BTreeMap<String, String>,
    #[serde(default, deserialize_with = "null_as_default")]
    binary_data: BTreeMap<String, String>,
}

impl From<ConfigMapAsStored> for ConfigMap {
    fn from(ConfigMapAsStored { metadata, data, binary_data }: ConfigMapAsStored) -> Self {
        let bundle = data.get(CA_KEY).filter(|_| data.len() == 1);
        Self {
            bundle_hash: bundle.map(|bundle| sha256(bundle.as_bytes())),
            has_data: !data.is_empty(),
            has_binary_bundle: binary_data.contains_key(CA_KEY),
            is_described: metadata.annotations.get(DESCRIPTION_ANNOTATION).is_some_and(|text| !text.is_empty()),
            metadata,
        }
    }
}

/// A ClusterTrustBundle of the signer `kubernetes.io/kube-apiserver-serving`, in either version.
#[derive(Clone, Debug, Deserialize)]
pub struct ClusterTrustBundle {
    /// `metadata` without labels, annotations and finalizers.
    pub metadata: Meta,
    /// Hash of `spec.trustBundle`.
    #[serde(rename = "spec", deserialize_with = "trust_bundle_hash")]
    pub bundle_hash: Sha256,
}

fn trust_bundle_hash<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Sha256, D::Error> {
    let spec = Value::deserialize(deserializer)?;
    Ok(sha256(spec["trustBundle"].as_str().unwrap_or_default().as_bytes()))
}
