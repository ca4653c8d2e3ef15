//! Creating and updating objects.

use std::{collections::BTreeSet, sync::Arc};

use serde_json::Value;

use crate::{
    api::{
        kinds::{Allocated, allocate_service},
        names::{self, check_create, check_update, invalid},
        raw,
        resource::{Key, Resource},
    },
    store::{NamespaceState, Store, Version, audit::Author},
    value::{
        errors::FieldError,
        json,
        object::{as_map, at, finalizers, is_deleting, meta, meta_mut, set_meta, tidy_meta},
    },
    verbs::{
        core::Core,
        faults::Subject,
        managed,
        quota::Charges,
        representation::served,
        request::{Call, WriteOptions},
        status::{ApiError, ApiResult},
    },
};

const SUFFIX: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
const LONGEST_GENERATED: usize = 63 - 5;

/// What a write left behind.
pub(crate) enum Written {
    Stored(Arc<Version>),
    /// An object that is not (or no longer) stored, in its served form.
    Loose(Value),
}

/// Which part of an object an update is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Main,
    Status,
    /// The finalizers in the spec of a namespace.
    Finalize,
}

impl Core {
    /// Handles POST on a collection.
    pub(crate) fn create(&self, call: &mut Call) -> ApiResult<Written> {
        let options = call.write_options("CreateOptions")?;
        let resource = call.resource.clone();
        let object = self.decode(call, &resource, options.validation)?;
        self.create_object(call, object, &options)
    }

    /// Creates a decoded and defaulted object.
    pub(crate) fn create_object(&self, call: &Call, mut object: Value, options: &WriteOptions) -> ApiResult<Written> {
        let resource = &*call.resource;
        match_namespace(resource, call.namespace.as_deref(), &mut object)?;
        if let (Some(wanted), name) = (&call.name, meta(&object, "name"))
            && name != wanted
        {
            return Err(name_mismatch(name, wanted));
        }
        let generated = meta(&object, "name").is_empty() && !meta(&object, "generateName").is_empty();
        if generated {
            let name = self.generate_name(meta(&object, "generateName"));
            set_meta(&mut object, "name", name);
        }
        let namespace = call.namespace.as_deref().filter(|_| resource.namespaced);
        if let Some(namespace) = namespace {
            check_namespace(&self.store.lock(), resource, meta(&object, "name"), namespace)?;
        }
        let name = Some(meta(&object, "name").to_owned()).filter(|_| !generated);
        if self.webhooks.review(&subject(&author(call), resource, namespace, name.as_deref()), &mut object)? {
            resource.default(&mut object);
        }
        let key = Key::new(namespace, call.name());
        self.check_escalation(&self.store.lock(), &author(call), resource, &key, (None, &object))?;
        let metadata = meta_mut(&mut object);
        for field in ["selfLink", "deletionTimestamp", "deletionGracePeriodSeconds", "uid"] {
            metadata.remove(field);
        }
        let given_version = metadata.remove("resourceVersion").is_some();
        if !options.applied {
            metadata.remove("managedFields");
        }
        metadata.insert("uid".into(), self.clock.random_uuid().into());
        metadata.insert("creationTimestamp".into(), names::time(self.clock.now()).into());
        if resource.is("", "services") {
            let refused = self.allocate(&mut object);
            if !refused.is_empty() {
                return Err(ApiError::invalid(resource, meta(&object, "name"), &refused));
            }
        }
        self.with_env(|env| resource.prepare_create(&mut object, env));
        let mut errors = check_create(resource, &object);
        errors.extend(resource.validate_create(&object));
        self.allow_by_gates(&mut errors);
        if !errors.is_empty() {
            return Err(ApiError::invalid(resource, meta(&object, "name"), &errors));
        }
        if given_version {
            return Err(ApiError::unexplained("resourceVersion should not be set on objects to be created"));
        }
        if self.setup.managed_fields && !options.applied {
            managed::track(resource, &Value::Null, &mut object, &options.manager, None, &names::time(self.clock.now()));
        }
        resource.to_stored(&mut object);
        let mut store = self.store.lock();
        if let Some(namespace) = namespace {
            check_namespace(&store, resource, meta(&object, "name"), namespace)?;
        }
        self.check_owner_references(&store, &author(call), resource, namespace, (None, &object))?;
        self.check_restricted_endpoints(&store, &author(call), resource, namespace, (None, &object))?;
        self.check_attestation(&store, &author(call), resource, (None, &object))?;
        self.check_service_account(&store, resource, namespace, &object)?;
        let charges = namespace.map(|namespace| Charges::of(&store, resource, &object, namespace)).transpose()?;
        let mut attempts = 0;
        let key = loop {
            let key = Key::new(namespace, meta(&object, "name"));
            if store.get(&resource.table, &key).is_none() {
                break key;
            }
            attempts += 1;
            if !generated || attempts > 7 {
                return Err(ApiError::already_exists(resource, key.name()));
            }
            let name = self.generate_name(meta(&object, "generateName"));
            set_meta(&mut object, "name", name);
        };
        if options.dry_run {
            raw::take(&mut object);
            resource.to_served(&mut object);
            return Ok(Written::Loose(object));
        }
        if let Some(charges) = charges {
            charges.store(self, &mut store);
        }
        let event = self.put(&mut store, &author(call), resource, &key, object);
        Ok(Written::Stored(event.version.clone()))
    }

