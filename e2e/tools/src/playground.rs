//! The playground: a whole cluster on this machine, with the controllers as real processes and an example application that rolls
//! out twice.
//!
//! ```text
//!   writes ──► world ──► rollouts, rows ──► board ──► live view, plain lines, or SVG
//!      └─────► limits (are maxSurge and maxUnavailable kept?)     ▲
//!   controllers' diagnostics ───────────────────────────────┘
//! ```
//!
//! This process contains the API server and the nodes. It checks every accepted write against the limits of its rollout. Each
//! controller is a separate process of the same program: `playground gc-controller --help` shows its flags. When the playground
//! ends, it stops the controllers by SIGTERM and removes its files.

mod board;
mod example;
mod flags;
mod ground;
mod kubeconfig;
mod limits;
mod live;
mod names;
mod node_states;
mod plain;
mod processes;
mod rollout;
mod show;
mod stuck;
mod svg;
mod workloads;
mod world;

use std::{
    io::{self, IsTerminal as _, Write as _},
    path::Path,
    process::ExitCode,
    time::Duration,
};

use common::clock::Clock;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::{
    cluster, controllers, process, rights,
    sandbox::{Refused, ServeError},
};
use flags::Flags;
use ground::Ground;

/// The name of the program in its messages.
const NAME: &str = "playground";

/// The reason of a failure of the playground.
#[derive(Debug, thiserror::Error)]
enum Error {
    /// Flags that name unknown controllers, or that exclude each other.
    #[error("{0}")]
    Flags(String),
    /// The temporary directory cannot be created.
    #[error(transparent)]
    Directory(Box<cluster::Error>),
    /// The API server cannot be started.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// The kubeconfig cannot be written.
    #[error("--kubeconfig: {0}")]
    Kubeconfig(#[from] kubeconfig::Error),
    /// A controller cannot be started.
    #[error(transparent)]
    Process(#[from] process::Error),
    /// The rights of a controller cannot be granted.
    #[error("--rbac: {0}")]
    Rights(#[from] rights::Error),
    /// The API server refused an object of the example.
    #[error("the example cannot be applied: {0}")]
    Example(#[from] Refused),
    /// A call of the operating system failed.
    #[error("{0}: {1}")]
    Io(&'static str, io::Error),
    /// The objects of `--stuck` cannot be made.
    #[error("--stuck: {0}")]
    Stuck(String),
    /// The example did not complete, or a limit was not kept.
    #[error("{0}")]
    Failed(String),
}

impl From<cluster::Error> for Error {
    fn from(error: cluster::Error) -> Self {
        Self::Directory(Box::new(error))
    }
}

/// Runs the playground with the command line of this process.
pub fn main() -> ExitCode {
    // A user of `playground --stuck` has started this program as the kubectl plug-in.
    let mut arguments = std::env::args_os().peekable();
    if arguments.peek().is_some_and(|name| Path::new(name).ends_with(stuck::PLUG_IN)) {
        return kubectl_nonet::command::main(arguments);
    }
    // A playground, or a user, has started this program as one of the controllers.
    if let Some(ended) = controllers::main() {
        return ended;
    }
    let flags: Flags = match command_line::parse(NAME) {
        Ok(flags) => flags,
        Err(code) => return code,
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            command_line::complain(NAME, &error);
            return ExitCode::FAILURE;
        }
    };
    let ended = runtime.block_on(run(&flags));
    runtime.shutdown_timeout(Duration::from_secs(1));
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        // The reader has closed the pipe and needs no message.
        Err(Error::Io(_, error)) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::FAILURE,
        Err(error @ Error::Flags(_)) => {
            command_line::complain(NAME, &error);
            ExitCode::from(2)
        }
        Err(error) => {
            command_line::complain(NAME, &error);
            ExitCode::FAILURE
        }
    }
}

/// The signals that end this process.
struct Signals(Vec<Signal>);

impl Signals {
    fn new() -> Result<Self, Error> {
        let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
        let signals: io::Result<Vec<Signal>> = kinds.into_iter().map(signal).collect();
        signals.map(Self).map_err(|e| Error::Io("cannot listen for signals", e))
    }

    async fn next(&mut self) {
        let all = self.0.iter_mut().map(|signal| Box::pin(signal.recv()));
        futures::future::select_all(all).await;
    }
}

async fn run(flags: &Flags) -> Result<(), Error> {
    let mut signals = Signals::new()?;
    let chosen = flags.chosen().map_err(Error::Flags)?;
    let is_server_alone = flags.bare && flags.nodes() == 0 && chosen.is_empty();
    let live = !flags.plain && !flags.exit_when_done && !flags.stuck && !is_server_alone;
    let live = live && io::stdout().is_terminal() && io::stdin().is_terminal();
    if !live {
        common::process::logging::install_log(common::process::logging::LogSettings::default());
    }
    let clock = Clock::system();
    let mut ground = Ground::start(flags, clock).await?;
    if is_server_alone {
        print(&format!("{NAME}: API server on {}\n{}", ground.server.url(), ground.kubeconfig.export()))?;
        signals.next().await;
        ground.shutdown().await;
        return Ok(());
    }
    if flags.stuck {
        ground.start_nodes(flags.nodes()).await;
        let processes = ground.start_controllers(&chosen, flags.rbac).await?;
        let shown = tokio::select! {
            shown = stuck::show(&ground) => shown,
            () = signals.next() => Ok(()),
        };
        processes.stop().await;
        ground.shutdown().await;
        return shown;
    }
    let writes = ground.sandbox.writes().subscribe();
    ground.start_nodes(flags.nodes()).await;
    let mut processes = ground.start_controllers(&chosen, flags.rbac).await?;
    let shown = show::show(flags, live, &ground, &chosen, writes, &mut processes, &mut signals).await;
    processes.stop().await;
    ground.shutdown().await;
    shown
}

fn print(text: &str) -> Result<(), Error> {
    writeln!(io::stdout(), "{text}").map_err(|e| Error::Io("cannot write to stdout", e))
}
