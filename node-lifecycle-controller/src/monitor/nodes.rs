//! Requests about one node: changes of its taints and labels, and the read of its Lease. Each change follows from the state of
//! the node on the server, and its precondition is the version of that state.

use std::{borrow::Cow, sync::Arc, time::Duration};

use common::{api::PatchFormat, conditions::seconds, prelude::*};
use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::{Value, value::RawValue};

use super::{change::NodeChange, memory::NodeMonitor};
use crate::objects::{LEASES, Lease, NODE_LEASE_NAMESPACE, NODES, Node};

/// Number of nodes for which one loop of the node monitor sends requests concurrently.
pub(super) const MAX_NODES_WITH_CONCURRENT_REQUESTS: usize = 8;
/// Maximum number of attempts of one sync to change a node that other writers keep changing. Upstream: `UpdateTaintBackoff`.
const MAX_CHANGE_ATTEMPTS: usize = 5;
/// Pause before the next attempt after a conflict; jitter lengthens the pause by up to 100 %.
const CONFLICT_PAUSE: Duration = Duration::from_millis(100);

/// State of a node on the server. The taints are kept as JSON, so that a write preserves fields unknown to this program.
pub(super) struct LiveNode {
    pub(super) node: Arc<Node>,
    pub(super) taints_json: Vec<Value>,
}

impl<'de> Deserialize<'de> for LiveNode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Wire {
            #[serde(default)]
            spec: Spec,
        }
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Spec {
            taints: Option<Vec<Value>>,
        }
        let text = Box::<RawValue>::deserialize(deserializer)?;
        let mut node: Node = serde_json::from_str(text.get()).map_err(D::Error::custom)?;
        node.drop_unneeded_fields();
        let Wire { spec } = serde_json::from_str(text.get()).map_err(D::Error::custom)?;
        Ok(Self { node: Arc::new(node), taints_json: spec.taints.unwrap_or_default() })
    }
}

/// Reads a node from the server and records its state. Returns `None` in a forecast, which sends nothing.
pub(super) async fn read_node<C: AsRef<NodeMonitor> + Sync>(
    name: &Arc<str>,
    why: &'static str,
    io: Io<'_, C>,
) -> Result<Option<LiveNode>, Refusal> {
    let live = io.send_and_decode::<LiveNode>(Request::get(NODES, &"".into(), name).with_reason(why)).await?;
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
        let live = match read_node(name, "changes are made to its current state", io).await {
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
        let edit = change.required_edit(node, may_be_tainted.unwrap_or(true));
        if edit.is_empty() {
            io.explain_deviation(format!("Node {name} no longer needs a change"));
            return Ok(false);
        }
        let body = io.encode_body(|| edit.merge_patch(taints, &seconds::format_rfc3339(io.now())));
        let request = Request::patch(NODES, &node.metadata, PatchFormat::Strategic, body)
            .with_role(ObjectRole::SyncedObject)
            .with_verb_text(change.request_reason())
            .with_reason(why.clone());
        match io.send_and_decode::<LiveNode>(request).await {
            Ok(changed) => {
                if let Some(LiveNode { node, .. }) = changed {
                    io.update_memory(|controller| controller.as_ref().heartbeats.record_read_node(&node));
                }
                return Ok(true);
            }
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
    let request = Request::get(LEASES, &NODE_LEASE_NAMESPACE.into(), name);
    let lease = match io.send_and_decode::<Lease>(request.with_reason("the node may have renewed it meanwhile")).await {
        Err(refusal) if refusal.error.is_not_found() => None,
        lease => lease?,
    };
    io.update_memory(|controller| controller.as_ref().record_server_contact());
    let Some(renewal) = lease.map(|lease| lease.renew_time()) else { return Ok(false) };
    let is_new = io
        .observe_again(|controller| Some(controller.as_ref().node_records.lock().is_new_lease_renewal(name, renewal)));
    if is_new == Some(true) {
        io.update_memory(|controller| controller.as_ref().heartbeats.record_read_lease(name, Some(renewal)));
        io.explain_deviation(format!("Node {name} has renewed its Lease"));
    }
    Ok(is_new == Some(true))
}
