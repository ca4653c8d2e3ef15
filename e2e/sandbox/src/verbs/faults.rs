//! Faults on demand: what goes wrong, for whom, when and how often.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use common::clock::{Clock, Instant};
use parking_lot::Mutex;
use tokio::sync::Notify;

/// Which requests a [`Rule`] is for. What is not given matches everything.
#[derive(Clone, Debug, Default)]
pub struct Matcher {
    /// Identity of the client.
    pub identity: Option<String>,
    /// Verb as RBAC names it: `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`.
    pub verb: Option<String>,
    /// Plural name of the resource, with `/subresource` where that is meant.
    pub resource: Option<String>,
    /// Namespace of the request.
    pub namespace: Option<String>,
    /// Name of the object; of a create, the name in the body if it has one.
    pub name: Option<String>,
    /// How many matching requests (or events of a watch) pass before the rule bites.
    pub skip: u64,
    /// Probability that a matching request is hit, decided by the sandbox's clock; 1 if not given.
    pub chance: Option<f64>,
}

/// What goes wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// The answer comes later.
    Latency(Duration),
    /// The request takes effect at once, and its answer comes later.
    LateAnswer(Duration),
    /// 409 Conflict.
    Conflict,
    /// 429 Too Many Requests with that many seconds in `Retry-After`.
    TooManyRequests(u64),
    /// 403 Forbidden, as a quota or an admission policy may answer.
    Forbidden,
    /// 422 Unprocessable Entity, as an admission webhook may answer.
    Invalid,
    /// 500 Internal Server Error.
    InternalError,
    /// 503 Service Unavailable.
    Unavailable,
    /// 504 Gateway Timeout; nothing was done.
    Timeout,
    /// The connection breaks before anything is done.
    CutBefore,
    /// The connection breaks after the request took effect and before the answer.
    CutAfter,
    /// A list is answered as of that many versions ago.
    StaleList(u64),
    /// The watch ends as if its time were up.
    CloseWatch,
    /// The watch breaks like a cut connection.
    CutWatch,
    /// The watch sends a line that is not JSON, or a frame that is no message, then ends.
    Garbage,
    /// The watch sends half of an event, then breaks.
    HalfLine,
    /// The watch sends a frame whose length is the largest there is, then ends; in JSON, as [`Action::Garbage`].
    OverlongFrame,
    /// The watch sends an event of a type that does not exist, then ends.
    UnknownEventType,
    /// The watch sends an `ADDED` event with a Secret in place of the kind that is watched, then ends.
    WrongKind,
    /// The watch sends an `ERROR` event with 410 Expired, then ends.
    ExpireWatch,
}

impl Action {
    fn on_watch(&self) -> bool {
        matches!(
            self,
            Self::CloseWatch
                | Self::CutWatch
                | Self::Garbage
                | Self::HalfLine
                | Self::OverlongFrame
                | Self::UnknownEventType
                | Self::WrongKind
                | Self::ExpireWatch
        )
    }
}

/// One fault: for which requests, what, how often.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Which requests.
    pub matcher: Matcher,
    /// What happens to them.
    pub action: Action,
    /// How often; always, if not given.
    pub times: Option<u64>,
}

impl Rule {
    /// A rule that hits every request, always.
    pub fn new(action: Action) -> Self {
        Self { matcher: Matcher::default(), action, times: None }
    }
    /// Only requests of that client.
    #[must_use]
    pub fn identity(mut self, identity: impl Into<String>) -> Self {
        self.matcher.identity = Some(identity.into());
        self
    }
    /// Only requests with that verb.
    #[must_use]
    pub fn verb(mut self, verb: impl Into<String>) -> Self {
        self.matcher.verb = Some(verb.into());
        self
    }
    /// Only requests for that resource (`pods`, `pods/status`).
    #[must_use]
    pub fn resource(mut self, resource: impl Into<String>) -> Self {
        self.matcher.resource = Some(resource.into());
        self
    }
    /// Only requests for that object.
    #[must_use]
    pub fn object(mut self, namespace: impl Into<String>, name: impl Into<String>) -> Self {
        self.matcher.namespace = Some(namespace.into());
        self.matcher.name = Some(name.into());
        self
    }
    /// Lets that many matching requests pass first.
    #[must_use]
    pub fn skip(mut self, matches: u64) -> Self {
        self.matcher.skip = matches;
        self
    }
    /// Hits a matching request only with that probability.
    #[must_use]
    pub fn chance(mut self, probability: f64) -> Self {
        self.matcher.chance = Some(probability);
        self
    }
    /// Hits only so often.
    #[must_use]
    pub fn times(mut self, times: u64) -> Self {
        self.times = Some(times);
        self
    }
}

