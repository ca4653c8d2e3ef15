use common::controller::SyncPlan;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::plan::{PodRepair, PodWork};
use crate::world::{PodBuilder, World, empty_set, pod, sync_time, world};

fn none() -> Vec<String> {
    Vec::new()
}

fn waiting(world: &World) -> String {
    world.plan().pod_plan.waiting_reasons.into_vec().join("; ")
}

/// STATEFULSET-60.
#[test]
fn a_set_at_rest_does_nothing() {
    for world in [world(3), world(3).with_parallel_policy(), world(0), world(2).with_volume_claims("Retain", "Retain")]
    {
        assert_eq!(world.abbreviated_work(), none());
        assert_eq!(world.actions(), none());
    }
}

/// STATEFULSET-20.
#[test]
fn pods_are_created_one_after_the_other() {
    assert_eq!(empty_set(3).revision("a", 1).abbreviated_work(), ["+0"]);
    let two = |pod: PodBuilder| world(3).without_pod(2).pod(pod);
    assert_eq!(two(pod(1)).abbreviated_work(), ["+2"]);
    for (blocking, word) in [
        (pod(1).phase("Pending"), "web-1 is not ready"),
        (pod(1).unready(), "web-1 is not ready"),
        (pod(1).being_deleted(), "web-1 is terminating"),
    ] {
        assert_eq!(two(blocking.clone()).abbreviated_work(), none());
        assert!(waiting(&two(blocking)).contains(word));
    }
    let early = two(pod(1).ready_for(5)).spec("minReadySeconds", json!(10));
    assert_eq!(early.abbreviated_work(), none());
    assert!(waiting(&early).contains("web-1 is not available yet"));
    assert_eq!(early.plan().time_to_next_availability, Some(std::time::Duration::from_secs(5)));
}

/// STATEFULSET-21.
#[test]
fn parallel_pods_are_created_at_the_same_time() {
    assert_eq!(empty_set(3).with_parallel_policy().revision("a", 1).abbreviated_work(), ["+0", "+1", "+2"]);
    assert_eq!(world(3).with_parallel_policy().without_pod(1).pod(pod(0).unready()).abbreviated_work(), ["+1"]);
}

/// STATEFULSET-24.
#[test]
fn ordinals_begin_at_the_start_of_the_range() {
    assert_eq!(
        empty_set(2).with_parallel_policy().revision("a", 1).spec("ordinals", json!({"start": 5})).abbreviated_work(),
        ["+5", "+6"]
    );
    // The range 0, 1, 2 becomes 2, 3, 4. Missing Pods are created first; then the highest Pod out of range is deleted.
    let moved = world(3).spec("ordinals", json!({"start": 2}));
    assert_eq!(moved.abbreviated_work(), ["+3"]);
    assert_eq!(moved.clone().pod(pod(3)).abbreviated_work(), ["+4"]);
    assert_eq!(moved.clone().pod(pod(3)).pod(pod(4)).abbreviated_work(), ["-1"]);
    assert_eq!(moved.pod(pod(3)).pod(pod(4)).without_pod(1).abbreviated_work(), ["-0"]);
}

/// STATEFULSET-17, STATEFULSET-26.
#[test]
fn a_finished_pod_is_deleted() {
    for phase in ["Failed", "Succeeded"] {
        assert_eq!(world(3).pod(pod(1).phase(phase)).abbreviated_work(), ["-1"]);
        assert_eq!(world(3).pod(pod(1).phase(phase).being_deleted()).abbreviated_work(), none());
    }
    // A finished Pod that is also outdated is deleted only once in a sync.
    assert_eq!(world(3).with_parallel_policy().rollout_to("b").pod(pod(2).phase("Failed")).abbreviated_work(), ["-2"]);
}

/// STATEFULSET-22, STATEFULSET-23, STATEFULSET-87.
#[test]
fn surplus_pods_are_deleted_from_the_highest_ordinal() {
    let set = |pods: Vec<PodBuilder>| pods.into_iter().fold(world(6).spec("replicas", json!(3)), World::pod);
    assert_eq!(set(vec![]).abbreviated_work(), ["-5"]);
    assert_eq!(set(vec![pod(5).unready()]).abbreviated_work(), ["-5"], "it blocks all others");
    assert_eq!(set(vec![pod(3).unready()]).abbreviated_work(), ["-5"]);
    assert_eq!(set(vec![pod(5).unready(), pod(3).unready()]).abbreviated_work(), none(), "web-3 blocks web-5");
    assert_eq!(
        set(vec![pod(5).phase("Failed").ready_for(60)]).abbreviated_work(),
        ["-5"],
        "its Ready condition is still true"
    );
    assert_eq!(
        set(vec![pod(5).phase("Failed").ready_for(60), pod(3).phase("Failed").ready_for(60)]).abbreviated_work(),
        none(),
        "web-3 blocks web-5"
    );
    assert_eq!(set(vec![pod(5).being_deleted()]).abbreviated_work(), none());
    assert_eq!(set(vec![pod(0).unready()]).abbreviated_work(), none(), "Pods in range come first");
    assert_eq!(
        set(vec![pod(5).unready(), pod(4).being_deleted()]).with_parallel_policy().abbreviated_work(),
        ["-5", "-3"]
    );
}

