//! Runs of StatefulSets.

use std::collections::BTreeMap;

use common::settings::OperatorSettings;
use e2e::{nodes::Nodes, sandbox::Sandbox};
use serde_json::{Value, json};

use super::{
    Replay, Step, image, recorded, replicas,
    signature::{Signature, masked, revision, signature},
};
use crate::world::{World, name};

/// What two runs must have in common besides their signatures: each state of the set, revisions as stored, and what claims go
/// through.
fn story(steps: &[Step]) -> Signature {
    let mut story = Signature::default();
    for step in steps {
        let (object, name) = (&step.object, step.name());
        match step.resource.as_str() {
            "statefulsets" => {
                let mut status = object["status"].clone();
                // How many Pods were there and ready depends on what happened between two writes.
                for field in ["replicas", "readyReplicas", "availableReplicas"] {
                    status[field].take();
                }
                story.push("states of the set", status);
            }
            "controllerrevisions" if step.created => {
                story.push(format!("revision {name}"), revision(object));
            }
            "persistentvolumeclaims" if step.created => {
                story.push(format!("claim {name}: as created"), masked(object));
            }
            // Deletion is the garbage collector's work.
            "persistentvolumeclaims" if !step.is_terminating() => {
                let owners = masked(&object["metadata"]["ownerReferences"]);
                if !owners.is_null() {
                    story.push(format!("claim {name}: owners"), owners);
                }
            }
            "pods" if step.created => story.push("Pods as they came", name),
            _ => {}
        }
    }
    story
}

/// Every status of the set that was recorded is gone through in that order. Where one Pod waits for the other nothing races but
/// how many changes of a Pod one write tells of: ours may tell of more of them one by one.
fn whole_statuses(replay: &Replay) {
    let statuses = |steps: &[Step]| -> Vec<String> {
        let sets = steps.iter().filter(|step| step.resource == "statefulsets");
        let mut all: Vec<String> = sets.map(|step| step.object["status"].to_string()).collect();
        all.dedup();
        all
    };
    let (want, got) = (statuses(&replay.recorded), statuses(&replay.steps()));
    let mut rest = got.iter();
    let missing: Vec<&String> = want.iter().filter(|status| !rest.any(|other| other == *status)).collect();
    assert!(missing.is_empty(), "{missing:#?}\n  of\n{want:#?}\n  are not among\n{got:#?}");
}

/// STATEFULSET-13, STATEFULSET-14, STATEFULSET-15, STATEFULSET-20, STATEFULSET-27, STATEFULSET-31, STATEFULSET-32, STATEFULSET-33,
/// STATEFULSET-40, STATEFULSET-55.
#[tokio::test(start_paused = true)]
async fn an_ordered_rollout_and_a_scale_down_with_claims() {
    let replay = Replay::new("statefulset-ordered").await;
    replay.create("statefulsets", 3.0).await;
    replay.merge("statefulsets.apps", "db", image("img:2"), 5.0).await;
    replay.merge("statefulsets.apps", "db", replicas(1), 5.0).await;
    replay.compare(signature);
    replay.compare(story);
    replay.compare_revisions().await;
    whole_statuses(&replay);
}

/// STATEFULSET-16, STATEFULSET-21, STATEFULSET-29.
#[tokio::test(start_paused = true)]
async fn a_rollout_by_parts_of_pods_that_do_not_wait() {
    let replay = Replay::new("statefulset-parallel-ordinals").await;
    let partition = json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}});
    replay.create("statefulsets", 3.0).await;
    replay.merge("statefulsets.apps", "db", image("img:2"), 3.0).await;
    replay.merge("statefulsets.apps", "db", partition, 5.0).await;
    replay.compare(signature);
    replay.compare(story);
    replay.compare_revisions().await;
}

/// The objects of a kind as upstream had left them after some steps of a recording.
fn left_of(steps: &[Step], resource: &str) -> Vec<Value> {
    let mut objects: BTreeMap<&str, &Value> = BTreeMap::new();
    for step in steps.iter().filter(|step| step.resource == resource) {
        if step.removed {
            objects.remove(step.name())
        } else {
            objects.insert(step.name(), &step.object)
        };
    }
    objects.into_values().cloned().collect()
}

const NS: &str = "statefulset-ordered";

