//! What `kubectl nonet why` says about stuck objects, on the sandbox in virtual time.

use std::{collections::BTreeSet, fmt::Write as _, sync::Arc, time::Duration};

use e2e::{
    nodes::Nodes,
    sandbox::{self, ADMIN, Action, Rule, Sandbox},
    situations::{self, NAMESPACE, Place, Situation},
};
use kubectl_nonet::why::{
    self, Target,
    reader::Reader,
    tree::{Answer, Branch, Line},
};
use serde_json::{Value, json};

use crate::{repository::read, world::World};

const PAGE: &str = "docs/reference/stuck.md";
const TIMEOUT: Duration = Duration::from_secs(10);
/// Columns of the page.
const COLUMNS: usize = 120;

/// A cluster without nodes and controllers.
async fn empty(server: sandbox::Builder) -> World {
    World::new(NAMESPACE, "2026-11-21T09:37:27.2Z", server).await
}

/// A cluster with nodes and all controllers except these.
async fn running(without: &[String]) -> World {
    let mut world = empty(Sandbox::builder()).await;
    world.create_namespace("kube-system").await;
    world.start_nodes("nodes", Nodes::builder().count(3)).await;
    world.start_controllers(str::to_owned, without);
    world.pass(5).await;
    world
}

fn reader(world: &World, identity: &str, namespace: Option<&str>) -> Arc<Reader> {
    Reader::with_client(world.sandbox.client(identity), TIMEOUT, namespace)
}

fn place(world: &World) -> Place<'_> {
    Place { client: world.sandbox.client(ADMIN), namespace: NAMESPACE, nodes: world.nodes(), clock: &world.clock }
}

/// The answer about an object, or why there is none.
async fn ask(world: &World, identity: &str, object: &str) -> Result<Answer, String> {
    let target = Target::parse(object).unwrap();
    let reader = reader(world, identity, target.is_namespaced().then_some(NAMESPACE));
    why::explain(&reader, &world.clock, NAMESPACE, &target).await.map_err(|refused| refused.to_string())
}

async fn explained(situation: &Situation) -> Answer {
    let world = running(&situation.without).await;
    let built = situation.build(&place(&world)).await;
    built.unwrap_or_else(|refused| panic!("{}: {refused}", situation.title));
    ask(&world, ADMIN, &situation.ask).await.unwrap()
}

/// Shortens the lines of each branch above another one, if an earlier answer has `shown` the same lines about its kind.
fn shorten(branch: &mut Branch, shown: &mut BTreeSet<String>) {
    if !branch.children.is_empty() {
        let lines = format!("{} {:?}", branch.kind, branch.lines).replace(&branch.name, "NAME");
        if !branch.lines.is_empty() && !shown.insert(lines) {
            branch.lines = vec![Line { text: "...".to_owned(), source: "as above".to_owned() }];
        }
    }
    branch.children.iter_mut().for_each(|child| shorten(child, shown));
}

/// The page shows what the command prints, to the word. What it leaves out is what an earlier answer on it shows.
#[test]
fn the_page_shows_the_answer_to_every_situation() {
    let mut page = read(PAGE);
    let shown = page.split_off(page.find("\n## ").map_or(page.len(), |at| at + 1));
    let (mut found, mut known) = (String::new(), BTreeSet::new());
    for situation in situations::all().unwrap() {
        // A runtime each, so that nothing of one cluster runs beside the next.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        let mut answer = runtime.block_on(explained(&situation));
        shorten(&mut answer.tree, &mut known);
        let namespace = if answer.namespace.is_empty() { String::new() } else { format!(" -n {NAMESPACE}") };
        let _ =
            writeln!(found, "## {}\n\n```console\n$ kubectl nonet why {}{namespace}", situation.title, situation.ask);
        let _ = writeln!(found, "{}```\n", answer.to_text(COLUMNS, false));
    }
    let found = format!("{}\n", found.trim_end());
    if found != shown {
        let path = concat!(env!("CARGO_TARGET_TMPDIR"), "/stuck.md");
        std::fs::write(path, format!("{page}{found}")).unwrap();
        let line = found.lines().zip(shown.lines()).find(|(one, other)| one != other).map(|(one, _)| one);
        panic!("{PAGE} differs from what is printed, first at {line:?}; if {path} is right, copy it");
    }
    let readme = read("README.md");
    let example = readme.split("```").find(|block| block.contains("$ kubectl nonet why ")).unwrap();
    assert!(
        shown.contains(example),
        "README.md shows an example that {PAGE} does not have; copy it from there:\n{example}"
    );
}

