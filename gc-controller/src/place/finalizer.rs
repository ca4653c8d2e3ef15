//! Removes a finalizer from a terminating object, with retries after conflicts.

use std::time::Duration;

use common::{api::PatchFormat, prelude::*};
use serde_json::{Value, json};

use super::{LiveReadResult, MAX_WRITE_ATTEMPTS, ObjectLocation};
use crate::objects::is_terminating_with;

/// Pause after the first conflict; each further pause is five times longer. Upstream: `removeFinalizer`.
const FIRST_PAUSE: Duration = Duration::from_millis(10);

impl ObjectLocation {
    /// Removes one finalizer of a terminating object, and keeps the other finalizers. Returns whether the object exists.
    pub(crate) async fn remove_finalizer<C: Sync>(
        &self,
        finalizer: &str,
        why: &'static str,
        io: Io<'_, C>,
    ) -> Result<bool, SyncError> {
        let mut pause = FIRST_PAUSE;
        for _ in 0..MAX_WRITE_ATTEMPTS {
            let body = match self.read_live("to remove the finalizer, it must still be there", io).await? {
                // If another object has this name, the finalizers of that object are not changed.
                LiveReadResult::Absent => return Ok(false),
                LiveReadResult::AsExpected => io.encode_body(|| ()),
                LiveReadResult::Existing(meta) if !is_terminating_with(&meta, finalizer) => {
                    io.explain_deviation(format!("{} does not wait with the finalizer {finalizer}", self.describe()));
                    return Ok(true);
                }
                LiveReadResult::Existing(meta) => io.encode_body(|| {
                    let others: Vec<_> = meta.finalizers.iter().filter(|other| ***other != *finalizer).collect();
                    let others = if others.is_empty() { Value::Null } else { json!(others) };
                    json!({"metadata": {"resourceVersion": meta.resource_version, "finalizers": others}})
                }),
            };
            let request =
                self.patch(PatchFormat::Merge, None, body).with_verb_text("remove the finalizer of").with_reason(why);
            match io.send(request).await {
                Ok(_) => return Ok(true),
                Err(refusal) if refusal.error.is_object_absent() => return Ok(false),
                Err(refusal) if refusal.error.is_conflict() => io.pause_with_jitter(pause, 0.1).await,
                Err(refusal) => return Err(self.refusal_error("removing a finalizer of", &refusal)),
            }
            pause *= 5;
        }
        Err(self.conflict_error())
    }
}