/// STATEFULSET-27, STATEFULSET-28.
#[test]
fn a_rolling_update_replaces_one_pod_at_a_time_from_the_highest_ordinal() {
    let rollout = || world(3).rollout_to("b");
    assert_eq!(rollout().abbreviated_work(), ["-2"]);
    assert_eq!(rollout().pod(pod(2).being_deleted()).abbreviated_work(), none());
    assert_eq!(rollout().without_pod(2).abbreviated_work(), ["+2"]);
    assert_eq!(rollout().pod(pod(2).of_revision("b").unready()).abbreviated_work(), none());
    assert_eq!(rollout().pod(pod(2).of_revision("b")).abbreviated_work(), ["-1"]);
    assert_eq!(
        rollout().with_parallel_policy().pod(pod(2).of_revision("b").unready()).abbreviated_work(),
        none(),
        "also with Parallel"
    );
    assert_eq!(
        rollout().with_parallel_policy().pod(pod(2).unready()).abbreviated_work(),
        ["-2"],
        "a broken outdated Pod is replaced"
    );
    assert_eq!(
        rollout().pod(pod(2).unready()).abbreviated_work(),
        none(),
        "but not with OrderedReady, where it blocks the others"
    );
}

/// STATEFULSET-29.
#[test]
fn a_rolling_update_respects_the_partition_and_on_delete() {
    let rollout = |partition| world(3).rollout_to("b").partition(partition);
    assert_eq!(rollout(2).abbreviated_work(), ["-2"]);
    assert_eq!(rollout(2).pod(pod(2).of_revision("b")).abbreviated_work(), none());
    assert_eq!(rollout(3).abbreviated_work(), none());
    assert_eq!(rollout(i32::MAX).abbreviated_work(), none());
    let on_delete = world(3).rollout_to("b").spec("updateStrategy", json!({"type": "OnDelete"}));
    assert_eq!(on_delete.abbreviated_work(), none());
}

/// STATEFULSET-16.
#[test]
fn new_pods_have_the_revision_of_their_ordinal() {
    let from = |strategy: Value, start: i32, current: i32| -> Vec<String> {
        let world = empty_set(4)
            .with_parallel_policy()
            .revision("a", 1)
            .rollout_to("b")
            .spec("ordinals", json!({ "start": start }));
        let world = world
            .spec("updateStrategy", strategy)
            .status(json!({"currentRevision": "web-a", "currentReplicas": current}));
        let plan = world.plan().pod_plan;
        let work = plan.phases.into_iter().flat_map(|phase| phase.work);
        work.filter_map(|work| match work {
            crate::plan::PodWork::Create { revision_role: role, .. } => Some(format!("{role:?}")),
            _ => None,
        })
        .collect()
    };
    let rolling = |partition: i32| json!({"type": "RollingUpdate", "rollingUpdate": {"partition": partition}});
    assert_eq!(from(rolling(0), 0, 2), ["Update"; 4]);
    assert_eq!(from(rolling(3), 0, 0), ["Current", "Current", "Current", "Update"]);
    assert_eq!(from(rolling(3), 10, 0), ["Current", "Current", "Current", "Update"]);
    assert_eq!(from(json!({"type": "RollingUpdate"}), 0, 2), ["Current", "Current", "Update", "Update"]);
    assert_eq!(from(json!({"type": "OnDelete"}), 0, 3), ["Update"; 4]);
}

/// STATEFULSET-30, STATEFULSET-85.
#[test]
fn several_pods_may_be_unavailable_with_the_gate() {
    let deletions = |most: Value, replicas: i32, unavailable: i32| {
        let broken = (0..unavailable).map(|n| pod(n).of_revision("b").unready());
        let world =
            broken.fold(world(replicas).with_parallel_policy().rollout_to("b"), World::pod).max_unavailable(most);
        world.abbreviated_work().len() as i32
    };
    for (most, replicas, unavailable, wanted) in [
        (Value::Null, 5, 0, 1),
        (json!(2), 5, 1, 1),
        (json!("30%"), 10, 0, 3),
        (json!("33%"), 10, 3, 0),
        (json!("10%"), 5, 0, 1),
        (json!("100%"), 7, 2, 5),
        (json!(10), 3, 0, 3),
    ] {
        assert_eq!(
            deletions(most.clone(), replicas, unavailable),
            wanted,
            "{most} of {replicas}, {unavailable} unavailable"
        );
    }
    let broken = world(4)
        .with_parallel_policy()
        .rollout_to("b")
        .max_unavailable(json!(1))
        .pod(pod(3).unready())
        .pod(pod(1).unready());
    assert_eq!(
        broken.abbreviated_work(),
        ["-3"],
        "broken outdated Pods do not hold up the update, and the limit applies to their deletion"
    );
    assert_eq!(broken.clone().pod(pod(3).being_deleted()).abbreviated_work(), none(), "web-3 is being replaced");
    assert_eq!(
        broken.clone().pod(pod(3).of_revision("b").unready()).abbreviated_work(),
        none(),
        "the updated web-3 is not available yet"
    );
    assert_eq!(broken.clone().max_unavailable(json!(3)).abbreviated_work(), ["-3", "-2", "-1"]);
    assert_eq!(
        broken.clone().max_unavailable(json!(2)).abbreviated_work(),
        ["-3", "-1"],
        "a ready Pod would be the third"
    );
    let mut off = broken;
    off.features.is_max_unavailable_enabled = false;
    assert_eq!(off.abbreviated_work(), ["-3"], "the field has no effect without the gate");
}