    /// Gives a Service addresses and ports that no other has.
    fn allocate(&self, service: &mut Value) -> Vec<FieldError> {
        let services = self.store.lock().list("services", None, None, None).unwrap_or_default();
        let mut taken = BTreeSet::new();
        for (_, version) in services {
            let value = version.value();
            let spec = at(&value, &["spec"]);
            let texts = |v: &Value| v.as_array().into_iter().flatten().map(ToString::to_string).collect::<Vec<_>>();
            taken.extend(texts(at(spec, &["clusterIPs"])));
            let ports = at(spec, &["ports"]).as_array().into_iter().flatten();
            taken.extend(ports.map(|p| at(p, &["nodePort"]).to_string()));
            taken.insert(at(spec, &["healthCheckNodePort"]).to_string());
        }
        allocate_service(service, &|wanted| match wanted {
            Allocated::Address(address) => taken.contains(&format!("\"{address}\"")),
            Allocated::NodePort(port) => taken.contains(&port.to_string()),
        })
    }

    fn generate_name(&self, prefix: &str) -> String {
        let end = (0..=prefix.len().min(LONGEST_GENERATED)).rev().find(|i| prefix.is_char_boundary(*i)).unwrap_or(0);
        let mut name = prefix[..end].to_owned();
        for _ in 0..5 {
            let i = self.clock.random_below(SUFFIX.len());
            name.push(char::from(SUFFIX.get(i).copied().unwrap_or(b'b')));
        }
        name
    }

    /// Handles PUT on an object or its status.
    pub(crate) fn replace(&self, call: &mut Call, part: Part) -> ApiResult<(Written, bool)> {
        let options = call.write_options("UpdateOptions")?;
        let resource = call.resource.clone();
        let mut object = self.decode(call, &resource, options.validation)?;
        check_url_name(call.name(), &object)?;
        match_namespace(&resource, call.namespace.as_deref(), &mut object)?;
        match self.get(call) {
            Err(_) if part == Part::Main && resource.create_on_update() => {
                return Ok((self.create_object(call, object, &options)?, true));
            }
            found => _ = found?,
        }
        let uid = meta(&object, "uid").to_owned();
        let written = self.update(call, &options, part, Some(&uid), |_| Ok(object))?;
        Ok((written, false))
    }

    /// Updates an object: `make` turns the current one into what the client wants.
    pub(crate) fn update(
        &self,
        call: &Call,
        options: &WriteOptions,
        part: Part,
        uid: Option<&str>,
        make: impl FnOnce(&Value) -> ApiResult<Value>,
    ) -> ApiResult<Written> {
        let resource = &*call.resource;
        let key = call.key();
        let mut store = self.store.lock();
        self.update_locked(&mut store, &author(call), resource, &key, options, part, uid, make)
    }

