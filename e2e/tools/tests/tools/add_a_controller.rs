//! `docs/add-a-controller.md` lists every place that a controller has, and nothing else.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use e2e::controllers;
use tools::generate;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

fn names() -> BTreeSet<String> {
    controllers::ALL.iter().map(|d| d.name.to_owned()).collect()
}

/// The page.
const PAGE: &str = "docs/add-a-controller.md";

/// Two controllers that have every place: a file that both have, or that names both, is a place of all controllers.
const ORDINARY: [&str; 2] = ["cronjob-controller", "replicaset-controller"];

/// The pages, which name controllers in prose. A path that ends with a slash is a directory.
const PAGES: [&str; 6] = ["README.md", "docs/", "e2e/README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"];

/// Files that name both ordinary controllers and need no entry for a new one, with the reason.
const EXCEPTIONS: &[(&str, &str)] = &[
    ("Cargo.lock", "cargo writes it"),
    ("common/tests/tidy/language.rs", "its bounds of comments name every crate, and its own test finds a missing one"),
    ("e2e/tools/templates/events.yaml", "its own test compares it with the code"),
    ("e2e/simulation/README.md", "its commands are examples"),
    ("e2e/situations.yaml", "its situations without a controller are examples"),
    ("e2e/tools/tests/tools/add_a_controller.rs", "this file"),
    ("e2e/tests/deploy/chart.rs", "its tests set values of some controllers as examples"),
    ("e2e/tests/gc_cascades.rs", "the suite runs the controllers whose objects are collected"),
    ("e2e/tests/traces/mod.rs", "it replays recorded traces, and not every controller has one in this form"),
];

/// Directories that are not part of the source.
const SKIPPED: [&str; 3] = ["target", ".git", "node_modules"];

/// A row of a table of the page.
#[derive(Debug, PartialEq, Eq)]
struct Place {
    /// The path, with `NAME` or `SHORT` where it is the file of one controller.
    path: String,
    /// The controllers that do not have it.
    without: BTreeSet<String>,
}

impl Place {
    fn is_file_of_one_controller(&self) -> bool {
        self.path.contains("NAME") || self.path.contains("SHORT")
    }

    /// The path for a controller.
    fn of(&self, controller: &str) -> String {
        self.path.replace("NAME", controller).replace("SHORT", &short(controller))
    }
}

/// The name of a controller without its ending, in snake case.
fn short(controller: &str) -> String {
    controller.trim_end_matches("-controller").replace('-', "_")
}

/// The code spans of a cell.
fn spans(cell: &str) -> Vec<String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The places of a page: the rows of its tables with the header `place`.
fn places(page: &str) -> Vec<Place> {
    let mut places = Vec::new();
    let mut is_list = false;
    for line in page.lines() {
        let Some(row) = line.strip_prefix('|') else {
            is_list = false;
            continue;
        };
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        if cells[0] == "place" {
            is_list = true;
        } else if is_list {
            let without: BTreeSet<String> = spans(cells[2]).into_iter().collect();
            places.extend(spans(cells[0]).into_iter().map(|path| Place { path, without: without.clone() }));
        }
    }
    places
}

/// The rows of the table with the places that every controller needs.
fn rows_of_the_first_table(page: &str) -> usize {
    let table = page.split("\n| place |").nth(1).expect("a table of places");
    table.lines().skip(2).take_while(|line| line.starts_with('|')).count()
}

/// Whether a text names a controller: by its name, by the name of its crate in Rust, or by a module for it.
fn names_controller(text: &str, controller: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let has_word = |word: &str| {
        text.match_indices(word).any(|(start, _)| {
            let (before, after) = (&text[..start], &text[start + word.len()..]);
            !before.ends_with(is_part) && !after.starts_with(is_part)
        })
    };
    has_word(controller)
        || has_word(&controller.replace('-', "_"))
        || text.lines().any(|line| line.trim_start() == format!("mod {};", short(controller)))
}

/// Every file of the source, relative to the root of the repository.
fn files() -> Vec<String> {
    let mut files = Vec::new();
    let mut directories = vec![root()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let relative = path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
            let is_skipped = path.file_name().is_some_and(|name| SKIPPED.iter().any(|skipped| name == *skipped));
            if path.is_symlink() || is_skipped {
                continue;
            }
            if path.is_dir() {
                directories.push(path);
            } else {
                files.push(relative);
            }
        }
    }
    files.sort();
    files
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(root().join(path)).ok()
}

fn listed() -> Vec<Place> {
    places(&read(PAGE).unwrap())
}

/// The path of a file of the first ordinary controller with the placeholders of the page, if the second one has the same file.
fn pattern(path: &str, exists: impl Fn(&str) -> bool) -> Option<Place> {
    let [one, other] = ORDINARY;
    let path = path.replace(one, "NAME").replace(&short(one), "SHORT");
    let place = Place { path, without: BTreeSet::new() };
    (place.is_file_of_one_controller() && exists(&place.of(other))).then_some(place)
}

