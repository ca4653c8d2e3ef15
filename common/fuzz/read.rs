//! Reads bytes as each kind of answer that an API server may send in protobuf.
//!
//! The fuzz target and the test of its corpus share this file.

use common::{
    head::ObjectHead,
    meta::{MapEdits, Meta, ReplaceableMeta},
    object::EncodedObject,
    pods::Pod,
    template::Template,
    wire::{
        EncodedList, Envelope, RawMessage, WatchEvent, decode_message, encode_message,
        messages::{OBJECT_META, POD, POD_TEMPLATE_SPEC},
    },
};
use serde::{Deserialize, Serialize};

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
    template(bytes);
}

/// Reads a Pod template, and sends its spec in a new Pod, as controllers do.
fn template(message: &[u8]) {
    #[derive(Serialize, Deserialize)]
    struct NewPod<Spec> {
        spec: Option<Spec>,
    }
    let Ok(template) = decode_message::<Template>(&POD_TEMPLATE_SPEC, message) else { return };
    if template.validation_error().is_some() {
        return;
    }
    let edited = template.with_label("edited", "yes");
    // No server repeats a field of a map in several places.
    if edited.validation_error().is_some() {
        return;
    }
    assert_eq!(edited.labels().get("edited"), Some("yes"));
    // Byte by byte, because unknown fields are absent from decoded values.
    assert_eq!(edited.spec(), template.spec());
    let body = NewPod { spec: template.spec() };
    let sent = encode_message(&POD, &body).and_then(|sent| decode_message::<NewPod<RawMessage>>(&POD, &sent));
    assert!(sent.is_ok_and(|sent| sent.spec == body.spec));
}

fn object(message: &[u8]) {
    let object = EncodedObject::Protobuf(message);
    let pod = object.decode::<Pod>();
    let head = object.decode_metadata::<ObjectHead<'_>>();
    let meta = object.decode_metadata::<Meta>();
    if let (Ok(received), Ok(meta)) = (object.decode_metadata::<ReplaceableMeta>(), &meta) {
        let edits = MapEdits::from([("edited", Some("yes"))]);
        let sent = encode_message(&OBJECT_META, &received.replacement().with_annotation_edits(edits))
            .and_then(|sent| decode_message::<Meta>(&OBJECT_META, &sent));
        let annotations = sent.as_ref().map(|sent| sent.annotations.clone());
        assert!(annotations.is_ok_and(|annotations| annotations.get("edited") == Some("yes")));
        let sent = sent.map(|sent| Meta { annotations: meta.annotations.clone(), ..sent });
        assert!(sent.is_ok_and(|sent| sent == *meta));
    }
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
