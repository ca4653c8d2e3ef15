use std::time::Duration;

use common::{
    object::MalformedObject,
    pod_creation_pauses::{PauseReason, PodCreationOutcome},
};
use serde_json::{Value, json};

use super::*;
use crate::{
    objects::DAEMON_SETS,
    world::{PodBuilder, decode_trimmed, pod, set_with_pods},
};

/// The handlers, with a cache that has a DaemonSet `agent` with the selector `app=agent`.
fn watch() -> EventHandlers {
    let clock = Clock::simulated(crate::world::now(), 1);
    let sets: Arc<Store<DaemonSet>> = Arc::default();
    sets.replace_objects_for_tests(
        vec![serde_json::from_str(&set_with_pods(0).set.to_string()).unwrap()],
        ResourceVersion::parse("9"),
    );
    EventHandlers {
        daemon_set_queue: Queue::new(clock.clone(), BackoffSettings::default(), None),
        node_update_queue: Queue::new(clock.clone(), BackoffSettings::default(), None),
        daemon_set_store: sets,
        ledger: Ledger::new(clock.clone(), Duration::from_secs(300)),
        pod_creation_pauses: PodCreationPauses::new(clock, Duration::from_secs(300)),
        node_indexes: Arc::default(),
        parsed_templates: Arc::default(),
    }
}

fn cached(pod: PodBuilder, version: u32) -> Arc<CachedPod> {
    let mut pod = pod.build_named("p", "n1");
    pod["metadata"]["resourceVersion"] = json!(version.to_string());
    decode_trimmed(&pod)
}

fn foreign(pod: PodBuilder) -> PodBuilder {
    let mut pod = pod;
    pod.0["metadata"]["ownerReferences"][0]["uid"] = json!("OTHER");
    pod
}

/// Handles one event with `handle`, and returns the number of enqueued DaemonSets.
fn enqueued<K: Object>(
    event: CacheEvent<K>,
    origin: ChangeOrigin,
    handle: fn(&EventHandlers, &CacheEvent<K>, ChangeOrigin),
) -> usize {
    let watch = watch();
    handle(&watch, &event, origin);
    watch.daemon_set_queue.len()
}

/// DAEMONSET-7.
#[tokio::test(start_paused = true)]
async fn events_of_pods_enqueue_their_owner_or_possible_adopters() {
    let updated = |old: PodBuilder, new: PodBuilder| CacheEvent::Updated { old: cached(old, 1), new: cached(new, 2) };
    for (event, count) in [
        (CacheEvent::Added(cached(pod(), 1)), 1),
        (CacheEvent::Added(cached(foreign(pod()), 1)), 0),
        (CacheEvent::Added(cached(pod().orphan(), 1)), 1),
        (CacheEvent::Added(cached(pod().orphan().terminating(), 1)), 0),
        (CacheEvent::Added(cached(pod().orphan().label("app", "other"), 1)), 0),
        (updated(pod(), pod().unready()), 1),
        (updated(pod(), pod().orphan()), 1),
        (updated(foreign(pod()), pod()), 1),
        (updated(pod().orphan(), pod().orphan()), 0),
        (updated(pod().orphan().label("app", "other"), pod().orphan()), 1),
        (CacheEvent::Updated { old: cached(pod(), 1), new: cached(pod(), 1) }, 0),
        (CacheEvent::Deleted(cached(pod(), 1)), 1),
        (CacheEvent::Deleted(cached(pod().orphan(), 1)), 0),
    ] {
        let text = format!("{:?}", event.meta());
        assert_eq!(enqueued(event, ChangeOrigin::Watch, EventHandlers::on_pod), count, "{text}");
    }
    assert_eq!(enqueued(CacheEvent::Added(cached(pod(), 1)), ChangeOrigin::Initial, EventHandlers::on_pod), 0);
}

