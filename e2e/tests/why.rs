//! What `kubectl nonet why` says about stuck objects, on the sandbox in virtual time.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

use std::{fmt::Write as _, sync::Arc, time::Duration};

use common::{clock::Clock, settings::OperatorSettings};
use e2e::{
    controllers::ALL,
    loops::Loops,
    nodes::Nodes,
    sandbox::Sandbox,
    situations::{self, NAMESPACE, Place, Situation},
};
use kubectl_nonet::why::{self, Target, reader::Reader, tree::Answer};
use serde_json::{Value, json};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/stuck.md");
const TIMEOUT: Duration = Duration::from_secs(10);
/// Columns of the page.
const COLUMNS: usize = 120;

struct World {
    sandbox: Sandbox,
    clock: Clock,
    nodes: Nodes,
    _loops: Vec<Loops>,
}

impl World {
    async fn new(without: &[String]) -> Self {
        let clock = Clock::simulated("2026-11-21T09:37:27.2Z".parse().unwrap(), 42);
        let sandbox = Sandbox::builder().clock(clock.clone()).build();
        let nodes = Nodes::builder().count(3).start(sandbox.client("nodes"), clock.clone());
        nodes.ready().await;
        for name in [NAMESPACE, "kube-system"] {
            drop(sandbox.create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})).await);
        }
        let run = ALL.iter().filter(|controller| !without.iter().any(|name| name == controller.name));
        let start = |controller: &&common::app::ProgramDefinition| {
            Loops::start(&sandbox.client(controller.name), &clock, OperatorSettings::new(), controller.loops)
        };
        let loops: Vec<Loops> = run.map(start).collect();
        clock.sleep(Duration::from_secs(5)).await;
        Self { sandbox, clock, nodes, _loops: loops }
    }

    fn reader(&self, identity: &str, namespace: Option<&str>) -> Arc<Reader> {
        Reader::with_client(self.sandbox.client(identity), TIMEOUT, namespace)
    }

    fn place(&self) -> Place<'_> {
        let client = self.sandbox.client(e2e::sandbox::ADMIN);
        Place { client, namespace: NAMESPACE, nodes: &self.nodes, clock: &self.clock }
    }

    async fn ask(&self, object: &str) -> Answer {
        let target = Target::parse(object).unwrap();
        let reader = self.reader(e2e::sandbox::ADMIN, target.is_namespaced().then_some(NAMESPACE));
        why::explain(&reader, &self.clock, NAMESPACE, &target).await.unwrap()
    }
}

async fn explained(situation: &Situation) -> Answer {
    let world = World::new(&situation.without).await;
    let built = situation.build(&world.place()).await;
    built.unwrap_or_else(|refused| panic!("{}: {refused}", situation.title));
    world.ask(&situation.ask).await
}

fn in_virtual_time<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(work)
}

/// `docs/stuck.md` shows what the command prints, to the word.
#[test]
fn the_page_shows_the_answer_to_every_situation() {
    let mut page = std::fs::read_to_string(PAGE).unwrap_or_default();
    let shown = page.split_off(page.find("\n## ").map_or(page.len(), |at| at + 1));
    let mut found = String::new();
    for situation in situations::all().unwrap() {
        let answer = in_virtual_time(explained(&situation));
        let namespace = if answer.namespace.is_empty() { String::new() } else { format!(" -n {NAMESPACE}") };
        let _ =
            writeln!(found, "## {}\n\n```console\n$ kubectl nonet why {}{namespace}", situation.title, situation.ask);
        let _ = writeln!(found, "{}```\n", answer.to_text(COLUMNS, false));
    }
    let found = format!("{}\n", found.trim_end());
    if found != shown {
        let path = concat!(env!("CARGO_TARGET_TMPDIR"), "/stuck.md");
        std::fs::write(path, format!("{page}{found}")).unwrap();
        let line = found.lines().zip(shown.lines()).position(|(one, other)| one != other).unwrap_or_default();
        panic!(
            "docs/stuck.md differs from what is printed, first at {:?}; if {path} is right, copy it",
            found.lines().nth(line)
        );
    }
}

fn pods_of(set: &Value, count: usize, reason: &str) -> Vec<Value> {
    let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": set["metadata"]["name"], "uid": set["metadata"]["uid"], "controller": true});
    let pod = |index: usize| {
        json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("web-{index:05}"), "namespace": NAMESPACE, "labels": {"app": "web"}, "ownerReferences": [owner]},
        "spec": {"nodeName": "node-1", "containers": [{"name": "main", "image": "registry.example/web:1"}]},
        "status": {"phase": "Pending", "containerStatuses": [{"name": "main", "image": "registry.example/web:1", "imageID": "", "ready": false,
            "restartCount": 0, "state": {"waiting": {"reason": reason}}}]}})
    };
    (0..count).map(pod).collect()
}

