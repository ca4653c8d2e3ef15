//! Suite: the history, the rollback and the state of rollouts as the real kubectl shows them.

use std::process::Stdio;

use common::object::Resource;
use e2e::suite::prelude::*;
use tokio::process::Command;

const PATIENCE: Duration = Duration::from_secs(120);
/// The first minor version of kubectl that encodes a Pod template as the API server of 1.36 does. Earlier ones write a creation
/// time that is null.
const ENCODES_AS_SERVER: u32 = 34;

pub(crate) fn suite() -> Suite {
    let scenes = scenes! {
        EVERYWHERE.needs(tools::needs_kubectl) =>
            a_deployment_is_rolled_back a_stateful_set_is_rolled_back a_deployment_that_is_stuck_is_waited_for;
        SIMULATED.needs(tools::needs_kubectl) =>
            a_daemon_set_is_rolled_back a_stateful_set_that_is_stuck_is_waited_for
            a_daemon_set_that_is_stuck_is_waited_for;
    };
    Suite::new("kubectl")
        .controller(&deployment_controller::DEFINITION, &[])
        .beside(&["replicaset-controller", "statefulset-controller", "daemonset-controller"])
        .scenes(scenes)
}

/// What a run of kubectl printed, and whether it succeeded.
struct Printed {
    success: bool,
    output: String,
    errors: String,
}

impl Printed {
    /// The lines of the output, with single spaces between words and without empty lines.
    fn lines(&self) -> Vec<String> {
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        self.output.lines().map(words).filter(|line| !line.is_empty()).collect()
    }
}

