//! Requests about one node: changes of its taints and labels, and the read of its Lease. Each change follows from the state of
//! the node on the server, and its precondition is the version of that state.

use std::{borrow::Cow, sync::Arc, time::Duration};

use common::{
    api::{self, PatchFormat},
    conditions::seconds,
    io::{ObjectRole, RefusalClass, Request},
    object::Object as _,
};
use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::{Value, value::RawValue};

use super::{
    change::NodeChange,
    notes::{Io, MonitorNote, MonitorQuery},
};
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
pub(super) async fn read_node(name: &Arc<str>, why: &'static str, io: Io<'_>) -> Result<Option<LiveNode>, api::Error> {
    let live = io.send_and_decode::<LiveNode>(Request::get(NODES, &"".into(), name).with_reason(why)).await;
    let live = live.map_err(|refusal| refusal.error)?;
    if let Some(live) = &live {
        io.apply_memory_note(MonitorNote::NodeStateReceived(Arc::clone(&live.node)));
    }
    Ok(live)
}

/// Reads a node from the server, and makes the change that its state requires. Returns whether the node was changed.
pub(super) async fn change_node(
    known: &Arc<Node>,
    change: NodeChange,
    why: impl Into<Cow<'static, str>>,
    io: Io<'_>,
) -> Result<bool, api::Error> {
    let why = why.into();
    let mut attempt = 1;
    loop {
        let live = match read_node(&known.metadata.name, "changes are made to its current state", io).await {
            Err(error) if error.is_not_found() => return Ok(false),
            live => live?,
        };
        if live.as_ref().is_some_and(|live| live.node.metadata.uid != known.metadata.uid) {
            io.explain_deviation("another Node has its name");
            return Ok(false);
        }
        // While the node was read, a heartbeat may have arrived, other nodes may have failed, or events may have ceased.
        let may_be_tainted = || io.observe_again(MonitorQuery::MayBeTainted(Arc::clone(&known.metadata.name)));
        let is_due = change != NodeChange::AddNoExecute || may_be_tainted().unwrap_or(true);
        // In a forecast, nothing was read, so the cached state of the node is used.
        let (node, taints) = live.as_ref().map_or((known, &[][..]), |live| (&live.node, &*live.taints_json));
        let edit = change.required_edit(node, is_due);
        if edit.is_empty() {
            io.explain_deviation(format!("Node {} no longer needs a change", node.metadata.name));
            return Ok(false);
        }
        let body = io.encode_body(|| edit.merge_patch(taints, &seconds::format_rfc3339(io.now())));
        let request =
            Request::patch(NODES, &node.metadata, PatchFormat::Strategic, body).with_role(ObjectRole::SyncedObject);
        match io
            .send_and_decode::<LiveNode>(request.with_verb_text(change.request_reason()).with_reason(why.clone()))
            .await
        {
            Ok(changed) => {
                if let Some(changed) = changed {
                    io.apply_memory_note(MonitorNote::NodeStateReceived(changed.node));
                }
                return Ok(true);
            }
            Err(refusal) if refusal.class == RefusalClass::NotFound => return Ok(false),
            Err(refusal) if refusal.class == RefusalClass::VersionConflict && attempt < MAX_CHANGE_ATTEMPTS => {}
            Err(refusal) => return Err(refusal.error),
        }
        attempt += 1;
        io.pause_with_jitter(CONFLICT_PAUSE, 1.0).await;
    }
}

/// Reads the Lease of a node, and returns whether the server has a renewal that this process has not seen.
pub(super) async fn has_unseen_lease_renewal(node: &Node, io: Io<'_>) -> Result<bool, api::Error> {
    let name = &node.metadata.name;
    let request = Request::get(LEASES, &NODE_LEASE_NAMESPACE.into(), name);
    let lease = match io.send_and_decode::<Lease>(request.with_reason("the node may have renewed it meanwhile")).await {
        Err(refusal) if refusal.error.is_not_found() => None,
        Err(refusal) => return Err(refusal.error),
        Ok(lease) => lease,
    };
    io.apply_memory_note(MonitorNote::LeaseReadSucceeded);
    let Some(renewal) = lease.map(|lease| lease.renew_time()) else { return Ok(false) };
    let is_news = io.observe_again(MonitorQuery::IsNewLeaseRenewal(Arc::clone(name), renewal)).unwrap_or(false);
    if is_news {
        io.apply_memory_note(MonitorNote::LeaseRenewed(Arc::clone(name), renewal));
        io.explain_deviation(format!("Node {name} has renewed its Lease"));
    }
    Ok(is_news)
}
