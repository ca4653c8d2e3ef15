//! Creating and deleting Pods, with the Events that tell of it.
//!
//! Upstream: `pkg/controller`, `RealPodControl`.

use std::sync::Arc;

use super::{Body, Class, Fields, Next, Note, Refusal, Request, Role, Sequence, Turn};
use crate::{events::EventType, intern::Text, meta::Meta, pods::PODS};

/// Creates one Pod.
pub struct CreatePod {
    request: Option<Request>,
    /// What became of it; `None` if it was not begun.
    pub outcome: Option<Result<Fields, Refusal>>,
}

impl CreatePod {
    /// A Pod made from `body`. Explanations show `name`, unless it is empty.
    pub fn new(namespace: &Text, name: &Arc<str>, body: Body) -> Self {
        Self { request: Some(Request::create(PODS, namespace, name, body)), outcome: None }
    }

    /// The same with the beginning of the name, which the server completes.
    #[must_use]
    pub fn generate_name(self, prefix: impl Into<Arc<str>>) -> Self {
        Self { request: self.request.map(|request| request.generate_name(prefix)), ..self }
    }

    /// The same with a reason.
    #[must_use]
    pub fn because(self, why: impl Into<std::borrow::Cow<'static, str>>) -> Self {
        Self { request: self.request.map(|request| request.because(why)), ..self }
    }

    /// The same with another role.
    #[must_use]
    pub fn role(self, role: Role) -> Self {
        Self { request: self.request.map(|request| request.role(role)), ..self }
    }

    /// Whether there is a Pod more.
    pub fn is_done(&self) -> bool {
        matches!(self.outcome, Some(Ok(_)))
    }

    /// The refusal, unless it says that the namespace terminates, which is no failure.
    pub fn failure(&self) -> Option<&Refusal> {
        let refusal = self.outcome.as_ref()?.as_ref().err()?;
        (refusal.class != Class::NamespaceTerminating).then_some(refusal)
    }

    /// Whether it was refused because the namespace terminates.
    pub fn found_terminating_namespace(&self) -> bool {
        matches!(&self.outcome, Some(Err(refusal)) if refusal.class == Class::NamespaceTerminating)
    }
}

impl<N: Note> Sequence<N> for CreatePod {
    fn next(&mut self, turn: &mut Turn<N>) -> Next<'_, N> {
        if let Some(request) = self.request.take() {
            return Next::Send(request);
        }
        let outcome = turn.written();
        match &outcome {
            Ok(made) => turn.tell(EventType::Normal, "SuccessfulCreate", format!("Created pod: {}", made.name)),
            Err(refusal) if refusal.class == Class::NamespaceTerminating => {}
            Err(refusal) => {
                turn.tell(EventType::Warning, "FailedCreate", format!("Error creating: {}", refusal.error));
            }
        }
        self.outcome = Some(outcome);
        Next::Done
    }

    fn stops_siblings(&self) -> bool {
        !self.is_done()
    }
}

/// Deletes one Pod at the version that was judged: one that has become ready, or was released, since then stays.
pub struct DeletePod {
    request: Option<Request>,
    name: Arc<str>,
    /// What became of it; `None` if it was not begun.
    pub outcome: Option<Result<(), Refusal>>,
}

impl DeletePod {
    /// Deletes this version of the Pod.
    pub fn new(pod: &Meta, why: impl Into<std::borrow::Cow<'static, str>>) -> Self {
        let request = Request::delete(PODS, pod).because(why);
        Self { request: Some(request), name: Arc::clone(&pod.name), outcome: None }
    }

    /// The same whatever has become of the Pod since it was judged.
    #[must_use]
    pub fn at_any_version(self) -> Self {
        Self { request: self.request.map(|request| request.at(None)), ..self }
    }

    /// Whether the Pod is gone or terminating.
    pub fn is_done(&self) -> bool {
        match &self.outcome {
            Some(Ok(())) => true,
            Some(Err(refusal)) => refusal.error.is_not_found(),
            None => false,
        }
    }

    /// Whether the Pod has changed since it was judged, and stays.
    pub fn found_change(&self) -> bool {
        matches!(&self.outcome, Some(Err(refusal)) if refusal.class == Class::Changed)
    }

    /// Any other refusal.
    pub fn failure(&self) -> Option<&Refusal> {
        let refusal = self.outcome.as_ref()?.as_ref().err()?;
        (!self.is_done() && !self.found_change()).then_some(refusal)
    }
}

impl<N: Note> Sequence<N> for DeletePod {
    fn next(&mut self, turn: &mut Turn<N>) -> Next<'_, N> {
        if let Some(request) = self.request.take() {
            return Next::Send(request);
        }
        self.outcome = Some(turn.written().map(drop));
        if let Some(Ok(())) = &self.outcome {
            turn.tell(EventType::Normal, "SuccessfulDelete", format!("Deleted pod: {}", self.name));
        } else if let Some(refusal) = self.failure() {
            turn.tell(EventType::Warning, "FailedDelete", format!("Error deleting: {}", refusal.error));
        }
        Next::Done
    }
}
