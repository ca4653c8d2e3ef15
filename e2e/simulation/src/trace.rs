//! What a run was, to the byte: a digest over everything that went between the processes and the API server.

/// A digest that is the same on every machine and in every release.
#[derive(Clone, Debug)]
pub(super) struct Digest(u64);

impl Default for Digest {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Digest {
    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks();
        for word in words {
            self.word(u64::from_be_bytes(*word));
        }
        self.word(rest.iter().fold(0, |sum, byte| (sum << 8) | u64::from(*byte)));
        self.word(bytes.len() as u64);
    }

    pub(super) fn word(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 ^= self.0 >> 29;
    }

    pub(super) fn value(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pieces: &[&[u8]]) -> u64 {
        let mut digest = Digest::default();
        for piece in pieces {
            digest.bytes(piece);
        }
        digest.value()
    }

    #[test]
    fn every_byte_and_every_border_counts() {
        assert_eq!(of(&[b"abc", b"def"]), of(&[b"abc", b"def"]));
        assert_ne!(of(&[b"abc", b"def"]), of(&[b"ab", b"cdef"]));
        assert_ne!(of(&[b"abcdefghi"]), of(&[b"abcdefghj"]));
        assert_ne!(of(&[b"abc", b"def"]), of(&[b"def", b"abc"]));
    }
}
