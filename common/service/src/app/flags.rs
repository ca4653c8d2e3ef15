//! The command line: upstream's names, defaults and units.

mod accepted;
mod counting;
mod ranges;
mod serving;

use std::{fmt::Write as _, path::PathBuf, time::Duration};

use clap::{
    Arg, ArgAction, ArgMatches, Command,
    builder::{OsStringValueParser, TypedValueParser},
    error::ErrorKind,
};

use super::{Definition, values};
use crate::names;
use crate::{
    client, duration,
    leader::{self, probation::Probation},
    logging,
    metrics::Limits,
    runtime::LoopDefinition,
    server,
    settings::{MIN_RESYNC_PERIOD, Settings, TuneValue},
    version,
};

/// Upstream's own Lease: whoever shares it would switch the built-in controllers off, or be switched off by them.
const BUILT_IN_LEASE: &str = "kube-controller-manager";

/// What the command line says.
#[derive(Clone)]
pub struct Options {
    /// Where the API server is.
    pub client: client::Options,
    /// Requests a second and at once, for each loop; no limit otherwise.
    pub rate: Option<(f64, u32)>,
    /// Who stands for which Lease; without election this process always leads.
    pub election: Option<leader::Settings>,
    /// What is served.
    pub server: server::Settings,
    /// How the permission to read it is reviewed.
    pub reviews: server::ReviewOptions,
    /// What is not counted.
    pub metrics: Limits,
    /// The file that says what else is not, if everything is counted so far.
    pub metrics_manifest: Option<PathBuf>,
    /// The kubeconfig of who is asked whose a token is, if that is somebody else.
    pub authentication: Option<PathBuf>,
    /// The kubeconfig of who is asked who may read what, if that is somebody else.
    pub authorization: Option<PathBuf>,
    /// Whether everybody may read everything that is served.
    pub insecure_debug: bool,
    /// The loops to run.
    pub loops: Vec<LoopDefinition>,
    /// What loops look at.
    pub settings: Settings,
    /// Pause before each loop starts, before jitter.
    pub start_interval: Duration,
    /// How long loops may take to finish; forever if zero.
    pub shutdown_timeout: Duration,
    /// Whether a standby fills its caches.
    pub standby_warm: bool,
    /// Threads of the runtime.
    pub threads: usize,
    /// How to log.
    pub logging: logging::Settings,
    /// What was wrong and is ignored.
    pub warnings: Vec<String>,
    /// All flags and their values, for the log.
    pub given: Vec<(String, String)>,
}

/// What to do.
pub enum Parsed {
    /// Run.
    Run(Box<Options>),
    /// Print this and end well.
    Print(String),
}

fn flag(group: &'static str, name: &'static str, help: impl Into<String>) -> Arg {
    let help: String = help.into();
    Arg::new(name).long(name).help_heading(group).help(help).action(ArgAction::Set)
}

fn switch(group: &'static str, name: &'static str, default: bool, help: &'static str) -> Arg {
    flag(group, name, help)
        .value_name("BOOL")
        .num_args(0..=1)
        .require_equals(true)
        .default_missing_value("true")
        .default_value(if default { "true" } else { "false" })
        .value_parser(values::boolean)
}

fn time(group: &'static str, name: &'static str, default: Duration, help: &'static str) -> Arg {
    flag(group, name, help)
        .value_name("DURATION")
        .default_value(duration::format(default))
        .value_parser(duration::parse)
}

/// A path, or nothing: an empty one stands for none.
fn path() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().map(PathBuf::from)
}

/// The flags of a program.
fn command(definition: &Definition) -> Command {
    accepted::add(own(definition), definition)
}

