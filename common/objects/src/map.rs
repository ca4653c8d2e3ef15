//! Hash maps that users cannot slow down, and that behave in the same way in each run of a test.
//!
//! Users choose names and labels. If they know the seed of a hash map, they can choose keys that collide, which turns every
//! lookup into a scan. A process therefore calls [`set_hash_seed`] once, before it creates its first map. Without a seed, as in
//! tests and simulation, all maps hash alike, so that a run can be repeated exactly. No code may depend on the order of a map.

use std::{fmt, hash::BuildHasher, sync::OnceLock};

use foldhash::{
    SharedSeed,
    quality::{FoldHasher, SeedableRandomState},
};

/// A hash map that uses the seed of [`set_hash_seed`].
pub type HashMap<K, V> = hashbrown::HashMap<K, V, SeededHashState>;
/// A hash set that uses the seed of [`set_hash_seed`].
pub type HashSet<K> = hashbrown::HashSet<K, SeededHashState>;

/// Creates the hashers of [`HashMap`] and [`HashSet`], all with the seed of [`set_hash_seed`].
#[derive(Clone)]
pub struct SeededHashState(SeedableRandomState);

struct Seeds {
    shared: SharedSeed,
    own: u64,
}

/// The seed of the process, or `None`. Fixed at the first use, because a new seed would hide the entries of existing maps.
static SEEDS: OnceLock<Option<Seeds>> = OnceLock::new();

/// Draws the seed of the process from `random`. Has no effect after the first map was created.
pub fn set_hash_seed(mut random: impl FnMut() -> u64) {
    SEEDS.get_or_init(|| Some(Seeds { shared: SharedSeed::from_u64(random()), own: random() }));
}

impl SeededHashState {
    fn with_seeds(seeds: Option<&'static Seeds>) -> Self {
        let under = |seeds: &'static Seeds| SeedableRandomState::with_seed(seeds.own, &seeds.shared);
        Self(seeds.map_or_else(SeedableRandomState::fixed, under))
    }
}

impl Default for SeededHashState {
    fn default() -> Self {
        Self::with_seeds(SEEDS.get_or_init(|| None).as_ref())
    }
}

impl fmt::Debug for SeededHashState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seeded").finish_non_exhaustive()
    }
}

impl BuildHasher for SeededHashState {
    type Hasher = FoldHasher<'static>;

    fn build_hasher(&self) -> FoldHasher<'static> {
        self.0.build_hasher()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(state: &SeededHashState) -> u64 {
        state.hash_one("shop/web")
    }

    #[test]
    fn without_a_seed_hashes_are_equal_in_every_process() {
        assert_eq!(hash(&SeededHashState::default()), hash(&SeededHashState::default()));
        assert_eq!(hash(&SeededHashState::default()), foldhash::quality::FixedState::default().hash_one("shop/web"));
    }

    #[test]
    fn different_seeds_give_different_hashes() {
        let under = |seed: u64| {
            let seeds = Seeds { shared: SharedSeed::from_u64(seed), own: seed };
            hash(&SeededHashState::with_seeds(Some(Box::leak(Box::new(seeds)))))
        };
        assert_ne!(under(1), under(2));
        assert_ne!(under(1), hash(&SeededHashState::with_seeds(None)));
        assert_eq!(under(1), under(1));
    }
}