/// Starts a cluster without a controller, with what upstream had left.
async fn left(steps: &[Step]) -> World {
    let mut world = World::new(NS, "2026-11-21T09:40:00Z", Sandbox::builder()).await;
    world.start_nodes("nodes", Nodes::builder()).await;
    let mut uids = BTreeMap::new();
    let sets = left_of(steps, "statefulsets");
    let mut pods = left_of(steps, "pods");
    for pod in &mut pods {
        // The nodes here bind and run them anew.
        pod["spec"].as_object_mut().unwrap().remove("nodeName");
    }
    let [revisions, claims] =
        ["controllerrevisions", "persistentvolumeclaims"].map(|resource| left_of(steps, resource));
    for object in [&sets, &revisions, &pods, &claims].into_iter().flatten() {
        create_again(&world, object, &mut uids).await;
    }
    world.pass(2).await;
    for pod in pods.iter().filter(|pod| !pod["metadata"]["deletionTimestamp"].is_null()) {
        world.sandbox.delete("pods", Some(NS), name(pod)).await.unwrap();
    }
    for set in sets {
        world.merge_status("statefulsets.apps", "db", &set["status"]).await;
    }
    world.pass(1).await;
    world.sandbox.writes().clear();
    world
}

/// Creates a recorded object. Uids are the server's, so references are written anew.
async fn create_again(world: &World, object: &Value, uids: &mut BTreeMap<String, Value>) {
    let (mut new, metadata) = (object.clone(), &object["metadata"]);
    let mut owners = metadata["ownerReferences"].clone();
    for owner in owners.as_array_mut().into_iter().flatten() {
        let known = uids.get(&owner["uid"].to_string());
        owner["uid"] = known.cloned().unwrap_or_else(|| json!("11111111-1111-1111-1111-111111111111"));
    }
    new["metadata"] = json!({"name": metadata["name"], "labels": metadata["labels"], "annotations": metadata["annotations"],
        "generateName": metadata["generateName"], "ownerReferences": owners});
    new.as_object_mut().unwrap().remove("status");
    let created = world.create(new).await;
    uids.insert(metadata["uid"].to_string(), created["metadata"]["uid"].clone());
}

/// Name, revision and uid of each Pod.
async fn pods(world: &World) -> BTreeMap<String, (String, Value)> {
    let one = |pod: &Value| {
        let metadata = &pod["metadata"];
        let revision = metadata["labels"]["controller-revision-hash"].as_str().unwrap().to_owned();
        (name(pod).to_owned(), (revision, metadata["uid"].clone()))
    };
    world.list("pods").await.iter().map(one).collect()
}

#[tokio::test(start_paused = true)]
async fn what_upstream_left_in_the_middle_of_a_rollout_is_carried_on_without_a_restart_too_many() {
    let steps = recorded("statefulset-ordered");
    let is_new = |step: &Step| step.resource == "controllerrevisions" && step.created;
    let began = steps.iter().rposition(is_new).unwrap();
    let complete = |step: &Step| {
        let status = &step.object["status"];
        step.resource == "statefulsets"
            && status["currentRevision"] == status["updateRevision"]
            && step.object["spec"]["replicas"] == 3
    };
    let ended = steps.iter().rposition(complete).unwrap();
    assert!(began < ended);
    for taken_over in began..=ended {
        // One step earlier, too: the template is new, and its revision is not stored yet.
        let before = &steps[..=taken_over - usize::from(taken_over == began)];
        let mut world = left(before).await;
        let old = pods(&world).await;
        let revisions = world.list("controllerrevisions.apps").await.len();
        world.start_loops("controllers", OperatorSettings::new(), statefulset_controller::LOOPS);
        world.pass(60).await;
        let newest = steps[began].name();
        let after = pods(&world).await;
        assert_eq!(after.keys().collect::<Vec<_>>(), ["db-0", "db-1", "db-2"], "after step {taken_over}");
        for (name, (revision, uid)) in &after {
            assert_eq!(revision, newest, "{name} after step {taken_over}");
            let known = old.get(name).filter(|(revision, _)| revision == newest);
            assert!(known.is_none_or(|(_, known)| known == uid), "{name} was restarted after step {taken_over}");
        }
        // From the highest, each once, and nothing else.
        let writes = world.sandbox.writes().all();
        let made = writes.iter().filter(|w| w.identity == "controllers" && w.resource == "pods" && w.verb == "create");
        let made: Vec<&str> = made.map(|write| write.name.as_str()).collect();
        let kept = |name: &str| old.get(name).is_some_and(|(revision, _)| revision == newest);
        let wanted: Vec<&str> = ["db-2", "db-1", "db-0"].into_iter().filter(|name| !kept(name)).collect();
        assert_eq!(made, wanted, "after step {taken_over}");
        let stored = world.list("controllerrevisions.apps").await.len();
        assert_eq!((stored, revisions), (2, if taken_over == began { 1 } else { 2 }));
        let set = world.sandbox.get("statefulsets.apps", Some(NS), "db").await.unwrap();
        let status = &set["status"];
        assert_eq!((&status["currentRevision"], &status["updateRevision"]), (&json!(newest), &json!(newest)));
        assert_eq!((&status["readyReplicas"], &status["updatedReplicas"]), (&json!(3), &json!(3)));
    }
}
