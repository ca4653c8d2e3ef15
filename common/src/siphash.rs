//! `SipHash-2-4` with 128 bits of output and a fixed key: a digest that is the same in every process and release.

/// A digest being computed.
#[derive(Clone, Debug)]
pub(crate) struct SipHash {
    v: [u64; 4],
    /// Bytes that do not fill a word yet, least significant first.
    tail: u64,
    length: u64,
}

impl SipHash {
    /// A digest under a 128-bit key.
    pub(crate) fn new(key: [u64; 2]) -> Self {
        let v = [
            key[0] ^ 0x736f_6d65_7073_6575,
            key[1] ^ 0x646f_7261_6e64_6f6d ^ 0xee,
            key[0] ^ 0x6c79_6765_6e65_7261,
            key[1] ^ 0x7465_6462_7974_6573,
        ];
        Self { v, tail: 0, length: 0 }
    }

    /// Takes in more bytes.
    pub(crate) fn update(&mut self, mut bytes: &[u8]) {
        let filled = (self.length % 8) as usize;
        self.length = self.length.wrapping_add(bytes.len() as u64);
        if filled > 0 {
            let (head, rest) = bytes.split_at(bytes.len().min(8 - filled));
            self.tail |= word(head) << (8 * filled);
            if filled + head.len() < 8 {
                return;
            }
            self.compress(self.tail);
            bytes = rest;
        }
        let mut words = bytes.chunks_exact(8);
        for chunk in &mut words {
            self.compress(word(chunk));
        }
        self.tail = word(words.remainder());
    }

    /// The digest of everything taken in.
    pub(crate) fn finish(mut self) -> u128 {
        self.compress(self.tail | (self.length << 56));
        self.v[2] ^= 0xee;
        self.rounds(4);
        let low = self.fold();
        self.v[1] ^= 0xdd;
        self.rounds(4);
        u128::from(low) | (u128::from(self.fold()) << 64)
    }

    fn compress(&mut self, word: u64) {
        self.v[3] ^= word;
        self.rounds(2);
        self.v[0] ^= word;
    }

    fn fold(&self) -> u64 {
        self.v.iter().fold(0, |sum, word| sum ^ word)
    }

    fn rounds(&mut self, count: usize) {
        let [mut a, mut b, mut c, mut d] = self.v;
        for _ in 0..count {
            a = a.wrapping_add(b);
            c = c.wrapping_add(d);
            b = b.rotate_left(13) ^ a;
            d = d.rotate_left(16) ^ c;
            a = a.rotate_left(32);
            c = c.wrapping_add(b);
            a = a.wrapping_add(d);
            b = b.rotate_left(17) ^ c;
            d = d.rotate_left(21) ^ a;
            c = c.rotate_left(32);
        }
        self.v = [a, b, c, d];
    }
}

fn word(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |word, byte| (word << 8) | u64::from(*byte))
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
        fn pieces_do_not_matter(bytes in prop::collection::vec(any::<u8>(), 0..64), cuts in prop::collection::vec(0usize..64, 0..5)) {
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
