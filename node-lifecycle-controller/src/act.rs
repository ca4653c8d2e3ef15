//! The loops: which events bring which key, what a sync looks at, and how a plan is carried out.

pub mod eviction;
pub mod garbage;
