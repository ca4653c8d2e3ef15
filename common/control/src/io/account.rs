//! The account of a sync: expected requests, sent requests, and the reasons for the differences.

use std::{
    borrow::Cow,
    fmt::{self, Write as _},
    sync::Arc,
};

use parking_lot::Mutex;

use super::{
    outcome::SyncError,
    request::{ObjectRole, Refusal, Request},
};
use crate::{explain::BoundedLines, intern::Text, map::HashMap, object::Resource};

/// Further reasons are omitted once the reasons of a [`RequestAccountEntry`] have this length in bytes.
const MAX_REASONS_LENGTH: usize = 200;
/// The most entries that a finished account keeps. Further entries are only counted.
const MAX_KEPT_ENTRIES: usize = 20;

/// The description of a request in an account. Requests with equal actions share a [`RequestAccountEntry`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Action {
    /// HTTP method: `GET`, `POST`, `PATCH`, `PUT` or `DELETE`.
    pub method: &'static str,
    /// The verb in explanations, such as `delete`.
    pub verb_text: &'static str,
    /// False for reads and lists.
    pub is_write: bool,
    /// Group, version and plural name of the object's API resource.
    pub resource: Resource,
    /// Kind of the object in explanations; `None` for the kind of the resource.
    kind: Option<&'static str>,
    /// Namespace of the object; empty for a cluster-scoped one.
    pub namespace: Text,
    /// Name of the object. If the server generates the name, this is empty or a name for explanations.
    pub name: Arc<str>,
    /// `metadata.generateName` of an object to create; empty if the request has a full name.
    pub generate_name: Arc<str>,
    /// Subresource, such as `status`; empty for the object itself.
    pub subresource: &'static str,
    /// Whether the request writes the status of an object that is not a child. Explanations then omit kind and name.
    pub is_own_status: bool,
}

impl Action {
    fn from_request(request: &Request) -> Self {
        Self {
            method: request.verb.http_method(),
            verb_text: request.verb_text,
            is_write: request.verb.is_write(),
            resource: request.resource.clone(),
            kind: request.kind,
            namespace: request.namespace.clone(),
            name: Arc::clone(&request.name),
            generate_name: Arc::clone(&request.generate_name),
            subresource: request.subresource,
            is_own_status: request.subresource == "status"
                && !matches!(request.role, ObjectRole::Child | ObjectRole::AdoptedChild | ObjectRole::ReleasedChild),
        }
    }
}

impl Action {
    /// Returns the text for `count` equal requests, such as `create 3 Pods`.
    fn describe(&self, count: usize) -> String {
        let kind = self.kind.unwrap_or(self.resource.kind());
        let Self { verb_text, name, is_own_status, .. } = self;
        match (is_own_status, count) {
            (true, _) => (*verb_text).to_owned(),
            (false, 0 | 1) if !name.is_empty() => format!("{verb_text} {kind} {name}"),
            (false, 0 | 1) => format!("{verb_text} 1 {kind}"),
            (false, count) if name.is_empty() => format!("{verb_text} {count} {kind}s"),
            (false, count) => format!("{verb_text} {kind} {name} ({count} times)"),
        }
    }
}

/// A group of equal requests of a sync, which share one line in explanations.
#[derive(Clone, Debug)]
pub struct RequestAccountEntry {
    /// The description that all of these requests share.
    pub action: Action,
    /// The reasons for the requests, separated by "; ".
    pub reasons: Cow<'static, str>,
    /// Count of these requests in the forecast.
    pub expected_count: usize,
    /// Count of these requests that were sent.
    pub sent_count: usize,
    /// The server's last refusal; `None` if it granted all of these requests.
    pub last_refusal: Option<String>,
    /// The reason why more or fewer requests were sent than expected; `None` if the counts are equal or no reason was recorded.
    pub deviation_reason: Option<String>,
}

impl RequestAccountEntry {
    /// Adds the reason of a further equal request, unless the text contains the reason or has reached [`MAX_REASONS_LENGTH`].
    fn add_reason(&mut self, why: &str) {
        if self.reasons.len() < MAX_REASONS_LENGTH && !self.reasons.contains(why) {
            let separator = if self.reasons.is_empty() { "" } else { "; " };
            self.reasons = format!("{}{separator}{why}", self.reasons).into();
        }
    }
}

impl fmt::Display for RequestAccountEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.action.describe(self.expected_count.max(self.sent_count)))?;
        if !self.reasons.is_empty() {
            write!(f, ": {}", self.reasons)?;
        }
        if let Some(refused) = &self.last_refusal {
            write!(f, "; refused: {refused}")?;
        }
        if let Some(deviation) = &self.deviation_reason {
            let what = if self.sent_count > self.expected_count { "added" } else { "left out" };
            write!(f, "; {} {what}: {deviation}", self.sent_count.abs_diff(self.expected_count))?;
        }
        Ok(())
    }
}

/// The requests of a forecast, collected while it runs.
#[derive(Default)]
pub(super) struct ForecastRequests(AccountState);

impl ForecastRequests {
    pub(super) fn add(&mut self, request: &Request) {
        self.0.entry(request).expected_count += 1;
    }

    /// Returns the account for the real run of the sync; `None` if the sync sends nothing.
    pub(super) fn into_account(self) -> Option<RequestAccount> {
        (!self.0.entries.is_empty()).then(|| RequestAccount(Arc::new(Mutex::new(self.0))))
    }
}

