//! Whether anything is to be done about an object, and whether enough is known to do it.

use std::fmt;

use common::{controller::Explain, meta::OwnerRef, object::Resource};
use jiff::Timestamp;

use super::{Propagation, policy};
use crate::graph::{Kind, OwnerState, View};

/// What an object waits for that no event of its own tells.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Awaited {
    /// A resource of that kind is served.
    Served(Kind),
    /// All objects of that kind are known.
    Known(Kind),
    /// All objects of all kinds are known, those aside whose watch has failed for long.
    Everything,
}

impl fmt::Display for Awaited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Served(kind) => write!(f, "kind {} of {} is not served", kind.kind, kind.api_version),
            Self::Known(kind) => write!(f, "not all objects of kind {} of {} are known", kind.kind, kind.api_version),
            Self::Everything => f.write_str("not all objects of all kinds are known"),
        }
    }
}

/// What is known of the kind of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnerKind {
    /// No resource of that kind is served.
    Unknown,
    /// It is served and not watched, because it cannot be.
    Unwatched,
    /// Its monitor has not seen a first full set.
    Unsynced,
    /// All of its objects are known.
    Synced,
}

/// One reference of the object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The reference.
    pub reference: OwnerRef,
    /// What is known of the owner's kind.
    pub kind: OwnerKind,
    /// Where objects of that kind live, if it is served.
    pub resource: Option<Resource>,
    /// What the graph says of the owner.
    pub state: OwnerState,
}

impl Owner {
    /// The owner as people name it: `apps/v1/Deployment web`.
    pub fn name(&self) -> String {
        let OwnerRef { api_version, kind, name, .. } = &self.reference;
        format!("{api_version}/{kind} {name}")
    }

    /// Its kind, as the reference names it.
    pub fn of(&self) -> Kind {
        Kind { api_version: self.reference.api_version.clone(), kind: self.reference.kind.clone() }
    }

    /// Whether it lives in a namespace.
    pub fn is_namespaced(&self) -> bool {
        self.resource.is_some_and(|resource| resource.namespaced)
    }

    /// Whether the reference blocks its foreground deletion.
    pub fn is_blocked(&self) -> bool {
        self.reference.block_owner_deletion == Some(true)
    }
}

/// Everything one decision looks at.
#[derive(Clone, Debug)]
pub struct Situation {
    /// The time of the snapshot.
    pub now: Timestamp,
    /// The object. Its references are in `owners`.
    pub view: View,
    /// Where objects of its kind live, if it is served.
    pub resource: Option<Resource>,
    /// Whether that resource is watched, and not all of its objects are known.
    pub unseen: bool,
    /// Its references.
    pub owners: Vec<Owner>,
    /// Resources whose objects are not known yet, unless they are known to be broken.
    pub unsynced: Vec<String>,
}

/// What is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// Nothing, because.
    Nothing(&'static str),
    /// Nothing for now: this is waited for, because.
    Wait(Awaited, String),
    /// So many dependents block its deletion. Each was told to go, or is told when it turns up; the last one brings it back.
    Blocked(usize),
    /// It waits for nobody any more: its finalizer goes.
    Finish,
    /// It is deleted, as it was seen.
    Delete {
        /// How its own dependents are treated.
        propagation: Propagation,
        /// How many owners it had.
        owners: usize,
    },
    /// Its owners are looked up.
    Verify {
        /// How many are not known to be gone.
        uncertain: usize,
    },
    /// It is asked whether it exists at all: nobody has seen it.
    Exists,
}

/// Decides.
pub fn decide(situation: &Situation) -> Plan {
    let view = &situation.view;
    if view.being_deleted && !view.deleting_dependents {
        return Plan::Nothing("it is being deleted already");
    }
    let Some(resource) = situation.resource else {
        let awaited = Awaited::Served(view.kind.clone());
        let why = awaited.to_string();
        return Plan::Wait(awaited, why);
    };
    // The place of a namespaced object that only a cluster-scoped one refers to is not known.
    if resource.namespaced && view.identity.namespace.is_empty() {
        return Plan::Nothing("a cluster-scoped object cannot have a namespaced owner");
    }
    if view.is_virtual {
        // Whether it exists is told by its monitor; nobody is judged by an owner of a kind that is not known.
        if situation.unseen {
            let why = format!("not all objects of kind {} are known", view.kind.kind);
            return Plan::Wait(Awaited::Known(view.kind.clone()), why);
        }
        return Plan::Exists;
    }
    if view.deleting_dependents {
        return finish(situation);
    }
    if situation.owners.is_empty() {
        return Plan::Nothing("it has no owner");
    }
    let uncertain: Vec<&Owner> = situation.owners.iter().filter(|owner| owner.state != OwnerState::Absent).collect();
    for owner in &uncertain {
        match owner.kind {
            OwnerKind::Unknown => {
                let why = format!("the kind of owner {} is not served", owner.name());
                return Plan::Wait(Awaited::Served(owner.of()), why);
            }
            _ if owner.is_namespaced() && view.identity.namespace.is_empty() => {
                return Plan::Nothing("a cluster-scoped object cannot have a namespaced owner");
            }
            OwnerKind::Unsynced => {
                let why = format!("not all objects of the kind of owner {} are known", owner.name());
                return Plan::Wait(Awaited::Known(owner.of()), why);
            }
            OwnerKind::Unwatched | OwnerKind::Synced => {}
        }
    }
    if uncertain.is_empty() && view.version.is_known() {
        let propagation = policy(view.orphans, view.foreground);
        return Plan::Delete { propagation, owners: situation.owners.len() };
    }
    Plan::Verify { uncertain: uncertain.len() }
}

/// An object that is deleted in the foreground.
fn finish(situation: &Situation) -> Plan {
    let view = &situation.view;
    if view.blocking > 0 {
        return Plan::Blocked(view.blocking);
    }
    // One that nobody has seen yet may block it.
    match situation.unsynced.first() {
        Some(resource) => {
            Plan::Wait(Awaited::Everything, format!("not all {resource} are known; one may block the deletion"))
        }
        None => Plan::Finish,
    }
}

fn many(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

impl Explain for Plan {
    fn situation(&self) -> String {
        match self {
            Self::Nothing(why) => (*why).to_owned(),
            Self::Wait(..) => String::new(),
            Self::Blocked(_) => "it goes after its dependents".to_owned(),
            Self::Finish => "no dependent blocks its deletion".to_owned(),
            Self::Delete { owners, .. } => format!("{} and none exists", many(*owners, "owner")),
            Self::Verify { uncertain } => {
                format!("{} not known to be gone; it is deleted unless one is found", many(*uncertain, "owner"))
            }
            Self::Exists => "it is known from owner references only: it is looked up".to_owned(),
        }
    }

    fn waiting(&self) -> Vec<String> {
        match self {
            Self::Wait(_, why) => vec![why.clone()],
            Self::Blocked(dependents) => vec![format!("{} that block its deletion", many(*dependents, "dependent"))],
            _ => Vec::new(),
        }
    }
}