    /// [`update`](Self::update) with the store at hand.
    #[expect(clippy::too_many_arguments, reason = "one internal function under several requests")]
    pub(crate) fn update_locked(
        &self,
        store: &mut Store,
        author: &Author<'_>,
        resource: &Resource,
        key: &Key,
        options: &WriteOptions,
        part: Part,
        uid: Option<&str>,
        make: impl FnOnce(&Value) -> ApiResult<Value>,
    ) -> ApiResult<Written> {
        let Some(current) = store.get(&resource.table, key).cloned() else {
            return Err(ApiError::not_found(resource, key.name()));
        };
        let old = if resource.converts() { Arc::new(served(resource, &current)) } else { current.value() };
        let old_uid = meta(&old, "uid");
        if let Some(wanted) = uid.filter(|uid| !uid.is_empty() && *uid != old_uid) {
            return Err(ApiError::wrong_uid(resource, key, wanted, old_uid));
        }
        let mut new = make(&old)?;
        self.check_escalation(store, author, resource, key, (Some(&old), &new))?;
        let text = raw::take(&mut new).or_else(|| {
            let kept = current.raw.as_deref()?;
            let same = new.get(raw::FIELD) == old.get(raw::FIELD);
            Some(if same { raw::encoded(kept) } else { json::text(at(&new, &[raw::FIELD])) })
        });
        let version = match meta(&new, "resourceVersion") {
            "" => 0,
            text => text.parse::<u64>().map_err(|_| {
                ApiError::unexplained(format!("strconv.ParseUint: parsing {}: invalid syntax", names::quoted(text)))
            })?,
        };
        if version == 0 {
            if !resource.unconditional_update() {
                let why = "must be specified for an update";
                let error = invalid("metadata.resourceVersion", "0", why);
                return Err(ApiError::invalid_as(&resource.group, &resource.plural, key.name(), &[error]));
            }
            set_meta(&mut new, "resourceVersion", meta(&old, "resourceVersion"));
        } else if version != current.rv {
            return Err(ApiError::stale(resource, key.name()));
        }
        let subject = subject(author, resource, key.namespace(), Some(key.name()));
        if self.webhooks.review(&subject, &mut new)? {
            resource.default(&mut new);
        }
        let given_managed = new.get("metadata").and_then(|m| m.get("managedFields")).cloned();
        match at(&old, &["metadata", "generation"]) {
            Value::Null => meta_mut(&mut new).remove("generation"),
            generation => meta_mut(&mut new).insert("generation".into(), generation.clone()),
        };
        match part {
            Part::Main => self.with_env(|env| resource.prepare_update(&mut new, &old, env)),
            Part::Status => self.with_env(|env| resource.prepare_status(&mut new, &old, env)),
            Part::Finalize => match old.get("status") {
                Some(status) => drop(as_map(&mut new).insert("status".into(), status.clone())),
                None => drop(as_map(&mut new).remove("status")),
            },
        }
        keep_system_fields(&mut new, &old);
        let mut errors: Vec<FieldError> = check_update(&new, &old);
        // The real server checks metadata twice, once for all kinds and once for each.
        errors.extend(check_update(&new, &old));
        errors.extend(match part {
            Part::Main | Part::Finalize => resource.validate_update(&new, &old),
            Part::Status => resource.validate_status(&new, &old),
        });
        self.allow_by_gates(&mut errors);
        if let Some(text) = text.as_deref().filter(|_| errors.is_empty() && text.as_deref() != current.raw.as_deref()) {
            errors.push(invalid(raw::FIELD, &raw::encoded(text), "field is immutable"));
        }
        if !errors.is_empty() {
            return Err(ApiError::invalid(resource, key.name(), &errors));
        }
        tidy_meta(&mut new);
        self.check_owner_references(store, author, resource, key.namespace(), (Some(&old), &new))?;
        self.check_restricted_endpoints(store, author, resource, key.namespace(), (Some(&old), &new))?;
        self.check_attestation(store, author, resource, (Some(&old), &new))?;
        let old_managed = at(&old, &["metadata", "managedFields"]);
        if old_managed.is_array() && given_managed.is_none_or(|m| m.is_null()) {
            set_meta(&mut new, "managedFields", old_managed.clone());
        }
        if !options.applied && (old_managed.is_array() || self.setup.managed_fields) {
            let sub = match part {
                Part::Main => None,
                Part::Status => Some("status"),
                Part::Finalize => Some("finalize"),
            };
            managed::track(resource, &old, &mut new, &options.manager, sub, &names::time(self.clock.now()));
        }
        if new == *old {
            return Ok(Written::Stored(current));
        }
        if options.dry_run {
            return Ok(Written::Loose(new));
        }
        if emptied(&new, &old) {
            self.remove(store, author, resource, key);
            return Ok(Written::Loose(new));
        }
        resource.to_stored(&mut new);
        raw::put(&mut new, text);
        let event = self.put(store, author, resource, key, new);
        Ok(Written::Stored(event.version.clone()))
    }
}