/// STATEFULSET-30.
#[test]
fn ready_pods_that_are_not_available_yet_are_replaced_within_the_limit() {
    // After a second change of the template, all Pods are ready, outdated, and not available yet.
    let early = (0..5).fold(world(5), |world, n| world.pod(pod(n).of_revision("b").ready_for(20)));
    let early = early.with_parallel_policy().spec("minReadySeconds", json!(300)).rollout_to("b").rollout_to("c");
    for (limit, deleted) in [(1, 0), (4, 0), (5, 0), (6, 1), (8, 3)] {
        assert_eq!(
            early.clone().max_unavailable(json!(limit)).abbreviated_work().len(),
            deleted,
            "maxUnavailable {limit}"
        );
    }
}

/// STATEFULSET-68.
#[test]
fn a_stuck_pod_is_replaced_with_the_tune() {
    let mut stuck = world(3).rollout_to("b").pod(pod(2).of_revision("x").never_ready());
    assert_eq!(stuck.abbreviated_work(), none());
    stuck.features.replaces_stuck_pods = true;
    assert_eq!(stuck.abbreviated_work(), ["-2"]);
    assert_eq!(
        stuck.clone().pod(pod(2).of_revision("b").never_ready()).abbreviated_work(),
        none(),
        "it may still become ready"
    );
    assert_eq!(stuck.clone().pod(pod(2).of_revision("x").never_ready().being_deleted()).abbreviated_work(), none());
    assert_eq!(stuck.partition(3).abbreviated_work(), none(), "its ordinal is below the partition");
}

/// STATEFULSET-68.
#[test]
fn a_pod_that_was_ready_is_not_stuck() {
    let mut rollout = world(3).rollout_to("b").pod(pod(2).of_revision("b").unready());
    rollout.features.replaces_stuck_pods = true;
    // A probe of an outdated Pod fails while the highest Pod is being replaced: a set of three would lose its quorum.
    assert_eq!(rollout.clone().pod(pod(0).unready()).abbreviated_work(), none());
    assert_eq!(
        rollout.clone().pod(pod(2).of_revision("b")).pod(pod(0).unready()).abbreviated_work(),
        none(),
        "also if no other Pod is unavailable"
    );
    for above in [
        pod(2).of_revision("b").never_ready(),
        pod(2).of_revision("b").being_deleted(),
        pod(2).unready(),
        pod(2).being_deleted(),
    ] {
        let both = rollout.clone().pod(pod(1).of_revision("x").never_ready()).pod(above);
        assert_eq!(both.abbreviated_work(), none(), "the replacement of the Pod above it is still in flight");
    }
    assert_eq!(rollout.clone().pod(pod(1).of_revision("x").never_ready()).without_pod(2).abbreviated_work(), none());
    let given_up = rollout.pod(pod(2).of_revision("x").never_ready()).pod(pod(1).of_revision("x").never_ready());
    assert_eq!(given_up.abbreviated_work(), ["-1"], "the Pod above it is stuck as well");
}

/// STATEFULSET-19.
#[test]
fn a_terminating_set_only_gets_a_status() {
    let world = world(3).rollout_to("b").without_pod(1).pod(pod(7)).being_deleted();
    assert_eq!(world.abbreviated_work(), none());
    assert_eq!(world.plan().status.replicas, 3);
}

/// STATEFULSET-6.
#[test]
fn orphans_with_a_pod_name_are_adopted_and_other_names_are_released() {
    let world =
        world(2).without_pod(0).pod(pod(1).orphan()).pod(pod(0).name("other-0")).pod(pod(5).name("web-05").orphan());
    assert_eq!(
        world.actions()[..3],
        [
            "release Pod other-0: the selector no longer matches it",
            "adopt Pod web-1: the selector matches it and it has no controller",
            "adopt Pod web-05: the selector matches it and it has no controller",
        ]
    );
    assert_eq!(world.abbreviated_work(), ["+0"], "Pods out of range wait until all Pods in range exist");
    assert_eq!(world.clone().pod(pod(0)).abbreviated_work(), ["-05"], "its ordinal is 5");
}

