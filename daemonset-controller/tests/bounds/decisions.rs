//! The cost of a sync depends on the nodes and Pods on which it can act, and never on counts or sizes in a spec.
//!
//! These tests run in their own process, because they limit its memory: an allocation beyond the limit aborts the process.

use common::{prelude::*, refs};
use daemonset_controller::{
    DaemonSetController,
    decide::{
        contribution::{RolloutRole, compute_node_contribution},
        revisions,
        rolling::{RollingUpdateLimits as Update, max_deletions_on_ineligible_nodes, pod_criteria},
    },
    objects::{CachedPod, ControllerRevision, DAEMON_SETS, DaemonSet, ParsedPodTemplate},
    plan::{CreationReason, DeletionReason},
    snapshot::{
        DecisionSettings, DeniedChanges, FirstTask, PodsToChange, Snapshot,
        nodes::{
            ActionableNodes, DelayedPodCreations, Eligibility, NodeCounts, NodeList, NodePods, NodeView,
            RefusedNodeCursors, ReplacementOrder,
        },
    },
};
use proptest::prelude::*;
use testkit::bounds::{any_of, any_rollout_limit, in_virtual_time, read};

use crate::{METER, world::*};

/// Greatest memory of one decision and its explanation, in bytes.
const MAX_DECISION_BYTES: usize = 8 << 20;
/// Greatest memory of a sync after one change in a DaemonSet of 503 nodes, in bytes. The work of the sandbox is included.
const MAX_CHANGE_BYTES: usize = 8 << 20;

fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap()
}

/// Returns a Pod of one of two revisions. The bits of `kind` choose the revision, the phase, readiness, binding and deletion.
fn pod(n: usize, kind: u8) -> Arc<CachedPod> {
    let hash = if kind & 1 == 0 { "old" } else { "new" };
    let phase = ["Running", "Failed", "Succeeded", "Pending"][usize::from(kind >> 1 & 3)];
    let ready = if kind & 8 == 0 { "True" } else { "False" };
    let mut pod = json!({"metadata": {"name": format!("p{n}"), "namespace": "shop", "uid": format!("POD-{n}"), "resourceVersion": "1",
            "labels": {"app": "agent", "controller-revision-hash": hash}},
        "spec": {"nodeName": if kind & 16 == 0 { "n" } else { "" }},
        "status": {"phase": phase, "conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": "2026-11-21T09:00:00Z"}]}});
    if kind & 32 != 0 {
        pod["metadata"]["deletionTimestamp"] = json!("2026-11-21T09:00:00Z");
    }
    read(&pod).unwrap()
}

/// A DaemonSet with extreme numbers. The decoder refuses some of them.
fn any_set() -> impl Strategy<Value = Value> {
    let number = || any_of(&[0, 1, 3, i64::from(i32::MAX) - 1, i64::from(i32::MAX), -1, i64::MAX]);
    let kind = any_of(&["RollingUpdate", "OnDelete"]);
    let generation = any_of(&["1", "-9223372036854775808", "many"]);
    (number(), number(), any_rollout_limit(), any_rollout_limit(), kind, generation).prop_map(|(ready, history, unavailable, surge, kind, generation)| {
        json!({
            "metadata": {"name": "agent", "namespace": "shop", "uid": "SET", "generation": i64::MAX,
                "annotations": {"deprecated.daemonset.template.generation": generation}},
            "spec": {"minReadySeconds": ready, "revisionHistoryLimit": history, "selector": {"matchLabels": {"app": "agent"}},
                "template": {"metadata": {"labels": {"app": "agent"}}, "spec": {"containers": []}},
                "updateStrategy": {"type": kind, "rollingUpdate": {"maxUnavailable": unavailable, "maxSurge": surge}}},
            "status": {"observedGeneration": -1, "collisionCount": i32::MAX},
        })
    })
}

