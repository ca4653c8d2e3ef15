//! Finds out from a command line of kube-controller-manager which control loops are switched on.

use crate::names;

/// Parsed value of `--controllers`: the items of the list, in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllersFlag(pub(crate) Vec<ControllersFlagItem>);

/// One item of `--controllers`, such as `*` or `-job-controller`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ControllersFlagItem {
    /// Whether the item switches the loop on; `false` if the item begins with `-`.
    pub(crate) is_on: bool,
    /// Canonical name of the loop, or `*` for all loops.
    pub(crate) name: String,
}

impl Default for ControllersFlag {
    /// Returns upstream's default, `*`.
    fn default() -> Self {
        Self::parse("*")
    }
}

impl ControllersFlag {
    /// Parses a value of `--controllers`, and replaces aliases of loops by their canonical names.
    pub fn parse(value: &str) -> Self {
        let entry = |text: &str| {
            let (is_on, name) = text.strip_prefix('-').map_or((true, text), |name| (false, name));
            ControllersFlagItem { is_on, name: names::canonical_controller_name(name).unwrap_or(name).to_owned() }
        };
        let entries = value.trim().trim_matches(['"', '\'']).split(',').map(str::trim);
        Self(entries.filter(|text| !text.is_empty()).map(entry).collect())
    }

    /// Reads the `--controllers` flags of a command line. Items of repeated flags are joined; without a flag, upstream's
    /// default applies.
    pub fn from_command_line(command_line: &[String]) -> Self {
        let values = values_of_flag(command_line, "controllers");
        if values.is_empty() { Self::default() } else { Self::parse(&values.join(",")) }
    }

    /// Whether `--controllers` switches on the loop with this canonical name, which must be a loop that is on by default. The
    /// first item that names the loop decides; without such an item, `*` decides.
    ///
    /// Upstream: `controller-manager/app/helper.go`, `IsControllerEnabled`.
    pub fn switches_loop_on(&self, name: &str) -> bool {
        let of_all = || self.0.iter().any(|entry| entry.is_on && entry.name == "*");
        self.0.iter().find(|entry| entry.name == name).map_or_else(of_all, |entry| entry.is_on)
    }
}

/// Returns the canonical names of all loops of kube-controller-manager 1.36, in upstream's order.
pub fn loop_names() -> impl Iterator<Item = &'static str> {
    names::CONTROLLER_NAMES_AND_ALIASES.iter().map(|(name, _)| *name)
}

/// Returns all values of a flag on a command line, in order. An argument with several words, as after `sh -c`, is split.
pub fn values_of_flag(command_line: &[String], name: &str) -> Vec<String> {
    let mut words =
        command_line.iter().flat_map(|word| word.split_whitespace()).map(|word| word.replace(['"', '\''], ""));
    let mut values = Vec::new();
    while let Some(word) = words.next() {
        let Some(rest) = word.strip_prefix("--").and_then(|word| word.strip_prefix(name)) else { continue };
        if let Some(value) = rest.strip_prefix('=') {
            values.push(value.to_owned());
        } else if rest.is_empty() {
            values.extend(words.next());
        }
    }
    values
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
            assert_eq!(ControllersFlag::parse(value).switches_loop_on(name), expected, "{name} of {value:?}");
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
            assert_eq!(
                ControllersFlag::from_command_line(&line(text)).switches_loop_on("job-controller"),
                expected,
                "{text}"
            );
        }
        let shell = ["sh", "-c", "exec kube-controller-manager --controllers='*,-job' 2>&1"].map(str::to_owned);
        assert!(!ControllersFlag::from_command_line(&shell).switches_loop_on("job-controller"));
        assert_eq!(values_of_flag(&line("x --leader-elect=false"), "leader-elect"), ["false"]);
        assert!(values_of_flag(&line("x --leader-elect"), "leader-elect").is_empty());
    }
}
