//! Lists of controllers and of their tests in files of the workspace.

use std::{fs, io};

use kubectl_nonet::{
    controllers::{ALL, Controller},
    remaining_loops,
};

use super::{File, MARK, by_name, by_port, fill_each, join, overlays, root, template};

/// The suites that wait longest. They start first, and all others follow in the order of their names.
const LONGEST_FIRST: [&str; 11] = [
    "failover",
    "whole",
    "deployment",
    "daemonset_handover",
    "outage",
    "cronjob",
    "job_handover",
    "gc",
    "job",
    "node_lifecycle",
    "replicaset",
];

/// The first words of the comment behind written lines.
pub(super) const END: &str = " End: ";

pub(super) fn files() -> io::Result<Vec<File>> {
    let suites = suites()?;
    let dependencies = fill_each("NAME.workspace = true\n", by_name());
    let e2e = replace(&read("e2e/Cargo.toml")?, "dependencies on the controllers", &dependencies)?;
    let simulation = replace(&read("e2e/simulation/Cargo.toml")?, "dependencies on the controllers", &dependencies)?;
    let oracles = modules("e2e/simulation/tests/oracles", "rs", |_| true)?.into_iter().filter(|name| name != "main");
    let oracles = join(oracles.map(|name| format!("mod {name};\n")));
    let oracles = replace(&read("e2e/simulation/tests/oracles/main.rs")?, "modules", &oracles)?;
    let loops = |controller: &Controller| controller.loops().collect::<Vec<_>>().join(", ");
    let rows = join(ALL.iter().map(|controller| format!("| `{}` | {} |\n", controller.name, loops(controller))));
    let remaining = |is_usual: bool| {
        let names = remaining_loops::ALL.iter().filter(|each| each.start.is_usual() == is_usual).map(|each| each.name);
        names.collect::<Vec<_>>().join(", ")
    };
    let others =
        format!("| not in Nonet | {} |\n| not in Nonet, and not usual | {} |\n", remaining(true), remaining(false));
    let readme = replace_after(
        &read("README.md")?,
        "| binary | the control loops that it replaces |\n| --- | --- |\n",
        &(rows + &others),
    )?;
    let pages = fill_each("- [NAME](behaviour/NAME.md)\n", ALL);
    let summary = replace_after(&read("docs/SUMMARY.md")?, "- [Every controller](behaviour/common.md)\n", &pages)?;
    let deploy = replace_after(
        &read("docs/reference/deploy.md")?,
        "| port | static Pod |\n| --- | --- |\n",
        &fill_each("| PORT | NAME |\n", by_port()),
    )?;
    let file = |path: &str, text: String| File { path: path.to_owned(), text };
    let mut files = vec![
        file("e2e/Cargo.toml", e2e),
        file("e2e/simulation/Cargo.toml", simulation),
        file("e2e/simulation/tests/oracles/main.rs", oracles),
        file("e2e/tests/suites.rs", program_of_all_suites(&suites)),
        file("README.md", readme),
        file("docs/SUMMARY.md", summary),
        file("docs/reference/deploy.md", deploy),
    ];
    for name in modules("docs/install", "md", |_| true)? {
        let path = format!("docs/install/{name}.md");
        files.push(file(&path, with_lists(&read(&path)?)));
    }
    Ok(files)
}

/// A page of `docs/install` with its flags that switch all loops off, and its lists of all controllers.
fn with_lists(page: &str) -> String {
    let flag = overlays::controllers_without_loops_of_nonet();
    let off = flag.split_once("tokencleaner,").map_or("", |(_, off)| off);
    let page = replace_lists(page, "-deployment-controller,-", ',', off);
    let names: Vec<&str> = by_name().iter().map(|controller| controller.name).collect();
    replace_lists(&page, "clusterrole-controller cronjob-controller", ' ', names.join(" ").as_str())
}

/// Replaces each list that begins with `begin`.
fn replace_lists(text: &str, begin: &str, separator: char, value: &str) -> String {
    let mut parts = text.split(begin);
    let mut replaced = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let is_of_list = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == separator;
        replaced.push_str(value);
        replaced.push_str(part.trim_start_matches(is_of_list));
    }
    replaced
}

