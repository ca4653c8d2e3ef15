//! The Kubernetes protobuf encoding, which typed Go clients and informers ask for.
//!
//! Objects, lists and watches are written as kube-apiserver writes them, down to the order of the fields. Custom resources
//! exist as JSON only; their metadata alone is served in protobuf, too. The field numbers are in `data/protobuf-1.36.txt`, one
//! message after the other:
//!
//! ```text
//! core/v1.EnvVar               a message
//!  1 name s                    field number, JSON name (`+`: its fields are the parent's), type
//!  3 valueFrom ?@EnvVarSource  s string, b boolean, i integer, d double, y bytes, or a message (`@`: same package);
//!                              before it `*` for a list, `%` for a map from strings, `?` for a field that is written only
//!                              if it is set
//! ```
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
/// Messages that nest deeper are refused. Only schemas of custom resources come near.
const DEEPEST: usize = 200;
