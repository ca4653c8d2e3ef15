//! Checks the house rules that neither the compiler nor clippy can check, by searching the sources of all crates.
//!
//! Each failure names the file, the line and the rule. A wrong rule is changed here and in the design; do not work around it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that panics has failed")]

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

#[path = "tidy/language.rs"]
mod language;
#[path = "tidy/names.rs"]
mod names;

const HASH_ORDER: &str = "deciding code must not depend on hash order; see common::map";

/// Text that must not occur in deciding code, with the rule that it breaks.
const IMPURE_TEXTS: &[(&str, &str)] = &[
    ("async ", "deciding code is not async"),
    (".await", "deciding code is not async"),
    ("tokio", "deciding code is not async"),
    ("futures", "deciding code is not async"),
    ("fs::", "deciding code does no I/O"),
    ("std::io", "deciding code does no I/O"),
    ("Io<", "deciding code sends no requests"),
    ("stdout", "deciding code does no I/O"),
    ("stderr", "deciding code does no I/O"),
    ("net::Tcp", "deciding code does no I/O"),
    ("net::Udp", "deciding code does no I/O"),
    ("env::", "deciding code does no I/O"),
    ("process::Command", "deciding code does no I/O"),
    ("process::exit", "deciding code does no I/O"),
    ("kube::", "deciding code does no I/O"),
    ("hyper", "deciding code does no I/O"),
    ("api::Api", "deciding code does no I/O"),
    ("client::", "deciding code does no I/O"),
    ("Recorder", "the Events to send are part of the plan"),
    ("tracing", "deciding code does not log; the reasons are part of the plan"),
    ("println!", "deciding code does not log; the reasons are part of the plan"),
    ("Clock", "the time is part of the snapshot"),
    ("::now(", "the time is part of the snapshot"),
    ("SystemTime", "the time is part of the snapshot"),
    ("rand::", "deciding code uses no randomness"),
    ("random", "deciding code uses no randomness"),
    ("Mutex", "a snapshot needs no locks"),
    ("RwLock", "a snapshot needs no locks"),
    ("RefCell", "a snapshot does not change"),
    ("Atomic", "a snapshot does not change"),
    ("OnceLock", "a snapshot does not change"),
    ("OnceCell", "a snapshot does not change"),
    ("thread", "deciding code has no threads"),
    ("RandomState", HASH_ORDER),
    ("collections::Hash", HASH_ORDER),
];

/// The modules in the folder of a loop that decide and must be pure: a file, or a file with a folder.
const PURE_FILES: &[&str] = &["snapshot", "plan", "decide"];
/// Further pure modules, by crate. [`ASYNC_OR_IO`] keeps async code out of the dependencies of `common/objects`.
const OTHER_PURE_MODULES: &[(&str, &[&str])] = &[
    (
        "common/objects",
        &[
            "conditions",
            "duration",
            "hash",
            "index",
            "intstr",
            "json",
            "object",
            "pods",
            "quantity",
            "refs",
            "revision",
            "selector",
            "siphash",
            "template",
        ],
    ),
    ("common/control", &["explain", "leader/lease", "leader/probation", "leader/step"]),
    ("daemonset-controller", &["act/body"]),
    ("deployment-controller", &["limits"]),
    ("node-lifecycle-controller", &["disruption", "garbage/quarantine", "rate", "server_contact", "silence", "taints"]),
    ("statefulset-controller", &["act/body"]),
];
/// Dependencies that a crate without I/O must not have.
const ASYNC_OR_IO: &[&str] = &[
    "tokio",
    "futures",
    "kube",
    "hyper",
    "hyper-util",
    "axum",
    "tower",
    "tracing",
    "rustls",
    "nonet-platform",
    "nonet-client",
];

/// The crate of the kubectl plug-in, which checks a cluster in the pure modules [`PURE_IN_PLUGIN`].
const PLUGIN_CRATE: &str = "deploy/kubectl-nonet";
const PURE_IN_PLUGIN: &[&str] = &[
    "check",
    "controllers",
    "facts",
    "finding",
    "manager_flags",
    "plan/files",
    "plan/live",
    "plan/render",
    "plan/steps",
    "render",
];

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
            let name = declaration
                .trim_start_matches("pub(crate) ")
                .strip_prefix("mod ")
                .and_then(|rest| rest.strip_suffix(';'));
            modules.extend(name.map(|name| format!("{directory}/{name}")));
        }
    }
    modules
}

