//! Decides which ClusterTrustBundles of the signer there are to be, as a pure function.

use std::sync::Arc;

use common::{
    ca_bundle::{Bundle, Sha256},
    prelude::*,
};

use crate::{namespaced::decide::AWAITS_BUNDLE, objects::ClusterTrustBundle};

/// The signer of the certificates of API servers.
pub const SIGNER: &str = "kubernetes.io/kube-apiserver-serving";
/// The number of bytes of the hash in a name.
const HASH_BYTES_IN_NAME: usize = 12;

/// What one sync reads.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The served resource.
    pub resource: Resource,
    /// All objects of the signer, sorted by name.
    pub trust_bundles: Vec<Arc<ClusterTrustBundle>>,
    /// The bundle to publish; `None` if there has been no usable one.
    pub bundle: Option<Arc<Bundle>>,
}

/// What one sync does.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Name of the object; `None` without a bundle.
    pub name: Option<Arc<str>>,
    /// Whether the object is created.
    pub creates: bool,
    /// The object, if its bundle is corrected.
    pub corrected: Option<Arc<ClusterTrustBundle>>,
    /// The other objects of the signer, which are deleted.
    pub deleted: Vec<Arc<ClusterTrustBundle>>,
}

impl SyncPlan for Plan {
    fn situation(&self) -> String {
        self.name.as_ref().map_or_else(String::new, |name| format!("the name for the bundle is {name}"))
    }

    fn wait_reasons(&self) -> Vec<String> {
        if self.name.is_none() { vec![AWAITS_BUNDLE.to_owned()] } else { Vec::new() }
    }
}

/// Returns the name of the object for a bundle. Upstream: `constructBundleName`.
pub fn trust_bundle_name(bundle_sha256: &Sha256) -> Arc<str> {
    let digits = bundle_sha256[..HASH_BYTES_IN_NAME].iter().map(|byte| format!("{byte:02x}"));
    format!("{}:{}", SIGNER.replace('/', ":"), digits.collect::<String>()).into()
}

/// Plans that there is one object of the signer, with the bundle.
///
/// Upstream: `pkg/controller/certificates/clustertrustbundlepublisher`, `syncClusterTrustBundle`.
pub fn decide(Snapshot { trust_bundles, bundle, .. }: &Snapshot) -> Plan {
    let Some(bundle) = bundle else { return Plan::default() };
    let name = trust_bundle_name(&bundle.hash);
    let own = trust_bundles.iter().find(|trust_bundle| trust_bundle.metadata.name == name);
    // A terminating object waits for its finalizers.
    let is_surplus = |other: &&Arc<ClusterTrustBundle>| other.metadata.name != name && !other.metadata.is_deleting();
    Plan {
        creates: own.is_none(),
        corrected: own.filter(|own| own.bundle_hash != bundle.hash).cloned(),
        deleted: trust_bundles.iter().filter(is_surplus).cloned().collect(),
        name: Some(name),
    }
}

#[cfg(test)]
mod tests;
