//! The commands of `console` blocks: packages, programs, tests, flags and files that they name exist, and those that are quick
//! and safe are run.

use std::{collections::BTreeSet, env, fs, os::unix::fs::PermissionsExt as _, process::Command};

use e2e::{controllers, skips};
use serde_json::Value;

use super::{check, empty_directory, fences::fences, files, markdown, pages, prose, read, root};
use crate::repository::copy_directory;

/// Programs of others, and why their commands are not run.
const OTHERS: &[(&str, &str)] = &[
    ("part of a pipeline", "awk grep head jq printf sed sort tee xargs"),
    ("part of a loop", "basename mktemp"),
    ("part of a command of kubectl", "date"),
    ("of the shell", "export"),
    ("ends a program of an earlier line", "kill"),
    ("needs a registry", "crane oras skopeo"),
    ("needs a release, or the network", "cosign sha256sum"),
    ("needs a checkout or an archive of the reader", "git tar"),
    ("shows or changes files of the reader", "install ln ls mkdir rm"),
    ("needs Docker or another runtime", "ctr docker kind minikube nerdctl podman"),
    ("needs a cluster or a node of a distribution", "k3s kops talosctl"),
    ("needs a node", "scp ssh sudo systemctl"),
    ("needs a cluster; the overlays and the chart are rendered by the tests of deploy/", "helm kubectl"),
    ("needs a controller that runs", "curl"),
    ("needs mdBook; .ci/run builds the book where it is installed", "mdbook"),
    ("needs packages", "python3"),
    ("changes the toolchain", "rustup"),
];

/// Words of the shell that begin a command that is not looked into.
const SHELL: [&str; 12] = ["for", "do", "done", "while", "read", "if", "then", "fi", "else", "cd", "local", "{"];

/// The commands of a line: its words, split at `&&`, `||`, `|`, `;` and `&`, without comments and redirections.
fn commands(line: &str) -> Vec<Vec<String>> {
    let (mut commands, mut words): (Vec<Vec<String>>, Vec<String>) = Default::default();
    let (mut word, mut quote, mut depth): (Option<String>, Option<char>, usize) = Default::default();
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        let is_open = depth > 0 || quote.is_some();
        match c {
            c if depth == 0 && quote == Some(c) => quote = None,
            '\'' | '"' if !is_open => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            '#' if !is_open && word.is_none() => break,
            ' ' | '|' | ';' | '&' if !is_open => {
                words.extend(word.take());
                if c != ' ' {
                    commands.push(std::mem::take(&mut words));
                }
            }
            c => {
                match c {
                    '$' if quote.is_none() && chars.peek() == Some(&'(') => depth += 1,
                    ')' if quote.is_none() => depth = depth.saturating_sub(1),
                    _ => {}
                }
                word.get_or_insert_default().push(c);
            }
        }
    }
    words.extend(word);
    commands.push(words);
    for words in &mut commands {
        let is_redirection =
            |word: &String| word.starts_with(['>', '<']) || word.ends_with('>') || word == "2>/dev/null";
        words.truncate(words.iter().position(is_redirection).unwrap_or(words.len()));
    }
    commands.retain(|words| !words.is_empty());
    commands
}

