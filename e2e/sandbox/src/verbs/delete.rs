//! Deleting objects: preconditions, grace, finalizers, propagation.

use std::sync::Arc;

use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::{
    api::{
        logic::Propagation,
        names,
        resource::{Key, Resource},
    },
    store::{Store, Version, audit::Author},
    value::{
        json,
        object::{at, child, finalizers, is_deleting, meta, set_finalizers, set_meta, text},
    },
    verbs::{
        core::Core,
        read::Page,
        request::{Call, DeleteOptions},
        status::{ApiError, ApiResult},
        write::{author, subject},
    },
};

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";
const ORPHANED_PODS: &str = "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning";

/// What a deletion came to.
pub(crate) enum Deleted {
    /// The object is gone; this is its last state.
    Gone(Arc<Version>),
    /// Something keeps the object: it is marked.
    Marked(Arc<Version>),
    /// It would be gone (dry run).
    Would(Value),
}

/// One deletion of an object of one resource.
pub(crate) struct Deleting<'a> {
    pub(crate) core: &'a Core,
    pub(crate) author: Author<'a>,
    pub(crate) resource: &'a Resource,
    pub(crate) options: DeleteOptions,
}

/// How gracefully an object goes.
enum Grace {
    /// The kind knows no grace, or it is over.
    None,
    /// It is on its way already, and not faster now.
    Pending,
    /// It has so many seconds from now on; its marks are set.
    Given(i64),
}

impl Deleting<'_> {
    pub(crate) fn delete(&self, store: &mut Store, key: &Key) -> ApiResult<Deleted> {
        let Some(current) = store.get(&self.resource.table, key).cloned() else {
            return Err(ApiError::not_found(self.resource, key.name()));
        };
        let old = current.value();
        self.check_preconditions(&old)?;
        let subject = subject(&self.author, self.resource, key.namespace(), Some(key.name()));
        self.core.webhooks.review(&subject, &mut Value::clone(&old))?;
        if self.resource.is("", "namespaces") {
            return self.delete_namespace(store, key, &current, &old);
        }
        let mut new = Value::clone(&old);
        let grace = self.grace(&mut new);
        if matches!(grace, Grace::Pending) {
            return Ok(Deleted::Marked(current));
        }
        let wanted = self.finalizers(&old);
        set_finalizers(&mut new, &wanted);
        match grace {
            Grace::None if wanted.is_empty() && self.options.dry_run => return Ok(Deleted::Would(new)),
            Grace::None if wanted.is_empty() => return self.remove(store, key),
            Grace::None => self.mark(&mut new),
            // The real server stores the marks before it removes the object.
            Grace::Given(0) if wanted.is_empty() => {
                if self.options.dry_run {
                    return Ok(Deleted::Would(new));
                }
                self.core.put(store, &self.author, self.resource, key, new);
                return self.remove(store, key);
            }
            Grace::Given(_) | Grace::Pending => {}
        }
        if new == *old {
            return Ok(Deleted::Marked(current));
        }
        if self.options.dry_run {
            return Ok(Deleted::Would(new));
        }
        let event = self.core.put(store, &self.author, self.resource, key, new);
        Ok(Deleted::Marked(event.version.clone()))
    }

    fn remove(&self, store: &mut Store, key: &Key) -> ApiResult<Deleted> {
        match self.core.remove(store, &self.author, self.resource, key) {
            Some(event) => Ok(Deleted::Gone(event.version.clone())),
            None => Err(ApiError::not_found(self.resource, key.name())),
        }
    }

    fn check_preconditions(&self, old: &Value) -> ApiResult<()> {
        let (name, uid, version) = (meta(old, "name"), meta(old, "uid"), meta(old, "resourceVersion"));
        if let Some(wanted) = self.options.uid.as_deref().filter(|wanted| *wanted != uid) {
            let why = format!(
                "the UID in the precondition ({wanted}) does not match the UID in record ({uid}). The object might have been deleted and then recreated"
            );
            return Err(ApiError::kind_conflict(self.resource, name, &why));
        }
        if let Some(wanted) = self.options.resource_version.as_deref().filter(|wanted| *wanted != version) {
            let why = format!(
                "the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion in record ({version}). The object might have been modified"
            );
            return Err(ApiError::kind_conflict(self.resource, name, &why));
        }
        Ok(())
    }

    /// Decides how gracefully the object goes, and marks it if it is given time. Only Pods are.
    fn grace(&self, object: &mut Value) -> Grace {
        if !self.resource.is("", "pods") {
            return Grace::None;
        }
        // A negative period means one second.
        let asked = self.options.grace.map(|s| if s < 0 { 1 } else { s });
        let now = self.core.now();
        if is_deleting(object) {
            let left = at(object, &["metadata", "deletionGracePeriodSeconds"]).as_i64().unwrap_or(0);
            if left == 0 {
                return Grace::None;
            }
            let Some(period) = asked.filter(|period| *period < left) else { return Grace::Pending };
            let end = meta(object, "deletionTimestamp").parse().unwrap_or(now);
            let moved = end.saturating_add(SignedDuration::from_secs(period - left)).unwrap_or(end);
            let (end, period) = if moved < now { (now, period.min(1)) } else { (moved, period) };
            set_meta(object, "deletionTimestamp", names::time(end));
            set_meta(object, "deletionGracePeriodSeconds", period);
            return Grace::Given(period);
        }
        let period = if text(object, &["spec", "nodeName"]).is_empty()
            || matches!(text(object, &["status", "phase"]), "Failed" | "Succeeded")
        {
            0
        } else {
            asked.or_else(|| at(object, &["spec", "terminationGracePeriodSeconds"]).as_i64()).unwrap_or(0)
        };
        let period = if period < 0 { 1 } else { period };
        let end = now.saturating_add(SignedDuration::from_secs(period)).unwrap_or(now);
        set_meta(object, "deletionTimestamp", names::time(end));
        set_meta(object, "deletionGracePeriodSeconds", period);
        bump(object);
        Grace::Given(period)
    }

    /// Marks an object that something keeps as being deleted.
    fn mark(&self, object: &mut Value) {
        if !is_deleting(object) {
            bump(object);
            set_meta(object, "deletionTimestamp", names::time(self.core.now()));
        }
        set_meta(object, "deletionGracePeriodSeconds", 0);
    }

    /// The finalizers an object has once its propagation is decided.
    fn finalizers(&self, old: &Value) -> Vec<String> {
        let existing = finalizers(old);
        let has = |name: &str| existing.iter().any(|f| f == name);
        let policy = match (self.options.orphan, self.options.propagation.as_deref()) {
            (Some(true), _) | (None, Some("Orphan")) => Some(Propagation::Orphan),
            (Some(false), _) | (None, Some("Background")) => Some(Propagation::Background),
            (None, Some("Foreground")) => Some(Propagation::Foreground),
            (None, _) if has(ORPHAN) => Some(Propagation::Orphan),
            (None, _) if has(FOREGROUND) => Some(Propagation::Foreground),
            (None, _) => None,
        };
        let policy = policy.unwrap_or_else(|| self.resource.default_propagation());
        let kept: Vec<String> = existing.iter().filter(|f| !matches!(&***f, ORPHAN | FOREGROUND)).cloned().collect();
        let wanted = match policy {
            Propagation::Orphan => Some(ORPHAN),
            Propagation::Foreground => Some(FOREGROUND),
            Propagation::Background => None,
        };
        let new: Vec<String> = kept.into_iter().chain(wanted.map(str::to_owned)).collect();
        // The same set in another order is no change.
        let (mut a, mut b) = (existing.clone(), new.clone());
        a.sort();
        b.sort();
        if a == b { existing } else { new }
    }

    fn delete_namespace(
        &self,
        store: &mut Store,
        key: &Key,
        current: &Arc<Version>,
        old: &Value,
    ) -> ApiResult<Deleted> {
        let name = key.name();
        if matches!(name, "default" | "kube-system" | "kube-public") {
            let message = format!("namespaces \"{name}\" is forbidden: this namespace may not be deleted");
            return Err(ApiError::forbidden(json!({"name": name, "kind": "namespaces"}), message));
        }
        if is_deleting(old) {
            return Ok(Deleted::Marked(current.clone()));
        }
        let mut new = old.clone();
        set_meta(&mut new, "deletionTimestamp", names::time(self.core.now()));
        child(&mut new, "status").insert("phase".into(), "Terminating".into());
        if self.options.dry_run {
            return Ok(Deleted::Would(new));
        }
        let event = self.core.put(store, &self.author, self.resource, key, new);
        Ok(Deleted::Marked(event.version.clone()))
    }
}

