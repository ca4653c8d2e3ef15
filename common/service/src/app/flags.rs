//! The command line, with the names, defaults and units of upstream's flags.

mod accepted;
mod counting;
mod ranges;
mod serving;

use std::{fmt::Write as _, path::PathBuf, time::Duration};

use clap::{
    Arg, ArgAction, ArgMatches, Command,
    builder::{OsStringValueParser, TypedValueParser as _},
    error::ErrorKind,
    value_parser,
};

use super::{ProgramDefinition, values};
use crate::{
    api::WireFormat,
    client, duration,
    leader::{self, probation::ProbationSettings},
    logging,
    metrics::MetricLimits,
    runtime::LoopDefinition,
    server,
    settings::{KUBECONFIG, OperatorSettings, TunableValue},
    version,
};

/// Name of kube-controller-manager's Lease. A program that used this Lease could not lead while kube-controller-manager leads.
const BUILT_IN_LEASE: &str = "kube-controller-manager";

/// Values of all flags, checked and converted.
#[derive(Clone)]
pub struct ProgramOptions {
    /// Address and credentials of the API server.
    pub api_server_options: client::ApiServerOptions,
    /// Rate limit of each loop: requests per second, and burst. `None` sets no limit.
    pub qps_and_burst_per_loop: Option<(f64, u32)>,
    /// Format of the answers to lists and watches, for every kind that supports this format.
    pub preferred_response_format: WireFormat,
    /// Identity, Lease and times of the leader election; `None` with `--leader-elect=false` and with `--shadow`.
    pub election_settings: Option<leader::ElectionSettings>,
    /// Addresses, ports and TLS of the HTTP server.
    pub server_settings: server::ServerSettings,
    /// HTTP paths that need no permission, and how long answers to `TokenReview`s and `SubjectAccessReview`s are cached.
    pub review_options: server::ReviewOptions,
    /// Metrics that `/metrics` leaves out, and the allowed values of labels.
    pub metric_limits: MetricLimits,
    /// File with the allowed values of metric labels. The file is read only if `--allow-metric-labels` is not given.
    pub allow_metric_labels_manifest: Option<PathBuf>,
    /// Kubeconfig of the cluster that answers `TokenReview`s; `None` for the API server of the controllers.
    pub authentication_kubeconfig: Option<PathBuf>,
    /// Kubeconfig of the cluster that answers `SubjectAccessReview`s; `None` for the API server of the controllers.
    pub authorization_kubeconfig: Option<PathBuf>,
    /// Whether every caller may read all paths of the HTTP server without authentication.
    pub allows_unauthenticated_access: bool,
    /// Control loops that `--controllers` chooses; at least one.
    pub loops: Vec<LoopDefinition>,
    /// Numbers of workers, feature gates and settings of `--tune` for the loops.
    pub settings: OperatorSettings,
    /// Pause before each loop starts. Jitter of up to 100 % is added.
    pub loop_start_interval: Duration,
    /// How long the loops may take to finish during a shutdown. Zero sets no limit.
    pub shutdown_timeout: Duration,
    /// Whether a standby fills its caches. If false, the loops start only when this process becomes the leader.
    pub is_standby_warm: bool,
    /// Number of worker threads of the runtime, 1 to 64.
    pub worker_threads: usize,
    /// Format and verbosity of the log.
    pub log_settings: logging::LogSettings,
    /// One line for each flag or feature gate that is accepted and has no effect.
    pub command_line_warnings: Vec<String>,
    /// Names and values of all flags, for the log at the start.
    pub all_flag_values: Vec<(String, String)>,
}

/// Result of parsing a valid command line.
pub enum ParsedCommandLine {
    /// The process has to run the controller with these options.
    Run(Box<ProgramOptions>),
    /// The process has to print this text and to exit with code 0.
    Print(String),
}

fn flag(name: &'static str, value_name: &'static str, help: impl Into<String>) -> Arg {
    Arg::new(name).long(name).value_name(value_name).help(help.into())
}

/// Returns a boolean flag in Go's form: `--flag` means `--flag=true`.
fn switch(name: &'static str, default: bool, help: &'static str) -> Arg {
    flag(name, "BOOL", help)
        .num_args(0..=1)
        .require_equals(true)
        .default_missing_value("true")
        .default_value(default.to_string())
        .value_parser(values::parse_boolean)
}

