//! HTTP: routes, discovery, reviews, and the transports.

pub(crate) mod certificates;
pub(crate) mod discovery;
pub(crate) mod handle;
pub(crate) mod openapi;
pub(crate) mod reviews;
pub(crate) mod serve;
pub(crate) mod transport;
