//! The meaning of Kubernetes objects: names, selectors, hashes, revisions, templates, quantities. This crate does no I/O.

pub mod conditions;
pub mod duration;
pub mod hash;
pub mod head;
pub mod index;
pub mod intern;
pub mod intstr;
pub mod json;
mod layout;
pub mod map;
pub mod meta;
pub mod object;
pub mod parsed;
pub mod partial_object;
pub mod pods;
pub mod quantity;
pub mod refs;
pub mod revision;
pub mod selector;
pub mod siphash;
pub mod taints;
pub mod template;
pub mod wire;
