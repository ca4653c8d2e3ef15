//! What a check found, and what to do about it.

use std::fmt;

use serde::Serialize;

/// How a finding bears on the cluster, from harmless to severe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// As it should be.
    Ok,
    /// Worth knowing; nothing to do.
    Info,
    /// Works now, and may not for long.
    Warning,
    /// The fact could not be read.
    Unknown,
    /// Does not work, or is dangerous.
    Problem,
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// The part of the check that a finding belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Topic {
    /// What is installed, and whether it runs.
    Installed,
    /// The Leases of the elections.
    Leases,
    /// The loops of kube-controller-manager beside those of Nonet.
    Loops,
    /// The rights of the controllers.
    Rights,
    /// The clocks of the machines.
    Time,
    /// Versions of the server, of kube-controller-manager and of Nonet.
    Versions,
    /// Certificates and when they end.
    Certificates,
    /// Pods that do not start.
    Pods,
}

impl fmt::Display for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// One line of the check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How it bears on the cluster.
    pub status: Status,
    /// The part of the check.
    pub topic: Topic,
    /// What was found, in one sentence or two.
    pub found: String,
    /// What to do about it; contains a command where there is one.
    #[serde(rename = "do", skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

/// Findings of one topic, in the order in which they are made.
#[derive(Debug)]
pub struct Findings {
    topic: Topic,
    list: Vec<Finding>,
}

impl Findings {
    /// No findings yet.
    pub fn of(topic: Topic) -> Self {
        Self { topic, list: Vec::new() }
    }

    /// Adds a finding of this status.
    pub fn add(&mut self, status: Status, found: impl Into<String>, remedy: impl Into<String>) {
        let remedy = Some(remedy.into()).filter(|text: &String| !text.is_empty());
        self.list.push(Finding { status, topic: self.topic, found: found.into(), remedy });
    }

    /// Adds that something is as it should be.
    pub fn ok(&mut self, found: impl Into<String>) {
        self.add(Status::Ok, found, "");
    }

    /// Adds that something is worth knowing.
    pub fn info(&mut self, found: impl Into<String>) {
        self.add(Status::Info, found, "");
    }

    /// Adds that something works now, and may not for long.
    pub fn warning(&mut self, found: impl Into<String>, remedy: impl Into<String>) {
        self.add(Status::Warning, found, remedy);
    }

    /// Adds that something does not work, or is dangerous.
    pub fn problem(&mut self, found: impl Into<String>, remedy: impl Into<String>) {
        self.add(Status::Problem, found, remedy);
    }

    /// Adds that something cannot be told.
    pub fn unknown(&mut self, found: impl Into<String>, remedy: impl Into<String>) {
        self.add(Status::Unknown, found, remedy);
    }

    /// Adds that a fact could not be read.
    pub fn unreadable(&mut self, what: &str, why: &crate::facts::Unreadable) {
        self.unknown(format!("cannot tell {what}: {why}"), why.remedy());
    }

    /// The findings.
    pub fn into_list(self) -> Vec<Finding> {
        self.list
    }
}

/// What the whole check comes to, and its exit code.
///
/// The exit code is 0 if all is well, 1 if there is a problem, and 3 if there is none and something could not be told.
pub fn exit_code(findings: &[Finding]) -> u8 {
    match findings.iter().map(|finding| finding.status).max() {
        Some(Status::Problem) => 1,
        Some(Status::Unknown) => 3,
        _ => 0,
    }
}
