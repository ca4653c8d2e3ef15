//! Where all processes of a run meet: writes are counted here, and here it is decided what goes wrong with which.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use common::{
    clock::{Clock, Instant},
    watched as watch,
};
use http::{Method, StatusCode};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::mpsc;

use super::{
    accounts::Accounts,
    json::{items, text},
    neighbour,
    perturbation::{At, Failure, Fault, Kind, Moment, Perturbation},
    trace::Digest,
};
use sandbox::Sandbox;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    Running,
    /// It hangs: nothing leaves it and nothing reaches it.
    Hanging,
    Dead,
}

#[derive(Debug)]
pub(super) struct Process {
    pub(super) program: &'static str,
    /// What the API server knows it as: `deployment-controller#2`.
    pub(super) identity: String,
    pub(super) clock: Clock,
    pub(super) accounts: Arc<Accounts>,
    life: watch::Sender<Life>,
    deposed: Mutex<Option<Instant>>,
}

impl Process {
    pub(super) fn new(program: &'static str, incarnation: u32, clock: Clock, accounts: Accounts) -> Arc<Self> {
        let identity = format!("{program}#{incarnation}");
        let (life, accounts) = (watch::Sender::new(Life::Running), Arc::new(accounts));
        Arc::new(Self { program, identity, clock, accounts, life, deposed: Mutex::default() })
    }

    /// Ends, hangs, or wakes up. The dead stay dead.
    pub(super) fn set(&self, life: Life) {
        self.life.send_if_modified(|now| *now != Life::Dead && std::mem::replace(now, life) != life);
    }

    /// Waits until it runs: for ever, if it never will again.
    pub(super) async fn runs(&self) {
        if *self.life.borrow() == Life::Running {
            return;
        }
        if self.life.subscribe().wait_for(|life| *life == Life::Running).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    pub(super) async fn dies(&self) {
        // The sender lives as long as `self`.
        let _ = self.life.subscribe().wait_for(|life| *life == Life::Dead).await;
    }

    pub(super) fn is_dead(&self) -> bool {
        *self.life.borrow() == Life::Dead
    }

    pub(super) fn depose(&self) {
        self.deposed.lock().get_or_insert(self.clock.monotonic_now());
    }

    pub(super) fn is_deposed(&self) -> bool {
        self.deposed.lock().is_some_and(|at| at < self.clock.monotonic_now())
    }

    pub(super) fn may_write(&self) -> bool {
        *self.life.borrow() == Life::Running && self.deposed.lock().is_none()
    }

    /// Whether its writes are counted: those of programs under test are.
    fn counts(&self) -> bool {
        self.program != super::stage::NODES
    }
}

#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) query: String,
    /// As the process hands it to its client.
    pub(super) body: Bytes,
}

impl Asked {
    pub(super) fn is_watch(&self) -> bool {
        self.query.split('&').any(|part| part == "watch=true")
    }

    fn is_write(&self) -> bool {
        self.method != Method::GET
    }

    /// Whether it asks for a single Lease, only to know whether the server is there.
    pub(super) fn proves_sight(&self) -> bool {
        self.resource() == "leases" && self.query.split('&').any(|part| part == "limit=1")
    }

    pub(super) fn patches_an_object(&self) -> bool {
        self.method == Method::PATCH && !self.resource().contains('/')
    }

    fn is_beside(&self) -> bool {
        let rest = self.path.split_once("/namespaces/").map(|(_, rest)| rest);
        rest.and_then(|rest| rest.split('/').next()) == Some(neighbour::NAMESPACE)
    }

    pub(super) fn resource(&self) -> String {
        match self.object() {
            Some(Object { plural, subresource: "", .. }) => plural.to_owned(),
            Some(Object { plural, subresource, .. }) => format!("{plural}/{subresource}"),
            None => String::new(),
        }
    }

