//! The commands of `console` blocks: packages, programs, tests, flags and files that they name exist, and those that are quick
//! and safe are run.

use std::{collections::BTreeSet, fs, os::unix::fs::PermissionsExt as _, path::Path, process::Command};

use e2e::{controllers, skips};

use super::{check, files, markdown, pages, read, root};

/// Programs of others, and why their commands are not run.
const OTHERS: &[(&str, &str)] = &[
    ("awk", "part of a pipeline"),
    ("basename", "part of a loop"),
    ("cosign", "needs a release and the network"),
    ("crane", "needs a registry"),
    ("ctr", "needs containerd"),
    ("curl", "needs a controller that runs"),
    ("date", "part of a command of kubectl"),
    ("docker", "needs Docker"),
    ("export", "of the shell"),
    ("git", "needs a checkout"),
    ("grep", "part of a pipeline"),
    ("head", "part of a pipeline"),
    ("ln", "changes the machine"),
    ("helm", "needs a cluster; the chart is rendered by the tests of deploy/"),
    ("install", "changes the home directory"),
    ("jq", "part of a pipeline"),
    ("k3s", "needs k3s"),
    ("kill", "ends a program of an earlier line"),
    ("kind", "needs Docker"),
    ("kops", "needs a cluster of kops"),
    ("kubectl", "needs a cluster; the overlays are rendered by the tests of deploy/"),
    ("ls", "shows files of the reader"),
    ("mdbook", "needs mdBook; .ci/run builds the book where it is installed"),
    ("minikube", "needs minikube"),
    ("mkdir", "writes where the reader is"),
    ("mktemp", "part of a loop"),
    ("nerdctl", "needs containerd"),
    ("oras", "needs a registry"),
    ("podman", "needs Podman"),
    ("printf", "part of a pipeline"),
    ("python3", "needs packages"),
    ("rustup", "changes the toolchain"),
    ("scp", "needs a node"),
    ("sed", "part of a pipeline"),
    ("sha256sum", "needs a release"),
    ("skopeo", "needs a registry"),
    ("sort", "part of a pipeline"),
    ("ssh", "needs a node"),
    ("sudo", "needs a node"),
    ("systemctl", "needs a node"),
    ("talosctl", "needs a cluster of Talos"),
    ("tar", "needs an archive of the reader"),
    ("tee", "part of a pipeline"),
    ("xargs", "part of a pipeline"),
];

/// Words of the shell that begin a command that is not looked into.
const SHELL: [&str; 12] = ["for", "do", "done", "while", "read", "if", "then", "fi", "else", "cd", "local", "{"];

/// The commands of a line: its words, split at `&&`, `||`, `|`, `;` and `&`, without comments and redirections.
fn commands(line: &str) -> Vec<Vec<String>> {
    let (mut commands, mut words): (Vec<Vec<String>>, Vec<String>) = Default::default();
    let (mut word, mut quote, mut is_word) = (String::new(), None, false);
    let mut depth = 0;
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(q), c) if c == q && depth == 0 => quote = None,
            (Some(_), c) => word.push(c),
            (None, '\'' | '"') if depth == 0 => (quote, is_word) = (Some(c), true),
            (None, '$') if chars.peek() == Some(&'(') => {
                depth += 1;
                word.push(c);
                is_word = true;
            }
            (None, ')') if depth > 0 => {
                depth -= 1;
                word.push(c);
            }
            (None, c) if depth > 0 => word.push(c),
            (None, '#') if !is_word => break,
            (None, ' ' | '|' | ';' | '&') => {
                if is_word {
                    words.push(std::mem::take(&mut word));
                    is_word = false;
                }
                if c != ' ' && !words.is_empty() {
                    commands.push(std::mem::take(&mut words));
                }
            }
            (None, c) => {
                word.push(c);
                is_word = true;
            }
        }
    }
    if is_word {
        words.push(word);
    }
    commands.push(words);
    for words in &mut commands {
        if let Some(at) =
            words.iter().position(|word| word.starts_with(['>', '<']) || word.ends_with('>') || word == "2>/dev/null")
        {
            words.truncate(at);
        }
    }
    commands.retain(|words| !words.is_empty());
    commands
}