/// Returns the nodes of a snapshot: each element of `pods` is a node with its Pods, and the lists contain all nodes.
fn nodes(set: &DaemonSet, pods: &[(Eligibility, Vec<Arc<CachedPod>>)]) -> ActionableNodes {
    let desired = pods.iter().filter(|(eligibility, _)| eligibility.should_run()).count();
    let criteria = pod_criteria(set, "new", &BTreeSet::new(), i32::try_from(desired).unwrap());
    let mut nodes = ActionableNodes {
        node_counts: NodeCounts::default(),
        refused_node_cursors: RefusedNodeCursors::default(),
        nodes_needing_pod: NodeList::default(),
        nodes_with_pods_to_delete: NodeList::default(),
        nodes_with_unavailable_outdated_pod: NodeList::default(),
        nodes_with_unneeded_outdated_pod: NodeList::default(),
        ineligible_nodes_with_available_pod: NodeList::default(),
        nodes_with_available_outdated_pod: NodeList::default(),
        blocking_nodes: NodeList::default(),
        delayed_pod_creations: DelayedPodCreations::default(),
        possible_second_pod_count: 0,
        pods_without_node_count: 0,
        next_change_at: None,
        pod_criteria: criteria,
    };
    for (n, (eligibility, pods)) in pods.iter().enumerate() {
        let view = NodeView { eligibility: *eligibility, pods, failed_pod_deletion_delayed_until: None };
        let standing = compute_node_contribution(&view, &nodes.pod_criteria, now());
        nodes.node_counts.add(&standing.node_counts, 1);
        let node = NodePods {
            name: Text::new(&format!("n{n}")),
            eligibility: *eligibility,
            pods: pods.clone(),
            failed_pod_deletion_delayed_until: None,
            next_failed_pod_delay: Duration::MAX,
        };
        let add = |listed: &mut NodeList| {
            listed.nodes.push(node.clone());
            listed.total_count += 1;
        };
        if standing.needs_pod {
            add(&mut nodes.nodes_needing_pod);
        }
        if standing.has_pods_to_delete {
            add(&mut nodes.nodes_with_pods_to_delete);
        }
        match standing.rollout_role {
            RolloutRole::NoAction => {}
            RolloutRole::BlocksRollout => add(&mut nodes.blocking_nodes),
            RolloutRole::ReplaceUnavailable => add(&mut nodes.nodes_with_unavailable_outdated_pod),
            RolloutRole::ReplaceWithinLimit => add(&mut nodes.nodes_with_available_outdated_pod),
            RolloutRole::DeleteOutdated => add(&mut nodes.nodes_with_unneeded_outdated_pod),
            RolloutRole::DeleteWhenOthersAvailable => add(&mut nodes.ineligible_nodes_with_available_pod),
        }
        nodes.next_change_at = nodes.next_change_at.into_iter().chain(standing.next_change_at).min();
    }
    nodes
}

fn eligibilities() -> impl Strategy<Value = Eligibility> {
    use Eligibility::{KeepsPods, NodeDeleted, RemovesPods, RunsPods};
    any_of(&[RunsPods, RunsPods, RunsPods, KeepsPods, RemovesPods, NodeDeleted])
}

#[test]
fn the_memory_of_a_cached_revision_does_not_depend_on_its_data() {
    METER.check_cached_revisions::<ControllerRevision>();
}