/// Runs kubectl in the namespace of the scene, and waits until it has ended.
async fn run(c: &Context, arguments: &[&str]) -> Result<Printed, Failure> {
    let shown = format!("kubectl {}", arguments.join(" "));
    let program = tools::kubectl().ok_or_else(|| Failure::new("kubectl is not installed"))?;
    let mut command = Command::new(program);
    // Its caches are the cluster's: another cluster may have the same address later.
    command.env("HOME", c.cluster().directory()).env_remove("KUBECONFIG").stdin(Stdio::null());
    command.arg("--kubeconfig").arg(c.cluster().kubeconfig()).arg("--namespace").arg(c.namespace());
    let run = command.args(arguments).kill_on_drop(true).output();
    let output = tokio::select! {
        output = run => output.map_err(|error| Failure::new(format!("{shown}: {error}")))?,
        () = c.sleep(PATIENCE) => return c.fail(&format!("{shown} did not end in time")).await,
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(Printed { success: output.status.success(), output: text(&output.stdout), errors: text(&output.stderr) })
}

/// Runs kubectl, and fails if it does.
async fn succeeds(c: &Context, arguments: &[&str]) -> Result<Printed, Failure> {
    let printed = run(c, arguments).await?;
    if printed.success {
        return Ok(printed);
    }
    c.fail(&format!("kubectl {}: {}{}", arguments.join(" "), printed.output, printed.errors)).await
}

/// Waits for the end of a rollout. `done` is what kubectl prints of a rollout that is complete.
async fn rolls_out(c: &Context, object: &str, done: &str) -> Outcome {
    let printed = succeeds(c, &["rollout", "status", object, "--timeout=60s"]).await?;
    let last = printed.lines().pop().unwrap_or_default();
    c.check(last.contains(done), &last).await
}

/// Returns the minor version of kubectl: 36 for v1.36.2.
async fn minor_version(c: &Context) -> Result<u32, Failure> {
    let printed = succeeds(c, &["version", "--client", "--output=json"]).await?;
    let version: Value = serde_json::from_str(&printed.output)?;
    let minor = version["clientVersion"]["minor"].as_str().unwrap_or_default();
    let digits: String = minor.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().map_err(|_| Failure(format!("the minor version of kubectl cannot be read: {minor:?}")))
}

/// Rolls out two templates, and checks the history, rollbacks and the state of the rollouts.
///
/// `object` names the workload as `statefulset/web`, and `done` is what kubectl prints of a rollout that is complete.
async fn is_rolled_back(c: &Context, resource: Resource, workload: Builder, object: &str, done: &str) -> Outcome {
    let history = async || -> Result<Vec<String>, Failure> {
        Ok(succeeds(c, &["rollout", "history", object]).await?.lines().split_off(1))
    };
    let cause = |cause: &str| json!({"kubernetes.io/change-cause": cause});
    c.create(resource.clone(), workload.set("metadata/annotations", cause("first"))).await?;
    rolls_out(c, object, done).await?;
    let mut second = image("img:2");
    second["metadata"] = json!({"annotations": cause("second")});
    c.merge(resource, "web", second).await?;
    rolls_out(c, object, done).await?;
    let head = "REVISION CHANGE-CAUSE";
    assert_eq!(history().await?, [head, "1 first", "2 second"]);
    let first = succeeds(c, &["rollout", "history", object, "--revision=1"]).await?;
    assert!(first.lines().contains(&"Image: img:1".to_owned()), "{}", first.output);
    let undone = succeeds(c, &["rollout", "undo", object]).await?;
    assert!(undone.output.contains("rolled back"), "{}", undone.output);
    rolls_out(c, object, done).await?;
    c.until("the first template to be numbered anew", async || {
        (history().await.ok()? == [head, "2 second", "3 first"]).then_some(())
    })
    .await?;
    // kubectl compares the template of a Deployment, and otherwise the bytes of its own encoding with those of the revision.
    let compares = object.starts_with("deployment/") || minor_version(c).await? >= ENCODES_AS_SERVER;
    let again = succeeds(c, &["rollout", "undo", object, "--to-revision=3"]).await?;
    assert_eq!(again.output.contains("skipped rollback"), compares, "{}", again.output);
    assert_eq!(history().await?, [head, "2 second", "3 first"]);
    succeeds(c, &["rollout", "undo", object, "--to-revision=2"]).await?;
    rolls_out(c, object, done).await?;
    c.until("the second template to be numbered anew", async || {
        (history().await.ok()? == [head, "3 first", "4 second"]).then_some(())
    })
    .await?;
    c.until_list(PODS, "only Pods of the second template", |pods| {
        pods.iter().all(|pod| pod["spec"]["containers"][0]["image"] == "img:2" && is_ready(pod))
    })
    .await
    .map(drop)
}

async fn a_deployment_is_rolled_back(c: Context) -> Outcome {
    let done = "deployment \"web\" successfully rolled out";
    is_rolled_back(&c, DEPLOYMENTS, deployment("web").replicas(2), "deployment/web", done).await
}

async fn a_stateful_set_is_rolled_back(c: Context) -> Outcome {
    let done = "roll out complete: 2 new pods have been updated";
    is_rolled_back(&c, STATEFUL_SETS, stateful_set("web").replicas(2), "statefulset/web", done).await
}

async fn a_daemon_set_is_rolled_back(c: Context) -> Outcome {
    let done = "daemon set \"web\" successfully rolled out";
    is_rolled_back(&c, DAEMON_SETS, daemon_set("web"), "daemonset/web", done).await
}

/// Checks that kubectl waits for a rollout that does not end, says for what, and gives up in time.
async fn is_waited_for(c: &Context, object: &str, waits: &str) -> Outcome {
    let printed = run(c, &["rollout", "status", object, "--timeout=3s"]).await?;
    assert!(!printed.success, "{}", printed.output);
    assert!(printed.output.contains(waits), "{}", printed.output);
    assert!(printed.errors.contains("timed out"), "{}", printed.errors);
    Ok(())
}

async fn a_deployment_that_is_stuck_is_waited_for(c: Context) -> Outcome {
    c.create(DEPLOYMENTS, deployment("web").replicas(2)).await?;
    c.rolled_out("web").await?;
    let never_ready = json!({"readinessGates": [{"conditionType": "example.com/never"}],
        "containers": [{"name": "c", "image": "img:2"}]});
    c.merge(DEPLOYMENTS, "web", json!({"spec": {"template": {"spec": never_ready}}})).await?;
    is_waited_for(&c, "deployment/web", "1 out of 2 new replicas have been updated").await
}

async fn a_stateful_set_that_is_stuck_is_waited_for(c: Context) -> Outcome {
    c.create(STATEFUL_SETS, stateful_set("web").replicas(2).script("sim/ready-after", "600")).await?;
    c.until("the first Pod", async || c.get(PODS, "web-0").await.ok()).await?;
    is_waited_for(&c, "statefulset/web", "Waiting for 2 pods to be ready").await
}

async fn a_daemon_set_that_is_stuck_is_waited_for(c: Context) -> Outcome {
    let nodes = c.nodes().names().len();
    c.create(DAEMON_SETS, daemon_set("web").script("sim/ready-after", "600")).await?;
    c.until_object(DAEMON_SETS, "web", "a Pod on each node", |set| set["status"]["currentNumberScheduled"] == nodes)
        .await?;
    is_waited_for(&c, "daemonset/web", &format!("0 of {nodes} updated pods are available")).await
}