/// A Pod template, or a Pod, with a container of the image that waits.
fn template() -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": "registry.example/web:1"}]}})
}

/// A Deployment or ReplicaSet.
fn workload(kind: &str, name: &str, owner: Option<&Value>, replicas: usize) -> Value {
    let spec = json!({"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template()});
    json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name, "ownerReferences": owners(owner)}, "spec": spec})
}

fn owners(owner: Option<&Value>) -> Value {
    let reference = |owner: &Value| {
        json!({"apiVersion": "apps/v1", "kind": owner["kind"], "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"], "controller": true})
    };
    owner.map(reference).into_iter().collect()
}

/// The answer about a Deployment with 5,000 Pods needs one list of each kind, and shows Pods in the same state once.
#[tokio::test(start_paused = true)]
async fn thousands_of_pods_cost_one_list_and_one_line() {
    let world = empty(Sandbox::builder()).await;
    let deployment = world.create(workload("Deployment", "web", None, 5000)).await;
    let set = world.create(workload("ReplicaSet", "web-1", Some(&deployment), 5000)).await;
    let waiting = json!({"phase": "Pending", "containerStatuses": [{"name": "main", "image": "registry.example/web:1",
        "imageID": "", "ready": false, "restartCount": 0, "state": {"waiting": {"reason": "ErrImagePull"}}}]});
    for index in 0..5000 {
        let (mut pod, name) = (template(), format!("web-{index:05}"));
        (pod["apiVersion"], pod["kind"], pod["spec"]["nodeName"]) = ("v1".into(), "Pod".into(), "node-1".into());
        (pod["metadata"]["name"], pod["metadata"]["ownerReferences"]) = (name.as_str().into(), owners(Some(&set)));
        world.create(pod).await;
        world.merge_status("pods", &name, &waiting).await;
    }
    world.sandbox.requests().clear();
    let reader = reader(&world, "user", Some(NAMESPACE));
    let target = Target::parse("deploy/web").unwrap();
    let answer = why::explain(&reader, &world.clock, NAMESPACE, &target).await.unwrap();
    let text = answer.to_text(COLUMNS, false);
    assert!(text.contains("Pod web-00000 on node-1 and 4,999 others alike"), "{text}");
    // Deployments, ReplicaSets, Pods, Events, Nodes, and the Leases, because nothing has observed the Deployment.
    assert_eq!(reader.request_count(), 6);
    assert!(text.lines().count() < 40, "{text}");
    let narrow = answer.to_text(60, false);
    assert!(narrow.lines().all(|line| line.chars().count() <= 60), "{narrow}");
}