/// The flags that do something.
fn own(definition: &Definition) -> Command {
    const API: &str = "API server";
    const LOOPS: &str = "Controllers";
    const ELECTION: &str = "Leader election";
    const LOGS: &str = "Logs";
    let election = leader::Settings::new("", "", String::new());
    let names: Vec<_> = definition.loops.iter().map(|l| l.name).collect();
    let mut command = Command::new(definition.name)
        .about(definition.about)
        .disable_version_flag(true)
        .disable_help_subcommand(true)
        .override_usage(format!("{} [flags]", definition.name))
        .max_term_width(120)
        .arg(flag(API, "kubeconfig", "Path of a kubeconfig; inside a cluster the Pod's own credentials are used").value_name("FILE").value_parser(path()))
        .arg(flag(API, "master", "Address of the API server; overrides the one in the kubeconfig").value_name("URL"))
        .arg(flag(API, "kube-api-qps", "Requests a second that each controller may send. 0 or less: no limit of the client's, the API server's priority and fairness governs").value_name("N").default_value("0").allow_hyphen_values(true).value_parser(clap::value_parser!(f64)))
        .arg(flag(API, "kube-api-burst", "Requests at once that each controller may send, where --kube-api-qps is given").value_name("N").default_value("30").allow_hyphen_values(true).value_parser(clap::value_parser!(i64)))
        .arg(flag(LOOPS, "controllers", format!("Which controllers to run: '*' for all, 'foo' for foo, '-foo' for all but foo. Here: {}", names.join(", "))).value_name("LIST").default_value("*").allow_hyphen_values(true).value_delimiter(',').action(ArgAction::Append));
    for workers in definition.workers {
        command = command.arg(
            flag(LOOPS, workers.name, workers.help)
                .value_name("N")
                .default_value(workers.default.to_string())
                .allow_hyphen_values(true)
                .value_parser(clap::value_parser!(i64)),
        );
    }
    for tune in definition.flags.iter().chain([&MIN_RESYNC_PERIOD]) {
        let arg = flag(LOOPS, tune.name, tune.help).default_value(values::shown(tune.default));
        command = command.arg(match tune.default {
            TuneValue::Duration(_) => arg.value_name("DURATION"),
            TuneValue::Count(_) | TuneValue::Integer(_) | TuneValue::Ratio(_) => {
                arg.value_name("N").allow_hyphen_values(true)
            }
            TuneValue::Switch(_) => {
                arg.value_name("BOOL").num_args(0..=1).require_equals(true).default_missing_value("true")
            }
        });
    }
    command = command
        .arg(time(LOOPS, "controller-start-interval", Duration::ZERO, "Pause before each controller starts"))
        .arg(time(
            LOOPS,
            "controller-shutdown-timeout",
            Duration::from_secs(10),
            "How long controllers may take to finish what they are doing; 0: as long as it takes",
        ))
        .arg(
            flag(LOOPS, "feature-gates", "Feature gates to switch, listed below")
                .value_name("NAME=BOOL,...")
                .action(ArgAction::Append),
        )
        .arg(
            flag(LOOPS, "tune", "Values to change that are fixed upstream, listed below")
                .value_name("NAME=VALUE,...")
                .action(ArgAction::Append),
        )
        .arg(switch(LOOPS, "shadow", false, "Compute and count, write nothing; takes no part in leader election"))
        .arg(
            flag(LOOPS, "threads", "Threads to work with; one is enough for most clusters")
                .value_name("N")
                .default_value("1")
                .value_parser(clap::value_parser!(u16).range(1..=64)),
        )
        .arg(switch(ELECTION, "leader-elect", true, "Whether to hold a Lease before doing anything"))
        .arg(time(
            ELECTION,
            "leader-elect-lease-duration",
            election.lease_duration,
            "How long others wait after the Lease was last renewed",
        ))
        .arg(time(
            ELECTION,
            "leader-elect-renew-deadline",
            election.renew_deadline,
            "How long a leader goes on without renewing",
        ))
        .arg(time(
            ELECTION,
            "leader-elect-retry-period",
            election.retry_period,
            "Pause between attempts to acquire or renew",
        ))
        .arg(
            flag(ELECTION, "leader-elect-resource-lock", "Kind of the lock; there is only one")
                .value_name("KIND")
                .default_value("leases"),
        )
        .arg(
            flag(ELECTION, "leader-elect-resource-name", "Name of the Lease")
                .value_name("NAME")
                .default_value(definition.name),
        )
        .arg(
            flag(ELECTION, "leader-elect-resource-namespace", "Namespace of the Lease")
                .value_name("NAMESPACE")
                .default_value("kube-system"),
        )
        .arg(switch(
            ELECTION,
            "standby-warm",
            true,
            "Whether a standby keeps its caches filled, so that it can take over at once",
        ))
        .arg(time(
            ELECTION,
            "probation",
            Duration::ZERO,
            "How long a version that has not led before has to lead until it is ready; it asks the leader of another version for the Lease, which another version takes back if it dies before. 0: versions do not matter",
        ));
    counting::add(serving::add(command, definition.name))
        .arg(
            flag(LOGS, "v", "How much to log: 0 (what an operator must know) to 10")
                .short('v')
                .value_name("N")
                .default_value("0")
                .value_parser(clap::value_parser!(u8)),
        )
        .arg(
            flag(LOGS, "vmodule", "How much to log in single files: file=N,...")
                .value_name("LIST")
                .default_value("")
                .hide_default_value(true)
                .value_parser(|text: &str| logging::Settings::parse_modules(text)),
        )
        .arg(
            flag(LOGS, "logging-format", "text or json")
                .value_name("FORMAT")
                .default_value("text")
                .value_parser(["text", "json"]),
        )
        .arg(Arg::new("version").long("version").help("Print the version and end").action(ArgAction::SetTrue))
        .after_help(appendix(definition))
}

