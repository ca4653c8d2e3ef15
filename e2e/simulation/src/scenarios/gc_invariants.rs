//! What always holds of garbage collection, and what holds in the end, read off the API server's true state.
//!
//! Nothing alive is collected on whatever stale view: here no invariant makes allowance for what the collector may not have
//! seen, because it may not delete then. Only of dependents that are new it need not know.

use std::sync::Arc;

use serde_json::Value;

use crate::{
    json::{has_finalizer, is_deleting, items, name, owners, text, uid},
    scenario::{Invariant, Promise},
    world::{Id, Logged, World},
};

const CONTROLLER: &str = "gc-controller";
const FOREGROUND: &str = "foregroundDeletion";
const ORPHAN: &str = "orphan";
/// A version that the server does not serve.
const UNKNOWN: &str = "example.com/v1";

pub(super) const INVARIANTS: &[Invariant] = &[
    Invariant { name: "owners-keep-the-owned", claims: "GC-20, GC-21, GC-22, GC-30", check: owners_keep_the_owned },
    Invariant { name: "the-blocked-go-last", claims: "GC-47, GC-49", check: the_blocked_go_last },
    Invariant { name: "orphans-are-released-first", claims: "GC-55", check: orphans_are_released_first },
    Invariant { name: "other-finalizers-stay", claims: "GC-54", check: other_finalizers_stay },
    Invariant { name: "right-references-stay", claims: "GC-20, GC-55, GC-83", check: right_references_stay },
    Invariant { name: "events-are-not-its-business", claims: "GC-3", check: events_are_not_its_business },
];

pub(super) const PROMISES: &[Promise] =
    &[Promise { name: "nothing-is-left", claims: "GC-20, GC-21, GC-47, GC-55", check: nothing_is_left }];

fn written(logged: &Logged) -> bool {
    logged.by(CONTROLLER) && logged.resource() != "events"
}

/// The owner that a reference of an object means, if there is one: that uid, in that place.
fn owner<'a>(world: &'a World, object: &Value, reference: &Value) -> Option<&'a Arc<Value>> {
    let field = |field: &str| reference[field].as_str().unwrap_or_default();
    world.present().map(|(_, owner)| owner).find(|owner| {
        let namespace = text(owner, "/metadata/namespace");
        uid(owner) == field("uid")
            && name(owner) == field("name")
            && text(owner, "/kind") == field("kind")
            && text(owner, "/apiVersion") == field("apiVersion")
            && (namespace.is_empty() || namespace == text(object, "/metadata/namespace"))
    })
}

/// Whether an owner goes as soon as nothing holds it: then it holds nothing.
fn waits(owner: &Value) -> bool {
    is_deleting(owner) && has_finalizer(owner, FOREGROUND)
}

fn refers(object: &Value, owner: &Value) -> bool {
    owners(object).any(|reference| reference["uid"] == uid(owner))
}

fn blocks(object: &Value, owner: &Value) -> bool {
    owners(object).any(|reference| reference["uid"] == uid(owner) && reference["blockOwnerDeletion"] == true)
}

fn owners_keep_the_owned(world: &World, logged: &Logged) -> Option<String> {
    let object = logged.before().filter(|_| written(logged) && logged.deletes())?;
    if owners(&object).next().is_none() {
        return Some(format!("{} is deleted and has no owner", name(&object)));
    }
    owners(&object).find_map(|reference| {
        if let Some(owner) = owner(world, &object, reference).filter(|owner| !waits(owner)) {
            return Some(format!("{} is deleted and its owner {} is there", name(&object), name(owner)));
        }
        (reference["apiVersion"] == UNKNOWN)
            .then(|| format!("{} is deleted and nobody knows what {} is", name(&object), reference["kind"]))
    })
}

/// The object that loses a finalizer of the collector's by its hand.
fn finishes(logged: &Logged, finalizer: &str) -> Option<Arc<Value>> {
    let before =
        logged.before().filter(|object| written(logged) && !logged.deletes() && has_finalizer(object, finalizer))?;
    let stays = logged.after().is_some_and(|after| uid(&after) == uid(&before) && has_finalizer(&after, finalizer));
    (!stays).then_some(before)
}

