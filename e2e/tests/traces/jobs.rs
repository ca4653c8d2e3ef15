//! Runs of Jobs.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::{Step, World, recorded, signature::masked};

/// Sequences that do not race, by what they are about.
type Story = BTreeMap<String, Vec<String>>;

/// What two runs must have in common of their Jobs: every state of a status, by what it says and not by when.
fn story(steps: &[Step]) -> Story {
    let mut out = Story::new();
    let mut shapes: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
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
                    shapes
                        .entry(format!("{job}: Pods as created"))
                        .or_default()
                        .insert(without_uids(shape).to_string());
                }
                // How a Pod goes is the node's story.
                let (tracked, going) =
                    (!object["metadata"]["finalizers"].is_null(), !object["metadata"]["deletionTimestamp"].is_null());
                if !tracked && !going {
                    let state = format!("{} without the finalizer", object["status"]["phase"]);
                    shapes.entry(format!("{job}: Pods in the end")).or_default().insert(state);
                }
            }
            "jobs" => {
                let mut add = |line: String, value: String| {
                    let lines = out.entry(line).or_default();
                    if lines.last() != Some(&value) {
                        lines.push(value);
                    }
                };
                let status = &object["status"];
                if step.created {
                    let mut shape = masked(object);
                    shape.as_object_mut().unwrap().remove("status");
                    add(format!("{name}: as created"), without_uids(shape).to_string());
                }
                if let Some(conditions) = status["conditions"].as_array() {
                    let shown: Vec<String> = conditions
                        .iter()
                        .map(|c| format!("{}={} {}: {}", c["type"], c["status"], c["reason"], hide(&c["message"])))
                        .collect();
                    add(format!("{name}: conditions"), shown.join("; "));
                    for condition in conditions {
                        assert_eq!(condition["lastProbeTime"], condition["lastTransitionTime"]);
                    }
                }
                for field in ["succeeded", "failed", "completedIndexes", "failedIndexes"] {
                    add(format!("{name}: {field}"), status[field].to_string());
                }
                for field in ["startTime", "completionTime"] {
                    add(format!("{name}: {field}"), status[field].is_string().to_string());
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
                out.insert(format!("{name}: last status"), vec![without_times(last).to_string()]);
                if !object["metadata"]["deletionTimestamp"].is_null() {
                    out.insert(format!("{name}: deleted"), vec![object["metadata"]["finalizers"].to_string()]);
                }
            }
            "events" => {
                let about =
                    if object["regarding"].is_object() { &object["regarding"] } else { &object["involvedObject"] };
                let note = if object["note"].is_string() { &object["note"] } else { &object["message"] };
                let source = if object["deprecatedSource"].is_object() {
                    &object["deprecatedSource"]
                } else {
                    &object["source"]
                };
                let line = format!(
                    "{} {} {}: {} from {}",
                    about["kind"],
                    object["type"],
                    object["reason"],
                    hide(note),
                    source["component"]
                );
                let job = about["name"].as_str().unwrap_or_default();
                shapes.entry(format!("{job}: events")).or_default().insert(line);
            }
            _ => {}
        }
    }
    for (line, set) in counted {
        out.insert(line, vec![set.len().to_string()]);
    }
    for (line, set) in shapes {
        out.insert(line, set.into_iter().collect());
    }
    out
}

/// A text without the random ends of names.
fn hide(text: &Value) -> String {
    let hidden = masked(
        &json!({ "list": text.as_str().unwrap_or_default().split([' ', '/']).map(|word| json!({"name": word})).collect::<Vec<_>>() }),
    );
    let words: Vec<String> =
        hidden["list"].as_array().unwrap().iter().map(|w| w["name"].as_str().unwrap_or_default().to_owned()).collect();
    words.join(" ")
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

fn differences(want: &Story, got: &Story) -> Vec<String> {
    let keys: BTreeSet<&String> = want.keys().chain(got.keys()).collect();
    keys.into_iter()
        .filter(|key| want.get(*key) != got.get(*key))
        .map(|key| format!("{key}\n  want {:#?}\n  got  {:#?}", want.get(key), got.get(key)))
        .collect()
}

fn compare(world: &World, steps: &[Step]) {
    let differences = differences(&story(steps), &story(&world.steps()));
    assert!(differences.is_empty(), "{} differs:\n{}", world.name, differences.join("\n"));
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
