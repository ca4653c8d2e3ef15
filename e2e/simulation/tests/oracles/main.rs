//! Every oracle can turn red: with no controller at all, or with an impostor that writes what no controller may.
//!
//! The texts beside this file have rows for each oracle:
//!
//! ```text
//! suite replicaset
//! oracle creates-only-what-is-missing
//!   given set(1); creates(a)
//!   notice creates(b)
//! ```
//!
//! The acts of `given` come before those of the rows that follow it. The oracle has to be violated by the last act of `notice` and
//! not before it, and not at all by those of `allow`. With words in quotes, what it says has to contain them. After
//! `exactly ORACLES:` nothing but these oracles is violated.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that panics fails")]

// Written by `cargo run -p tools --bin generate`: modules.
mod fabricated;
mod judge;
// End: modules.

use std::{collections::BTreeSet, fs, path::Path};

use parking_lot::Mutex;
use simulation::{
    explore,
    impostor::{Act, Objection, play},
    notation::Notation,
    scenario::Suite,
    scenarios::SUITES,
};

/// The texts with rows, by the names of their files.
fn texts() -> Vec<(String, String)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/oracles");
    let paths = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let texts = paths.filter(|path| path.extension().is_some_and(|it| it == "txt") && !path.ends_with("prelude.txt"));
    let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
    texts.map(|path| (name(&path), fs::read_to_string(&path).unwrap())).collect()
}

#[test]
fn every_oracle_is_violated_by_what_it_forbids_and_by_nothing_else() {
    let (texts, failures) = (texts(), Mutex::new(Vec::new()));
    assert!(texts.len() >= SUITES.iter().map(|suite| suite.programs[0].name).collect::<BTreeSet<_>>().len());
    let check = |(name, text): &(String, String)| {
        let found = failures_of(text);
        failures.lock().extend(found.into_iter().map(|failure| format!("{name}: {failure}")));
        Ok(())
    };
    explore::each(&texts, 2, check).unwrap();
    let failures = failures.into_inner();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

fn notation(text: &str) -> Notation {
    Notation::read(&format!("{}\n{text}", include_str!("prelude.txt"))).unwrap()
}

fn suite(name: &str) -> &'static Suite {
    SUITES.iter().find(|known| known.name == name).expect("the suite exists")
}

/// A line that begins with `notice`, `allow` or `exactly`.
struct Row<'a> {
    suite: &'static Suite,
    oracle: &'a str,
    kind: &'a str,
    /// What the oracle has to say, or the oracles that are violated.
    words: &'a str,
    acts: String,
}

fn rows(notation: &Notation) -> Vec<Row<'_>> {
    let (mut rows, mut current) = (Vec::new(), None);
    for block in &notation.blocks {
        let (kind, name) = block.head.split_once(' ').unwrap();
        if kind == "suite" {
            current = Some(suite(name));
            continue;
        }
        assert_eq!(kind, "oracle", "{}", block.head);
        let mut given = "";
        for line in &block.lines {
            let (kind, rest) = line.split_once(' ').unwrap_or((line, ""));
            let (words, acts) = match kind {
                "given" => {
                    given = rest;
                    continue;
                }
                "exactly" => rest.split_once(": ").unwrap(),
                "notice" if rest.starts_with('"') => rest[1..].split_once("\": ").unwrap(),
                "notice" | "allow" => ("", rest),
                _ => panic!("no row: {line}"),
            };
            let acts = if given.is_empty() { acts.to_owned() } else { format!("{given}; {acts}") };
            rows.push(Row { suite: current.expect("a suite"), oracle: name, kind, words, acts });
        }
    }
    rows
}

impl Row<'_> {
    fn failure(&self, notation: &Notation) -> Option<String> {
        let Self { suite, oracle, kind, words, acts } = self;
        let acts = Act::read(notation, acts).unwrap();
        let played = play(suite, &acts).unwrap_or_else(|why| panic!("{oracle} {:?}: {why}", self.acts));
        let says = |all: &[Objection]| all.iter().any(|(name, what)| name == oracle && what.contains(words));
        let violated = || played.after.iter().map(|(name, _)| *name).collect::<BTreeSet<_>>();
        let is_right = match *kind {
            "notice" => !says(&played.before) && says(&played.after),
            "allow" => !violated().contains(oracle),
            _ => violated() == words.split(", ").filter(|name| *name != "none").collect(),
        };
        let what = || {
            format!("{oracle}: {kind} {words}: {}\n  before {:?}\n  after {:?}", self.acts, played.before, played.after)
        };
        (!is_right).then(what)
    }
}

fn failures_of(text: &str) -> Vec<String> {
    let notation = notation(text);
    rows(&notation).iter().filter_map(|row| row.failure(&notation)).collect()
}

/// The sources with tests in which oracles turn red, besides the texts.
const OTHER_TESTS: [&str; 6] = [
    "safeguards.txt",
    "tests/simulation.rs",
    "tests/oracles/fabricated.rs",
    "tests/oracles/judge.rs",
    "src/accounts.rs",
    "src/hub.rs",
];

#[test]
fn every_oracle_has_a_test_that_names_it() {
    let notations: Vec<Notation> = texts().iter().map(|(_, text)| notation(text)).collect();
    let named = notations.iter().flat_map(rows).flat_map(|row| match row.kind {
        "notice" => vec![row.oracle],
        "exactly" => row.words.split(", ").collect(),
        _ => Vec::new(),
    });
    let named: BTreeSet<&str> = named.collect();
    let read = |path: &str| fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap();
    // Files that define oracles end with their tests.
    let tests_of = |text: String| text.split_once("mod tests {").map_or(text.clone(), |(_, tests)| tests.to_owned());
    let sources = OTHER_TESTS.map(|path| tests_of(read(path)));
    let is_named = |oracle: &&str| {
        named.contains(oracle)
            || sources
                .iter()
                .any(|text| [format!("\"{oracle}\""), format!("# {oracle}:")].iter().any(|form| text.contains(form)))
    };
    let of_suites = SUITES.iter().flat_map(|suite| {
        let invariants = suite.invariants.iter().copied().flatten().map(|invariant| invariant.name);
        invariants.chain(suite.promises.iter().copied().flatten().map(|promise| promise.name))
    });
    let oracles = of_suites.chain(simulation::judge::ORACLES.iter().map(|oracle| oracle.name));
    let unnamed: BTreeSet<&str> = oracles.filter(|oracle| !is_named(oracle)).collect();
    assert_eq!(unnamed, BTreeSet::new());
}
