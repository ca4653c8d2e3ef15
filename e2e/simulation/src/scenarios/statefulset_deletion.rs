//! StatefulSets that are deleted, and what becomes of their claims under the garbage collector.

use std::{sync::Arc, time::Duration};

use common::settings::TunableValue;
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::{
    gc_invariants,
    interferences::delete_pod,
    statefulset::{CLAIMS, STATEFUL_SETS, scale},
    statefulset_invariants::{self, ONE_BY_ONE, claim_names},
};
use crate::{
    json::{at, is_deleting, name, text},
    scenario::{Interference, Promise, Suite},
    world::{Logged, World},
};

/// StatefulSets with the garbage collector. The simulation plays the controller that protects claims.
pub(super) const SUITE: Suite = Suite {
    name: "statefulset-deletion",
    programs: &[&statefulset_controller::DEFINITION, &gc_controller::DEFINITION],
    // No kind comes or goes here, and each look at what kinds there are takes longer than all the rest.
    tunes: &[("gc-discovery-period", TunableValue::Duration(Duration::from_hours(1)))],
    gates: &[],
    text: super::statefulset::SUITE.text,
    invariants: &[statefulset_invariants::INVARIANTS, ONE_BY_ONE, gc_invariants::INVARIANTS],
    promises: &[statefulset_invariants::PROMISES, PROMISES, gc_invariants::PROMISES],
    interferences: &[Interference { name: "scale", act: scale }, Interference { name: "delete-pod", act: delete_pod }],
};

const PROMISES: &[Promise] = &[Promise {
    name: "claims-follow-their-set",
    claims: "STATEFULSET-43, GC-21, GC-55",
    check: claims_follow_their_set,
}];

/// How long before its deletion the policy of a set must have been the same to be asked for: retries are that far apart after a
/// minute of refusals.
const RETRIES: Duration = Duration::from_mins(3);

/// The claims of a set that is gone are gone if its policy said so when it was deleted, and are there otherwise. A policy that
/// the controller had no time to follow is not asked for, nor claims that users delete or that Pods take along.
fn claims_follow_their_set(world: &World) -> Option<String> {
    let log = || world.log().iter();
    for deletion in log().filter(|logged| logged.resource() == STATEFUL_SETS && logged.deletes()) {
        let Some(set) = deletion.before().filter(|set| !is_deleting(set)) else { continue };
        let slack = SignedDuration::try_from(world.lag() + world.skew() + RETRIES).unwrap_or(SignedDuration::MAX);
        let is_recent = |logged: &&Logged| {
            logged.write.at <= deletion.write.at && deletion.write.at.duration_since(logged.write.at) < slack
        };
        let spec = |set: Option<Arc<Value>>| set.map(|set| set["spec"]["persistentVolumeClaimRetentionPolicy"].clone());
        let is_new_policy =
            |logged: &Logged| logged.resource() == STATEFUL_SETS && spec(logged.before()) != spec(logged.after());
        if log().filter(is_recent).any(|logged| !logged.deletes() && is_new_policy(logged)) {
            continue;
        }
        // Dependents that are orphaned lose their owner before it goes.
        let is_orphaned = log().any(|logged| {
            let finalizers = logged.after().and_then(|after| at(&after, "/metadata/finalizers").cloned());
            logged.at >= deletion.at
                && logged.write.name == name(&set)
                && logged.resource() == STATEFUL_SETS
                && finalizers.is_some_and(|all| all.as_array().is_some_and(|all| all.contains(&json!("orphan"))))
        });
        let goes = text(&set, "/spec/persistentVolumeClaimRetentionPolicy/whenDeleted") == "Delete" && !is_orphaned;
        let replicas = at(&set, "/spec/replicas").and_then(Value::as_i64).unwrap_or(0);
        for claim in (0..replicas.min(100)).flat_map(|ordinal| claim_names(&set, ordinal)) {
            let of_claim = || log().filter(|logged| logged.resource() == CLAIMS && logged.write.name == claim);
            let was_there = of_claim().rfind(|logged| logged.at <= deletion.at);
            let was_changed_lately = of_claim().filter(is_recent).any(|logged| logged.creates() || logged.deletes());
            let Some(before) = was_there.and_then(Logged::after).filter(|_| !was_changed_lately) else { continue };
            let now = world.get(CLAIMS, crate::stage::NAMESPACE, &claim);
            let is_there =
                now.is_some_and(|now| crate::json::uid(now) == crate::json::uid(&before) && !is_deleting(now));
            if is_there == goes {
                let verb = if goes { "is left" } else { "is gone" };
                return Some(format!("claim {claim} {verb} after StatefulSet {} was deleted", name(&set)));
            }
        }
    }
    None
}
