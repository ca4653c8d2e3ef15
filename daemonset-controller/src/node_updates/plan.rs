use common::{controller::SyncPlan, explain::BoundedLines, meta::NamespacedName};

/// The DaemonSets to sync after a change of a node.
#[derive(Debug)]
pub(crate) struct AffectedDaemonSets {
    pub(crate) daemon_set_keys: Vec<NamespacedName>,
    /// Number of DaemonSets with a node index, for the explanation.
    pub(crate) indexed_set_count: usize,
}

impl SyncPlan for AffectedDaemonSets {
    fn situation(&self) -> String {
        format!("the node concerns {} of {} DaemonSets", self.daemon_set_keys.len(), self.indexed_set_count)
    }

    fn actions(&self) -> Vec<String> {
        let mut lines = BoundedLines::default();
        self.daemon_set_keys.iter().for_each(|key| lines.push(|| format!("sync {key}")));
        lines.into_vec()
    }

    fn is_notable(&self) -> bool {
        !self.daemon_set_keys.is_empty()
    }
}
