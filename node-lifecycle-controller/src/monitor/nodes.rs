//! Requests about one node: changes of its taints and labels, and the read of its Lease. Each change follows from the state of
//! the node on the server, and its precondition is the version of that state.

use std::{borrow::Cow, sync::Arc, time::Duration};

use common::{api::PatchFormat, conditions::seconds, prelude::*};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{NodeMonitor, taints_and_labels::decide::outdated_label_copies};
use crate::{
    heartbeats::read_lease_renewal,
    objects::{NODES, Node},
    taints::{self, TaintCause, TaintChange},
};

/// Number of nodes for which one loop of the node monitor sends requests concurrently.
pub(super) const MAX_NODES_WITH_CONCURRENT_REQUESTS: usize = 8;
/// Maximum number of attempts of one sync to change a node that other writers keep changing. Upstream: `UpdateTaintBackoff`.
const MAX_CHANGE_ATTEMPTS: usize = 5;
/// Pause before the next attempt after a conflict; jitter lengthens the pause by up to 100 %.
const CONFLICT_PAUSE: Duration = Duration::from_millis(100);

/// State of a node on the server. The taints are kept as JSON, so that a write preserves fields unknown to this program.
pub(super) struct LiveNode {
    pub(super) node: Arc<Node>,
    taints_json: Vec<Value>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct NodeTaints {
    spec: SpecTaints,
}

#[derive(Default, Deserialize)]
struct SpecTaints {
    taints: Option<Vec<Value>>,
}

/// Purpose of a change of a node.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum NodeChange {
    /// Removes the `NoExecute` taints, so that the Pods of the node are not evicted.
    RemoveNoExecute,
    /// Replaces a `NoExecute` taint that no longer fits the condition `Ready`.
    ReplaceNoExecute,
    /// Adds the `NoExecute` taint of a node that has waited for it.
    AddNoExecute,
    /// Updates the taints and labels that follow from the conditions and labels of the node.
    SyncTaintsAndLabels,
}

impl NodeChange {
    /// Returns the taints and labels to change. A `NoExecute` taint is added only if `may_be_tainted` is true.
    fn required_edit(self, node: &Node, may_be_tainted: bool) -> (TaintChange, Vec<(&'static str, Text)>) {
        let to_taint_of = |cause: Option<TaintCause>| {
            cause.map_or_else(TaintChange::default, |cause| taints::change_to_taint_of_cause(node, cause))
        };
        let cause = TaintCause::for_node(node);
        let taint_change = match self {
            Self::RemoveNoExecute => taints::removal_of_monitor_taints(node),
            Self::ReplaceNoExecute => {
                to_taint_of(cause.filter(|cause| taints::has_taint_of_cause(node, cause.opposite())))
            }
            Self::AddNoExecute => to_taint_of(cause.filter(|_| may_be_tainted)),
            Self::SyncTaintsAndLabels => return (taints::no_schedule_taint_change(node), outdated_label_copies(node)),
        };
        (taint_change, Vec::new())
    }

    fn verb_text(self) -> &'static str {
        match self {
            Self::RemoveNoExecute => "remove the NoExecute taints of",
            Self::ReplaceNoExecute => "replace the NoExecute taint of",
            Self::AddNoExecute => "add the NoExecute taint to",
            Self::SyncTaintsAndLabels => "update taints and labels of",
        }
    }
}

/// Returns the strategic merge patch of an edit. `taints_json` is the current list of taints.
fn edit_patch(
    taint_change: &TaintChange,
    labels: &[(&'static str, Text)],
    taints_json: &[Value],
    now: Timestamp,
) -> Value {
    let mut patch = json!({});
    if !labels.is_empty() {
        let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), json!(value)));
        patch["metadata"]["labels"] = Value::Object(labels.collect::<Map<_, _>>());
    }
    if !taint_change.is_empty() {
        let taints = taints::apply_taint_change(taints_json, taint_change, &seconds::format_rfc3339(now));
        patch["spec"]["taints"] = if taints.is_empty() { Value::Null } else { Value::Array(taints) };
    }
    patch
}

