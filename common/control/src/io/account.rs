//! What a sync was expected to do, what it did, and why the two differ.

use std::{
    borrow::Cow,
    fmt::{self, Write as _},
    sync::Arc,
};

use parking_lot::Mutex;

use super::{
    outcome::Failed,
    request::{Refusal, Request, Role},
};
use crate::{explain::Lines, intern::Text, map::HashMap, object::Resource};

/// The length of the reasons of an entry, in bytes, from which on no other is added.
const LONG: usize = 200;
/// How many entries a finished account keeps. The others are counted.
const KEPT: usize = 20;

/// A request as an account names it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Action {
    /// The HTTP method.
    pub method: &'static str,
    /// What is done, such as `delete`.
    pub doing: &'static str,
    /// Whether it writes.
    pub writes: bool,
    /// To which resource.
    pub resource: Resource,
    /// The kind of the object in words.
    pub kind: &'static str,
    /// In which namespace.
    pub namespace: Text,
    /// To which object; for an object whose name the server completes, empty or what explanations show.
    pub name: Arc<str>,
    /// The beginning of the name of an object to create, if the server chooses the rest; empty otherwise.
    pub generate_name: Arc<str>,
    /// To which subresource; empty for none.
    pub subresource: &'static str,
    /// Whether it is the object of the sync.
    pub is_itself: bool,
}

impl Action {
    fn of(request: &Request) -> Self {
        Self {
            method: request.verb.method(),
            doing: request.doing,
            writes: request.verb.writes(),
            resource: request.resource,
            kind: request.kind,
            namespace: request.namespace.clone(),
            name: Arc::clone(&request.name),
            generate_name: Arc::clone(&request.generate_name),
            subresource: request.subresource,
            is_itself: request.subresource == "status"
                && !matches!(request.role, Role::Child | Role::Adopted | Role::Released),
        }
    }
}

impl Action {
    /// What is done so many times.
    fn describe(&self, count: usize) -> String {
        let Self { doing, kind, name, is_itself, .. } = self;
        match (is_itself, count) {
            (true, _) => (*doing).to_owned(),
            (false, 0 | 1) if !name.is_empty() => format!("{doing} {kind} {name}"),
            (false, 0 | 1) => format!("{doing} 1 {kind}"),
            (false, count) if name.is_empty() => format!("{doing} {count} {kind}s"),
            (false, count) => format!("{doing} {kind} {name} ({count} times)"),
        }
    }
}

/// All requests of a sync that are alike.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The request.
    pub action: Action,
    /// Why it is made.
    pub why: Cow<'static, str>,
    /// How often it was expected.
    pub expected: usize,
    /// How often it was sent.
    pub sent: usize,
    /// What the server said against it last.
    pub refused: Option<String>,
    /// Why it was sent more often, or less often, than expected.
    pub deviation: Option<String>,
}

impl Entry {
    /// Adds the reason of another request that is alike.
    fn also_because(&mut self, why: &str) {
        if self.why.len() < LONG && !self.why.contains(why) {
            let separator = if self.why.is_empty() { "" } else { "; " };
            self.why = format!("{}{separator}{why}", self.why).into();
        }
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.action.describe(self.expected.max(self.sent)))?;
        if !self.why.is_empty() {
            write!(f, ": {}", self.why)?;
        }
        if let Some(refused) = &self.refused {
            write!(f, "; refused: {refused}")?;
        }
        if let Some(deviation) = &self.deviation {
            let what = if self.sent > self.expected { "added" } else { "left out" };
            write!(f, "; {} {what}: {deviation}", self.sent.abs_diff(self.expected))?;
        }
        Ok(())
    }
}

/// The requests that a forecast expects.
#[derive(Default)]
pub(super) struct Expected(State);

impl Expected {
    pub(super) fn add(&mut self, request: &Request) {
        self.0.entry(request).expected += 1;
    }

    /// The account of a sync that is about to begin; `None` if it sends nothing.
    pub(super) fn into_account(self) -> Option<Account> {
        (!self.0.entries.is_empty()).then(|| Account(Arc::new(Mutex::new(self.0))))
    }
}

