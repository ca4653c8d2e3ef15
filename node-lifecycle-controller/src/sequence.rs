//! The requests of each loop: the deletion of one Pod (`eviction`), the removals of one pass (`garbage`), and those of the node
//! monitor: passes over nodes and the tainting of nodes that wait (`rounds`), changes of one node (`node`) and of one Pod
//! (`readiness`).

pub mod eviction;
pub mod garbage;
pub mod monitor;
pub(crate) mod node;
pub(crate) mod readiness;
pub(crate) mod rounds;
