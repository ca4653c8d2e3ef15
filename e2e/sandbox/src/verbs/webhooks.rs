//! Admission webhooks, which change a write, deny it, or delay it.
//!
//! A test installs what an administrator would register as a `MutatingWebhookConfiguration` or a
//! `ValidatingWebhookConfiguration`; the webhook itself is played here.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use serde_json::Value;

use crate::verbs::{
    faults::{Matcher, Subject},
    patch::json_patch,
    status::{ApiError, ApiResult},
};

/// The operation that a webhook is called for, as `rules[].operations` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// POST.
    Create,
    /// PUT and PATCH.
    Update,
    /// DELETE, of one object or of many.
    Delete,
}

impl Operation {
    fn of(verb: &str) -> Option<Self> {
        match verb {
            "create" => Some(Self::Create),
            "update" | "patch" => Some(Self::Update),
            "delete" | "deletecollection" => Some(Self::Delete),
            _ => None,
        }
    }
}

/// A webhook: which writes it is called for, and its answer. It allows them as they are unless it is told otherwise.
#[derive(Clone, Debug)]
pub struct Webhook {
    name: String,
    operation: Operation,
    matcher: Matcher,
    patch: Option<Value>,
    denial: Option<(u16, String)>,
    delay: Duration,
}

impl Webhook {
    /// A webhook that is called for one operation on one resource (`pods`, `pods/status`), in every namespace.
    pub fn new(name: &str, operation: Operation, resource: &str) -> Self {
        let matcher = Matcher { resource: Some(resource.to_owned()), ..Matcher::default() };
        Self { name: name.to_owned(), operation, matcher, patch: None, denial: None, delay: Duration::ZERO }
    }

    /// Only in that namespace.
    #[must_use]
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.matcher.namespace = Some(namespace.to_owned());
        self
    }

    /// Only for objects of that name. An object whose name the server generates has none yet.
    #[must_use]
    pub fn object(mut self, name: &str) -> Self {
        self.matcher.name = Some(name.to_owned());
        self
    }

    /// Only for requests of that client.
    #[must_use]
    pub fn identity(mut self, identity: &str) -> Self {
        self.matcher.identity = Some(identity.to_owned());
        self
    }

    /// Changes the object with this JSON patch. A write whose object it does not fit is refused.
    #[must_use]
    pub fn patches(mut self, patch: Value) -> Self {
        self.patch = Some(patch);
        self
    }

    /// Denies the write with this HTTP status and this message.
    #[must_use]
    pub fn denies(mut self, code: u16, message: &str) -> Self {
        self.denial = Some((code, message.to_owned()));
        self
    }

    /// Takes that long to answer.
    #[must_use]
    pub fn takes(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    fn is_called_for(&self, subject: &Subject<'_>) -> bool {
        Operation::of(subject.verb) == Some(self.operation) && self.matcher.matches(subject)
    }

    fn review(&self, object: &mut Value) -> ApiResult<()> {
        if let Some((code, message)) = &self.denial {
            let reason = match code {
                403 => "Forbidden",
                422 => "Invalid",
                _ => "BadRequest",
            };
            let message = format!("admission webhook \"{}\" denied the request: {message}", self.name);
            return Err(ApiError::new(*code, reason, message));
        }
        if let Some(patch) = &self.patch {
            let changes = json_patch::parse(patch.clone()).map_err(ApiError::internal)?;
            *object = json_patch::apply(&changes, object).ok_or_else(|| {
                ApiError::internal(format!("the patch of webhook \"{}\" does not fit the object", self.name))
            })?;
        }
        Ok(())
    }
}

/// The webhooks of one sandbox. Cheap to clone; clones share them.
#[derive(Clone, Debug, Default)]
pub struct Webhooks(Arc<Mutex<Vec<Webhook>>>);

impl Webhooks {
    /// Calls the webhook from now on, after those that are there.
    pub fn install(&self, webhook: Webhook) {
        self.0.lock().push(webhook);
    }

    /// Calls the webhooks of that name no more.
    pub fn remove(&self, name: &str) {
        self.0.lock().retain(|webhook| webhook.name != name);
    }

    /// How long the webhooks take for a request, one after the other.
    pub(crate) fn delay(&self, subject: &Subject<'_>) -> Duration {
        self.0.lock().iter().filter(|webhook| webhook.is_called_for(subject)).map(|webhook| webhook.delay).sum()
    }