/// Whether a word sets a variable: `NAME=value`.
fn is_assignment(word: &str) -> bool {
    let name = word.split_once('=').map_or("", |(name, _)| name);
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// The crates of the workspace: name of the package and directory.
struct Workspace(Vec<(String, String)>);

impl Workspace {
    fn read() -> Self {
        let manifest = read("Cargo.toml");
        let members = manifest.split_once("members = [").unwrap().1.split_once(']').unwrap().0;
        let members = members.split(',').map(|member| member.trim().trim_matches('"').to_owned());
        let named = |directory: String| {
            let manifest = read(&format!("{directory}/Cargo.toml"));
            let name = manifest.split_once("name = \"").unwrap().1.split_once('"').unwrap().0.to_owned();
            (name, directory)
        };
        Self(members.filter(|member| !member.is_empty()).map(named).collect())
    }

    fn directory(&self, package: &str) -> Option<&str> {
        self.0.iter().find(|(name, _)| name == package).map(|(_, directory)| directory.as_str())
    }

    /// The programs of a package.
    fn programs(&self, package: &str) -> Vec<String> {
        let Some(directory) = self.directory(package) else { return Vec::new() };
        let mut programs: Vec<String> = Vec::new();
        if root().join(directory).join("src/main.rs").exists() {
            programs.push(package.to_owned());
        }
        let bins = fs::read_dir(root().join(directory).join("src/bin")).into_iter().flatten();
        programs
            .extend(bins.map(|entry| entry.unwrap().file_name().to_str().unwrap().trim_end_matches(".rs").to_owned()));
        programs
    }

    fn has_test(&self, package: &str, test: &str) -> bool {
        self.directory(package).is_some_and(|directory| {
            let manifest = read(&format!("{directory}/Cargo.toml"));
            if manifest.contains("autotests = false") {
                return manifest.contains(&format!("[[test]]\nname = \"{test}\"\n"));
            }
            let tests = root().join(directory).join("tests");
            tests.join(format!("{test}.rs")).exists() || tests.join(test).join("main.rs").exists()
        })
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

/// Arguments of a program of the workspace.
fn check_flags(program: &str, arguments: &[String]) -> Option<String> {
    let known = flags_of(program);
    let flags = arguments.iter().filter(|argument| argument.starts_with("--") && argument.len() > 2);
    let mut names = flags.map(|flag| flag.split_once('=').map_or(flag.as_str(), |(name, _)| name));
    names.find(|name| !known.contains(*name)).map(|name| format!("{program} has no flag {name}"))
}

/// Whether a test program has a module, by which a command chooses tests.
fn has_module(directory: &str, test: &str, module: &str) -> bool {
    let paths =
        [format!("{test}.rs"), format!("{test}/main.rs")].map(|path| root().join(directory).join("tests").join(path));
    let mut texts = paths.into_iter().filter_map(|path| fs::read_to_string(path).ok());
    texts.any(|text| text.contains(&format!("\nmod {module};\n")))
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
    let (mut package, mut program) = (None, None);
    let mut tests = Vec::new();
    let mut rest = own.iter();
    while let Some(word) = rest.next() {
        match word.as_str() {
            // `-qp` is `-q -p`.
            short
                if short == "--package"
                    || (!short.starts_with("--") && short.starts_with('-') && short.ends_with('p')) =>
            {
                let name = rest.next()?;
                if workspace.directory(name).is_none() {
                    return Some(format!("there is no package {name}"));
                }
                package = Some(name.as_str());
            }
            "--bin" => program = Some(rest.next()?.as_str()),
            "--test" => tests.push(rest.next()?.as_str()),
            "--profile" => {
                let name = rest.next()?;
                if !read("Cargo.toml").contains(&format!("[profile.{name}]")) {
                    return Some(format!("there is no profile {name}"));
                }
            }
            _ => {}
        }
    }
    let packages: Vec<&str> = match package {
        Some(package) => vec![package],
        None => workspace.0.iter().map(|(name, _)| name.as_str()).collect(),
    };
    if let Some(program) = program
        && !packages.iter().any(|package| workspace.programs(package).iter().any(|known| known == program))
    {
        return Some(format!("there is no program {program}"));
    }
    if let Some(test) = tests.iter().find(|test| !packages.iter().any(|package| workspace.has_test(package, test))) {
        return Some(format!("there is no test {test}"));
    }
    let modules = program_arguments.iter().filter_map(|argument| argument.strip_suffix("::"));
    if let (Some(directory), Some(test)) = (package.and_then(|package| workspace.directory(package)), tests.first())
        && let Some(module) = modules.into_iter().find(|module| !has_module(directory, test, module))
    {
        return Some(format!("the test {test} has no module {module}"));
    }
    if subcommand != "run" {
        return None;
    }
    let of_package = package.map(|package| workspace.programs(package)).unwrap_or_default();
    let program = match (program, of_package.as_slice()) {
        (Some(program), _) => program,
        (None, [only]) => only,
        (None, several) => return Some(format!("cargo run does not say which program of {several:?}")),
    };
    check_flags(program, program_arguments)
}

/// What is wrong with a command of the plug-in: its first argument, or a flag of it.
fn check_plug_in(arguments: &[String]) -> Option<String> {
    let line = kubectl_nonet::command::command_line();
    let name = arguments.first().filter(|first| !first.starts_with('-'))?;
    let Some(command) = line.find_subcommand(name) else { return Some(format!("kubectl-nonet has no command {name}")) };
    let known: BTreeSet<String> =
        command.get_arguments().filter_map(|argument| argument.get_long()).map(|long| format!("--{long}")).collect();
    let flags = arguments.iter().filter(|argument| argument.starts_with("--") && argument.len() > 2);
    let mut names = flags.map(|flag| flag.split_once('=').map_or(flag.as_str(), |(name, _)| name));
    names
        .find(|flag| !known.contains(*flag) && *flag != "--help")
        .map(|flag| format!("kubectl-nonet {name} has no flag {flag}"))
}

/// What is wrong with a command of kubectl or helm: a path that does not exist.
fn check_manifests(words: &[String]) -> Option<String> {
    if words.first().is_some_and(|word| word == "nonet") {
        return check_plug_in(&words[1..]);
    }
    let is_kustomized = |path: &str| root().join(path).join("kustomization.yaml").exists();
    let mut rest = words.iter().peekable();
    while let Some(word) = rest.next() {
        let path = if word == "-k" || word == "kustomize" { rest.peek() } else { None };
        if let Some(path) = path.filter(|path| path.starts_with("deploy/"))
            && !is_kustomized(path)
        {
            return Some(format!("{path} has no kustomization.yaml"));
        }
        if word.starts_with("deploy/") && !root().join(word).exists() {
            return Some(format!("{word} does not exist"));
        }
    }
    None
}

/// What is wrong with a script of the repository.
fn check_script(script: &str, arguments: &[String]) -> Option<String> {
    let Ok(meta) = fs::metadata(root().join(script)) else { return Some(format!("{script} does not exist")) };
    if meta.permissions().mode() & 0o111 == 0 {
        return Some(format!("{script} is not executable"));
    }
    let text = read(script);
    let flags = arguments.iter().filter(|argument| argument.starts_with("--"));
    let mut names = flags.map(|flag| flag.split_once('=').map_or(flag.as_str(), |(name, _)| name));
    names.find(|name| !text.contains(*name)).map(|name| format!("{script} has no flag {name}"))
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
        program if controllers::ALL.iter().any(|definition| definition.name == program) => {
            check_flags(program, arguments)
        }
        "playground" => check_flags("playground", arguments),
        word if SHELL.contains(&word) => None,
        program if OTHERS.iter().any(|(known, _)| *known == program) => None,
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
    for page in pages() {
        let parsed = markdown::parse(&read(&page));
        for (number, line) in &parsed.prose {
            let given =
                markdown::spans_of_code(line).filter(|span| span.starts_with("cargo ") && !has_placeholder(span));
            all.extend(given.flat_map(commands).map(|words| (page.clone(), *number, words)));
        }
        for fence in parsed.fences.iter().filter(|fence| ["console", "sh"].contains(&&*fence.language)) {
            let lines = if fence.language == "sh" {
                let commands = (fence.line + 1..).zip(&fence.lines);
                commands.map(|(number, line)| (number, line.clone())).collect()
            } else {
                shown(fence)
            };
            for (number, line) in lines {
                all.extend(commands(&line).into_iter().map(|words| (page.clone(), number, words)));
            }
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
    let mut code = String::new();
    for path in files().iter().filter(is_code) {
        code += &fs::read_to_string(root().join(path)).unwrap_or_default();
    }
    let mut wrong = Vec::new();
    for page in pages() {
        let text = read(&page);
        let names: BTreeSet<&str> = text
            .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .filter(|word| word.starts_with("NONET_") && word.bytes().all(|b| b.is_ascii_uppercase() || b == b'_'))
            .collect();
        wrong.extend(
            names.into_iter().filter(|name| !code.contains(*name)).map(|name| format!("{page}: nothing reads {name}")),
        );
    }
    check(wrong);
}

/// Copies a directory.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(|entry| entry.unwrap()) {
        let target = to.join(entry.file_name());
        let kind = entry.file_type().unwrap();
        if kind.is_symlink() {
            std::os::unix::fs::symlink(fs::read_link(entry.path()).unwrap(), target).unwrap();
        } else if kind.is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[test]
fn commands_that_are_quick_and_safe_succeed() {
    let lacking = e2e::tools::needs_kubectl().err();
    skips::note("docs::commands_that_are_quick_and_safe_succeed", lacking.as_deref());
    if let Some(lacking) = lacking {
        return eprintln!("skipped: {lacking}");
    }
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("docs");
    let _ = fs::remove_dir_all(&directory);
    copy(&root().join("deploy"), &directory.join("deploy"));
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
