//! Checks the house rules that neither the compiler nor clippy can check, by searching the sources of all crates.
//!
//! Each failure names the file, the line and the rule. A wrong rule is changed here and in the design; do not work around it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that panics has failed")]

use std::{
    collections::BTreeSet,
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

#[path = "tidy/language.rs"]
mod language;
#[path = "tidy/names.rs"]
mod names;

const HASH_ORDER: &str = "deciding code must not depend on hash order; see common::map";

/// Texts that must not occur in deciding code, separated by `|`, with the rule that they break.
const IMPURE_TEXTS: &[(&str, &str)] = &[
    ("async |.await|tokio|futures", "deciding code is not async"),
    ("fs::|std::io|stdout|stderr|net::Tcp|net::Udp|env::|process::Command|process::exit", "deciding code does no I/O"),
    ("kube::|hyper|api::Api|client::", "deciding code does no I/O"),
    ("Io<", "deciding code sends no requests"),
    ("Recorder", "the Events to send are part of the plan"),
    ("tracing|println!", "deciding code does not log; the reasons are part of the plan"),
    ("Clock|::now(|SystemTime", "the time is part of the snapshot"),
    ("rand::|random", "deciding code uses no randomness"),
    ("Mutex|RwLock", "a snapshot needs no locks"),
    ("RefCell|Atomic|OnceLock|OnceCell", "a snapshot does not change"),
    ("thread", "deciding code has no threads"),
    ("RandomState|collections::Hash", HASH_ORDER),
];

/// The modules in the folder of a loop that decide and must be pure: a file, or a file with a folder.
const PURE_FILES: [&str; 3] = ["snapshot", "plan", "decide"];
/// Further pure modules, by crate. [`ASYNC_OR_IO`] keeps async code out of the dependencies of `common/objects`. The kubectl
/// plug-in checks a cluster in its pure modules.
const OTHER_PURE_MODULES: &[(&str, &str)] = &[
    (
        "common/objects",
        "conditions duration hash index intstr json object pods quantity refs revision selector siphash template",
    ),
    ("common/client", "ca_bundle"),
    ("common/control", "explain leader/lease leader/probation leader/step"),
    ("daemonset-controller", "act/body"),
    (
        "deploy/kubectl-nonet",
        "check controllers facts finding manager_flags plan/files plan/live plan/render plan/steps render",
    ),
    ("deployment-controller", "limits"),
    ("node-lifecycle-controller", "disruption garbage/quarantine rate server_contact silence taints"),
    ("statefulset-controller", "act/body"),
];
/// Dependencies that a crate without I/O must not have.
const ASYNC_OR_IO: &str = "tokio futures kube hyper hyper-util axum tower tracing rustls nonet-platform nonet-client";

/// The only file that may read the machine's clock or use randomness.
const CLOCK_FILE: &str = "common/platform/src/clock.rs";

/// Maximum count of lines of code in a file, without tests and comments. Split a larger file by its concepts.
const MAX_LINES_OF_CODE: usize = 500;
const MAX_LINES_IN_MAIN: usize = 25;
const MAX_LINES_IN_DECISION: usize = 40;

fn workspace_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Returns the paths of the workspace's crates: the directories with a manifest in the root, in `common`, `e2e` and `deploy`.
fn crate_paths() -> Vec<String> {
    let below = |prefix: &'static str| {
        let entries = fs::read_dir(workspace_root().join(prefix)).unwrap().map(|entry| entry.unwrap());
        let crates = entries.filter(|entry| entry.path().join("Cargo.toml").exists());
        crates.map(move |entry| format!("{prefix}{}", entry.file_name().into_string().unwrap()))
    };
    let mut names: Vec<String> = ["", "common/", "e2e/", "deploy/"].into_iter().flat_map(below).collect();
    // The fuzz targets are a separate workspace.
    names.retain(|name| name != "common/fuzz");
    names.sort();
    assert!(names.len() >= 4, "found only the crates {names:?}");
    names
}