/// STATEFULSET-11, STATEFULSET-12, STATEFULSET-76.
#[test]
fn a_pod_whose_ordinal_has_leading_zeros_is_the_pod_of_that_ordinal() {
    let stray = |ordinal: i32, name: &str| pod(ordinal).name(name);
    // Out of range, Pods with leading zeros are condemned, too: by descending ordinal, then by name.
    let condemned = world(2).with_parallel_policy().pod(stray(7, "web-07")).pod(stray(9, "web-009")).pod(pod(7));
    assert_eq!(condemned.abbreviated_work(), ["-009", "-07", "-7"]);
    assert_eq!(condemned.plan().status.replicas, 5);
    // In range, `web-01` occupies ordinal 1, and a Pod cannot be renamed.
    let alone = world(2).without_pod(1).pod(stray(1, "web-01"));
    assert_eq!(alone.abbreviated_work(), ["~01"], "web-1 is not created");
    assert_eq!(alone.plan().status.replicas, 2);
    // Beside `web-1`, `web-01` is ignored, regardless of the order in the cache.
    let before = world(2).without_pod(1).pod(stray(1, "web-01")).pod(stray(1, "web-001")).pod(pod(1));
    for world in [world(2).pod(stray(1, "web-01")), before] {
        assert_eq!(world.abbreviated_work(), none());
        assert_eq!(world.plan().status.replicas, 2);
        assert!(waiting(&world).contains("Pod web-01 is ignored: another Pod has its ordinal"), "{}", waiting(&world));
    }
    // A Pod with an ordinal that exceeds an `i32` is claimed and ignored.
    let without_ordinal = world(2).pod(stray(3, "web-2147483648")).pod(stray(4, "web-02147483648").orphan());
    assert_eq!(without_ordinal.abbreviated_work(), none());
    assert_eq!(
        without_ordinal.actions(),
        ["adopt Pod web-02147483648: the selector matches it and it has no controller"]
    );
}

/// STATEFULSET-12, STATEFULSET-23.
#[test]
fn a_condemned_pod_is_not_confused_with_a_pod_of_the_same_ordinal() {
    let both = world(1).pod(pod(7)).pod(pod(7).name("web-07").unready());
    assert_eq!(both.abbreviated_work(), ["-07"], "the Pod that blocks the other is deleted first");
    let both = world(1).pod(pod(7).unready()).pod(pod(7).name("web-07"));
    assert_eq!(both.abbreviated_work(), ["-07"], "Pods of one ordinal are deleted by name");
    let both = world(1).pod(pod(7)).pod(pod(7).name("web-07").unready()).pod(pod(5).unready());
    assert_eq!(both.abbreviated_work(), none(), "the Pod with the lowest ordinal blocks them");
}

/// STATEFULSET-88.
#[test]
fn claims_that_fall_short_of_their_template_are_reported_once() {
    let template = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}});
    let claim = |size: &str| json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}});
    let of = |sizes: &[&str]| {
        let mut world = world(sizes.len() as i32).with_volume_claims("Retain", "Retain");
        world.set["spec"]["volumeClaimTemplates"][0]["spec"] = template.clone();
        for (known, size) in world.volume_claims.iter_mut().zip(sizes) {
            known["spec"] = claim(size);
        }
        world
    };
    let reports = |world: &World| world.plan().mismatches_to_report.iter().map(ToString::to_string).collect::<Vec<_>>();
    let lines = |world: &World| SyncPlan::wait_reasons(&world.plan()).join("\n");
    assert!(reports(&of(&["2Gi", "2048Mi", "3Gi"])).is_empty(), "an expanded claim satisfies the template");
    let small = of(&["1Gi", "2Gi", "1Gi", "1Gi"]);
    let text = "PersistentVolumeClaim data-web-0 does not match volumeClaimTemplate data and is used as it is: \
                it requests 1Gi of storage, and the template requests 2Gi (2 more claims likewise)";
    assert_eq!(reports(&small), [text]);
    assert!(lines(&small).contains(text), "{}", lines(&small));
    assert_eq!(small.abbreviated_work(), none(), "a report is all that happens");
    let condemned = small.clone().spec("replicas", json!(1));
    assert!(reports(&condemned)[0].ends_with("the template requests 2Gi"), "claims out of range do not count");
    assert!(reports(&small.being_deleted()).is_empty());
    let sizes: Vec<String> = (1..=15).map(|n| format!("{n}Mi")).collect();
    let many = of(&sizes.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!((reports(&many).len(), many.plan().volume_claim_mismatches.unlisted_volume_claim_count), (10, 5));
    assert!(lines(&many).contains("5 more claims do not match their volumeClaimTemplates"), "{}", lines(&many));
}

