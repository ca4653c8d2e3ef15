//! How the scheduler and the kubelets send requests: many at once, and again when one fails for no fault of its own.

use std::{future::Future, time::Duration};

use common::api::{Api, Error};

/// How many requests one task may have on their way at once.
pub(super) const CONCURRENCY: usize = 256;

/// The longest wait between two attempts.
const BACKOFF_MAX: Duration = Duration::from_secs(5);

/// How long to wait after so many failures in a row.
pub(super) fn backoff(failures: u32) -> Duration {
    Duration::from_millis(100).saturating_mul(1 << failures.min(10)).min(BACKOFF_MAX)
}

/// Whether the same request may succeed later.
pub(crate) fn is_transient(error: &Error) -> bool {
    matches!(error.metric_label(), "unsent" | "lost" | "server" | "too_many_requests")
}

/// Sends a request that may be repeated without harm until it is answered.
pub(crate) async fn insist<T, F>(api: &Api, request: impl Fn() -> F) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    let mut failures = 0;
    loop {
        match request().await {
            Err(error) if is_transient(&error) => {
                tracing::debug!(err = %error, failures, "Request failed, trying again");
                api.clock().sleep(backoff(failures)).await;
                failures += 1;
            }
            result => return result,
        }
    }
}
