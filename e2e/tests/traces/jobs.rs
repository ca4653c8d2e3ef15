//! Runs of Jobs.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::{
    Step, World, recorded,
    signature::{EventText, Signature, hide_generated, masked},
};

/// What two runs must have in common of their Jobs: every state of a status, by what it says and not by when.
fn story(steps: &[Step]) -> Signature {
    let mut out = Signature::default();
    let mut counted: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for step in steps {
        let object = &step.object;
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        match step.resource.as_str() {
            "pods" => {
                let job = object["metadata"]["labels"]["job-name"].as_str().unwrap_or_default();
                if step.created {
                    let mut shape = masked(object);
                    shape.as_object_mut().unwrap().remove("status");
                    out.insert(format!("{job}: Pods as created"), without_uids(shape));
                }
                // How a Pod goes is the node's story.
                let (tracked, going) =
                    (!object["metadata"]["finalizers"].is_null(), !object["metadata"]["deletionTimestamp"].is_null());
                if !tracked && !going {
                    let state = format!("{} without the finalizer", object["status"]["phase"]);
                    out.insert(format!("{job}: Pods in the end"), state);
                }
            }
            "jobs" => {
                let status = &object["status"];
                if step.created {
                    let mut shape = masked(object);
                    shape.as_object_mut().unwrap().remove("status");
                    out.push(format!("{name}: as created"), without_uids(shape));
                }
                if let Some(conditions) = status["conditions"].as_array() {
                    let shown: Vec<String> = conditions
                        .iter()
                        .map(|c| {
                            format!(
                                "{}={} {}: {}",
                                c["type"],
                                c["status"],
                                c["reason"],
                                hide_generated(c["message"].as_str().unwrap_or_default())
                            )
                        })
                        .collect();
                    out.push(format!("{name}: conditions"), shown.join("; "));
                    for condition in conditions {
                        assert_eq!(condition["lastProbeTime"], condition["lastTransitionTime"]);
                    }
                }
                for field in ["succeeded", "failed", "completedIndexes", "failedIndexes"] {
                    out.push(format!("{name}: {field}"), &status[field]);
                }
                for field in ["startTime", "completionTime"] {
                    out.push(format!("{name}: {field}"), status[field].is_string());
                }
                for field in ["succeeded", "failed"] {
                    let list = status["uncountedTerminatedPods"][field].as_array().cloned().unwrap_or_default();
                    for uid in list.iter().filter_map(Value::as_str) {
                        counted
                            .entry(format!("{name}: uids that were named as {field}"))
                            .or_default()
                            .insert(uid.to_owned());
                    }
                }
                let mut last = status.clone();
                last.as_object_mut().map(|last| last.remove("conditions"));
                out.set(format!("{name}: last status"), vec![without_times(last).to_string()]);
                if !object["metadata"]["deletionTimestamp"].is_null() {
                    out.set(format!("{name}: deleted"), vec![object["metadata"]["finalizers"].to_string()]);
                }
            }
            "events" => {
                let EventText { about, note, component } = EventText::of(object);
                let job = about["name"].as_str().unwrap_or_default();
                let (kind, reason, note) = (&object["type"], &object["reason"], hide_generated(note));
                let line = format!("{} {kind} {reason}: {note} from {component}", about["kind"]);
                out.insert(format!("{job}: events"), line);
            }
            _ => {}
        }
    }
    for (line, set) in counted {
        out.set(line, vec![set.len().to_string()]);
    }
    out
}

/// A Job's selector and labels name its uid, which is another in every run.
fn without_uids(mut value: Value) -> Value {
    match &mut value {
        Value::Object(map) => {
            for (key, inner) in map.iter_mut() {
                *inner = if key.ends_with("controller-uid") { json!("*") } else { without_uids(inner.take()) };
            }
        }
        Value::Array(list) => list.iter_mut().for_each(|inner| *inner = without_uids(inner.take())),
        _ => {}
    }
    value
}

fn without_times(mut status: Value) -> Value {
    for field in ["startTime", "completionTime"] {
        if status[field].is_string() {
            status[field] = json!("*");
        }
    }
    status
}

fn compare(world: &World, steps: &[Step]) {
    story(&world.steps()).assert_same(&story(steps));
}

/// Creates the Job of that name as the recording's user did.
async fn create(world: &World, steps: &[Step], name: &str) {
    let first = |s: &&Step| s.resource == "jobs" && s.created && s.object["metadata"]["name"] == name;
    let mut job = steps.iter().find(first).unwrap().object.clone();
    job["metadata"] = json!({"name": name, "namespace": world.name});
    job["status"].take();
    let spec = job["spec"].as_object_mut().unwrap();
    // The server's own work.
    for field in ["selector", "manualSelector"] {
        spec.remove(field);
    }
    spec["template"]["metadata"].as_object_mut().unwrap().remove("labels");
    world.sandbox.create(job).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_job_that_completes_and_one_that_fails() {
    let steps = recorded("job-plain");
    let world = World::new("job-plain").await;
    create(&world, &steps, "ok").await;
    world.pass(5.1).await;
    create(&world, &steps, "bad").await;
    world.pass(14.0).await;
    compare(&world, &steps);
}

#[tokio::test(start_paused = true)]
async fn indexes_policies_suspension_and_removal() {
    let steps = recorded("job-indexed");
    let world = World::new("job-indexed").await;
    let suspend = |suspend: bool| world.merge("jobs.batch", "susp", json!({"spec": {"suspend": suspend}}));
    create(&world, &steps, "idx").await;
    world.pass(8.0).await;
    create(&world, &steps, "pol").await;
    world.pass(5.0).await;
    create(&world, &steps, "suc").await;
    world.pass(6.0).await;
    create(&world, &steps, "susp").await;
    world.pass(1.0).await;
    suspend(false).await;
    world.pass(1.0).await;
    suspend(true).await;
    world.pass(3.0).await;
    suspend(false).await;
    world.pass(6.0).await;
    create(&world, &steps, "ttl").await;
    world.pass(5.0).await;
    // The garbage collector's part of a foreground deletion: nothing is left to wait for.
    world.merge("jobs.batch", "ttl", json!({"metadata": {"finalizers": null}})).await;
    compare(&world, &steps);
}