/// STATEFULSET-78.
#[test]
fn a_pod_that_has_lost_its_name_label_gets_it_back() {
    assert_eq!(world(2).pod(pod(1).without_name_label()).abbreviated_work(), ["~1"]);
    assert_eq!(
        world(2).pod(pod(1).without_name_label().unready()).abbreviated_work(),
        ["~1"],
        "although it is not ready"
    );
    let first = world(3).pod(pod(0).unready()).pod(pod(1).without_name_label()).pod(pod(2).without_name_label());
    assert_eq!(first.abbreviated_work(), ["~1", "~2"], "before its turn");
    assert_eq!(
        world(2).spec("replicas", json!(1)).pod(pod(1).without_name_label()).abbreviated_work(),
        ["~1", "-1"],
        "before it is deleted"
    );
    assert_eq!(world(2).pod(pod(1).without_name_label()).being_deleted().abbreviated_work(), none());
    assert_eq!(
        world(2).with_parallel_policy().pod(pod(1).without_name_label().phase("Pending")).abbreviated_work(),
        ["~1"]
    );
    // Volumes are not restored: the server refuses the change, and an Event reports the refusal.
    assert_eq!(world(2).with_volume_claims("Retain", "Retain").pod(pod(1)).abbreviated_work(), ["~1"]);
}

/// STATEFULSET-41.
#[test]
fn claims_are_created_before_their_pod_and_again_while_it_is_pending() {
    let set = || world(2).with_volume_claims("Retain", "Retain");
    assert_eq!(set().without_pod(1).without_volume_claim(1).abbreviated_work(), ["pvc 1", "+1"]);
    assert_eq!(set().without_pod(1).abbreviated_work(), ["+1"]);
    assert_eq!(
        set().pod(pod(1).with_volume_claim(1).phase("Pending")).without_volume_claim(1).abbreviated_work(),
        ["pvc 1"]
    );
    assert_eq!(set().without_volume_claim(1).abbreviated_work(), none(), "a running Pod needs no new claim");
}

/// STATEFULSET-43, STATEFULSET-44, STATEFULSET-82.
#[test]
fn claims_get_the_owners_of_the_retention_policy() {
    let owner = |kind: &str, api: &str, name: &str, uid: &str| json!([{"apiVersion": api, "kind": kind, "name": name, "uid": uid, "controller": true, "blockOwnerDeletion": true}]);
    let set_ref = || owner("StatefulSet", "apps/v1", "web", "SET");
    let scaled = |claims: World| claims.spec("replicas", json!(1));
    assert_eq!(world(1).with_volume_claims("Delete", "Retain").abbreviated_work(), ["own 0"]);
    assert_eq!(world(1).with_volume_claims("Delete", "Retain").volume_claim(0, set_ref()).abbreviated_work(), none());
    assert_eq!(
        world(1).with_volume_claims("Retain", "Retain").volume_claim(0, set_ref()).abbreviated_work(),
        ["own 0"],
        "the policy has changed"
    );
    assert_eq!(
        world(2).pod(pod(0).unready()).with_volume_claims("Delete", "Retain").abbreviated_work(),
        ["own 0"],
        "a Pod that may never become ready must not leave a claim behind"
    );
    // The owner references of the claims of all condemned Pods are written first. Then one Pod is deleted.
    assert_eq!(scaled(world(3).with_volume_claims("Retain", "Delete")).abbreviated_work(), ["own 2", "own 1", "-2"]);
    let pods = scaled(world(3).with_volume_claims("Retain", "Delete"))
        .volume_claim(1, owner("Pod", "v1", "web-1", "POD-1"))
        .volume_claim(2, owner("Pod", "v1", "web-2", "POD-2"));
    assert_eq!(pods.abbreviated_work(), ["-2"]);
    // A claim of the previous Pod must be deleted before the Pod is created again.
    let again = pods.spec("replicas", json!(3)).without_pod(2);
    assert_eq!(again.clone().volume_claim(1, json!([])).abbreviated_work(), none());
    assert_eq!(again.plan().pod_plan.volume_claims_to_await, ["data-web-2"]);
    assert!(waiting(&again).contains("claim data-web-2 of the previous Pod is still to be deleted"));
}

/// STATEFULSET-50, STATEFULSET-51, STATEFULSET-75.
#[test]
fn the_status_counts_the_existing_pods() {
    let status = |world: &World| world.plan().status;
    let mixed = world(4)
        .rollout_to("b")
        .pod(pod(3).of_revision("b"))
        .pod(pod(2).being_deleted())
        .pod(pod(1).unready())
        .without_pod(0);
    let counted = status(&mixed);
    assert_eq!(
        (
            counted.replicas,
            counted.ready_replicas,
            counted.available_replicas,
            counted.current_replicas,
            counted.updated_replicas
        ),
        (3, 2, 2, 1, 1)
    );
    assert_eq!((&*counted.current_revision, &*counted.update_revision), ("web-a", "web-b"));
    assert_eq!((counted.observed_generation, counted.collision_count), (1, Some(0)));
    // A Pod that is deleted for an update is no longer counted as current. A Pod of another revision was not counted before.
    assert_eq!(status(&world(3).rollout_to("b")).current_replicas, 2);
    assert_eq!(status(&world(3).rollout_to("b").pod(pod(2).of_revision("x"))).current_replicas, 2);
}

