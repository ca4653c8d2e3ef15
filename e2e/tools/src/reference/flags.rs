//! The page of flags, feature gates and tuned values, from the definitions that the command line is read by.

use clap::{Arg, Command};
use common::{
    app::{self, ProgramDefinition},
    settings::{FeatureGate, Tunable, TunableValue},
};

use super::markdown::{code, codes, head, plain, section, table, wrapped};
use crate::controllers;

/// Flags that kube-controller-manager does not have.
const OWN: [&str; 9] = [
    "debug-address",
    "insecure-debug",
    "node-taint-alarm-share",
    "node-taint-max-share",
    "probation",
    "shadow",
    "standby-warm",
    "threads",
    "tune",
];

/// Stands for the name of the controller in rows that are the same for all.
const NAME: &str = "NAME";

const INTRODUCTION: &str = "The flags of every controller, then what each controller has beside them. `NAME` stands for the name of \
    the controller. Flags that are marked `Nonet` do not exist in kube-controller-manager; all others have its names and units. \
    A flag may be written with underscores. `--help` of each binary prints the same.";

/// A flag as a row of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Flag {
    heading: String,
    name: String,
    row: Vec<String>,
}

fn commands() -> Vec<(&'static ProgramDefinition, Command)> {
    controllers::ALL.iter().map(|definition| (*definition, app::clap_command(definition))).collect()
}

fn flag(definition: &ProgramDefinition, arg: &Arg) -> Option<Flag> {
    let name = arg.get_long()?.to_owned();
    let values: Vec<&str> = arg.get_value_names().unwrap_or_default().iter().map(clap::builder::Str::as_str).collect();
    let value = if arg.get_action().takes_values() { values.join(" ") } else { String::new() };
    let default: Vec<_> = arg.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    let generic = |text: &str| text.replace(definition.name, NAME);
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    // The names of the loops are not the name of the program.
    let generic_help = if name == "controllers" { help } else { generic(&help) };
    let own = if OWN.contains(&&*name) { "Nonet" } else { "" };
    let short = arg.get_short().map(|short| format!("`-{short}`, ")).unwrap_or_default();
    let row = vec![
        format!("{short}`--{name}`"),
        code(&value),
        code(&generic(&default.join(","))),
        own.to_owned(),
        plain(&generic_help),
    ];
    Some(Flag { heading: arg.get_help_heading().unwrap_or("Other").to_owned(), name, row })
}

fn flags(definition: &ProgramDefinition, command: &Command, are_hidden: bool) -> Vec<Flag> {
    let args = command.get_arguments().filter(|arg| arg.is_hide_set() == are_hidden);
    args.filter_map(|arg| flag(definition, arg)).collect()
}

/// What all lists have, in the order of the first.
fn common<T: Clone + PartialEq>(lists: &[Vec<T>]) -> Vec<T> {
    let Some((first, others)) = lists.split_first() else { return Vec::new() };
    first.iter().filter(|item| others.iter().all(|list| list.contains(item))).cloned().collect()
}

const HEADER: [&str; 5] = ["flag", "value", "default", "only in", "meaning"];

fn flag_table(flags: &[Flag]) -> String {
    table(&HEADER, &flags.iter().map(|flag| flag.row.clone()).collect::<Vec<_>>())
}

fn gate_row(gate: &FeatureGate) -> Vec<String> {
    let position = if gate.is_on_by_default { "on" } else { "off" };
    let locked = if gate.is_locked { ", locked" } else { "" };
    vec![code(gate.name), format!("{position}{locked}"), plain(gate.help)]
}

fn tune_row(tune: &Tunable) -> Vec<String> {
    let (kind, default) = match tune.default_value {
        TunableValue::Duration(value) => ("duration", common::duration::format(value)),
        TunableValue::Count(value) => ("count", value.to_string()),
        TunableValue::Integer(value) => ("integer", value.to_string()),
        TunableValue::Ratio(value) => ("number", value.to_string()),
        TunableValue::Switch(value) => ("boolean", value.to_string()),
        TunableValue::File(value) => ("file", value.to_owned()),
    };
    vec![code(tune.name), kind.to_owned(), code(&default), plain(tune.help)]
}

const GATES: [&str; 3] = ["feature gate", "default", "meaning"];
const TUNES: [&str; 4] = ["value of `--tune`", "kind", "default", "meaning"];

