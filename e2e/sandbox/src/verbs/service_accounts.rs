//! The admission plugin `ServiceAccount`, as far as it refuses Pods: a Pod needs the account that it names.
//!
//! The real plugin waits for a missing account `default` for one to two seconds before it refuses, and adds a volume with a token.
//!
//! Upstream: `plugin/pkg/admission/serviceaccount`.

use serde_json::Value;

use crate::{
    api::{
        names::quoted,
        resource::{Key, Resource},
    },
    store::Store,
    value::object::{meta, text},
    verbs::{
        core::Core,
        status::{ApiError, ApiResult},
    },
};

/// Annotation of the mirror of a static Pod, which has no account.
const MIRROR: &str = "kubernetes.io/config.mirror";

impl Core {
    /// Refuses a new Pod whose account does not exist.
    pub(crate) fn check_service_account(
        &self,
        store: &Store,
        resource: &Resource,
        namespace: Option<&str>,
        object: &Value,
    ) -> ApiResult<()> {
        let is_checked = self.setup.service_accounts && resource.is("", "pods");
        let is_mirror = object.pointer(&format!("/metadata/annotations/{}", MIRROR.replace('/', "~1"))).is_some();
        let Some(namespace) = namespace.filter(|_| is_checked && !is_mirror) else { return Ok(()) };
        let account = match text(object, &["spec", "serviceAccountName"]) {
            "" => "default",
            account => account,
        };
        if store.get("serviceaccounts", &Key::new(Some(namespace), account)).is_some() {
            return Ok(());
        }
        let why = format!(
            "error looking up service account {namespace}/{account}: serviceaccount {} not found",
            quoted(account)
        );
        let name = meta(object, "name");
        Err(ApiError::forbidden(resource.details(name), format!("pods {} is forbidden: {why}", quoted(name))))
    }
}