/// STATEFULSET-31.
#[test]
fn a_rollout_is_complete_when_all_pods_are_updated_and_ready() {
    let updated = || (0..3).fold(world(3).rollout_to("b"), |world, n| world.pod(pod(n).of_revision("b")));
    let current =
        |world: World| (world.plan().status.current_revision.to_string(), world.plan().status.current_replicas);
    assert_eq!(current(updated()), ("web-b".to_owned(), 3));
    assert_eq!(current(updated().pod(pod(1).of_revision("b").unready())), ("web-a".to_owned(), 0));
    assert_eq!(current(updated().spec("updateStrategy", json!({"type": "OnDelete"}))), ("web-b".to_owned(), 3));
    assert_eq!(current(world(0).rollout_to("b")), ("web-b".to_owned(), 0));
}

/// STATEFULSET-54.
#[test]
fn the_next_check_is_when_a_pod_becomes_available() {
    let set = world(2).spec("minReadySeconds", json!(10)).pod(pod(1).ready_for(4));
    let snapshot = set.snapshot();
    let status = set.plan().status;
    let later = sync_time() + jiff::SignedDuration::from_secs(2);
    let check = |at, now| status::time_to_next_availability(&snapshot.set, &snapshot.pods.to_keep, &status, at, now);
    assert_eq!(check(sync_time(), sync_time()), Some(std::time::Duration::from_secs(6)));
    assert_eq!(check(sync_time(), later), Some(std::time::Duration::from_secs(4)));
}

/// Gives the set so many templates of claims.
fn with_claim_templates(world: World, count: usize) -> World {
    let templates: Vec<Value> = (0..count).map(|n| json!({"metadata": {"name": format!("c{n}")}})).collect();
    world.spec("volumeClaimTemplates", json!(templates))
}

/// STATEFULSET-63.
#[test]
fn a_sync_creates_a_limited_number_of_claims_and_the_pod_after_the_last_claim() {
    let most = scaling::MAX_VOLUME_CLAIM_WRITES_PER_POD;
    for set in [empty_set(1), empty_set(1).with_parallel_policy()] {
        for (templates, left) in [(most, 0), (most + 1, 1), (3000, 3000 - most)] {
            let plan = with_claim_templates(set.clone(), templates).plan();
            let work: Vec<&PodWork> = plan.pod_plan.phases.iter().flat_map(|phase| &phase.work).collect();
            let (claims, creates) = match work[..] {
                [PodWork::Create { claims, .. }] => (claims, true),
                [PodWork::CreateClaims { claims, .. }] => (claims, false),
                _ => panic!("{work:?}"),
            };
            assert_eq!((claims.missing_claims.len(), claims.deferred_claim_count, creates), (most, left, left == 0));
            assert_eq!(plan.pod_plan.deferred_pod_count, i64::from(left > 0), "the set is synced again immediately");
        }
    }
}

/// STATEFULSET-64.
#[test]
fn a_set_with_more_claims_than_a_cluster_has_pods_is_refused() {
    for set in [world(1000), world(1000).with_parallel_policy()] {
        let refused = with_claim_templates(set.clone(), 3000);
        let problem = "1000 Pods with 3000 claims each are more than the 200000 claims that a StatefulSet may have";
        assert_eq!(SyncPlan::wait_reasons(&refused.plan()), [problem]);
        assert!(refused.actions().is_empty() && refused.plan().unmanaged_reason.is_some());
        assert!(with_claim_templates(set, 200).plan().unmanaged_reason.is_none());
    }
}

/// STATEFULSET-65, STATEFULSET-86.
#[test]
fn the_number_of_visited_ordinals_depends_on_existing_and_new_pods() {
    let created = ordinals::MAX_POD_CREATIONS_PER_SYNC;
    let ordered = with_claim_templates(empty_set(i32::MAX), 1);
    let parallel = ordered.clone().with_parallel_policy();
    for (set, stale, visited, missing) in [
        (&ordered, 0, 6, 1),
        (&ordered, 3, 6, 1),
        (&parallel, 0, 5 + created, created),
        // Ordinals that wait for a claim do not prevent the creation of Pods for later ordinals.
        (&parallel, 3, 5 + 3 + created, 3 + created),
    ] {
        let visits = std::cell::Cell::new(0);
        let has_pod = |ordinal: i32| {
            visits.set(visits.get() + 1);
            ordinal < 5
        };
        let found = ordinals::missing_ordinals(&set.snapshot().set, has_pod, |ordinal| ordinal < 5 + stale);
        assert_eq!((visits.get(), found.len()), (visited, missing), "{stale} stale");
    }
}