pub(super) fn page() -> String {
    let commands = commands();
    let of_each = |are_hidden| -> Vec<Vec<Flag>> {
        commands.iter().map(|(definition, command)| flags(definition, command, are_hidden)).collect()
    };
    let (visible, hidden) = (of_each(false), of_each(true));
    let shared = common(&visible);
    let gate_rows: Vec<Vec<Vec<String>>> =
        commands.iter().map(|(definition, _)| definition.all_feature_gates().iter().map(gate_row).collect()).collect();
    let tune_rows: Vec<Vec<Vec<String>>> =
        commands.iter().map(|(definition, _)| definition.all_tunables().iter().map(tune_row).collect()).collect();
    let (shared_gates, shared_tunes) = (common(&gate_rows), common(&tune_rows));

    let mut text = head("Flags", INTRODUCTION);
    section(&mut text, "## Every controller", "`NAME --version` and `NAME --help` print and end.\n");
    let mut headings: Vec<&str> = Vec::new();
    for flag in &shared {
        if !headings.contains(&&*flag.heading) {
            headings.push(&flag.heading);
        }
    }
    for heading in headings {
        let of_heading: Vec<Flag> = shared.iter().filter(|flag| flag.heading == heading).cloned().collect();
        section(&mut text, &format!("### {heading}"), &flag_table(&of_heading));
    }
    section(&mut text, "### Feature gates", &table(&GATES, &shared_gates));
    section(&mut text, "### Tuned values", &table(&TUNES, &shared_tunes));
    let without_effect = common(&hidden);
    let names = codes(without_effect.iter().map(|flag| flag.name.as_str()));
    let about = format!(
        "Every controller reads these flags of kube-controller-manager and refuses values that it would refuse. They change nothing; \
         one line in the log names those that were given and ask for something else than the default: {names}.\n\nThe same is true \
         of each flag below for the other controllers, so one list of flags can serve all of them. The exceptions are the flags \
         that are marked `Nonet` there, which other controllers refuse."
    );
    section(&mut text, "### Flags without effect", &(wrapped(&about) + "\n"));

    for (index, (definition, _)) in commands.iter().enumerate() {
        let own: Vec<Flag> = visible[index].iter().filter(|flag| !shared.contains(flag)).cloned().collect();
        let without = |rows: &[Vec<String>], shared: &[Vec<String>]| -> Vec<Vec<String>> {
            rows.iter().filter(|row| !shared.contains(row)).cloned().collect()
        };
        let about = plain(definition.about.trim_end_matches('.'));
        let loops = codes(definition.loops.iter().map(|each| each.name));
        let tables = [
            flag_table(&own),
            table(&GATES, &without(&gate_rows[index], &shared_gates)),
            table(&TUNES, &without(&tune_rows[index], &shared_tunes)),
        ];
        let parts = [format!("{about}. Loops: {loops}.\n")].into_iter().chain(tables).filter(|part| !part.is_empty());
        section(&mut text, &format!("## {}", definition.name), &parts.collect::<Vec<_>>().join("\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flag_of_our_own_exists_and_is_hidden_nowhere() {
        for name in OWN {
            let has = |are_hidden| {
                let mut all =
                    commands().into_iter().flat_map(|(definition, command)| flags(definition, &command, are_hidden));
                all.any(|flag| flag.name == name)
            };
            assert_eq!((has(false), has(true)), (true, false), "{name}");
        }
    }

    #[test]
    fn flags_of_one_controller_alone_are_accepted_by_all_others_or_are_our_own() {
        let commands = commands();
        for (definition, command) in &commands {
            for flag in flags(definition, command, false) {
                let is_known = |(definition, command): &(&ProgramDefinition, Command)| {
                    let all = [flags(definition, command, false), flags(definition, command, true)];
                    all.iter().flatten().any(|other| other.name == flag.name)
                };
                let is_everywhere = commands.iter().all(is_known);
                assert_ne!(is_everywhere, is_own_of_one(&flag.name), "{} of {}", flag.name, definition.name);
            }
        }
    }

    fn is_own_of_one(name: &str) -> bool {
        ["node-taint-alarm-share", "node-taint-max-share"].contains(&name)
    }
}
