//! The playground: a whole cluster on this machine, with the controllers as real processes and an example application that rolls
//! out twice.
//!
//! ```text
//!   writes ──► world ──► rows ──► board ──► live view, plain lines, or SVG
//!                │                  ▲
//!                └──► limits        └── diagnostics of the controllers
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
mod plain;
mod processes;
mod rows;
mod show;
mod stuck;
mod svg;
mod world;

use std::{
    io::{self, IsTerminal as _, Write as _},
    path::Path,
    process::ExitCode,
};

use anyhow::{Context as _, Result};
use common::clock::Clock;

use crate::{
    controllers,
    program::{self, Signals, WrongUsage},
};
use flags::Flags;
use ground::Ground;

const NAME: &str = "playground";

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
    match command_line::parse(NAME) {
        Ok(flags) => program::run(NAME, run(&flags)),
        Err(code) => code,
    }
}

async fn run(flags: &Flags) -> Result<()> {
    let mut signals = Signals::new()?;
    let chosen = flags.chosen().map_err(WrongUsage)?;
    let is_server_alone = flags.bare && flags.nodes() == 0 && chosen.is_empty();
    let live = !flags.plain && !flags.exit_when_done && !flags.stuck && !is_server_alone;
    let live = live && io::stdout().is_terminal() && io::stdin().is_terminal();
    if !live {
        common::process::logging::install_log(common::process::logging::LogSettings::default());
    }
    let clock = Clock::system();
    let mut ground = Ground::start(flags, controllers::protect_storage(&chosen), clock).await?;
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

fn print(text: &str) -> Result<()> {
    writeln!(io::stdout(), "{text}").context("cannot write to stdout")
}
