//! The list of all controllers, and their names on command lines.

use std::process::ExitCode;

use common::app::{self, ProgramDefinition};

/// Every controller, in the order in which lists show them.
pub const ALL: &[&ProgramDefinition] = &kubectl_nonet::controllers::PROGRAMS;

/// The controllers that a list names: `all` (or `*`), `none`, or names separated by commas.
pub fn choose(list: &str) -> Result<Vec<&'static ProgramDefinition>, String> {
    match list.trim() {
        "all" | "*" => return Ok(ALL.to_vec()),
        "none" => return Ok(Vec::new()),
        _ => {}
    }
    let mut chosen: Vec<&'static ProgramDefinition> = Vec::new();
    for name in list.split(',').map(str::trim) {
        let found = ALL.iter().copied().find(|d| d.name == name);
        let definition = found.ok_or_else(|| format!("there is no controller {name:?}; there are {}", names()))?;
        if !chosen.iter().any(|d| d.name == name) {
            chosen.push(definition);
        }
    }
    Ok(chosen)
}

/// Whether one of these controllers removes the protection finalizers of storage, so that no actor has to.
pub fn protect_storage(programs: &[&ProgramDefinition]) -> bool {
    programs.iter().flat_map(|d| d.loops).any(|each| each.name == "persistentvolumeclaim-protection-controller")
}

/// Runs a controller as this process if the first argument of the command line is its name.
///
/// A program that calls this first holds every controller: started with such an argument it behaves as the binary of that
/// controller does, with the same flags and exit codes.
pub fn main() -> Option<ExitCode> {
    let mut arguments = std::env::args().skip(1).peekable();
    let definition = ALL.iter().find(|d| arguments.peek() == Some(&d.name.to_owned()))?;
    Some(app::main_with_arguments(definition, arguments))
}

/// The names of all controllers, separated by commas.
pub fn names() -> String {
    ALL.iter().map(|d| d.name).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(list: &str) -> Vec<&'static str> {
        choose(list).unwrap().into_iter().map(|d| d.name).collect()
    }

    #[test]
    fn lists_name_controllers() {
        assert_eq!(chosen("all").len(), ALL.len());
        assert_eq!(chosen("none"), Vec::<&str>::new());
        assert_eq!(chosen("replicaset-controller, replicaset-controller"), ["replicaset-controller"]);
        let error = choose("replicaset-controller,tuner").err().unwrap();
        assert!(error.contains("\"tuner\"") && error.contains("deployment-controller"), "{error}");
    }

    #[test]
    fn every_controller_of_the_workspace_is_here() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let directories = std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path());
        let mut found: Vec<String> = directories
            .filter(|path| path.join("src/main.rs").is_file())
            .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
            .collect();
        let mut known: Vec<&str> = ALL.iter().map(|d| d.name).collect();
        found.sort();
        known.sort_unstable();
        assert_eq!(found, known);
    }

    #[test]
    fn values_that_upstream_fixes_in_code_can_be_tuned() {
        let known: Vec<&str> = ALL.iter().flat_map(|d| d.tunables).map(|tune| tune.name).collect();
        for name in [
            "job-pod-failure-backoff",
            "job-pod-failure-backoff-max",
            "job-sync-batch-period",
            "job-max-uncounted-pods",
            "job-max-pods-per-sync",
            "pod-gc-period",
            "pod-gc-quarantine",
            "gc-discovery-period",
            "burst-replicas",
            "expectations-timeout",
            "daemonset-failed-pod-backoff",
            "daemonset-failed-pod-backoff-max",
        ] {
            assert!(known.contains(&name), "{name}");
        }
    }
}