/// DAEMONSET-49.
#[test]
fn no_number_in_a_spec_makes_a_decision_expensive_or_breaks_a_limit() {
    let nodes_with_pods = prop::collection::vec((eligibilities(), prop::collection::vec(0..64u8, 0..4)), 0..12);
    let lost = prop::collection::btree_set(0..12usize, 0..4);
    let values = (any_set(), nodes_with_pods, any_of(&[1usize, 3, usize::MAX]), lost);
    METER.check(&values, |(object, kinds, burst, lost)| {
        let Some(set) = read::<DaemonSet>(&object) else { return Ok(()) };
        let mut count = 0;
        let pods: Vec<_> = kinds
            .into_iter()
            .map(|(eligibility, kinds)| {
                let pods = kinds
                    .into_iter()
                    .map(|kind| {
                        count += 1;
                        pod(count, kind)
                    })
                    .collect();
                (eligibility, pods)
            })
            .collect();
        let lost = lost.into_iter().filter(|node| *node < pods.len());
        let lost_creates: std::collections::BTreeMap<Text, Duration> =
            lost.map(|node| (Text::new(&format!("n{node}")), Duration::from_secs(60))).collect();
        let template = Arc::new(ParsedPodTemplate::new(&set.template).unwrap());
        let owner = Owner::new(DAEMON_SETS, &set.metadata);
        let none = Vec::<Arc<ControllerRevision>>::new();
        let claims = refs::claim_dependents(&owner, &set.selector, none, |_| true).unwrap();
        let mut nodes = nodes(&set, &pods);
        let needs_pod = |name: &&Text| nodes.nodes_needing_pod.nodes.iter().any(|node| node.name == **name);
        nodes.possible_second_pod_count = lost_creates.keys().filter(|name| !needs_pod(name)).count();
        nodes.delayed_pod_creations = DelayedPodCreations::new(lost_creates.clone(), &[]);
        let snapshot = Snapshot {
            revisions: revisions::choose_current_revision(&set, &template, claims),
            actionable_nodes: nodes,
            pods_to_change: PodsToChange::default(),
            first_task: FirstTask::default(),
            denied_revision_changes: DeniedChanges::default(),
            denied_pod_changes: DeniedChanges::default(),
            earlier_revision_hashes_on_pods: BTreeSet::new(),
            pending_writes: None,
            pod_creation_pause: None,
            decision_settings: DecisionSettings { burst_replicas: burst, allows_comparison_operators: true },
            now: now(),
            template,
            owner,
            set: Arc::clone(&set),
        };
        let (plan, explanation) = METER.decide::<DaemonSetController>(MAX_DECISION_BYTES, &snapshot, snapshot.now);
        prop_assert!(plan.pod_creations.len() <= burst && plan.pod_deletions.len() <= burst);
        prop_assert!(explanation.waiting.len() + explanation.actions.len() <= 60, "{explanation:#?}");
        prop_assert!(plan.status.observed_generation == i64::MAX);
        let criteria = &snapshot.actionable_nodes.pod_criteria;
        let node = |name: &Text| -> &(Eligibility, Vec<Arc<CachedPod>>) {
            &pods[name.trim_start_matches('n').parse::<usize>().unwrap()]
        };
        // No Pod is created on an ineligible node, and no node gets two new Pods.
        for (at, creation) in plan.pod_creations.iter().enumerate() {
            prop_assert!(node(&creation.node_name).0.should_run());
            prop_assert!(plan.pod_creations[..at].iter().all(|other| other.node_name != creation.node_name));
            prop_assert!(!lost_creates.contains_key(&creation.node_name));
        }
        // No Pod is deleted twice, and no terminating Pod is deleted.
        for (at, deletion) in plan.pod_deletions.iter().enumerate() {
            prop_assert!(!deletion.pod.meta().is_deleting());
            prop_assert!(plan.pod_deletions[..at].iter().all(|other| other.pod.meta().uid != deletion.pod.meta().uid));
        }
        // The number of desired nodes that lose an available Pod is within the limit of the rolling update.
        if let Ok(limits) = Update::new(&set, snapshot.actionable_nodes.node_counts.desired) {
            let lost = plan.pod_deletions.iter().filter(|deletion| {
                let (eligibility, pods) = node(&deletion.node_name);
                let stays = |pod: &&Arc<CachedPod>| {
                    pod.meta().uid != deletion.pod.meta().uid
                        && !pod.meta().is_deleting()
                        && criteria.is_available(pod, now())
                };
                eligibility.should_run()
                    && !deletion.pod.phase.is_terminal()
                    && criteria.is_available(&deletion.pod, now())
                    && !pods.iter().any(|pod| stays(&pod))
                    && pods.iter().filter(|pod| !pod.is_finished_and_terminating() && !pod.meta().is_deleting()).count()
                        == 1
            });
            // With surge, the new Pod is created first, so no desired node loses an available Pod.
            let room = match criteria.replacement_order {
                ReplacementOrder::DeleteFirst => limits
                    .remaining_replacement_count(&snapshot.actionable_nodes.node_counts, criteria.replacement_order),
                ReplacementOrder::CreateFirst | ReplacementOrder::OnDelete => 0,
            };
            prop_assert!(lost.count() <= room);
            // A creation with a lost answer counts against `maxSurge` if its node has an available Pod.
            let surge = plan
                .pod_creations
                .iter()
                .filter(|creation| creation.creation_reason == CreationReason::Outdated)
                .count();
            let has_available_pod = |name: &&Text| {
                node(name).1.iter().any(|pod| {
                    !pod.phase.is_terminal() && !pod.meta().is_deleting() && criteria.is_available(pod, now())
                })
            };
            let unseen = lost_creates.keys().filter(has_available_pod).count();
            prop_assert!(surge == 0 || surge + unseen <= usize::try_from(limits.max_surge).unwrap_or(0));
            let sunset = plan.pod_deletions.iter().filter(|deletion| {
                deletion.deletion_reason == DeletionReason::NodeNotEligible
                    && node(&deletion.node_name).0 == Eligibility::KeepsPods
            });
            prop_assert!(sunset.count() <= max_deletions_on_ineligible_nodes(&snapshot.actionable_nodes.node_counts));
        }
        Ok(())
    });
}

