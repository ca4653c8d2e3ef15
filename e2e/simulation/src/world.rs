//! What is true: every object as the API server has it, and how it came to be so.
//!
//! The model is built from the server's own log of accepted writes and from nothing else. Invariants look at it after each
//! write.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use common::clock::Instant;
use jiff::Timestamp;
use serde_json::Value;

use super::{
    json::{is_deleting, number, text, uid},
    scenario::Target,
};
use sandbox::{Change, Write};

/// What names an object: resource with its group (`replicasets.apps`), namespace, name.
pub type Id = (String, String, String);

/// An accepted write, and when it was made.
#[derive(Clone, Debug)]
pub struct Logged {
    /// When.
    pub at: Instant,
    /// What.
    pub write: Arc<Write>,
}

impl Logged {
    /// Whether this controller wrote it, in whatever incarnation.
    pub fn by(&self, controller: &str) -> bool {
        self.write.identity.split('#').next() == Some(controller)
    }

    /// Whether a person (or what the simulation plays besides) wrote it, and no controller or node.
    pub fn by_user(&self) -> bool {
        !self.write.identity.contains('#')
    }

    /// The resource with its group.
    pub fn resource(&self) -> String {
        qualified(&self.write.resource, &self.write.group)
    }

    /// Whether the object came to be.
    pub fn creates(&self) -> bool {
        self.write.change == Change::Added
    }

    /// Whether the write was a request to delete.
    pub fn deletes(&self) -> bool {
        self.write.verb == "delete"
    }

    /// Whether it only completes a deletion in the same request: a Pod without a node is marked and taken away at once.
    pub fn completes_a_deletion(&self) -> bool {
        let at_once =
            |object: Arc<Value>| is_deleting(&object) && number(&object, "/metadata/deletionGracePeriodSeconds") == 0;
        self.deletes() && self.write.change == Change::Deleted && self.before().is_some_and(at_once)
    }

    /// Whether it went through that subresource; empty for none.
    pub fn through(&self, subresource: &str) -> bool {
        self.write.subresource.as_deref().unwrap_or_default() == subresource
    }

    /// The object before.
    pub fn before(&self) -> Option<Arc<Value>> {
        self.write.before()
    }

    /// The object after.
    pub fn after(&self) -> Option<Arc<Value>> {
        self.write.after()
    }

    /// The object before and after, if it was neither created nor removed.
    pub fn change(&self) -> Option<(Arc<Value>, Arc<Value>)> {
        self.before().zip(self.after())
    }

    /// Whether this controller wrote an object of this resource.
    pub fn is_of(&self, controller: &str, resource: &str) -> bool {
        self.by(controller) && self.resource() == resource
    }

    /// The object before and after, if this controller changed one of this resource.
    pub fn changed(&self, controller: &str, resource: &str) -> Option<(Arc<Value>, Arc<Value>)> {
        self.change().filter(|_| self.is_of(controller, resource))
    }

    /// The object that this controller deleted, as it was, if it is of this resource.
    pub fn deleted(&self, controller: &str, resource: &str) -> Option<Arc<Value>> {
        self.before().filter(|_| self.is_of(controller, resource) && self.deletes())
    }

    /// In one line.
    pub fn line(&self, since: Instant) -> String {
        let write = &self.write;
        let sub = write.subresource.as_ref().map(|s| format!("/{s}")).unwrap_or_default();
        let what = format!("{}{sub} {}/{}", self.resource(), write.namespace, write.name);
        let mut line =
            format!("{:>9.3}s {:<26} {:<6} {what}", (self.at - since).as_secs_f64(), write.identity, write.verb);
        if let (Some(before), Some(after)) = (self.before(), self.after()) {
            line.push_str(&differences(&before, &after));
        }
        line
    }
}

fn differences(before: &Value, after: &Value) -> String {
    let mut out = Vec::new();
    compare("", before, after, &mut out);
    let mut text = out.join(" ");
    if text.len() > 300 {
        let cut = (0..=300).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(cut);
        text.push('…');
    }
    if text.is_empty() { text } else { format!("  {text}") }
}

fn compare(path: &str, before: &Value, after: &Value, out: &mut Vec<String>) {
    if before == after || path == ".metadata.resourceVersion" || path.ends_with("Time") {
        return;
    }
    if let (Value::Object(old), Value::Object(new)) = (before, after) {
        for key in old.keys().chain(new.keys().filter(|key| !old.contains_key(*key))) {
            let null = Value::Null;
            let (old, new) = (old.get(key).unwrap_or(&null), new.get(key).unwrap_or(&null));
            compare(&format!("{path}.{key}"), old, new, out);
        }
        return;
    }
    if path == ".status.conditions" {
        let said = |conditions: &Value| -> Vec<String> {
            let one = |c: &Value| format!("{}={}/{}", text(c, "/type"), text(c, "/status"), text(c, "/reason"));
            conditions.as_array().into_iter().flatten().map(one).collect()
        };
        let known = said(before);
        out.extend(said(after).into_iter().filter(|condition| !known.contains(condition)));
        return;
    }
    out.push(format!("{}={after}", path.trim_start_matches('.')));
}

