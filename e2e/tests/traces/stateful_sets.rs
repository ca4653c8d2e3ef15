//! Runs of StatefulSets.

use std::{collections::BTreeMap, time::Duration};

use common::{clock::Clock, settings::OperatorSettings};
use e2e::{loops::Loops, nodes::Nodes, sandbox::Sandbox};
use serde_json::{Value, json};

use super::{
    Step, World, image, recorded,
    signature::{Signature, masked},
};

/// What two runs must have in common besides their signatures: each state of the set, revisions as stored, and what claims go
/// through.
fn story(steps: &[Step]) -> Signature {
    let mut story = Signature::default();
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
                story.push("states of the set", status);
            }
            "controllerrevisions" if step.created => {
                let shape = json!([
                    object["metadata"]["labels"],
                    object["metadata"]["annotations"],
                    masked(&object["metadata"]["ownerReferences"]),
                    object["revision"],
                    object["data"]
                ]);
                story.push(format!("revision {name}"), shape);
            }
            "persistentvolumeclaims" if step.created => {
                story.push(format!("claim {name}: as created"), masked(object));
            }
            // Going is the garbage collector's work.
            "persistentvolumeclaims" if object["metadata"]["deletionTimestamp"].is_null() => {
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

fn same(steps: &[Step], world: &World) {
    world.compare(steps);
    story(&world.steps()).assert_same(&story(steps));
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
    world.compare_revisions().await;
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
    world.compare_revisions().await;
}

/// The objects of a kind as upstream had left them after some steps of a recording.
fn left_of(steps: &[Step], resource: &str) -> Vec<Value> {
    let mut objects: BTreeMap<String, Value> = BTreeMap::new();
    for step in steps.iter().filter(|step| step.resource == resource) {
        let name = step.object["metadata"]["name"].as_str().unwrap().to_owned();
        if step.removed {
            objects.remove(&name);
        } else {
            objects.insert(name, step.object.clone());
        }
    }
    objects.into_values().collect()
}

/// A cluster without a controller, with what upstream had left. Uids are the server's, so references are written anew.
struct Left {
    sandbox: Sandbox,
    clock: Clock,
    _nodes: Nodes,
    uids: BTreeMap<String, Value>,
}

const NS: &str = "statefulset-ordered";

impl Left {
    async fn new(steps: &[Step]) -> Self {
        let clock = Clock::simulated("2026-11-21T09:40:00Z".parse().unwrap(), 42);
        let sandbox = Sandbox::builder().clock(clock.clone()).build();
        let nodes = Nodes::builder().start(sandbox.client("nodes"), clock.clone());
        nodes.ready().await;
        sandbox.create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NS}})).await.unwrap();
        let mut left = Self { sandbox, clock, _nodes: nodes, uids: BTreeMap::new() };
        let sets = left.create(&left_of(steps, "statefulsets")).await;
        left.create(&left_of(steps, "controllerrevisions")).await;
        let mut pods = left_of(steps, "pods");
        for pod in &mut pods {
            // The nodes here bind and run them anew.
            pod["spec"].as_object_mut().unwrap().remove("nodeName");
        }
        left.create(&pods).await;
        left.create(&left_of(steps, "persistentvolumeclaims")).await;
        left.clock.sleep(Duration::from_secs(2)).await;
        for pod in pods.iter().filter(|pod| !pod["metadata"]["deletionTimestamp"].is_null()) {
            let name = pod["metadata"]["name"].as_str().unwrap();
            left.sandbox.delete("pods", Some(NS), name).await.unwrap();
        }
        for set in sets {
            let status = json!({ "status": set["status"] });
            left.sandbox.merge("statefulsets.apps", Some(NS), "db", Some("status"), status).await.unwrap();
        }
        left.clock.sleep(Duration::from_secs(1)).await;
        left.sandbox.writes().clear();
        left
    }

    async fn create(&mut self, objects: &[Value]) -> Vec<Value> {
        for object in objects {
            let mut new = object.clone();
            let recorded = &object["metadata"];
            let mut owners = recorded["ownerReferences"].clone();
            for owner in owners.as_array_mut().into_iter().flatten() {
                let known = self.uids.get(owner["uid"].as_str().unwrap());
                owner["uid"] = known.cloned().unwrap_or_else(|| json!("11111111-1111-1111-1111-111111111111"));
            }
            new["metadata"] = json!({"name": recorded["name"], "namespace": NS, "labels": recorded["labels"],
                "annotations": recorded["annotations"], "generateName": recorded["generateName"], "ownerReferences": owners});
            new.as_object_mut().unwrap().remove("status");
            let made = self.sandbox.create(new).await.unwrap();
            self.uids.insert(recorded["uid"].as_str().unwrap().to_owned(), made["metadata"]["uid"].clone());
        }
        objects.to_vec()
    }

    /// Name, revision and uid of each Pod.
    async fn pods(&self) -> BTreeMap<String, (String, Value)> {
        let pods = self.sandbox.list("pods", Some(NS)).await.unwrap();
        let one = |pod: &Value| {
            let meta = &pod["metadata"];
            let revision = meta["labels"]["controller-revision-hash"].as_str().unwrap().to_owned();
            (meta["name"].as_str().unwrap().to_owned(), (revision, meta["uid"].clone()))
        };
        pods.iter().map(one).collect()
    }
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
        let cluster = Left::new(before).await;
        let pods = cluster.pods().await;
        let revisions = cluster.sandbox.list("controllerrevisions.apps", Some(NS)).await.unwrap().len();
        let client = cluster.sandbox.client("controllers");
        let _loops = Loops::start(&client, &cluster.clock, OperatorSettings::new(), statefulset_controller::LOOPS);
        cluster.clock.sleep(Duration::from_secs(60)).await;
        let newest = steps[began].object["metadata"]["name"].as_str().unwrap();
        let after = cluster.pods().await;
        assert_eq!(after.keys().collect::<Vec<_>>(), ["db-0", "db-1", "db-2"], "after step {taken_over}");
        for (name, (revision, uid)) in &after {
            assert_eq!(revision, newest, "{name} after step {taken_over}");
            let known = pods.get(name).filter(|(revision, _)| revision == newest);
            assert!(known.is_none_or(|(_, known)| known == uid), "{name} was restarted after step {taken_over}");
        }
        // From the highest, each once, and nothing else.
        let writes = cluster.sandbox.writes().all();
        let made = writes.iter().filter(|w| w.identity == "controllers" && w.resource == "pods" && w.verb == "create");
        let made: Vec<&str> = made.map(|write| write.name.as_str()).collect();
        let kept = |name: &str| pods.get(name).is_some_and(|(revision, _)| revision == newest);
        let wanted: Vec<&str> = ["db-2", "db-1", "db-0"].into_iter().filter(|name| !kept(name)).collect();
        assert_eq!(made, wanted, "after step {taken_over}");
        let stored = cluster.sandbox.list("controllerrevisions.apps", Some(NS)).await.unwrap().len();
        assert_eq!((stored, revisions), (2, if taken_over == began { 1 } else { 2 }));
        let set = cluster.sandbox.get("statefulsets.apps", Some(NS), "db").await.unwrap();
        let status = &set["status"];
        assert_eq!((&status["currentRevision"], &status["updateRevision"]), (&json!(newest), &json!(newest)));
        assert_eq!((&status["readyReplicas"], &status["updatedReplicas"]), (&json!(3), &json!(3)));
    }
}
