//! An empty act: the loop sends no requests, and enqueues sets when a plan is recorded.

use std::{
    convert::Infallible,
    future::{Ready, ready},
};

use common::io::{Failed, Io, Requeue};

/// This loop has no notes.
pub(crate) type Note = Infallible;

/// Ends the sync without a request.
pub(crate) fn act(_: Io<'_, Note>) -> Ready<Result<Requeue, Failed>> {
    ready(Ok(Requeue::AsPlanned))
}