fn time(name: &'static str, default: Duration, help: &'static str) -> Arg {
    flag(name, "DURATION", help).default_value(duration::format(default)).value_parser(duration::parse)
}

/// Returns a flag for a number, which may be negative.
fn number(name: &'static str, default: impl ToString, help: &'static str) -> Arg {
    flag(name, "N", help).default_value(default.to_string()).allow_hyphen_values(true)
}

/// Returns a flag for a path. An empty value means that the flag is not set.
fn file(name: &'static str, help: impl Into<String>) -> Arg {
    flag(name, "FILE", help).value_parser(OsStringValueParser::new().map(PathBuf::from))
}

/// Returns a flag for a comma-separated list. The lists of repeated flags are joined.
fn list(name: &'static str, help: impl Into<String>) -> Arg {
    flag(name, "LIST", help).value_delimiter(',').action(ArgAction::Append)
}

/// Returns clap's description of all flags of a program. Flags of kube-controller-manager without an effect here are hidden.
pub fn clap_command(definition: &ProgramDefinition) -> Command {
    let election = leader::ElectionSettings::new("", "", String::new());
    let names: Vec<_> = definition.loops.iter().map(|l| l.name).collect();
    let workers = definition
        .workers_flags
        .iter()
        .map(|flag| number(flag.name, flag.default_worker_count, flag.help).value_parser(value_parser!(i64)));
    let tunes = definition.all_value_flags().map(|tune| {
        let default = values::format_tunable_value(tune.default_value);
        match tune.default_value {
            TunableValue::Duration(_) => flag(tune.name, "DURATION", tune.help).default_value(default),
            TunableValue::Count(_) | TunableValue::Integer(_) | TunableValue::Ratio(_) => {
                number(tune.name, default, tune.help)
            }
            TunableValue::Switch(on) => switch(tune.name, on, tune.help).value_parser(value_parser!(String)),
            TunableValue::File(_) => flag(tune.name, "FILE", tune.help).default_value(default).hide_default_value(true),
        }
    });
    let mut command = Command::new(definition.name)
        .about(definition.about)
        .disable_version_flag(true)
        .disable_help_subcommand(true)
        .override_usage(format!("{} [flags]", definition.name))
        .max_term_width(120)
        .after_help(appendix(definition))
        .next_help_heading("API server")
        .args([
            file(KUBECONFIG.name, KUBECONFIG.help),
            flag("master", "URL", "Address of the API server; overrides the address in the kubeconfig"),
            number(
                "kube-api-qps",
                0,
                "Requests per second that each controller may send. 0 or less: no limit in the client, only the \
                 API server's priority and fairness",
            )
            .value_parser(value_parser!(f64)),
            number(
                "kube-api-burst",
                30,
                "Burst of requests that each controller may send if --kube-api-qps sets a limit",
            )
            .value_parser(value_parser!(i64)),
            flag(
                "kube-api-content-type",
                "TYPE",
                "Media type of lists and watches: application/vnd.kubernetes.protobuf or application/json. Custom \
                 resources, all writes, and objects with parts that a controller copies without decoding them are \
                 always JSON",
            )
            .default_value(WireFormat::Protobuf.media_type())
            .value_parser([WireFormat::Protobuf, WireFormat::Json].map(WireFormat::media_type)),
        ])
        .next_help_heading("Controllers")
        .arg(
            list(
                "controllers",
                format!(
                    "Which controllers to run: '*' for all, 'foo' for foo, '-foo' for all but foo. Here: {}",
                    names.join(", ")
                ),
            )
            .default_value("*")
            .allow_hyphen_values(true),
        )
        .args(workers)
        .args(tunes)
        .args([
            time("controller-start-interval", Duration::ZERO, "Pause before each controller starts"),
            time(
                "controller-shutdown-timeout",
                Duration::from_secs(10),
                "How long controllers may take to finish their work during a shutdown; 0: no limit",
            ),
            flag("feature-gates", "NAME=BOOL,...", "Feature gates to switch on or off, listed below")
                .action(ArgAction::Append),
            flag("tune", "NAME=VALUE,...", "Values to change that upstream does not offer as flags, listed below")
                .action(ArgAction::Append),
            switch("shadow", false, "Decide and count, but write nothing; takes no part in leader election"),
            flag("threads", "N", "Number of worker threads; one is enough for most clusters")
                .default_value("1")
                .value_parser(value_parser!(u16).range(1..=64)),
        ])
        .next_help_heading("Leader election")
        .args([
            switch("leader-elect", true, "Whether to acquire a Lease before writing anything"),
            time(
                "leader-elect-lease-duration",
                election.lease_duration,
                "How long other candidates wait after the last renewal of the Lease",
            ),
            time(
                "leader-elect-renew-deadline",
                election.renew_deadline,
                "How long a leader keeps writing without a successful renewal",
            ),
            time(
                "leader-elect-retry-period",
                election.retry_period,
                "Pause between attempts to acquire or renew the Lease",
            ),
            switch(
                "lead-without-release",
                false,
                "Take a Lease that does not exist, instead of creating it held; only where nothing else runs these loops",
            ),
            flag("leader-elect-resource-lock", "KIND", "Kind of the lock; only leases is supported")
                .default_value("leases"),
            flag("leader-elect-resource-name", "NAME", "Name of the Lease").default_value(definition.name),
            flag("leader-elect-resource-namespace", "NAMESPACE", "Namespace of the Lease").default_value("kube-system"),
            switch("standby-warm", true, "Whether a standby keeps its caches filled, so that it can take over at once"),
            time(
                "probation",
                Duration::ZERO,
                "How long a version that has not led before has to lead until it is ready. Its standby asks the \
                 leader of another version for the Lease; if it fails within this time, another version takes over. \
                 0: no probation",
            ),
        ]);
    command = serving::add_serving_flags(command, definition.name);
    command = counting::add_metric_flags(command).next_help_heading("Logs").args([
        flag("v", "N", "Verbosity of the log: 0 (what an operator must know) to 10")
            .short('v')
            .default_value("0")
            .value_parser(value_parser!(u8)),
        flag("vmodule", "LIST", "Verbosity of single source files: file=N,...")
            .default_value("")
            .hide_default_value(true)
            .value_parser(logging::LogSettings::parse_module_verbosities),
        flag("logging-format", "FORMAT", "Format of the log: text or json")
            .default_value("text")
            .value_parser(["text", "json"]),
    ]);
    let version = Arg::new("version").long("version").help("Print the version and exit").action(ArgAction::SetTrue);
    accepted::add_flags_without_effect(command.next_help_heading(None).arg(version), definition)
}