/// Who makes the request.
pub(crate) fn author(call: &Call) -> Author<'_> {
    Author { identity: &call.identity, agent: &call.agent, verb: call.verb, sub: call.sub.as_deref() }
}

/// A write as webhooks see it.
pub(crate) fn subject<'a>(
    author: &Author<'a>,
    resource: &'a Resource,
    namespace: Option<&'a str>,
    name: Option<&'a str>,
) -> Subject<'a> {
    let Author { identity, verb, sub, .. } = *author;
    Subject { identity, verb, plural: &resource.plural, sub, namespace, name }
}

/// Puts the namespace of the URL into an object that has none, and refuses another one.
pub(crate) fn match_namespace(resource: &Resource, namespace: Option<&str>, object: &mut Value) -> ApiResult<()> {
    let wanted = namespace.filter(|_| resource.namespaced).unwrap_or_default();
    match meta(object, "namespace") {
        "" => {
            if !wanted.is_empty() {
                set_meta(object, "namespace", wanted);
            }
        }
        found if found == wanted => {}
        _ if wanted.is_empty() && !resource.namespaced => {}
        _ => {
            return Err(ApiError::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
    }
    Ok(())
}

fn name_mismatch(found: &str, wanted: &str) -> ApiError {
    if found.is_empty() {
        return ApiError::bad_request(format!(
            "the name of the object ({wanted} based on URL) was undeterminable: name must be provided"
        ));
    }
    ApiError::bad_request(format!("the name of the object ({found}) does not match the name on the URL ({wanted})"))
}

/// The name in the body must be the one in the URL.
pub(crate) fn check_url_name(wanted: &str, object: &Value) -> ApiResult<()> {
    match meta(object, "name") {
        name if name == wanted => Ok(()),
        name => Err(name_mismatch(name, wanted)),
    }
}

fn check_namespace(store: &Store, resource: &Resource, name: &str, namespace: &str) -> ApiResult<()> {
    match store.namespace(namespace) {
        None => Err(ApiError::namespace_not_found(namespace)),
        Some(NamespaceState::Terminating) => Err(ApiError::namespace_terminating(resource, name, namespace)),
        Some(NamespaceState::Active) => Ok(()),
    }
}

/// What no update may change.
fn keep_system_fields(new: &mut Value, old: &Value) {
    if meta(new, "uid").is_empty() {
        set_meta(new, "uid", meta(old, "uid"));
    }
    meta_mut(new).remove("selfLink");
    for field in ["creationTimestamp", "deletionTimestamp"] {
        let value = at(old, &["metadata", field]);
        if value.is_string() {
            set_meta(new, field, value.clone());
        } else {
            meta_mut(new).remove(field);
        }
    }
    let grace = at(old, &["metadata", "deletionGracePeriodSeconds"]);
    if grace.is_number() && at(new, &["metadata", "deletionGracePeriodSeconds"]).is_null() {
        set_meta(new, "deletionGracePeriodSeconds", grace.clone());
    }
}

/// Whether an update took away the last thing that kept a deleted object.
pub(crate) fn emptied(new: &Value, old: &Value) -> bool {
    is_deleting(old)
        && finalizers(new).is_empty()
        && at(old, &["metadata", "deletionGracePeriodSeconds"]).as_i64().unwrap_or(0) == 0
        && at(new, &["spec", "finalizers"]).as_array().is_none_or(Vec::is_empty)
}
