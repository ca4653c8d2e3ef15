//! What is known about kinds and their objects, without a server: built-in kinds, custom resources, protobuf.

pub(crate) mod custom;
pub(crate) mod fields;
pub(crate) mod kinds;
pub(crate) mod logic;
pub(crate) mod names;
pub mod protobuf;
pub(crate) mod raw;
pub(crate) mod resource;
