//! The requests of each loop: the deletion of one Pod (`eviction`), and the removals of one pass (`garbage`).

mod eviction;
mod garbage;
