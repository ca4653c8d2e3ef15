//! The command line and the exit codes.

mod explain;

use std::{
    ffi::OsString,
    io::{Read as _, Write},
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use clap::{Args, CommandFactory as _, Parser, Subcommand, ValueEnum, builder::PossibleValuesParser};
use common::{clock::Clock, process::built_in_flags::ControllersFlag};

use crate::{
    check::{self, PlannedOperation},
    complete,
    connection::Connection,
    controllers,
    facts::{Facts, ManagerStatement},
    finding,
    gather::{self, GatherOptions},
    hand_over::{self, ReleaseOptions},
    manager_flags::Switch,
    plan::{self, files},
    procedure::{Procedure, ProcedureOptions},
    render,
};

/// Exit code if the command cannot start: wrong usage, unusable kubeconfig, no connection.
const CANNOT_BEGIN: u8 = 2;

/// Text that `--help` and `-h` print after the flags.
const AFTER_HELP: &str = "\
Status of a line:
  ok       as expected
  info     worth knowing; nothing to do
  warning  works now, but may fail later
  problem  does not work, or is dangerous
  unknown  could not be read, and does not count as ok; the line names the missing right

Exit codes:
  0  no problem and nothing unknown; there may be warnings
  1  at least one problem
  2  wrong usage, no usable kubeconfig, or no connection
  3  no problem, but something is unknown

The command writes nothing. Its requests are GETs and SubjectAccessReviews.";

/// Text that `--help` and `-h` of `release` and `hold` print after the flags.
const AFTER_CHANGE_HELP: &str = "\
Exit codes:
  0  done, or nothing to do
  1  refused, or at least one Lease is not as wanted; the command may be typed again
  2  wrong usage, no usable kubeconfig, or no connection

Besides the rights of check, the command needs patch on Leases where Nonet runs.";

/// Text that `--help` and `-h` of `status` print after the flags.
const AFTER_STATUS_HELP: &str = "\
States:
  leads               a process leads
  on probation        a process of a new version leads, and is replaced if it fails
  held                no process leads before a release, and none has led yet
  held after leading  no process leads before a release
  expired             the last leader has stopped renewing the Lease
  free                the Lease has no holder
  no Lease            a running process creates the Lease
  shadow              decides and counts, and writes nothing
  unknown             the Lease could not be read

Exit codes:
  0  every installed controller is led and there is no problem, or Nonet is not installed
  1  a controller is not led, or there is a problem
  2  wrong usage, no usable kubeconfig, or no connection
  3  otherwise, if something could not be read

The command writes nothing.";

/// Text that `--help` and `-h` of `hand-over` and `way-back` print after the flags.
const AFTER_PROCEDURE_HELP: &str = "\
An interrupted command continues from the state of the cluster when it is typed again.

Exit codes:
  0  done, or a dry run to the end
  1  stopped at a step; the output has the way out
  2  wrong usage, no usable kubeconfig, or no connection

Besides the rights of check, the command needs patch on Leases where Nonet runs. With --dry-run, it writes nothing.";

/// Text that `--help` and `-h` of `plan` print after the flags.
const AFTER_PLAN_HELP: &str = "\
Exit codes:
  0  planned, also if something still waits at the end
  1  the server would reject an object
  2  wrong usage, no usable file or kubeconfig, no connection, or a missing right

The command writes nothing. It needs list on the objects that controllers read in the namespaces of the files, and on Nodes.
Admission webhooks, LimitRanges, autoscalers, custom resources, and the CPU and memory of nodes are not simulated.";

/// How many seconds a release waits for leaders. A standby that does not know when the last leader ended leaves the Lease to that
/// leader for 15 seconds.
const SECONDS_TO_LEAD: u32 = 30;

/// Explains what an object waits for, and predicts what controllers do, on any cluster. Checks Nonet in the cluster of your
/// kubeconfig, and releases or holds its Leases.
#[derive(Debug, Parser)]
#[command(name = "kubectl-nonet", bin_name = "kubectl nonet", version, max_term_width = 120)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Explain what an object waits for
    ///
    /// Shows a tree from the object down to what it waits for, with the source of each line, then the likely cause and what
    /// people do about it. The answer is computed from the objects that you may read, so it does not depend on who runs the
    /// controllers of the cluster.
    #[command(after_help = explain::AFTER_WHY_HELP, after_long_help = explain::AFTER_WHY_HELP)]
    Why(explain::Why),
    /// Check a cluster before and after an operation
    ///
    /// Checks the installation and its readiness, the holders of the Leases, the loops that kube-controller-manager runs
    /// beside Nonet, rights, versions, clocks, certificates and Pods that do not start. Each line has a status, a finding
    /// and, behind an arrow, a remedy. Without --before, the check judges the running cluster: every loop must have
    /// exactly one writer.
    #[command(after_help = AFTER_HELP, after_long_help = AFTER_HELP)]
    Check(Check),
    /// Release held Leases, so that Nonet leads
    ///
    /// Without a name, releases the Lease of every installed controller. Then waits until a process leads each of them. Writes
    /// nothing at all if a second writer would start, or if that cannot be excluded: kube-controller-manager runs one of the
    /// loops, or another installation of the controller is not held. A Lease that is not held stays as it is.
    #[command(after_help = AFTER_CHANGE_HELP, after_long_help = AFTER_CHANGE_HELP)]
    Release(Release),
    /// Hold Leases, so that no process leads
    ///
    /// Without a name, holds the Lease of every installed controller. A leader ends within two seconds, and stands by. No process
    /// leads until the Lease is released.
    #[command(after_help = AFTER_CHANGE_HELP, after_long_help = AFTER_CHANGE_HELP)]
    Hold(Hold),
    /// Show each installed controller: state, leader, version, standbys
    ///
    /// One row for each controller, from Leases, Pods and Events. Lines below the table name what is wrong, with the remedy.
    #[command(after_help = AFTER_STATUS_HELP, after_long_help = AFTER_STATUS_HELP)]
    Status(Status),
    /// Hand loops over from kube-controller-manager to Nonet
    ///
    /// Without a name, hands over every installed controller. Checks the cluster, prints the flag that you set on each
    /// kube-controller-manager, and waits until none of them runs the loops. Then releases the Leases, waits for leaders, and
    /// checks again. A problem stops the command at its step.
    #[command(after_help = AFTER_PROCEDURE_HELP, after_long_help = AFTER_PROCEDURE_HELP)]
    HandOver(ProcedureArgs),
    /// Give loops back to kube-controller-manager
    ///
    /// Without a name, gives back every installed controller. Holds the Leases, prints the flag that you set on each
    /// kube-controller-manager, and waits until one of them leads and runs the loops. Then checks that Nonet can be removed.
    #[command(after_help = AFTER_PROCEDURE_HELP, after_long_help = AFTER_PROCEDURE_HELP)]
    WayBack(ProcedureArgs),
    /// Predict what the controllers do if files are applied
    ///
    /// Reads the live objects, applies the files to a simulated copy as `kubectl apply` does, and runs the controllers of Nonet
    /// on the copy for the simulated time `--for`. New Pods become ready after `--ready-after`, and deleted Pods end at once.
    /// Existing Pods and Nodes keep their state. Each line has the time, the object, and what happens to it.
    #[command(after_help = AFTER_PLAN_HELP, after_long_help = AFTER_PLAN_HELP)]
    Plan(Plan),
}

