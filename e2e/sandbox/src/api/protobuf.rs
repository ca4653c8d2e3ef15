//! The Kubernetes protobuf encoding, which typed Go clients and informers ask for.
//!
//! Objects, lists and watches are written as kube-apiserver writes them, down to the order of the fields. Custom resources
//! exist as JSON only; their metadata alone is served in protobuf, too. The field numbers are in the schema
//! of the kinds.
//!
//! [`parse`] and [`parse_event`] read an answer back, and [`write_event`] writes a watch event, for tests.

mod envelope;
mod read;
mod schema;
mod write;

pub use envelope::write_event;
pub(crate) use envelope::{MEDIA_TYPE, STREAM_MEDIA_TYPE, frame, write, write_list};
pub use read::{parse, parse_event};

/// The bytes at the start of every object, list and body.
const MAGIC: &[u8] = b"k8s\0";
/// The number of a field for each member that Kubernetes 1.36 does not have, as a newer server would have numbers for them. The
/// field has the name and the JSON of the member.
const NEWER: u64 = 20_000;
/// Messages that nest deeper are refused. Only schemas of custom resources come near.
const DEEPEST: usize = 200;
