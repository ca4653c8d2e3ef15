//! Suite: DaemonSets that change hands between kube-controller-manager and daemonset-controller in the middle of rollouts.
//!
//! Where the binary of kube-controller-manager does not lie beside those of etcd and kube-apiserver, a second
//! daemonset-controller takes its part, and nothing is left to compare.

use std::collections::{BTreeMap, BTreeSet};

use common::object::Resource;
use e2e::suite::{handover::Hands, prelude::*};

use crate::daemonset::{limits, target};

/// The number of nodes of every cluster of this suite.
const NODE_COUNT: i64 = 6;
/// What the controller writes.
const WRITTEN: [Resource; 3] = [DAEMON_SETS, CONTROLLER_REVISIONS, PODS];

pub(crate) fn suite() -> Suite {
    let scenes = scenes! {
        SIMULATED =>
            rollouts_go_on_in_other_hands what_is_at_rest_stays_at_rest_both_ways;
        ENVTEST.needs(Hands::differ) =>
            both_write_the_same;
    };
    Suite::new("daemonset_handover").scenes(scenes).at_once(1)
}

fn hands() -> Hands {
    Hands::find("daemonset-controller", "daemonset-controller")
}

fn slow(name: &str, strategy: Value) -> Builder {
    daemon_set(name).set("spec/updateStrategy", strategy).script("sim/ready-after", "0.8")
}

fn number(set: &Value, field: &str) -> i64 {
    set["status"][field].as_i64().unwrap_or(0)
}

fn is_complete(set: &Value) -> bool {
    let fields = ["desiredNumberScheduled", "updatedNumberScheduled", "numberAvailable"];
    let observed = set["status"]["observedGeneration"] == set["metadata"]["generation"];
    observed && fields.iter().all(|field| number(set, field) == NODE_COUNT)
}

async fn complete(c: &Context, name: &str) -> Outcome {
    c.until(&format!("DaemonSet {name} to be complete"), async || {
        c.get(DAEMON_SETS, name).await.ok().filter(is_complete).map(drop)
    })
    .await
}

fn owner(object: &Value) -> &str {
    object["metadata"]["ownerReferences"][0]["name"].as_str().unwrap_or_default()
}

/// The nodes without a ready Pod of a set.
fn without(state: &State, set: &str) -> i64 {
    let serves = state.pods.values().filter(|pod| owner(pod) == set && is_ready(pod));
    NODE_COUNT - serves.map(|pod| target(pod)).collect::<BTreeSet<_>>().len() as i64
}

async fn rollouts_go_on_in_other_hands(c: Context) -> Outcome {
    let hands = hands();
    let mut worker = hands.theirs(&c).await?;
    for (name, strategy) in [("one", limits(1, 0)), ("surge", limits(0, 1))] {
        c.create(DAEMON_SETS, slow(name, strategy)).await?;
        complete(&c, name).await?;
    }
    let recorder = c.record().await?;
    let mut midway = 0;
    for version in 2..=4 {
        for name in ["one", "surge"] {
            c.merge(DAEMON_SETS, name, image(&format!("img:{version}"))).await?;
        }
        let mut left = 20;
        loop {
            c.sleep(Duration::from_millis(900)).await;
            let sets = [c.get(DAEMON_SETS, "one").await?, c.get(DAEMON_SETS, "surge").await?];
            if sets.iter().all(is_complete) {
                break;
            }
            let updated = |set: &Value| number(set, "updatedNumberScheduled");
            midway += i32::from(sets.iter().any(|set| (1..NODE_COUNT).contains(&updated(set))));
            left -= 1;
            c.check(left > 0, &format!("the rollout of version {version} does not end")).await?;
            worker = hands.change(&c, worker).await?;
        }
    }
    c.check(midway >= 4, &format!("only {midway} times the hands changed midway")).await?;
    let states = recorder.stop().await?;
    for (step, state) in states.iter().enumerate() {
        let (one, surge) = (without(state, "one"), without(state, "surge"));
        c.check(one <= 1 && surge == 0, &format!("step {step}: {one} and {surge} nodes without a ready Pod")).await?;
    }
    // Nobody has created a Pod that the other one would not have.
    let mut created: BTreeMap<(String, String, String), BTreeSet<String>> = BTreeMap::new();
    for pod in states.iter().flat_map(|state| state.pods.values()) {
        let image = pod["spec"]["containers"][0]["image"].to_string();
        let key = (owner(pod).to_owned(), image, target(pod).to_owned());
        created.entry(key).or_default().insert(pod["metadata"]["uid"].to_string());
    }
    assert_eq!(created.len() as i64, 2 * 4 * NODE_COUNT);
    let twice: Vec<_> = created.iter().filter(|(_, pods)| pods.len() != 1).collect();
    assert!(twice.is_empty(), "{twice:?}");
    for name in ["one", "surge"] {
        let mut revisions = c.list(CONTROLLER_REVISIONS).await?;
        revisions.retain(|revision| owner(revision) == name);
        revisions.sort_by_key(|revision| revision["revision"].as_i64());
        let numbers: Vec<_> = revisions.iter().map(|revision| revision["revision"].as_i64().unwrap_or(0)).collect();
        assert_eq!(numbers, [1, 2, 3, 4], "{name}: one revision for each template");
    }
    worker.end().await
}

