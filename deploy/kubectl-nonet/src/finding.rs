//! The results of a check, with severity and remedy, and the exit code.

use std::fmt;

use serde::Serialize;

/// Severity of a finding, in ascending order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FindingStatus {
    /// The cluster is in the expected state.
    Ok,
    /// The state is worth knowing. Nothing needs to be done.
    Info,
    /// The cluster works now, but may fail later.
    Warning,
    /// A fact could not be read.
    Unknown,
    /// A part of the cluster does not work, or is in danger.
    Problem,
}

impl fmt::Display for FindingStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// The part of the check that a finding belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Topic {
    /// Installed controllers and their readiness.
    Installed,
    /// Leases, leaders and holds.
    Leases,
    /// Loops of kube-controller-manager and of Nonet.
    Loops,
    /// Roles, bindings and access reviews.
    Rights,
    /// Differences between clocks.
    Time,
    /// Versions of the API server, of kube-controller-manager and of Nonet.
    Versions,
    /// Expiry of certificates.
    Certificates,
    /// Pods that do not start.
    Pods,
}

impl fmt::Display for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// A statement about the cluster, with severity and remedy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Severity; the highest severity of all findings decides the exit code.
    pub status: FindingStatus,
    /// Part of the check that made the finding. The output groups findings by topic.
    pub topic: Topic,
    /// One or two sentences about the state of the cluster.
    pub found: String,
    /// Advice, with a command if a command helps; `do` in JSON.
    #[serde(rename = "do", skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

/// Collects the findings of one topic in their order.
#[derive(Debug)]
pub struct Findings {
    topic: Topic,
    list: Vec<Finding>,
}

impl Findings {
    /// Creates an empty collection for findings of `topic`.
    pub fn for_topic(topic: Topic) -> Self {
        Self { topic, list: Vec::new() }
    }

    /// Adds a finding. An empty `remedy` becomes `None`.
    pub fn add(&mut self, status: FindingStatus, found: impl Into<String>, remedy: impl Into<String>) {
        let remedy = Some(remedy.into()).filter(|text: &String| !text.is_empty());
        self.list.push(Finding { status, topic: self.topic, found: found.into(), remedy });
    }

    /// Adds a finding with [`FindingStatus::Ok`], which has no remedy.
    pub fn add_ok(&mut self, found: impl Into<String>) {
        self.add(FindingStatus::Ok, found, "");
    }

    /// Adds a finding with [`FindingStatus::Info`], which has no remedy.
    pub fn add_info(&mut self, found: impl Into<String>) {
        self.add(FindingStatus::Info, found, "");
    }

    /// Adds a finding with [`FindingStatus::Warning`], and the remedy that prevents a failure.
    pub fn add_warning(&mut self, found: impl Into<String>, remedy: impl Into<String>) {
        self.add(FindingStatus::Warning, found, remedy);
    }

    /// Adds a finding with [`FindingStatus::Problem`]. The exit code becomes 1.
    pub fn add_problem(&mut self, found: impl Into<String>, remedy: impl Into<String>) {
        self.add(FindingStatus::Problem, found, remedy);
    }

    /// Adds a finding with [`FindingStatus::Unknown`]. The exit code becomes 3 unless a finding has [`FindingStatus::Problem`].
    pub fn add_unknown(&mut self, found: impl Into<String>, remedy: impl Into<String>) {
        self.add(FindingStatus::Unknown, found, remedy);
    }

    /// Adds a finding with [`FindingStatus::Unknown`] for a fact that could not be read. The text is `cannot tell {what}: {why}`.
    pub fn add_unreadable_fact(&mut self, what: &str, why: &crate::facts::FactError) {
        self.add_unknown(format!("cannot tell {what}: {why}"), why.remedy());
    }

    /// Returns the findings in the order in which they were added.
    pub fn into_list(self) -> Vec<Finding> {
        self.list
    }
}

/// Returns the exit code of a check: 1 with a problem, otherwise 3 with an unknown fact, otherwise 0.
pub fn exit_code(findings: &[Finding]) -> u8 {
    match findings.iter().map(|finding| finding.status).max() {
        Some(FindingStatus::Problem) => 1,
        Some(FindingStatus::Unknown) => 3,
        _ => 0,
    }
}