    pub(super) fn object(&self) -> Option<Object<'_>> {
        let segments: Vec<&str> = self.path.split('/').filter(|s| !s.is_empty()).collect();
        let rest = match segments.as_slice() {
            ["api", _, rest @ ..] | ["apis", _, _, rest @ ..] => rest,
            _ => &[],
        };
        let (namespace, plural, rest) = match rest {
            // Subresources of the namespace itself.
            ["namespaces", _, "status" | "finalize"] => ("", "namespaces", &rest[1..]),
            ["namespaces", namespace, plural, rest @ ..] => (*namespace, *plural, rest),
            [plural, rest @ ..] => ("", *plural, rest),
            [] => return None,
        };
        let part = |at: usize| rest.get(at).copied().unwrap_or_default();
        Some(Object { plural, namespace, name: part(0), subresource: part(1) })
    }
}

/// What the path of a request names. A part that it does not name is empty.
#[derive(Clone, Copy, Debug)]
pub(super) struct Object<'a> {
    pub(super) plural: &'a str,
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
    pub(super) subresource: &'a str,
}

/// A write of the controllers, as it left.
#[derive(Clone, Debug)]
pub struct Point {
    /// Who sent it.
    pub program: &'static str,
    /// Its method.
    pub method: Method,
    /// The resource and subresource.
    pub resource: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Served,
    Refused(u16),
    Crash(Moment),
    Fails(Failure),
    Hangs,
}

impl Fate {
    /// Whether it is the last of the process, for now or for good.
    fn ends(&self) -> bool {
        matches!(self, Self::Crash(_) | Self::Hangs)
    }
}

/// Something that has gone wrong with a write, whose consequences go on.
#[derive(Debug)]
pub(super) struct News {
    pub(super) kind: Kind,
    pub(super) process: Arc<Process>,
}