/// Returns the end of the help text: the feature gates and the settings of `--tune`.
fn appendix(definition: &ProgramDefinition) -> String {
    let mut text = String::from("Feature gates:\n");
    for gate in definition.all_feature_gates() {
        let note = if gate.is_locked { "locked" } else { "default" };
        // Writing into a string cannot fail.
        let _ = writeln!(text, "  {} [{note}: {}]\n          {}", gate.name, gate.is_on_by_default, gate.help);
    }
    text.push_str("\nValues for --tune:\n");
    for tune in definition.all_tunables() {
        let _ = writeln!(
            text,
            "  {} [default: {}]\n          {}",
            tune.name,
            values::format_tunable_value(tune.default_value),
            tune.help
        );
    }
    text
}

/// Replaces underscores in the name of a flag by hyphens, as upstream does.
fn normalize(argument: String) -> String {
    let Some(rest) = argument.strip_prefix("--") else { return argument };
    match rest.split_once('=') {
        Some((name, value)) => format!("--{}={value}", name.replace('_', "-")),
        None => format!("--{}", rest.replace('_', "-")),
    }
}

/// Joins the lines of an error of clap into one line without its usage text.
fn one_line_error(error: &clap::Error) -> String {
    let text = error.to_string();
    let mut said = String::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if line.starts_with("Usage:") || line.starts_with("For more information") {
            break;
        }
        let line = line.strip_prefix("error: ").unwrap_or(line);
        if !said.is_empty() {
            said.push_str(if line.starts_with("tip:") { "; " } else { " " });
        }
        said.push_str(line.strip_prefix("tip: ").unwrap_or(line));
    }
    said
}

