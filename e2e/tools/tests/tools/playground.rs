//! The playground as people start it: one program, whose controllers are processes of their own.

use std::{path::Path, time::Duration};

use common::{clock::Clock, object::Resource};
use e2e::{
    process::{Launch, Process},
    suite::{Client, resources, stateful_set},
};

/// The CronJob of the example runs at the next full minute, and machines may be busy.
const PATIENCE: Duration = Duration::from_secs(300);

fn playground(arguments: &[&str]) -> Process {
    let launch = Launch::program("playground", Path::new(env!("CARGO_BIN_EXE_playground")));
    let launch = arguments.iter().fold(launch, |launch, argument| launch.argument(*argument));
    launch.start(&Clock::system()).unwrap()
}

/// The first line of the log that contains all of `parts`.
async fn line(process: &Process, parts: &[&str]) -> String {
    let (clock, mut waited) = (Clock::system(), Duration::ZERO);
    loop {
        let found = process.log().into_iter().find(|line| parts.iter().all(|part| line.contains(part)));
        if let Some(line) = found {
            return line;
        }
        assert!(waited < PATIENCE, "no line with {parts:?}:\n{}", process.log().join("\n"));
        clock.sleep(Duration::from_millis(50)).await;
        waited += Duration::from_millis(50);
    }
}

/// The process id in a line.
fn pid(line: &str) -> i32 {
    let (_, rest) = line.split_once("process ").unwrap();
    rest.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap()
}

/// A client of the playground that wrote this kubeconfig.
async fn client(kubeconfig: &Path) -> kube::Client {
    let config = kube::config::Kubeconfig::read_from(kubeconfig).unwrap();
    let options = kube::config::KubeConfigOptions::default();
    common::process::client::build_client(&kube::Config::from_custom_kubeconfig(config, &options).await.unwrap())
        .unwrap()
}

#[tokio::test]
async fn the_example_is_done_although_a_controller_is_killed() {
    let mut playground = playground(&["--plain"]);
    let killed = pid(&line(&playground, &["statefulset-controller", "leads, process"]).await);
    let program = std::fs::read_link(format!("/proc/{killed}/exe")).unwrap();
    assert_eq!(program, Path::new(env!("CARGO_BIN_EXE_playground")).canonicalize().unwrap());
    let arguments = std::fs::read_to_string(format!("/proc/{killed}/cmdline")).unwrap();
    assert_eq!(arguments.split('\0').nth(1), Some("statefulset-controller"));
    let id = rustix::process::Pid::from_raw(killed).unwrap();
    rustix::process::kill_process(id, rustix::process::Signal::KILL).unwrap();
    line(&playground, &["statefulset-controller", "!! ended with signal: 9 (SIGKILL); it is started again in 1 s"])
        .await;
    let next = pid(&line(&playground, &["statefulset-controller", "runs again, process"]).await);
    assert_ne!(next, killed);
    for object in [
        "StatefulSet shop/db rollout 2 complete",
        "DaemonSet shop/logs rollout 2 complete",
        "Service shop/web current",
        "CronJob shop/report has run",
    ] {
        line(&playground, &["playground", object]).await;
    }
    line(&playground, &["the example is done"]).await;
    assert!(Path::new(&format!("/proc/{next}")).exists());
    playground.terminate().unwrap();
    assert_eq!(playground.ended(Duration::from_secs(30)).await.unwrap().code(), Some(0));
    assert!(!Path::new(&format!("/proc/{next}")).exists(), "its controllers end with it");
}

#[tokio::test]
async fn the_example_is_judged_by_the_parts_whose_controllers_run() {
    let picture = Path::new(env!("CARGO_TARGET_TMPDIR")).join("playground.svg");
    let mut playground = playground(&[
        "--exit-when-done",
        "--controllers",
        "deployment-controller,replicaset-controller,job-controller",
        "--svg",
        picture.to_str().unwrap(),
    ]);
    assert_eq!(playground.ended(PATIENCE).await.unwrap().code(), Some(0), "{}", playground.log().join("\n"));
    let log = playground.log().join("\n");
    assert!(log.contains("Job shop/migrate complete: succeeded 4/4"), "{log}");
    assert!(log.contains("the example is done"), "{log}");
    let picture = std::fs::read_to_string(picture).unwrap();
    assert!(picture.contains(">Deployment shop/web") && picture.contains(">complete</text>"), "{picture}");
}