/// Returns the descriptions of the writes, one per line. If writes were omitted, a last line states their count.
fn describe_writes(entries: &[RequestAccountEntry], left_out: usize) -> Vec<String> {
    let mut lines = BoundedLines::default();
    for entry in entries.iter().filter(|entry| entry.action.is_write) {
        lines.push(|| entry.to_string());
    }
    lines.add_omitted_count(left_out);
    lines.into_vec()
}

/// The expected and the sent requests of one sync, kept up to date while the sync runs. Clones share the account.
///
/// A request is recorded before it is sent.
#[derive(Clone)]
pub struct RequestAccount(Arc<Mutex<AccountState>>);

#[derive(Default)]
struct AccountState {
    entries: Vec<RequestAccountEntry>,
    /// The position of each action in `entries`.
    index: HashMap<Action, usize>,
    /// The last refusal, or another observation, because of which the sync differs from the forecast.
    cause: Option<String>,
    left_out: usize,
}

impl AccountState {
    /// Returns the entry of a request, and adds an entry if no earlier request has the same action.
    fn entry(&mut self, request: &Request) -> &mut RequestAccountEntry {
        let action = Action::from_request(request);
        let at = if let Some(&at) = self.index.get(&action) {
            self.entries[at].add_reason(&request.reason);
            at
        } else {
            self.index.insert(action.clone(), self.entries.len());
            let why = request.reason.clone();
            self.entries.push(RequestAccountEntry {
                action,
                reasons: why,
                expected_count: 0,
                sent_count: 0,
                last_refusal: None,
                deviation_reason: None,
            });
            self.entries.len() - 1
        };
        &mut self.entries[at]
    }
}

impl RequestAccount {
    /// Returns the actions that satisfy `is_like`, each with the count of requests sent so far.
    pub fn sent_actions(&self, is_like: impl Fn(&Action) -> bool) -> Vec<(Action, usize)> {
        let state = self.0.lock();
        let like = state.entries.iter().filter(|entry| entry.sent_count > 0 && is_like(&entry.action));
        like.map(|entry| (entry.action.clone(), entry.sent_count)).collect()
    }

    /// Whether `self` and `other` are clones of the same account.
    pub fn is_same_account(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Counts a request as sent. Called just before the request is sent.
    pub fn record_sending(&self, request: &Request) {
        let mut state = self.0.lock();
        let cause = state.cause.clone();
        let entry = state.entry(request);
        entry.sent_count += 1;
        if entry.sent_count > entry.expected_count {
            entry.deviation_reason = cause;
        }
    }

    /// Records the refusal of a request, which is also the cause of later differences from the forecast.
    pub(super) fn record_refusal(&self, request: &Request, refusal: &Refusal) {
        let mut state = self.0.lock();
        let text = refusal.error.to_string();
        let entry = state.entry(request);
        entry.last_refusal = Some(text.clone());
        let cause = format!("{}: {text}", entry.action.describe(1));
        state.cause = Some(cause);
    }

    /// Takes back that a request was sent, because the gate withheld it.
    pub(super) fn record_withheld(&self, request: &Request) {
        self.0.lock().entry(request).sent_count -= 1;
    }

    /// Records the reason why the sync differs from its forecast, other than a refusal.
    pub(super) fn record_deviation(&self, cause: impl Into<String>) {
        self.0.lock().cause = Some(cause.into());
    }

    /// Records the failure of the sync as the cause of differences from the forecast, unless a cause was recorded before.
    pub(super) fn record_failure_if_unexplained(&self, error: &SyncError) {
        self.0.lock().cause.get_or_insert_with(|| error.to_string());
    }

    /// Ends the recording. The last recorded cause becomes the reason why expected requests were not sent.
    pub(super) fn finish(&self) {
        let state = &mut *self.0.lock();
        for entry in state.entries.iter_mut().filter(|entry| entry.sent_count < entry.expected_count) {
            entry.deviation_reason.clone_from(&state.cause);
        }
    }

    /// Returns the entries: expected requests in the order of the forecast, then additional requests in the order of sending.
    pub fn entries(&self) -> Vec<RequestAccountEntry> {
        self.0.lock().entries.clone()
    }

    /// Drops all but the first 20 entries of a finished account, and counts the dropped entries.
    pub fn truncate_entries(&self) {
        let state = &mut *self.0.lock();
        state.left_out += state.entries.len().saturating_sub(MAX_KEPT_ENTRIES);
        state.entries.truncate(MAX_KEPT_ENTRIES);
        state.entries.shrink_to_fit();
        state.index = HashMap::default();
    }

    /// Returns the descriptions of the writes, one per line.
    pub fn describe_writes(&self) -> Vec<String> {
        let state = self.0.lock();
        describe_writes(&state.entries, state.left_out)
    }
}

/// Callbacks before and after each sync that sends requests.
pub trait SyncCallbacks: Send + Sync {
    /// Is called before a sync sends its first request.
    fn on_sync_begin(&self, account: &RequestAccount);
    /// Is called when a sync has ended and its account is complete.
    fn on_sync_end(&self, account: &RequestAccount);
}

impl fmt::Debug for RequestAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        for line in self.describe_writes() {
            writeln!(text, "{line}")?;
        }
        f.write_str(&text)
    }
}
