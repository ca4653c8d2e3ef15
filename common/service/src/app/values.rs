//! Parses values of flags: booleans, lists of controllers, feature gates and settings of `--tune`.

use std::{collections::BTreeMap, str::FromStr};

use crate::{
    built_in_flags::{ControllersFlag, ControllersFlagItem},
    duration, names,
    runtime::LoopDefinition,
    settings::{FeatureGate, OperatorSettings, Tunable, TunableValue},
};

/// Parses a boolean with the syntax of Go's `strconv.ParseBool`.
pub(super) fn parse_boolean(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Ok(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Ok(false),
        _ => Err(format!("{text:?} is neither true nor false")),
    }
}

/// Chooses loops by `--controllers`: the first item that names a loop decides; `*` stands for all loops that no item names.
pub(super) fn choose_loops(known: &[LoopDefinition], list: &[String]) -> Result<Vec<LoopDefinition>, String> {
    let canonical = |name: &str| {
        known
            .iter()
            .find(|l| l.name == name || (!l.alias.is_empty() && l.alias == name))
            .map(|l| l.name)
            .or_else(|| names::canonical_controller_name(name))
    };
    let entry = |text: &String| {
        let (is_on, name) = text.strip_prefix('-').map_or((true, text.as_str()), |name| (false, name));
        let known = if text == "*" { Some("*") } else { canonical(name) };
        let name = known.ok_or_else(|| format!("{name:?} is not in the list of known controllers"))?;
        Ok(ControllersFlagItem { is_on, name: name.to_owned() })
    };
    let controllers = ControllersFlag(list.iter().map(entry).collect::<Result<_, String>>()?);
    let chosen: Vec<_> = known.iter().filter(|l| controllers.switches_loop_on(l.name)).copied().collect();
    if chosen.is_empty() {
        let names: Vec<_> = known.iter().map(|l| l.name).collect();
        return Err(format!("--controllers switches on none of this program's controllers ({})", names.join(", ")));
    }
    Ok(chosen)
}

/// Parses a list `name=value,...` into pairs.
fn parse_pairs<'a>(flag: &str, text: &'a str) -> Result<Vec<(&'a str, &'a str)>, String> {
    text.split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .map(|part| {
            let (name, value) =
                part.split_once('=').ok_or_else(|| format!("--{flag}: {part:?} is not of the form name=value"))?;
            Ok((name.trim(), value.trim()))
        })
        .collect()
}

/// Parses `--feature-gates` into `settings`. Unknown gates, and gates of upstream that have another fixed value here, have no
/// effect: each adds a line to `warnings`.
pub(super) fn parse_feature_gates(
    known: &[FeatureGate],
    lists: &[String],
    mut settings: OperatorSettings,
    warnings: &mut Vec<String>,
) -> Result<OperatorSettings, String> {
    let mut given: BTreeMap<&str, bool> = BTreeMap::new();
    for list in lists {
        for (name, value) in parse_pairs("feature-gates", list)? {
            let on = parse_boolean(value).map_err(|e| format!("--feature-gates: {name}: {e}"))?;
            given.insert(name, on);
        }
    }
    for (all, stage) in [("AllAlpha", "ALPHA"), ("AllBeta", "BETA")] {
        let Some(on) = given.remove(all) else { continue };
        for gate in known.iter().filter(|g| !g.is_locked && names::feature_gate_stage(g.name, false) == stage) {
            given.entry(gate.name).or_insert(on);
        }
    }
    for (name, on) in given {
        match (known.iter().find(|gate| gate.name == name), names::fixed_feature_gate_value(name)) {
            (Some(FeatureGate { is_locked: true, is_on_by_default: default, .. }), _) if *default != on => {
                return Err(format!("cannot set feature gate {name} to {on}, feature is locked to {default}"));
            }
            (Some(_), _) => settings = settings.with_feature_gate(name, on),
            (None, None) => {
                warnings.push(format!("feature gate {name} is not known to this program and has no effect"));
            }
            (None, Some(position)) if position != on => {
                warnings.push(format!("feature gate {name} is always {position} here"));
            }
            (None, Some(_)) => {}
        }
    }
    let is_on =
        |name: &str| known.iter().find(|gate| gate.name == name).is_some_and(|gate| settings.is_feature_gate_on(gate));
    for (gate, needed) in names::FEATURE_GATE_DEPENDENCIES {
        if is_on(gate) && !is_on(needed) {
            return Err(format!("{gate} is enabled, but depends on features that are disabled: [{needed}]"));
        }
    }
    Ok(settings)
}

/// Parses `--tune` into `settings`. A name that is not in `known` is an error.
pub(super) fn parse_tunables(
    known: &[Tunable],
    lists: &[String],
    mut settings: OperatorSettings,
) -> Result<OperatorSettings, String> {
    for list in lists {
        for (name, value) in parse_pairs("tune", list)? {
            let Some(tune) = known.iter().find(|tune| tune.name == name) else {
                let names: Vec<_> = known.iter().map(|tune| tune.name).collect();
                let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
                return Err(format!("--tune: {name:?} is not known; known are: {names}"));
            };
            let value = parse_tunable_value(tune, value).map_err(|e| format!("--tune: {name}: {e}"))?;
            settings = settings.with_tunable(name, value);
        }
    }
    Ok(settings)
}

/// Parses the value of a flag or of `--tune`. The default determines the type of the value.
pub(super) fn parse_tunable_value(tunable: &Tunable, text: &str) -> Result<TunableValue, String> {
    match tunable.default_value {
        TunableValue::Duration(_) => duration::parse(text).map(TunableValue::Duration),
        TunableValue::Count(_) => parse_number(text, "a whole number").map(TunableValue::Count),
        TunableValue::Integer(_) => parse_number(text, "a whole number").map(TunableValue::Integer),
        TunableValue::Ratio(_) => parse_number(text, "a number").map(TunableValue::Ratio),
        TunableValue::Switch(_) => parse_boolean(text).map(TunableValue::Switch),
        TunableValue::File(_) => Ok(file_value(text)),
    }
}

/// Returns the value of a flag for the path of a file. A process parses its command line once, so the text is never freed.
pub(super) fn file_value(path: &str) -> TunableValue {
    TunableValue::File(path.to_owned().leak())
}

fn parse_number<T: FromStr>(text: &str, kind: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{text:?} is not {kind}"))
}

/// Formats a value in the syntax that [`parse_tunable_value`] parses.
pub(super) fn format_tunable_value(value: TunableValue) -> String {
    match value {
        TunableValue::Duration(d) => duration::format(d),
        TunableValue::Count(n) => n.to_string(),
        TunableValue::Integer(n) => n.to_string(),
        TunableValue::Ratio(n) => n.to_string(),
        TunableValue::Switch(on) => on.to_string(),
        TunableValue::File(file) => file.to_owned(),
    }
}
