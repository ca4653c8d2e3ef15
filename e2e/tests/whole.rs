//! Suite: Nonet alone on a control plane without kube-controller-manager, as docs/install/without-nodes.md installs it.
//!
//! The API server refuses Pods in a namespace without a ServiceAccount. The nodes are simulated.

use std::{env, ffi::OsString, fs, os::unix::fs::symlink, path::Path, process::Stdio};

use common::object::Resource;
use e2e::{
    cluster::Directory,
    controllers,
    process::{Error, find},
    suite::prelude::*,
};
use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::Command;

const PAGE: &str = "without-nodes";
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
/// The directory in which the page keeps the files of the processes.
const FILES: &str = "nonet";
const WIDGETS: Resource = Resource::namespaced("whole.example.com", "v1", "widgets", "Widget");

pub(crate) fn suite() -> Suite {
    let scenes = scenes! {
        SIMULATED.needs(tools::needs_kubectl) => the_commands_of_the_page_make_a_whole_control_plane;
    };
    Suite::new("whole")
        .sandbox(|sandbox| sandbox.without_namespace_controller().without_quota_controller().without_rule_aggregation())
        .service_account_admission()
        .without_storage_protection()
        .scenes(scenes)
}

/// A command of the page, and the lines to expect below it.
struct Step {
    command: String,
    expected: Vec<String>,
}

/// The commands of a section of the page.
fn steps(section: &str) -> Result<Vec<Step>, Failure> {
    let listed = std::process::Command::new(Path::new(ROOT).join("e2e/operations")).args(["--list", PAGE]).output()?;
    let listed = String::from_utf8_lossy(&listed.stdout);
    let found = listed.split_once(&format!("S {section}\n"));
    let (_, text) = found.ok_or_else(|| Failure(format!("the page has no section {section}")))?;
    let mut steps: Vec<Step> = Vec::new();
    for line in text.lines().take_while(|line| !line.starts_with("S ")) {
        match (line.split_at(2), steps.last_mut()) {
            (("$ ", command), _) => steps.push(Step { command: command.to_owned(), expected: Vec::new() }),
            (("E ", expected), Some(step)) => step.expected.push(expected.to_owned()),
            (("  ", more), Some(step)) => step.command.extend(["\n", more]),
            _ => return Err(Failure(format!("a line that is not typed: {line}"))),
        }
    }
    Ok(steps)
}

/// Whether a line is as expected; `...` stands for any text.
fn is_expected(line: &str, expected: &str) -> bool {
    let mut parts = expected.split("...");
    let Some(mut rest) = line.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let mut end = "";
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        (rest, end) = (&rest[at + part.len()..], part);
    }
    rest.is_empty() || expected.ends_with("...") || !end.is_empty() && rest.ends_with(end)
}

/// The directory in which the commands of the page are typed. The processes that they start end with it.
struct Shell<'a> {
    c: &'a Context,
    directory: Directory,
    path: OsString,
}

impl<'a> Shell<'a> {
    fn open(c: &'a Context) -> Result<Self, Failure> {
        let directory = Directory::new("whole")?;
        symlink(fs::canonicalize(Path::new(ROOT).join("deploy"))?, directory.path().join("deploy"))?;
        let names = controllers::ALL.iter().map(|definition| definition.name).chain(["kubectl-nonet"]);
        let programs = names.map(find).collect::<Result<Vec<_>, Error>>()?;
        let before = env::var_os("PATH").unwrap_or_default();
        let directories = programs.iter().filter_map(|program| program.parent()).map(Path::to_owned);
        let path = env::join_paths(directories.take(1).chain(env::split_paths(&before)))?;
        Ok(Self { c, directory, path })
    }

    /// Types the commands of a section, and repeats each until its answer is as expected.
    async fn type_section(&self, section: &str) -> Outcome {
        for Step { command, expected } in steps(section)? {
            let last = Mutex::new(String::new());
            let what = format!("{expected:?} of {command}");
            let typed = self.c.until(&what, async || {
                let output = self.run(&command).await.ok()?;
                let answer = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
                let mut lines = answer.lines();
                let is_right = expected.iter().all(|expected| lines.any(|line| is_expected(line, expected)));
                *last.lock() = answer;
                (output.status.success() && is_right).then_some(())
            });
            typed.await.map_err(|Failure(why)| Failure(format!("{why}\n{}", last.lock())))?;
        }
        Ok(())
    }

    async fn run(&self, command: &str) -> std::io::Result<std::process::Output> {
        let directory = self.directory.path();
        let mut shell = Command::new("bash");
        shell.args(["-euo", "pipefail", "-c", command]).current_dir(directory).stdin(Stdio::null()).kill_on_drop(true);
        shell.env("PATH", &self.path).env("HOME", directory).env("KUBECONFIG", self.c.cluster().kubeconfig());
        shell.output().await
    }
}

