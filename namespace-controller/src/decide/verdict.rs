//! What follows from the findings of a sync: the end of the namespace, a wait, or a failure.

use std::{collections::BTreeMap, time::Duration};

use common::prelude::*;

use super::{
    conditions::describe_stale_groups,
    content::{Content, Failure, KindState, is_pods},
};

/// Estimate in seconds for objects that wait for finalizers. Upstream: `finalizerEstimateSeconds`.
const FINALIZER_ESTIMATE_SECONDS: i64 = 15;
/// Estimate in seconds for a kind whose list is answered with 404.
const UNSERVED_ESTIMATE_SECONDS: i64 = 10;
/// Upper limit of the wait in seconds. Grace periods may be longer than a timer can run.
const MAX_WAIT_SECONDS: i64 = 86_400;

/// Judges what a sync has found in a namespace that has been terminating for so many seconds. Returns how long to wait until the
/// objects are expected to be gone; `None` if nothing remains, so that the namespace is finalized.
///
/// # Errors
/// If a part of the sync has failed, or objects remain without a reason.
pub fn judge(
    namespace: &str,
    content: &Content,
    kinds: &BTreeMap<Resource, KindState>,
    age_seconds: i64,
) -> Result<Option<Duration>, Failure> {
    let mut failures = kind_failures(namespace, kinds, age_seconds);
    if !content.stale_group_versions.is_empty() {
        let text = describe_stale_groups(&content.stale_group_versions);
        failures.insert(0, Failure { text, class: SyncErrorClass::Unserved });
    }
    if let Some(Failure { class, .. }) = failures.first() {
        let texts: Vec<&str> = failures.iter().map(|failure| failure.text.as_str()).collect();
        return Err(Failure { text: texts.join(", "), class: *class });
    }
    let estimates = kinds.iter().map(|(resource, state)| estimate_seconds(resource, state, age_seconds));
    let wait = |estimate: i64| Duration::from_secs((estimate / 2 + 1).clamp(1, MAX_WAIT_SECONDS).unsigned_abs());
    Ok(estimates.max().map(wait))
}

/// Returns the failures of the kinds, sorted by their texts: of requests, and of objects that remain without a reason.
pub fn kind_failures(namespace: &str, kinds: &BTreeMap<Resource, KindState>, age_seconds: i64) -> Vec<Failure> {
    let failure = |(resource, state): (&Resource, &KindState)| {
        let is_unexpected = state.count > 0 && estimate_seconds(resource, state, age_seconds) == 0;
        let gvr = format!("{}/{}, Resource={}", resource.group(), resource.version(), resource.plural());
        let text = format!("unexpected items still remain in namespace: {namespace} for gvr: {gvr}");
        let unexpected = Failure { text, class: SyncErrorClass::Remaining };
        state.failure.clone().or_else(|| is_unexpected.then_some(unexpected))
    };
    let mut failures: Vec<Failure> = kinds.iter().filter_map(failure).collect();
    failures.sort_by(|a, b| a.text.cmp(&b.text));
    failures
}

/// Returns the expected time in seconds until the objects of a kind are gone; 0 if nothing is known.
fn estimate_seconds(resource: &Resource, state: &KindState, age_seconds: i64) -> i64 {
    match (state.unserved_since, is_pods(resource)) {
        (Some(_), _) => UNSERVED_ESTIMATE_SECONDS,
        (None, true) if state.grace_period_seconds > age_seconds => state.grace_period_seconds,
        _ if state.finalizers.is_empty() => 0,
        _ => FINALIZER_ESTIMATE_SECONDS,
    }
}
