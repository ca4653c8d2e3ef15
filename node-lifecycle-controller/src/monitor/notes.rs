//! The messages that a sync sends to the memory of the node monitor: notes change the memory, questions read it.

use std::{sync::Arc, time::Duration};

use common::{api, intern::Text, io, meta::Uid};

use super::rounds::snapshot::Reports;
use crate::{
    objects::{Name, Node, Renewal},
    taints::Cause,
};

/// A fact that a sync reports: it changes the memory of the node monitor, or it is logged, counted or recorded as an Event.
#[derive(Debug)]
pub(crate) enum Note {
    /// Added, removed and silent nodes to record as Events.
    Reports(Reports),
    /// The condition `Ready` of the node with this name and UID was changed from `True` to `Unknown`.
    NotReady(Name, Uid),
    /// A large share of nodes is tainted or waits for a taint; the text is the message of the Event.
    Alarm(String),
    /// The server answered a read of Leases, which is evidence of a live view of nodes.
    Answered,
    /// A read of Leases failed with this error.
    Unanswered(api::Error),
    /// The state of a node in an answer of the server.
    Seen(Arc<Node>),
    /// A renewal time that was read from the server and differs from the recorded one of the node's Lease.
    Renewed(Name, Renewal),
    /// The conditions of a silent node could not be written. The flag is true if the answer was lost and the write may have
    /// taken effect.
    Spared(Name, bool),
    /// The server denied the write of the conditions of a silent node because of their content.
    Denied(Name),
    /// A change of a node was attempted. The text describes the change; the error is `None` if the change succeeded.
    Changed(Name, &'static str, Option<api::Error>),
    /// The time that a pass needed for the action on one node.
    Took(Duration),
    /// A node got its `NoExecute` taint; the text is the key of its zone.
    Tainted(Name, Text, Cause),
    /// A `NoExecute` taint could not be written, so the node moves behind the other waiting nodes of its zone.
    NotTainted(Name, api::Error),
    /// The wait of a node for its `NoExecute` taint ends, because the taint is no longer necessary.
    Released(Name),
    /// All requests of a pass over nodes have been answered.
    Passed,
}

/// A question that a sync asks before a write, because its snapshot may be outdated.
#[derive(Debug)]
pub(crate) enum Question {
    /// True if a node has been silent for its grace period, and this process had a live view of nodes for that time.
    IsSilent(Name),
    /// Whether a node may get its `NoExecute` taint, by the current states of the node and of all zones.
    MayBeTainted(Name),
    /// Whether a renewal of a node's Lease differs from the recorded one.
    IsNews(Name, Renewal),
}

impl io::Note for Note {
    type Question = Question;
    type Fresh = bool;
}

/// The access of a sync to the API server and to the memory of the node monitor.
pub(crate) type Io<'r> = io::Io<'r, Note>;
