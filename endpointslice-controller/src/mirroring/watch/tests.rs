use std::time::Duration;

use common::{
    clock::Clock,
    meta::{Key, Uid, Version},
    metrics::{Metrics, Stability},
    queue::{Backoff, Queue},
};
use jiff::Timestamp;
use serde_json::json;

use super::*;
use crate::objects::{ENDPOINT_SLICES, MIRRORING, SERVICE_NAME};

/// The last sync of some Endpoints may end before the events of their slices arrive.
#[tokio::test(start_paused = true)]
async fn the_last_event_of_a_slice_removes_the_record_of_own_writes() {
    let clock = Clock::simulated(Timestamp::UNIX_EPOCH, 1);
    let queue = Queue::new(clock.clone(), Backoff::default(), None);
    let changes = Metrics::new().counter("changes", Stability::Alpha, "Changes", &["operation"]);
    let slices = SliceWatch::new(&queue, MIRRORING, Duration::ZERO, &changes);
    let cache: Arc<Store<Slice>> = Arc::default();
    cache.fill(Vec::new(), Version::parse("9"));
    let ledger = Ledger::new(clock, Duration::from_secs(300));
    let watch = Watch { ledger, cache, slices };
    let (key, uid) = (Key::new("shop", "web"), Uid::new("SLICE"));
    watch.ledger.created(&record(&key), ENDPOINT_SLICES, &uid, Version::parse("7"));
    watch.ledger.deleted(&record(&key), ENDPOINT_SLICES, "shop", "web-abc", &uid);
    let slice = json!({"addressType": "IPv4", "endpoints": [], "metadata": {"name": "web-abc", "namespace": "shop", "uid": "SLICE",
        "resourceVersion": "9", "labels": {SERVICE_NAME: "web"}}});
    let slice: Slice = serde_json::from_value(slice).unwrap();
    watch.on_slice(&Event::Deleted(Arc::new(slice)), Origin::Watch);
    assert!(watch.ledger.is_empty());
}
