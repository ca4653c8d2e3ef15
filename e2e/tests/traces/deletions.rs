//! `kubectl delete deployment` with each `--cascade`, among the controllers and nodes that it concerns.

use std::collections::BTreeMap;

use super::{
    Replay, Step,
    signature::{Signature, family},
};

/// What objects went through as far as their deletion goes, and which objects ended in which order. The random ends of the
/// names of Pods are left out, so objects that differ in nothing else are told as often as there are of them.
fn story(steps: &[Step]) -> Signature {
    let mut out = Signature::default();
    let mut states: BTreeMap<(&str, &str), Vec<String>> = BTreeMap::new();
    for step in steps.iter().filter(|step| ["deployments", "replicasets", "pods"].contains(&step.resource.as_str())) {
        let metadata = &step.object["metadata"];
        let mut owners = metadata["ownerReferences"].clone();
        for owner in owners.as_array_mut().into_iter().flatten() {
            owner["uid"].take();
        }
        let (terminating, finalizers) = (step.is_terminating(), &metadata["finalizers"]);
        let state = format!("terminating: {terminating}, finalizers: {finalizers}, owners: {owners}");
        let states = states.entry((step.resource.as_str(), step.name())).or_default();
        if step.removed {
            states.push("gone".to_owned());
            out.push("ended", format!("{} {}", step.resource, family(step.name())));
        } else if states.last() != Some(&state) {
            states.push(state);
        }
    }
    let of = |(resource, name): (&str, &str)| format!("{resource} {}", family(name));
    out.tally("states", states.into_iter().map(|(object, states)| format!("{}: {states:#?}", of(object))));
    out
}

/// Two Pods each of these Deployments of the recording, which have rolled out and are then deleted with this propagation.
async fn deleted(deployments: &[(&str, &str)]) -> Replay {
    let loops = [replicaset_controller::LOOPS, deployment_controller::LOOPS, gc_controller::LOOPS].concat();
    let replay = Replay::of_loops("gc-propagation", "2026-11-21T09:00:00Z", &loops).await;
    for (name, _) in deployments {
        replay.create(&format!("deployments/{name}"), 0.0).await;
    }
    replay.world.pass(30).await;
    assert_eq!(replay.world.list("pods").await.len(), 2 * deployments.len());
    for (name, propagation) in deployments {
        replay.world.delete("apps/v1", &format!("deployments/{name}"), propagation).await;
        replay.world.pass(120).await;
    }
    replay
}

/// The resources of objects in the order in which they ceased to exist.
fn ended(replay: &Replay) -> Vec<String> {
    let removed = replay.steps().into_iter().filter(|step| step.removed && step.resource != "events");
    removed.map(|step| step.resource).collect()
}

#[tokio::test(start_paused = true)]
async fn in_the_background_it_goes_first() {
    let replay = deleted(&[("a", "Background")]).await;
    assert_eq!(ended(&replay), ["deployments", "replicasets", "pods", "pods"]);
}

#[tokio::test(start_paused = true)]
async fn in_the_foreground_it_goes_last() {
    let replay = deleted(&[("a", "Foreground")]).await;
    assert_eq!(ended(&replay), ["pods", "pods", "replicasets", "deployments"]);
}

#[tokio::test(start_paused = true)]
async fn without_its_dependents_it_goes_alone() {
    let replay = deleted(&[("a", "Orphan")]).await;
    assert_eq!(ended(&replay), ["deployments"]);
    let sets = replay.world.list("replicasets.apps").await;
    let owners = sets[0]["metadata"].get("ownerReferences").and_then(serde_json::Value::as_array);
    assert!(sets.len() == 1 && owners.is_none_or(Vec::is_empty), "{sets:#?}");
    assert_eq!(replay.world.list("pods").await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn deployments_deleted_in_each_way_go_as_upstream_lets_them_go() {
    deleted(&[("a", "Background"), ("b", "Foreground"), ("c", "Orphan")]).await.compare(story);
}