/// The answer about a Deployment with 5,000 Pods needs one list of each kind, and shows Pods in the same state once.
#[test]
fn thousands_of_pods_cost_one_list_and_one_line() {
    in_virtual_time(async {
        let clock = Clock::simulated("2026-11-21T09:37:27.2Z".parse().unwrap(), 42);
        let sandbox = Sandbox::builder().clock(clock.clone()).build();
        sandbox
            .create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}))
            .await
            .unwrap();
        let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": "registry.example/web:1"}]}});
        let spec = json!({"replicas": 5000, "selector": {"matchLabels": {"app": "web"}}, "template": template});
        let object = |kind: &str, metadata: Value| json!({"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": spec});
        let deployment =
            sandbox.create(object("Deployment", json!({"name": "web", "namespace": NAMESPACE}))).await.unwrap();
        let owner = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": deployment["metadata"]["uid"], "controller": true});
        let set = sandbox
            .create(object("ReplicaSet", json!({"name": "web-1", "namespace": NAMESPACE, "ownerReferences": [owner]})))
            .await
            .unwrap();
        for pod in pods_of(&set, 5000, "ErrImagePull") {
            let (name, status) = (pod["metadata"]["name"].clone(), json!({"status": pod["status"]}));
            sandbox.create(pod).await.unwrap();
            sandbox.merge("pods", Some(NAMESPACE), name.as_str().unwrap(), Some("status"), status).await.unwrap();
        }
        sandbox.requests().clear();
        let reader = Reader::with_client(sandbox.client("user"), TIMEOUT, Some(NAMESPACE));
        let answer = why::explain(&reader, &clock, NAMESPACE, &Target::parse("deploy/web").unwrap()).await.unwrap();
        let text = answer.to_text(COLUMNS, false);
        assert!(text.contains("Pod web-00000 on node-1 and 4,999 others alike"), "{text}");
        // Deployments, ReplicaSets, Pods, Events, Nodes, and the Leases, because nothing has observed the Deployment.
        assert_eq!(reader.request_count(), 6);
        assert!(text.lines().count() < 40, "{text}");
        let narrow = answer.to_text(60, false);
        assert!(narrow.lines().all(|line| line.chars().count() <= 60), "{narrow}");
    });
}

/// A tenant without any right outside his namespace gets an answer; what he may not read is named.
#[test]
fn half_the_rights_give_half_the_answer() {
    in_virtual_time(async {
        let clock = Clock::simulated("2026-11-21T09:37:27.2Z".parse().unwrap(), 42);
        let sandbox = Sandbox::builder().clock(clock.clone()).rbac(true).build();
        sandbox
            .create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}))
            .await
            .unwrap();
        let rules = json!([{"apiGroups": ["apps"], "resources": ["deployments", "replicasets"], "verbs": ["get", "list"]},
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}]);
        let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "dev", "namespace": NAMESPACE}, "rules": rules});
        sandbox.create(role).await.unwrap();
        let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "dev", "namespace": NAMESPACE},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "dev"}, "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "dev"}]});
        sandbox.create(binding).await.unwrap();
        let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": "registry.example/web:1"}]}});
        let spec = json!({"paused": true, "selector": {"matchLabels": {"app": "web"}}, "template": template});
        let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": NAMESPACE}, "spec": spec});
        sandbox.create(deployment).await.unwrap();
        sandbox
            .merge(
                "deployments.apps",
                Some(NAMESPACE),
                "web",
                Some("status"),
                json!({"status": {"observedGeneration": 1}}),
            )
            .await
            .unwrap();
        let ask = async |identity: &str, object: &str| {
            let reader = Reader::with_client(sandbox.client(identity), TIMEOUT, Some(NAMESPACE));
            why::explain(&reader, &clock, NAMESPACE, &Target::parse(object).unwrap()).await
        };
        let answer = ask("dev", "deployment/web").await.unwrap();
        let text = answer.to_text(COLUMNS, false);
        assert!(text.contains("Cause: Deployment web is paused"), "{text}");
        assert!(text.contains("not read: events: "), "{text}");
        let refused = ask("stranger", "deployment/web").await.unwrap_err().to_string();
        assert!(
            refused.starts_with("Deployment: cannot list deployments.apps: ") && refused.contains("stranger"),
            "{refused}"
        );
        let missing = ask("dev", "deployment/wep").await.unwrap_err().to_string();
        assert_eq!(missing, "Deployment wep does not exist in namespace shop; did you mean web?");
        let unknown = Target::parse("ingress/web").unwrap_err().to_string();
        assert!(unknown.starts_with("\"ingress/web\" is not KIND/NAME; the kinds are deployment, "), "{unknown}");
    });
}