/// A request as rules see it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subject<'a> {
    pub(crate) identity: &'a str,
    pub(crate) verb: &'a str,
    pub(crate) plural: &'a str,
    pub(crate) sub: Option<&'a str>,
    pub(crate) namespace: Option<&'a str>,
    pub(crate) name: Option<&'a str>,
}

impl Matcher {
    pub(crate) fn matches(&self, subject: &Subject<'_>) -> bool {
        let is = |wanted: &Option<String>, found: Option<&str>| wanted.as_deref().is_none_or(|w| Some(w) == found);
        let resource = |wanted: &String| match (wanted.split_once('/'), subject.sub) {
            (Some((plural, sub)), Some(found)) => plural == subject.plural && sub == found,
            (None, None) => wanted == subject.plural,
            _ => false,
        };
        is(&self.identity, Some(subject.identity))
            && is(&self.verb, Some(subject.verb))
            && self.resource.as_ref().is_none_or(resource)
            && is(&self.namespace, subject.namespace)
            && is(&self.name, subject.name)
    }
}

#[derive(Debug)]
struct Armed {
    rule: Rule,
    seen: u64,
    hits: u64,
}

#[derive(Debug, Default)]
struct State {
    rules: Vec<Armed>,
    held: BTreeSet<(String, String)>,
    delays: Vec<(String, String, Duration)>,
    silent: BTreeSet<String>,
    down: bool,
    down_until: Option<Instant>,
}

/// The faults of one sandbox. Cheap to clone; clones share their state.
#[derive(Clone, Debug)]
pub struct Faults {
    state: Arc<Mutex<State>>,
    changed: Arc<Notify>,
    clock: Clock,
}

impl Faults {
    pub(crate) fn new(clock: Clock) -> Self {
        Self { state: Arc::default(), changed: Arc::default(), clock }
    }

    /// Adds a fault. Rules are asked in the order they were added; the first that bites counts.
    pub fn add(&self, rule: Rule) {
        self.state.lock().rules.push(Armed { rule, seen: 0, hits: 0 });
        self.changed.notify_waiters();
    }

    /// Removes all rules, releases all watches, finds out again what every group serves and lets the server come up.
    pub fn clear(&self) {
        *self.state.lock() = State::default();
        self.changed.notify_waiters();
    }

    /// How often the rules of that action have hit.
    pub fn hits(&self, action: &Action) -> u64 {
        self.state.lock().rules.iter().filter(|a| a.rule.action == *action).map(|a| a.hits).sum()
    }

    /// Withholds all watch events of one resource from one client until [`release_watch`](Self::release_watch).
    pub fn hold_watch(&self, identity: &str, plural: &str) {
        self.state.lock().held.insert((identity.to_owned(), plural.to_owned()));
        self.changed.notify_waiters();
    }

    /// Delivers what was withheld, in order.
    pub fn release_watch(&self, identity: &str, plural: &str) {
        self.state.lock().held.remove(&(identity.to_owned(), plural.to_owned()));
        self.changed.notify_waiters();
    }

    /// Delivers each watch event of one resource to one client that much later than it happened.
    pub fn delay_watch(&self, identity: &str, plural: &str, by: Duration) {
        let mut state = self.state.lock();
        state.delays.retain(|(i, p, _)| (&**i, &**p) != (identity, plural));
        if by > Duration::ZERO {
            state.delays.push((identity.to_owned(), plural.to_owned(), by));
        }
        drop(state);
        self.changed.notify_waiters();
    }

    /// Makes the server not know what a group serves, as when the server behind an aggregated API is away: discovery says
    /// `Stale` of it and names no resource. Requests for its resources are answered as ever, unless a rule says otherwise.
    pub fn silence_group(&self, group: &str) {
        self.state.lock().silent.insert(group.to_owned());
    }

    /// The groups of which the server does not know what they serve.
    pub(crate) fn silent_groups(&self) -> BTreeSet<String> {
        self.state.lock().silent.clone()
    }

    /// Takes the server down: connections are refused and open ones cut.
    pub fn go_down(&self) {
        let mut state = self.state.lock();
        (state.down, state.down_until) = (true, None);
        drop(state);
        self.changed.notify_waiters();
    }