#[derive(Args, Debug)]
struct Plan {
    /// File with objects in YAML or JSON, or `-` for the standard input
    #[arg(short, long = "filename", value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Namespace of objects that name none [default: that of the context]
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// Length of the simulated time
    #[arg(long = "for", value_name = "DURATION", default_value = "10m", value_parser = common::duration::parse)]
    duration: Duration,
    /// Time until a new Pod becomes ready
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = common::duration::parse)]
    ready_after: Duration,
    /// Format of the output
    #[arg(short, long, value_name = "FORM", default_value = "text")]
    output: Output,
    #[command(flatten)]
    server: ServerOptions,
}

#[derive(Args, Debug)]
struct Check {
    /// The operation that the check prepares
    #[arg(long, value_name = "OPERATION")]
    before: Option<PlannedOperation>,
    /// Format of the output
    #[arg(short, long, value_name = "FORM", default_value = "text")]
    output: Output,
    #[command(flatten)]
    manager: ManagerOptions,
    #[command(flatten)]
    cluster: ClusterOptions,
}

#[derive(Args, Debug)]
struct Release {
    #[command(flatten)]
    controllers: ControllerNames,
    /// Release although a second writer may start. `release --force` prints the reasons as warnings
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    manager: ManagerOptions,
    #[command(flatten)]
    cluster: ClusterOptions,
}

#[derive(Args, Debug)]
struct Hold {
    #[command(flatten)]
    controllers: ControllerNames,
    #[command(flatten)]
    cluster: ClusterOptions,
}

#[derive(Args, Debug)]
struct Status {
    /// Format of the output
    #[arg(short, long, value_name = "FORM", default_value = "text")]
    output: Output,
    #[command(flatten)]
    manager: ManagerOptions,
    #[command(flatten)]
    cluster: ClusterOptions,
}