    /// Lets the webhooks change or deny a write. Tells whether one has changed it.
    pub(crate) fn review(&self, subject: &Subject<'_>, object: &mut Value) -> ApiResult<bool> {
        let webhooks = self.0.lock();
        let mut is_changed = false;
        for webhook in webhooks.iter().filter(|webhook| webhook.is_called_for(subject)) {
            webhook.review(object)?;
            is_changed |= webhook.patch.is_some();
        }
        Ok(is_changed)
    }
}

#[cfg(test)]
mod tests {
    use common::clock::Clock;
    use serde_json::json;

    use super::*;
    use crate::Sandbox;

    fn sandbox() -> Sandbox {
        Sandbox::builder().clock(Clock::simulated(jiff::Timestamp::UNIX_EPOCH, 1)).build()
    }

    fn pod(name: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
            "spec": {"containers": [{"name": "c", "image": "img:1"}]}})
    }

    fn labelled() -> Value {
        json!({"metadata": {"labels": {"a": "b"}}})
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_webhook_adds_has_its_defaults_too() {
        let sandbox = sandbox();
        let sidecar = json!([{"op": "add", "path": "/spec/containers/-", "value": {"name": "side", "image": "img:2"}}]);
        sandbox.webhooks().install(Webhook::new("sidecar", Operation::Create, "pods").patches(sidecar));
        let made = sandbox.create(pod("p")).await.unwrap();
        assert_eq!(made["spec"]["containers"][1]["name"], "side");
        assert_eq!(made["spec"]["containers"][1]["terminationMessagePath"], "/dev/termination-log");
        sandbox.webhooks().remove("sidecar");
        assert_eq!(sandbox.create(pod("q")).await.unwrap()["spec"]["containers"].as_array().unwrap().len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn an_update_is_changed_like_a_creation() {
        let sandbox = sandbox();
        let note = json!([{"op": "add", "path": "/metadata/labels/seen", "value": "yes"}]);
        sandbox.webhooks().install(Webhook::new("note", Operation::Update, "pods").patches(note));
        sandbox.create(pod("p")).await.unwrap();
        let changed = sandbox.merge("pods", Some("default"), "p", None, labelled()).await.unwrap();
        assert_eq!(changed["metadata"]["labels"], json!({"a": "b", "seen": "yes"}));
    }

    #[tokio::test(start_paused = true)]
    async fn a_patch_that_does_not_fit_refuses_the_write() {
        let sandbox = sandbox();
        let misfit = json!([{"op": "add", "path": "/metadata/labels/seen", "value": "yes"}]);
        sandbox.webhooks().install(Webhook::new("note", Operation::Create, "pods").patches(misfit));
        assert_eq!(sandbox.create(pod("p")).await.unwrap_err().code, 500);
    }

    #[tokio::test(start_paused = true)]
    async fn a_denied_write_changes_nothing_and_others_pass() {
        let sandbox = sandbox();
        sandbox.create(pod("p")).await.unwrap();
        for operation in [Operation::Update, Operation::Delete] {
            let webhook = Webhook::new("policy.example.com", operation, "pods").object("p").namespace("default");
            sandbox.webhooks().install(webhook.denies(403, "not now"));
        }
        let before = sandbox.resource_version();
        let refused = sandbox.merge("pods", Some("default"), "p", None, labelled()).await.unwrap_err();
        assert_eq!((refused.code, refused.reason.as_str()), (403, "Forbidden"));
        assert_eq!(refused.message, "admission webhook \"policy.example.com\" denied the request: not now");
        assert_eq!(sandbox.delete("pods", Some("default"), "p").await.unwrap_err().code, 403);
        assert_eq!(sandbox.resource_version(), before);
        // The status is another resource for the rules of a webhook, and so is another name.
        let status = json!({"status": {"phase": "Running"}});
        sandbox.merge("pods", Some("default"), "p", Some("status"), status).await.unwrap();
        sandbox.create(pod("q")).await.unwrap();
        sandbox.delete("pods", Some("default"), "q").await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn slow_webhooks_delay_the_writes_they_are_called_for() {
        let sandbox = sandbox();
        let slow = |name: &str| Webhook::new(name, Operation::Create, "pods").takes(Duration::from_secs(5));
        sandbox.webhooks().install(slow("first").identity(crate::ADMIN));
        sandbox.webhooks().install(slow("second"));
        let start = sandbox.clock().monotonic_now();
        sandbox.create(pod("p")).await.unwrap();
        assert_eq!(sandbox.clock().monotonic_now() - start, Duration::from_secs(10));
        sandbox.delete("pods", Some("default"), "p").await.unwrap();
        assert_eq!(sandbox.clock().monotonic_now() - start, Duration::from_secs(10));
    }
}
