//! The effects of a sync other than requests.

use std::borrow::Cow;

use crate::events::EventType;

/// A change of the controller's memory that a sync asks for.
pub trait MemoryNote: Send {
    /// The question that [`Io::observe_again`](super::Io::observe_again) answers; `()` if the controller offers only one.
    type Query: Send;
    /// The new state that [`Io::observe_again`](super::Io::observe_again) returns; `()` if only the fact of a change matters.
    type NewState: Send;
}

impl MemoryNote for std::convert::Infallible {
    type Query = ();
    type NewState = ();
}

/// An effect of a sync other than a request, such as an Event. Effects take place in order with the requests.
#[derive(Debug)]
pub(super) enum Effect<N> {
    /// Records an Event on the object of the sync.
    RecordEvent(EventType, Cow<'static, str>, String),
    /// Changes the controller's memory.
    ApplyNote(N),
    /// States the reason why the sync differs from its forecast.
    ExplainDeviation(String),
}