fn bump(object: &mut Value) {
    if let Some(generation) = at(object, &["metadata", "generation"]).as_i64().filter(|g| *g > 0) {
        set_meta(object, "generation", generation + 1);
    }
}

fn delete_options(call: &Call) -> ApiResult<DeleteOptions> {
    if call.body.is_empty() {
        return DeleteOptions::read(None, &call.query);
    }
    let mut duplicates = Vec::new();
    let parsed = if call.media().is_empty() {
        json::parse(&call.body, &mut duplicates)
    } else {
        crate::verbs::decode::parse_body(call, &mut duplicates)?
    };
    let body =
        parsed.map_err(|why| ApiError::bad_request(format!("couldn't get version/kind; json parse error: {why}")))?;
    let kind = text(&body, &["kind"]);
    if !matches!(kind, "" | "DeleteOptions") {
        return Err(ApiError::bad_request(format!(
            "no kind {} is registered for version {} in scheme \"pkg/apis/meta/internalversion/scheme/register.go:27\"",
            names::quoted(kind),
            names::quoted(text(&body, &["apiVersion"]))
        )));
    }
    DeleteOptions::read(Some(&body), &call.query)
}

impl Core {
    /// Handles DELETE on an object. The second value says whether the answer is the object.
    pub(crate) fn delete(&self, call: &mut Call) -> ApiResult<(Deleted, bool)> {
        let options = delete_options(call)?;
        let resource = call.resource.clone();
        if resource.is("batch", "jobs") && options.propagation.is_none() && options.orphan.is_none() {
            call.warnings.push(ORPHANED_PODS.into());
        }
        let key = call.key();
        let deleting = Deleting { core: self, author: author(call), resource: &resource, options };
        let deleted = deleting.delete(&mut self.store.lock(), &key)?;
        let whole = matches!(deleted, Deleted::Marked(_)) || resource.returns_deleted();
        Ok((deleted, whole))
    }

    /// Handles DELETE on a collection, or on one page of it; answers with what was there.
    pub(crate) fn delete_collection(&self, call: &mut Call) -> ApiResult<Page> {
        let options = delete_options(call)?;
        let resource = call.resource.clone();
        let page = self.list(call, None)?;
        let deleting = Deleting { core: self, author: author(call), resource: &resource, options };
        let mut store = self.store.lock();
        for version in &page.items {
            let key = Key::new(call.namespace.as_deref(), meta(&version.value(), "name"));
            match deleting.delete(&mut store, &key) {
                Ok(_) => {}
                // Gone meanwhile, with the one before it.
                Err(error) if error.code == 404 => {}
                Err(error) => return Err(error),
            }
        }
        drop(store);
        Ok(page)
    }
}
