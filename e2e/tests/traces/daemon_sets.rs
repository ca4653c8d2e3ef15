//! A run of a DaemonSet: six nodes, a rollout by `maxUnavailable`, one by `maxSurge`, and a node selector that leaves two nodes.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::{Step, World, image, recorded, signature::masked};

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
            "pods"
                if !object["metadata"]["deletionTimestamp"].is_null()
                    && deleted.insert(object["metadata"]["uid"].to_string()) =>
            {
                changes.entry(template.clone()).or_default().push(format!("-{}", node(object)));
            }
            _ => {}
        }
    }
    changes
}

/// The revisions as they were created, by their names.
fn revisions(steps: &[Step]) -> BTreeMap<String, String> {
    let created = steps.iter().filter(|step| step.resource == "controllerrevisions" && step.created);
    let shape = |step: &Step| {
        let (object, meta) = (&step.object, &step.object["metadata"]);
        let owners = masked(&meta["ownerReferences"]);
        let shape = json!([meta["labels"], meta["annotations"], owners, object["revision"], object["data"]]);
        (meta["name"].as_str().unwrap().to_owned(), shape.to_string())
    };
    created.map(shape).collect()
}

/// The last status of each generation that was observed.
fn settled(steps: &[Step]) -> BTreeMap<i64, Value> {
    let sets = steps.iter().filter(|step| step.resource == "daemonsets").map(|step| &step.object["status"]);
    sets.filter_map(|status| Some((status["observedGeneration"].as_i64()?, status.clone()))).collect()
}

/// The counts of updated Pods that were published for a generation.
fn updated(steps: &[Step], generation: i64) -> Vec<i64> {
    let sets = steps.iter().filter(|step| step.resource == "daemonsets").map(|step| &step.object["status"]);
    let of = sets.filter(|status| status["observedGeneration"] == generation);
    let mut counts: Vec<i64> = of.map(|status| status["updatedNumberScheduled"].as_i64().unwrap_or(0)).collect();
    counts.dedup();
    counts
}

fn sorted(mut list: Vec<String>) -> Vec<String> {
    list.sort();
    list
}

#[tokio::test(start_paused = true)]
async fn rollouts_of_a_daemon_set() {
    let steps = recorded("daemonset-rolling");
    let world = World::new("daemonset-rolling").await;
    world.create(&steps, "daemonsets").await;
    world.pass(0.5).await;
    world.merge("daemonsets.apps", "agent", image("img:2")).await;
    world.pass(2.0).await;
    let surge = json!({"spec": {"updateStrategy": {"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 2}}}});
    world.merge("daemonsets.apps", "agent", surge).await;
    world.pass(0.1).await;
    world.merge("daemonsets.apps", "agent", image("img:3")).await;
    world.pass(4.0).await;
    let zone = json!({"spec": {"template": {"spec": {"nodeSelector": {"topology.kubernetes.io/zone": "z1"}}}}});
    world.merge("daemonsets.apps", "agent", zone).await;
    world.pass(4.0).await;
    world.compare(&steps);
    world.compare_revisions().await;
    let ours = world.steps();
    assert_eq!(revisions(&ours), revisions(&steps));
    assert_eq!(settled(&ours), settled(&steps));
    assert_eq!(updated(&ours, 2), updated(&steps, 2));
    let (ours, theirs) = (changes(&ours), changes(&steps));
    for (template, theirs) in &theirs {
        assert_eq!(sorted(ours[template].clone()), sorted(theirs.clone()), "template {template}");
    }
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
