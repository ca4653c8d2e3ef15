//! Since when Pods are available, for controllers that wait for `minReadySeconds`.

use std::time::Duration;

use common::clock::Instant;
use serde_json::Value;

use crate::{
    json::{is_deleting, is_ready, number},
    stage::NAMESPACE,
    world::World,
};

const PODS: &str = "pods";
/// How much too early a wait may end that begins with a time in a status: such times are whole seconds, and are taken before
/// they are written.
const GRAIN: Duration = Duration::from_millis(1100);

/// Whether the Pod of that name may have been taken for available at some recent moment, by clocks that differ and events that
/// come late.
///
/// A state from before this controller deleted the Pod itself does not count: it knows what it has done.
pub(super) fn was_available(world: &World, set: &Value, pod: &str) -> bool {
    let earliest = world.now().checked_sub(world.lag()).unwrap_or(world.now());
    let wait = wait(set).saturating_sub(GRAIN + world.skew());
    ready_times(world, pod).any(|(since, until)| {
        let available = since.checked_add(wait).unwrap_or(since);
        until.is_none_or(|until| until >= earliest && until > available) && available <= world.now()
    })
}

/// Whether the Pod of that name is available by every clock, or was so until the write that has just been made, and has been for
/// so long that every cache shows it.
pub(super) fn is_surely_available(world: &World, set: &Value, pod: &str) -> bool {
    let needed = wait(set) + GRAIN + world.skew() + world.lag();
    let mut times = ready_times(world, pod);
    times.any(|(since, until)| until.is_none_or(|until| until >= world.now()) && world.now() - since >= needed)
}

fn wait(set: &Value) -> Duration {
    Duration::from_secs(u64::try_from(number(set, "/spec/minReadySeconds")).unwrap_or(0))
}

/// From when until when a Pod was ready and did not terminate.
fn ready_times(world: &World, pod: &str) -> impl Iterator<Item = (Instant, Option<Instant>)> {
    let mut times: Vec<(Instant, Option<Instant>)> = Vec::new();
    for (when, state) in world.states(PODS, NAMESPACE, pod) {
        let ready = state.as_ref().is_some_and(|pod| is_ready(pod) && !is_deleting(pod));
        match times.last_mut() {
            Some((_, until @ None)) if !ready => *until = Some(*when),
            Some((_, None)) => {}
            _ if ready => times.push((*when, None)),
            _ => {}
        }
    }
    times.into_iter()
}