/// Sets of many kinds.
fn sets() -> Vec<Builder> {
    let affinity = json!({"nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "kubernetes.io/os", "operator": "NotIn", "values": ["windows", "plan9"]}]}]},
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 7, "preference": {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}}]}});
    let rich = daemon_set("rich")
        .set("spec/template/spec/affinity", affinity)
        .set("spec/template/spec/hostNetwork", true)
        .set("spec/template/spec/tolerations", json!([
            {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
            {"key": "gpu", "value": "yes"}]))
        .set("spec/template/spec/volumes", json!([{"name": "v", "emptyDir": {}}, {"name": "h", "hostPath": {"path": "/var"}}]))
        .set("spec/template/spec/containers/0/args", json!(["a<b", "x&y", "\u{2028}", "é"]))
        .set("spec/template/spec/containers/0/resources", json!({"requests": {"cpu": "0.5", "memory": "1024Mi"}}))
        .set("spec/template/spec/containers/0/ports", json!([{"containerPort": 8081, "hostPort": 8081}]))
        .set("spec/template/spec/containers/0/env", json!([
            {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}]))
        .set("metadata/annotations", json!({"kubernetes.io/change-cause": "first"}));
    vec![
        daemon_set("plain"),
        rich,
        daemon_set("surge").set("spec/updateStrategy", limits(0, 2)),
        daemon_set("on-delete").set("spec/updateStrategy", json!({"type": "OnDelete"})),
        daemon_set("nowhere").set("spec/template/spec/nodeSelector", json!({"nonet.io/none": "here"})),
    ]
}

/// Creates all the sets, rolls some of them out a second time, and waits until there is nothing left to do.
async fn made(c: &Context) -> Outcome {
    for set in sets() {
        c.create(DAEMON_SETS, set).await?;
    }
    for name in ["plain", "rich", "surge"] {
        complete(c, name).await?;
        c.merge(DAEMON_SETS, name, json!({"spec": {"template": {"metadata": {"labels": {"version": "2"}}}}})).await?;
    }
    for name in ["plain", "rich", "surge", "on-delete"] {
        complete(c, name).await?;
    }
    c.until_object(DAEMON_SETS, "nowhere", "the set that runs nowhere to be observed", |set| {
        set["status"]["observedGeneration"] == 1
    })
    .await?;
    c.sleep(Duration::from_secs(2)).await;
    Ok(())
}

async fn what_is_at_rest_stays_at_rest_both_ways(c: Context) -> Outcome {
    let hands = hands();
    let theirs = hands.theirs(&c).await?;
    made(&c).await?;
    let before = c.versions(&WRITTEN).await?;
    let ours = hands.change(&c, theirs).await?;
    c.sleep(Duration::from_secs(5)).await;
    assert_eq!(c.versions(&WRITTEN).await?, before, "from theirs to ours");
    // Now what ours has made.
    cleared(&c).await?;
    made(&c).await?;
    let before = c.versions(&WRITTEN).await?;
    let theirs = hands.change(&c, ours).await?;
    c.sleep(Duration::from_secs(5)).await;
    assert_eq!(c.versions(&WRITTEN).await?, before, "from ours to theirs");
    theirs.end().await
}

