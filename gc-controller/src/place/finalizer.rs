//! Removes a finalizer from a terminating object, with retries after conflicts.

use std::time::Duration;

use common::{
    api::Patch,
    intern::Text,
    io::{Failed, Io, Note},
};
use serde_json::{Value, json};

use super::{Live, Place, TRIES, says_absent};
use crate::objects::waits_with;

/// Pause after the first conflict; each further pause is five times longer. Upstream: `removeFinalizer`.
const FIRST_PAUSE: Duration = Duration::from_millis(10);

impl Place {
    /// Removes one finalizer of a terminating object, and keeps the other finalizers. Returns whether the object exists.
    pub(crate) async fn remove_finalizer<N: Note>(
        &self,
        finalizer: &str,
        why: &'static str,
        io: Io<'_, N>,
    ) -> Result<bool, Failed> {
        let mut pause = FIRST_PAUSE;
        for _ in 0..TRIES {
            let body = match self.live("to remove the finalizer, it must still be there", io).await? {
                // If another object has this name, its finalizers stay.
                Live::Absent => return Ok(false),
                Live::AsExpected => io.body(|| ()),
                Live::Is(meta) if !waits_with(&meta, finalizer) => {
                    io.deviate(format!("{} does not wait with the finalizer {finalizer}", self.title()));
                    return Ok(true);
                }
                Live::Is(meta) => io.body(|| {
                    let left = meta.finalizers.iter().map(Text::as_str).filter(|f| *f != finalizer);
                    let left: Vec<&str> = left.collect();
                    let left = if left.is_empty() { Value::Null } else { json!(left) };
                    json!({"metadata": {"resourceVersion": meta.resource_version, "finalizers": left}})
                }),
            };
            let request = self.patch(Patch::Merge, None, body).doing("remove the finalizer of").because(why);
            match io.send(request).await {
                Ok(_) => return Ok(true),
                Err(refusal) if says_absent(&refusal) => return Ok(false),
                Err(refusal) if refusal.error.is_conflict() => io.pause_with_jitter(pause, 0.1).await,
                Err(refusal) => return Err(self.refused("removing a finalizer of", &refusal)),
            }
            pause *= 5;
        }
        Err(self.changing())
    }
}
