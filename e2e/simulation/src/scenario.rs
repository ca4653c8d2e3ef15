//! What a run consists of, as data: what users do and when, which controllers act, and what must hold.

use std::time::Duration;

use common::{app::ProgramDefinition, settings::TunableValue};
use serde_json::Value;

use super::world::{Logged, World};
use sandbox::Webhook;

/// Everything the simulation knows of one controller: its scenarios and what must hold in all of them.
pub struct Suite {
    /// What it is about: `deployment`.
    pub name: &'static str,
    /// The programs that run, each a process of its own; the suite's own controller first.
    pub programs: &'static [&'static ProgramDefinition],
    /// What operators set otherwise than by default, for all programs that know it.
    pub tunes: &'static [(&'static str, TunableValue)],
    /// The gates they open or close, for all programs that know them.
    pub gates: &'static [(&'static str, bool)],
    /// What users do.
    pub scenarios: fn() -> Vec<Scenario>,
    /// What holds after every write: of this controller, and of those that act with it.
    pub invariants: &'static [&'static [Invariant]],
    /// What holds in the end, however it came about: of the same.
    pub promises: &'static [&'static [Promise]],
    /// What users do at moments nobody expects.
    pub interferences: &'static [Interference],
}

/// What a user does, and when.
pub struct Scenario {
    /// Its name: `rollout-surge`.
    pub name: &'static str,
    /// What it is about, in one line.
    pub about: &'static str,
    /// What is done, in order.
    pub steps: Vec<Step>,
}

/// One thing a user does.
#[derive(Clone, Debug)]
pub struct Step {
    /// When.
    pub when: When,
    /// What.
    pub what: What,
}

/// When a step is taken.
#[derive(Clone, Debug)]
pub enum When {
    /// That long after the step before.
    After(Duration),
    /// Once nothing has been written for some minutes.
    Settled,
    /// Once the object's status has been written for its newest generation.
    Observed(&'static str, &'static str),
    /// Once its newest generation is observed and a number in it has reached a value: resource, name, JSON pointer, value.
    Reaches(&'static str, &'static str, &'static str, i64),
    /// Once a number in it has reached a value, of a kind whose status does not say which generation it is of.
    Shows(&'static str, &'static str, &'static str, i64),
    /// That long after a node got a `NoExecute` taint that it still has: node, time.
    Tainted(&'static str, Duration),
}

/// What is done. All in the namespace `default`.
#[derive(Clone, Debug)]
pub enum What {
    /// Creates an object.
    Create(Value),
    /// Merges a patch into an object: resource, name, patch.
    Merge(String, String, Value),
    /// Merges a patch into the status of an object, as a node does: resource, name, patch.
    MergeStatus(String, String, Value),
    /// Merges a patch into every object of a resource with that label: resource, key, value, patch.
    MergeAll(String, String, String, Value),
    /// Deletes an object: resource, name, options.
    Delete(String, String, Value),
    /// The same for every object of a resource with that label that is not being deleted, or not without grace: resource, key,
    /// value, options.
    DeleteAll(String, String, String, Value),
    /// Cuts a node off: no heartbeat, no status, no Pod is ended.
    Silence(String),
    /// Lets a node renew its Lease and do nothing else.
    RenewOnly(String),
    /// Sets a condition of a node, as its kubelet reports it: node, type, whether it is true.
    Condition(String, &'static str, bool),
    /// Brings such a node back.
    Restore(String),
    /// Pauses the process of the suite's own controller for that long: it neither sends nor receives anything.
    Pause(Duration),
    /// Ends every process of the suite's own controller, and starts none for that long.
    Stop(Duration),
    /// Takes the API server down for that long.
    Outage(Duration),
    /// Registers an admission webhook.
    Webhook(Webhook),
    /// Removes the admission webhooks of that name.
    NoWebhook(&'static str),
    /// Makes an object the dependent of these objects, and of no others: resource, name, owners.
    Own(String, String, Vec<Owner>),
}

/// An object that is to be an owner.
#[derive(Clone, Debug)]
pub struct Owner {
    /// Its resource.
    pub resource: &'static str,
    /// Its name.
    pub name: &'static str,
    /// Whether it is not to go before its dependent, if it is deleted in the foreground.
    pub blocked: bool,
}

impl What {
    /// Merges a patch into an object.
    pub fn merge(resource: &str, name: &str, patch: Value) -> Self {
        Self::Merge(resource.to_owned(), name.to_owned(), patch)
    }

    /// Deletes an object with the kind's own propagation, and without grace.
    pub fn delete_now(resource: &str, name: &str) -> Self {
        Self::Delete(resource.to_owned(), name.to_owned(), serde_json::json!({"gracePeriodSeconds": 0}))
    }
}

/// A step after so many seconds.
pub fn after(seconds: f64, what: What) -> Step {
    Step { when: When::After(Duration::from_secs_f64(seconds)), what }
}

/// A step that long after a node got a `NoExecute` taint.
pub fn tainted(node: &'static str, seconds: f64, what: What) -> Step {
    Step { when: When::Tainted(node, Duration::from_secs_f64(seconds)), what }
}

/// A step once everything is settled.
pub fn settled(what: What) -> Step {
    Step { when: When::Settled, what }
}

/// Something that holds after every write, whatever goes wrong.
pub struct Invariant {
    /// A name, unique among all.
    pub name: &'static str,
    /// The claims of `docs/behaviour` that it checks: `GC-20, GC-21`.
    pub claims: &'static str,
    /// Whether the write that has just been made keeps it. The world is as that write left it.
    pub check: fn(&World, &Logged) -> Result<(), String>,
}

/// Something that holds in the end, whatever went wrong.
pub struct Promise {
    /// A name, unique among all.
    pub name: &'static str,
    /// The claims of `docs/behaviour` that it checks: `GC-20, GC-21`.
    pub claims: &'static str,
    /// Whether it holds.
    pub check: fn(&World) -> Result<(), String>,
}

/// Something a user does at a random moment, and takes back.
pub struct Interference {
    /// A name: `scale`.
    pub name: &'static str,
    /// What is done, each so long after the one before. Nothing if the moment does not fit. The number is random.
    pub act: fn(&World, u64) -> Vec<(Duration, What)>,
}
