//! What the controllers say of their own writes, held against what leaves them.
//!
//! Two oracles: the writes that leave a process are those in the accounts of its syncs in progress, which is what a reader of
//! `/debug/explain` is shown, each as often as the account says; and where a sync did otherwise than its forecast said, its
//! account gives a reason.

use std::{collections::HashMap, sync::Arc};

use common::io::{Action, RequestAccount, SyncCallbacks};
use http::Method;
use parking_lot::Mutex;
use serde_json::Value;

use super::{
    hub::{Asked, Hub, Process},
    json::text,
    safeguard::Safeguard,
};

#[derive(Debug, Default)]
pub(super) struct Accounts {
    open: Mutex<Vec<Open>>,
    /// The safeguard without which accounts are shown incomplete, to see that an oracle notices.
    without: Option<Safeguard>,
}

/// The account of a sync in progress, and what has left the process for it.
#[derive(Debug)]
struct Open {
    account: RequestAccount,
    left: HashMap<Action, Left>,
}

/// How often the requests of one kind have left.
#[derive(Clone, Copy, Debug, Default)]
struct Left {
    /// How many requests, each counted once however often it was repeated.
    requests: usize,
    /// How many of them the server has asked to repeat, and were not repeated yet.
    to_be_repeated: usize,
}

impl Left {
    /// Takes one that has not left yet, of so many that were sent.
    fn take_new(&mut self, sent: usize) -> bool {
        let is_new = self.requests < sent;
        self.requests += usize::from(is_new);
        is_new
    }

    fn take_repeated(&mut self, _sent: usize) -> bool {
        let is_repeated = self.to_be_repeated > 0;
        self.to_be_repeated -= usize::from(is_repeated);
        is_repeated
    }
}

impl Accounts {
    /// No sync is in progress. Without [`Safeguard::Account`], changes and deletions are kept back, and without
    /// [`Safeguard::Creation`] what is created.
    pub(super) fn new(without: Option<Safeguard>) -> Self {
        Self { open: Mutex::default(), without }
    }

    /// Takes a write that leaves into the account that shows it; whether there is one.
    pub(super) fn leaves(&self, asked: &Asked) -> bool {
        let hidden = if asked.method == Method::POST { Safeguard::Creation } else { Safeguard::Account };
        if self.without == Some(hidden) {
            return false;
        }
        let write = Written::of(asked);
        let mut open = self.open.lock();
        let mut take = |takes: fn(&mut Left, usize) -> bool| {
            open.iter_mut().any(|open| {
                let like = open.account.sent_actions(|action| write.is_of(action));
                like.into_iter().any(|(action, sent)| takes(open.left.entry(action).or_default(), sent))
            })
        };
        // While one sync waits to repeat its write, another one may send the same for the first time, and not wait.
        take(Left::take_new) || take(Left::take_repeated)
    }

    /// Takes note that the server has asked to repeat a write, which is no other request of the sync then.
    pub(super) fn is_to_be_repeated(&self, asked: &Asked) {
        let write = Written::of(asked);
        let mut open = self.open.lock();
        let left = open.iter_mut().flat_map(|open| &mut open.left).find(|(action, _)| write.is_of(action));
        if let Some((_, left)) = left {
            left.to_be_repeated += 1;
        }
    }

    fn begins(&self, account: &RequestAccount) {
        self.open.lock().push(Open { account: account.clone(), left: HashMap::new() });
    }

    /// Ends an account; says what it shows and did not leave, or left more rarely.
    fn ends(&self, account: &RequestAccount) -> Option<String> {
        let mut open = self.open.lock();
        let at = open.iter().position(|open| open.account.is_same_account(account))?;
        let Open { account, left } = open.swap_remove(at);
        let left = |action: &Action| left.get(action).map_or(0, |left| left.requests);
        let of_writes = account.sent_actions(|action| action.is_write && action.resource.plural() != "events");
        let (action, sent) = of_writes.into_iter().find(|(action, sent)| left(action) != *sent)?;
        let (what, left) = (format!("{} {} {}", action.method, action.resource.plural(), action.name), left(&action));
        Some(format!("{what}: the account has it {sent} times, and it was sent {left} times"))
    }
}

/// The object in a body, in protobuf or in JSON.
fn object_in(body: &[u8]) -> Value {
    sandbox::protobuf::parse(body).or_else(|_| serde_json::from_slice(body)).unwrap_or_default()
}

