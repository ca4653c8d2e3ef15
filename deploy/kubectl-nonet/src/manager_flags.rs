//! The flags of kube-controller-manager, and what they switch on.

use serde_json::Value;

/// Loops of Nonet and the older names that kube-controller-manager also answers to.
const ALIASES: &[(&str, &str)] = &[
    ("deployment", "deployment-controller"),
    ("replicaset", "replicaset-controller"),
    ("replicationcontroller", "replicationcontroller-controller"),
    ("statefulset", "statefulset-controller"),
    ("daemonset", "daemonset-controller"),
    ("job", "job-controller"),
    ("ttl-after-finished", "ttl-after-finished-controller"),
    ("cronjob", "cronjob-controller"),
    ("endpointslice", "endpointslice-controller"),
    ("endpointslicemirroring", "endpointslice-mirroring-controller"),
    ("endpoint", "endpoints-controller"),
    ("garbagecollector", "garbage-collector-controller"),
    ("nodelifecycle", "node-lifecycle-controller"),
    ("podgc", "pod-garbage-collector-controller"),
];

/// The value of `--controllers`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Controllers(Vec<String>);

impl Default for Controllers {
    fn default() -> Self {
        Self(vec!["*".to_owned()])
    }
}

impl Controllers {
    /// Reads one value of the flag.
    pub fn parse(value: &str) -> Self {
        let entries = value.trim().trim_matches(['"', '\'']).split(',').map(str::trim);
        Self(entries.filter(|entry| !entry.is_empty()).map(str::to_owned).collect())
    }

    /// Whether the loop of this canonical name runs: the first entry that names it decides, and `*` if none does.
    ///
    /// Upstream: `controller-manager/app/helper.go`, `IsControllerEnabled`. None of the loops in question is off by
    /// default.
    pub fn contains(&self, name: &str) -> bool {
        let canonical = |entry: &str| -> String {
            ALIASES.iter().find(|(alias, _)| *alias == entry).map_or(entry, |(_, name)| name).to_owned()
        };
        for entry in &self.0 {
            match entry.strip_prefix('-') {
                Some(off) if canonical(off) == name => return false,
                None if canonical(entry) == name => return true,
                _ => {}
            }
        }
        self.0.iter().any(|entry| entry == "*")
    }
}

/// The value of a flag on a command line. The last one counts; `None` if there is none.
fn flag(words: &[&str], name: &str) -> Vec<String> {
    let mut values = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let Some(rest) = word.strip_prefix("--").and_then(|word| word.strip_prefix(name)) else { continue };
        if let Some(value) = rest.strip_prefix('=') {
            values.push(value.to_owned());
        } else if rest.is_empty() {
            values.extend(words.next().map(|value| (*value).to_owned()));
        }
    }
    values
}

/// Reads `--controllers` from the command line of a kube-controller-manager. Repeated flags add up.
///
/// Arguments of a shell are split at white space.
pub fn controllers(command_line: &[String]) -> Controllers {
    let words: Vec<&str> = command_line.iter().flat_map(|word| word.split_whitespace()).collect();
    let values = flag(&words, "controllers");
    if values.is_empty() { Controllers::default() } else { Controllers::parse(&values.join(",")) }
}

/// Whether a command line switches leader election off, so that there is no Lease.
pub fn without_election(command_line: &[String]) -> bool {
    let words: Vec<&str> = command_line.iter().flat_map(|word| word.split_whitespace()).collect();
    flag(&words, "leader-elect").last().is_some_and(|value| value == "false")
}

/// Reads the flag that `kubeadm upgrade` will give to kube-controller-manager from a `ClusterConfiguration`.
///
/// `extraArgs` is a list of names and values in v1beta4, and a map in v1beta3.
pub fn kubeadm_controllers(cluster_configuration: &str) -> Result<Controllers, String> {
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
    Ok(value.map_or_else(Controllers::default, |value| Controllers::parse(&value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn the_first_entry_that_names_a_loop_decides() {
        for (value, name, expected) in [
            ("*", "job-controller", true),
            ("*,-job-controller", "job-controller", false),
            ("-job-controller,*", "job-controller", false),
            ("*,-job", "job-controller", false),
            ("*,-job,job-controller", "job-controller", false),
            ("job-controller,-job", "job-controller", true),
            ("*,-endpoint", "endpoints-controller", false),
            ("*,-endpoint", "endpointslice-controller", true),
            ("*,-nodelifecycle", "taint-eviction-controller", true),
            ("job", "cronjob-controller", false),
            ("bootstrapsigner", "job-controller", false),
            ("\"*,-job\"", "job-controller", false),
            ("", "job-controller", false),
        ] {
            assert_eq!(Controllers::parse(value).contains(name), expected, "{name} of {value:?}");
        }
    }

    #[test]
    fn command_lines() {
        for (text, expected) in [
            ("kube-controller-manager --leader-elect=true", true),
            ("kube-controller-manager --controllers=*,-job --v=2", false),
            ("kube-controller-manager --controllers *,-job --v=2", false),
            ("kube-controller-manager --controllers=* --controllers=-job", false),
            ("kube-controller-manager --controllers-other=-job", true),
        ] {
            assert_eq!(controllers(&line(text)).contains("job-controller"), expected, "{text}");
        }
        let shell =
            ["sh".to_owned(), "-c".to_owned(), "exec kube-controller-manager --controllers=*,-job 2>&1".to_owned()];
        assert!(!controllers(&shell).contains("job-controller"));
        assert!(without_election(&line("x --leader-elect=false")) && !without_election(&line("x --leader-elect")));
    }

    #[test]
    fn both_forms_of_kubeadm() {
        for (text, expected) in [
            ("controllerManager:\n  extraArgs:\n  - name: controllers\n    value: '*,-job-controller'\n", false),
            ("controllerManager:\n  extraArgs:\n    controllers: \"*,-job\"\n", false),
            ("controllerManager: {}\n", true),
            ("kind: ClusterConfiguration\n", true),
            ("controllerManager:\n  extraArgs:\n  - name: v\n    value: '4'\n", true),
        ] {
            assert_eq!(kubeadm_controllers(text).unwrap().contains("job-controller"), expected, "{text}");
        }
        assert!(kubeadm_controllers("a: [").is_err());
    }
}
