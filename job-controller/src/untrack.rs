//! The request that removes the tracking finalizer from a Pod.

use common::{
    api::Patch,
    io::{Io, Note, Request},
    pods::PODS,
};
use serde_json::json;

use crate::objects::{CachedPod, JOB_TRACKING};

/// Builds the request that removes the tracking finalizer from a Pod, with a precondition on its cached version.
///
/// For a deleted Pod, which has no finalizer any more, the server refuses the request with
/// [`Class::Gone`](common::io::Class::Gone).
pub(crate) fn untrack<N: Note>(pod: &CachedPod, why: &'static str, io: Io<'_, N>) -> Request {
    let body = io.body(|| json!({"metadata": {"$deleteFromPrimitiveList/finalizers": [JOB_TRACKING]}}));
    Request::patch(PODS, pod.meta(), Patch::Strategic, body).doing("remove the finalizer of").because(why)
}
