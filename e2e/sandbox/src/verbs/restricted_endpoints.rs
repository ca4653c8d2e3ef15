//! OpenShift's admission plugin `network.openshift.io/RestrictedEndpointsAdmission`.
//!
//! OpenShift restricts the networks of Pods and Services: a user that writes one of their addresses to Endpoints or to an
//! EndpointSlice needs the right to `create` the subresource `restricted` of it, which no server serves. Here, all networks are
//! restricted, and the ports that the plugin restricts as well are left out.
//!
//! Upstream: openshift/kubernetes, `openshift-kube-apiserver/admission/network/restrictedendpoints`.

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

/// The field with the addresses of an object; `None` for other resources.
fn addresses_field(resource: &Resource) -> Option<&'static str> {
    match (&*resource.group, &*resource.plural) {
        ("", "endpoints") => Some("subsets"),
        ("discovery.k8s.io", "endpointslices") => Some("endpoints"),
        _ => None,
    }
}

/// The first address in the subsets of Endpoints, or in the endpoints of a slice.
fn first_address(entries: &Value) -> Option<&str> {
    let lists = |entry| ["addresses", "notReadyAddresses"].map(|field| at(entry, &[field]).as_array());
    let mut addresses = entries.as_array()?.iter().flat_map(lists).flatten().flatten();
    addresses.next().map(|address| address.as_str().unwrap_or_else(|| text(address, &["ip"])))
}

impl Core {
    /// Refuses a change of addresses whose author lacks the right to it.
    pub(crate) fn check_restricted_endpoints(
        &self,
        store: &Store,
        author: &Author<'_>,
        resource: &Resource,
        namespace: Option<&str>,
        (old, new): (Option<&Value>, &Value),
    ) -> ApiResult<()> {
        let field = addresses_field(resource).filter(|_| self.setup.restricted_endpoints);
        let Some(field) = field else { return Ok(()) };
        let entries = at(new, &[field]);
        let is_changed = old.is_none_or(|old| at(old, &[field]) != entries);
        let Some(address) = first_address(entries).filter(|_| is_changed) else { return Ok(()) };
        let name = meta(new, "name");
        let create = Attributes {
            verb: "create",
            group: &resource.group,
            resource: &resource.plural,
            sub: Some("restricted"),
            namespace,
            name: Some(name),
        };
        if self.access.authorizes(store, &User::of(author.identity), &create) {
            return Ok(());
        }
        let why = format!("endpoint address {address} is not allowed");
        let message = format!("{} {} is forbidden: {why}", resource.qualified(), quoted(name));
        Err(ApiError::forbidden(resource.details(name), message))
    }
}
