//! Rules that hold for every controller of objects with dependents: one implementation each, for a table of [`Kind`]s.

use std::{sync::Arc, time::Duration};

use serde_json::Value;

use crate::{
    json::{controller, controller_uid, is_deleting, name, number, selects, text, uid},
    world::{Logged, World},
};

/// What a live read before an adoption does not exclude: the time the answer and the patch take.
const RECHECKED: Duration = Duration::from_secs(1);

/// Owners and what their controller makes for them.
pub(super) struct Kind {
    pub(super) controller: &'static str,
    pub(super) owners: &'static str,
    /// The resources of the dependents, of which the first one is the most frequent.
    pub(super) dependents: &'static [&'static str],
    /// Where an owner says which dependents it adopts; `None` if more than labels decide it.
    pub(super) selector: Option<&'static str>,
}

pub(super) const REPLICA_SETS: Kind = Kind {
    controller: "replicaset-controller",
    owners: "replicasets.apps",
    dependents: &["pods"],
    selector: Some("/spec/selector"),
};
pub(super) const DEPLOYMENTS: Kind = Kind {
    controller: "deployment-controller",
    owners: "deployments.apps",
    dependents: &["replicasets.apps"],
    selector: None,
};
pub(super) const STATEFUL_SETS: Kind = Kind {
    controller: "statefulset-controller",
    owners: "statefulsets.apps",
    dependents: &["pods", "controllerrevisions.apps"],
    selector: None,
};
pub(super) const DAEMON_SETS: Kind = Kind {
    controller: "daemonset-controller",
    owners: "daemonsets.apps",
    dependents: &["pods", "controllerrevisions.apps"],
    selector: Some("/spec/selector"),
};
pub(super) const JOBS: Kind = Kind {
    controller: "job-controller",
    owners: "jobs.batch",
    dependents: &["pods"],
    selector: Some("/spec/selector"),
};

/// A dependent in a write, and its owner, dead or alive.
pub(super) type Pair<'a> = (Arc<Value>, &'a Arc<Value>);

impl Kind {
    /// Whether the controller has written a dependent of the first resource.
    pub(super) fn writes(&self, logged: &Logged) -> bool {
        logged.by(self.controller) && logged.resource() == self.dependents[0]
    }

    fn writes_any(&self, logged: &Logged) -> bool {
        logged.by(self.controller) && self.dependents.contains(&logged.resource().as_str())
    }

