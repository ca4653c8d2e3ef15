//! Reads flags of kube-controller-manager from command lines and from kubeadm's configuration.

use common::built_in_flags::{ControllersFlag, values_of_flag};
use serde_json::Value;

/// Whether the command line of a kube-controller-manager disables leader election. A manager without election has no Lease.
pub fn disables_leader_election(command_line: &[String]) -> bool {
    values_of_flag(command_line, "leader-elect").last().is_some_and(|value| value == "false")
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
