//! Flags of kube-controller-manager that are read and checked, but have no effect here.
//!
//! A command line of kube-controller-manager, or one that all services share, is therefore accepted as it is. A warning at the
//! start names the flags that ask for a behaviour that this program lacks.

use clap::{Command, parser::ValueSource, value_parser};

use super::{FlagValues, flag, switch};
use crate::{app::ProgramDefinition, duration, version};

/// Syntax of a flag's value. The field of a variant contains upstream's default value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ValueSyntax {
    Switch(bool),
    /// An integer.
    Count(&'static str),
    /// A floating-point number.
    Number(&'static str),
    Duration(&'static str),
    /// A number of bytes: `0`, `512`, `64Ki`.
    Size,
    Text,
    /// Versions of components: `1.35`, `kube=1.35`.
    Versions,
    /// The previous minor version of Kubernetes, or an empty text.
    PreviousVersion,
}

use ValueSyntax::{Count, Duration, Number, PreviousVersion, Size, Switch, Text, Versions};

/// All accepted flags, with upstream's defaults. [`flags_without_effect`] leaves out the flags that a program has itself.
const ACCEPTED: &[(&str, ValueSyntax)] = &[
    // No effect, because each controller is a process with its own credentials.
    ("use-service-account-credentials", Switch(false)),
    ("emulated-version", Versions),
    ("min-compatibility-version", Versions),
    ("enable-leader-migration", Switch(false)),
    ("leader-migration-config", Text),
    // No effect, because the headers of a front proxy do not authenticate a caller here.
    ("authentication-skip-lookup", Switch(false)),
    ("authentication-tolerate-lookup-failure", Switch(false)),
    ("requestheader-client-ca-file", Text),
    ("requestheader-allowed-names", Text),
    ("requestheader-username-headers", Text),
    ("requestheader-group-headers", Text),
    ("requestheader-extra-headers-prefix", Text),
    ("requestheader-uid-headers", Text),
    // No effect, because `SO_REUSEADDR` is always set, as Go sets it on Linux.
    ("permit-address-sharing", Switch(false)),
    ("profiling", Switch(true)),
    ("contention-profiling", Switch(false)),
    ("log-flush-frequency", Duration("5s")),
    ("log-text-split-stream", Switch(false)),
    ("log-text-info-buffer-size", Size),
    ("log-json-split-stream", Switch(false)),
    ("log-json-info-buffer-size", Size),
    // No effect, because these services have no hidden metrics.
    ("show-hidden-metrics-for-version", PreviousVersion),
    // Flags that other services of this project use.
    ("concurrent-deployment-syncs", Count("5")),
    ("concurrent-replicaset-syncs", Count("5")),
    ("concurrent-rc-syncs", Count("5")),
    ("concurrent-statefulset-syncs", Count("5")),
    ("concurrent-daemonset-syncs", Count("2")),
    ("concurrent-job-syncs", Count("5")),
    ("concurrent-cron-job-syncs", Count("5")),
    ("node-monitor-period", Duration("5s")),
    ("node-monitor-grace-period", Duration("50s")),
    ("node-startup-grace-period", Duration("1m0s")),
    ("node-eviction-rate", Number("0.1")),
    ("secondary-node-eviction-rate", Number("0.01")),
    ("unhealthy-zone-threshold", Number("0.55")),
    ("large-cluster-size-threshold", Count("50")),
    ("concurrent-service-endpoint-syncs", Count("5")),
    ("max-endpoints-per-slice", Count("100")),
    ("endpointslice-updates-batch-period", Duration("0s")),
    ("concurrent-endpoint-syncs", Count("5")),
    ("endpoint-updates-batch-period", Duration("0s")),
    ("mirroring-concurrent-service-endpoint-syncs", Count("5")),
    ("mirroring-max-endpoints-per-subset", Count("1000")),
    ("mirroring-endpointslice-updates-batch-period", Duration("0s")),
    ("concurrent-gc-syncs", Count("20")),
    ("enable-garbage-collector", Switch(true)),
    ("concurrent-ttl-after-finished-syncs", Count("5")),
    ("terminated-pod-gc-threshold", Count("12500")),
    ("root-ca-file", Text),
    ("concurrent-namespace-syncs", Count("10")),
    ("namespace-sync-period", Duration("5m0s")),
    ("concurrent-resource-quota-syncs", Count("5")),
    ("resource-quota-sync-period", Duration("5m0s")),
    ("concurrent-ephemeralvolume-syncs", Count("5")),
];

/// Adds the accepted flags that a program does not have itself, hidden from the help text.
pub(super) fn add_flags_without_effect(command: Command, definition: &ProgramDefinition) -> Command {
    command.args(flags_without_effect(definition).map(|(name, kind)| {
        let valued = |default: &'static str| flag(name, name, "").default_value(default).allow_hyphen_values(true);
        let arg = match *kind {
            Switch(default) => switch(name, default, ""),
            Count(default) => valued(default).value_parser(value_parser!(i64)),
            Number(default) => valued(default).value_parser(value_parser!(f64)),
            Duration(default) => valued(default).value_parser(duration::parse),
            Size => valued("0").value_parser(size),
            Text => valued(""),
            Versions => valued("").value_parser(versions),
            PreviousVersion => valued("").value_parser(previous_version),
        };
        arg.hide(true)
    }))
}

fn flags_without_effect(definition: &ProgramDefinition) -> impl Iterator<Item = &'static (&'static str, ValueSyntax)> {
    let own = |name: &str| {
        definition.workers_flags.iter().any(|w| w.name == name)
            || definition.single_value_flags.iter().any(|f| f.name == name)
    };
    ACCEPTED.iter().filter(move |(name, _)| !own(name))
}

/// Returns a warning that names the flags on the command line that have no effect; `None` if there is no such flag.
pub(super) fn warning_for_flags_without_effect(
    definition: &ProgramDefinition,
    values: &FlagValues<'_>,
) -> Option<String> {
    let without_effect: Vec<String> = flags_without_effect(definition)
        .filter(|(name, _)| values.0.value_source(name) == Some(ValueSource::CommandLine))
        // A boolean flag with the default value needs no warning.
        .filter(|(name, kind)| !matches!(kind, Switch(default) if values.get::<bool>(name) == *default))
        .map(|(name, _)| format!("--{name}"))
        .collect();
    match &*without_effect {
        [] => None,
        [one] => Some(format!("flag {one} has no effect here")),
        several => Some(format!("flags {} have no effect here", several.join(", "))),
    }
}

fn versions(text: &str) -> Result<String, String> {
    let minor = |version: &str| {
        let version = version.strip_prefix('v').unwrap_or(version);
        let number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        version.split_once('.').is_some_and(|(major, rest)| number(major) && rest.split('.').take(3).all(number))
    };
    let valid = |part: &str| minor(part.split_once('=').map_or(part, |(_, version)| version));
    if text.is_empty() || text.split(',').all(valid) {
        return Ok(text.to_owned());
    }
    Err(format!("{text:?} is not a version such as 1.35"))
}

fn previous_version(text: &str) -> Result<String, String> {
    let previous = version::KUBERNETES_VERSION.previous_major_and_minor;
    if text.is_empty() || text == previous {
        return Ok(text.to_owned());
    }
    Err(format!("{text:?}: only the previous minor version, {previous}, is allowed"))
}

fn size(text: &str) -> Result<String, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let units = ["", "k", "M", "G", "Ki", "Mi", "Gi"];
    if digits.parse::<u64>().is_ok() && units.contains(&&text[digits.len()..]) {
        return Ok(text.to_owned());
    }
    Err(format!("{text:?} is not a size such as 64Ki"))
}