impl Drop for Shell<'_> {
    fn drop(&mut self) {
        let files = fs::read_dir(self.directory.path().join(FILES)).into_iter().flatten().flatten();
        let ids = files.filter_map(|file| fs::read_to_string(file.path()).ok()?.trim().parse().ok());
        for id in ids {
            // The id of a process that has ended may be that of another one.
            let is_own = fs::read_link(format!("/proc/{id}/cwd")).is_ok_and(|cwd| cwd == self.directory.path());
            if let Some(process) = Pid::from_raw(id).filter(|_| is_own) {
                let _ = kill_process(process, Signal::KILL);
            }
        }
    }
}

async fn the_commands_of_the_page_make_a_whole_control_plane(c: Context) -> Outcome {
    let refused = c.create(PODS, pod("early", "early")).await.err();
    let refused = refused.ok_or_else(|| Failure::new("a Pod without a ServiceAccount was admitted"))?.to_string();
    assert!(refused.contains("service account"), "{refused}");
    let shell = Shell::open(&c)?;
    shell.type_section("Install").await?;
    let shop = c.in_new_namespace("shop").await?;
    workloads_run(&shop).await?;
    the_role_edit_follows(&c).await?;
    the_namespace_goes(&shop).await?;
    shell.type_section("Upgrade one controller").await?;
    shell.type_section("Remove").await
}

async fn workloads_run(c: &Context) -> Outcome {
    c.until_object(SERVICE_ACCOUNTS, "default", "the ServiceAccount", |_| true).await?;
    let has_authority = |map: &Value| text(&map["data"], "ca.crt").contains("BEGIN CERTIFICATE");
    c.until_object(CONFIG_MAPS, "kube-root-ca.crt", "the ConfigMap", has_authority).await?;
    c.create(DEPLOYMENTS, deployment("web").replicas(2)).await?;
    c.create(STATEFUL_SETS, stateful_set("store").replicas(2)).await?;
    c.create(DAEMON_SETS, daemon_set("agent")).await?;
    c.create(JOBS, job("sum").script("sim/exit", "0")).await?;
    let ports = json!([{"port": 80}]);
    c.create(
        SERVICES,
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
        "spec": {"selector": {"app": "web"}, "ports": ports}}),
    )
    .await?;
    c.rolled_out("web").await?;
    c.until_status(STATEFUL_SETS, "store", "two replicas", |status| status["availableReplicas"] == 2).await?;
    let nodes = c.nodes().names().len();
    c.until_status(DAEMON_SETS, "agent", "a Pod on each node", |status| status["numberAvailable"] == nodes).await?;
    c.until_status(JOBS, "sum", "complete", |status| status["succeeded"] == 1).await?;
    let is_ready = |endpoint: &Value| endpoint["conditions"]["ready"] == true;
    let has_both = |slice: &Value| {
        slice["endpoints"].as_array().is_some_and(|all| all.iter().filter(|e| is_ready(e)).count() == 2)
    };
    c.until_list(ENDPOINT_SLICES, "both endpoints", |slices| slices.iter().any(has_both)).await?;
    c.delete(DEPLOYMENTS, "web", "Background").await?;
    c.until_list(REPLICA_SETS, "no ReplicaSet", <[Value]>::is_empty).await.map(drop)
}

/// A real API server has the role `edit` from its start, and the sandbox has none.
async fn the_role_edit_follows(c: &Context) -> Outcome {
    let label = "rbac.authorization.k8s.io/aggregate-to-edit";
    let role = |name: &str| json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name}});
    if c.kind() == Kind::Sandbox {
        let mut edit = role("edit");
        edit["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": {label: "true"}}]});
        c.create(CLUSTER_ROLES, edit).await?;
    }
    let mut widgets = role(&format!("{}-widgets", c.namespace()));
    widgets["metadata"]["labels"] = json!({label: "true"});
    let rule = json!({"apiGroups": [WIDGETS.group()], "resources": [WIDGETS.plural()], "verbs": ["update"]});
    widgets["rules"] = json!([rule]);
    c.create(CLUSTER_ROLES, widgets).await?;
    let has_rule = |edit: &Value| edit["rules"].as_array().is_some_and(|rules| rules.contains(&rule));
    c.until_object(CLUSTER_ROLES, "edit", "the rule in the role edit", has_rule).await.map(drop)
}

async fn the_namespace_goes(c: &Context) -> Outcome {
    c.create(DEFINITIONS, custom_resource_definition(&WIDGETS)).await?;
    let widget = json!({"apiVersion": "whole.example.com/v1", "kind": "Widget", "metadata": {"name": "one"}});
    c.until("the kind to be served", async || c.create(WIDGETS, widget.clone()).await.ok()).await?;
    let options = json!({"kind": "DeleteOptions", "apiVersion": "v1"});
    c.client().delete(NAMESPACES, "", c.namespace(), &options).await?;
    c.until("the namespace to be gone", async || {
        c.client().get(NAMESPACES, "", c.namespace()).await.is_err_and(|refused| refused.code == 404).then_some(())
    })
    .await
}
