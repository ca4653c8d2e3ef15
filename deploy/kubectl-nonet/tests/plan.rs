//! A plan predicts what the controllers then do, and says what it cannot know.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

use std::{collections::BTreeSet, path::PathBuf, process::Command, sync::Arc, time::Duration};

use common::{clock::Clock, runtime::LoopDefinition, settings::OperatorSettings};
use jiff::Timestamp;
use kubectl_nonet::{
    connection::Connection,
    plan::{
        Options, Prediction,
        live::{IN_NAMESPACES, LiveState, NODES, UnreadList},
        predict,
        read::read,
        render,
        steps::{Action, Step},
    },
};
use proptest::prelude::*;
use sandbox::{Change, Credential, Sandbox, Server, Tls, Write, loops::Loops, nodes::Nodes};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

const NAMESPACE: &str = "default";
const READY_AFTER: Duration = Duration::from_secs(5);
const TEN_MINUTES: Duration = Duration::from_mins(10);
const GATE: &str = "MaxUnavailableStatefulSet";

/// A cluster in virtual time in which the controllers of workloads run.
struct Cluster {
    runtime: Runtime,
    sandbox: Sandbox,
    clock: Clock,
    _nodes: Nodes,
    _loops: Loops,
}

impl Cluster {
    fn new(nodes: u32) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let (sandbox, clock, nodes, loops) = runtime.block_on(async {
            let clock = Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap(), 7);
            let sandbox = Sandbox::builder().clock(clock.clone()).gate(GATE, true).build();
            let nodes = Nodes::builder().count(nodes).heartbeat(None).ready_after(READY_AFTER);
            let nodes = nodes.start(sandbox.client("nodes"), clock.clone());
            nodes.ready().await;
            let programs = [
                deployment_controller::LOOPS,
                replicaset_controller::LOOPS,
                statefulset_controller::LOOPS,
                daemonset_controller::LOOPS,
                job_controller::LOOPS,
                gc_controller::LOOPS,
            ];
            let definitions: Vec<LoopDefinition> = programs.concat();
            let settings = OperatorSettings::new().with_feature_gate(GATE, true);
            let loops = Loops::start(&sandbox.client("controllers"), &clock, settings, &definitions);
            (sandbox, clock, nodes, loops)
        });
        Self { runtime, sandbox, clock, _nodes: nodes, _loops: loops }
    }

    /// Applies an object, and lets the controllers finish.
    fn apply(&self, object: &Value) {
        self.runtime.block_on(async {
            self.sandbox.apply(object.clone()).await.unwrap();
            self.clock.sleep(TEN_MINUTES).await;
        });
    }

    /// Everything that a plan reads.
    fn live(&self) -> LiveState {
        let kinds = IN_NAMESPACES.iter().map(|kind| (kind, Some(NAMESPACE))).chain([(&NODES, None)]);
        let mut objects = Vec::new();
        for (kind, namespace) in kinds {
            let listed = self.runtime.block_on(self.sandbox.list(kind.resource, namespace)).unwrap();
            objects.extend(listed.into_iter().map(|mut object| {
                object["apiVersion"] = kind.api_version.into();
                object["kind"] = kind.kind.into();
                object
            }));
        }
        LiveState { objects, unread: Vec::new() }
    }

    fn plan(&self, given: &[Value]) -> Prediction {
        predict(self.live(), given.to_vec(), self.options()).unwrap()
    }

    fn options(&self) -> Options {
        Options { start: self.now(), duration: TEN_MINUTES, ready_after: READY_AFTER }
    }

    /// The virtual time, which exists only inside the runtime.
    fn now(&self) -> Timestamp {
        self.runtime.block_on(async { self.clock.now() })
    }

    /// Applies an object, and returns what the controllers do, read from the writes.
    fn sizes_after(&self, object: &Value) -> Vec<String> {
        let (start, version) = (self.now(), self.sandbox.resource_version());
        self.apply(object);
        let writes = self.sandbox.writes().since(version);
        writes.iter().filter_map(|write| size_of_write(write, start)).collect()
    }
}

