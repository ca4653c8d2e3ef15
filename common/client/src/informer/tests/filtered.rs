//! Tests with objects that lose the label by which the informer selects them.

use serde_json::{Value, json};

use super::*;
use crate::{informer::LabelFilteredInformer, store::CacheEntry};

#[derive(serde::Deserialize)]
struct Item {
    metadata: Meta,
}

impl Object for Item {
    const RESOURCE: Resource = Thing::RESOURCE;
    type Indexes = ();
    fn meta(&self) -> &Meta {
        &self.metadata
    }
    fn is_cached(&self) -> bool {
        self.metadata.labels.get("foreign").is_none()
    }
}

fn item(name: &str, uid: &str, version: u64, labels: Value) -> Value {
    let version = version.to_string();
    json!({"metadata": {"name": name, "namespace": "ns", "uid": uid, "resourceVersion": version, "labels": labels}})
}

fn labelled(name: &str, version: u64) -> Value {
    item(name, name, version, json!({"mine": "yes"}))
}

fn unlabelled(name: &str, version: u64) -> Value {
    item(name, name, version, json!({}))
}

fn deleting(mut object: Value) -> Value {
    object["metadata"]["deletionTimestamp"] = json!("2026-11-21T09:00:00Z");
    object
}

fn read(value: &Value) -> Item {
    serde_json::from_str(&value.to_string()).unwrap()
}

struct Filter {
    script: Script,
    clock: Clock,
    seen: Arc<Mutex<Vec<String>>>,
    informer: LabelFilteredInformer<Item>,
}

impl Filter {
    /// Starts an informer for the label `mine` and fills its cache, at version 10, with the object `a` at version 9.
    async fn new() -> (Self, Feed) {
        let (script, clock) = (Script::default(), Clock::simulated(Timestamp::UNIX_EPOCH, 3));
        let feed = script.stream();
        let (keeper, gate) = closed_write_gate(clock.clone());
        keeper.open_without_deadline();
        let api = Api::new(script.client(), clock.clone(), gate, "test");
        let seen: Arc<Mutex<Vec<String>>> = Arc::default();
        let log = Arc::clone(&seen);
        let handler: CacheEventHandler<Item> = Box::new(move |event, _| {
            let sign = match event {
                CacheEvent::Added(_) => '+',
                CacheEvent::Updated { .. } => '~',
                CacheEvent::Deleted(_) => '-',
                CacheEvent::Unreadable(_) => '?',
            };
            let Meta { name, resource_version, .. } = event.meta();
            log.lock().push(format!("{sign}{name} {resource_version}"));
        });
        let cached = StoreAndHandlers::new(Arc::default(), vec![handler]);
        let informer = LabelFilteredInformer::start_with_label(api, InformerConfig::default(), "mine", cached);
        feed.line("ADDED", &labelled("a", 9));
        feed.initial_end(10);
        informer.wait_until_synced().await;
        seen.lock().clear();
        (Self { script, clock, seen, informer }, feed)
    }

    async fn wait(&self, seconds: u64) {
        self.clock.sleep(Duration::from_secs(seconds)).await;
    }

    /// Returns the version of `a` in the cache.
    fn cached(&self) -> Option<u64> {
        self.informer.store().with_metadata("ns", "a", |meta| meta.resource_version.to_u64())
    }

    /// Scripts the answer to the next read: a list with `items` at `version`.
    fn finds(&self, version: u64, items: &[Value]) {
        let list = json!({"metadata": {"resourceVersion": version.to_string()}, "items": items});
        self.script.then(Answer::Json(200, list));
    }

    fn seen(&self) -> Vec<String> {
        std::mem::take(&mut *self.seen.lock())
    }

    /// Returns the number of requests for single objects so far.
    fn reads(&self) -> usize {
        self.script.requests().iter().filter(|request| request.contains("fieldSelector")).count()
    }
}

/// COMMON-15.
#[tokio::test(start_paused = true)]
async fn only_objects_with_the_label_are_requested() {
    let (filter, _feed) = Filter::new().await;
    assert!(filter.script.requests()[0].contains("labelSelector=mine"), "{:?}", filter.script.requests());
}

