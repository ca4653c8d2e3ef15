//! The command line and the exit codes.

use std::{ffi::OsString, io::Write as _, path::PathBuf, process::ExitCode, time::Duration};

use clap::{Args, Parser, Subcommand, ValueEnum};
use common::{built_in_flags::ControllersFlag, clock::Clock};

use crate::{
    check::{self, PlannedOperation},
    connection::Connection,
    facts::BuiltInControllersFlag,
    finding, gather, render,
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

/// Inspects Nonet in the cluster of your kubeconfig.
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
}

#[derive(Args, Debug)]
struct Check {
    /// The operation that the check prepares
    #[arg(long, value_name = "OPERATION")]
    before: Option<PlannedOperation>,
    /// Format of the output
    #[arg(short, long, value_name = "FORM", default_value = "text")]
    output: Output,
    /// Timeout of each request
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = timeout)]
    timeout: Duration,
    /// Value of the flag --controllers of a kube-controller-manager that is not a Pod (k3s, managed clusters), or `none`
    /// if there is no kube-controller-manager
    #[arg(long, value_name = "LIST", allow_hyphen_values = true)]
    built_in_controllers: Option<String>,
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
    let Command::Check(check) = cli.command;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    match runtime.map_err(|why| why.to_string()).and_then(|runtime| runtime.block_on(run(check))) {
        Ok((text, code)) => {
            // It is no error if a reader closes the pipe before all output is written.
            drop(std::io::stdout().write_all(text.as_bytes()));
            ExitCode::from(code)
        }
        Err(why) => {
            drop(writeln!(std::io::stderr(), "error: {why}"));
            ExitCode::from(CANNOT_BEGIN)
        }
    }
}

async fn run(check: Check) -> Result<(String, u8), String> {
    let opening = Connection::open(check.kubeconfig.as_deref(), check.context.as_deref(), check.timeout);
    let connection = opening.await.map_err(|why| why.to_string())?;
    let stated = check.built_in_controllers.map(|list| match list.trim() {
        "none" => BuiltInControllersFlag::NoManager,
        list => BuiltInControllersFlag::Controllers(ControllersFlag::parse(list)),
    });
    let request = gather::GatherOptions { namespace: check.namespace, built_in_controllers_flag: stated };
    let facts = gather::gather_facts(&connection, &Clock::system(), request).await;
    let facts = facts.map_err(|why| format!("cannot reach the cluster: {why}"))?;
    let findings = check::check(&facts, check.before.unwrap_or_default());
    let text = match check.output {
        Output::Text => render::to_text(&findings),
        Output::Json => render::to_json(&findings),
    };
    Ok((text, finding::exit_code(&findings)))
}