/// Describes a write that changes the size of a ReplicaSet or the Pods of a StatefulSet or DaemonSet.
fn size_of_write(write: &Arc<Write>, start: Timestamp) -> Option<String> {
    let (before, after) = (write.before(), write.after());
    let object = after.as_ref().or(before.as_ref())?;
    let is_deleting = |object: &Value| object["metadata"]["deletionTimestamp"].is_string();
    let change = match (write.resource.as_str(), write.change) {
        ("replicasets", Change::Added) => format!("{} created with {}", write.name, object["spec"]["replicas"]),
        ("replicasets", Change::Modified) => {
            let size = |object: &Option<Arc<Value>>| object.as_ref().map(|object| object["spec"]["replicas"].clone());
            let (old, new) = (size(&before)?, size(&after)?);
            (old != new).then(|| format!("{} {old} -> {new}", write.name))?
        }
        ("replicasets", Change::Deleted) => format!("{} deleted", write.name),
        ("pods", change) => {
            let owner = object["metadata"]["ownerReferences"][0]["kind"].as_str()?;
            let name = match owner {
                "StatefulSet" => write.name.clone(),
                "DaemonSet" => "daemon".to_owned(),
                _ => return None,
            };
            match change {
                Change::Added => format!("+{name}"),
                _ if before.as_deref().is_some_and(is_deleting) => return None,
                Change::Modified if !is_deleting(object) => return None,
                _ => format!("-{name}"),
            }
        }
        _ => return None,
    };
    Some(format!("{}s {change}", write.at.duration_since(start).as_secs()))
}

/// Describes a step of a plan in the words of [`size_of_write`].
fn size_of_step(step: &Step) -> Option<String> {
    let owner = step.object.kind.as_str();
    let pod = |name: &str| if owner == "DaemonSet" { "daemon".to_owned() } else { name.to_owned() };
    let change = match &step.action {
        Action::Create { child, size: Some((size, _)) } => format!("{} created with {size}", child.name),
        Action::Scale { from, to } if owner == "ReplicaSet" => format!("{} {from} -> {to}", step.object.name),
        Action::Delete { child } if child.kind == "ReplicaSet" => format!("{} deleted", child.name),
        Action::Create { child, .. } if child.kind == "Pod" && owner != "ReplicaSet" => {
            format!("+{}", pod(&child.name))
        }
        Action::Delete { child } if child.kind == "Pod" && owner != "ReplicaSet" => format!("-{}", pod(&child.name)),
        _ => return None,
    };
    Some(format!("{}s {change}", step.seconds))
}

fn template(image: u8) -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"terminationGracePeriodSeconds": 0,
        "containers": [{"name": "app", "image": format!("web:{image}")}]}})
}

fn workload(kind: &str, spec: Value) -> Value {
    let mut object =
        json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "web", "namespace": NAMESPACE}});
    object["spec"] = spec;
    object["spec"]["selector"] = json!({"matchLabels": {"app": "web"}});
    object
}

fn deployment(replicas: i64, image: u8) -> Value {
    workload("Deployment", json!({"replicas": replicas, "template": template(image)}))
}

/// A number of Pods or a percentage, as `maxSurge` and `maxUnavailable` take it.
fn limit(least: u32) -> impl Strategy<Value = Value> {
    prop_oneof![
        (least..4).prop_map(|count| json!(count)),
        (least * 10..=100).prop_map(|share| json!(format!("{share}%")))
    ]
}

