//! StatefulSets that are deleted, and what becomes of their claims under the garbage collector.

use std::{sync::Arc, time::Duration};

use common::settings::TunableValue;
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::{
    gc_invariants,
    replicaset::pod_interferences,
    statefulset::{CLAIMS, STATEFUL_SETS, WEB, changed, create, parallel, scale, scaled, set, with_claims},
    statefulset_invariants::{self, ONE_BY_ONE, claim_names},
};
use crate::{
    json::{at, is_deleting, name, text},
    scenario::{Interference, Promise, Scenario, Step, Suite, What, after, settled},
    world::{Logged, World},
};

/// StatefulSets with the garbage collector. The simulation plays the controller that protects claims.
pub(super) const SUITE: Suite = Suite {
    name: "statefulset-deletion",
    programs: &[&statefulset_controller::DEFINITION, &gc_controller::DEFINITION],
    // No kind comes or goes here, and each look at what kinds there are takes longer than all the rest.
    tunes: &[("gc-discovery-period", TunableValue::Duration(Duration::from_hours(1)))],
    gates: &[],
    scenarios,
    invariants: &[statefulset_invariants::INVARIANTS, ONE_BY_ONE, gc_invariants::INVARIANTS],
    promises: &[statefulset_invariants::PROMISES, PROMISES, gc_invariants::PROMISES],
    interferences: &[
        Interference { name: "scale", act: scale },
        Interference { name: "delete-pod", act: pod_interferences::delete },
    ],
};

const PROMISES: &[Promise] = &[Promise {
    name: "claims-follow-their-set",
    claims: "STATEFULSET-43, GC-21, GC-55",
    check: claims_follow_their_set,
}];

/// How long before its deletion the policy of a set must have been the same to be asked for: retries are that far apart after a
/// minute of refusals.
const RETRIES: Duration = Duration::from_mins(3);

fn policy(when_deleted: &str, when_scaled: &str) -> What {
    let policy = json!({"whenDeleted": when_deleted, "whenScaled": when_scaled});
    changed(json!({ "persistentVolumeClaimRetentionPolicy": policy }))
}

fn deleted(propagation: &str) -> Step {
    let options = json!({ "propagationPolicy": propagation });
    settled(What::Delete(STATEFUL_SETS.to_owned(), WEB.to_owned(), options))
}

/// Every claim loses the finalizer that protects it once no Pod uses it.
fn unprotected() -> Step {
    let bare = json!({"metadata": {"finalizers": null}});
    settled(What::MergeAll(CLAIMS.to_owned(), "app".to_owned(), WEB.to_owned(), bare))
}

fn scenarios() -> Vec<Scenario> {
    let two = |when_deleted: &str, when_scaled: &str| {
        let mut set = set(WEB, 2, with_claims(when_deleted, when_scaled));
        set["spec"]["podManagementPolicy"] = parallel()["podManagementPolicy"].clone();
        create(set)
    };
    vec![
        Scenario {
            name: "claims-go",
            about: "whenDeleted Delete: the claims go with the set",
            steps: vec![two("Delete", "Retain"), deleted("Background"), unprotected()],
        },
        Scenario {
            name: "claims-stay",
            about: "whenDeleted Retain: the claims outlive the set, also if they go with Pods that are scaled away",
            steps: vec![two("Retain", "Delete"), deleted("Background"), unprotected()],
        },
        Scenario {
            name: "claims-stay-orphaned",
            about: "whenDeleted Delete: the claims stay if the dependents of the set are orphaned",
            steps: vec![two("Delete", "Delete"), deleted("Orphan"), unprotected()],
        },
        Scenario {
            name: "retained-in-time",
            about: "whenDeleted becomes Retain while the set grows, and the claims outlive it",
            steps: vec![
                two("Delete", "Retain"),
                // The claims of Pods that are gone keep their references, as upstream: only those of Pods follow the policy.
                settled(scaled(3)),
                after(0.5, policy("Retain", "Retain")),
                deleted("Background"),
                unprotected(),
            ],
        },
        Scenario {
            name: "retained-too-late",
            about: "whenDeleted becomes Retain while the set is being deleted, and the claims go with it",
            steps: vec![
                two("Delete", "Retain"),
                deleted("Foreground"),
                after(0.5, policy("Retain", "Retain")),
                unprotected(),
            ],
        },
    ]
}

/// The claims of a set that is gone are gone if its policy said so when it was deleted, and are there otherwise. A policy that
/// the controller had no time to follow is not asked for, nor claims that users delete or that Pods take along.
fn claims_follow_their_set(world: &World) -> Result<(), String> {
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
                return Err(format!("claim {claim} {verb} after StatefulSet {} was deleted", name(&set)));
            }
        }
    }
    Ok(())
}