/// Parses a command line. The first argument is the name of the program. The message of an error is a single line.
pub fn parse_command_line(
    definition: &ProgramDefinition,
    arguments: impl IntoIterator<Item = String>,
    identity: impl FnOnce() -> String,
) -> Result<ParsedCommandLine, String> {
    let matches = match clap_command(definition).try_get_matches_from(arguments.into_iter().map(normalize)) {
        Ok(matches) => matches,
        Err(error) if matches!(error.kind(), ErrorKind::DisplayHelp) => {
            return Ok(ParsedCommandLine::Print(error.to_string()));
        }
        Err(error) => return Err(one_line_error(&error)),
    };
    if matches.get_flag("version") {
        let (name, version, v) = (definition.name, definition.version, version::KUBERNETES_VERSION);
        return Ok(ParsedCommandLine::Print(format!(
            "{name} {version} (Kubernetes {}, commit {})\n",
            v.git_version, v.commit
        )));
    }
    options(definition, &FlagValues(&matches), identity).map(|options| ParsedCommandLine::Run(Box::new(options)))
}

fn options(
    definition: &ProgramDefinition,
    values: &FlagValues<'_>,
    identity: impl FnOnce() -> String,
) -> Result<ProgramOptions, String> {
    let mut warnings: Vec<String> =
        accepted::warning_for_flags_without_effect(definition, values).into_iter().collect();
    let shadow: bool = values.get("shadow");
    let mut settings = OperatorSettings::new().with_shadow_mode(shadow);
    for workers in definition.workers_flags {
        let count: i64 = values.get(workers.name);
        ranges::check_range(workers.name, count)?;
        // A negative number counts as 0 workers. As in upstream, some flags allow 0.
        let wanted = usize::try_from(count).unwrap_or(0);
        if wanted < workers.min_worker_count {
            return Err(format!(
                "{} must be greater than {}, but got {count}",
                workers.name,
                workers.min_worker_count - 1
            ));
        }
        settings = settings.with_worker_count(workers.name, wanted);
    }
    for tune in definition.all_value_flags() {
        let text: String = values.get(tune.name);
        if let Ok(number) = text.parse() {
            ranges::check_range(tune.name, number)?;
        }
        let value = values::parse_tunable_value(tune, &text).map_err(|e| format!("--{}: {e}", tune.name))?;
        ranges::check_share(tune.name, &text, value)?;
        settings = settings.with_tunable(tune.name, value);
    }
    settings = values::parse_feature_gates(
        &definition.all_feature_gates(),
        &values.all("feature-gates"),
        settings,
        &mut warnings,
    )?;
    settings = values::parse_tunables(&definition.all_tunables(), &values.all("tune"), settings)?;
    if let Some(kubeconfig) = values.path(KUBECONFIG.name) {
        settings = settings.with_tunable(KUBECONFIG.name, values::file_value(&kubeconfig.to_string_lossy()));
    }
    let is_json = values.get::<String>("logging-format") == "json";
    let is_candidate = values.get("leader-elect") && !shadow;
    Ok(ProgramOptions {
        server_settings: serving::read_server_settings(values, definition.name, &mut warnings)?,
        api_server_options: client::ApiServerOptions {
            kubeconfig: values.path("kubeconfig"),
            master: values.option("master").filter(|master: &String| !master.is_empty()),
        },
        qps_and_burst_per_loop: rate(values)?,
        preferred_response_format: WireFormat::from_media_type(&values.get::<String>("kube-api-content-type"))
            .unwrap_or_default(),
        election_settings: is_candidate.then(|| election(definition, values, identity)).transpose()?,
        review_options: serving::read_review_options(values),
        metric_limits: counting::read_metric_limits(values)?,
        allow_metric_labels_manifest: values.path("allow-metric-labels-manifest"),
        authentication_kubeconfig: values.path("authentication-kubeconfig"),
        authorization_kubeconfig: values.path("authorization-kubeconfig"),
        allows_unauthenticated_access: values.get("insecure-debug"),
        loops: values::choose_loops(definition.loops, &values.all("controllers"))?,
        settings,
        loop_start_interval: values.get("controller-start-interval"),
        shutdown_timeout: values.get("controller-shutdown-timeout"),
        is_standby_warm: values.get("standby-warm"),
        worker_threads: values.get::<u16>("threads").into(),
        log_settings: logging::LogSettings {
            format: if is_json { logging::LogFormat::Json } else { logging::LogFormat::Text },
            verbosity: values.get("v"),
            module_verbosities: values.get("vmodule"),
        },
        command_line_warnings: warnings,
        all_flag_values: values.sorted_texts(),
    })
}

