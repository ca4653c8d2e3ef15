//! The command line, and the exit codes.

use std::{ffi::OsString, io::Write as _, path::PathBuf, process::ExitCode, time::Duration};

use clap::{Args, Parser, Subcommand, ValueEnum};
use common::{built_in_flags::Controllers, clock::Clock};

use crate::{
    check::{self, Stage},
    connection::Connection,
    facts::Stated,
    finding, gather, render,
};

/// Exit code of a command that could not begin: usage, kubeconfig, connection.
const CANNOT_BEGIN: u8 = 2;

/// What the end of the help says.
const AFTER_HELP: &str = "\
Status of a line:
  ok       as it should be
  info     worth knowing; nothing to do
  warning  works now, and may not for long
  problem  does not work, or is dangerous
  unknown  could not be read, and does not count as good; the line says which right is missing

Exit codes:
  0  no problem, and everything could be told; there may be warnings
  1  at least one problem
  2  wrong usage, no usable kubeconfig, or no connection
  3  no problem, but something could not be told

Nothing is written: the only requests that are no GETs are SubjectAccessReviews.";

/// Works on Nonet in the cluster of your kubeconfig.
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
    /// Checks what is installed and whether it is ready, who holds the Leases, which loops kube-controller-manager runs
    /// beside Nonet, rights, versions, clocks, certificates and Pods that do not start. Each line has a status, what was
    /// found and, behind an arrow, what to do. Without --before, the cluster is judged as it runs: every loop has exactly
    /// one writer.
    #[command(after_help = AFTER_HELP, after_long_help = AFTER_HELP)]
    Check(Check),
}

#[derive(Args, Debug)]
struct Check {
    /// The operation that comes next
    #[arg(long, value_name = "OPERATION")]
    before: Option<Stage>,
    /// Form of the output
    #[arg(short, long, value_name = "FORM", default_value = "text")]
    output: Output,
    /// How long each request may take
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = timeout)]
    timeout: Duration,
    /// What kube-controller-manager runs where it is no Pod (k3s, managed clusters): its flag --controllers, or `none`
    /// if there is no kube-controller-manager
    #[arg(long, value_name = "LIST", allow_hyphen_values = true)]
    built_in_controllers: Option<String>,
    /// Namespace that Nonet runs in [default: all that it is found in, otherwise kube-system]
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// The kubeconfig [default: as kubectl finds it]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig [default: its current context]
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    /// Lines to read
    Text,
    /// One JSON object
    Json,
}

fn timeout(text: &str) -> Result<Duration, String> {
    match common::duration::parse(text)? {
        Duration::ZERO => Err("it must be longer than zero".to_owned()),
        timeout => Ok(timeout),
    }
}

/// Runs the command as this process.
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
            // A reader that closes the pipe has seen enough.
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
        "none" => Stated::None,
        list => Stated::Controllers(Controllers::parse(list)),
    });
    let request = gather::Request { namespace: check.namespace, stated };
    let facts = gather::gather(&connection, &Clock::system(), request).await;
    let facts = facts.map_err(|why| format!("cannot reach the cluster: {why}"))?;
    let findings = check::check(&facts, check.before.unwrap_or_default());
    let text = match check.output {
        Output::Text => render::text(&findings),
        Output::Json => render::json(&findings),
    };
    Ok((text, finding::exit_code(&findings)))
}
