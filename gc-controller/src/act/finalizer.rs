//! Removing a finalizer.

use std::time::Duration;

use common::{
    api::{Error as ApiError, Patch},
    intern::Text,
};
use serde_json::{Value, json};

use super::{Act, Place};
use crate::error::{Error, says_absent};

/// How often an object that was changed meanwhile is read and written again at once. Upstream: `removeFinalizer`.
const TRIES: u32 = 4;
const FIRST_PAUSE: Duration = Duration::from_millis(10);

impl Act<'_> {
    /// Removes one finalizer of an object that is going, and no other. Says whether the object is there.
    pub(crate) async fn remove_finalizer(&self, place: &Place, finalizer: &str) -> Result<bool, Error> {
        let mut pause = FIRST_PAUSE;
        for _ in 0..TRIES {
            // Another one of that name keeps what it has.
            let Some(meta) = self.read(place).await? else { return Ok(false) };
            if !meta.is_deleting() || !meta.finalizers.iter().any(|f| f == finalizer) {
                return Ok(true);
            }
            let left: Vec<&str> = meta.finalizers.iter().map(Text::as_str).filter(|f| *f != finalizer).collect();
            let left = if left.is_empty() { Value::Null } else { json!(left) };
            let patch = json!({"metadata": {"resourceVersion": meta.resource_version, "finalizers": left}});
            match self.api.patch(place.target(), Patch::Merge, &patch).await {
                Ok(_) => return Ok(true),
                Err(error) if says_absent(&error) => return Ok(false),
                Err(error @ ApiError::Status(_)) if error.is_conflict() => {}
                Err(error) => return Err(Error::Finalizer(place.name(), error)),
            }
            let clock = self.api.clock();
            clock.sleep(clock.jitter(pause, 0.1)).await;
            pause *= 5;
        }
        Err(Error::Changing(place.name()))
    }
}
