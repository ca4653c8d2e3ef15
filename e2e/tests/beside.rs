//! The plug-in on a real API server with kube-controller-manager, and without any program of this project in the cluster.
//!
//! `KUBEBUILDER_ASSETS` has to contain kube-controller-manager beside etcd and kube-apiserver. The nodes are simulated.

use std::{
    collections::BTreeMap,
    fs::File,
    path::{Path, PathBuf},
    time::Duration,
};

use e2e::{
    cluster::{Cluster, Kind},
    nodes::Nodes,
    situations::{self, NAMESPACE, Place, Situation},
    skips,
};
use futures::future::join_all;
use http::{Method, Request};
use kubectl_nonet::{
    connection::Connection,
    plan::{self, Options, read as live, steps::Action},
    why::{self, Target, reader::Reader},
};
use serde_json::{Value, json};
use tokio::process::{Child, Command};

use crate::{repository::read, world::name};

const TIMEOUT: Duration = Duration::from_secs(10);
const READY_AFTER: Duration = Duration::from_secs(1);
/// The longest time that a situation may take.
const MAX_SECONDS: u64 = 130;

/// A cluster in which kube-controller-manager runs all its loops.
struct Upstream {
    cluster: Cluster,
    _manager: Child,
}

impl Upstream {
    async fn start(manager: &Path, nodes: sandbox::nodes::Builder) -> Self {
        let cluster = Cluster::builder().kind(Kind::Envtest).nodes(Some(nodes)).start().await.unwrap();
        let log = cluster.directory().join("kube-controller-manager.log");
        let manager = Command::new(manager)
            .arg("--kubeconfig")
            .arg(cluster.kubeconfig())
            .args(["--leader-elect=false", "--secure-port=0", "--kube-api-qps=200", "--kube-api-burst=400"])
            .stderr(File::create(log).unwrap())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        Self { cluster, _manager: manager }
    }

    async fn send(&self, method: Method, path: &str, body: &Value) -> Value {
        let media = if method == Method::PATCH { "application/apply-patch+yaml" } else { "application/json" };
        let request = Request::builder().method(method).uri(path).header("content-type", media);
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        self.cluster.client().request(request.body(body).unwrap()).await.unwrap()
    }

    async fn create_namespace(&self, name: &str) {
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        self.send(Method::POST, "/api/v1/namespaces", &object).await;
    }
}

/// The program that the tests need; `None` if it is absent, which is recorded.
fn manager(test: &str) -> Option<PathBuf> {
    let assets = std::env::var_os("KUBEBUILDER_ASSETS");
    let manager = assets.map(|assets| Path::new(&assets).join("kube-controller-manager")).filter(|path| path.is_file());
    skips::note(test, manager.is_none().then_some("KUBEBUILDER_ASSETS has no kube-controller-manager"));
    manager
}

fn in_real_time<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap().block_on(work)
}

/// Replaces what differs between two runs: random ends of names, digits of ages, the namespace, and the addresses of Pods.
fn without_chance(text: &str, namespace: &str) -> String {
    let is_random = |end: &str| {
        end.len() == 5 && end.chars().all(|c| c.is_ascii_digit() || c.is_ascii_lowercase() && !"aeiou".contains(c))
    };
    let word = |word: &str| {
        let (own, rest) = word
            .split_at(word.find(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '"').unwrap_or(word.len()));
        let (bare, quote) = own.strip_suffix('"').map_or((own, ""), |bare| (bare, "\""));
        match bare.rsplit_once('-') {
            Some((start, end)) if is_random(end) => format!("{start}-?{quote}{rest}"),
            _ => word.to_owned(),
        }
    };
    let words: Vec<String> = text.split_whitespace().map(word).collect();
    words.join(" ").replace(namespace, NAMESPACE)
}

/// The causes on the page, by title.
fn causes_on_the_page() -> BTreeMap<String, String> {
    let page = read("docs/reference/stuck.md");
    let cause = |section: &str| {
        let title = section.lines().next().unwrap_or_default().to_owned();
        let text = section.rsplit_once("```").map_or("", |(text, _)| text);
        (title, without_chance(self::cause(text), NAMESPACE))
    };
    page.split("\n## ").skip(1).map(cause).collect()
}

/// The end of an answer: its cause, and what people do.
fn cause(answer: &str) -> &str {
    let begin = answer.find("\nCause: ").or_else(|| answer.find("\nIt waits for nothing."));
    &answer[begin.unwrap_or_default()..]
}