/// An object that refers to its owner so for longer than the collector may be behind.
fn known_dependent<'a>(world: &'a World, owner: &Value, refers: fn(&Value, &Value) -> bool) -> Option<&'a Arc<Value>> {
    let is_known = |((resource, namespace, name), object): &(&Id, &Arc<Value>)| {
        let states = || world.recent(resource, namespace, name);
        refers(object, owner) && states().iter().all(|state| state.is_some_and(|state| refers(state, owner)))
    };
    world.present().find(is_known).map(|(_, object)| object)
}

fn the_blocked_go_last(world: &World, logged: &Logged) -> Option<String> {
    let object = finishes(logged, FOREGROUND)?;
    let left = known_dependent(world, &object, blocks)?;
    Some(format!("{} goes and {} blocks it", name(&object), name(left)))
}

fn orphans_are_released_first(world: &World, logged: &Logged) -> Option<String> {
    let object = finishes(logged, ORPHAN)?;
    let left = known_dependent(world, &object, refers)?;
    Some(format!("{} goes without its dependents, and {} is one still", name(&object), name(left)))
}

fn other_finalizers_stay(_: &World, logged: &Logged) -> Option<String> {
    let changed = logged.before().filter(|_| written(logged) && !logged.deletes());
    let (before, after) = changed.zip(logged.after())?;
    let others = |object: &Value| -> Vec<Value> {
        let all = items(object, "/metadata/finalizers").iter();
        all.filter(|f| **f != FOREGROUND && **f != ORPHAN).cloned().collect()
    };
    if others(&before) != others(&after) {
        return Some(format!("other finalizers of {} are changed", name(&before)));
    }
    let own = [FOREGROUND, ORPHAN].iter().any(|f| has_finalizer(&before, f) != has_finalizer(&after, f));
    (own && !is_deleting(&before)).then(|| format!("{} is not being deleted and loses a finalizer", name(&before)))
}

/// A reference goes if its owner is gone, waits, or goes without its dependents. Of one that stays nothing is changed but
/// that it blocks.
fn right_references_stay(world: &World, logged: &Logged) -> Option<String> {
    let changed = logged.before().filter(|_| written(logged) && !logged.deletes());
    let (before, after) = changed.zip(logged.after())?;
    let place = |reference: &Value| {
        let mut reference = reference.clone();
        reference["blockOwnerDeletion"] = Value::Null;
        reference
    };
    let is_lost = |reference: &&Value| !owners(&after).any(|other| place(other) == place(reference));
    let keeps = |owner: &&Arc<Value>| !(waits(owner) || is_deleting(owner) && has_finalizer(owner, ORPHAN));
    let mut lost = owners(&before).filter(is_lost).filter_map(|reference| owner(world, &before, reference));
    if let Some(owner) = lost.find(keeps) {
        return Some(format!("{} loses its owner {}, which is there", name(&before), name(owner)));
    }
    (owners(&after).count() > owners(&before).count()).then(|| format!("{} gets an owner", name(&before)))
}

fn events_are_not_its_business(_: &World, logged: &Logged) -> Option<String> {
    let touches = logged.by(CONTROLLER) && logged.resource().starts_with("events") && logged.deletes();
    touches.then(|| format!("event {} is deleted", logged.write.name))
}

/// Nothing is left all of whose owners are gone, and nothing waits for ever.
fn nothing_is_left(world: &World) -> Option<String> {
    for (id, object) in world.present() {
        let (who, all) = (format!("{} {}", id.0, id.2), items(object, "/metadata/ownerReferences"));
        let unresolvable = all.iter().any(|reference| reference["apiVersion"] == UNKNOWN);
        let alone = !all.is_empty() && all.iter().all(|reference| owner(world, object, reference).is_none());
        if alone && !unresolvable {
            return Some(format!("{who} is there, and its owners are gone"));
        }
        if is_deleting(object) && (has_finalizer(object, FOREGROUND) || has_finalizer(object, ORPHAN)) {
            return Some(format!("{who} is still being deleted"));
        }
        let gone = |reference: &&Value| owner(world, object, reference).is_none();
        if let Some(reference) = all.iter().find(gone).filter(|_| !alone && !unresolvable) {
            return Some(format!("{who} names {} as an owner, which is gone", reference["name"]));
        }
    }
    None
}