struct Written<'a> {
    asked: &'a Asked,
    created: Option<Value>,
}

impl<'a> Written<'a> {
    fn of(asked: &'a Asked) -> Self {
        let creates = asked.method == Method::POST;
        Self { asked, created: creates.then(|| object_in(&asked.body)) }
    }

    /// Whether an account means such a write: the same request to the same object, or to create the same kind of object under the
    /// same name, or with the same beginning of a name that the server completes.
    fn is_of(&self, action: &Action) -> bool {
        let Some(object) = self.asked.object() else { return false };
        let (method, resource) = (self.asked.method.as_str(), &action.resource);
        let is_there = action.method == method
            && resource.plural() == object.plural
            && *action.namespace == *object.namespace
            && action.subresource == object.subresource;
        let Some(created) = &self.created else { return is_there && *action.name == *object.name };
        let (name, prefix) = (text(created, "/metadata/name"), text(created, "/metadata/generateName"));
        let is_named = match (&*action.name, &*action.generate_name) {
            (known, "") => known == name,
            (_, generated) => name.is_empty() && generated == prefix,
        };
        let namespace = text(created, "/metadata/namespace");
        is_there
            && is_named
            && text(created, "/kind") == resource.kind()
            && text(created, "/apiVersion") == resource.api_version()
            && (namespace.is_empty() || *action.namespace == *namespace)
    }
}

pub(super) struct Observer {
    pub(super) hub: Arc<Hub>,
    pub(super) process: Arc<Process>,
}

impl SyncCallbacks for Observer {
    fn on_sync_begin(&self, account: &RequestAccount) {
        self.process.accounts.begins(account);
    }

    fn on_sync_end(&self, account: &RequestAccount) {
        let process = &self.process.identity;
        let mut violations = Vec::new();
        // Requests of a process that hangs, or may not write any more, need not leave it.
        let unsent = self.process.accounts.ends(account).filter(|_| self.process.may_write());
        violations.extend(unsent.map(|what| ("accounts-are-complete", format!("{process}: {what}"))));
        let unexplained = account
            .entries()
            .into_iter()
            .find(|entry| entry.sent_count != entry.expected_count && entry.deviation_reason.is_none());
        violations.extend(unexplained.map(|entry| {
            let (expected, sent) = (entry.expected_count, entry.sent_count);
            let what =
                format!("{process}: {entry}: the forecast has it {expected} times, and it was sent {sent} times; the account has no reason");
            ("forecasts-are-kept", what)
        }));
        self.hub.seen.lock().violations.extend(violations);
    }
}

#[cfg(test)]
mod tests {

    use common::{
        io::{self, Io, Request, RequestBody, Requeue},
        object::Resource,
    };
    use serde_json::json;

    use super::*;
    use crate::perturbation::Perturbation;
    use sandbox::Sandbox;

    const PODS: Resource = Resource::namespaced("", "v1", "pods", "Pod");

