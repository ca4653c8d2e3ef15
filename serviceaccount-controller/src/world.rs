//! Builds the bundles and the objects of the unit tests.

use std::sync::Arc;

use common::ca_bundle::Bundle;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// A certificate of an authority.
pub(crate) const CA: &str = include_str!("../../common/client/testdata/ca.crt");
/// The certificate of another authority.
pub(crate) const NEXT_CA: &str = include_str!("../../common/client/testdata/next-ca.crt");

pub(crate) fn bundle(text: &str) -> Arc<Bundle> {
    Arc::new(Bundle::parse(text.as_bytes().to_vec()).unwrap())
}

/// Decodes an object as a cache does.
pub(crate) fn object<T: DeserializeOwned>(object: &Value) -> Arc<T> {
    Arc::new(serde_json::from_str(&object.to_string()).unwrap())
}
