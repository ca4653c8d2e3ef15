//! Bytes that stay allocated for one cached object.

use std::fmt::Debug;

use common::{api::WireFormat, informer::Sink, object::Object};
use sandbox::{
    guards::{Guards, Unmeasured},
    recorded::frame,
};
use serde_json::Value;

use crate::projections::table::{self, Row, Visitor};

use super::{
    caches::{cached, cost, filtered, numbered, recorded_object},
    hold,
};

/// Objects before those that count: what all of them share is there by then.
const WARM_UP: usize = 16;
/// Objects that count.
const OBJECTS: usize = 512;

/// Fills a cache. The bytes of an object are those of its own texts, its place in the cache and its places in the indexes.
fn object<S: Sink>(guards: &mut Guards, path: &str, sink: S, object: &Value) {
    let kept = (0..WARM_UP + OBJECTS).map(|number| {
        let frame = frame(WireFormat::Protobuf, "ADDED", &numbered(object.clone(), number)).unwrap();
        cost(&sink, WireFormat::Protobuf, &frame).bytes_current
    });
    let bytes: i64 = kept.skip(WARM_UP).sum();
    assert_eq!(sink.len(), WARM_UP + OBJECTS, "{path} is not cached");
    let bytes = u64::try_from(bytes).unwrap();
    assert!(bytes > 0);
    guards.add(path, "bytes", bytes.div_ceil(OBJECTS as u64));
}

impl Visitor for Guards {
    fn visit<P: Object + Debug>(&mut self, row: Row) {
        let Some(guarded) = row.guards else { return };
        let (kind, own) = recorded_object(P::RESOURCE.plural(), guarded.owner);
        let path = format!("{kind}/{}", guarded.controller);
        match guarded.label {
            Some(label) => object(self, &path, filtered::<P>(label), &own),
            None => object(self, &path, cached::<P>(), &own),
        }
    }
}

#[tokio::test]
async fn a_cached_object_takes_no_more_memory_than_recorded() {
    let mut guards = Guards::new("objects", Unmeasured::Fails);
    table::visit(&mut guards);
    hold(guards);
}