/// Deletes all sets with their Pods and revisions.
async fn cleared(c: &Context) -> Outcome {
    for resource in WRITTEN {
        let now = json!({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0});
        c.client().delete(resource, c.namespace(), "", &now).await?;
    }
    c.until("everything to be gone", async || c.versions(&WRITTEN).await.ok()?.is_empty().then_some(())).await
}

/// The bytes that the server has stored as the data of a revision.
async fn stored(c: &Context, name: &str) -> Result<String, Failure> {
    let path = CONTROLLER_REVISIONS.path(c.namespace(), name, "");
    let body = c.read(&path, "application/vnd.kubernetes.protobuf").await?;
    let text = String::from_utf8_lossy(&body).into_owned();
    let (from, to) = (text.find(r#"{"spec""#), text.rfind("}}}}"));
    Ok(from.zip(to).map(|(from, to)| text[from..to].to_owned()).unwrap_or_default())
}

/// The fields that the controllers own, by subresource. The UID of the owner is a part of a field's name.
fn owned_fields(meta: &Value) -> String {
    let entries = meta["managedFields"].as_array().map_or(&[][..], Vec::as_slice);
    let ours = entries.iter().filter(|entry| entry["manager"] == "kube-controller-manager");
    let owned: BTreeSet<_> = ours.map(|entry| format!("{} {}", entry["subresource"], entry["fieldsV1"])).collect();
    let owner = meta["ownerReferences"][0]["uid"].as_str().unwrap_or("no owner");
    format!("{owned:?}").replace(owner, "UID")
}

/// Everything that a controller has written, without what is of the moment.
async fn written(c: &Context) -> Result<BTreeSet<String>, Failure> {
    let mut out = BTreeSet::new();
    for mut revision in c.list(CONTROLLER_REVISIONS).await? {
        let name = revision["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let data = stored(c, &name).await?;
        assert!(data.len() > 100, "{name}: {data}");
        let meta = revision["metadata"].take();
        let owner = &meta["ownerReferences"][0];
        let owned = owned_fields(&meta);
        let kept = [&meta["labels"], &meta["annotations"], &owner["name"], &owner["blockOwnerDeletion"]];
        out.insert(format!("{name} {} {} {data} {owned}", json!(kept), revision["revision"]));
    }
    for pod in c.list(PODS).await? {
        let (meta, spec) = (&pod["metadata"], &pod["spec"]);
        let owner = &meta["ownerReferences"][0];
        let kept = [&meta["generateName"], &meta["labels"], &meta["annotations"], &owner["name"], &owner["controller"]];
        let owned = owned_fields(meta).replace(pod["status"]["podIP"].as_str().unwrap_or("no address"), "IP");
        out.insert(format!("{} {spec} {owned}", json!(kept)));
    }
    for set in c.list(DAEMON_SETS).await? {
        out.insert(format!("{} {} {}", set["metadata"]["name"], set["status"], owned_fields(&set["metadata"])));
    }
    Ok(out)
}

async fn both_write_the_same(c: Context) -> Outcome {
    let hands = hands();
    assert_eq!(c.client().list(NODES, "", "").await?.len() as i64, NODE_COUNT);
    let theirs = hands.theirs(&c).await?;
    made(&c).await?;
    let by_theirs = written(&c).await?;
    theirs.end().await?;
    cleared(&c).await?;
    let ours = hands.ours(&c).await?;
    made(&c).await?;
    let by_ours = written(&c).await?;
    let only = |a: &BTreeSet<String>, b: &BTreeSet<String>| a.difference(b).cloned().collect::<Vec<_>>().join("\n");
    assert!(by_theirs == by_ours, "theirs:\n{}\nours:\n{}", only(&by_theirs, &by_ours), only(&by_ours, &by_theirs));
    ours.end().await
}
