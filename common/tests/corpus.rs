//! Decodes the corpus of the fuzz target: each recorded answer whole, truncated at many positions, and corrupted there.

use std::{fs, path::Path};

#[path = "../fuzz/read.rs"]
mod read;

#[test]
fn truncated_or_corrupted_answers_do_not_panic() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/protobuf");
    let mut answers = 0;
    for entry in fs::read_dir(corpus).unwrap() {
        let mut answer = fs::read(entry.unwrap().path()).unwrap();
        read::decode_in_every_form(&answer);
        // Every position of a small answer, and at most 1000 positions of a larger one.
        for at in (0..answer.len()).step_by(answer.len().div_ceil(1000)) {
            read::decode_in_every_form(&answer[..at]);
            for bits in [0x01, 0x80, 0xff] {
                answer[at] ^= bits;
                read::decode_in_every_form(&answer);
                answer[at] ^= bits;
            }
        }
        answers += 1;
    }
    assert!(answers > 10);
}