fn rate(values: &FlagValues<'_>) -> Result<Option<(f64, u32)>, String> {
    let qps: f64 = values.get("kube-api-qps");
    let burst: i64 = values.get("kube-api-burst");
    if !qps.is_finite() {
        return Err(format!("--kube-api-qps must be a number, but is {qps}"));
    }
    if qps <= 0.0 {
        return Ok(None);
    }
    match u32::try_from(burst) {
        Ok(burst) if burst > 0 => Ok(Some((qps, burst))),
        _ => Err(format!("--kube-api-burst must be greater than 0 if --kube-api-qps sets a limit, but is {burst}")),
    }
}

fn election(
    definition: &ProgramDefinition,
    values: &FlagValues<'_>,
    identity: impl FnOnce() -> String,
) -> Result<leader::ElectionSettings, String> {
    let kind: String = values.get("leader-elect-resource-lock");
    if kind != "leases" {
        return Err(format!("--leader-elect-resource-lock must be \"leases\", but is {kind:?}"));
    }
    let name: String = values.get("leader-elect-resource-name");
    let namespace: String = values.get("leader-elect-resource-namespace");
    for (flag, value) in [("name", &name), ("namespace", &namespace)] {
        let is_valid = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'.';
        if value.is_empty() || !value.bytes().all(is_valid) {
            return Err(format!("--leader-elect-resource-{flag}: {value:?} is not a valid name"));
        }
    }
    if name == BUILT_IN_LEASE {
        return Err(format!("--leader-elect-resource-name: {name} is the Lease of the built-in controllers"));
    }
    // The version in the Lease includes the commit, so that two builds of one version differ.
    let version = format!("{}+{}", definition.version, version::KUBERNETES_VERSION.commit);
    let settings = leader::ElectionSettings {
        lease_duration: values.get("leader-elect-lease-duration"),
        renew_deadline: values.get("leader-elect-renew-deadline"),
        retry_period: values.get("leader-elect-retry-period"),
        leads_without_release: values.get("lead-without-release"),
        probation: values
            .option("probation")
            .filter(|time: &Duration| !time.is_zero())
            .map(|time| ProbationSettings { version, probation_time: time }),
        ..leader::ElectionSettings::new(&namespace, &name, identity())
    };
    settings.check_timing().map(|()| settings).map_err(|why| format!("--leader-elect-*: {why}"))
}

struct FlagValues<'a>(&'a ArgMatches);

impl FlagValues<'_> {
    fn option<T: Clone + Send + Sync + 'static>(&self, name: &str) -> Option<T> {
        self.0.get_one(name).cloned()
    }

    /// Returns the value of a flag that has a default.
    fn get<T: Clone + Default + Send + Sync + 'static>(&self, name: &str) -> T {
        self.option(name).unwrap_or_default()
    }

    /// Returns the path in the value of a flag; `None` for an empty value, as in upstream.
    fn path(&self, name: &str) -> Option<PathBuf> {
        self.option(name).filter(|path: &PathBuf| !path.as_os_str().is_empty())
    }

    fn all<T: Clone + Send + Sync + 'static>(&self, name: &str) -> Vec<T> {
        self.0.get_many(name).unwrap_or_default().cloned().collect()
    }

    /// Returns all flags and their values as text, sorted by name.
    fn sorted_texts(&self) -> Vec<(String, String)> {
        let text = |id: &clap::Id| {
            let values: Vec<_> = self.0.get_raw(id.as_str())?.map(|value| value.to_string_lossy()).collect();
            Some((id.to_string(), values.join(",")))
        };
        let mut all: Vec<_> = self.0.ids().filter_map(text).collect();
        all.sort();
        all
    }
}

#[cfg(test)]
mod tests;
