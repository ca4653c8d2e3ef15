//! What always holds of garbage collection, and what holds in the end, read off the API server's true state.
//!
//! Nothing alive is collected on whatever stale view: here no invariant makes allowance for what the collector may not have
//! seen, because it may not delete then. Only of dependents that are new it need not know.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::{
    json::{at, is_deleting, name, text, uid},
    scenario::{Invariant, Promise},
    world::{Logged, World},
};

const CONTROLLER: &str = "gc-controller";
const FOREGROUND: &str = "foregroundDeletion";
const ORPHAN: &str = "orphan";

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

pub(super) fn references(object: &Value) -> &[Value] {
    at(object, "/metadata/ownerReferences").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn has(object: &Value, finalizer: &str) -> bool {
    let all = at(object, "/metadata/finalizers").and_then(Value::as_array);
    all.is_some_and(|all| all.iter().any(|f| f == finalizer))
}

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
    is_deleting(owner) && has(owner, FOREGROUND)
}

/// Objects that name another one as an owner, and whether they block it.
fn dependents<'a>(world: &'a World, owner: &'a Value) -> impl Iterator<Item = (&'a Arc<Value>, bool)> {
    world.present().filter_map(move |(_, object)| {
        let mut mine = references(object).iter().filter(|reference| reference["uid"] == uid(owner)).peekable();
        mine.peek()?;
        Some((object, mine.any(|reference| reference["blockOwnerDeletion"] == json!(true))))
    })
}

fn owners_keep_the_owned(world: &World, logged: &Logged) -> Result<(), String> {
    let Some(object) = logged.before().filter(|_| written(logged) && logged.deletes()) else { return Ok(()) };
    if references(&object).is_empty() {
        return Err(format!("{} is deleted and has no owner", name(&object)));
    }
    for reference in references(&object) {
        if let Some(owner) = owner(world, &object, reference).filter(|owner| !waits(owner)) {
            return Err(format!("{} is deleted and its owner {} is there", name(&object), name(owner)));
        }
        let (version, kind) = (reference["apiVersion"].as_str().unwrap_or_default(), &reference["kind"]);
        if version == "example.com/v1" {
            return Err(format!("{} is deleted and nobody knows what {kind} is", name(&object)));
        }
    }
    Ok(())
}

/// The object that loses a finalizer of the collector's by its hand.
fn finishes(logged: &Logged, finalizer: &str) -> Option<Arc<Value>> {
    let before = logged.before().filter(|object| written(logged) && !logged.deletes() && has(object, finalizer))?;
    let stays = logged.after().is_some_and(|after| uid(&after) == uid(&before) && has(&after, finalizer));
    (!stays).then_some(before)
}

/// Whether an object has been so for longer than the collector may be behind.
fn is_known(world: &World, object: &Value, test: impl Fn(&Value) -> bool) -> bool {
    let found = world.present().find(|(_, other)| uid(other) == uid(object));
    let Some(((resource, namespace, name), _)) = found else { return false };
    world.recent(resource, namespace, name).iter().all(|state| state.is_some_and(|state| test(state)))
}

fn the_blocked_go_last(world: &World, logged: &Logged) -> Result<(), String> {
    let Some(object) = finishes(logged, FOREGROUND) else { return Ok(()) };
    let blocks = |dependent: &Value| {
        let mut mine = references(dependent).iter().filter(|reference| reference["uid"] == uid(&object));
        mine.any(|reference| reference["blockOwnerDeletion"] == json!(true))
    };
    let mut blocking = dependents(world, &object).filter(|(_, blocks)| *blocks).map(|(dependent, _)| dependent);
    match blocking.find(|dependent| is_known(world, dependent, blocks)) {
        Some(left) => Err(format!("{} goes and {} blocks it", name(&object), name(left))),
        None => Ok(()),
    }
}

fn orphans_are_released_first(world: &World, logged: &Logged) -> Result<(), String> {
    let Some(object) = finishes(logged, ORPHAN) else { return Ok(()) };
    let refers = |dependent: &Value| references(dependent).iter().any(|reference| reference["uid"] == uid(&object));
    let mut left = dependents(world, &object).map(|(dependent, _)| dependent);
    match left.find(|dependent| is_known(world, dependent, refers)) {
        Some(left) => Err(format!("{} goes without its dependents, and {} is one still", name(&object), name(left))),
        None => Ok(()),
    }
}

fn other_finalizers_stay(_: &World, logged: &Logged) -> Result<(), String> {
    let changed = logged.before().filter(|_| written(logged) && !logged.deletes());
    let (Some(before), Some(after)) = (changed, logged.after()) else { return Ok(()) };
    let others = |object: &Value| -> Vec<Value> {
        let all = at(object, "/metadata/finalizers").and_then(Value::as_array).cloned().unwrap_or_default();
        all.into_iter().filter(|f| f != FOREGROUND && f != ORPHAN).collect()
    };
    if others(&before) != others(&after) {
        return Err(format!("other finalizers of {} are changed", name(&before)));
    }
    let own = [FOREGROUND, ORPHAN].iter().any(|f| has(&before, f) != has(&after, f));
    if own && !is_deleting(&before) {
        return Err(format!("{} is not being deleted and loses a finalizer", name(&before)));
    }
    Ok(())
}

/// A reference goes if its owner is gone, waits, or goes without its dependents. Of one that stays nothing is changed but
/// that it blocks.
fn right_references_stay(world: &World, logged: &Logged) -> Result<(), String> {
    let changed = logged.before().filter(|_| written(logged) && !logged.deletes());
    let (Some(before), Some(after)) = (changed, logged.after()) else { return Ok(()) };
    let place = |reference: &Value| {
        let mut reference = reference.clone();
        reference["blockOwnerDeletion"] = Value::Null;
        reference
    };
    for reference in references(&before) {
        if references(&after).iter().any(|other| place(other) == place(reference)) {
            continue;
        }
        let keeps = |owner: &&Arc<Value>| !(waits(owner) || is_deleting(owner) && has(owner, ORPHAN));
        if let Some(owner) = owner(world, &before, reference).filter(keeps) {
            return Err(format!("{} loses its owner {}, which is there", name(&before), name(owner)));
        }
    }
    if references(&after).len() > references(&before).len() {
        return Err(format!("{} gets an owner", name(&before)));
    }
    Ok(())
}

fn events_are_not_its_business(_: &World, logged: &Logged) -> Result<(), String> {
    let touches = logged.by(CONTROLLER) && logged.resource().starts_with("events") && logged.deletes();
    if touches { Err(format!("event {} is deleted", logged.write.name)) } else { Ok(()) }
}

/// Nothing is left all of whose owners are gone, and nothing waits for ever.
fn nothing_is_left(world: &World) -> Result<(), String> {
    for (id, object) in world.present() {
        let (who, all) = (format!("{} {}", id.0, id.2), references(object));
        let unresolvable = all.iter().any(|reference| reference["apiVersion"] == "example.com/v1");
        let alone = !all.is_empty() && all.iter().all(|reference| owner(world, object, reference).is_none());
        if alone && !unresolvable {
            return Err(format!("{who} is there, and its owners are gone"));
        }
        if is_deleting(object) && (has(object, FOREGROUND) || has(object, ORPHAN)) {
            return Err(format!("{who} is still being deleted"));
        }
        let gone = |reference: &&Value| owner(world, object, reference).is_none();
        if let Some(reference) = all.iter().find(gone).filter(|_| !alone && !unresolvable) {
            return Err(format!("{who} names {} as an owner, which is gone", reference["name"]));
        }
    }
    Ok(())
}