/// DAEMONSET-63.
#[test]
fn one_change_in_a_set_of_many_nodes_costs_one_node() {
    let _alone = METER.alone();
    in_virtual_time(async {
        let world = cluster().start().await;
        world.add_nodes(500).await;
        world.create(agent()).await;
        world.until(600, async || world.status().await["numberReady"] == 503).await;
        world.settle().await;
        let decided = decided_nodes(&world);
        let pod = pod_name_on(&world, "node-77").await;
        let limit = METER.limit(MAX_CHANGE_BYTES);
        world.patch_pod_status(&pod, ready_condition("False")).await;
        world.wait(5).await;
        drop(limit);
        assert_eq!(world.status().await["numberReady"], 502);
        assert_eq!(decided_nodes(&world) - decided, 1);
    });
}

/// DAEMONSET-64.
#[test]
fn hostile_sets_do_not_delay_other_sets() {
    METER.run_cluster(compare_beside_hostile_sets());
}

/// Asserts that hostile DaemonSets delay the readiness of twenty other DaemonSets by at most one second.
async fn compare_beside_hostile_sets() {
    let named = |name: &str, namespace: &str, spec: Value| renamed(daemon_set(spec), namespace, name);
    let hostile = async |world: &World| {
        let large = named("large", "hostile", json!({"revisionHistoryLimit": i32::MAX}));
        let ballast = json!({"example.com/ballast": "x".repeat(200 << 10)});
        let terms: Vec<Value> = (0..2000)
            .map(|n| json!({"matchExpressions": [{"key": "zone", "operator": "In", "values": [format!("z{n}")]}]}))
            .collect();
        let required = json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}});
        let picky = json!({"template": {"spec": {"affinity": {"nodeAffinity": required}}}});
        let failing = named("failing", "hostile", json!({}));
        for object in [
            annotated(large, ballast),
            named("picky", "hostile", picky),
            named("never", "hostile", json!({"minReadySeconds": i32::MAX})),
            annotated(failing, json!({"sim/fail-reason": "OutOfcpu"})),
        ] {
            world.create(object).await;
        }
    };
    let ordinary: Vec<Value> = (0..20).map(|n| named(&format!("agent-{n}"), NAMESPACE, json!({}))).collect();
    let is_ready = |set: &Value| set["status"]["numberReady"] == 3;
    let world = conformance::hostile_objects_do_not_delay_others(&cluster(), hostile, &ordinary, is_ready).await;
    world.wait(60).await;
    world.clear_log();
    world.wait(100).await;
    let asked = world.count_all();
    assert!(asked < 100, "failed Pods are replaced with growing delays: {asked}");
}