    /// Takes the server down for a while.
    pub fn go_down_for(&self, duration: Duration) {
        let mut state = self.state.lock();
        (state.down, state.down_until) = (true, Some(self.clock.monotonic_now() + duration));
        drop(state);
        self.changed.notify_waiters();
    }

    /// Brings the server back.
    pub fn come_up(&self) {
        let mut state = self.state.lock();
        (state.down, state.down_until) = (false, None);
        drop(state);
        self.changed.notify_waiters();
    }

    /// Whether the server is down.
    pub fn is_down(&self) -> bool {
        let mut state = self.state.lock();
        if state.down && state.down_until.is_some_and(|until| self.clock.monotonic_now() >= until) {
            (state.down, state.down_until) = (false, None);
        }
        state.down
    }

    pub(crate) fn is_quiet(&self) -> bool {
        self.state.lock().rules.is_empty()
    }

    /// Wakes up whenever faults change.
    pub(crate) fn changed(&self) -> Arc<Notify> {
        self.changed.clone()
    }

    pub(crate) fn on_request(&self, subject: &Subject<'_>) -> Option<Action> {
        self.pick(subject, |action| !action.on_watch(), 1)
    }

    /// What happens to a watch that is about to deliver `events` more events (0: to one that is idle).
    pub(crate) fn on_watch(&self, subject: &Subject<'_>, events: u64) -> Option<Action> {
        self.pick(subject, Action::on_watch, events)
    }

    fn pick(&self, subject: &Subject<'_>, wanted: impl Fn(&Action) -> bool, count: u64) -> Option<Action> {
        let mut state = self.state.lock();
        for armed in &mut state.rules {
            let rule = &armed.rule;
            if !wanted(&rule.action)
                || rule.times.is_some_and(|times| armed.hits >= times)
                || !rule.matcher.matches(subject)
            {
                continue;
            }
            armed.seen += count;
            let due = if rule.action.on_watch() {
                armed.seen >= rule.matcher.skip + u64::from(rule.matcher.skip > 0)
            } else {
                armed.seen > rule.matcher.skip
            };
            if !due || rule.matcher.chance.is_some_and(|chance| self.clock.random_fraction() >= chance) {
                continue;
            }
            armed.hits += 1;
            return Some(rule.action.clone());
        }
        None
    }

    pub(crate) fn is_held(&self, identity: &str, plural: &str) -> bool {
        let state = self.state.lock();
        !state.held.is_empty() && state.held.contains(&(identity.to_owned(), plural.to_owned()))
    }

    pub(crate) fn delay(&self, identity: &str, plural: &str) -> Option<Duration> {
        let state = self.state.lock();
        state.delays.iter().find(|(i, p, _)| i == identity && p == plural).map(|(_, _, by)| *by)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject<'a>(verb: &'a str, sub: Option<&'a str>) -> Subject<'a> {
        Subject { identity: "me", verb, plural: "pods", sub, namespace: Some("n"), name: Some("p") }
    }

    fn faults() -> Faults {
        Faults::new(Clock::system())
    }

    #[test]
    fn a_rule_bites_after_what_it_skips_and_as_often_as_it_says() {
        let faults = faults();
        faults.add(Rule::new(Action::Conflict).verb("create").resource("pods").skip(1).times(2));
        let hits: Vec<bool> = (0..5).map(|_| faults.on_request(&subject("create", None)).is_some()).collect();
        assert_eq!(hits, [false, true, true, false, false]);
        assert_eq!(faults.on_request(&subject("update", None)), None);
        assert_eq!(faults.hits(&Action::Conflict), 2);
    }

    #[test]
    fn a_resource_without_a_subresource_does_not_mean_its_subresources() {
        let faults = faults();
        faults.add(Rule::new(Action::InternalError).resource("pods/status"));
        assert_eq!(faults.on_request(&subject("patch", None)), None);
        assert_eq!(faults.on_request(&subject("patch", Some("status"))), Some(Action::InternalError));
    }

    #[test]
    fn other_clients_are_not_touched() {
        let faults = faults();
        faults.add(Rule::new(Action::Unavailable).identity("you"));
        assert_eq!(faults.on_request(&subject("get", None)), None);
    }

    #[tokio::test(start_paused = true)]
    async fn down_ends_by_itself_when_told_for_how_long() {
        let faults = faults();
        faults.go_down_for(Duration::from_mins(1));
        assert!(faults.is_down());
        tokio::time::sleep(Duration::from_mins(1)).await;
        assert!(!faults.is_down());
    }
}
