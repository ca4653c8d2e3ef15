//! Hash maps whose behaviour does not change from run to run.
//!
//! The standard library's maps are seeded anew in each process, and whatever iterates one of them differs from run to run.
//! Ours hash with a fixed seed, so that a simulated run can be repeated; nothing may depend on their order all the same.

use foldhash::quality::FixedState;

/// A hash map with a fixed seed.
pub type HashMap<K, V> = hashbrown::HashMap<K, V, FixedState>;
/// A hash set with a fixed seed.
pub type HashSet<K> = hashbrown::HashSet<K, FixedState>;