/// Sends a request, and decodes the node in the answer; `None` in a forecast.
pub(super) async fn send_and_decode_node<C: Sync>(
    request: Request,
    io: Io<'_, C>,
) -> Result<Option<LiveNode>, Refusal> {
    let answer = io.send(request.with_whole_answer()).await?;
    let Some(mut node) = answer.decode::<Node>()? else { return Ok(None) };
    node.drop_unneeded_fields();
    let NodeTaints { spec } = answer.decode()?.unwrap_or_default();
    Ok(Some(LiveNode { node: Arc::new(node), taints_json: spec.taints.unwrap_or_default() }))
}

/// Sends a request, and decodes and records the node in the answer; `None` in a forecast.
pub(super) async fn send_and_record_node<C: AsRef<NodeMonitor> + Sync>(
    request: Request,
    io: Io<'_, C>,
) -> Result<Option<LiveNode>, Refusal> {
    let live = send_and_decode_node(request, io).await?;
    if let Some(live) = &live {
        io.update_memory(|controller| controller.as_ref().heartbeats.record_read_node(&live.node));
    }
    Ok(live)
}

/// Reads a node from the server, and makes the change that its state requires. Returns whether the node was changed.
pub(super) async fn change_node<C: AsRef<NodeMonitor> + Sync>(
    cached_node: &Arc<Node>,
    change: NodeChange,
    why: impl Into<Cow<'static, str>>,
    io: Io<'_, C>,
) -> Result<bool, Refusal> {
    let (name, why) = (&cached_node.metadata.name, why.into());
    let mut attempt = 1;
    loop {
        let read = Request::get(NODES, &"".into(), name).with_reason("changes are made to its current state");
        let live = match send_and_record_node(read, io).await {
            Err(refusal) if refusal.error.is_not_found() => return Ok(false),
            live => live?,
        };
        if live.as_ref().is_some_and(|live| live.node.metadata.uid != cached_node.metadata.uid) {
            io.explain_deviation("another Node has its name");
            return Ok(false);
        }
        // While the node was read, a heartbeat may have arrived, other nodes may have failed, or events may have ceased.
        let may_be_tainted = io.observe_again(|controller| {
            let monitor = controller.as_ref();
            let may_be_tainted = || monitor.node_records.lock().may_be_tainted(name, monitor.now());
            (change == NodeChange::AddNoExecute).then(may_be_tainted)
        });
        // In a forecast, nothing was read, so the cached state of the node is used.
        let (node, taints) = live.as_ref().map_or((cached_node, &[][..]), |live| (&live.node, &*live.taints_json));
        let (taint_change, labels) = change.required_edit(node, may_be_tainted.unwrap_or(true));
        if taint_change.is_empty() && labels.is_empty() {
            io.explain_deviation(format!("Node {name} no longer needs a change"));
            return Ok(false);
        }
        let body = io.encode_body(|| edit_patch(&taint_change, &labels, taints, io.now()));
        let request = Request::patch(NODES, &node.metadata, PatchFormat::Strategic, body)
            .with_role(ObjectRole::SyncedObject)
            .with_verb_text(change.verb_text())
            .with_reason(why.clone());
        match send_and_record_node(request, io).await {
            Ok(_) => return Ok(true),
            Err(refusal) if refusal.is_not_found() => return Ok(false),
            Err(refusal) if refusal.class == RefusalClass::VersionConflict && attempt < MAX_CHANGE_ATTEMPTS => {}
            Err(refusal) => return Err(refusal),
        }
        attempt += 1;
        io.pause_with_jitter(CONFLICT_PAUSE, 1.0).await;
    }
}

/// Reads the Lease of a node, and returns whether the server has a renewal that this process has not seen.
pub(super) async fn has_unseen_lease_renewal<C: AsRef<NodeMonitor> + Sync>(
    node: &Node,
    io: Io<'_, C>,
) -> Result<bool, Refusal> {
    let name = &node.metadata.name;
    let renew_time = read_lease_renewal(name, io).await?;
    let is_new = io.observe_again(|controller| {
        Some(controller.as_ref().node_records.lock().is_new_lease_renewal(name, renew_time?))
    });
    io.update_memory(|controller| controller.as_ref().heartbeats.record_read_lease(name, renew_time));
    if is_new == Some(true) {
        io.explain_deviation(format!("Node {name} has renewed its Lease"));
    }
    Ok(is_new == Some(true))
}