/// DAEMONSET-8.
#[tokio::test(start_paused = true)]
async fn events_of_revisions_enqueue_their_owner_unless_it_created_them() {
    let revision = |change: &dyn Fn(&mut Value), version: u32| -> Arc<ControllerRevision> {
        let mut revision = set_with_pods(0).revisions[0].clone();
        revision["metadata"]["resourceVersion"] = json!(version.to_string());
        change(&mut revision);
        decode_trimmed(&revision)
    };
    let own = |_: &mut Value| {};
    let orphan = |revision: &mut Value| revision["metadata"]["ownerReferences"] = json!([]);
    let terminating = |revision: &mut Value| revision["metadata"]["deletionTimestamp"] = json!("2026-11-21T09:00:00Z");
    for (event, count) in [
        (CacheEvent::Added(revision(&own, 1)), 0),
        (CacheEvent::Added(revision(&terminating, 1)), 1),
        (CacheEvent::Added(revision(&orphan, 1)), 1),
        (CacheEvent::Updated { old: revision(&own, 1), new: revision(&own, 2) }, 1),
        (CacheEvent::Updated { old: revision(&own, 1), new: revision(&orphan, 2) }, 1),
        (CacheEvent::Updated { old: revision(&orphan, 1), new: revision(&orphan, 2) }, 0),
        (CacheEvent::Deleted(revision(&own, 1)), 1),
        (CacheEvent::Deleted(revision(&orphan, 1)), 0),
    ] {
        let text = format!("{:?}", event.meta());
        assert_eq!(enqueued(event, ChangeOrigin::Watch, EventHandlers::on_revision), count, "{text}");
    }
    let watch = watch();
    watch.ledger.record_write(&Uid::new("SET"), CONTROLLER_REVISIONS, ResourceVersion::parse("1"));
    watch.on_revision(&CacheEvent::Added(revision(&own, 1)), ChangeOrigin::Watch);
    assert_eq!(watch.daemon_set_queue.len(), 1, "the sync of the set waits for the revision");
}

/// DAEMONSET-3, DAEMONSET-9.
#[tokio::test(start_paused = true)]
async fn only_changes_of_labels_and_taints_enqueue_a_node() {
    let node = |labels: Value, taints: Value, seen: &str| -> Arc<Node> {
        decode_trimmed(
            &json!({"metadata": {"name": "n1", "labels": labels, "annotations": {"seen": seen}}, "spec": {"taints": taints}}),
        )
    };
    let plain = || node(json!({}), json!([]), "1");
    let taint = json!([{"key": "k", "effect": "NoSchedule"}]);
    for (event, origin, count) in [
        (CacheEvent::Added(plain()), ChangeOrigin::Initial, 0),
        (CacheEvent::Added(plain()), ChangeOrigin::Watch, 1),
        (CacheEvent::Deleted(plain()), ChangeOrigin::Watch, 1),
        (CacheEvent::Updated { old: plain(), new: node(json!({}), json!([]), "2") }, ChangeOrigin::Watch, 0),
        (CacheEvent::Updated { old: plain(), new: node(json!({"zone": "a"}), json!([]), "1") }, ChangeOrigin::Watch, 1),
        (CacheEvent::Updated { old: plain(), new: node(json!({}), taint, "1") }, ChangeOrigin::Watch, 1),
    ] {
        let watch = watch();
        watch.on_node(&event, origin);
        assert_eq!((watch.node_update_queue.len(), watch.daemon_set_queue.len()), (count, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn entries_of_a_deleted_set_are_removed() {
    let watch = watch();
    let set = watch.daemon_set_store.get_decoded("shop", "agent").unwrap();
    let (key, uid) = (set.metadata.key(), set.metadata.uid.clone());
    watch.node_indexes.with_record(&key, &uid, |record| record.node_index = Some(set_with_pods(2).node_index("a")));
    watch.ledger.record_write(&uid, DAEMON_SETS, ResourceVersion::parse("99"));
    watch.pod_creation_pauses.record(&uid, 1, PodCreationOutcome::Pause(PauseReason::NamespaceTerminating));
    watch.on_set(&CacheEvent::Deleted(Arc::clone(&set)), ChangeOrigin::Watch);
    assert!(!watch.ledger.is_empty(), "the cache still has the set");
    watch.daemon_set_store.replace_objects_for_tests(Vec::new(), ResourceVersion::parse("10"));
    watch.on_set(&CacheEvent::Deleted(set), ChangeOrigin::Watch);
    assert!(watch.ledger.is_empty() && watch.pod_creation_pauses.is_empty());
    assert_eq!((watch.node_indexes.len(), watch.daemon_set_queue.len()), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_pod_enqueues_every_set_whose_node_index_is_dropped() {
    let watch = watch();
    let set = watch.daemon_set_store.get_decoded("shop", "agent").unwrap();
    watch.node_indexes.with_record(&set.metadata.key(), &set.metadata.uid, |record| {
        record.node_index = Some(set_with_pods(2).node_index("a"));
    });
    let unreadable = MalformedObject { meta: cached(foreign(pod()), 1).meta().clone(), error: String::new() };
    watch.on_pod(&CacheEvent::Unreadable(Arc::new(unreadable)), ChangeOrigin::Watch);
    assert_eq!(watch.daemon_set_queue.len(), 1, "the Pod belongs to another set");
}
