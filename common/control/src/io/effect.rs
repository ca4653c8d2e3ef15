//! What a sync does besides requests.

use std::borrow::Cow;

use crate::events::EventType;

/// A change of the controller's memory that a sync asks for.
pub trait Note: Send {
    /// What a sync asks caches and memory for while it runs ([`Io::observe_again`](super::Io::observe_again)); `()` if there is one question only.
    type Question: Send;
    /// The answer to the question.
    type Fresh: Send;
}

/// For a controller whose syncs change no memory.
impl Note for std::convert::Infallible {
    type Question = ();
    type Fresh = ();
}

/// What a sync does besides requests, in order with them.
#[derive(Debug)]
pub(super) enum Effect<N> {
    /// Records an Event about the object of the sync.
    Event(EventType, Cow<'static, str>, String),
    /// Changes memory.
    Note(N),
    /// States why the sync continues otherwise than forecast.
    Deviation(String),
}
