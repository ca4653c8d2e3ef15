//! Removing a finalizer.

use std::time::Duration;

use common::{
    api::Patch,
    intern::Text,
    sequence::{Failed, Note, Step, Steps, Turn},
};
use serde_json::{Value, json};

use super::{
    TRIES,
    place::{Live, Place, says_absent},
};

/// Upstream: `removeFinalizer`.
const FIRST_PAUSE: Duration = Duration::from_millis(10);

/// Removes one finalizer of an object that is being deleted, and no other.
pub(crate) struct RemoveFinalizer {
    place: Place,
    finalizer: &'static str,
    why: &'static str,
    tries: u32,
    pause: Duration,
    /// Whether the object exists; `None` if nothing was begun.
    pub(crate) outcome: Option<Result<bool, Failed>>,
}

impl RemoveFinalizer {
    pub(crate) fn of<N: Note>(place: Place, finalizer: &'static str, why: &'static str) -> Steps<Self, N> {
        let pause = FIRST_PAUSE;
        Steps::new(Self { place, finalizer, why, tries: 0, pause, outcome: None }, Self::read)
    }

    fn end<N: Note>(&mut self, outcome: Result<bool, Failed>) -> Step<Self, N> {
        self.outcome = Some(outcome);
        Step::Done
    }

    fn read<N: Note>(&mut self, _: &mut Turn<N>) -> Step<Self, N> {
        if self.tries == TRIES {
            return self.end(Err(self.place.changing()));
        }
        self.tries += 1;
        match self.place.read() {
            Some(request) => {
                Step::Send(request.because("to remove the finalizer, it must still be there"), Self::remove)
            }
            None => self.end(Ok(false)),
        }
    }

    fn remove<N: Note>(&mut self, turn: &mut Turn<N>) -> Step<Self, N> {
        let body = match self.place.live(turn) {
            Err(failed) => return self.end(Err(failed)),
            // Another object of that name keeps its finalizers.
            Ok(Live::Absent) => return self.end(Ok(false)),
            Ok(Live::AsExpected) => turn.body(|| ()),
            Ok(Live::Is(meta)) if !meta.is_deleting() || !meta.finalizers.iter().any(|f| f == self.finalizer) => {
                turn.deviates(format!("{} does not wait with the finalizer {}", self.place.title(), self.finalizer));
                return self.end(Ok(true));
            }
            Ok(Live::Is(meta)) => turn.body(|| {
                let left: Vec<&str> =
                    meta.finalizers.iter().map(Text::as_str).filter(|f| *f != self.finalizer).collect();
                let left = if left.is_empty() { Value::Null } else { json!(left) };
                json!({"metadata": {"resourceVersion": meta.resource_version, "finalizers": left}})
            }),
        };
        let request = self.place.patch(Patch::Merge, None, body);
        Step::Send(request.doing("remove the finalizer of").because(self.why), Self::removed)
    }

    fn removed<N: Note>(&mut self, turn: &mut Turn<N>) -> Step<Self, N> {
        match turn.written() {
            Ok(_) => self.end(Ok(true)),
            Err(refusal) if says_absent(&refusal) => self.end(Ok(false)),
            Err(refusal) if refusal.error.is_conflict() => {
                let pause = self.pause;
                self.pause *= 5;
                Step::PauseWithJitter(pause, 0.1, Self::read)
            }
            Err(refusal) => self.end(Err(self.place.refused("removing a finalizer of", &refusal))),
        }
    }
}
