//! The playground's command line.

use std::path::PathBuf;

use clap::Parser;
use common::app::Definition;

use crate::controllers;

/// The controllers without which a Deployment does not roll out.
const ROLLOUT: [&str; 2] = ["deployment-controller", "replicaset-controller"];

/// The last paragraph of the help.
const AFTER_HELP: &str = "This program holds every controller and runs each as a process of its own, which it starts again if it ends, \
    for example after kill -9. `playground gc-controller --help` lists the flags of one. \
    Nodes are switched off by the key s or `kubectl annotate node node-0 sim/power=off`, and on again by r or \
    `kubectl annotate node node-0 sim/power-`: after 50 s the node is NotReady, 10 s later its Pods leave it. \
    NONET_BIN_DIR names a directory with other builds of the controllers, such as target/release.";

/// Starts a Kubernetes cluster on this machine, without containers: an API server in memory, nodes that run Pods, and Nonet's
/// controllers as real processes. An example application rolls out twice and runs a CronJob while you watch; kubectl works
/// against it.
#[derive(Clone, Debug, Parser)]
#[command(name = "playground", max_term_width = 120, after_help = AFTER_HELP)]
pub(super) struct Flags {
    /// Start the API server alone: no nodes, no controllers, no example
    #[arg(long, conflicts_with_all = ["nodes", "controllers", "exit_when_done"])]
    pub(super) bare: bool,
    /// How many nodes there are
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u32).range(0..=5000))]
    pub(super) nodes: u32,
    /// Controllers to run: `all`, `none`, or names separated by commas
    #[arg(long, value_name = "LIST", default_value = "all")]
    pub(super) controllers: String,
    /// Port of the API server on 127.0.0.1; 0 takes a free one
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub(super) port: u16,
    /// Where to write the kubeconfig, instead of a directory that is removed at the end
    #[arg(long, value_name = "FILE")]
    pub(super) kubeconfig: Option<PathBuf>,
    /// End once the example is done, after two rollouts and a run of its CronJob: with 0 if all went as it should, otherwise
    /// with 1 and a reason
    #[arg(long)]
    pub(super) exit_when_done: bool,
    /// Give each controller exactly the rights of its manifests in deploy/, and nothing else
    #[arg(long)]
    pub(super) rbac: bool,
    /// Keep fields the API server does not know, as the server of a later release would
    #[arg(long)]
    pub(super) keep_unknown_fields: bool,
    /// Plain lines, also in a terminal
    #[arg(long)]
    pub(super) plain: bool,
}

impl Flags {
    /// The controllers to run.
    ///
    /// # Errors
    /// If one of them does not exist, or the example is to roll out and cannot: it would be waited for in vain.
    pub(super) fn chosen(&self) -> Result<Vec<&'static Definition>, String> {
        if self.bare {
            return Ok(Vec::new());
        }
        let chosen = controllers::choose(&self.controllers).map_err(|why| format!("--controllers: {why}"))?;
        if self.exit_when_done {
            if self.nodes == 0 {
                return Err("--exit-when-done: without nodes no Pod ever runs, see --nodes".to_owned());
            }
            if let Some(missing) = ROLLOUT.iter().find(|name| !chosen.iter().any(|d| d.name == **name)) {
                return Err(format!("--exit-when-done: nothing rolls out without {missing}, see --controllers"));
            }
        }
        Ok(chosen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(arguments: &str) -> Result<usize, String> {
        let flags = Flags::try_parse_from(["playground"].into_iter().chain(arguments.split_whitespace()));
        flags.map_err(|e| e.to_string())?.chosen().map(|chosen| chosen.len())
    }

    #[test]
    fn what_can_never_be_done_is_not_waited_for() {
        for (arguments, expected) in [
            ("--exit-when-done --nodes 0", "--nodes"),
            ("--exit-when-done --controllers none", "deployment-controller"),
            ("--exit-when-done --controllers deployment-controller,gc-controller", "replicaset-controller"),
            ("--exit-when-done --controllers replicaset-controller", "deployment-controller"),
            ("--exit-when-done --bare", "--bare"),
            ("--controllers tuner", "tuner"),
        ] {
            let why = chosen(arguments).unwrap_err();
            assert!(why.contains(expected), "{arguments}: {why}");
        }
        assert_eq!(chosen("--exit-when-done --controllers deployment-controller,replicaset-controller"), Ok(2));
        assert_eq!(chosen("--controllers none --nodes 0"), Ok(0));
        assert_eq!(chosen("--bare"), Ok(0));
    }
}
