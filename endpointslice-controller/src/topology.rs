//! The shares of zones, computed when somebody asks.

use std::sync::Arc;

use common::store::Store;
use parking_lot::Mutex;

use crate::{
    decide::zones::{Ratios, ratios},
    objects::Node,
};

/// The shares of zones by the Nodes there are.
pub(crate) struct Topology {
    nodes: Arc<Store<Node>>,
    known: Mutex<Known>,
}

/// What was computed.
#[derive(Default)]
enum Known {
    /// Nothing since the Nodes changed.
    #[default]
    Nothing,
    /// The shares, if they can be told.
    Shares(Option<Arc<Ratios>>),
}

impl Topology {
    pub(crate) fn new(nodes: Arc<Store<Node>>) -> Self {
        Self { nodes, known: Mutex::default() }
    }

    /// Nodes have changed in a way that counts.
    pub(crate) fn changed(&self) {
        *self.known.lock() = Known::Nothing;
    }

    /// The shares; none if they cannot be told.
    pub(crate) fn ratios(&self) -> Option<Arc<Ratios>> {
        let mut known = self.known.lock();
        if let Known::Shares(shares) = &*known {
            return shares.clone();
        }
        let shares = ratios(self.nodes.all().iter().map(|node| &**node)).map(Arc::new);
        *known = Known::Shares(shares.clone());
        shares
    }
}
