use common::{controller::Explain, explain::Lines, meta::Key};

/// The DaemonSets to sync after a change of a node.
#[derive(Debug)]
pub(crate) struct Affected {
    pub(crate) sets: Vec<Key>,
    /// Number of DaemonSets that the loop considered, for the explanation.
    pub(crate) of: usize,
}

impl Explain for Affected {
    fn situation(&self) -> String {
        format!("the node concerns {} of {} DaemonSets", self.sets.len(), self.of)
    }

    fn actions(&self) -> Vec<String> {
        let mut lines = Lines::default();
        self.sets.iter().for_each(|key| lines.push(|| format!("sync {key}")));
        lines.into_vec()
    }

    fn is_notable(&self) -> bool {
        !self.sets.is_empty()
    }
}