fn read(path: &str) -> io::Result<String> {
    fs::read_to_string(root().join(path))
}

/// The names of the files of a directory with this extension whose text passes, in order.
fn modules(directory: &str, extension: &str, passes: fn(&str) -> bool) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(root().join(directory))? {
        let path = entry?.path();
        let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
        if path.extension().is_some_and(|found| found == extension) && passes(&fs::read_to_string(&path)?) {
            names.push(name.to_owned());
        }
    }
    names.sort();
    Ok(names)
}

/// Replaces what is between the two comments about written lines.
fn replace(text: &str, what: &str, lines: &str) -> io::Result<String> {
    let (begin, end) = (format!(" {MARK}: {what}.\n"), format!("{END}{what}.\n"));
    let parts = text.split_once(&begin).and_then(|(before, rest)| Some((before, rest.split_once(&end)?)));
    let (before, (written, after)) = parts.ok_or_else(|| io::Error::other(format!("no comments about {what:?}")))?;
    let comment = written.rsplit('\n').next().unwrap_or_default();
    Ok(format!("{before}{begin}{lines}{comment}{end}{after}"))
}

/// Replaces the rows of a table, or the items of a list, behind its first lines.
fn replace_after(text: &str, head: &str, rows: &str) -> io::Result<String> {
    let (before, rest) = text.split_once(head).ok_or_else(|| io::Error::other(format!("no {head:?}")))?;
    let (_, after) = rest.split_once("\n\n").ok_or_else(|| io::Error::other(format!("no end behind {head:?}")))?;
    Ok(format!("{before}{head}{rows}\n{after}"))
}

/// A module of the program that runs all suites.
struct Module {
    name: String,
    /// The path of its file, unless it is beside the program.
    path: Option<String>,
    is_suite: bool,
}

/// The suites in `e2e/tests`, and the scenes of the controllers with their shared modules, in the order of their names.
///
/// A crate has its scenes in `tests/behaviour/scenes.rs`, or each suite in a file of the directory `scenes` beside it.
fn suites() -> io::Result<Vec<Module>> {
    let has_suite = |text: &str| text.contains("\npub(crate) fn suite() -> Suite {\n") || text.contains("\nsuite! {\n");
    let own =
        modules("e2e/tests", "rs", has_suite)?.into_iter().map(|name| Module { name, path: None, is_suite: true });
    let mut found: Vec<Module> = own.collect();
    for controller in ALL {
        let scenes = format!("{}/tests/behaviour/scenes", controller.name);
        let add = |name: String, path: String| -> io::Result<Module> {
            let is_suite = has_suite(&read(&path)?);
            Ok(Module { name, path: Some(path), is_suite })
        };
        if !root().join(&scenes).is_dir() {
            let short = controller.name.trim_end_matches("-controller").replace('-', "_");
            found.push(add(short, format!("{scenes}.rs"))?);
            continue;
        }
        for name in modules(&scenes, "rs", |_| true)? {
            let path = format!("{scenes}/{name}.rs");
            found.push(add(name, path)?);
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

/// The source of the program that runs all suites.
fn program_of_all_suites(suites: &[Module]) -> String {
    let modules = join(suites.iter().map(|Module { name, path, .. }| {
        let path = path.as_ref().map(|path| format!("#[path = \"../../{path}\"]\n")).unwrap_or_default();
        format!("{path}mod {name};\n")
    }));
    let mut names: Vec<&str> = suites.iter().filter(|suite| suite.is_suite).map(|suite| suite.name.as_str()).collect();
    names.sort_by_key(|name| LONGEST_FIRST.iter().position(|first| first == name).unwrap_or(LONGEST_FIRST.len()));
    let calls = join(names.iter().map(|name| format!("        {name}::suite(),\n")));
    let (_, program) = template!("suites.txt");
    format!("// {MARK}.\n{}", program.replace("MODULES\n", &modules).replace("SUITES\n", &calls))
}
