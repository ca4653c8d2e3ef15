//! The messages from a sync to the memory of the node monitor: notes report facts, and queries read the records of nodes.

use std::{sync::Arc, time::Duration};

use common::{api, intern::Text, io, meta::Uid};

use super::node_pass::snapshot::NodesToReport;
use crate::{
    objects::{Node, NodeName, RenewTime},
    taints::TaintCause,
};

/// A fact that a sync reports. A note changes the memory of the node monitor, or is logged, counted or recorded as an Event.
#[derive(Debug)]
pub(crate) enum MonitorNote {
    /// Nodes to record as Events: added, removed, or set to `Unknown` by an unanswered write.
    ReportNodes(NodesToReport),
    /// The condition `Ready` of the node with this name and UID was changed from `True` to `Unknown`.
    BecameNotReady(NodeName, Uid),
    /// A large share of nodes is tainted or waits for a taint; the text is the message of the Event.
    ManyNodesTainted(String),
    /// The server answered a read of Leases, so this process can receive heartbeats.
    LeaseReadSucceeded,
    /// A read of Leases failed with this error.
    LeaseReadFailed(api::Error),
    /// The state of a node in an answer of the server.
    NodeStateReceived(Arc<Node>),
    /// A renewal time that was read from the server and differs from the recorded one of the node's Lease.
    LeaseRenewed(NodeName, RenewTime),
    /// The conditions of a node could not be set to `Unknown`. The flag is true if the answer was lost and the write may have
    /// taken effect.
    ConditionWriteFailed(NodeName, bool),
    /// The server denied a write of `Unknown` conditions because of its content.
    ConditionWriteDenied(NodeName),
    /// A change of a node was attempted. The text describes the change; the error is `None` if the change succeeded.
    NodeChangeAttempted(NodeName, &'static str, Option<api::Error>),
    /// The time that a pass needed for the action on one node.
    ActionDuration(Duration),
    /// A node got its `NoExecute` taint; the text is the key of its zone.
    NodeTainted(NodeName, Text, TaintCause),
    /// A `NoExecute` taint could not be written, so the node moves behind the other waiting nodes of its zone.
    TaintWriteFailed(NodeName, api::Error),
    /// The wait of a node for its `NoExecute` taint ends, because the taint is no longer necessary.
    TaintUnnecessary(NodeName),
    /// All requests of a pass over nodes have been answered.
    PassFinished,
}

/// A question that a sync asks before a write, because its snapshot may be outdated.
#[derive(Debug)]
pub(crate) enum MonitorQuery {
    /// Whether a node has sent no heartbeat for a grace period in which this process received other events or answers.
    HasExceededGracePeriod(NodeName),
    /// Whether a node may get its `NoExecute` taint, by the current states of the node and of all zones.
    MayBeTainted(NodeName),
    /// Whether a renewal of a node's Lease differs from the recorded one.
    IsNewLeaseRenewal(NodeName, RenewTime),
}

impl io::MemoryNote for MonitorNote {
    type Query = MonitorQuery;
    type NewState = bool;
}

/// The access of a sync to the API server and to the memory of the node monitor.
pub(crate) type Io<'r> = io::Io<'r, MonitorNote>;
