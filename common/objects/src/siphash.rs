//! `SipHash-2-4` with 128 bits of output. With a fixed key, the digest is the same in every process and release.

use std::hash::Hasher as _;

use siphasher::sip128::{Hasher128 as _, SipHasher24};

/// An incremental computation of a digest.
#[derive(Clone, Debug)]
pub struct SipHash(SipHasher24);

impl SipHash {
    /// Starts a digest with a 128-bit key.
    pub fn new([low, high]: [u64; 2]) -> Self {
        Self(SipHasher24::new_with_keys(low, high))
    }

    /// Appends bytes to the input of the digest.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }

    /// Returns the digest of the whole input.
    pub fn finish(self) -> u128 {
        self.0.finish128().as_u128()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn digest(bytes: &[u8]) -> [u8; 16] {
        let mut hash = SipHash::new([0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908]);
        hash.update(bytes);
        hash.finish().to_le_bytes()
    }

    #[test]
    fn gives_the_published_values() {
        assert_eq!(
            digest(&[]),
            [0xa3, 0x81, 0x7f, 0x04, 0xba, 0x25, 0xa8, 0xe6, 0x6d, 0xf6, 0x72, 0x14, 0xc7, 0x55, 0x02, 0x93]
        );
        assert_eq!(
            digest(&[0]),
            [0xda, 0x87, 0xc1, 0xd8, 0x6b, 0x99, 0xaf, 0x44, 0x34, 0x76, 0x59, 0x11, 0x9b, 0x22, 0xfc, 0x45]
        );
    }

    proptest! {
        #[test]
        fn the_digest_does_not_depend_on_the_division_into_pieces(bytes in prop::collection::vec(any::<u8>(), 0..64), cuts in prop::collection::vec(0usize..64, 0..5)) {
            let mut hash = SipHash::new([0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908]);
            let mut cuts: Vec<usize> = cuts.into_iter().filter(|cut| *cut < bytes.len()).collect();
            cuts.sort_unstable();
            let mut from = 0;
            for cut in cuts {
                hash.update(&bytes[from..cut]);
                from = cut;
            }
            hash.update(&bytes[from..]);
            prop_assert_eq!(hash.finish().to_le_bytes(), digest(&bytes));
        }
    }
}
