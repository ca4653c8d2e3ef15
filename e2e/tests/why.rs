//! What `kubectl nonet why` says about stuck objects, on the sandbox in virtual time.

use std::{fmt::Write as _, sync::Arc, time::Duration};

use common::{clock::Clock, settings::OperatorSettings};
use e2e::{
    controllers::ALL,
    loops::Loops,
    nodes::Nodes,
    sandbox::{Action, Rule, Sandbox},
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
    let readme = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../README.md")).unwrap();
    let example = readme.split("```").find(|block| block.contains("$ kubectl nonet why ")).unwrap();
    assert!(
        shown.contains(example),
        "README.md shows an example that docs/stuck.md does not have; copy it from there:\n{example}"
    );
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

/// A list that fails is named, and no controller decides without it.
#[test]
fn faults_of_the_server_are_named_and_mislead_no_decision() {
    in_virtual_time(async {
        let world = World::new(&[]).await;
        let all = situations::all().unwrap();
        let situation = all.iter().find(|each| each.title == "A readiness probe that fails").unwrap();
        situation.build(&world.place()).await.unwrap();
        let slow = Duration::from_secs(60);
        for (fault, why) in [
            (Action::Latency(slow), "no answer within 10s"),
            (Action::CutBefore, "connection cut"),
            (Action::Forbidden, "forbidden"),
            (Action::InternalError, "Internal error occurred"),
        ] {
            world.sandbox.faults().add(Rule::new(fault.clone()).identity("user").resource("pods"));
            let target = Target::parse("deployment/web").unwrap();
            let reader = world.reader("user", Some(NAMESPACE));
            let answer = why::explain(&reader, &world.clock, NAMESPACE, &target).await.unwrap();
            world.sandbox.faults().clear();
            let text = answer.to_text(COLUMNS, false);
            assert!(answer.unread["pods"].contains(why), "{fault:?}: {text}");
            assert!(
                text.contains("decides nothing here, because pods cannot be read [replicaset controller]"),
                "{text}"
            );
            assert!(!text.contains("next: create") && !text.contains("It waits for nothing."), "{text}");
        }
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
            "A cordoned node",
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
        let admin = e2e::sandbox::ADMIN;
        let one = why::explain_failing(&world.reader(admin, Some(NAMESPACE)), &world.clock, Some(NAMESPACE)).await;
        let all = why::explain_failing(&world.reader(admin, None), &world.clock, None).await;
        let missing = why::explain_failing(&world.reader(admin, Some("none")), &world.clock, Some("none")).await;
        let missing = missing.unwrap_err().to_string();
        assert_eq!(missing, "namespace none does not exist; see: kubectl get namespaces");
        let (one, all) = (one.unwrap(), all.unwrap());
        let fail = |answers: &[Answer]| answers.iter().filter(|answer| answer.fails()).count();
        assert_eq!((fail(&one), fail(&all)), (2, 2));
        // The suspended Job and the cordoned node wait, and do not fail.
        let in_namespace = ["shop StatefulSet/web", "shop Job/import", "shop Service/web"].map(str::to_owned);
        assert_eq!(names(one), in_namespace);
        assert_eq!(names(all), [&in_namespace[..], &[" Node/node-1".to_owned()]].concat());
    });
}
