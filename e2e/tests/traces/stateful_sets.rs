//! Runs of StatefulSets.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Step, World, image, recorded, signature::masked};

/// What two runs must have in common besides their signatures: each state of the set, revisions as stored, and what claims go
/// through.
fn story(steps: &[Step]) -> BTreeMap<String, Vec<String>> {
    let mut story: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut add = |line: String, value: String| {
        let lines = story.entry(line).or_default();
        if lines.last() != Some(&value) {
            lines.push(value);
        }
    };
    for step in steps {
        let object = &step.object;
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        match step.resource.as_str() {
            "statefulsets" => {
                let mut status = object["status"].clone();
                // How many Pods were there and ready depends on what happened between two writes.
                for field in ["replicas", "readyReplicas", "availableReplicas"] {
                    status[field].take();
                }
                add("states of the set".to_owned(), status.to_string());
            }
            "controllerrevisions" if step.created => {
                let shape = json!([
                    object["metadata"]["labels"],
                    object["metadata"]["annotations"],
                    masked(&object["metadata"]["ownerReferences"]),
                    object["revision"],
                    object["data"]
                ]);
                add(format!("revision {name}"), shape.to_string());
            }
            "persistentvolumeclaims" if step.created => {
                add(format!("claim {name}: as created"), masked(object).to_string());
            }
            // Going is the garbage collector's work.
            "persistentvolumeclaims" if object["metadata"]["deletionTimestamp"].is_null() => {
                let owners = masked(&object["metadata"]["ownerReferences"]);
                if !owners.is_null() {
                    add(format!("claim {name}: owners"), owners.to_string());
                }
            }
            "pods" if step.created => add("Pods as they came".to_owned(), name.to_owned()),
            _ => {}
        }
    }
    story
}

fn same(steps: &[Step], world: &World) {
    world.compare(steps);
    let (want, got) = (story(steps), story(&world.steps()));
    for (line, want) in &want {
        let got = got.get(line).cloned().unwrap_or_default();
        assert!(*want == got, "{line}\n  want {}\n  got  {}", want.join("\n       "), got.join("\n       "));
    }
    assert_eq!(want.keys().collect::<Vec<_>>(), got.keys().collect::<Vec<_>>());
}

/// Every status of the set that was recorded is gone through in that order. Where one Pod waits for the other nothing races but
/// how many changes of a Pod one write tells of: ours may tell of more of them one by one.
fn whole_statuses(steps: &[Step], world: &World) {
    let statuses = |steps: &[Step]| -> Vec<String> {
        let sets = steps.iter().filter(|step| step.resource == "statefulsets");
        let mut all: Vec<String> = sets.map(|step| step.object["status"].to_string()).collect();
        all.dedup();
        all
    };
    let (want, got) = (statuses(steps), statuses(&world.steps()));
    let mut rest = got.iter();
    let missing: Vec<&String> = want.iter().filter(|status| !rest.any(|other| other == *status)).collect();
    assert!(missing.is_empty(), "{missing:#?}\n  of\n{want:#?}\n  are not among\n{got:#?}");
}

fn partition(partition: i32) -> Value {
    json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": partition}}}})
}

#[tokio::test(start_paused = true)]
async fn an_ordered_rollout_and_a_scale_down_with_claims() {
    let steps = recorded("statefulset-ordered");
    let world = World::new("statefulset-ordered").await;
    world.create(&steps, "statefulsets").await;
    world.pass(3.0).await;
    world.merge("statefulsets.apps", "db", image("img:2")).await;
    world.pass(5.0).await;
    world.merge("statefulsets.apps", "db", json!({"spec": {"replicas": 1}})).await;
    world.pass(5.0).await;
    same(&steps, &world);
    whole_statuses(&steps, &world);
}

#[tokio::test(start_paused = true)]
async fn a_rollout_by_parts_of_pods_that_do_not_wait() {
    let steps = recorded("statefulset-parallel-ordinals");
    let world = World::new("statefulset-parallel-ordinals").await;
    world.create(&steps, "statefulsets").await;
    world.pass(3.0).await;
    world.merge("statefulsets.apps", "db", image("img:2")).await;
    world.pass(3.0).await;
    world.merge("statefulsets.apps", "db", partition(0)).await;
    world.pass(5.0).await;
    same(&steps, &world);
}