fn controller_crates() -> Vec<String> {
    crate_paths().into_iter().filter(|name| name.ends_with("-controller")).collect()
}

fn read_file(path: &str) -> String {
    fs::read_to_string(workspace_root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// Returns the paths, relative to the root, of all files in a directory and its subdirectories that end in `ending`.
fn files_below(directory: &str, ending: &str) -> Vec<String> {
    let (mut found, mut open) = (Vec::new(), vec![directory.to_owned()]);
    while let Some(directory) = open.pop() {
        let Ok(entries) = fs::read_dir(workspace_root().join(&directory)) else { continue };
        for entry in entries.map(|entry| entry.unwrap()) {
            let path = format!("{directory}/{}", entry.file_name().into_string().unwrap());
            if entry.file_type().unwrap().is_dir() {
                open.push(path);
            } else if path.ends_with(ending) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Returns the paths, without `.rs`, of a crate's modules that are compiled only for tests: `#[cfg(test)] mod name;`.
fn test_modules(sources: &[String]) -> BTreeSet<String> {
    let mut modules = BTreeSet::new();
    for source in sources {
        let stem = source.strip_suffix(".rs").unwrap();
        let directory = match stem.rsplit_once('/') {
            Some((directory, "mod" | "lib" | "main")) => directory,
            _ => stem,
        };
        let text = read_file(source);
        for after in text.split("#[cfg(test)]").skip(1) {
            let declaration = after.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
            let module = declaration.trim_start_matches("pub(crate) ").strip_prefix("mod ");
            let name = module.and_then(|rest| rest.strip_suffix(';'));
            modules.extend(name.map(|name| format!("{directory}/{name}")));
        }
    }
    modules
}

/// Returns the paths of a crate's source files, without modules that are compiled only for tests.
fn source_files(name: &str) -> Vec<String> {
    let mut files = files_below(&format!("{name}/src"), ".rs");
    let tests = test_modules(&files);
    files.retain(|path| {
        let stem = path.strip_suffix(".rs").unwrap();
        !tests.iter().any(|module| stem == module || stem.starts_with(&format!("{module}/")))
    });
    files
}

/// Returns the lines of code of a file with their line numbers. Comments, empty lines and the module `tests` are left out.
fn code_lines(path: &str) -> Vec<(usize, String)> {
    let text = read_file(path);
    let until_tests = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let line = |(number, line): (usize, &str)| {
        let line = line.split("// ").next().unwrap_or_default().trim_end();
        (!line.trim().is_empty() && !line.trim_start().starts_with("//")).then(|| (number + 1, line.to_owned()))
    };
    until_tests.lines().enumerate().filter_map(line).collect()
}

/// Returns the lines of code of these files with their places, `FILE:LINE`.
fn code_of(paths: impl IntoIterator<Item = String>) -> impl Iterator<Item = (String, String)> {
    paths.into_iter().flat_map(|path| {
        let lines = code_lines(&path).into_iter();
        lines.map(move |(number, line)| (format!("{path}:{number}"), line))
    })
}

/// Returns the forbidden text in a line of code and the rule that it breaks; `None` if the line is pure.
fn impurity_of_line(line: &str) -> Option<(&'static str, &'static str)> {
    // `collections::Hash` does not occur in a group of imports: `collections::{BTreeMap, HashMap}`.
    if line.contains("collections::{") && line.contains("Hash") {
        return Some(("collections::Hash", HASH_ORDER));
    }
    let texts = IMPURE_TEXTS.iter().flat_map(|(texts, why)| texts.split('|').map(move |text| (text, *why)));
    texts.into_iter().find(|(text, _)| contains_word(line, text))
}

/// Whether `line` contains `word` at the start of an identifier or path.
fn contains_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !word.starts_with(|c: char| c.is_alphanumeric()) || before.is_none_or(|c| !c.is_alphanumeric() && c != '_')
    })
}

fn assert_none_broken(broken: Vec<String>) {
    assert!(broken.is_empty(), "\n{}\n", broken.join("\n"));
}

/// Whether a file belongs to a module, which is a path relative to `src`.
fn is_in_module(path: &str, module: &str) -> bool {
    let inside = path.split_once("/src/").map_or("", |(_, inside)| inside);
    let stem = inside.strip_suffix(".rs").unwrap_or(inside);
    stem == module || stem.starts_with(&format!("{module}/"))
}

#[test]
fn deciding_code_is_pure() {
    let mut pure = Vec::new();
    for (name, module) in
        OTHER_PURE_MODULES.iter().flat_map(|(name, modules)| modules.split(' ').map(move |m| (name, m)))
    {
        let mut found = source_files(name);
        found.retain(|path| is_in_module(path, module));
        assert!(!found.is_empty(), "{name} has no module {module}");
        pure.extend(found);
    }
    for name in controller_crates() {
        let folders = loop_folders(&name);
        let folders = folders.iter().map(|folder| folder.split_once("/src").unwrap().1.trim_start_matches('/'));
        let modules: Vec<String> = folders
            .flat_map(|folder| PURE_FILES.map(|file| format!("{folder}/{file}").trim_start_matches('/').to_owned()))
            .collect();
        let mut found = source_files(&name);
        found.retain(|path| modules.iter().any(|module| is_in_module(path, module)));
        assert!(!found.is_empty(), "{name} has no deciding code");
        pure.extend(found);
    }
    let of_controllers = || controller_crates().into_iter().flat_map(|name| source_files(&name));
    // A sync awaits `io`, and logs in closures that a forecast does not call. Apart from that it is as pure as deciding code.
    let syncs = of_controllers().filter(|path| path.contains("/act/") || path.ends_with("/act.rs"));
    let allowed_in_syncs = ["async ", ".await", "Io<", "tracing"];
    let syncs = code_of(syncs)
        .map(|(place, line)| (place, allowed_in_syncs.iter().fold(line, |line, text| line.replace(text, ""))));
    let mut broken = Vec::new();
    for (place, line) in code_of(pure).chain(syncs) {
        let impurity = impurity_of_line(&line);
        broken.extend(impurity.map(|(word, why)| format!("{place}: {word:?}: {why}: {}", line.trim())));
    }
    for path in of_controllers() {
        for (number, line) in lines_of_syncs(code_lines(&path)) {
            let line = line.replace(".await", "").replace("async move", "").replace("async |", "|");
            let impurity = impurity_of_line(&line);
            broken.extend(impurity.map(|(word, why)| {
                format!("{path}:{number}: {word:?}: a sync does this only in `io.update_memory`, and {why}")
            }));
        }
    }
    assert_none_broken(broken);
}

/// Returns the lines in the bodies of functions with a parameter of the type `Io`, without the closures of `update_memory`.
fn lines_of_syncs(lines: Vec<(usize, String)>) -> Vec<(usize, String)> {
    let (mut found, mut signature, mut end_of_body, mut open_parentheses) = (Vec::new(), None, None, 0);
    for (number, mut line) in lines {
        if end_of_body.as_ref() == Some(&line) {
            end_of_body = None;
        } else if end_of_body.is_some() {
            if open_parentheses == 0
                && let Some(start) = line.find("update_memory(")
            {
                let closure = line.split_off(start + "update_memory".len());
                open_parentheses = unclosed_parentheses(&closure);
            } else if open_parentheses > 0 {
                open_parentheses += unclosed_parentheses(&std::mem::take(&mut line));
            }
            found.push((number, line));
        } else {
            if line.trim_start().starts_with("fn ") || line.contains(" fn ") {
                signature = Some((" ".repeat(line.len() - line.trim_start().len()) + "}", false));
            }
            if let Some((_, has_io)) = &mut signature {
                *has_io |= line.contains("Io<");
            }
            if line.ends_with('{') {
                end_of_body = signature.take().filter(|(_, has_io)| *has_io).map(|(end, _)| end);
            }
        }
    }
    found
}

/// Returns how many more parentheses a line opens than it closes.
fn unclosed_parentheses(line: &str) -> i32 {
    line.chars().map(|c| i32::from(c == '(') - i32::from(c == ')')).sum()
}

#[test]
fn effects_of_a_sync_outside_of_update_memory_are_found() {
    let source = "fn start() {\n    tracing::info!(1);\n}\nimpl A {\n    async fn act(\n        io: Io<'_, Self>,\n    ) {\n        tracing::warn!(2);\n\
        \x20       io.update_memory(|c| {\n            tracing::info!(3);\n        });\n        io.update_memory(|c| tracing::info!(4));\n\
        \x20       let at = clock::now();\n    }\n}";
    let lines = source.lines().enumerate().map(|(at, line)| (at + 1, line.to_owned())).collect();
    let found = lines_of_syncs(lines).into_iter().filter(|(_, line)| impurity_of_line(line).is_some());
    assert_eq!(found.map(|(number, _)| number).collect::<Vec<_>>(), [8, 13]);
}

#[test]
fn impurity_is_recognized() {
    for line in [
        "pub async fn decide(s: &Snapshot) -> Plan {",
        "    let now = jiff::Timestamp::now();",
        "use common::{api::Api, meta::Key};",
        "use std::collections::HashMap;",
        "    collections::{BTreeMap, HashMap},",
        "    let text = fs::read_to_string(path);",
        "    let dice = rand::random::<u64>();",
        "static SEEN: Mutex<u32> = Mutex::new(0);",
        "    clock: common::clock::Clock,",
    ] {
        assert!(impurity_of_line(line).is_some(), "{line}");
    }
    for line in
        ["use common::map::HashSet;", "let spread = brand::new();", "    pub now: Timestamp,", "let operand::X = y;"]
    {
        assert_eq!(impurity_of_line(line), None, "{line}");
    }
}

#[test]
fn time_and_randomness_come_from_the_clock() {
    let mut broken = Vec::new();
    let of_all = || crate_paths().into_iter().flat_map(|name| source_files(&name));
    for (place, line) in code_of(of_all().filter(|path| path != CLOCK_FILE)) {
        if contains_word(&line, "clippy::disallowed_methods") {
            broken.push(format!("{place}: only {CLOCK_FILE} may read a clock"));
        }
        // The simulation draws random seeds for its clocks.
        if contains_word(&line, "rand::") && !place.starts_with("e2e/") {
            broken.push(format!("{place}: only {CLOCK_FILE} uses randomness"));
        }
    }
    // A process that collects events for a while blocks its thread by calling `Clock::block_thread`.
    let may_sleep = ["common/tests/tidy.rs", CLOCK_FILE];
    let files = crate_paths().into_iter().flat_map(|name| files_below(&name, ".rs"));
    let sleeping = code_of(files.filter(|path| !may_sleep.contains(&path.as_str())));
    let sleeping = sleeping.filter(|(_, line)| contains_word(line, "thread::sleep"));
    broken.extend(sleeping.map(|(place, _)| format!("{place}: only the clock may call thread::sleep")));
    assert_none_broken(broken);
}

/// The file with the only unsafe code, see `docs/decisions/0032-pages-at-rest.md`.
const FILE_WITH_UNSAFE_CODE: &str = "common/platform/src/resting_pages.rs";

#[test]
fn one_call_is_unsafe() {
    let files = crate_paths().into_iter().flat_map(|name| files_below(&name, ".rs"));
    let lines = code_of(files.filter(|path| !path.starts_with("common/tests/")));
    let places: BTreeSet<_> = lines.filter(|(_, line)| line.contains("(unsafe_code")).map(|(place, _)| place).collect();
    let is_allowed = |place: &String| place.starts_with(FILE_WITH_UNSAFE_CODE);
    assert!(places.len() == 1 && places.iter().all(is_allowed), "only one call may allow unsafe code: {places:?}");
}

/// The file that the folder of every loop must have. Its further files are a choice; a small loop has no more.
const FILE_OF_A_LOOP: &str = "decide.rs";

/// Returns the folders of a controller's loops: `src` for the loop in `lib.rs`; for other loops the folder named like the file.
fn loop_folders(name: &str) -> Vec<String> {
    let implements = |path: &String| code_lines(path).iter().any(|(_, line)| line.contains(" Controller for "));
    let implementing = source_files(name).into_iter().filter(implements);
    let folders: Vec<String> =
        implementing.map(|path| path.trim_end_matches(".rs").trim_end_matches("/lib").to_owned()).collect();
    assert!(!folders.is_empty(), "no file of {name} implements Controller");
    folders
}

#[test]
fn crates_look_alike() {
    let mut broken = Vec::new();
    for name in crate_paths() {
        if !read_file(&format!("{name}/Cargo.toml")).contains("[lints]\nworkspace = true") {
            broken.push(format!("{name}/Cargo.toml: `[lints] workspace = true` is missing"));
        }
        if !read_file(&format!("{name}/src/lib.rs")).starts_with("//! ") {
            broken.push(format!("{name}/src/lib.rs: the file must begin with the crate's documentation"));
        }
    }
    for name in controller_crates() {
        let main = format!("{name}/src/main.rs");
        if read_file(&main).lines().count() >= MAX_LINES_IN_MAIN {
            broken.push(format!("{main}: flags and one call need fewer than {MAX_LINES_IN_MAIN} lines"));
        }
        if !workspace_root().join(format!("{name}/src/world.rs")).exists() {
            broken.push(format!("{name}/src/world.rs: missing; this is the file for the builders of unit tests"));
        }
        for path in files_below(&name, ".rs") {
            let file = path.rsplit('/').next().unwrap_or_default();
            if file == "mod.rs" {
                broken.push(format!("{path}: a module with files is NAME.rs beside the folder NAME"));
            }
            if file == "world.rs" && path.contains("/src/") && path != format!("{name}/src/world.rs") {
                broken.push(format!("{path}: the builders of unit tests belong in {name}/src/world.rs"));
            }
        }
        for folder in loop_folders(&name) {
            if !workspace_root().join(format!("{folder}/{FILE_OF_A_LOOP}")).exists() {
                broken.push(format!("{folder}/{FILE_OF_A_LOOP}: missing; every loop has this file"));
            }
        }
    }
    assert_none_broken(broken);
}

/// Returns the crates of the workspace that a crate may depend on: first those for all of its code, then more for its tests.
///
/// A change to a controller recompiles only that controller, its tests, and the crates that run all controllers. The sandbox
/// and the testkit run the tests of controllers and depend on no controller, so that no controller is tested with its own code.
fn allowed_dependencies(name: &str) -> (BTreeSet<String>, BTreeSet<String>) {
    let all = || crate_paths().into_iter().map(|path| package_name(&path));
    let only = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    let without = |name: &str| all().filter(|known| known != name).collect();
    match name {
        "common" => (only(&IN_COMMON), only(&["test-features"])),
        name if IN_COMMON.contains(&name) => {
            // Each crate may depend on the crates before it.
            let below = IN_COMMON.iter().take_while(|&&below| below != name).copied();
            (only(&below.collect::<Vec<_>>()), only(&["test-features"]))
        }
        "command-line" | "test-features" => (only(&[]), only(&[])),
        "sandbox" => (only(&["common", "test-features"]), only(&[])),
        "simulation" => (all().filter(|known| !["e2e", "tools"].contains(&known.as_str())).collect(), only(&[])),
        "e2e" => (all().filter(|known| !["simulation", "tools"].contains(&known.as_str())).collect(), only(&[])),
        "tools" => (without("simulation"), only(&[])),
        // It runs the controllers: `why` and `plan`.
        "kubectl-nonet" => {
            let is_allowed = |name: &String| name.ends_with("-controller") || name == "common" || name == "sandbox";
            (all().filter(is_allowed).collect(), only(&[]))
        }
        "testkit" => (only(&["common", "sandbox"]), only(&[])),
        _ => (only(&["common"]), only(&["sandbox", "testkit"])),
    }
}

/// The crates inside `common/`. Each may depend only on the crates before it.
const IN_COMMON: [&str; 5] = ["nonet-objects", "nonet-platform", "nonet-client", "nonet-control", "nonet-service"];

/// Returns the package name of a folder: `nonet-` and the folder's name inside `common/`, elsewhere the folder's name.
fn package_name(path: &str) -> String {
    path.strip_prefix("common/")
        .map_or_else(|| path.rsplit('/').next().unwrap_or(path).to_owned(), |part| format!("nonet-{part}"))
}

/// Returns the packages of the workspace as `cargo metadata` describes them.
fn packages() -> Vec<Value> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let arguments = ["metadata", "--no-deps", "--offline", "--format-version=1"];
    let output = Command::new(cargo).args(arguments).current_dir(workspace_root()).output().unwrap();
    let mut metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    metadata["packages"].as_array_mut().unwrap().drain(..).collect()
}

#[test]
fn dependencies_point_one_way() {
    let packages = packages();
    let names: BTreeSet<&str> = packages.iter().filter_map(|package| package["name"].as_str()).collect();
    let mut broken = Vec::new();
    for folder in crate_paths() {
        let name = package_name(&folder);
        let manifest = workspace_root().join(&folder).join("Cargo.toml");
        let package = packages.iter().find(|package| package["manifest_path"] == manifest.to_str().unwrap()).unwrap();
        assert_eq!(package["name"], name, "{folder}: not its folder's name");
        let (always, in_tests) = allowed_dependencies(&name);
        for dependency in package["dependencies"].as_array().unwrap() {
            let (for_tests, dependency) = (dependency["kind"] == "dev", dependency["name"].as_str().unwrap());
            let may = always.contains(dependency) || (for_tests && in_tests.contains(dependency));
            if names.contains(dependency) && !may {
                broken.push(format!("{folder}: {dependency}: see `allowed_dependencies` in common/tests/tidy.rs"));
            }
            if folder == "common/objects" && !for_tests && ASYNC_OR_IO.split(' ').any(|name| name == dependency) {
                broken.push(format!("{folder}: {dependency}: this crate must have no I/O and nothing async"));
            }
            if dependency == "anyhow" && !folder.starts_with("e2e") {
                broken.push(format!("{folder}: anyhow: errors are enums, except in e2e"));
            }
        }
    }
    assert_none_broken(broken);
}

#[test]
fn every_file_of_e2e_tests_is_part_of_a_program() {
    assert!(read_file(".ci/run").contains("NONET_CLUSTER=envtest cargo test --locked --package e2e --test suites\n"));
    let (suites, checks) = (read_file("e2e/tests/suites.rs"), read_file("e2e/tests/checks.rs"));
    let mut broken = Vec::new();
    let is_module = |path: &String| path.rsplit('/').nth(1) == Some("tests");
    for path in files_below("e2e/tests", ".rs").into_iter().filter(is_module) {
        let name = path.rsplit('/').next().unwrap_or_default().trim_end_matches(".rs").to_owned();
        let content = read_file(&path);
        let has_tests = content.contains("::test]") || content.contains("#[test]");
        let (in_suites, in_checks) =
            (suites.contains(&format!("\nmod {name};\n")), checks.contains(&format!("\nmod {name};\n")));
        if in_suites && has_tests {
            broken.push(format!("{path}: without a harness, functions with the attribute `test` do not run"));
        }
        if (content.contains("fn suite() -> Suite") || content.contains("\nsuite! {"))
            && !suites.contains(&format!(" {name}::suite(),\n"))
        {
            broken.push(format!("{path}: missing in e2e/tests/suites.rs, so `cargo test` does not run it"));
        }
        if !in_suites && !in_checks && !["suites", "checks"].contains(&name.as_str()) {
            broken.push(format!("{path}: no program has this module, so `cargo test` does not run it"));
        }
    }
    assert_none_broken(broken);
}

#[test]
fn hand_over_suites_run_on_the_sandbox() {
    let suites: Vec<String> = files_below("e2e/tests", "_handover.rs");
    assert!(suites.len() >= 2, "{suites:?}");
    let elsewhere =
        suites.into_iter().filter(|path| !["SIMULATED", "SANDBOX"].iter().any(|kinds| read_file(path).contains(kinds)));
    assert_none_broken(elsewhere.map(|path| format!("{path}: none of its tests runs on the sandbox")).collect());
}

#[test]
fn names_contain_no_empty_words() {
    // In e2e, `manager` is a word of the API: a field manager.
    let crates = crate_paths().into_iter().filter(|name| !name.starts_with("e2e"));
    let empty = |(place, line): (String, String)| {
        let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
        words.find(|word| ["struct", "enum", "trait", "mod", "type"].contains(word))?;
        let named = words.next().unwrap_or_default().to_ascii_lowercase();
        let empty_words = ["manager", "helper", "helpers", "util", "utils", "impl"];
        let is_empty = empty_words.iter().any(|word| named.ends_with(word));
        is_empty.then(|| format!("{place}: {named}: no Manager, Helper, Util, Impl"))
    };
    assert_none_broken(code_of(crates.flat_map(|name| source_files(&name))).filter_map(empty).collect());
}

#[test]
fn files_stay_small() {
    let too_long = |path: String, lines: usize, most: usize, why: &str| {
        (lines > most).then(|| format!("{path}: {lines} lines, more than {most}: {why}"))
    };
    let sources = crate_paths().into_iter().flat_map(|name| source_files(&name));
    let broken = sources.filter_map(|path| {
        let lines = code_lines(&path).len();
        too_long(path, lines, MAX_LINES_OF_CODE, "split off the second noun")
    });
    let decisions = files_below("docs/decisions", ".md").into_iter().filter_map(|path| {
        let lines = read_file(&path).lines().count();
        too_long(path, lines, MAX_LINES_IN_DECISION, "a decision record is short")
    });
    assert_none_broken(broken.chain(decisions).collect());
}

/// The controllers that may have wildcards in their rights, each with the reason.
const WILDCARD_RIGHTS: &[(&str, &str)] = &[
    ("disruption-controller", "it reads the sizes of owners of every kind, custom resources included"),
    ("gc-controller", "it collects objects of every kind, also of kinds that are defined later"),
    ("namespace-controller", "it deletes the objects of every kind in a namespace, custom resources included"),
    ("resourcequota-controller", "a quota may count the objects of any kind, custom resources included"),
];

#[test]
fn only_listed_controllers_have_wildcard_rights() {
    let mut broken = Vec::new();
    let manifests = ["controllers", "shadows"].into_iter().flat_map(|of| files_below(&format!("deploy/{of}"), ".yaml"));
    let mut unused: BTreeSet<&str> = WILDCARD_RIGHTS.iter().map(|(name, _)| *name).collect();
    for path in manifests {
        let listed = WILDCARD_RIGHTS.iter().find(|(name, _)| path.contains(&format!("/{name}/")));
        for (number, line) in read_file(&path).lines().enumerate() {
            if !["\"*\"", "'*'", "[*]", "- *"].iter().any(|wildcard| line.contains(wildcard)) {
                continue;
            }
            match listed {
                Some((name, _)) => _ = unused.remove(name),
                None => broken.push(format!("{path}:{}: wildcards need a reason in WILDCARD_RIGHTS", number + 1)),
            }
        }
    }
    broken.extend(unused.into_iter().map(|name| format!("{name} has no wildcards: remove it from WILDCARD_RIGHTS")));
    for name in controller_crates() {
        if !workspace_root().join(format!("deploy/controllers/{name}/rbac.yaml")).exists() {
            broken.push(format!("deploy/controllers/{name}/rbac.yaml: missing"));
        }
    }
    assert_none_broken(broken);
}
