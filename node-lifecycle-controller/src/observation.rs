//! What one sync has found in the caches.

use jiff::Timestamp;

/// A snapshot, and when it was taken.
pub struct Observation<S> {
    /// The snapshot.
    pub snapshot: S,
    /// The time.
    pub time: Timestamp,
}