/// `--all-failing` shows what does not get better by itself, and nothing else.
#[test]
fn all_failing_objects_are_found() {
    in_virtual_time(async {
        let world = World::new(&[]).await;
        let chosen = [
            "An ordinal behind a broken Pod",
            "A suspended Job",
            "A Service whose selector matches no Pod",
            "A CronJob between two runs",
        ];
        for situation in situations::all().unwrap().iter().filter(|each| chosen.contains(&each.title.as_str())) {
            situation.build(&world.place()).await.unwrap();
        }
        let names = |answers: Vec<Answer>| -> Vec<String> {
            answers
                .into_iter()
                .map(|answer| format!("{} {}/{}", answer.namespace, answer.tree.kind, answer.tree.name))
                .collect()
        };
        let one =
            why::explain_failing(&world.reader(e2e::sandbox::ADMIN, Some(NAMESPACE)), &world.clock, Some(NAMESPACE))
                .await;
        let all = why::explain_failing(&world.reader(e2e::sandbox::ADMIN, None), &world.clock, None).await;
        let failing = ["shop StatefulSet/web", "shop Service/web"];
        assert_eq!(
            (names(one), names(all)),
            (failing.map(str::to_owned).to_vec(), failing.map(str::to_owned).to_vec())
        );
    });
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
fn causes_on_the_page() -> std::collections::BTreeMap<String, String> {
    let page = std::fs::read_to_string(PAGE).unwrap();
    let sections = page.split("\n## ").skip(1);
    let cause = |section: &str| {
        let title = section.lines().next().unwrap_or_default().to_owned();
        let text = section.rsplit_once("```").map_or("", |(text, _)| text);
        let begin = text.find("\nCause: ").or_else(|| text.find("\nIt waits for nothing.")).unwrap_or_default();
        (title, without_chance(&text[begin..], NAMESPACE))
    };
    sections.map(cause).collect()
}

/// On a real API server, with kube-controller-manager and without any program of this project, the same objects get stuck, and the
/// answer names the same cause.
#[test]
fn the_causes_are_the_same_beside_kube_controller_manager() {
    const TEST: &str = "why::the_causes_are_the_same_beside_kube_controller_manager";
    let manager = std::env::var_os("KUBEBUILDER_ASSETS")
        .map(|assets| std::path::Path::new(&assets).join("kube-controller-manager"));
    let Some(manager) = manager.filter(|manager| manager.is_file()) else {
        return e2e::skips::note(TEST, Some("KUBEBUILDER_ASSETS has no kube-controller-manager"));
    };
    e2e::skips::note(TEST, None);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let (count, differences) = runtime.block_on(beside(&manager));
    assert!(count >= 30, "only {count} situations");
    assert!(differences.is_empty(), "{} of {count} differ:\n{}", differences.len(), differences.join("\n"));
}

async fn beside(manager: &std::path::Path) -> (usize, Vec<String>) {
    let cluster =
        e2e::cluster::Cluster::builder().kind(e2e::cluster::Kind::Envtest).nodes(Some(Nodes::builder().count(3)));
    let cluster = cluster.start().await.unwrap();
    let log = std::fs::File::create(concat!(env!("CARGO_TARGET_TMPDIR"), "/kube-controller-manager.log")).unwrap();
    let mut running = tokio::process::Command::new(manager)
        .arg("--kubeconfig")
        .arg(cluster.kubeconfig())
        .args(["--leader-elect=false", "--secure-port=0", "--kube-api-qps=200", "--kube-api-burst=400"])
        .args(["--concurrent-deployment-syncs=20", "--concurrent-replicaset-syncs=20", "--concurrent-job-syncs=20"])
        .stderr(log)
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let expected = causes_on_the_page();
    let all = situations::all().unwrap();
    let chosen: Vec<&Situation> = all.iter().filter(|each| each.is_local() && each.seconds() <= 130).collect();
    let work = chosen.iter().enumerate().map(|(index, situation)| {
        let (cluster, expected) = (&cluster, &expected);
        async move {
            let namespace = format!("shop{index:03}");
            let client = cluster.client().clone();
            let place = Place {
                client: client.clone(),
                namespace: &namespace,
                nodes: cluster.nodes().unwrap(),
                clock: cluster.clock(),
            };
            let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}).to_string();
            let request = http::Request::post("/api/v1/namespaces").header("content-type", "application/json");
            client.request::<Value>(request.body(body.into_bytes()).unwrap()).await.unwrap();
            if let Err(refused) = situation.build(&place).await {
                return Some(format!("{}: {refused}", situation.title));
            }
            let target = Target::parse(&situation.ask).unwrap();
            let reader = Reader::with_client(client, TIMEOUT, target.is_namespaced().then_some(&*namespace));
            let answer = match why::explain(&reader, cluster.clock(), &namespace, &target).await {
                Ok(answer) => answer.to_text(COLUMNS, false),
                Err(refused) => return Some(format!("{}: {refused}", situation.title)),
            };
            let begin = answer.find("\nCause: ").or_else(|| answer.find("\nIt waits for nothing.")).unwrap_or_default();
            let (found, wanted) = (without_chance(&answer[begin..], &namespace), &expected[&situation.title]);
            (found != *wanted).then(|| format!("## {}\n- {wanted}\n+ {found}\n{answer}", situation.title))
        }
    });
    let differences = futures::future::join_all(work).await.into_iter().flatten().collect();
    drop(running.start_kill());
    cluster.stop().await;
    (chosen.len(), differences)
}