/// A resource as `kubectl` names it in full.
pub fn qualified(plural: &str, group: &str) -> String {
    if group.is_empty() { plural.to_owned() } else { format!("{plural}.{group}") }
}

type States = Vec<(Instant, Option<Arc<Value>>)>;

/// What a node has said of itself, each time in order.
#[derive(Clone, Debug, Default)]
struct Signs {
    /// When it renewed its Lease or wrote anything.
    all: Vec<Instant>,
    reports: Vec<Instant>,
}

fn last(times: &[Instant], until: Instant) -> Option<Instant> {
    times[..times.partition_point(|at| *at <= until)].last().copied()
}

/// The model.
#[derive(Clone, Debug)]
pub struct World {
    objects: BTreeMap<Id, States>,
    signs: BTreeMap<String, Signs>,
    /// When the API server was, or will be, back after an outage.
    returns: Vec<Instant>,
    /// When users stopped or paused the suite's own controller, and when it goes on.
    stops: Vec<(Timestamp, Timestamp)>,
    log: Vec<Logged>,
    now: Instant,
    lag: Duration,
    skew: Duration,
}

impl World {
    /// An empty world, in which controllers may be that far behind the truth, and their clocks that far from each other.
    pub fn new(now: Instant, lag: Duration, skew: Duration) -> Self {
        let (objects, signs, log) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        let (returns, stops) = (Vec::new(), Vec::new());
        Self { objects, signs, returns, stops, log, now, lag, skew }
    }

    /// Takes note that users stop or pause the suite's own controller, and when it goes on.
    pub fn stops(&mut self, from: Timestamp, until: Timestamp) {
        self.stops.push((from, until));
    }

    /// The first moment from `at` on at which users let the suite's own controller run.
    pub fn runs_from(&self, at: Timestamp) -> Timestamp {
        self.stops.iter().fold(at, |at, (from, until)| if (*from..*until).contains(&at) { *until } else { at })
    }

    /// Takes note that a node says that it is alive.
    pub fn hear(&mut self, logged: &Logged) {
        let write = &logged.write;
        let is_of_a_node = logged.by(super::stage::NODES) && matches!(write.resource.as_str(), "leases" | "nodes");
        if !is_of_a_node {
            return;
        }
        self.now = logged.at;
        let signs = self.signs.entry(write.name.clone()).or_default();
        signs.all.push(logged.at);
        if write.resource == "nodes" {
            signs.reports.push(logged.at);
        }
    }

    /// Takes note that nobody reaches the API server before that time.
    pub fn is_away_until(&mut self, back: Instant) {
        self.returns.push(back);
    }

    /// For how long a node had said nothing at a moment, though it could have: an outage counts for nothing.
    pub fn silence(&self, node: &str, at: Instant) -> Duration {
        let sign = self.signs.get(node).and_then(|signs| last(&signs.all, at));
        let since = sign.max(last(&self.returns, at));
        since.map_or(Duration::MAX, |since| at.saturating_duration_since(since))
    }

    /// Whether the API server has come back from an outage since a moment.
    pub fn was_away_since(&self, at: Instant) -> bool {
        last(&self.returns, self.now).is_some_and(|back| back > at)
    }

    /// Whether a node has reported its status since the last outage, or had that long to do so.
    pub fn is_up_to_date(&self, node: &str, time: Duration) -> bool {
        let Some(back) = last(&self.returns, self.now) else { return true };
        let report = self.signs.get(node).and_then(|signs| last(&signs.reports, self.now));
        report.is_some_and(|report| report >= back) || self.now >= back + time
    }

    /// Takes in a write.
    pub fn apply(&mut self, logged: Logged) {
        let id = (logged.resource(), logged.write.namespace.clone(), logged.write.name.clone());
        self.hear(&logged);
        self.now = logged.at;
        self.objects.entry(id).or_default().push((logged.at, logged.after()));
        self.log.push(logged);
    }

    /// When the last write was made.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// How far behind the truth a controller may be in this run through no fault of its own: what the perturbation
    /// withholds from it, and the time requests and events take.
    pub fn lag(&self) -> Duration {
        self.lag
    }

    /// How far apart the clocks of two processes are at most in this run.
    pub fn skew(&self) -> Duration {
        self.skew
    }

    /// All writes so far.
    pub fn log(&self) -> &[Logged] {
        &self.log
    }

