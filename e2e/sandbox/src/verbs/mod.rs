//! Requests for objects: reads, writes and watches of the store, with their admission, rights and faults.

pub(crate) mod accept;
pub(crate) mod access;
pub(crate) mod attestation;
pub(crate) mod core;
pub(crate) mod damage;
pub(crate) mod decode;
pub(crate) mod delete;
pub(crate) mod escalation;
pub(crate) mod faults;
pub(crate) mod managed;
pub(crate) mod owner_references;
pub(crate) mod patch;
pub(crate) mod quota;
pub(crate) mod read;
pub(crate) mod reply;
pub(crate) mod representation;
pub(crate) mod request;
pub(crate) mod restricted_endpoints;
pub(crate) mod service_accounts;
pub(crate) mod status;
pub(crate) mod subresource;
pub(crate) mod table;
pub(crate) mod watch;
pub(crate) mod webhooks;
pub(crate) mod write;