/// Gates and tuned values, for the end of the help text.
fn appendix(definition: &Definition) -> String {
    let mut text = String::from("Feature gates:\n");
    for gate in definition.all_gates() {
        let note = if gate.locked { "locked" } else { "default" };
        // Writing into a string cannot fail.
        let _ = writeln!(text, "  {} [{note}: {}]\n          {}", gate.name, gate.default, gate.help);
    }
    text.push_str("\nValues for --tune:\n");
    for tune in definition.all_tunes() {
        let _ = writeln!(text, "  {} [default: {}]\n          {}", tune.name, values::shown(tune.default), tune.help);
    }
    text
}

fn version_line(definition: &Definition) -> String {
    let v = version::VERSION;
    format!("{} {} (Kubernetes {}, commit {})", definition.name, definition.version, v.git_version, v.commit)
}

/// The version that a Lease shows: with the commit, so that two builds of one version differ.
fn full_version(definition: &Definition) -> String {
    format!("{}+{}", definition.version, version::VERSION.commit)
}

/// Flag names may be written with underscores.
fn normalize(argument: String) -> String {
    let Some(rest) = argument.strip_prefix("--") else { return argument };
    match rest.split_once('=') {
        Some((name, value)) => format!("--{}={value}", name.replace('_', "-")),
        None => format!("--{}", rest.replace('_', "-")),
    }
}