/// The flags of `hand-over` and `way-back`.
#[derive(Args, Debug)]
struct ProcedureArgs {
    #[command(flatten)]
    controllers: ControllerNames,
    /// Print each step and its result for now, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// How long to wait until you have set the flag of kube-controller-manager
    #[arg(long, value_name = "DURATION", default_value = "15m", value_parser = timeout)]
    timeout_of_switch: Duration,
    #[command(flatten)]
    manager: ManagerOptions,
    #[command(flatten)]
    cluster: ClusterOptions,
}

#[derive(Args, Debug)]
struct ControllerNames {
    /// Controllers [default: all that are installed]
    #[arg(value_name = "NAME", value_parser = PossibleValuesParser::new(controllers::ALL.iter().map(|each| each.name)))]
    names: Vec<String>,
}

#[derive(Args, Debug)]
struct ManagerOptions {
    /// Value of the flag --controllers of a kube-controller-manager that is not a Pod (k3s, managed clusters)
    #[arg(long, value_name = "LIST", allow_hyphen_values = true, value_parser = controllers_list)]
    built_in_controllers: Option<String>,
    /// There is no kube-controller-manager. A check then names each of its loops that no process runs, with what the
    /// cluster lacks
    #[arg(long, conflicts_with = "built_in_controllers")]
    without_manager: bool,
}

/// The cluster, and the namespace of Nonet in it.
#[derive(Args, Debug)]
struct ClusterOptions {
    /// Namespace of Nonet [default: all namespaces with Nonet, otherwise kube-system]
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    #[command(flatten)]
    server: ServerOptions,
}

/// The API server.
#[derive(Args, Debug)]
struct ServerOptions {
    /// Timeout of each request
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = timeout)]
    timeout: Duration,
    /// Path of the kubeconfig [default: the same as kubectl's]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig [default: its current context]
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    /// Lines of text
    Text,
    /// One JSON value
    Json,
}

fn controllers_list(text: &str) -> Result<String, String> {
    match text.trim() {
        "" => Err("the list is empty".to_owned()),
        "none" => Err("if there is no kube-controller-manager, say --without-manager".to_owned()),
        list => Ok(list.to_owned()),
    }
}

fn timeout(text: &str) -> Result<Duration, String> {
    match common::duration::parse(text)? {
        Duration::ZERO => Err("the timeout must be longer than zero".to_owned()),
        timeout => Ok(timeout),
    }
}

/// Returns the description of the command line.
pub fn command_line() -> clap::Command {
    Cli::command()
}

/// Runs the command with these arguments, and returns the exit code of the process.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    if arguments
        .first()
        .and_then(|program| Path::new(program).file_stem())
        .is_some_and(|name| name == complete::PROGRAM)
    {
        let words: Vec<String> = arguments[1..].iter().map(|word| word.to_string_lossy().into_owned()).collect();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        if let Ok(runtime) = runtime {
            runtime.block_on(explain::print_completions(&words));
        }
        return ExitCode::SUCCESS;
    }
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => {
            drop(error.print());
            return if error.use_stderr() { ExitCode::from(CANNOT_BEGIN) } else { ExitCode::SUCCESS };
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    match runtime.map_err(|why| why.to_string()).and_then(|runtime| runtime.block_on(run(cli.command))) {
        Ok(code) => ExitCode::from(code),
        Err(why) => {
            drop(writeln!(std::io::stderr(), "error: {why}"));
            ExitCode::from(CANNOT_BEGIN)
        }
    }
}

async fn run(command: Command) -> Result<u8, String> {
    let mut out = std::io::stdout();
    match command {
        Command::Why(why) => Box::pin(explain::explain(&why, &mut out)).await,
        Command::Check(check) => {
            let (_, facts) = gather(check.cluster, Some(check.manager), false).await?;
            let findings = check::check(&facts, check.before.unwrap_or_default());
            let text = match check.output {
                Output::Text => render::to_text(&findings),
                Output::Json => render::to_json(&findings),
            };
            // It is no error if a reader closes the pipe before all output is written.
            drop(out.write_all(text.as_bytes()));
            Ok(finding::exit_code(&findings))
        }
        Command::Release(release) => {
            let (connection, facts) = gather(release.cluster, Some(release.manager), true).await?;
            let options = ReleaseOptions { force: release.force, seconds_to_lead: SECONDS_TO_LEAD };
            let names = &release.controllers.names;
            Ok(u8::from(!hand_over::release(&connection, &Clock::system(), &facts, names, options, &mut out).await))
        }
        Command::Hold(hold) => {
            let (connection, facts) = gather(hold.cluster, None, false).await?;
            Ok(u8::from(!hand_over::hold(&connection, &facts, &hold.controllers.names, &mut out).await))
        }
        Command::Plan(plan) => print_plan(plan, &mut out).await,
        Command::Status(status) => {
            let (_, facts) = gather(status.cluster, Some(status.manager), false).await?;
            let report = check::status::status(&facts);
            let text = match status.output {
                Output::Text => render::status::to_text(&report),
                Output::Json => render::status::to_json(&report),
            };
            drop(out.write_all(text.as_bytes()));
            Ok(report.exit_code())
        }
        Command::HandOver(arguments) => run_procedure(arguments, Switch::Off, &mut out).await,
        Command::WayBack(arguments) => run_procedure(arguments, Switch::On, &mut out).await,
    }
}

