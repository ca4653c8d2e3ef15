//! What the syncs of the node monitor note in its memory, and what they ask it.

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
    /// Nodes came, went, or fell silent.
    Reports(Reports),
    /// The condition `Ready` of a node is not `True` any more.
    NotReady(Name, Uid),
    /// A large share of nodes is tainted.
    Alarm(String),
    /// The server answered: this process sees.
    Answered,
    /// Leases cannot be read.
    Unanswered(api::Error),
    /// The server has this state of a node.
    Seen(Arc<Node>),
    /// The server has this renewal of the Lease of a node, which was not seen here.
    Renewed(Name, Renewal),
    /// The server takes no conditions of a silent node, or does not answer: then the write may have taken effect.
    Spared(Name, bool),
    /// The server denies the conditions of a silent node for what they are.
    Denied(Name),
    /// A change of a node, and why it failed if it did.
    Changed(Name, &'static str, Option<api::Error>),
    /// The time that the change of a node took.
    Took(Duration),
    /// A node of that zone is tainted.
    Tainted(Name, Text, Cause),
    /// A node cannot be tainted.
    NotTainted(Name, api::Error),
    /// A node waits for its taint no longer.
    Released(Name),
    /// A pass has ended.
    Passed,
}

/// What a sync asks while it is under way.
#[derive(Debug)]
pub(crate) enum Question {
    /// Whether nothing has been heard of a node for its grace period, while this process would have heard.
    IsSilent(Name),
    /// Whether a node may get its `NoExecute` taint, by what it and all zones are now.
    MayBeTainted(Name),
    /// Whether a renewal of the Lease of a node is another one than the last that was seen.
    IsNews(Name, Renewal),
}

impl io::Note for Note {
    type Question = Question;
    type Fresh = bool;
}

/// The server as a sync of the node monitor sees it.
pub(crate) type Io<'r> = io::Io<'r, Note>;
