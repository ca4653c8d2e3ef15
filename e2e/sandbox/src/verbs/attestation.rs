//! The admission plugin `ClusterTrustBundleAttest`: to write a ClusterTrustBundle of a signer needs a right on the signer.
//!
//! The right to all signers of a domain is left out.
//!
//! Upstream: `plugin/pkg/admission/certificates/ctbattest`.

use serde_json::Value;

use crate::{
    api::{names::quoted, resource::Resource},
    store::{Store, audit::Author},
    value::object::{at, meta, text},
    verbs::{
        access::{Attributes, User},
        core::Core,
        status::{ApiError, ApiResult},
    },
};

impl Core {
    /// Refuses a ClusterTrustBundle whose author lacks the right to attest for its signer.
    pub(crate) fn check_attestation(
        &self,
        store: &Store,
        author: &Author<'_>,
        resource: &Resource,
        (old, new): (Option<&Value>, &Value),
    ) -> ApiResult<()> {
        let signer = text(new, &["spec", "signerName"]);
        let is_changed = old.is_none_or(|old| at(old, &["spec"]) != at(new, &["spec"]));
        if !resource.is("certificates.k8s.io", "clustertrustbundles") || signer.is_empty() || !is_changed {
            return Ok(());
        }
        let attest = Attributes {
            verb: "attest",
            group: &resource.group,
            resource: "signers",
            sub: None,
            namespace: None,
            name: Some(signer),
        };
        if self.access.authorizes(store, &User::of(author.identity), &attest) {
            return Ok(());
        }
        let why = format!("user not permitted to attest for signerName {}", quoted(signer));
        let name = meta(new, "name");
        let message = format!("{} {} is forbidden: {why}", resource.qualified(), quoted(name));
        Err(ApiError::forbidden(resource.details(name), message))
    }
}
