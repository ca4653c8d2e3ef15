//! The command line and the exit codes.

use std::{ffi::OsString, io::Write as _, path::PathBuf, process::ExitCode, time::Duration};

use clap::{Args, Parser, Subcommand, ValueEnum, builder::PossibleValuesParser};
use common::{built_in_flags::ControllersFlag, clock::Clock};

use crate::{
    check::{self, PlannedOperation},
    connection::Connection,
    controllers,
    facts::{BuiltInControllersFlag, Facts},
    finding,
    gather::{self, GatherOptions},
    hand_over::{self, ReleaseOptions},
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

/// How many seconds a release waits for leaders. A standby that does not know when the last leader ended leaves the Lease to that
/// leader for 15 seconds.
const SECONDS_TO_LEAD: u32 = 30;

/// Checks Nonet in the cluster of your kubeconfig, and releases or holds its Leases.
#[derive(Debug, Parser)]
#[command(name = "kubectl-nonet", bin_name = "kubectl nonet", version, max_term_width = 120)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
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
struct ControllerNames {
    /// Controllers [default: all that are installed]
    #[arg(value_name = "NAME", value_parser = PossibleValuesParser::new(controllers::ALL.iter().map(|each| each.name)))]
    names: Vec<String>,
}

#[derive(Args, Debug)]
struct ManagerOptions {
    /// Value of the flag --controllers of a kube-controller-manager that is not a Pod (k3s, managed clusters), or `none`
    /// if there is no kube-controller-manager
    #[arg(long, value_name = "LIST", allow_hyphen_values = true)]
    built_in_controllers: Option<String>,
}

/// The cluster, and the namespace of Nonet in it.
#[derive(Args, Debug)]
struct ClusterOptions {
    /// Timeout of each request
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = timeout)]
    timeout: Duration,
    /// Namespace of Nonet [default: all namespaces with Nonet, otherwise kube-system]
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,
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
    /// One JSON object with a summary and all findings
    Json,
}

fn timeout(text: &str) -> Result<Duration, String> {
    match common::duration::parse(text)? {
        Duration::ZERO => Err("the timeout must be longer than zero".to_owned()),
        timeout => Ok(timeout),
    }
}

/// Runs the command with these arguments, and returns the exit code of the process.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
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
    }
}

/// Connects to the cluster, and reads the facts about it.
async fn gather(
    cluster: ClusterOptions,
    manager: Option<ManagerOptions>,
    all_namespaces: bool,
) -> Result<(Connection, Facts), String> {
    let opening = Connection::open(cluster.kubeconfig.as_deref(), cluster.context.as_deref(), cluster.timeout);
    let connection = opening.await.map_err(|why| why.to_string())?;
    let stated = manager.and_then(|manager| manager.built_in_controllers).map(|list| match list.trim() {
        "none" => BuiltInControllersFlag::NoManager,
        list => BuiltInControllersFlag::Controllers(ControllersFlag::parse(list)),
    });
    let namespace = cluster.namespace;
    let request = GatherOptions { namespace, all_namespaces, built_in_controllers_flag: stated };
    let facts = gather::gather_facts(&connection, &Clock::system(), request).await;
    let facts = facts.map_err(|why| format!("cannot reach the cluster: {why}"))?;
    Ok((connection, facts))
}