/// A tenant without any right outside his namespace gets an answer; what he may not read is named.
#[tokio::test(start_paused = true)]
async fn half_the_rights_give_half_the_answer() {
    const RBAC: &str = "rbac.authorization.k8s.io";
    let world = empty(Sandbox::builder().rbac(true)).await;
    let rules = json!([{"apiGroups": ["apps"], "resources": ["deployments", "replicasets"], "verbs": ["get", "list"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}]);
    let object = |kind: &str| json!({"apiVersion": format!("{RBAC}/v1"), "kind": kind, "metadata": {"name": "dev"}});
    let (mut role, mut binding) = (object("Role"), object("RoleBinding"));
    role["rules"] = rules;
    binding["roleRef"] = json!({"apiGroup": RBAC, "kind": "Role", "name": "dev"});
    binding["subjects"] = json!([{"apiGroup": RBAC, "kind": "User", "name": "dev"}]);
    let mut deployment = workload("Deployment", "web", None, 1);
    deployment["spec"]["paused"] = true.into();
    for object in [role, binding, deployment] {
        world.create(object).await;
    }
    world.merge_status("deployments.apps", "web", &json!({"observedGeneration": 1})).await;
    let text = ask(&world, "dev", "deployment/web").await.unwrap().to_text(COLUMNS, false);
    assert!(text.contains("Cause: Deployment web is paused"), "{text}");
    assert!(text.contains("not read: events: "), "{text}");
    let refused = ask(&world, "stranger", "deployment/web").await.unwrap_err();
    let is_named = refused.starts_with("Deployment: cannot list deployments.apps: ") && refused.contains("stranger");
    assert!(is_named, "{refused}");
    let missing = ask(&world, "dev", "deployment/wep").await.unwrap_err();
    assert_eq!(missing, "Deployment wep does not exist in namespace shop; did you mean web?");
    let unknown = Target::parse("ingress/web").unwrap_err().to_string();
    assert!(unknown.starts_with("\"ingress/web\" is not KIND/NAME; the kinds are deployment, "), "{unknown}");
}

/// A list that fails is named, and no controller decides without it.
#[tokio::test(start_paused = true)]
async fn faults_of_the_server_are_named_and_mislead_no_decision() {
    let world = running(&[]).await;
    let all = situations::all().unwrap();
    let situation = all.iter().find(|each| each.title == "A readiness probe that fails").unwrap();
    situation.build(&place(&world)).await.unwrap();
    for (fault, why) in [
        (Action::Latency(Duration::from_secs(60)), "no answer within 10s"),
        (Action::CutBefore, "connection cut"),
        (Action::Forbidden, "forbidden"),
        (Action::InternalError, "Internal error occurred"),
    ] {
        world.sandbox.faults().add(Rule::new(fault.clone()).identity("user").resource("pods"));
        let answer = ask(&world, "user", "deployment/web").await.unwrap();
        world.sandbox.faults().clear();
        let text = answer.to_text(COLUMNS, false);
        assert!(answer.unread["pods"].contains(why), "{fault:?}: {text}");
        assert!(text.contains("decides nothing here, because pods cannot be read [replicaset controller]"), "{text}");
        assert!(!text.contains("next: create") && !text.contains("It waits for nothing."), "{text}");
    }
}

/// `--all-failing` shows what does not get better by itself, and nothing else.
#[tokio::test(start_paused = true)]
async fn all_failing_objects_are_found() {
    let world = running(&[]).await;
    let chosen = [
        "An ordinal behind a broken Pod",
        "A suspended Job",
        "A Service whose selector matches no Pod",
        "A CronJob between two runs",
        "A cordoned node",
    ];
    for situation in situations::all().unwrap().iter().filter(|each| chosen.contains(&each.title.as_str())) {
        situation.build(&place(&world)).await.unwrap();
    }
    let failing = async |namespace: Option<&str>| {
        why::explain_failing(&reader(&world, ADMIN, namespace), &world.clock, namespace).await
    };
    let missing = failing(Some("none")).await.unwrap_err().to_string();
    assert_eq!(missing, "namespace none does not exist; see: kubectl get namespaces");
    // The suspended Job and the cordoned node wait, and do not fail.
    let in_namespace = ["shop StatefulSet/web", "shop Job/import", "shop Service/web"].map(str::to_owned);
    let everywhere = [&in_namespace[..], &[" Node/node-1".to_owned()]].concat();
    for (namespace, expected) in [(Some(NAMESPACE), &in_namespace[..]), (None, &everywhere)] {
        let answers = failing(namespace).await.unwrap();
        assert_eq!(answers.iter().filter(|answer| answer.fails()).count(), 2);
        let name = |answer: &Answer| format!("{} {}/{}", answer.namespace, answer.tree.kind, answer.tree.name);
        assert_eq!(answers.iter().map(name).collect::<Vec<_>>(), expected);
    }
}