/// The same objects get stuck, and the answer names the same cause as on the page.
#[test]
fn the_causes_are_the_same() {
    let Some(manager) = manager("beside::the_causes_are_the_same") else { return };
    in_real_time(async {
        let upstream = Upstream::start(&manager, Nodes::builder().count(3)).await;
        let expected = causes_on_the_page();
        let all = situations::all().unwrap();
        let chosen: Vec<&Situation> =
            all.iter().filter(|each| each.is_local() && each.seconds() <= MAX_SECONDS).collect();
        let work =
            chosen.iter().enumerate().map(|(index, situation)| difference(&upstream, situation, index, &expected));
        let differences: Vec<String> = join_all(work).await.into_iter().flatten().collect();
        upstream.cluster.stop().await;
        assert!(chosen.len() >= 30, "only {} situations", chosen.len());
        assert!(
            differences.is_empty(),
            "{} of {} differ:\n{}",
            differences.len(),
            chosen.len(),
            differences.join("\n")
        );
    });
}

/// Builds a situation in a namespace of its own, and compares the cause.
async fn difference(
    upstream: &Upstream,
    situation: &Situation,
    index: usize,
    expected: &BTreeMap<String, String>,
) -> Option<String> {
    let namespace = format!("shop{index:03}");
    upstream.create_namespace(&namespace).await;
    let (cluster, title) = (&upstream.cluster, &situation.title);
    let client = cluster.client().clone();
    let place =
        Place { client: client.clone(), namespace: &namespace, nodes: cluster.nodes()?, clock: cluster.clock() };
    if let Err(refused) = situation.build(&place).await {
        return Some(format!("{title}: {refused}"));
    }
    let target = Target::parse(&situation.ask).unwrap();
    let reader = Reader::with_client(client, TIMEOUT, target.is_namespaced().then_some(&*namespace));
    let answer = match why::explain(&reader, cluster.clock(), &namespace, &target).await {
        Ok(answer) => answer.to_text(usize::MAX, false),
        Err(refused) => return Some(format!("{title}: {refused}")),
    };
    let (found, wanted) = (without_chance(cause(&answer), &namespace), &expected[title]);
    (found != *wanted).then(|| format!("## {title}\n- {wanted}\n+ {found}\n{answer}"))
}

/// A workload before a change, and after it.
fn changes() -> Vec<(&'static str, Value, Value)> {
    let object = |kind: &str, strategy: &Value, (replicas, image): (u32, u8)| {
        let container = json!({"name": "main", "image": format!("registry.example/web:{image}")});
        let pod = json!({"terminationGracePeriodSeconds": 0, "containers": [container]});
        let mut spec = json!({"selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": pod}});
        spec[if kind == "Deployment" { "strategy" } else { "updateStrategy" }] = strategy.clone();
        if kind != "DaemonSet" {
            spec["replicas"] = replicas.into();
        }
        if kind == "StatefulSet" {
            spec["serviceName"] = "web".into();
        }
        json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "web"}, "spec": spec})
    };
    let rolling = |limits: Value| json!({"type": "RollingUpdate", "rollingUpdate": limits});
    let limits = |surge: u8, unavailable: u8| rolling(json!({"maxSurge": surge, "maxUnavailable": unavailable}));
    let from = |partition: u8| rolling(json!({ "partition": partition }));
    // Of each side, the number of replicas and the image.
    let rows = [
        ("surge", "Deployment", limits(1, 0), (3, 1), (3, 2)),
        ("unavailable", "Deployment", limits(0, 1), (4, 1), (4, 2)),
        ("recreate", "Deployment", json!({"type": "Recreate"}), (2, 1), (2, 2)),
        ("up", "Deployment", limits(1, 0), (2, 1), (5, 1)),
        ("down", "Deployment", limits(1, 0), (5, 1), (1, 1)),
        ("both", "Deployment", limits(1, 0), (2, 1), (3, 2)),
        ("ordinals", "StatefulSet", from(0), (3, 1), (3, 2)),
        ("partition", "StatefulSet", from(2), (3, 1), (3, 2)),
        ("more-ordinals", "StatefulSet", from(0), (1, 1), (3, 1)),
        ("fewer-ordinals", "StatefulSet", from(0), (3, 1), (1, 1)),
        ("daemon-surge", "DaemonSet", limits(1, 0), (0, 1), (0, 2)),
        ("daemon-unavailable", "DaemonSet", limits(0, 1), (0, 1), (0, 2)),
    ];
    let change = |(name, kind, strategy, before, after): (_, _, Value, _, _)| {
        (name, object(kind, &strategy, before), object(kind, &strategy, after))
    };
    rows.into_iter().map(change).collect()
}

/// The sizes of ReplicaSets, and the Pods of the other workloads, that a plan predicts.
fn planned(prediction: &plan::Prediction) -> Vec<String> {
    let size = |step: &plan::steps::Step| {
        let owner = step.object.kind.as_str();
        let of_pods = |kind: &str| kind == "Pod" && ["StatefulSet", "DaemonSet"].contains(&owner);
        match &step.action {
            Action::Create { child, size: Some((size, _)) } => {
                (*size > 0).then(|| format!("{} 0 -> {size}", child.name))
            }
            Action::Scale { from, to } if owner == "ReplicaSet" => Some(format!("{} {from} -> {to}", step.object.name)),
            Action::Create { child, .. } if of_pods(&child.kind) => Some(format!("+{}", shown(owner, &child.name))),
            Action::Delete { child } if of_pods(&child.kind) => Some(format!("-{}", shown(owner, &child.name))),
            _ => None,
        }
    };
    prediction.steps.iter().filter_map(size).collect()
}

