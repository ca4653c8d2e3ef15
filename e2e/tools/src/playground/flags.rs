//! The command line of the playground.

use std::path::PathBuf;

use clap::Parser;
use common::app::ProgramDefinition;

use crate::controllers;

/// The controllers without which a Deployment does not roll out.
const ROLLOUT: [&str; 2] = ["deployment-controller", "replicaset-controller"];

const NODES: u32 = 6;

const AFTER_HELP: &str = "This program contains every controller. It runs each one as a separate process and restarts a process that \
    ends, for example after kill -9. `playground gc-controller --help` lists the flags of a controller. \
    The key s, or `kubectl annotate node node-0 sim/power=off`, switches a node off. The key r, or \
    `kubectl annotate node node-0 sim/power-`, switches it on again. A node that is off becomes NotReady after 50 s, and its Pods \
    are evicted 10 s later. NONET_BIN_DIR names a directory with other builds of the controllers, such as target/release.";

/// Starts a Kubernetes cluster on this machine without containers: an API server in memory, nodes that simulate Pods, and the
/// controllers of Nonet as real processes. An example application rolls out twice and runs a CronJob. kubectl works with the
/// cluster.
#[derive(Clone, Debug, Parser)]
#[command(name = "playground", max_term_width = 120, after_help = AFTER_HELP)]
pub(super) struct Flags {
    /// Start without the example, and only with the nodes and controllers that --nodes and --controllers ask for
    #[arg(long)]
    pub(super) bare: bool,
    /// Start objects that are stuck, in place of the example, and print the command that explains each
    #[arg(long, conflicts_with_all = ["bare", "exit_when_done", "svg"])]
    pub(super) stuck: bool,
    /// Number of nodes, at most 5000 [default: 6; 0 with --bare]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(0..=5000))]
    nodes: Option<u32>,
    /// Controllers to run: `all`, `none`, or names separated by commas [default: all; none with --bare]
    #[arg(long, value_name = "LIST")]
    controllers: Option<String>,
    /// Port of the API server on 127.0.0.1; 0 takes a free one
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub(super) port: u16,
    /// File for the kubeconfig [default: a file in a temporary directory]; it is removed when the playground ends
    #[arg(long, value_name = "FILE")]
    pub(super) kubeconfig: Option<PathBuf>,
    /// End when the example is done, which is after two rollouts and a run of its CronJob; the exit code is 0 if nothing failed,
    /// and otherwise 1 with the reason
    #[arg(long)]
    pub(super) exit_when_done: bool,
    /// Give each controller only the rights of its manifests in deploy/
    #[arg(long)]
    pub(super) rbac: bool,
    /// Keep fields that the API server does not know, as a server of a later release does
    #[arg(long)]
    pub(super) keep_unknown_fields: bool,
    /// Print plain lines, also in a terminal
    #[arg(long)]
    pub(super) plain: bool,
    /// Write the screen to FILE as an SVG picture when the playground ends; works with and without a terminal
    #[arg(long, value_name = "FILE")]
    pub(super) svg: Option<PathBuf>,
}

impl Flags {
    pub(super) fn nodes(&self) -> u32 {
        self.nodes.unwrap_or(if self.bare { 0 } else { NODES })
    }

    /// The controllers to run.
    ///
    /// # Errors
    /// If a controller does not exist, or if --exit-when-done would wait forever because the example cannot roll out.
    pub(super) fn chosen(&self) -> Result<Vec<&'static ProgramDefinition>, String> {
        let list = self.controllers.as_deref().unwrap_or(if self.bare { "none" } else { "all" });
        let chosen = controllers::choose(list).map_err(|why| format!("--controllers: {why}"))?;
        if self.svg.is_some() && self.bare && self.nodes() == 0 && chosen.is_empty() {
            return Err(
                "--svg needs a screen, and an API server alone has no screen; see --nodes and --controllers".to_owned()
            );
        }
        if self.exit_when_done {
            if self.bare {
                return Err("--exit-when-done waits for the example, which --bare leaves out".to_owned());
            }
            if self.nodes() == 0 {
                return Err("--exit-when-done needs nodes that run Pods, see --nodes".to_owned());
            }
            if let Some(missing) = ROLLOUT.iter().find(|name| !chosen.iter().any(|d| d.name == **name)) {
                return Err(format!(
                    "--exit-when-done needs {missing}, without which nothing rolls out; see --controllers"
                ));
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
            ("--bare --svg screen.svg", "no screen"),
        ] {
            let why = chosen(arguments).unwrap_err();
            assert!(why.contains(expected), "{arguments}: {why}");
        }
        assert_eq!(chosen("--exit-when-done --controllers deployment-controller,replicaset-controller"), Ok(2));
        assert_eq!(chosen("--controllers none --nodes 0"), Ok(0));
    }

    #[test]
    fn a_bare_playground_has_the_nodes_and_controllers_that_flags_ask_for() {
        let all = controllers::ALL.len();
        for (arguments, nodes, controllers) in [
            ("", 6, all),
            ("--nodes 3", 3, all),
            ("--bare", 0, 0),
            ("--bare --nodes 3", 3, 0),
            ("--bare --controllers all", 0, all),
            ("--bare --nodes 2 --controllers gc-controller,job-controller", 2, 2),
        ] {
            let flags = Flags::try_parse_from(["playground"].into_iter().chain(arguments.split_whitespace())).unwrap();
            assert_eq!((flags.nodes(), flags.chosen().unwrap().len()), (nodes, controllers), "{arguments:?}");
        }
    }
}
