//! Reads bytes as each kind of answer that an API server may send in protobuf.
//!
//! The fuzz target and the test of its corpus share this file.

use common::{
    head::ObjectHead,
    meta::Meta,
    object::EncodedObject,
    pods::Pod,
    wire::{EncodedList, Envelope, WatchEvent},
};

/// Reads `bytes` as an envelope, an event of a watch, a list and an object. Must not panic for any input.
pub(crate) fn decode_in_every_form(bytes: &[u8]) {
    if let Ok(envelope) = Envelope::decode(bytes) {
        object(envelope.object);
    }
    if let Ok(event) = WatchEvent::decode(bytes) {
        object(event.object.object);
    }
    if let Ok(mut list) = EncodedList::read(bytes) {
        while let Ok(Some(item)) = list.next_item() {
            object(item);
        }
    }
    object(bytes);
}

fn object(message: &[u8]) {
    let object = EncodedObject::Protobuf(message);
    let pod = object.decode::<Pod>();
    let head = object.decode_metadata::<ObjectHead<'_>>();
    let meta = object.decode_metadata::<Meta>();
    // All decoders of the metadata must agree on the identity of the object.
    if let (Ok(pod), Ok(meta)) = (&pod, &meta) {
        assert_eq!((&pod.meta.name, &pod.meta.uid), (&meta.name, &meta.uid));
    }
    if let (Ok(head), Ok(meta)) = (&head, &meta) {
        assert_eq!((head.name(), head.namespace()), (&*meta.name, meta.namespace.as_str()));
        assert_eq!(head.resource_version(), meta.resource_version);
        assert_eq!(head.controller_kind(), meta.controller().map(|owner| owner.kind.as_str()));
    }
}
