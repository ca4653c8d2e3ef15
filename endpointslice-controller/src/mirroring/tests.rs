use common::metrics::{Metrics, Stability};
use serde_json::json;

use super::*;
use crate::objects::{ENDPOINT_SLICES, SERVICE_NAME_LABEL};

/// The last sync of deleted Endpoints may end before the watch events of their slices arrive.
#[tokio::test(start_paused = true)]
async fn the_last_event_of_a_slice_removes_the_record_of_own_writes() {
    let clock = Clock::simulated(Timestamp::UNIX_EPOCH, 1);
    let queue = Queue::new(clock.clone(), BackoffSettings::default(), None);
    let changes = Metrics::new().counter("changes", Stability::Alpha, "Changes", &["operation"]);
    let slices = SliceEventHandlers::new(&queue, MANAGED_BY_MIRRORING, Duration::ZERO, &changes);
    let cache: Arc<Store<Slice>> = Arc::default();
    cache.replace_objects_for_tests(Vec::new(), ResourceVersion::parse("9"));
    let ledger = Ledger::new(clock, Duration::from_secs(300));
    ledger.add_cache(cache);
    let watch = EventHandlers { ledger, slice_handlers: slices };
    let (key, uid) = (NamespacedName::new("shop", "web"), Uid::new("SLICE"));
    watch.ledger.record_creation(&key, ENDPOINT_SLICES, &uid, ResourceVersion::parse("7"));
    watch.ledger.record_deletion(&key, ENDPOINT_SLICES, "shop", "web-abc", &uid);
    let slice = json!({"addressType": "IPv4", "endpoints": [], "metadata": {"name": "web-abc", "namespace": "shop", "uid": "SLICE",
        "resourceVersion": "9", "labels": {SERVICE_NAME_LABEL: "web"}}});
    let slice: Slice = serde_json::from_value(slice).unwrap();
    watch.on_slice(&CacheEvent::Deleted(Arc::new(slice)), ChangeOrigin::Watch);
    assert!(watch.ledger.is_empty());
}
