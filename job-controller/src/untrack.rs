//! The request that removes the tracking finalizer from a Pod.

use common::{
    api::PatchFormat,
    io::{Io, MemoryNote, Request},
    pods::PODS,
};
use serde_json::json;

use crate::objects::{CachedPod, JOB_TRACKING_FINALIZER};

/// Builds the request that removes the tracking finalizer from a Pod, with a precondition on its cached version.
///
/// If the Pod has been deleted, the server refuses the request with
/// [`RefusalClass::NotFound`](common::io::RefusalClass::NotFound).
pub(crate) fn finalizer_removal_request<N: MemoryNote>(pod: &CachedPod, why: &'static str, io: Io<'_, N>) -> Request {
    let body =
        io.encode_body(|| json!({"metadata": {"$deleteFromPrimitiveList/finalizers": [JOB_TRACKING_FINALIZER]}}));
    Request::patch(PODS, pod.meta(), PatchFormat::Strategic, body)
        .with_verb_text("remove the finalizer of")
        .with_reason(why)
}