prop_compose! {
    fn any_pod()(ordinal in 0..7i32, of in prop::sample::select(vec!["a", "b", "x"]), terminating in any::<bool>(),
        phase in prop::sample::select(vec!["Pending", "Running", "Running", "Running", "Failed"]),
        ready in prop::sample::select(vec!["no", "never", "for long", "for long", "lately"])) -> PodBuilder {
        let mut pod = pod(ordinal).of_revision(of).phase(phase);
        if phase == "Running" {
            pod = match ready {
                "no" => pod.unready(),
                "never" => pod.never_ready(),
                "lately" => pod.ready_for(5),
                _ => pod,
            };
        }
        if terminating { pod.being_deleted() } else { pod }
    }
}

/// Returns an owner reference to the set, the Pod, an earlier object of the same name, or an object of another kind.
fn reference(kind: &str, ordinal: i32) -> Value {
    let (api, kind, name, uid) = match kind {
        "set" => ("apps/v1", "StatefulSet", "web".to_owned(), "SET".to_owned()),
        "earlier set" => ("apps/v1", "StatefulSet", "web".to_owned(), "SET-OLD".to_owned()),
        "pod" => ("v1", "Pod", format!("web-{ordinal}"), format!("POD-{ordinal}")),
        "earlier pod" => ("v1", "Pod", format!("web-{ordinal}"), "POD-OLD".to_owned()),
        _ => ("example.com/v1", "Backup", "b".to_owned(), "B".to_owned()),
    };
    json!({"apiVersion": api, "kind": kind, "name": name, "uid": uid, "controller": true, "blockOwnerDeletion": true})
}

prop_compose! {
    fn any_claim()(ordinal in 0..7i32, kinds in prop::collection::btree_set(
        prop::sample::select(vec!["set", "earlier set", "pod", "earlier pod", "other"]), 0..3)) -> (i32, Value) {
        (ordinal, kinds.into_iter().map(|kind| reference(kind, ordinal)).collect())
    }
}

prop_compose! {
    fn any_world()(pods in prop::collection::vec(any_pod(), 0..7), replicas in 0..6i32, start in 0..3i32, burst in any::<bool>(),
        partition in 0..4i32, several in prop::option::of(1..4i32), stuck in any::<bool>(), min_ready in prop::sample::select(vec![0, 30]),
        policy in prop::option::of((prop::sample::select(vec!["Retain", "Delete"]), prop::sample::select(vec!["Retain", "Delete"]))),
        claims in prop::collection::vec(any_claim(), 0..7)) -> World {
        let mut world = empty_set(replicas).revision("a", 1).rollout_to("b").partition(partition)
            .spec("ordinals", json!({"start": start})).spec("minReadySeconds", json!(min_ready))
            .status(json!({"currentRevision": "web-a"}));
        world.features.replaces_stuck_pods = stuck;
        if let Some(limit) = several { world = world.max_unavailable(json!(limit)) }
        if burst { world = world.with_parallel_policy() }
        let world = pods.into_iter().fold(world, World::pod);
        match policy {
            None => world,
            Some((when_deleted, when_scaled)) => {
                let mut world = world.with_volume_claims(when_deleted, when_scaled);
                world.volume_claims.clear();
                claims.into_iter().fold(world, |world, (ordinal, owners)| world.volume_claim(ordinal, owners))
            }
        }
    }
}