/// Whether a word sets a variable: `NAME=value`.
fn is_assignment(word: &str) -> bool {
    let name = word.split_once('=').map_or("", |(name, _)| name);
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// The packages of the workspace, as `cargo metadata` describes them.
struct Workspace(Vec<Value>);

impl Workspace {
    fn read() -> Self {
        let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let arguments = ["metadata", "--no-deps", "--offline", "--format-version=1"];
        let output = Command::new(cargo).args(arguments).current_dir(root()).output().unwrap();
        let mut metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
        Self(metadata["packages"].as_array_mut().unwrap().drain(..).collect())
    }

    /// The package of that name, or all without a name.
    fn packages(&self, name: Option<&str>) -> impl Iterator<Item = &Value> {
        self.0.iter().filter(move |package| name.is_none_or(|name| package["name"] == name))
    }

    /// The programs (`bin`) or tests (`test`) of a package, or of all without a name; name and source.
    fn targets(&self, package: Option<&str>, kind: &str) -> Vec<(&str, &str)> {
        let all = self.packages(package).flat_map(|package| package["targets"].as_array().unwrap());
        let of_kind = all.filter(|target| target["kind"][0] == kind);
        of_kind.map(|target| (target["name"].as_str().unwrap(), target["src_path"].as_str().unwrap())).collect()
    }
}

/// The flags in the source of a command line, from its fields and their aliases: the programs are not built with this crate.
fn flags_of_source(path: &str) -> BTreeSet<String> {
    let source = read(path);
    let fields = source.split("#[arg(long").skip(1).map(|text| text.split_once(")]\n").unwrap());
    let names = fields.flat_map(|(attribute, field)| {
        let field = field.trim_start().trim_start_matches("pub(super) ").split_once(':').unwrap().0;
        let alias = attribute.split_once("alias = \"").map(|(_, rest)| rest.split_once('"').unwrap().0);
        [Some(field), alias].into_iter().flatten().map(|name| format!("--{}", name.replace('_', "-")))
    });
    names.collect::<Vec<_>>().into_iter().chain(["--help".to_owned()]).collect()
}

/// The flags of a program of the workspace; nothing if it takes none.
fn flags_of(program: &str) -> BTreeSet<String> {
    match program {
        "bench" => flags_of_source("e2e/tools/src/bench/flags.rs"),
        "playground" => flags_of_source("e2e/tools/src/playground/flags.rs"),
        "simulate" => flags_of_source("e2e/simulation/src/flags.rs"),
        _ => match controllers::ALL.iter().find(|definition| definition.name == program) {
            Some(definition) => {
                let command = common::app::clap_command(definition);
                let names = command.get_arguments().filter_map(|arg| arg.get_long().map(|name| format!("--{name}")));
                names.collect()
            }
            None => BTreeSet::new(),
        },
    }
}

/// The first flag that is not known.
fn unknown_flag(arguments: &[String], is_known: impl Fn(&str) -> bool) -> Option<&str> {
    let flags = arguments.iter().filter(|argument| argument.starts_with("--") && argument.len() > 2);
    flags.map(|flag| flag.split('=').next().unwrap_or(flag)).find(|name| !is_known(name))
}

/// Arguments of a program of the workspace.
fn check_flags(program: &str, arguments: &[String]) -> Option<String> {
    let known = flags_of(program);
    unknown_flag(arguments, |name| known.contains(name)).map(|name| format!("{program} has no flag {name}"))
}

/// What is wrong with a command of cargo.
fn check_cargo(workspace: &Workspace, words: &[String]) -> Option<String> {
    const SUBCOMMANDS: [&str; 12] =
        ["build", "test", "run", "check", "clippy", "doc", "fmt", "install", "update", "tree", "fuzz", "fetch"];
    let subcommand = words.iter().find(|word| !word.starts_with(['+', '-']))?;
    if !SUBCOMMANDS.contains(&subcommand.as_str()) {
        return Some(format!("cargo {subcommand} is not known here"));
    }
    if subcommand == "fuzz" {
        return None;
    }
    let (own, program_arguments) = match words.iter().position(|word| word == "--") {
        Some(at) => (&words[..at], &words[at + 1..]),
        None => (words, [].as_slice()),
    };
    let after = |is_flag: &dyn Fn(&str) -> bool| -> Vec<&str> {
        let pairs = own.iter().zip(own.iter().skip(1));
        pairs.filter(|(flag, _)| is_flag(flag)).map(|(_, value)| value.as_str()).collect()
    };
    // `-qp` is `-q -p`.
    let is_short = |flag: &str| flag.starts_with('-') && !flag.starts_with("--") && flag.ends_with('p');
    let package = after(&|flag| flag == "--package" || is_short(flag)).pop();
    let (program, tests) = (after(&|flag| flag == "--bin").pop(), after(&|flag| flag == "--test"));
    if workspace.packages(package).next().is_none() {
        return Some(format!("there is no package {package:?}"));
    }
    if let Some(name) = after(&|flag| flag == "--profile")
        .pop()
        .filter(|name| !read("Cargo.toml").contains(&format!("[profile.{name}]")))
    {
        return Some(format!("there is no profile {name}"));
    }
    let (programs, known_tests) = (workspace.targets(package, "bin"), workspace.targets(package, "test"));
    if let Some(program) = program.filter(|program| !programs.iter().any(|(known, _)| known == program)) {
        return Some(format!("there is no program {program}"));
    }
    for test in &tests {
        let Some((_, source)) = known_tests.iter().find(|(known, _)| known == test) else {
            return Some(format!("there is no test {test}"));
        };
        let text = fs::read_to_string(source).unwrap();
        let mut modules = program_arguments.iter().filter_map(|argument| argument.strip_suffix("::"));
        if let Some(module) = modules.find(|module| !text.contains(&format!("\nmod {module};\n"))) {
            return Some(format!("the test {test} has no module {module}"));
        }
    }
    if subcommand != "run" {
        return None;
    }
    match (program, &programs[..]) {
        (Some(program), _) => check_flags(program, program_arguments),
        (None, [(program, _)]) => check_flags(program, program_arguments),
        (None, several) => Some(format!("cargo run does not say which program of {several:?}")),
    }
}

/// What is wrong with a command of the plug-in: its first argument, or a flag of it.
fn check_plug_in(arguments: &[String]) -> Option<String> {
    let line = kubectl_nonet::command::command_line();
    let name = arguments.first().filter(|first| !first.starts_with('-'))?;
    let Some(command) = line.find_subcommand(name) else { return Some(format!("kubectl-nonet has no command {name}")) };
    let known: BTreeSet<String> =
        command.get_arguments().filter_map(|argument| argument.get_long()).map(|long| format!("--{long}")).collect();
    let flag = unknown_flag(arguments, |flag| known.contains(flag) || flag == "--help")?;
    Some(format!("kubectl-nonet {name} has no flag {flag}"))
}

/// What is wrong with a command of kubectl or helm: a path that does not exist.
fn check_manifests(words: &[String]) -> Option<String> {
    if words.first().is_some_and(|word| word == "nonet") {
        return check_plug_in(&words[1..]);
    }
    let kustomized =
        words.iter().zip(words.iter().skip(1)).filter(|(word, _)| ["-k", "kustomize"].contains(&word.as_str()));
    let missing = kustomized.map(|(_, path)| path).filter(|path| path.starts_with("deploy/"));
    if let Some(path) = missing.into_iter().find(|path| !root().join(path).join("kustomization.yaml").exists()) {
        return Some(format!("{path} has no kustomization.yaml"));
    }
    let word = words.iter().find(|word| word.starts_with("deploy/") && !root().join(word).exists())?;
    Some(format!("{word} does not exist"))
}

/// What is wrong with a script of the repository.
fn check_script(script: &str, arguments: &[String]) -> Option<String> {
    let Ok(meta) = fs::metadata(root().join(script)) else { return Some(format!("{script} does not exist")) };
    if meta.permissions().mode() & 0o111 == 0 {
        return Some(format!("{script} is not executable"));
    }
    let text = read(script);
    unknown_flag(arguments, |name| text.contains(name)).map(|name| format!("{script} has no flag {name}"))
}

/// What is wrong with a command, given by its words, or with one whose output it takes.
fn trouble(workspace: &Workspace, words: &[String]) -> Option<String> {
    let inner = words.iter().filter_map(|word| word.split_once("$(")?.1.rsplit_once(')'));
    let inner = inner.flat_map(|(line, _)| commands(line)).find_map(|words| trouble_of_one(workspace, &words));
    inner.or_else(|| trouble_of_one(workspace, words))
}

fn trouble_of_one(workspace: &Workspace, words: &[String]) -> Option<String> {
    let words: Vec<String> = words.iter().skip_while(|word| is_assignment(word)).cloned().collect();
    let (program, arguments) = words.split_first()?;
    match program.as_str() {
        "cargo" => check_cargo(workspace, arguments),
        "kubectl" | "helm" => check_manifests(arguments),
        // The plug-in runs under its own name, too.
        "kubectl-nonet" => check_plug_in(arguments),
        script if [".ci/", "deploy/", "e2e/"].iter().any(|directory| script.starts_with(directory)) => {
            check_script(script, arguments)
        }
        program if program == "playground" || controllers::ALL.iter().any(|definition| definition.name == program) => {
            check_flags(program, arguments)
        }
        word if SHELL.contains(&word) => None,
        program if OTHERS.iter().any(|(_, known)| known.split(' ').any(|known| known == program)) => None,
        other => Some(format!("{other} is neither a program of the repository nor one of OTHERS")),
    }
}

/// The commands that a block shows, each with the number of its line. Lines that end with `\` go on.
fn shown(fence: &markdown::Fence) -> Vec<(usize, String)> {
    let (mut shown, mut is_open): (Vec<(usize, String)>, bool) = Default::default();
    for (number, line) in (fence.line + 1..).zip(&fence.lines) {
        let command = line.strip_prefix("$ ").or(is_open.then_some(line.trim_start()));
        let Some(command) = command else { continue };
        let goes_on = command.ends_with('\\');
        let command = command.trim_end_matches('\\');
        match shown.last_mut().filter(|_| is_open) {
            Some((_, before)) => *before += command,
            None => shown.push((number, command.to_owned())),
        }
        is_open = goes_on;
    }
    shown
}

/// Whether a word stands for a name that the reader chooses, such as `NAME`.
fn has_placeholder(line: &str) -> bool {
    let is_upper = |word: &str| word.len() > 1 && word.bytes().all(|b| b.is_ascii_uppercase());
    line.split([' ', '/', '-']).any(is_upper) || line.contains("...")
}

/// All commands of all pages, in blocks and those of cargo in sentences: page, line and words.
fn all() -> Vec<(String, usize, Vec<String>)> {
    let mut all = Vec::new();
    for (page, number, line) in prose() {
        let spans = markdown::spans_of_code(&line);
        let given = spans.filter(|span| span.starts_with("cargo ") && !has_placeholder(span));
        all.extend(given.flat_map(commands).map(|words| (page.clone(), number, words)));
    }
    for (page, fence) in fences() {
        let lines = match fence.language.as_str() {
            "sh" => (fence.line + 1..).zip(fence.lines).collect(),
            "console" => shown(&fence),
            _ => continue,
        };
        for (number, line) in lines {
            all.extend(commands(&line).into_iter().map(|words| (page.clone(), number, words)));
        }
    }
    all
}

#[test]
fn every_command_can_be_given() {
    let workspace = Workspace::read();
    let all = all();
    assert!(all.len() > 20, "the commands are not found");
    let wrong = all.iter().filter_map(|(page, number, words)| {
        trouble(&workspace, words).map(|why| format!("{page}:{number}: {}: {why}", words.join(" ")))
    });
    check(wrong.collect());
}

#[test]
fn every_variable_of_ours_is_read_somewhere() {
    let is_code = |path: &&String| {
        let of_these = [".ci/", "deploy/", ".github/"].iter().any(|directory| path.starts_with(directory));
        (of_these || path.ends_with(".rs")) && !path.starts_with("e2e/tests/docs/")
    };
    let files = files();
    let code = files.iter().filter(is_code).map(|path| fs::read_to_string(root().join(path)).unwrap_or_default());
    let code: String = code.collect();
    let is_name = |word: &&str| word.bytes().all(|b| b.is_ascii_uppercase() || b == b'_');
    let mut wrong = BTreeSet::new();
    for page in pages() {
        let text = read(&page);
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let names = words.filter(|word| word.starts_with("NONET_")).filter(is_name);
        let unread = names.filter(|name| !code.contains(name));
        wrong.extend(unread.map(|name| format!("{page}: nothing reads {name}")));
    }
    check(wrong.into_iter().collect());
}

#[test]
fn commands_that_are_quick_and_safe_succeed() {
    let lacking = e2e::tools::needs_kubectl().err();
    skips::note("docs::commands_that_are_quick_and_safe_succeed", lacking.as_deref());
    if let Some(lacking) = lacking {
        return eprintln!("skipped: {lacking}");
    }
    let directory = empty_directory("docs");
    copy_directory(&root().join("deploy"), &directory.join("deploy"));
    for file in ["Cargo.toml", "Cargo.lock"] {
        fs::copy(root().join(file), directory.join(file)).unwrap();
    }
    let mut count = 0;
    let mut given: BTreeSet<Vec<String>> = BTreeSet::new();
    for (page, number, words) in all() {
        let is_rendered = words[0] == "deploy/render";
        // A file of digests would have to exist.
        let is_set = words[0] == "deploy/images/set" && !words.iter().any(|word| word == "--digests");
        let out = directory.join("rendered");
        let is_directory = |word: &String| is_rendered && !word.starts_with('-');
        let arguments = words[1..].iter().map(|word| if is_directory(word) { out.to_str().unwrap() } else { word });
        let arguments: Vec<String> = arguments.map(str::to_owned).collect();
        if !(is_rendered || is_set) || !given.insert([&words[..1], &arguments].concat()) {
            continue;
        }
        let output = Command::new(directory.join(&words[0])).args(arguments).current_dir(&directory).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{page}:{number}: {}: {error}", words.join(" "));
        count += 1;
    }
    assert!(count >= 2, "no page shows deploy/images/set and deploy/render");
}

#[test]
fn lines_are_taken_apart_as_a_shell_does() {
    let words = |line: &str| commands(line).iter().map(|words| words.join(",")).collect::<Vec<_>>();
    assert_eq!(
        words("A=1 cargo test -p x && cargo run -- --all   # both"),
        ["A=1,cargo,test,-p,x", "cargo,run,--,--all"]
    );
    assert_eq!(
        words("curl -s \"localhost:$PORT/a?b=c&d\" | jq '.a | .b' > out"),
        ["curl,-s,localhost:$PORT/a?b=c&d", "jq,.a | .b"]
    );
    assert_eq!(words("x=$(git log -1 | head) y=2"), ["x=$(git log -1 | head),y=2"]);
    let fence = markdown::Fence {
        line: 7,
        language: "console".to_owned(),
        lines: ["$ a \\", "    b", "output", "$ c"].map(str::to_owned).to_vec(),
    };
    assert_eq!(shown(&fence), [(8, "a b".to_owned()), (11, "c".to_owned())]);
}

#[test]
fn wrong_commands_are_recognized() {
    let workspace = Workspace::read();
    let wrong = |line: &str| commands(line).iter().find_map(|words| trouble(&workspace, words));
    for line in [
        "cargo test -p no-such-package",
        "cargo test -p e2e --test no_such_test",
        "cargo run -p e2e --bin no-such-program",
        "cargo run -p simulation -- --no-such-flag",
        "cargo run --profile nothing --bin playground",
        "cargo run --bin playground -- --no-such-flag",
        "cargo test -p e2e --test checks -- nothing::",
        "cargo run --release -p tools",
        "kubectl apply -k deploy/overlays/nothing",
        "kubectl nonet check --nothing",
        "deploy/nothing",
        "deploy/render --nothing",
        "deploy/base/deployment.yaml",
        "x=$(deploy/nothing)",
        "no-such-program",
        "gc-controller --nothing",
    ] {
        assert!(wrong(line).is_some(), "{line}");
    }
    for line in [
        "cargo run -qp e2e --bin skipped",
        "NONET_CLUSTER=envtest cargo test -p e2e --test suites -- deployment::",
        "cargo run -p simulation -- --budget 10m",
        "cargo run --release -p tools --bin bench -- --help",
        "kubectl delete -k deploy/overlays/default && kubectl nonet check --before upgrade",
        "deploy/images/set registry.example/nonet v0.1.0 --digests digests > out",
        "gc-controller --shadow --feature-gates=A=true",
    ] {
        assert_eq!(wrong(line), None, "{line}");
    }
}