/// One line out of what clap says on many.
fn one_line(error: &clap::Error) -> String {
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

/// Reads a command line; the first argument is the program. An error is one line.
pub fn parse(
    definition: &Definition,
    arguments: impl IntoIterator<Item = String>,
    identity: impl FnOnce() -> String,
) -> Result<Parsed, String> {
    let matches = match command(definition).try_get_matches_from(arguments.into_iter().map(normalize)) {
        Ok(matches) => matches,
        Err(error) if matches!(error.kind(), ErrorKind::DisplayHelp) => {
            return Ok(Parsed::Print(error.to_string()));
        }
        Err(error) => return Err(one_line(&error)),
    };
    if matches.get_flag("version") {
        return Ok(Parsed::Print(format!("{}\n", version_line(definition))));
    }
    options(definition, &matches, identity).map(|options| Parsed::Run(Box::new(options)))
}

fn options(
    definition: &Definition,
    matches: &ArgMatches,
    identity: impl FnOnce() -> String,
) -> Result<Options, String> {
    let given = Given(matches);
    let mut warnings: Vec<String> = accepted::warning(definition, matches).into_iter().collect();
    let shadow = given.switch("shadow");
    let mut settings = Settings::new().with_shadow(shadow);
    for workers in definition.workers {
        let given = given.number(workers.name);
        ranges::check(workers.name, given)?;
        // Where none are enough, fewer are none, as upstream has it.
        let wanted = usize::try_from(given).unwrap_or(0);
        if wanted < workers.min {
            return Err(format!("{} must be greater than {}, but got {given}", workers.name, workers.min - 1));
        }
        settings = settings.with_workers(workers.name, wanted);
    }
    for tune in definition.flags.iter().chain([&MIN_RESYNC_PERIOD]) {
        let text = given.text(tune.name);
        if let Ok(number) = text.parse() {
            ranges::check(tune.name, number)?;
        }
        let value = values::tuned(tune, &text).map_err(|e| format!("--{}: {e}", tune.name))?;
        ranges::check_share(tune.name, &text, value)?;
        settings = settings.with_tune(tune.name, value);
    }
    settings = values::gates(&definition.all_gates(), &given.list("feature-gates"), settings, &mut warnings)?;
    settings = values::tunes(&definition.all_tunes(), &given.list("tune"), settings)?;
    let server = serving::settings(matches, definition.name, &mut warnings)?;
    let format = if given.text("logging-format") == "json" { logging::Format::Json } else { logging::Format::Text };
    Ok(Options {
        client: client::Options {
            kubeconfig: given.path("kubeconfig").filter(|path| !path.as_os_str().is_empty()),
            master: Some(given.text("master")).filter(|master| !master.is_empty()),
        },
        rate: rate(&given)?,
        election: if given.switch("leader-elect") && !shadow {
            Some(election(definition, &given, identity)?)
        } else {
            None
        },
        server,
        reviews: serving::reviews(matches),
        metrics: counting::limits(matches)?,
        metrics_manifest: counting::manifest(matches),
        authentication: serving::path(&given, "authentication-kubeconfig"),
        authorization: serving::path(&given, "authorization-kubeconfig"),
        insecure_debug: given.switch("insecure-debug"),
        loops: values::controllers(definition.loops, &given.list("controllers"))?,
        settings,
        start_interval: given.time("controller-start-interval"),
        shutdown_timeout: given.time("controller-shutdown-timeout"),
        standby_warm: given.switch("standby-warm"),
        threads: usize::from(matches.get_one::<u16>("threads").copied().unwrap_or(1)),
        logging: logging::Settings {
            format,
            verbosity: matches.get_one::<u8>("v").copied().unwrap_or(0),
            modules: matches.get_one::<Vec<(String, u8)>>("vmodule").cloned().unwrap_or_default(),
        },
        warnings,
        given: given.all(),
    })
}

fn rate(given: &Given<'_>) -> Result<Option<(f64, u32)>, String> {
    let qps = given.0.get_one::<f64>("kube-api-qps").copied().unwrap_or(0.0);
    let burst = given.number("kube-api-burst");
    if !qps.is_finite() {
        return Err(format!("--kube-api-qps must be a number, but is {qps}"));
    }
    if qps <= 0.0 {
        return Ok(None);
    }
    match u32::try_from(burst) {
        Ok(burst) if burst > 0 => Ok(Some((qps, burst))),
        _ => Err(format!("--kube-api-burst must be greater than 0 where --kube-api-qps is given, but is {burst}")),
    }
}

fn election(
    definition: &Definition,
    given: &Given<'_>,
    identity: impl FnOnce() -> String,
) -> Result<leader::Settings, String> {
    let kind = given.text("leader-elect-resource-lock");
    if kind != "leases" {
        return Err(format!("--leader-elect-resource-lock must be \"leases\", but is {kind:?}"));
    }
    let name = given.text("leader-elect-resource-name");
    let namespace = given.text("leader-elect-resource-namespace");
    for (flag, value) in [("name", &name), ("namespace", &namespace)] {
        let valid = !value.is_empty()
            && value.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'.');
        if !valid {
            return Err(format!("--leader-elect-resource-{flag}: {value:?} is not a valid name"));
        }
    }
    if name == BUILT_IN_LEASE {
        return Err(format!("--leader-elect-resource-name: {name} is the built-in controllers' own Lease"));
    }
    let settings = leader::Settings {
        lease_duration: given.time("leader-elect-lease-duration"),
        renew_deadline: given.time("leader-elect-renew-deadline"),
        retry_period: given.time("leader-elect-retry-period"),
        probation: Some(given.time("probation"))
            .filter(|time| !time.is_zero())
            .map(|time| Probation { version: full_version(definition), time }),
        ..leader::Settings::new(&namespace, &name, identity())
    };
    settings.check().map(|()| settings).map_err(|why| format!("--leader-elect-*: {why}"))
}

/// Values of flags that have a default, and therefore always have one.
struct Given<'a>(&'a ArgMatches);

impl Given<'_> {
    fn text(&self, name: &str) -> String {
        self.0.get_one::<String>(name).cloned().unwrap_or_default()
    }

    fn switch(&self, name: &str) -> bool {
        self.0.get_one::<bool>(name).copied().unwrap_or(false)
    }

    fn number(&self, name: &str) -> i64 {
        self.0.get_one::<i64>(name).copied().unwrap_or(0)
    }

    fn time(&self, name: &str) -> Duration {
        self.0.get_one::<Duration>(name).copied().unwrap_or_default()
    }

    fn path(&self, name: &str) -> Option<PathBuf> {
        self.0.get_one::<PathBuf>(name).cloned()
    }

    fn list(&self, name: &str) -> Vec<String> {
        self.0.get_many::<String>(name).map(|all| all.cloned().collect()).unwrap_or_default()
    }

    /// Flags and values as they were given.
    fn all(&self) -> Vec<(String, String)> {
        let mut all: Vec<_> = self
            .0
            .ids()
            .filter_map(|id| {
                let raw = self.0.get_raw(id.as_str())?;
                let text: Vec<_> = raw.map(|value| value.to_string_lossy().into_owned()).collect();
                Some((id.as_str().to_owned(), text.join(",")))
            })
            .collect();
        all.sort();
        all
    }
}

/// The stage of a gate, for metrics.
pub(super) fn stage(name: &str, locked: bool) -> &'static str {
    names::stage(name, locked)
}

#[cfg(test)]
mod tests;