fn deployments() -> impl Strategy<Value = (Value, Value)> {
    let strategy = prop_oneof![
        1 => Just(json!({"type": "Recreate"})),
        4 => (limit(0), limit(1)).prop_map(|(surge, unavailable)| json!({"type": "RollingUpdate",
            "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}})),
        2 => limit(1).prop_map(|surge| json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": 0}})),
    ];
    let change = (0..8_i64, 0..8_i64, 1..3_u8, prop::bool::weighted(0.15));
    (change, strategy, 0..12_i64, 0..3_i64).prop_map(|((old, new, image, is_paused), strategy, seconds, history)| {
        let spec = |replicas: i64, image: u8, is_paused: bool| {
            workload(
                "Deployment",
                json!({"replicas": replicas, "template": template(image), "strategy": strategy,
                "minReadySeconds": seconds, "revisionHistoryLimit": history, "paused": is_paused}),
            )
        };
        (spec(old, 1, false), spec(new, image, is_paused))
    })
}

fn stateful_sets() -> impl Strategy<Value = (Value, Value)> {
    let policy = prop_oneof![Just("OrderedReady"), Just("Parallel")];
    let change = (0..6_i64, 0..6_i64, 1..3_u8);
    (change, policy, 0..4_i64, limit(1), 0..8_i64, any::<bool>()).prop_map(
        |((old, new, image), policy, partition, unavailable, seconds, has_claims)| {
            let spec = |replicas: i64, image: u8| {
                let claims = json!([{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": "1Gi"}}}}]);
                workload("StatefulSet", json!({"replicas": replicas, "template": template(image), "serviceName": "web",
                    "podManagementPolicy": policy, "minReadySeconds": seconds,
                    "volumeClaimTemplates": if has_claims { claims } else { json!([]) },
                    "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": partition, "maxUnavailable": unavailable}}}))
            };
            (spec(old, 1), spec(new, image))
        },
    )
}

fn daemon_sets() -> impl Strategy<Value = (Value, Value)> {
    let limits = prop_oneof![
        limit(1).prop_map(|unavailable| json!({"maxSurge": 0, "maxUnavailable": unavailable})),
        limit(1).prop_map(|surge| json!({"maxSurge": surge, "maxUnavailable": 0})),
    ];
    (limits, 0..12_i64, prop::bool::weighted(0.9)).prop_map(|(limits, seconds, changes)| {
        let spec = |image: u8| {
            workload(
                "DaemonSet",
                json!({"template": template(image), "minReadySeconds": seconds,
                "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": limits}}),
            )
        };
        (spec(1), spec(if changes { 2 } else { 1 }))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, max_shrink_iters: 40, ..ProptestConfig::default() })]

    /// The sizes, the Pods with fixed names, their order and their times are those that the controllers then take.
    #[test]
    fn the_controllers_do_what_the_plan_says(
        (old, new) in prop_oneof![3 => deployments(), 2 => stateful_sets(), 2 => daemon_sets()],
        nodes in 1..6_u32,
    ) {
        let cluster = Cluster::new(nodes);
        cluster.apply(&old);
        let prediction = cluster.plan(std::slice::from_ref(&new));
        let planned: Vec<String> = prediction.steps.iter().filter_map(size_of_step).collect();
        let done = cluster.sizes_after(&new);
        prop_assert_eq!(&planned, &done, "{}", render::to_text(&prediction));
        // A change that the controllers have made already needs no second one.
        prop_assert_eq!(cluster.plan(&[new]).steps, []);
    }
}

#[test]
fn a_rollout_is_shown_step_by_step() {
    let cluster = Cluster::new(2);
    cluster.apply(&deployment(3, 1));
    let live = cluster.live();
    let mut text = render::to_text(&cluster.plan(&[deployment(3, 2)]));
    for pod in live.objects.iter().filter(|object| object["kind"] == "Pod") {
        text = text.replace(pod["metadata"]["name"].as_str().unwrap(), "LIVE-POD");
    }
    let expected = "\
Simulated: 10m0s from 2026-01-01T00:10:00Z. New Pods become ready after 5s, and deleted Pods end at once. Existing Pods and Nodes keep their state.

    +0s  Deployment web: changes spec.template.spec.containers[app].image web:1 -> web:2
    +0s  Deployment web: creates ReplicaSet web-6df48866f4 (1 of 3)
    +0s  ReplicaSet web-6df48866f4: creates Pod web-6df48866f4-?????
    +5s  ReplicaSet web-8484fbb84c: 3 -> 2
    +5s  ReplicaSet web-8484fbb84c: deletes Pod LIVE-POD
    +5s  ReplicaSet web-6df48866f4: 1 -> 2
    +5s  ReplicaSet web-6df48866f4: creates Pod web-6df48866f4-?????
   +10s  ReplicaSet web-8484fbb84c: 2 -> 1
   +10s  ReplicaSet web-8484fbb84c: deletes Pod LIVE-POD
   +10s  ReplicaSet web-6df48866f4: 2 -> 3
   +10s  ReplicaSet web-6df48866f4: creates Pod web-6df48866f4-?????
   +15s  ReplicaSet web-8484fbb84c: 1 -> 0
   +15s  ReplicaSet web-8484fbb84c: deletes Pod LIVE-POD
   +15s  Deployment web: is rolled out

After 10m0s, nothing waits.
";
    assert_eq!(text, expected);
}

#[test]
fn an_object_that_changes_nothing_is_reported_as_such() {
    let cluster = Cluster::new(1);
    cluster.apply(&deployment(2, 1));
    let prediction = cluster.plan(&[deployment(2, 1)]);
    assert!(render::to_text(&prediction).ends_with("\nNothing would change.\n\nAfter 10m0s, nothing waits.\n"));
}

#[test]
fn a_field_that_kubectl_has_applied_and_the_file_no_longer_has_is_removed() {
    let cluster = Cluster::new(1);
    let mut old = deployment(2, 1);
    old["spec"]["minReadySeconds"] = 7.into();
    old["spec"]["template"]["spec"]["containers"][0]["ports"] = json!([{"containerPort": 80}]);
    let last = old.to_string();
    old["metadata"]["annotations"] = json!({"kubectl.kubernetes.io/last-applied-configuration": last});
    cluster.apply(&old);
    let scale = json!({"spec": {"replicas": 4}});
    cluster.runtime.block_on(cluster.sandbox.merge("deployments.apps", Some(NAMESPACE), "web", None, scale)).unwrap();
    let prediction = cluster.plan(&[deployment(2, 1)]);
    let fields: Vec<String> = prediction
        .steps
        .iter()
        .filter_map(|step| match &step.action {
            Action::ApplyChange { fields } => Some(fields.clone()),
            _ => None,
        })
        .flatten()
        .collect();
    assert_eq!(
        fields,
        ["spec.minReadySeconds 7 -> unset", "spec.replicas 4 -> 2", "spec.template.spec.containers[app].ports"]
    );
}

#[test]
fn what_waits_at_the_end_is_named_with_the_reason() {
    let cluster = Cluster::new(1);
    let mut stuck = deployment(2, 1);
    stuck["spec"]["template"]["spec"]["nodeSelector"] = json!({"disk": "ssd"});
    let text = render::to_text(&cluster.plan(&[stuck]));
    let expected = "
    +0s  Deployment web: is created
    +0s  Deployment web: creates ReplicaSet web-77f5c85b8f (2 of 2)
    +0s  ReplicaSet web-77f5c85b8f: creates 2 Pods web-77f5c85b8f-?????
    +0s  Pod web-77f5c85b8f-?????: has no Node: 0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector. (2 times)

After 10m0s, Deployment default/web waits: 2 new Pods are not available yet (minimum available 2, 0 available now; maxUnavailable 0)
";
    assert!(text.ends_with(expected), "{text}");
}

#[test]
fn a_quota_stops_the_controllers_as_on_the_cluster() {
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few", "namespace": NAMESPACE},
        "spec": {"hard": {"pods": "2"}}});
    let text = render::to_text(&Cluster::new(1).plan(&[quota, deployment(4, 1)]));
    let line = "
    +0s  ReplicaSet web-8484fbb84c: creates 2 Pods web-8484fbb84c-?????
    +0s  ReplicaSet web-8484fbb84c: cannot create or delete Pods: pods \"web-8484fbb84c-?????\" is forbidden: exceeded quota: few, \
         requested: pods=1, used: pods=2, limited: pods=2
";
    assert!(text.contains(line), "{text}");
}

#[test]
fn a_pod_that_is_not_ready_keeps_its_state() {
    let cluster = Cluster::new(1);
    cluster.apply(&deployment(2, 1));
    let mut broken = deployment(2, 2);
    broken["spec"]["template"]["metadata"]["annotations"] = json!({"sim/never-ready": "true"});
    cluster.apply(&broken);
    // The progress deadline passes.
    cluster.apply(&broken);
    let mut live = cluster.live();
    // Nothing but its status says that the Pod is not ready.
    for pod in live.objects.iter_mut().filter(|object| object["kind"] == "Pod") {
        pod["metadata"]["annotations"].take();
    }
    let prediction = predict(live, vec![broken], cluster.options()).unwrap();
    assert_eq!(prediction.steps, []);
    assert_eq!(prediction.waiting.len(), 1, "{:?}", prediction.waiting);
    let text = render::to_text(&cluster.plan(&[deployment(2, 3)]));
    assert!(text.contains("Deployment web: is rolled out"), "{text}");
}

#[test]
fn an_object_that_the_server_would_reject_is_an_error() {
    let mut invalid = deployment(2, 1);
    invalid["spec"]["selector"] = json!({"matchLabels": {"app": "other"}});
    let cluster = Cluster::new(1);
    let error = predict(cluster.live(), vec![invalid], cluster.options()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the server would reject Deployment default/web: Deployment.apps \"web\" is invalid: spec.template.metadata.labels: \
         Invalid value: {\"app\":\"web\"}: `selector` does not match template `labels`"
    );
    let mut elsewhere = deployment(2, 1);
    elsewhere["metadata"]["namespace"] = "shop".into();
    let error = predict(cluster.live(), vec![elsewhere], cluster.options()).unwrap_err();
    assert_eq!(error.to_string(), "the server would reject Deployment shop/web: namespaces \"shop\" not found");
}

#[test]
fn custom_resources_are_not_simulated() {
    let custom = json!({"apiVersion": "cert-manager.io/v1", "kind": "Certificate", "metadata": {"name": "web"}});
    let cluster = Cluster::new(1);
    let error = predict(cluster.live(), vec![custom.clone()], cluster.options()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "no object can be simulated: Certificate web (cert-manager.io/v1): no built-in kind of Kubernetes 1.36"
    );
    let prediction = predict(cluster.live(), vec![custom, deployment(1, 1)], cluster.options()).unwrap();
    assert_eq!(prediction.notes, ["Certificate web (cert-manager.io/v1) is a custom resource and is not simulated"]);
    assert!(render::to_text(&prediction).contains("Deployment web: is rolled out"));
}

#[test]
fn objects_that_no_controller_reads_are_named() {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web", "namespace": NAMESPACE}});
    let prediction = Cluster::new(1).plan(&[map]);
    assert_eq!(prediction.notes, ["no controller acts on ConfigMap default/web: their changes are not shown"]);
    assert_eq!(prediction.steps, []);
}

#[test]
fn a_new_namespace_is_created_before_its_objects() {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
    let mut new = deployment(1, 1);
    new["metadata"]["namespace"] = "shop".into();
    let text = render::to_text(&Cluster::new(1).plan(&[namespace, new]));
    let lines = "\n    +0s  Namespace shop: is created\n    +0s  Deployment shop/web: is created\n";
    assert!(text.contains(lines) && text.contains("    +5s  Deployment shop/web: is rolled out\n"), "{text}");
}

#[test]
fn a_dependent_of_an_owner_that_was_not_read_is_kept() {
    let cluster = Cluster::new(1);
    cluster.apply(&deployment(1, 1));
    for (api_version, kind) in [("v1", "ConfigMap"), ("argoproj.io/v1alpha1", "Application")] {
        let mut live = cluster.live();
        let owned = live.objects.iter_mut().find(|object| object["kind"] == "Deployment").unwrap();
        owned["metadata"]["ownerReferences"] =
            json!([{"apiVersion": api_version, "kind": kind, "name": "owner", "uid": "1"}]);
        let prediction = predict(live, vec![deployment(1, 1)], cluster.options()).unwrap();
        assert_eq!((prediction.steps, prediction.other_steps), (vec![], 0), "{kind}");
    }
}

#[test]
fn a_stateful_set_replaces_as_many_pods_at_once_as_the_live_set_may() {
    let set = |image: u8| {
        workload(
            "StatefulSet",
            json!({"replicas": 4, "serviceName": "web", "template": template(image),
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 3}}}),
        )
    };
    let cluster = Cluster::new(1);
    cluster.apply(&set(1));
    let text = render::to_text(&cluster.plan(&[set(2)]));
    assert!(text.contains("+0s  StatefulSet web: deletes Pods web-3, web-2, web-1\n"), "{text}");
}

