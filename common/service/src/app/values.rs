//! Parses values of flags: booleans, lists of controllers, feature gates and tuned values.

use std::{collections::BTreeMap, str::FromStr};

use crate::{
    built_in_flags::{Controllers, Entry},
    duration, names,
    runtime::LoopDefinition,
    settings::{FeatureGate, Settings, Tune, TuneValue},
};

/// Parses a boolean with the syntax of Go's `strconv.ParseBool`.
pub(super) fn boolean(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Ok(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Ok(false),
        _ => Err(format!("{text:?} is neither true nor false")),
    }
}

/// Chooses loops by `--controllers`: the first entry that names a loop decides; `*` stands for all loops that no entry names.
pub(super) fn controllers(known: &[LoopDefinition], list: &[String]) -> Result<Vec<LoopDefinition>, String> {
    let canonical = |name: &str| {
        known
            .iter()
            .find(|l| l.name == name || (!l.alias.is_empty() && l.alias == name))
            .map(|l| l.name)
            .or_else(|| names::canonical(name))
    };
    let entry = |text: &String| {
        let (is_on, name) = text.strip_prefix('-').map_or((true, text.as_str()), |name| (false, name));
        let known = if text == "*" { Some("*") } else { canonical(name) };
        let name = known.ok_or_else(|| format!("{name:?} is not in the list of known controllers"))?;
        Ok(Entry { is_on, name: name.to_owned() })
    };
    let controllers = Controllers(list.iter().map(entry).collect::<Result<_, String>>()?);
    let chosen: Vec<_> = known.iter().filter(|l| controllers.contains(l.name)).copied().collect();
    if chosen.is_empty() {
        let names: Vec<_> = known.iter().map(|l| l.name).collect();
        return Err(format!("--controllers switches on none of this program's controllers ({})", names.join(", ")));
    }
    Ok(chosen)
}

/// Parses a list `name=value,...` into pairs.
fn pairs<'a>(flag: &str, text: &'a str) -> Result<Vec<(&'a str, &'a str)>, String> {
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
pub(super) fn gates(
    known: &[FeatureGate],
    lists: &[String],
    mut settings: Settings,
    warnings: &mut Vec<String>,
) -> Result<Settings, String> {
    let mut given: BTreeMap<&str, bool> = BTreeMap::new();
    for list in lists {
        for (name, value) in pairs("feature-gates", list)? {
            let on = boolean(value).map_err(|e| format!("--feature-gates: {name}: {e}"))?;
            given.insert(name, on);
        }
    }
    for (all, stage) in [("AllAlpha", "ALPHA"), ("AllBeta", "BETA")] {
        let Some(on) = given.remove(all) else { continue };
        for gate in known.iter().filter(|g| !g.locked && names::stage(g.name, false) == stage) {
            given.entry(gate.name).or_insert(on);
        }
    }
    for (name, on) in given {
        match (known.iter().find(|gate| gate.name == name), names::fixed(name)) {
            (Some(FeatureGate { locked: true, default, .. }), _) if *default != on => {
                return Err(format!("cannot set feature gate {name} to {on}, feature is locked to {default}"));
            }
            (Some(_), _) => settings = settings.with_gate(name, on),
            (None, None) => {
                warnings.push(format!("feature gate {name} is not known to this program and has no effect"));
            }
            (None, Some(position)) if position != on => {
                warnings.push(format!("feature gate {name} is always {position} here"));
            }
            (None, Some(_)) => {}
        }
    }
    let is_on = |name: &str| known.iter().find(|gate| gate.name == name).is_some_and(|gate| settings.gate(gate));
    for (gate, needed) in names::NEEDS {
        if is_on(gate) && !is_on(needed) {
            return Err(format!("{gate} is enabled, but depends on features that are disabled: [{needed}]"));
        }
    }
    Ok(settings)
}

/// Parses `--tune` into `settings`. A name that is not in `known` is an error.
pub(super) fn tunes(known: &[Tune], lists: &[String], mut settings: Settings) -> Result<Settings, String> {
    for list in lists {
        for (name, value) in pairs("tune", list)? {
            let Some(tune) = known.iter().find(|tune| tune.name == name) else {
                let names: Vec<_> = known.iter().map(|tune| tune.name).collect();
                let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
                return Err(format!("--tune: {name:?} is not known; known are: {names}"));
            };
            let value = tuned(tune, value).map_err(|e| format!("--tune: {name}: {e}"))?;
            settings = settings.with_tune(name, value);
        }
    }
    Ok(settings)
}

/// Parses the value of a flag or of `--tune`. The default determines the type of the value.
pub(super) fn tuned(tune: &Tune, text: &str) -> Result<TuneValue, String> {
    match tune.default {
        TuneValue::Duration(_) => duration::parse(text).map(TuneValue::Duration),
        TuneValue::Count(_) => number(text, "a whole number").map(TuneValue::Count),
        TuneValue::Integer(_) => number(text, "a whole number").map(TuneValue::Integer),
        TuneValue::Ratio(_) => number(text, "a number").map(TuneValue::Ratio),
        TuneValue::Switch(_) => boolean(text).map(TuneValue::Switch),
    }
}

fn number<T: FromStr>(text: &str, kind: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{text:?} is not {kind}"))
}

/// Formats a value in the syntax that [`tuned`] parses.
pub(super) fn shown(value: TuneValue) -> String {
    match value {
        TuneValue::Duration(d) => duration::format(d),
        TuneValue::Count(n) => n.to_string(),
        TuneValue::Integer(n) => n.to_string(),
        TuneValue::Ratio(n) => n.to_string(),
        TuneValue::Switch(on) => on.to_string(),
    }
}
