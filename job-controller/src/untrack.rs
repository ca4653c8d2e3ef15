//! Taking the tracking finalizer off a Pod.

use common::{
    api::Patch,
    io::{Io, Note, Request},
    pods::PODS,
};
use serde_json::json;

use crate::objects::{CachedPod, JOB_TRACKING};

/// Takes the tracking finalizer off a Pod that has not changed since it was judged.
///
/// The server refuses the request with [`Class::Gone`](common::io::Class::Gone) for a Pod that is gone and so has no finalizer.
pub(crate) fn untrack<N: Note>(pod: &CachedPod, why: &'static str, io: Io<'_, N>) -> Request {
    let body = io.body(|| json!({"metadata": {"$deleteFromPrimitiveList/finalizers": [JOB_TRACKING]}}));
    Request::patch(PODS, pod.meta(), Patch::Strategic, body).doing("remove the finalizer of").because(why)
}
