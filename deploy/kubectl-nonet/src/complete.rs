//! Completion in the shell: kubectl runs the plug-in under the name `kubectl_complete-nonet`.

use clap::Command;

/// The name under which kubectl asks for completions.
pub const PROGRAM: &str = "kubectl_complete-nonet";
/// Directive of kubectl: no names of files.
const NO_FILES: u8 = 4;
/// Directive of kubectl: no space after the candidate.
const NO_SPACE: u8 = 2;

/// What the last word may become.
#[derive(Debug, PartialEq, Eq)]
pub enum Completion {
    /// These candidates, and whether a space follows.
    Words(Vec<String>, bool),
    /// The names of the objects of a kind in a namespace; without a namespace in that of the context.
    Objects {
        /// The kind as the user typed it.
        kind: String,
        /// Value of the flag `--namespace`.
        namespace: Option<String>,
    },
}

/// Decides what the last of `words` may become. `command` is the whole command line of the plug-in.
pub fn complete(command: &Command, words: &[String], kinds: &[&str]) -> Completion {
    let (last, before) = words.split_last().map_or(("", &[][..]), |(last, before)| (last.as_str(), before));
    let starting = |all: Vec<String>| all.into_iter().filter(|word| word.starts_with(last)).collect::<Vec<_>>();
    let Some(sub) = before.first().and_then(|name| command.find_subcommand(name)) else {
        let names = command.get_subcommands().map(|sub| sub.get_name().to_owned());
        return Completion::Words(starting(if before.is_empty() { names.collect() } else { Vec::new() }), true);
    };
    let value_of = |flags: [&str; 2]| {
        let at = before.iter().position(|word| flags.contains(&word.as_str()))?;
        before.get(at + 1).cloned()
    };
    let previous = before.last().and_then(|word| {
        sub.get_arguments().find(|argument| {
            let is_long = argument.get_long().is_some_and(|long| *word == format!("--{long}"));
            is_long || argument.get_short().is_some_and(|short| *word == format!("-{short}"))
        })
    });
    let values = |argument: &clap::Arg| -> Vec<String> {
        argument.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect()
    };
    if let Some(argument) = previous.filter(|argument| argument.get_action().takes_values()) {
        return Completion::Words(starting(values(argument)), true);
    }
    if last.starts_with('-') {
        let flags = sub.get_arguments().filter_map(|argument| argument.get_long()).map(|long| format!("--{long}"));
        return Completion::Words(starting(flags.collect()), true);
    }
    if sub.get_name() == "why" {
        return match last.split_once('/') {
            Some((kind, _)) => {
                Completion::Objects { kind: kind.to_owned(), namespace: value_of(["-n", "--namespace"]) }
            }
            None => Completion::Words(starting(kinds.iter().map(|kind| format!("{kind}/")).collect()), false),
        };
    }
    Completion::Words(starting(sub.get_positionals().flat_map(values).collect()), true)
}

/// Renders candidates as kubectl expects them.
pub fn to_text(words: &[String], adds_space: bool) -> String {
    let directive = if adds_space { NO_FILES } else { NO_FILES | NO_SPACE };
    let lines: String = words.iter().flat_map(|word| [word.as_str(), "\n"]).collect();
    format!("{lines}:{directive}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completed(line: &str) -> Completion {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        complete(&crate::command::command_line(), &words, &["deployment", "daemonset", "pod"])
    }

    #[test]
    fn commands_flags_kinds_and_controllers_are_completed() {
        let words = |words: &[&str], space| Completion::Words(words.iter().map(ToString::to_string).collect(), space);
        assert_eq!(completed("wh"), words(&["why"], true));
        assert_eq!(completed("why d"), words(&["deployment/", "daemonset/"], false));
        assert_eq!(completed("why --all-n"), words(&["--all-namespaces"], true));
        assert_eq!(completed("why -o j"), words(&["json"], true));
        assert_eq!(completed("release gc"), words(&["gc-controller"], true));
        assert_eq!(completed("nothing x"), words(&[], true));
        let objects = Completion::Objects { kind: "deploy".to_owned(), namespace: Some("shop".to_owned()) };
        assert_eq!(completed("why -n shop deploy/w"), objects);
        assert_eq!(to_text(&["deployment/".to_owned()], false), "deployment/\n:6\n");
    }
}