#[test]
fn nodes_that_cannot_be_read_are_simulated() {
    let cluster = Cluster::new(2);
    let old = workload("DaemonSet", json!({"template": template(1)}));
    cluster.apply(&old);
    let mut live = cluster.live();
    live.objects.retain(|object| object["kind"] != "Node");
    live.unread.push(UnreadList { kind: NODES, namespace: None, why: "forbidden".to_owned() });
    let new = workload("DaemonSet", json!({"template": template(2)}));
    let prediction = predict(live, vec![new], cluster.options()).unwrap();
    assert_eq!(prediction.notes, ["Nodes cannot be read: forbidden. 2 simulated nodes are used instead"]);
    assert_eq!(prediction.steps.iter().filter_map(size_of_step).count(), 4, "{}", render::to_text(&prediction));
}

/// A kubeconfig of a user with these rules, and a file with an object.
async fn served(name: &str, rules: Value, object: &Value) -> (Sandbox, Server, PathBuf, PathBuf) {
    let sandbox = Sandbox::builder().rbac(true).build();
    sandbox.grant("dev", rules).await.unwrap();
    let server = sandbox.serve(([127, 0, 0, 1], 0).into(), Tls::On).await.unwrap();
    let path = |ending: &str| PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.{ending}"));
    std::fs::write(path("kubeconfig"), server.kubeconfig_for("dev", Credential::Token)).unwrap();
    std::fs::write(path("json"), object.to_string()).unwrap();
    (sandbox, server, path("kubeconfig"), path("json"))
}

