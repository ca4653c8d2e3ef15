//! The corpus of the fuzz target: each answer, cut and damaged at every place.

use std::{fs, path::Path};

#[path = "../fuzz/read.rs"]
mod read;

#[test]
fn answers_that_are_cut_or_damaged_cost_no_panic() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/protobuf");
    let mut answers = 0;
    for entry in fs::read_dir(corpus).unwrap() {
        let mut answer = fs::read(entry.unwrap().path()).unwrap();
        read::read(&answer);
        // Every place of the small ones, and some thousand of the others.
        for at in (0..answer.len()).step_by(answer.len().div_ceil(1000)) {
            read::read(&answer[..at]);
            for bits in [0x01, 0x80, 0xff] {
                answer[at] ^= bits;
                read::read(&answer);
                answer[at] ^= bits;
            }
        }
        answers += 1;
    }
    assert!(answers > 10);
}
