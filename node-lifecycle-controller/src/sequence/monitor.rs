//! What the sequences of the node monitor note and ask.

use std::{sync::Arc, time::Duration};

use common::{
    api,
    intern::Text,
    meta::{Meta, Uid},
    object::Object as _,
};
use jiff::Timestamp;
use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::{Value, value::RawValue};

use crate::{decide::taints::Cause, objects::Node};

/// Name of a node.
pub type Name = Arc<str>;

/// A change of the monitor's memory.
#[derive(Debug)]
pub enum Note {
    /// A node was added.
    Arrived(Name, Uid),
    /// A node was removed.
    Departed(Name, Uid),
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
    Renewed(Name, Option<Timestamp>),
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

/// What a sequence asks while it is under way.
#[derive(Debug)]
pub enum Question {
    /// Whether nothing has been heard of a node for its grace period, while this process would have heard.
    IsSilent(Name),
    /// Whether a node may get its `NoExecute` taint, by what it and all zones are now.
    MayBeTainted(Name),
    /// Whether a renewal of the Lease of a node is another one than the last that was seen.
    IsNews(Name, Option<Timestamp>),
}

impl common::sequence::Note for Note {
    type Question = Question;
    type Fresh = bool;
}

/// The live state of a node, with its taints as the server wrote them.
pub(super) struct LiveNode {
    pub(super) node: Arc<Node>,
    pub(super) taints: Vec<Value>,
}

impl LiveNode {
    pub(super) fn meta(&self) -> &Meta {
        &self.node.metadata
    }
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
        node.trim();
        let Wire { spec } = serde_json::from_str(text.get()).map_err(D::Error::custom)?;
        Ok(Self { node: Arc::new(node), taints: spec.taints.unwrap_or_default() })
    }
}