    /// An object.
    pub fn get(&self, resource: &str, namespace: &str, name: &str) -> Option<&Arc<Value>> {
        self.objects.get(&(resource.to_owned(), namespace.to_owned(), name.to_owned()))?.last()?.1.as_ref()
    }

    /// An object that a step is about: in a namespace, or cluster-wide.
    pub fn find(&self, target: &Target) -> Option<&Arc<Value>> {
        let namespace = target.namespace.as_deref().unwrap_or(super::stage::NAMESPACE);
        let wide = || self.get(&target.resource, "", &target.name);
        self.get(&target.resource, namespace, &target.name).or_else(wide)
    }

    /// All objects of a resource.
    pub fn list(&self, resource: &str) -> impl Iterator<Item = &Arc<Value>> {
        let from = (resource.to_owned(), String::new(), String::new());
        let of_resource = self.objects.range(from..).take_while(move |((r, _, _), _)| r == resource);
        of_resource.filter_map(|(_, states)| states.last()?.1.as_ref())
    }

    /// The object with that uid, dead or alive.
    pub fn by_uid(&self, resource: &str, uid: &str) -> Option<&Arc<Value>> {
        let from = (resource.to_owned(), String::new(), String::new());
        let mut of_resource = self.objects.range(from..).take_while(move |((r, _, _), _)| r == resource);
        of_resource.find_map(|(_, states)| {
            states.iter().rev().filter_map(|(_, state)| state.as_ref()).find(|o| text(o, "/metadata/uid") == uid)
        })
    }

    /// All states that an object of that name was in, each from when on; none while it was not there.
    pub fn states(&self, resource: &str, namespace: &str, name: &str) -> &[(Instant, Option<Arc<Value>>)] {
        let id = (resource.to_owned(), namespace.to_owned(), name.to_owned());
        self.objects.get(&id).map_or(&[], Vec::as_slice)
    }

    /// Every state a controller that is at most `lag` behind may take for the present one. Absence counts as a state.
    pub fn within(&self, resource: &str, namespace: &str, name: &str, lag: Duration) -> Vec<Option<&Arc<Value>>> {
        let id = (resource.to_owned(), namespace.to_owned(), name.to_owned());
        let Some(states) = self.objects.get(&id) else { return vec![None] };
        let oldest = self.now.checked_sub(lag).unwrap_or(self.now);
        let from = states.partition_point(|(at, _)| *at <= oldest);
        let mut seen: Vec<_> = states[from.saturating_sub(1)..].iter().map(|(_, state)| state.as_ref()).collect();
        if from == 0 {
            seen.push(None);
        }
        seen
    }

    /// The same with the lag of this run.
    pub fn recent(&self, resource: &str, namespace: &str, name: &str) -> Vec<Option<&Arc<Value>>> {
        self.within(resource, namespace, name, self.lag)
    }

    /// The recent states in which the object was there.
    pub fn recently(&self, resource: &str, namespace: &str, name: &str) -> impl Iterator<Item = &Arc<Value>> {
        self.recent(resource, namespace, name).into_iter().flatten()
    }

    /// Every object of a resource that is there, or was recently, by its newest state.
    pub fn list_recent(&self, resource: &str) -> impl Iterator<Item = &Arc<Value>> {
        let oldest = self.now.checked_sub(self.lag).unwrap_or(self.now);
        let from = (resource.to_owned(), String::new(), String::new());
        let of_resource = self.objects.range(from..).take_while(move |((r, _, _), _)| r == resource);
        of_resource.flat_map(move |(_, states)| {
            let recent = states.partition_point(|(at, _)| *at <= oldest).saturating_sub(1);
            let mut newest: BTreeMap<&str, &Arc<Value>> = BTreeMap::new();
            for state in states[recent..].iter().filter_map(|(_, state)| state.as_ref()) {
                newest.insert(text(state, "/metadata/uid"), state);
            }
            newest.into_values()
        })
    }

    /// Every object there ever was, by its newest state, and whether it is still there.
    pub fn ever(&self) -> impl Iterator<Item = (&Id, &Arc<Value>, bool)> {
        self.objects.iter().flat_map(|(id, states)| {
            let present = states.last().and_then(|(_, state)| state.as_ref()).map(|o| uid(o));
            let mut newest: BTreeMap<&str, &Arc<Value>> = BTreeMap::new();
            for state in states.iter().filter_map(|(_, state)| state.as_ref()) {
                newest.insert(uid(state), state);
            }
            newest.into_values().map(move |object| (id, object, present == Some(uid(object))))
        })
    }

    /// All objects there are, by name.
    pub fn present(&self) -> impl Iterator<Item = (&Id, &Arc<Value>)> {
        self.objects.iter().filter_map(|(id, states)| Some((id, states.last()?.1.as_ref()?)))
    }
}