    pub(super) fn owner<'a>(&self, world: &'a World, dependent: &Value) -> Option<&'a Arc<Value>> {
        world.by_uid(self.owners, controller_uid(dependent))
    }

    /// A dependent of the first resource that the controller creates.
    pub(super) fn created<'a>(&self, world: &'a World, logged: &Logged) -> Option<Pair<'a>> {
        let dependent = logged.after().filter(|_| self.writes(logged) && logged.creates())?;
        let owner = self.owner(world, &dependent)?;
        Some((dependent, owner))
    }

    /// A dependent of the first resource that the controller deletes, as it was.
    pub(super) fn deleted<'a>(&self, world: &'a World, logged: &Logged) -> Option<Pair<'a>> {
        let dependent = logged.before().filter(|_| self.writes(logged) && logged.deletes())?;
        let owner = self.owner(world, &dependent)?;
        Some((dependent, owner))
    }

    /// The status of an owner before and after a write of the controller.
    pub(super) fn status(&self, logged: &Logged) -> Option<(Arc<Value>, Arc<Value>)> {
        let is_status = logged.by(self.controller) && logged.resource() == self.owners && logged.through("status");
        logged.before().zip(logged.after()).filter(|_| is_status)
    }

    /// The states that an owner may be taken to be in.
    pub(super) fn recent<'a>(&self, world: &'a World, owner: &'a Value) -> impl Iterator<Item = &'a Arc<Value>> {
        let states = world.recently(self.owners, text(owner, "/metadata/namespace"), name(owner));
        states.filter(move |state| uid(state) == uid(owner))
    }

    /// The dependents of the first resource that an owner controls.
    pub(super) fn dependents_of<'a>(
        &self,
        world: &'a World,
        owner: &'a Value,
    ) -> impl Iterator<Item = &'a Arc<Value>> + use<'a> {
        world.list(self.dependents[0]).filter(move |dependent| controller_uid(dependent) == uid(owner))
    }

    /// A dependent gets a controller only from an owner that is not being deleted and that selects it.
    pub(super) fn only_the_living_adopt(&self, world: &World, logged: &Logged) -> Option<String> {
        let (before, after) = logged.change().filter(|_| self.writes_any(logged))?;
        controller(&after).filter(|_| controller(&before).is_none())?;
        let Some(owner) = self.owner(world, &after) else {
            return Some(format!("{} is adopted by a set that never was", name(&after)));
        };
        let states = world.within(self.owners, text(owner, "/metadata/namespace"), name(owner), RECHECKED);
        if !states.iter().flatten().any(|state| uid(state) == uid(owner) && !is_deleting(state)) {
            return Some(format!("{} is adopted by {}, which is gone or being deleted", name(&after), name(owner)));
        }
        self.selector
            .is_some_and(|selector| !selects(owner, selector, &before))
            .then(|| format!("{} is adopted by {}, which does not select it", name(&after), name(owner)))
    }

    /// Nothing is written for an owner that is being deleted. The caller chooses the writes.
    pub(super) fn the_deleted_write_nothing(&self, world: &World, logged: &Logged) -> Option<String> {
        let object = logged.after().or_else(|| logged.before())?;
        let owner = if logged.by(self.controller) && logged.resource() == self.owners {
            world.by_uid(self.owners, uid(&object))
        } else {
            self.owner(world, &object).filter(|_| self.writes_any(logged))
        };
        owner
            .filter(|owner| self.recent(world, owner).all(|state| is_deleting(state)))
            .map(|owner| format!("{} is being deleted, and {} is written for it", name(owner), name(&object)))
    }

    /// Dependents of other controllers are not written, and those without a controller not deleted.
    pub(super) fn others_stay(&self, world: &World, logged: &Logged) -> Option<String> {
        let before = logged.before().filter(|_| self.writes_any(logged))?;
        match controller(&before) {
            None if logged.deletes() => Some(format!("{} is deleted and has no controller", name(&before))),
            Some(_) if self.owner(world, &before).is_none() => {
                Some(format!("{} is another controller's", name(&before)))
            }
            _ => None,
        }
    }

    /// Numbers of a status that never fall, numbers that are not greater than the one before them, and no generation that is yet to
    /// come.
    pub(super) fn statuses_make_sense(&self, logged: &Logged, growing: &[&str], falling: &[&[&str]]) -> Option<String> {
        let (before, after) = self.status(logged)?;
        let field = |object: &Value, field: &str| number(object, &format!("/status/{field}"));
        for growing in growing {
            let (was, is) = (field(&before, growing), field(&after, growing));
            if is < was {
                return Some(format!("{growing} of {} goes from {was} to {is}", name(&after)));
            }
        }
        let is_observed = field(&after, "observedGeneration") <= number(&after, "/metadata/generation");
        let is_falling = |fields: &&[&str]| {
            fields.windows(2).all(|pair| (0..=field(&after, pair[0])).contains(&field(&after, pair[1])))
        };
        (!is_observed || !falling.iter().all(is_falling)).then(|| format!("{} says {}", name(&after), after["status"]))
    }
}

/// The newest generation of an object is observed, and its status has these numbers.
pub(super) fn says(object: &Value, numbers: &[(&str, i64)]) -> Option<String> {
    if number(object, "/status/observedGeneration") != number(object, "/metadata/generation") {
        return Some(format!("{} {}: its newest generation is not observed", text(object, "/kind"), name(object)));
    }
    for (field, is) in numbers {
        let says = number(object, &format!("/status/{field}"));
        if says != *is {
            let kind = text(object, "/kind");
            return Some(format!("{kind} {}: status.{field} is {says} and should be {is}", name(object)));
        }
    }
    None
}

/// An object without the versions of its metadata and without these fields of it.
pub(super) fn without(object: &Value, metadata: &[&str]) -> Value {
    let mut object = object.clone();
    for field in ["resourceVersion", "managedFields"].iter().chain(metadata) {
        object["metadata"][*field] = Value::Null;
    }
    object
}