#[tokio::test]
async fn pods_leave_a_node_that_is_switched_off_and_it_comes_back() {
    let kubeconfig = Path::new(env!("CARGO_TARGET_TMPDIR")).join("switched-off.kubeconfig");
    let path = kubeconfig.to_str().unwrap();
    let controllers = "deployment-controller,replicaset-controller,node-lifecycle-controller";
    let mut playground = playground(&["--plain", "--nodes", "3", "--controllers", controllers, "--kubeconfig", path]);
    line(&playground, &["the example is done"]).await;
    let client = client(&kubeconfig).await;
    let power = async |power: serde_json::Value| {
        let patch = serde_json::json!({"metadata": {"annotations": {"sim/power": power}}});
        let request =
            http::Request::patch("/api/v1/nodes/node-0").header("content-type", "application/merge-patch+json");
        client.request::<serde_json::Value>(request.body(patch.to_string().into_bytes()).unwrap()).await.unwrap();
    };
    power("off".into()).await;
    line(&playground, &["nodes", "node-0 is Ready, switched off"]).await;
    line(&playground, &["nodes", "node-0 is NotReady, switched off, unreachable:NoExecute"]).await;
    line(&playground, &["node-lifecycle-controller", "delete Pod", "it no longer tolerates a taint of its node"]).await;
    power(serde_json::Value::Null).await;
    line(&playground, &["node-lifecycle-controller", "remove the NoExecute taints of Node node-0"]).await;
    playground.terminate().unwrap();
    assert_eq!(playground.ended(Duration::from_secs(30)).await.unwrap().code(), Some(0));
}

#[tokio::test]
async fn a_bare_playground_has_the_nodes_and_controllers_it_was_asked_for_and_lets_claims_go() {
    let kubeconfig = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bare.kubeconfig");
    let path = kubeconfig.to_str().unwrap();
    let controllers = "statefulset-controller,gc-controller";
    let mut playground =
        playground(&["--bare", "--plain", "--nodes", "2", "--controllers", controllers, "--kubeconfig", path]);
    line(&playground, &["API server on", "with 2 nodes"]).await;
    for controller in controllers.split(',') {
        line(&playground, &[controller, "leads, process"]).await;
    }
    let client = Client::new(client(&kubeconfig).await);
    let clock = Clock::system();
    let exists = async |resource, name: &str| client.get(resource, "default", name).await.is_ok();
    let until = async |resource: Resource, name: &str, is_there: bool| {
        let mut waited = Duration::ZERO;
        while exists(resource.clone(), name).await != is_there {
            assert!(waited < PATIENCE, "{name}: {}", playground.log().join("\n"));
            clock.sleep(Duration::from_millis(100)).await;
            waited += Duration::from_millis(100);
        }
    };
    let template = serde_json::json!([{"metadata": {"name": "data"}, "spec":
        {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}]);
    let set = stateful_set("db").set("spec/volumeClaimTemplates", template).build();
    client.create(resources::STATEFUL_SETS, "default", &set).await.unwrap();
    line(&playground, &["StatefulSet default/db", "complete"]).await;
    let background = serde_json::json!({"propagationPolicy": "Background"});
    client.delete(resources::CLAIMS, "default", "data-db-0", &background).await.unwrap();
    assert!(exists(resources::CLAIMS, "data-db-0").await, "its Pod uses it");
    client.delete(resources::STATEFUL_SETS, "default", "db", &background).await.unwrap();
    until(resources::PODS, "db-0", false).await;
    until(resources::CLAIMS, "data-db-0", false).await;
    let log = playground.log().join("\n");
    assert!(!log.contains("namespace shop"), "there is no example: {log}");
    playground.terminate().unwrap();
    assert_eq!(playground.ended(Duration::from_secs(30)).await.unwrap().code(), Some(0));
}

#[tokio::test]
async fn a_controller_of_the_playground_has_its_own_command_line() {
    let mut help = playground(&["gc-controller", "--help"]);
    assert_eq!(help.ended(PATIENCE).await.unwrap().code(), Some(0));
    line(&help, &["gc-controller [flags]"]).await;
    let mut refused = playground(&["gc-controller", "--nodes=3"]);
    assert_eq!(refused.ended(PATIENCE).await.unwrap().code(), Some(2));
    line(&refused, &["gc-controller: ", "--nodes"]).await;
}

#[tokio::test]
async fn a_directory_without_binaries_is_refused_with_the_command_that_fills_it() {
    let launch = Launch::program("playground", Path::new(env!("CARGO_BIN_EXE_playground")));
    let mut playground = launch.variable("NONET_BIN_DIR", "/nowhere/release").start(&Clock::system()).unwrap();
    assert_eq!(playground.ended(PATIENCE).await.unwrap().code(), Some(1));
    line(
        &playground,
        &["playground: ", "NONET_BIN_DIR", "`cargo build --release --workspace --bins`", "target/release"],
    )
    .await;
}