#[tokio::test(start_paused = true)]
async fn an_object_that_disappears_with_a_deletion_timestamp_is_gone_and_is_not_read() {
    let (filter, feed) = Filter::new().await;
    feed.line("DELETED", &deleting(labelled("a", 11)));
    filter.wait(1).await;
    assert_eq!((filter.seen(), filter.reads()), (vec!["-a 9".to_owned()], 0));
    // The deletion of an object that is not cached causes no event and no read.
    feed.line("DELETED", &labelled("b", 12));
    filter.wait(1).await;
    assert_eq!((filter.seen(), filter.reads()), (Vec::new(), 0));
}

/// COMMON-15.
#[tokio::test(start_paused = true)]
async fn an_object_that_disappears_stays_in_the_cache_until_it_is_read() {
    let (filter, feed) = Filter::new().await;
    feed.line("DELETED", &labelled("a", 11));
    filter.wait(60).await;
    assert_eq!((filter.cached(), filter.seen(), filter.reads()), (Some(9), Vec::new(), 1), "no answer has come yet");
    let reads = filter.script.requests();
    assert!(reads[1].starts_with("/api/v1/namespaces/ns/things?fieldSelector=metadata.name%3Da"), "{reads:?}");
    assert_eq!(filter.informer.version(), ResourceVersion::parse("11"));
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_not_found_is_gone() {
    for found in [vec![], vec![item("a", "another", 12, json!({}))]] {
        let (filter, feed) = Filter::new().await;
        filter.finds(30, &found);
        feed.line("DELETED", &labelled("a", 11));
        filter.wait(600).await;
        assert_eq!((filter.seen(), filter.reads()), (vec!["-a 9".to_owned()], 1));
        assert_eq!((filter.cached(), filter.informer.version()), (None, ResourceVersion::parse("11")));
    }
}

/// COMMON-15.
#[tokio::test(start_paused = true)]
async fn an_object_that_still_exists_is_cached_and_read_again_at_growing_intervals() {
    let (filter, feed) = Filter::new().await;
    for version in [11, 11, 15, 15, 15, 15, 15, 15, 15] {
        filter.finds(30, &[unlabelled("a", version)]);
    }
    feed.line("DELETED", &labelled("a", 11));
    filter.wait(10).await;
    assert_eq!(filter.seen(), ["~a 11", "~a 15"]);
    assert_eq!(filter.reads(), 4, "after 0, 1, 3 and 7 seconds");
    assert_eq!(filter.informer.version(), ResourceVersion::parse("11"), "the watch has not reached a later version");
    filter.wait(170).await;
    assert_eq!(filter.reads(), 8, "after 15, 31, 63 and 123 seconds");
    // The watch shows the object `a` again.
    feed.line("ADDED", &labelled("a", 40));
    filter.wait(600).await;
    assert_eq!((filter.seen(), filter.reads()), (vec!["~a 40".to_owned()], 8));
}

#[tokio::test(start_paused = true)]
async fn an_object_that_does_not_concern_this_process_any_more_is_removed() {
    let (filter, feed) = Filter::new().await;
    filter.finds(30, &[item("a", "a", 11, json!({"foreign": "yes"}))]);
    feed.line("DELETED", &labelled("a", 11));
    filter.wait(600).await;
    assert_eq!((filter.seen(), filter.reads()), (vec!["-a 9".to_owned()], 1));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_older_than_the_watch_is_ignored() {
    let (filter, feed) = Filter::new().await;
    let slow = filter.script.stream();
    feed.line("DELETED", &labelled("a", 11));
    filter.wait(1).await;
    feed.line("ADDED", &labelled("a", 20));
    filter.wait(1).await;
    slow.raw(&json!({"metadata": {"resourceVersion": "12"}, "items": []}).to_string());
    drop(slow);
    filter.wait(600).await;
    assert_eq!((filter.seen(), filter.cached(), filter.reads()), (vec!["~a 20".to_owned()], Some(20), 1));
}

#[tokio::test(start_paused = true)]
async fn a_read_that_fails_or_is_too_old_is_repeated_at_growing_intervals() {
    let (filter, feed) = Filter::new().await;
    filter.finds(10, &[]);
    for _ in 0..2 {
        filter.script.then(Answer::Json(403, json!({"reason": "Forbidden", "message": "no"})));
    }
    filter.finds(30, &[]);
    feed.line("DELETED", &labelled("a", 11));
    filter.wait(2).await;
    assert_eq!(filter.reads(), 2, "after 0 and 1 seconds");
    filter.wait(4).await;
    assert_eq!((filter.cached(), filter.reads()), (Some(9), 3), "after 3 seconds");
    filter.wait(600).await;
    assert_eq!((filter.seen(), filter.reads()), (vec!["-a 9".to_owned()], 4));
}

#[tokio::test(start_paused = true)]
async fn objects_that_a_full_set_lacks_are_read_unless_they_were_terminating() {
    let (filter, feed) = Filter::new().await;
    feed.line("ADDED", &deleting(labelled("b", 11)));
    feed.line("DELETED", &labelled("c", 12));
    filter.wait(1).await;
    filter.seen();
    let again = filter.script.stream();
    feed.line("ERROR", &json!({"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}));
    filter.script.asked(2).await;
    filter.finds(33, &[unlabelled("a", 20)]);
    again.initial_end(33);
    filter.wait(1).await;
    assert_eq!(filter.seen(), ["-b 11", "~a 20"]);
    assert_eq!((filter.cached(), filter.informer.version()), (Some(20), ResourceVersion::parse("33")));
    // The third list lacks the object `a`, as the second list did.
    filter.finds(34, &[unlabelled("a", 20)]);
    filter.wait(1).await;
    let third = filter.script.stream();
    again.line("ERROR", &json!({"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}));
    filter.script.asked(5).await;
    third.initial_end(40);
    filter.wait(1).await;
    assert_eq!((filter.cached(), filter.informer.version()), (Some(20), ResourceVersion::parse("40")));
    assert_eq!(filter.seen(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_hidden_object_that_is_found_is_cached_until_it_is_gone() {
    let (filter, _feed) = Filter::new().await;
    filter.informer.add_object_hidden_from_watch(read(&unlabelled("b", 50)));
    filter.informer.add_object_hidden_from_watch(read(&labelled("c", 50)));
    filter.informer.add_object_hidden_from_watch(read(&item("d", "d", 50, json!({"foreign": "yes"}))));
    assert_eq!(filter.seen(), ["+b 50"], "only the object that the watch does not show is added");
    filter.finds(60, &[]);
    filter.wait(600).await;
    assert_eq!((filter.seen(), filter.reads()), (vec!["-b 50".to_owned()], 1));
    assert_eq!(filter.informer.version(), ResourceVersion::parse("10"), "the watch has not reached a later version");
}

#[tokio::test(start_paused = true)]
async fn a_hidden_object_is_read_again_at_once_when_it_was_written() {
    let (filter, feed) = Filter::new().await;
    for version in [11, 12] {
        filter.finds(30, &[unlabelled("a", version)]);
    }
    feed.line("DELETED", &labelled("a", 11));
    filter.wait(0).await;
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert_eq!(filter.seen(), ["~a 11"]);
    filter.informer.reread_if_hidden_from_watch(&read(&unlabelled("a", 11)).metadata);
    filter.informer.reread_if_hidden_from_watch(&read(&unlabelled("unknown", 11)).metadata);
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert_eq!((filter.seen(), filter.reads()), (vec!["~a 12".to_owned()], 2));
}

/// COMMON-15.
#[tokio::test(start_paused = true)]
async fn many_hidden_objects_are_read_again_ten_times_a_second_in_total() {
    let (filter, _feed) = Filter::new().await;
    let objects = 500;
    for n in 0..objects {
        filter.informer.add_object_hidden_from_watch(read(&unlabelled(&format!("b{n}"), 5)));
    }
    for _ in 0..1500 {
        filter.script.then(Answer::Json(404, json!({"reason": "NotFound", "message": "no"})));
    }
    filter.wait(2).await;
    assert_eq!(filter.reads(), objects, "each one once");
    filter.wait(100).await;
    assert_eq!(filter.reads(), 3 * objects, "each one twice more in a hundred seconds");
}

#[tokio::test(start_paused = true)]
async fn a_read_does_not_raise_the_version_of_the_cache() {
    let store: Store<Item> = Store::default();
    let mut events = Vec::new();
    store.put_entry(CacheEntry::Decoded(Arc::new(read(&labelled("a", 5)))), &mut events);
    store.put_entry_outside_watch(CacheEntry::Decoded(Arc::new(read(&unlabelled("a", 4)))), &mut events);
    store.put_entry_outside_watch(CacheEntry::Decoded(Arc::new(read(&unlabelled("a", 9)))), &mut events);
    assert_eq!((events.len(), store.version()), (2, ResourceVersion::parse("5")));
    assert_eq!(store.with_metadata("ns", "a", |meta| meta.resource_version), Some(ResourceVersion::parse("9")));
}
