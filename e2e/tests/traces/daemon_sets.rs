//! A run of a DaemonSet: six nodes, a rollout by `maxUnavailable`, one by `maxSurge`, and a node selector that leaves two nodes.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::{
    Replay, Step, image,
    signature::{Signature, revision, signature},
};

/// The node that a Pod is for.
fn node(pod: &Value) -> String {
    let terms = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
    pod.pointer(&format!("{terms}/0/matchFields/0/values/0")).and_then(Value::as_str).unwrap().to_owned()
}

/// What is done with Pods for each template: `+node-0` for a Pod created there, `-node-0` for one whose deletion was requested.
///
/// A deletion counts for the template that the DaemonSet has by then.
fn changes(steps: &[Step]) -> BTreeMap<String, Vec<String>> {
    let mut changes: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let (mut template, mut deleted) = (String::new(), BTreeSet::new());
    for step in steps {
        let object = &step.object;
        match step.resource.as_str() {
            "daemonsets" => {
                let generation = &object["metadata"]["annotations"]["deprecated.daemonset.template.generation"];
                generation.as_str().unwrap().clone_into(&mut template);
            }
            "pods" if step.created => changes.entry(template.clone()).or_default().push(format!("+{}", node(object))),
            "pods" if step.is_terminating() && deleted.insert(object["metadata"]["uid"].to_string()) => {
                changes.entry(template.clone()).or_default().push(format!("-{}", node(object)));
            }
            _ => {}
        }
    }
    changes
}

/// What two runs must have in common: the revisions as they were created, the last status of each generation that was observed,
/// the numbers of updated Pods that were published for the second one, and what is done with Pods for each template.
fn story(steps: &[Step]) -> Signature {
    let mut out = Signature::default();
    for step in steps {
        let status = &step.object["status"];
        match step.resource.as_str() {
            "controllerrevisions" if step.created => out.set(step.name(), revision(&step.object)),
            "daemonsets" if status["observedGeneration"].is_number() => {
                let generation = &status["observedGeneration"];
                out.set(format!("generation {generation}: last status"), status);
                if *generation == 2 {
                    out.push("updated", status["updatedNumberScheduled"].as_i64().unwrap_or(0));
                }
            }
            _ => {}
        }
    }
    for (template, changes) in changes(steps) {
        out.set(format!("template {template}"), sorted(changes).join(" "));
    }
    out
}

fn sorted(mut list: Vec<String>) -> Vec<String> {
    list.sort();
    list
}

/// DAEMONSET-21, DAEMONSET-33, DAEMONSET-36, DAEMONSET-37, DAEMONSET-52, DAEMONSET-56, DAEMONSET-60.
#[tokio::test(start_paused = true)]
async fn rollouts_of_a_daemon_set() {
    let replay = Replay::new("daemonset-rolling").await;
    replay.create("daemonsets", 0.5).await;
    replay.merge("daemonsets.apps", "agent", image("img:2"), 2.0).await;
    let surge = json!({"spec": {"updateStrategy": {"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 2}}}});
    replay.merge("daemonsets.apps", "agent", surge, 0.1).await;
    replay.merge("daemonsets.apps", "agent", image("img:3"), 4.0).await;
    let zone = json!({"spec": {"template": {"spec": {"nodeSelector": {"topology.kubernetes.io/zone": "z1"}}}}});
    replay.merge("daemonsets.apps", "agent", zone, 4.0).await;
    replay.compare(signature);
    replay.compare(story);
    replay.compare_revisions().await;
    let (ours, theirs) = (changes(&replay.steps()), changes(&replay.recorded));
    // Upstream goes through nodes in no order. Whatever the node, an old Pod goes before its successor comes, one node at a time.
    for changes in [&ours["2"], &theirs["2"]] {
        for pair in changes.chunks(2) {
            assert_eq!((&pair[0][..1], &pair[1][..1], &pair[0][1..]), ("-", "+", &pair[1][1..]), "{changes:?}");
        }
    }
    // With surge it goes after its successor has come.
    for changes in [&ours["3"], &theirs["3"]] {
        let mut both = BTreeSet::new();
        for change in changes {
            let (sign, node) = change.split_at(1);
            assert!(if sign == "+" { both.insert(node) } else { both.remove(node) }, "{changes:?}");
        }
    }
    // Pods leave the nodes that are not selected any more before the others are replaced.
    for changes in [&ours["4"], &theirs["4"]] {
        let gone = sorted(changes[..4].to_vec());
        assert_eq!(gone, ["-node-0", "-node-2", "-node-3", "-node-5"], "{changes:?}");
    }
}