#[tokio::test]
async fn a_list_without_which_the_plan_would_be_wrong_is_an_error_with_the_missing_right() {
    let rules = json!([{"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["list"]}]);
    let (_, _server, kubeconfig, _) = served("plan-forbidden", rules, &Value::Null).await;
    let connection = Connection::open(Some(&kubeconfig), None, Duration::from_secs(30)).await.unwrap();
    assert_eq!(
        read(&connection, &[deployment(1, 1)], NAMESPACE).await.unwrap_err(),
        "a plan of a Deployment needs replicasets.apps: forbidden; it needs list on replicasets.apps in the namespace default -> \
         request the right; kubectl auth can-i list replicasets.apps -n default"
    );
}

#[tokio::test]
async fn the_command_prints_the_plan_and_writes_nothing() {
    let rules = json!([
        {"apiGroups": ["apps"], "resources": ["deployments", "replicasets"], "verbs": ["list"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
    ]);
    let (sandbox, _server, kubeconfig, file) = served("plan-command", rules, &deployment(2, 1)).await;
    let output = tokio::task::spawn_blocking(move || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-nonet"));
        command
            .arg("plan")
            .arg("-f")
            .arg(file)
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .arg("--timeout=30s")
            .output()
            .unwrap()
    });
    let output = output.await.unwrap();
    let (text, errors) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert_eq!((output.status.code(), errors.as_str()), (Some(0), ""));
    assert!(
        text.contains(
            "note: Nodes cannot be read: forbidden; it needs list on nodes in the whole cluster. 3 simulated nodes"
        ),
        "{text}"
    );
    assert!(text.contains("Deployment web: is rolled out\n"), "{text}");
    let verbs: BTreeSet<&str> =
        sandbox.requests().all().into_keys().filter(|key| key.identity == "dev").map(|key| key.verb).collect();
    assert_eq!(verbs, BTreeSet::from(["get", "list"]));
}