proptest! {
    /// STATEFULSET-20, STATEFULSET-22, STATEFULSET-26, STATEFULSET-27, STATEFULSET-28, STATEFULSET-29, STATEFULSET-30,
    /// STATEFULSET-50, STATEFULSET-75.
    #[test]
    fn invariants_of_the_specification(world in any_world()) {
        let snapshot = world.snapshot();
        let set = &snapshot.set;
        let plan = world.plan();
        let work = world.abbreviated_work();
        let listed = |sign: char| -> Vec<i32> {
            work.iter().filter(|w| w.starts_with(sign)).map(|w| w[1..].parse().unwrap()).collect()
        };
        let (created, deleted) = (listed('+'), listed('-'));
        let there = |n: i32| snapshot.pods.to_keep.iter().find(|p| *p.meta().name == *set.pod_name(n));
        let unavailable = |p: &SharedPod| p.is_unavailable(set.min_ready_seconds, snapshot.now);
        let fit = |n: i32| there(n).is_some_and(|p| p.is_running_and_ready() && !unavailable(p));
        for n in &created {
            prop_assert!(set.contains_ordinal(*n) && there(*n).is_none() && !deleted.contains(n));
        }
        let mut once = deleted.clone();
        once.sort_unstable();
        once.dedup();
        prop_assert_eq!(once.len(), deleted.len(), "no Pod is deleted twice");
        let is_stuck = |n: i32| snapshot.features.replaces_stuck_pods && there(n).is_some_and(|p| p.was_never_ready());
        let updates: Vec<i32> = deleted.iter().copied().filter(|n| set.contains_ordinal(*n) && !there(*n).unwrap().phase.is_terminal()).collect();
        for n in &updates {
            prop_assert!(*n >= set.first_ordinal + set.partition() && there(*n).unwrap().revision_name() != "web-b");
        }
        if set.is_ordered_ready() {
            prop_assert!(created.len() + deleted.len() - updates.len() <= 1);
            for n in &created {
                prop_assert!((set.first_ordinal..*n).all(fit));
            }
            for n in deleted.iter().filter(|n| !set.contains_ordinal(**n)) {
                prop_assert!(set.ordinals().all(fit) && (*n + 1..8).all(|higher| set.contains_ordinal(higher) || there(higher).is_none()));
            }
            prop_assert!(updates.is_empty() || set.ordinals().all(fit) || is_stuck(updates[0]));
        }
        let missing_or_unavailable = set.ordinals().filter(|n| there(*n).is_none_or(unavailable)).count();
        if snapshot.features.is_max_unavailable_enabled {
            let limit = rolling::max_unavailable(set) as usize;
            let ready = updates.iter().filter(|n| there(**n).unwrap().is_ready()).count();
            prop_assert!(updates.len() <= limit.max(1));
            prop_assert!(ready == 0 || missing_or_unavailable + ready <= limit, "{ready} ready Pods, {missing_or_unavailable} unavailable");
            let in_flight = |n: &i32| there(*n).is_none_or(|p| unavailable(p) && (p.revision_name() == "web-b" || p.meta().is_deleting()));
            let in_flight = set.ordinals().filter(in_flight).count();
            prop_assert!(updates.iter().all(|n| is_stuck(*n)) || in_flight + updates.len() <= limit, "{in_flight} in flight");
        } else {
            prop_assert!(updates.len() <= 1);
            for n in updates.iter().filter(|n| !is_stuck(**n)) {
                prop_assert!(((n + 1)..=*set.ordinals().end()).all(|higher| there(higher).is_some_and(|p| !unavailable(p))));
            }
        }
        let status = &plan.status;
        prop_assert!(status.available_replicas <= status.ready_replicas && status.ready_replicas <= status.replicas);
        prop_assert!(status.current_replicas >= 0 && status.current_replicas <= status.replicas);
        prop_assert!(status.updated_replicas <= status.replicas);
    }

    /// STATEFULSET-19, STATEFULSET-41, STATEFULSET-44.
    #[test]
    fn claims_are_written_before_their_pods_are_created_or_deleted(world in any_world()) {
        let (snapshot, plan) = (world.snapshot(), world.plan());
        let set = &snapshot.set;
        let Some(template) = set.volume_claim_templates.first() else { return Ok(()) };
        let foreign = |owners: &[common::meta::OwnerRef]| owners.iter().filter(|o| o.kind == "Backup").count();
        let mut written = std::collections::BTreeMap::new();
        for phase in &plan.pod_plan.phases {
            for work in &phase.work {
                match work {
                    PodWork::Create { ordinal, claims, .. } => {
                        let name = set.volume_claim_name(template, *ordinal);
                        let claim = snapshot.volume_claims.get(&name);
                        prop_assert_eq!(claim.is_none(), claims.missing_claims == [(0, name)]);
                        let stale = claim.is_some_and(|claim| retention::is_volume_claim_stale(set.volume_claim_retention_policy, &claim.metadata.owners, &set.pod_name(*ordinal)));
                        prop_assert!(!stale, "the claim is about to be deleted with the previous Pod");
                    }
                    PodWork::Repair(PodRepair { ownership_changes, .. }) => {
                        for (claim, owners) in &ownership_changes.new_owners_by_volume_claim {
                            prop_assert_eq!(foreign(owners), foreign(&claim.metadata.owners), "other owner references stay");
                            written.insert(claim.metadata.name.to_string(), owners.clone());
                        }
                    }
                    PodWork::Delete { pod, why: crate::plan::DeletionReason::Condemned } => {
                        let ordinal = crate::objects::parse_ordinal("web", &pod.meta().name).flatten().unwrap();
                        let name = set.volume_claim_name(template, ordinal);
                        let Some(claim) = snapshot.volume_claims.get(&name) else { continue };
                        let owners = written.get(&name).map_or(&*claim.metadata.owners, |owners| &**owners);
                        let judged = retention::VolumeClaimOwners::new(set, &pod.meta().name, &pod.meta().uid, true).check_owner_references(owners);
                        prop_assert_eq!(judged.new_owners, None, "the Pod is deleted before its claim has the owner reference");
                    }
                    PodWork::Delete { .. } | PodWork::CreateClaims { .. } => {}
                }
            }
        }
        let mut deleting = world;
        deleting = deleting.being_deleted();
        prop_assert!(deleting.abbreviated_work().is_empty(), "a terminating set writes no Pods and no claims");
    }
}