/// What the run has shown besides accepted writes.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) digest: Digest,
    pub(super) points: Vec<Point>,
    pub(super) attempted: Option<Instant>,
    pub(super) watched: BTreeSet<(&'static str, String)>,
    pub(super) violations: Vec<(&'static str, String)>,
    pub(super) requests: u64,
    pub(super) beside: u64,
    /// The time of the last write that a fault kept from its ordinary answer.
    pub(super) disturbed: Option<Instant>,
}

struct Refusal {
    code: u16,
    method: Method,
    resource: String,
    until: Instant,
}

pub(super) struct Hub {
    pub(super) sandbox: Sandbox,
    pub(super) clock: Clock,
    start: Instant,
    faults: Vec<Fault>,
    refusals: Mutex<Vec<Refusal>>,
    /// Whose reads fail, until when.
    unread: Mutex<Option<(&'static str, Instant)>>,
    acting: Mutex<BTreeMap<&'static str, Arc<Process>>>,
    news: mpsc::UnboundedSender<News>,
    /// Faults whose consequences are not over.
    pub(super) pending: watch::Sender<usize>,
    pub(super) seen: Mutex<Seen>,
}

impl Hub {
    pub(super) fn new(sandbox: Sandbox, perturbation: &Perturbation) -> (Arc<Self>, mpsc::UnboundedReceiver<News>) {
        let (news, heard) = mpsc::unbounded_channel();
        let clock = sandbox.clock().clone();
        let hub = Self {
            start: clock.monotonic_now(),
            clock,
            sandbox,
            faults: perturbation.0.clone(),
            refusals: Mutex::default(),
            unread: Mutex::default(),
            acting: Mutex::default(),
            news,
            pending: watch::Sender::new(0),
            seen: Mutex::default(),
        };
        (Arc::new(hub), heard)
    }

    /// How long a message takes, one way.
    pub(super) async fn travel(&self) {
        let time = 1 + self.clock.random_below(8) as u64;
        self.clock.sleep(Duration::from_millis(time)).await;
    }

    pub(super) async fn server_is_back(&self) {
        while self.sandbox.faults().is_down() {
            self.clock.sleep(Duration::from_secs(1)).await;
        }
    }

    pub(super) fn digest(&self, process: &Process, parts: &[&[u8]]) {
        let mut seen = self.seen.lock();
        seen.digest.word((self.clock.monotonic_now() - self.start).as_nanos() as u64);
        seen.digest.bytes(process.identity.as_bytes());
        for part in parts {
            seen.digest.bytes(part);
        }
    }

    pub(super) fn acts(&self, process: &Arc<Process>) {
        self.acting.lock().insert(process.program, Arc::clone(process));
    }

    pub(super) fn has_paused_leaders(&self) -> bool {
        self.faults.iter().any(|fault| matches!(fault.kind, Kind::PausedLeader(_)))
    }

    pub(super) fn watched_by(&self, program: &str) -> Vec<String> {
        let seen = self.seen.lock();
        seen.watched.iter().filter(|(p, _)| *p == program).map(|(_, resource)| resource.clone()).collect()
    }

    /// Takes a request on its way, and says what becomes of it.
    pub(super) fn leaves(&self, process: &Arc<Process>, asked: &Asked) -> Fate {
        let resource = asked.resource();
        let mut seen = self.seen.lock();
        seen.requests += 1;
        if !process.counts() {
            return Fate::Served;
        }
        if asked.is_watch() {
            seen.watched.insert((process.program, resource.clone()));
        }
        if !asked.is_write() {
            if !asked.is_watch() && self.reads_fail(process) {
                return Fate::Refused(500);
            }
            if asked.query.split('&').any(|part| part == "resourceVersion=0") {
                let what = format!("{} reads {resource} from version 0, which may give old data", process.identity);
                seen.violations.push(("reads-are-consistent", what));
            }
            return Fate::Served;
        }
        if process.is_deposed() {
            let what = format!("{} sent {} {} after it had lost its Lease", process.identity, asked.method, asked.path);
            seen.violations.push(("only-leaders-write", what));
        }
        if resource == "events" {
            return Fate::Served;
        }
        if !process.accounts.leaves(asked) {
            let what = format!("{} sent {} {}, which is in no account", process.identity, asked.method, asked.path);
            seen.violations.push(("accounts-are-complete", what));
        }
        // Faults count the writes that the neighbour does not cause, so that they mean the same with and without it.
        if asked.is_beside() {
            seen.beside += 1;
            return Fate::Served;
        }
        seen.attempted = Some(self.clock.monotonic_now());
        seen.points.push(Point { program: process.program, method: asked.method.clone(), resource: resource.clone() });
        let count = seen.points.len() as u64;
        drop(seen);
        let mut fate = self.refusal(&asked.method, &resource).map_or(Fate::Served, Fate::Refused);
        for fault in self.faults.iter().filter(|fault| fault.at == At::Write(count)) {
            // Who has ended ends no second time, and hears of no failure.
            if fate.ends() && fault.kind.ends() {
                continue;
            }
            let struck = self.strike(fault, process, Some((asked, &resource)));
            if !fate.ends() {
                fate = struck.unwrap_or(fate);
            }
        }
        if fate != Fate::Served {
            self.seen.lock().disturbed = Some(self.clock.monotonic_now());
        }
        fate
    }

    /// Takes an answer of the server on its way back. No controller may write a status that breaks the server's rules: it
    /// would do so again and again. That an object is another one by now is nobody's fault.
    pub(super) fn answered(&self, process: &Process, asked: &Asked, status: StatusCode, body: &Bytes) {
        let resource = asked.resource();
        if status != StatusCode::UNPROCESSABLE_ENTITY || !process.counts() || !resource.ends_with("/status") {
            return;
        }
        let answer: Value = serde_json::from_slice(body).unwrap_or_default();
        if items(&answer, "/details/causes").iter().any(|cause| cause["field"] == "metadata.uid") {
            return;
        }
        let what = format!("{} {resource}: {}", process.identity, text(&answer, "/message"));
        self.seen.lock().violations.push(("statuses-are-valid", what));
    }

    fn reads_fail(&self, process: &Process) -> bool {
        let now = self.clock.monotonic_now();
        self.unread.lock().as_ref().is_some_and(|(program, until)| *program == process.program && *until > now)
    }

    fn refusal(&self, method: &Method, resource: &str) -> Option<u16> {
        let now = self.clock.monotonic_now();
        let mut refusals = self.refusals.lock();
        refusals.retain(|refusal| refusal.until > now);
        refusals.iter().find(|r| r.method == *method && r.resource == resource).map(|r| r.code)
    }

    /// Lets the faults strike that come before a step of the users.
    pub(super) fn step(&self, number: u64, program: &str) {
        let acting = self.acting.lock().get(program).cloned();
        let Some(process) = acting else { return };
        let mut ended = false;
        for fault in self.faults.iter().filter(|fault| fault.at == At::Step(number)) {
            if ended && fault.kind.ends() {
                continue;
            }
            match self.strike(fault, &process, None) {
                Some(Fate::Crash(_)) => process.set(Life::Dead),
                Some(Fate::Hangs) => process.set(Life::Hanging),
                _ => continue,
            }
            ended = true;
        }
    }

    /// Lets a fault take effect. What is to follow later is told.
    fn strike(&self, fault: &Fault, process: &Arc<Process>, write: Option<(&Asked, &str)>) -> Option<Fate> {
        let faults = self.sandbox.faults();
        let tell = |process: &Arc<Process>| {
            self.pending.send_modify(|n| *n += 1);
            let news = News { kind: fault.kind.clone(), process: Arc::clone(process) };
            // Who would hear it lives as long as the run.
            let _ = self.news.send(news);
        };
        let until = |time: &Duration| self.clock.monotonic_now() + *time;
        match &fault.kind {
            Kind::Error(failure) => return Some(Fate::Fails(*failure)),
            Kind::Clock(seconds) => {
                process.clock.shift_wall_clock(jiff::SignedDuration::from_secs(*seconds));
                return None;
            }
            Kind::Hold(program, resource, _) => {
                let held = self.acting.lock().get(program.as_str()).cloned()?;
                faults.hold_watch(&held.identity, resource);
                tell(&held);
                return None;
            }
            Kind::Reject(code, time) => {
                let (asked, resource) = write?;
                let (method, resource) = (asked.method.clone(), resource.to_owned());
                self.refusals.lock().push(Refusal { code: *code, method, resource, until: until(time) });
            }
            Kind::Unread(time) => *self.unread.lock() = Some((process.program, until(time))),
            Kind::Missed(_) => {
                for resource in self.watched_by(process.program) {
                    faults.hold_watch(&process.identity, &resource);
                }
            }
            Kind::Recreate(_) => faults.hold_watch(&process.identity, "pods"),
            _ => {}
        }
        tell(process);
        match &fault.kind {
            Kind::Crash(moment) => Some(Fate::Crash(*moment)),
            Kind::Lag(_) => Some(Fate::Crash(Moment::AfterEffect)),
            Kind::Reject(code, _) => Some(Fate::Refused(*code)),
            Kind::PausedLeader(_) => Some(Fate::Hangs),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn violations(method: Method, path: &str, query: &str, status: StatusCode, answer: Value) -> Vec<&'static str> {
        let sandbox = Sandbox::builder().build();
        let (hub, _news) = Hub::new(sandbox, &Perturbation::default());
        let process = Process::new("job-controller", 1, hub.clock.clone(), Accounts::default());
        let asked = Asked { method, path: path.to_owned(), query: query.to_owned(), body: Bytes::new() };
        assert_eq!(hub.leaves(&process, &asked), Fate::Served);
        hub.answered(&process, &asked, status, &Bytes::from(answer.to_string()));
        let seen = hub.seen.lock();
        // No sync is in progress here.
        let found = seen.violations.iter().map(|(oracle, _)| *oracle);
        found.filter(|oracle| *oracle != "accounts-are-complete").collect()
    }

    #[test]
    fn a_read_that_may_be_stale_is_noticed() {
        for (query, expected) in [("resourceVersion=0", &["reads-are-consistent"][..]), ("resourceVersion=7", &[])] {
            let found = violations(Method::GET, "/api/v1/pods", query, StatusCode::OK, json!({}));
            assert_eq!(found, expected, "{query}");
        }
    }

    #[test]
    fn a_status_that_breaks_the_servers_rules_is_noticed() {
        let path = "/apis/batch/v1/namespaces/default/jobs/sum/status";
        let invalid = |field: &str| json!({"message": "invalid", "details": {"causes": [{"field": field}]}});
        for (status, field, expected) in [
            (StatusCode::UNPROCESSABLE_ENTITY, "status.active", &["statuses-are-valid"][..]),
            (StatusCode::UNPROCESSABLE_ENTITY, "metadata.uid", &[]),
            (StatusCode::CONFLICT, "status.active", &[]),
        ] {
            let found = violations(Method::PATCH, path, "", status, invalid(field));
            assert_eq!(found, expected, "{status} {field}");
        }
    }
}