    fn forecast(requests: Vec<Request>) -> RequestAccount {
        let sync = async |io: Io<'_, ()>| {
            for request in requests {
                let _ = io.send(request).await;
            }
            Ok(Requeue::AfterPlannedDelay)
        };
        io::forecast_sync(jiff::Timestamp::UNIX_EPOCH, sync).request_account.unwrap()
    }

    fn process(requests: Vec<Request>) -> (Observer, RequestAccount) {
        let (hub, _news) = Hub::new(Sandbox::builder().build(), &Perturbation::default());
        let process = Process::new("job-controller", 1, hub.clock.clone(), Accounts::default());
        let observer = Observer { hub, process };
        let account = forecast(requests);
        observer.on_sync_begin(&account);
        (observer, account)
    }

    fn violated(observer: &Observer) -> Vec<&'static str> {
        observer.hub.seen.lock().violations.iter().map(|(oracle, _)| *oracle).collect()
    }

    fn read() -> Request {
        Request::get(PODS, &"ns".into(), &"a".into())
    }

    fn pod() -> Request {
        Request::create(PODS, &"ns".into(), &"".into(), RequestBody::default()).with_generate_name("web-")
    }

    fn named(name: &str) -> Request {
        Request::create(PODS, &"ns".into(), &name.into(), RequestBody::default())
    }

    fn asked(method: Method, path: &str, body: &Value) -> Asked {
        Asked { method, path: path.to_owned(), query: String::new(), body: body.to_string().into() }
    }

    fn posted(body: &Value) -> Asked {
        asked(Method::POST, "/api/v1/namespaces/ns/pods", body)
    }

    fn body(metadata: &Value) -> Value {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata})
    }

    #[test]
    fn a_request_that_was_forecast_and_never_sent_is_noticed() {
        let (observer, account) = process(vec![read()]);
        let get = asked(Method::GET, "/api/v1/namespaces/ns/pods/a", &Value::Null);
        assert!(!observer.process.accounts.leaves(&get), "it was not sent");
        observer.on_sync_end(&account);
        assert_eq!(violated(&observer), ["forecasts-are-kept"]);
    }

    #[test]
    fn one_creation_more_than_the_account_says_is_noticed() {
        let (observer, account) = process(vec![pod(), pod()]);
        let one = posted(&body(&json!({"generateName": "web-"})));
        account.record_sending(&pod());
        account.record_sending(&pod());
        assert!(observer.process.accounts.leaves(&one));
        assert!(observer.process.accounts.leaves(&one));
        assert!(!observer.process.accounts.leaves(&one), "the account says two");
        observer.on_sync_end(&account);
        assert_eq!(violated(&observer), Vec::<&str>::new());
    }

    #[test]
    fn one_creation_less_than_the_account_says_is_noticed() {
        let (observer, account) = process(vec![pod(), pod()]);
        account.record_sending(&pod());
        account.record_sending(&pod());
        assert!(observer.process.accounts.leaves(&posted(&body(&json!({"generateName": "web-"})))));
        observer.on_sync_end(&account);
        assert_eq!(violated(&observer), ["accounts-are-complete"]);
    }

    #[test]
    fn a_creation_that_the_server_asks_to_repeat_is_one_creation() {
        let (observer, account) = process(vec![pod()]);
        let one = posted(&body(&json!({"generateName": "web-"})));
        account.record_sending(&pod());
        assert!(observer.process.accounts.leaves(&one));
        observer.process.accounts.is_to_be_repeated(&one);
        assert!(observer.process.accounts.leaves(&one));
        assert!(!observer.process.accounts.leaves(&one), "nobody asked to repeat it once more");
        observer.on_sync_end(&account);
        assert_eq!(violated(&observer), Vec::<&str>::new());
    }

    #[test]
    fn a_write_of_one_sync_is_not_taken_for_the_repetition_of_another() {
        let (observer, account) = process(vec![pod()]);
        let other = forecast(vec![pod()]);
        let one = posted(&body(&json!({"generateName": "web-"})));
        let accounts = &observer.process.accounts;
        account.record_sending(&pod());
        assert!(accounts.leaves(&one));
        accounts.is_to_be_repeated(&one);
        observer.on_sync_begin(&other);
        other.record_sending(&pod());
        assert!(accounts.leaves(&one));
        observer.on_sync_end(&other);
        assert!(accounts.leaves(&one));
        observer.on_sync_end(&account);
        assert_eq!(violated(&observer), Vec::<&str>::new());
    }

    #[test]
    fn a_creation_of_something_else_than_the_account_says_is_noticed() {
        let generated = json!({"generateName": "web-"});
        for (said, sent, is_it) in [
            (pod(), body(&generated), true),
            (pod(), body(&json!({"generateName": "web-", "namespace": "ns"})), true),
            (pod(), body(&json!({"generateName": "web-", "namespace": "other"})), false),
            (pod(), body(&json!({"generateName": "db-"})), false),
            (pod(), body(&json!({"name": "web-1"})), false),
            (pod(), json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": generated}), false),
            (pod(), json!({"apiVersion": "v2", "kind": "Pod", "metadata": generated}), false),
            (named("web-1"), body(&json!({"name": "web-1"})), true),
            (named("web-1"), body(&json!({"name": "web-2"})), false),
            (named("web-1"), body(&json!({"generateName": "web-"})), false),
        ] {
            let (observer, account) = process(vec![said.clone()]);
            account.record_sending(&said);
            assert_eq!(observer.process.accounts.leaves(&posted(&sent)), is_it, "{sent}");
        }
        let (observer, account) = process(vec![pod()]);
        account.record_sending(&pod());
        let elsewhere = asked(Method::POST, "/api/v1/namespaces/other/pods", &body(&generated));
        assert!(!observer.process.accounts.leaves(&elsewhere));
    }
}