/// Returns the paths of a crate's source files, without modules that are compiled only for tests.
fn source_files(name: &str) -> Vec<String> {
    let all = files_below(&format!("{name}/src"), ".rs");
    let tests = test_modules(&all);
    all.into_iter()
        .filter(|path| {
            let stem = path.strip_suffix(".rs").unwrap();
            !tests.iter().any(|module| stem == module || stem.starts_with(&format!("{module}/")))
        })
        .collect()
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

/// Returns the forbidden text in a line of code and the rule that it breaks; `None` if the line is pure.
fn impurity_of_line(line: &str) -> Option<(&'static str, &'static str)> {
    // `collections::Hash` does not occur in a group of imports: `collections::{BTreeMap, HashMap}`.
    if line.contains("collections::{") && line.contains("Hash") {
        return Some(("collections::Hash", HASH_ORDER));
    }
    IMPURE_TEXTS.iter().find(|(word, _)| contains_word(line, word)).copied()
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

/// Whether a file belongs to one of the modules, which are paths relative to `src`.
fn in_modules(path: &str, modules: &[&str]) -> bool {
    let inside = path.split_once("/src/").map_or("", |(_, inside)| inside);
    let stem = inside.strip_suffix(".rs").unwrap_or(inside);
    modules.iter().any(|module| stem == *module || stem.starts_with(&format!("{module}/")))
}

#[test]
fn deciding_code_is_pure() {
    let mut pure = Vec::new();
    for (name, modules) in OTHER_PURE_MODULES {
        for module in *modules {
            let found: Vec<String> =
                source_files(name).into_iter().filter(|path| in_modules(path, &[*module])).collect();
            assert!(!found.is_empty(), "{name} has no module {module}");
            pure.extend(found);
        }
    }
    for name in controller_crates() {
        let modules: Vec<String> = loop_folders(&name)
            .iter()
            .flat_map(|folder| PURE_FILES.iter().map(move |file| format!("{folder}/{file}")))
            .collect();
        let modules: Vec<&str> =
            modules.iter().map(|module| module.split_once("/src/").map_or("", |(_, module)| module)).collect();
        let deciding: Vec<String> = source_files(&name).into_iter().filter(|path| in_modules(path, &modules)).collect();
        assert!(!deciding.is_empty(), "{name} has no deciding code");
        pure.extend(deciding);
    }
    pure.extend(source_files(PLUGIN_CRATE).into_iter().filter(|path| in_modules(path, PURE_IN_PLUGIN)));
    let mut broken = Vec::new();
    for path in pure {
        for (number, line) in code_lines(&path) {
            if let Some((word, why)) = impurity_of_line(&line) {
                broken.push(format!("{path}:{number}: {word:?}: {why}: {}", line.trim()));
            }
        }
    }
    // A sync awaits `io`, and logs in closures that a forecast does not call. Apart from that it is as pure as deciding code.
    let syncs = controller_crates()
        .into_iter()
        .flat_map(|name| source_files(&name))
        .filter(|path| path.contains("/act/") || path.ends_with("/act.rs"));
    for path in syncs {
        for (number, line) in code_lines(&path) {
            let line = line.replace("async ", "").replace(".await", "").replace("Io<", "").replace("tracing", "");
            if let Some((word, why)) = impurity_of_line(&line) {
                broken.push(format!("{path}:{number}: {word:?}: {why}: {}", line.trim()));
            }
        }
    }
    for path in controller_crates().into_iter().flat_map(|name| source_files(&name)) {
        for (number, line) in lines_of_syncs(code_lines(&path)) {
            if let Some((word, why)) =
                impurity_of_line(&line.replace(".await", "").replace("async move", "").replace("async |", "|"))
            {
                broken
                    .push(format!("{path}:{number}: {word:?}: a sync does this only in `io.update_memory`, and {why}"));
            }
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
    for name in crate_paths() {
        for path in source_files(&name).into_iter().filter(|path| path != CLOCK_FILE) {
            for (number, line) in code_lines(&path) {
                if contains_word(&line, "clippy::disallowed_methods") {
                    broken.push(format!("{path}:{number}: only {CLOCK_FILE} may read a clock"));
                }
                // The command of the simulation draws the seeds of its clocks at random.
                if contains_word(&line, "rand::") && !path.starts_with("e2e/") {
                    broken.push(format!("{path}:{number}: only {CLOCK_FILE} uses randomness"));
                }
            }
        }
        // A process that collects events for a while blocks its thread by calling `Clock::block_thread`.
        let may_sleep = ["common/tests/tidy.rs", CLOCK_FILE];
        for path in files_below(&name, ".rs").into_iter().filter(|path| !may_sleep.contains(&path.as_str())) {
            for (number, _) in code_lines(&path).iter().filter(|(_, line)| contains_word(line, "thread::sleep")) {
                broken.push(format!("{path}:{number}: only the clock may call thread::sleep"));
            }
        }
    }
    assert_none_broken(broken);
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
        "kubectl-nonet" => (
            all()
                .filter(|name| name.ends_with("-controller") || ["common", "sandbox"].contains(&name.as_str()))
                .collect(),
            only(&[]),
        ),
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

/// Returns the dependencies in a manifest, each with a flag that is true for a dev-dependency.
fn dependencies(manifest: &str) -> Vec<(bool, String)> {
    let mut found = Vec::new();
    let mut section = None;
    for line in manifest.lines() {
        if let Some(header) = line.strip_prefix('[') {
            let header = header.trim_end().trim_end_matches(']');
            let kind = header.rsplit('.').next().unwrap_or_default();
            section = kind.ends_with("dependencies").then(|| kind == "dev-dependencies");
            // The header of a table for a single dependency: `[dependencies.name]`.
            if let Some((kind, name)) = header.rsplit_once('.').filter(|(kind, _)| kind.ends_with("dependencies")) {
                found.push((kind.ends_with("dev-dependencies"), name.to_owned()));
            }
        } else if let Some(for_tests) = section
            && line.starts_with(|c: char| c.is_ascii_alphabetic())
        {
            found.push((for_tests, line.split(['.', ' ', '=']).next().unwrap_or_default().to_owned()));
        }
    }
    found
}

#[test]
fn dependencies_point_one_way() {
    let known: BTreeSet<String> = crate_paths().iter().map(|path| package_name(path)).collect();
    let mut broken = Vec::new();
    for name in crate_paths() {
        let path = format!("{name}/Cargo.toml");
        assert!(
            read_file(&path).contains(&format!("name = \"{}\"\n", package_name(&name))),
            "{path}: not its folder's name"
        );
        let (always, in_tests) = allowed_dependencies(&package_name(&name));
        for (for_tests, dependency) in dependencies(&read_file(&path)) {
            let may = always.contains(&dependency) || (for_tests && in_tests.contains(&dependency));
            if known.contains(&dependency) && !may {
                broken.push(format!("{path}: {dependency}: see `allowed` in common/tests/tidy.rs"));
            }
            if name == "common/objects" && !for_tests && ASYNC_OR_IO.contains(&dependency.as_str()) {
                broken.push(format!("{path}: {dependency}: this crate must have no I/O and nothing async"));
            }
            if dependency == "anyhow" && !name.starts_with("e2e") {
                broken.push(format!("{path}: anyhow: errors are enums, except in e2e"));
            }
        }
    }
    assert_none_broken(broken);
}

#[test]
fn dependencies_are_recognized() {
    let manifest = "[package]\nname = \"a\"\n\n[dependencies]\n# why\nb.workspace = true\nc = { path = \"c\" }\n\n\
        [dependencies.d]\npath = \"d\"\n\n[target.'cfg(unix)'.dependencies]\ne = \"1\"\n\n[build-dependencies]\nf = \"1\"\n\n\
        [dev-dependencies]\ng.workspace = true\n\n[lints]\nworkspace = true\n";
    let found = dependencies(manifest);
    let always = ["b", "c", "d", "e", "f"].map(|name| (false, name.to_owned()));
    assert_eq!(found, [always.as_slice(), &[(true, "g".to_owned())]].concat());
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
        if content.contains("fn suite() -> Suite") && !suites.contains(&format!(" {name}::suite(),\n")) {
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
    let mut broken = Vec::new();
    // In e2e, `manager` is a word of the API: a field manager.
    for name in crate_paths().into_iter().filter(|name| !name.starts_with("e2e")) {
        for path in source_files(&name) {
            for (number, line) in code_lines(&path) {
                let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
                let Some(_) = words.find(|word| ["struct", "enum", "trait", "mod", "type"].contains(word)) else {
                    continue;
                };
                let named = words.next().unwrap_or_default().to_ascii_lowercase();
                if ["manager", "helper", "helpers", "util", "utils", "impl"].iter().any(|empty| named.ends_with(empty))
                {
                    broken.push(format!("{path}:{number}: {named}: no Manager, Helper, Util, Impl"));
                }
            }
        }
    }
    assert_none_broken(broken);
}

#[test]
fn files_stay_small() {
    let mut broken = Vec::new();
    for name in crate_paths() {
        for path in source_files(&name) {
            let lines = code_lines(&path).len();
            if lines > MAX_LINES_OF_CODE {
                broken.push(format!(
                    "{path}: {lines} lines of code, more than {MAX_LINES_OF_CODE}: split off the second noun"
                ));
            }
        }
    }
    for path in files_below("docs/decisions", ".md") {
        let lines = read_file(&path).lines().count();
        if lines > MAX_LINES_IN_DECISION {
            broken.push(format!("{path}: {lines} lines; a decision record has at most {MAX_LINES_IN_DECISION}"));
        }
    }
    assert_none_broken(broken);
}

#[test]
fn only_the_garbage_collector_has_wildcard_rights() {
    let mut broken = Vec::new();
    let manifests = ["controllers", "shadows"].into_iter().flat_map(|of| files_below(&format!("deploy/{of}"), ".yaml"));
    for path in manifests.filter(|path| !path.contains("/gc-controller/")) {
        for (number, line) in read_file(&path).lines().enumerate() {
            if ["\"*\"", "'*'", "[*]", "- *"].iter().any(|wildcard| line.contains(wildcard)) {
                broken.push(format!("{path}:{}: only gc-controller may have wildcards in its rights", number + 1));
            }
        }
    }
    for name in controller_crates() {
        if !workspace_root().join(format!("deploy/controllers/{name}/rbac.yaml")).exists() {
            broken.push(format!("deploy/controllers/{name}/rbac.yaml: missing"));
        }
    }
    assert_none_broken(broken);
}