/// Runs `hand-over`, which switches the built-in loops off, or `way-back`, which switches them on.
async fn run_procedure(arguments: ProcedureArgs, switch: Switch, out: &mut dyn std::io::Write) -> Result<u8, String> {
    let connection = open(&arguments.cluster.server).await?;
    let stated_list = arguments.manager.built_in_controllers.clone();
    let options = ProcedureOptions {
        names: arguments.controllers.names,
        gather: gather_options(arguments.cluster.namespace, Some(arguments.manager), true),
        stated_list,
        dry_run: arguments.dry_run,
        seconds_to_lead: SECONDS_TO_LEAD,
        switch_timeout: arguments.timeout_of_switch,
    };
    let clock = Clock::system();
    let mut procedure = Procedure::new(&connection, &clock, options, out);
    let done = match switch {
        Switch::Off => Box::pin(procedure.hand_over()).await,
        Switch::On => Box::pin(procedure.way_back()).await,
    };
    done.map(|done| u8::from(!done)).map_err(|why| format!("cannot reach the cluster: {why}"))
}

async fn open(server: &ServerOptions) -> Result<Connection, String> {
    let opening = Connection::open(server.kubeconfig.as_deref(), server.context.as_deref(), server.timeout);
    opening.await.map_err(|why| why.to_string())
}

/// Reads the files and the live objects that concern them, prints the prediction, and returns the exit code.
async fn print_plan(plan: Plan, out: &mut impl Write) -> Result<u8, String> {
    let mut texts = Vec::new();
    for path in &plan.files {
        let mut text = String::new();
        let result = if path.as_os_str() == "-" {
            std::io::stdin().read_to_string(&mut text).map(drop)
        } else {
            std::fs::read_to_string(path).map(|content| text = content)
        };
        result.map_err(|why| format!("cannot read {}: {why}", path.display()))?;
        texts.push((path.display().to_string(), text));
    }
    let connection = open(&plan.server).await?;
    let namespace = plan.namespace.as_deref().unwrap_or(connection.client.default_namespace());
    let mut given = Vec::new();
    for (file, text) in texts {
        given.extend(files::parse(&file, &text, namespace).map_err(|why| why.to_string())?);
    }
    let live = plan::read::read(&connection, &given, namespace).await?;
    let (duration, ready_after) = (plan.duration, plan.ready_after);
    let options = plan::Options { start: Clock::system().now(), duration, ready_after };
    let prediction = tokio::task::spawn_blocking(move || plan::predict(live, given, options)).await;
    let prediction = match prediction.map_err(|why| why.to_string())? {
        Ok(prediction) => prediction,
        Err(why @ plan::Error::Rejected { .. }) => {
            drop(writeln!(std::io::stderr(), "error: {why}"));
            return Ok(1);
        }
        Err(why) => return Err(why.to_string()),
    };
    let text = match plan.output {
        Output::Text => plan::render::to_text(&prediction),
        Output::Json => plan::render::to_json(&prediction),
    };
    // It is no error if a reader closes the pipe before all output is written.
    drop(out.write_all(text.as_bytes()));
    Ok(0)
}

/// Connects to the cluster, and reads the facts about it.
async fn gather(
    cluster: ClusterOptions,
    manager: Option<ManagerOptions>,
    all_namespaces: bool,
) -> Result<(Connection, Facts), String> {
    let connection = open(&cluster.server).await?;
    let request = gather_options(cluster.namespace, manager, all_namespaces);
    let facts = gather::gather_facts(&connection, &Clock::system(), request).await;
    let facts = facts.map_err(|why| format!("cannot reach the cluster: {why}"))?;
    Ok((connection, facts))
}

fn gather_options(namespace: Option<String>, manager: Option<ManagerOptions>, all_namespaces: bool) -> GatherOptions {
    let stated_manager = manager.and_then(|manager| {
        let controllers = |list: String| ManagerStatement::Controllers(ControllersFlag::parse(&list));
        let absent = manager.without_manager.then_some(ManagerStatement::Absent);
        absent.or_else(|| manager.built_in_controllers.map(controllers))
    });
    GatherOptions { namespace, all_namespaces, stated_manager }
}
