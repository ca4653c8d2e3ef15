//! Notes and questions of the node monitor's syncs to its memory.

use std::{sync::Arc, time::Duration};

use common::{api, intern::Text, io, meta::Uid};

use super::rounds::snapshot::Reports;
use crate::{
    objects::{Name, Node, Renewal},
    taints::Cause,
};

/// A change of the monitor's memory.
#[derive(Debug)]
pub(crate) enum Note {
    /// Nodes were added, were removed, or became silent.
    Reports(Reports),
    /// The condition `Ready` of a node is no longer `True`.
    NotReady(Name, Uid),
    /// A large share of nodes is tainted; the text is the message of the Event.
    Alarm(String),
    /// The server answered, which is evidence of a live view.
    Answered,
    /// Leases could not be read.
    Unanswered(api::Error),
    /// State of a node that was read from the server.
    Seen(Arc<Node>),
    /// Renewal of a node's Lease that was read from the server and is new to this process.
    Renewed(Name, Renewal),
    /// The conditions of a silent node could not be written; true if the answer was lost, so that the write may have taken
    /// effect.
    Spared(Name, bool),
    /// The server denied the conditions of a silent node because of their content.
    Denied(Name),
    /// A change of a node was attempted; the error is set if it failed.
    Changed(Name, &'static str, Option<api::Error>),
    /// Duration of the change of a node.
    Took(Duration),
    /// A node of this zone was tainted.
    Tainted(Name, Text, Cause),
    /// A node could not be tainted.
    NotTainted(Name, api::Error),
    /// A node no longer waits for its taint.
    Released(Name),
    /// A pass has ended.
    Passed,
}

/// A question of a sync in progress.
#[derive(Debug)]
pub(crate) enum Question {
    /// Whether a node has sent no heartbeat for its grace period, during which this process had a live view.
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

/// The API server and the memory, as a sync of the node monitor sees them.
pub(crate) type Io<'r> = io::Io<'r, Note>;
