//! What a run consists of, as data: what users do and when, which controllers act, and what must hold.

use std::time::Duration;

use common::{app::ProgramDefinition, settings::TunableValue};
use serde_json::{Value, json};

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
    /// What users do, in the form that [`notation`](super::notation) reads.
    pub text: &'static str,
    /// What holds after every write: of this controller, and of those that act with it.
    pub invariants: &'static [&'static [Invariant]],
    /// What holds in the end, however it came about: of the same.
    pub promises: &'static [&'static [Promise]],
    /// What users do at moments nobody expects.
    pub interferences: &'static [Interference],
}

/// What a user does, and when.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Its name: `rollout-surge`.
    pub name: String,
    /// What it is about, in one line.
    pub about: String,
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

/// An object that a step is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Its resource with the group: `deployments.apps`.
    pub resource: String,
    /// Its namespace, if that is another one than that of the scenario. Nobody asks for it if the object is cluster-wide.
    pub namespace: Option<String>,
    /// Its name; `*` stands for the only object of the resource in the namespace.
    pub name: String,
}

impl Target {
    /// An object in the namespace of the scenario.
    pub fn new(resource: &str, name: &str) -> Self {
        Self { resource: resource.to_owned(), namespace: None, name: name.to_owned() }
    }

    /// The object of the form `deployments.apps/web` or `deployments.apps/namespace/web`.
    pub fn read(text: &str) -> Self {
        let (resource, rest) = text.split_once('/').unwrap_or((text, ""));
        let (namespace, name) = rest.split_once('/').map_or((None, rest), |(namespace, name)| (Some(namespace), name));
        Self { namespace: namespace.map(str::to_owned), ..Self::new(resource, name) }
    }
}

/// The objects of a resource in the namespace of the scenario that have a label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Labelled {
    /// Their resource.
    pub resource: String,
    /// The key of the label.
    pub key: String,
    /// The value of the label.
    pub value: String,
}

/// When a step is taken.
#[derive(Clone, Debug)]
pub enum When {
    /// That long after the step before.
    After(Duration),
    /// Once nothing has been written for some minutes.
    Settled,
    /// Once the object's status has been written for its newest generation.
    Observed(Target),
    /// Once its newest generation is observed and a number in it has reached a value: object, JSON pointer, value.
    Reaches(Target, String, i64),
    /// Once a number in it has reached a value, of a kind whose status does not say which generation it is of.
    Shows(Target, String, i64),
    /// That long after a node got a `NoExecute` taint that it still has: node, time.
    Tainted(String, Duration),
}

/// What is done.
#[derive(Clone, Debug)]
pub enum What {
    /// Creates an object.
    Create(Value),
    /// Merges a patch into an object.
    Merge(Target, Value),
    /// Merges a patch into the status of an object, as a node does.
    MergeStatus(Target, Value),
    /// Merges a patch into every object with that label.
    MergeAll(Labelled, Value),
    /// Deletes an object with these options.
    Delete(Target, Value),
    /// The same for every object with that label that is not being deleted, or not without grace.
    DeleteAll(Labelled, Value),
    /// Evicts every object with that label that its budget lets go.
    EvictAll(Labelled),
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
    NoWebhook(String),
    /// Removes the finalizers in the spec of the namespace of that name.
    Finalize(String),
    /// Makes an object the dependent of these objects, and of no others.
    Own(Target, Vec<Owner>),
}

/// An object that is to be an owner.
#[derive(Clone, Debug)]
pub struct Owner {
    /// The object.
    pub target: Target,
    /// Whether it is not to go before its dependent, if it is deleted in the foreground.
    pub blocked: bool,
}

impl What {
    /// Merges a patch into an object.
    pub fn merge(resource: &str, name: &str, patch: Value) -> Self {
        Self::Merge(Target::new(resource, name), patch)
    }

    /// Deletes an object with the kind's own propagation.
    pub fn delete(resource: &str, name: &str) -> Self {
        Self::Delete(Target::new(resource, name), json!({}))
    }

    /// Deletes an object with the kind's own propagation, and without grace.
    pub fn delete_now(resource: &str, name: &str) -> Self {
        Self::Delete(Target::new(resource, name), json!({"gracePeriodSeconds": 0}))
    }

    /// Deletes every object with that label.
    pub fn delete_all(resource: &str, key: &str, value: &str) -> Self {
        let (resource, key, value) = (resource.to_owned(), key.to_owned(), value.to_owned());
        Self::DeleteAll(Labelled { resource, key, value }, json!({}))
    }
}

/// Something that holds after every write, whatever goes wrong.
pub struct Invariant {
    /// A name, unique among all.
    pub name: &'static str,
    /// The claims of `docs/behaviour` that it checks: `GC-20, GC-21`.
    pub claims: &'static str,
    /// How the write that has just been made violates it; nothing for most writes. The world is as that write left it.
    pub check: fn(&World, &Logged) -> Option<String>,
}

/// Something that holds in the end, whatever went wrong.
pub struct Promise {
    /// A name, unique among all.
    pub name: &'static str,
    /// The claims of `docs/behaviour` that it checks: `GC-20, GC-21`.
    pub claims: &'static str,
    /// What violates it, if anything does.
    pub check: fn(&World) -> Option<String>,
}

/// Something a user does at a random moment, and takes back.
pub struct Interference {
    /// A name: `scale`.
    pub name: &'static str,
    /// What is done; `None` if the moment does not fit. The number is random.
    pub act: fn(&World, u64) -> Deeds,
}

/// What is done, each so long after the one before.
pub type Deeds = Option<Vec<(Duration, What)>>;
