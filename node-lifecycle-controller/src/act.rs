//! The requests of each loop: the deletion of one Pod (`eviction`), the removals of one pass (`garbage`), and of the node
//! monitor the conditions of silent nodes (`health`) and taints (`taints`).

mod eviction;
mod garbage;
mod health;
pub(crate) mod taints;