#[test]
fn every_controller_has_every_place_of_the_page() {
    let places = listed();
    assert!(places.len() > 20, "the tables of {PAGE} cannot be read: {places:?}");
    let mut wrong = Vec::new();
    for place in &places {
        for unknown in place.without.difference(&names()) {
            wrong.push(format!("{PAGE}: {} is said to be without {unknown}, which is no controller", place.path));
        }
        if !place.is_file_of_one_controller() && read(&place.path).is_none() {
            wrong.push(format!("{PAGE}: {} does not exist", place.path));
            continue;
        }
        for name in names() {
            let path = place.of(&name);
            let has = if place.is_file_of_one_controller() {
                root().join(&path).is_file()
            } else {
                read(&path).is_some_and(|text| names_controller(&text, &name))
            };
            match (has, place.without.contains(&name)) {
                (false, false) => {
                    let missing =
                        if place.is_file_of_one_controller() { "the file is missing" } else { "no entry names it" };
                    wrong.push(format!(
                        "{path}: {missing}: {name} needs this place, or its name in the column \"without\" of {PAGE}"
                    ));
                }
                (true, true) => wrong.push(format!("{path}: {PAGE} says that {name} is not there, but it is")),
                (true, false) | (false, true) => {}
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_controller_needs_twelve_places_by_hand_at_most() {
    let rows = rows_of_the_first_table(&read(PAGE).unwrap());
    assert!((8..=12).contains(&rows), "{rows} places");
}

#[test]
fn every_file_that_lists_controllers_is_a_place_of_the_page() {
    let listed: BTreeSet<String> = listed().into_iter().map(|place| place.path).collect();
    let is_page =
        |path: &str| PAGES.iter().any(|page| path == *page || (page.ends_with('/') && path.starts_with(page)));
    let is_exception = |path: &str| is_page(path) || EXCEPTIONS.iter().any(|(known, _)| path == *known);
    let all = files();
    let exists = |path: &str| all.binary_search_by(|known| known.as_str().cmp(path)).is_ok();
    let by_hand = |path: &str| read(path).map(|text| generate::without_written_lines(&text)).unwrap_or_default();
    let is_of_a_crate = |path: &str| names().iter().any(|name| path.starts_with(&format!("{name}/")));
    let mut missing = BTreeSet::new();
    for path in all.iter().filter(|path| !is_of_a_crate(path)) {
        if let Some(place) = pattern(path, exists) {
            if !listed.contains(&place.path) && !by_hand(path).is_empty() {
                missing.insert(format!("{}: {} have it", place.path, ORDINARY.join(" and ")));
            }
        } else if !is_exception(path)
            && !listed.contains(path)
            && ORDINARY.iter().all(|name| names_controller(&by_hand(path), name))
        {
            missing.insert(format!("{path}: it names {}", ORDINARY.join(" and ")));
        }
    }
    let missing: Vec<String> = missing.into_iter().collect();
    assert!(
        missing.is_empty(),
        "these files are neither places of {PAGE} nor exceptions in its test:\n{}",
        missing.join("\n")
    );
}

#[test]
fn every_exception_is_needed() {
    let listed: BTreeSet<String> = listed().into_iter().map(|place| place.path).collect();
    for (path, _) in EXCEPTIONS {
        assert!(!listed.contains(*path), "{path} is a place of {PAGE}");
        let text = read(path).unwrap_or_else(|| panic!("{path} does not exist"));
        assert!(ORDINARY.iter().all(|name| names_controller(&text, name)), "{path} is no exception any more");
    }
}

#[test]
fn rows_of_the_page_give_paths_and_the_controllers_without_them() {
    let page = "| place | what | without |\n| --- | --- | --- |\n| `a/NAME/b`, `SHORT.rs` | both | `gc-controller` |\n\n\
                | part | how | |\n| --- | --- | --- |\n| `no-place` | | |\n";
    let gc = BTreeSet::from(["gc-controller".to_owned()]);
    let expected = ["a/NAME/b", "SHORT.rs"].map(|path| Place { path: path.to_owned(), without: gc.clone() });
    assert_eq!(places(page), expected);
    assert_eq!(expected[0].of("node-lifecycle-controller"), "a/node-lifecycle-controller/b");
    assert_eq!(expected[1].of("node-lifecycle-controller"), "node_lifecycle.rs");
}

#[test]
fn a_controller_is_named_by_whole_words() {
    for text in
        ["job-controller", "nonet-job-controller:", "use job_controller::LOOPS;", "    mod job;", "/job-controller/"]
    {
        assert!(names_controller(text, "job-controller"), "{text}");
    }
    for text in ["cronjob-controller", "job", "mod job_gang;", "job-controllers", "cronjob_controller", "mod cronjob;"]
    {
        assert!(!names_controller(text, "job-controller"), "{text}");
    }
}

#[test]
fn files_with_the_name_of_a_controller_have_one_pattern() {
    let exists = |path: &str| path == "e2e/simulation/src/scenarios/replicaset.rs";
    assert_eq!(
        pattern("e2e/simulation/src/scenarios/cronjob.rs", exists).unwrap().path,
        "e2e/simulation/src/scenarios/SHORT.rs"
    );
    assert_eq!(pattern("e2e/simulation/src/scenarios/cronjob_only.rs", exists), None);
    assert_eq!(pattern("e2e/tests/wire.rs", |_| true), None);
}
