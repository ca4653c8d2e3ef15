//! What the playground and the bench share: their runtime, their exit codes, and the signals that end them.

use std::{io, process::ExitCode, time::Duration};

use anyhow::Context as _;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Flags that name something unknown or exclude each other: exit code 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct WrongUsage(pub(crate) String);

/// Runs a program to its end. An error is one line on stderr.
pub(crate) fn run(name: &str, work: impl Future<Output = anyhow::Result<()>>) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            command_line::complain(name, &error);
            return ExitCode::FAILURE;
        }
    };
    let ended = runtime.block_on(work);
    runtime.shutdown_timeout(Duration::from_secs(1));
    let Err(error) = ended else { return ExitCode::SUCCESS };
    // A reader that has closed the pipe needs no message.
    let is_closed = |cause: &io::Error| cause.kind() == io::ErrorKind::BrokenPipe;
    if !error.chain().filter_map(|cause| cause.downcast_ref()).any(is_closed) {
        command_line::complain(name, &format!("{error:#}"));
    }
    if error.is::<WrongUsage>() { ExitCode::from(2) } else { ExitCode::FAILURE }
}

pub(crate) struct Signals(Vec<Signal>);

impl Signals {
    pub(crate) fn new() -> anyhow::Result<Self> {
        let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
        let signals: io::Result<Vec<Signal>> = kinds.into_iter().map(signal).collect();
        signals.map(Self).context("cannot listen for signals")
    }

    pub(crate) async fn next(&mut self) {
        let all = self.0.iter_mut().map(|signal| Box::pin(signal.recv()));
        futures::future::select_all(all).await;
    }
}
