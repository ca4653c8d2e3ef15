//! Damaged watch events, for faults.

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::json;

use crate::{
    api::resource::Resource,
    store::encoding::Format,
    verbs::{faults::Action, representation::Representation},
};

const NO_LINE: &[u8] = b"\x00\xff this is not a watch event\n";
/// A frame of the right length whose content is no message: its first tag does not end.
const NO_MESSAGE: &[u8] = b"\x00\x00\x00\x04\xff\xff\xff\xff";
/// The largest length, and a few of the bytes that it announces.
const OVERLONG: &[u8] = b"\xff\xff\xff\xff\x0a\x05ADDED";

/// The bytes that an action sends in place of an event; none if it only ends the watch.
pub(crate) fn damaged(action: &Action, mut representation: Representation, resource: &Resource) -> Option<Bytes> {
    let object = json!({"apiVersion": resource.api_version(), "kind": resource.kind, "metadata": {}});
    // The time matters to the ages in Tables only.
    let now = Timestamp::UNIX_EPOCH;
    match (action, representation.format) {
        (Action::Garbage, Format::Protobuf) => Some(Bytes::from_static(NO_MESSAGE)),
        (Action::OverlongFrame, Format::Protobuf) => Some(Bytes::from_static(OVERLONG)),
        (Action::Garbage | Action::OverlongFrame, _) => Some(Bytes::from_static(NO_LINE)),
        (Action::HalfLine, _) => {
            let event = representation.event_of(resource, "MODIFIED", object, now).ok()?;
            Some(event.slice(..event.len() / 2))
        }
        (Action::UnknownEventType, _) => representation.event_of(resource, "RENAMED", object, now).ok(),
        (Action::WrongKind, format) => {
            // Whoever reads it as another kind finds a name and a namespace.
            let metadata = json!({"name": "wrong", "namespace": "default", "uid": "u", "resourceVersion": "1"});
            format.event("ADDED", &json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata})).ok()
        }
        _ => None,
    }
}