/// A Pod of a workload: by its name, unless the name is random.
fn shown<'a>(kind: &str, pod: &'a str) -> &'a str {
    if kind == "DaemonSet" { "daemon" } else { pod }
}

/// The same from what a watch of ReplicaSets or Pods brings.
#[derive(Default)]
struct Observed {
    sizes: BTreeMap<String, i64>,
    terminating: BTreeMap<String, bool>,
    lines: Vec<String>,
}

impl Observed {
    fn see(&mut self, kind: &str, event: &str, object: &Value) {
        let (name, is_gone) = (name(object).to_owned(), event == "DELETED");
        if kind == "Deployment" {
            let size = if is_gone { 0 } else { object["spec"]["replicas"].as_i64().unwrap_or_default() };
            let before = self.sizes.insert(name.clone(), size).unwrap_or_default();
            self.lines.extend((before != size).then(|| format!("{name} {before} -> {size}")));
            return;
        }
        let is_terminating = is_gone || object["metadata"]["deletionTimestamp"].is_string();
        match self.terminating.insert(name.clone(), is_terminating) {
            None => self.lines.push(format!("+{}", shown(kind, &name))),
            Some(false) if is_terminating => self.lines.push(format!("-{}", shown(kind, &name))),
            _ => {}
        }
        if is_gone {
            self.terminating.remove(&name);
        }
    }
}

/// What a plan says is what kube-controller-manager then does.
#[test]
fn the_plan_is_what_happens() {
    let Some(manager) = manager("beside::the_plan_is_what_happens") else { return };
    in_real_time(async {
        let upstream = Upstream::start(&manager, Nodes::builder().count(3).ready_after(READY_AFTER)).await;
        let connection = Connection::open(Some(upstream.cluster.kubeconfig()), None, TIMEOUT).await.unwrap();
        let changes = changes();
        let work = changes.iter().map(|(name, before, after)| surprise(&upstream, &connection, name, before, after));
        let surprises: Vec<String> = join_all(work).await.into_iter().flatten().collect();
        upstream.cluster.stop().await;
        assert!(surprises.is_empty(), "{} of {}:\n{}", surprises.len(), changes.len(), surprises.join("\n"));
    });
}

async fn surprise(
    upstream: &Upstream,
    connection: &Connection,
    namespace: &str,
    before: &Value,
    after: &Value,
) -> Option<String> {
    let clock = upstream.cluster.clock();
    upstream.create_namespace(namespace).await;
    let kind = before["kind"].as_str()?;
    let path =
        format!("/apis/apps/v1/namespaces/{namespace}/{}s/web?fieldManager=user&force=true", kind.to_lowercase());
    upstream.send(Method::PATCH, &path, before).await;
    clock.sleep(Duration::from_secs(30)).await;

    let mut given = after.clone();
    given["metadata"]["namespace"] = namespace.into();
    let live = live::read(connection, std::slice::from_ref(&given), namespace).await.unwrap();
    let options = Options { start: clock.now(), duration: Duration::from_mins(5), ready_after: READY_AFTER };
    let prediction =
        tokio::task::spawn_blocking(move || plan::predict(live, vec![given], options)).await.unwrap().unwrap();

    let mut observed = Observed::default();
    let collection = if kind == "Deployment" { "/apis/apps/v1/namespaces" } else { "/api/v1/namespaces" };
    let plural = if kind == "Deployment" { "replicasets" } else { "pods" };
    let collection = format!("{collection}/{namespace}/{plural}");
    let list = upstream.send(Method::GET, &collection, &Value::Null).await;
    for object in list["items"].as_array()? {
        observed.see(kind, "ADDED", object);
    }
    observed.lines.clear();
    upstream.send(Method::PATCH, &path, after).await;
    clock.sleep(Duration::from_secs(45)).await;
    let version = list["metadata"]["resourceVersion"].as_str()?;
    let watch = format!("{collection}?watch=1&resourceVersion={version}&timeoutSeconds=1");
    let events = upstream.cluster.client().request_text(Request::get(watch).body(Vec::new()).unwrap()).await.unwrap();
    for line in events.lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        observed.see(kind, event["type"].as_str()?, &event["object"]);
    }
    let planned = planned(&prediction);
    (planned != observed.lines).then(|| format!("{namespace}: planned {planned:?}\n  done {:?}", observed.lines))
}