/// The writes, a line each, as far as there is room for them.
fn lines(entries: &[Entry], left_out: usize) -> Vec<String> {
    let mut lines = Lines::default();
    for entry in entries.iter().filter(|entry| entry.action.writes) {
        lines.push(|| entry.to_string());
    }
    lines.leave_out(left_out);
    lines.into_vec()
}

/// What a sync does, kept up to date while it runs: a request is in it before it leaves. Clones share it.
#[derive(Clone)]
pub struct Account(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    entries: Vec<Entry>,
    /// The positions of the entries.
    index: HashMap<Action, usize>,
    /// The last answer other than expected.
    cause: Option<String>,
    left_out: usize,
}

impl State {
    /// The entry of a request; a new one if it is the first of its sort.
    fn entry(&mut self, request: &Request) -> &mut Entry {
        let action = Action::of(request);
        let at = if let Some(&at) = self.index.get(&action) {
            self.entries[at].also_because(&request.why);
            at
        } else {
            self.index.insert(action.clone(), self.entries.len());
            let why = request.why.clone();
            self.entries.push(Entry { action, why, expected: 0, sent: 0, refused: None, deviation: None });
            self.entries.len() - 1
        };
        &mut self.entries[at]
    }
}

impl Account {
    /// The actions that satisfy `is_like`, each with the number of requests sent so far.
    pub fn sent(&self, is_like: impl Fn(&Action) -> bool) -> Vec<(Action, usize)> {
        let state = self.0.lock();
        let like = state.entries.iter().filter(|entry| entry.sent > 0 && is_like(&entry.action));
        like.map(|entry| (entry.action.clone(), entry.sent)).collect()
    }

    /// Whether both are the same account.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Notes that a request is about to be sent.
    pub fn sends(&self, request: &Request) {
        let mut state = self.0.lock();
        let cause = state.cause.clone();
        let entry = state.entry(request);
        entry.sent += 1;
        if entry.sent > entry.expected {
            entry.deviation = cause;
        }
    }

    /// Notes that a request was refused.
    pub(super) fn refused(&self, request: &Request, refusal: &Refusal) {
        let mut state = self.0.lock();
        let text = refusal.error.to_string();
        let entry = state.entry(request);
        entry.refused = Some(text.clone());
        let cause = format!("{}: {text}", entry.action.describe(1));
        state.cause = Some(cause);
    }

    /// Notes another reason why the sync goes on otherwise than expected.
    pub(super) fn deviates(&self, cause: impl Into<String>) {
        self.0.lock().cause = Some(cause.into());
    }

    /// The same, if nothing else is known.
    pub(super) fn deviates_if_unexplained(&self, failed: &Failed) {
        self.0.lock().cause.get_or_insert_with(|| failed.to_string());
    }

    /// Ends the account: what was not sent is left out for the last known cause.
    pub(super) fn end(&self) {
        let state = &mut *self.0.lock();
        for entry in state.entries.iter_mut().filter(|entry| entry.sent < entry.expected) {
            entry.deviation.clone_from(&state.cause);
        }
    }

    /// The requests, in the order in which they were expected, then in the order in which they were added.
    pub fn entries(&self) -> Vec<Entry> {
        self.0.lock().entries.clone()
    }

    /// Keeps the first few entries only, and the number of the others.
    pub fn shorten(&self) {
        let state = &mut *self.0.lock();
        state.left_out += state.entries.len().saturating_sub(KEPT);
        state.entries.truncate(KEPT);
        state.entries.shrink_to_fit();
        state.index = HashMap::default();
    }

    /// The writes, a line each.
    pub fn lines(&self) -> Vec<String> {
        let state = self.0.lock();
        lines(&state.entries, state.left_out)
    }
}

/// Sees the accounts of a process begin and end.
pub trait AccountObserver: Send + Sync {
    /// A sync is about to send its first request.
    fn begins(&self, account: &Account);
    /// A sync has ended; its account is complete.
    fn ends(&self, account: &Account);
}

impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        for line in self.lines() {
            writeln!(text, "{line}")?;
        }
        f.write_str(&text)
    }
}
