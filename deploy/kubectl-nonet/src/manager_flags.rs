//! Reads flags of kube-controller-manager from command lines and from kubeadm's configuration.

use common::process::built_in_flags::{ControllersFlag, values_of_flag};
use serde_json::Value;

/// Whether the command line of a kube-controller-manager disables leader election. A manager without election has no Lease.
pub fn disables_leader_election(command_line: &[String]) -> bool {
    is_switched_off(command_line, "leader-elect")
}

/// Whether the last occurrence of a flag of two values is `--NAME=false`.
pub fn is_switched_off(command_line: &[String], name: &str) -> bool {
    values_of_flag(command_line, name).last().is_some_and(|value| value == "false")
}

/// Whether a command line has `--NAME`, and not `--NAME=false`.
pub fn is_switched_on(command_line: &[String], name: &str) -> bool {
    let flag = format!("--{name}");
    let is_flag = |word: &String| word.split('=').next() == Some(flag.as_str());
    command_line.iter().rfind(|word| is_flag(word)).is_some_and(|word| !word.ends_with("=false"))
}

/// Whether a command line enables a beta feature gate that is off by default, by its name or with all beta gates.
pub fn enables_beta_gate(command_line: &[String], gate: &str) -> bool {
    let lists = values_of_flag(command_line, "feature-gates").join(",");
    let value = |name: &str| {
        let mut gates = lists.split(',').filter_map(|item| item.trim().split_once('='));
        gates.rfind(|(found, _)| *found == name).map(|(_, value)| value == "true")
    };
    value(gate).or_else(|| value("AllBeta")).unwrap_or_default()
}

/// Whether loops are switched on or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switch {
    /// The loops run in kube-controller-manager.
    On,
    /// The loops do not run in kube-controller-manager.
    Off,
}

/// Returns a value of `--controllers` that switches loops on or off and keeps all other items. `loops` are canonical names.
pub fn switch_loops(list: &str, loops: &[&str], switch: Switch) -> String {
    let items = list.trim().trim_matches(['"', '\'']).split(',').map(str::trim).filter(|item| !item.is_empty());
    let is_switched = |item: &str| {
        let name = item.strip_prefix('-').unwrap_or(item);
        // A list with one name switches on the loop with this name or alias, and no other loop.
        name != "*" && loops.iter().any(|canonical| ControllersFlag::parse(name).switches_loop_on(canonical))
    };
    let mut items: Vec<String> = items.filter(|item| !is_switched(item)).map(str::to_owned).collect();
    match (items.iter().any(|item| item == "*"), switch) {
        (true, Switch::Off) => items.extend(loops.iter().map(|name| format!("-{name}"))),
        (false, Switch::On) => items.extend(loops.iter().map(|name| (*name).to_owned())),
        (true, Switch::On) | (false, Switch::Off) => {}
    }
    items.join(",")
}

/// Reads the value of `--controllers` that the next `kubeadm upgrade` will use from a `ClusterConfiguration`.
///
/// `extraArgs` is a list of names and values in v1beta4, and a map in v1beta3.
pub fn parse_kubeadm_controllers_flag(cluster_configuration: &str) -> Result<ControllersFlag, String> {
    let parsed: Value = serde_saphyr::from_str(cluster_configuration).map_err(|why| why.to_string())?;
    let value = match &parsed["controllerManager"]["extraArgs"] {
        Value::Array(list) => {
            let named = list.iter().filter(|argument| argument["name"] == "controllers");
            let values: Vec<&str> = named.filter_map(|argument| argument["value"].as_str()).collect();
            (!values.is_empty()).then(|| values.join(","))
        }
        Value::Object(map) => map.get("controllers").and_then(Value::as_str).map(str::to_owned),
        _ => None,
    };
    Ok(value.map_or_else(ControllersFlag::default, |value| ControllersFlag::parse(&value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_flag_decides_about_leader_election() {
        let without = |text: &str| disables_leader_election(&text.split(' ').map(str::to_owned).collect::<Vec<_>>());
        assert!(without("x --leader-elect=true --leader-elect=false"));
        assert!(!without("x --leader-elect=false --leader-elect=true") && !without("x --leader-elect"));
    }

    #[test]
    fn switches_and_feature_gates_are_read() {
        let line = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        for (text, expected) in [
            ("x --feature-gates=Gate=true", true),
            ("x --feature-gates Other=true,Gate=true", true),
            ("x --feature-gates=Gate=true --feature-gates=Gate=false", false),
            ("x --feature-gates=AllBeta=true", true),
            ("x --feature-gates=AllBeta=true,Gate=false", false),
            ("x", false),
        ] {
            assert_eq!(enables_beta_gate(&line(text), "Gate"), expected, "{text}");
        }
        for (text, expected) in
            [("x --on", true), ("x --on=true", true), ("x --on --on=false", false), ("x --one", false)]
        {
            assert_eq!(is_switched_on(&line(text), "on"), expected, "{text}");
        }
    }

    #[test]
    fn loops_are_switched_and_other_items_stay() {
        let loops = ["job-controller", "ttl-after-finished-controller"];
        for (list, switch, expected) in [
            ("*", Switch::Off, "*,-job-controller,-ttl-after-finished-controller"),
            (
                "*,tokencleaner,-job,-cronjob",
                Switch::Off,
                "*,tokencleaner,-cronjob,-job-controller,-ttl-after-finished-controller",
            ),
            ("*,-job,-ttl-after-finished-controller,-cronjob", Switch::On, "*,-cronjob"),
            ("job,cronjob", Switch::Off, "cronjob"),
            ("cronjob", Switch::On, "cronjob,job-controller,ttl-after-finished-controller"),
        ] {
            let new = switch_loops(list, &loops, switch);
            assert_eq!(new, expected, "{list}");
            let is_on = loops.iter().map(|name| ControllersFlag::parse(&new).switches_loop_on(name));
            assert!(is_on.eq([switch == Switch::On; 2]), "{new}");
        }
    }

    #[test]
    fn both_formats_of_kubeadm_are_read() {
        for (text, expected) in [
            ("controllerManager:\n  extraArgs:\n  - name: controllers\n    value: '*,-job-controller'\n", false),
            ("controllerManager:\n  extraArgs:\n    controllers: \"*,-job\"\n", false),
            ("controllerManager: {}\n", true),
            ("kind: ClusterConfiguration\n", true),
            ("controllerManager:\n  extraArgs:\n  - name: v\n    value: '4'\n", true),
        ] {
            assert_eq!(
                parse_kubeadm_controllers_flag(text).unwrap().switches_loop_on("job-controller"),
                expected,
                "{text}"
            );
        }
        assert!(parse_kubeadm_controllers_flag("a: [").is_err());
    }
}
