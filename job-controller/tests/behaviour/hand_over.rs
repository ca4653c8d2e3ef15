//! From upstream's controller to ours, in mid-flight: every state that recorded Jobs went through is taken over.

use std::{collections::BTreeMap, path::Path};

use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::{
    oracle,
    world::{JOBS, ME, NS, World, finalizers, job_with, name},
};

struct Line {
    kind: String,
    removed: bool,
    object: Value,
}

/// What was recorded of one Job and its Pods.
fn recorded(trace: &str, job: &str) -> Vec<Line> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../e2e/goldens/traces/{trace}.jsonl"));
    let text = std::fs::read_to_string(path).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let concerns = |line: &Value| {
        let object = &line["object"];
        match line["kind"].as_str() {
            Some("jobs") => object["metadata"]["name"] == job,
            Some("pods") => object["metadata"]["labels"]["job-name"] == job,
            _ => false,
        }
    };
    lines
        .filter(concerns)
        .map(|line| Line {
            kind: line["kind"].as_str().unwrap().to_owned(),
            removed: line["type"] == "DELETED",
            object: line["object"].clone(),
        })
        .collect()
}

fn counts(job: &Value) -> Value {
    let mut out = json!({});
    for field in ["succeeded", "failed", "completedIndexes", "failedIndexes"] {
        out[field] = job["status"][field].clone();
    }
    let list = job["status"]["conditions"].as_array().cloned().unwrap_or_default();
    out["conditions"] = list.iter().map(|c| json!([c["type"], c["status"], c["reason"]])).collect();
    out
}

fn replace(value: &Value, with: &BTreeMap<String, String>) -> Value {
    let text = with.iter().fold(value.to_string(), |text, (old, new)| text.replace(old, new));
    serde_json::from_str(&text).unwrap()
}

/// Puts the state after those lines on the server.
async fn put(world: &World, lines: &[Line]) {
    let (mut job, mut pods) = (Value::Null, BTreeMap::new());
    for line in lines {
        let name = line.object["metadata"]["name"].as_str().unwrap().to_owned();
        match (line.kind.as_str(), line.removed) {
            ("jobs", _) => job = line.object.clone(),
            (_, true) => {
                pods.remove(&name);
            }
            (_, false) => {
                pods.insert(name, line.object.clone());
            }
        }
    }
    let mut fresh = job.clone();
    fresh["metadata"] = json!({"name": job["metadata"]["name"], "namespace": NS});
    fresh["status"].take();
    for field in ["selector", "manualSelector"] {
        fresh["spec"].as_object_mut().unwrap().remove(field);
    }
    fresh["spec"]["template"]["metadata"]["labels"].take();
    let created = world.apply(fresh).await;
    let uid = |object: &Value| object["metadata"]["uid"].as_str().unwrap().to_owned();
    let mut uids = BTreeMap::from([(uid(&job), uid(&created))]);
    for (pod_name, pod) in &pods {
        let spec = &pod["spec"];
        let fresh = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": pod_name, "namespace": NS, "labels": pod["metadata"]["labels"],
                "annotations": pod["metadata"]["annotations"], "ownerReferences": pod["metadata"]["ownerReferences"],
                "finalizers": pod["metadata"]["finalizers"]},
            "spec": {"containers": [{"name": "c", "image": "img:1"}], "restartPolicy": "Never", "hostname": spec["hostname"]}});
        let created = world.apply(replace(&fresh, &uids)).await;
        uids.insert(uid(pod), uid(&created));
        if ["Succeeded", "Failed"].contains(&pod["status"]["phase"].as_str().unwrap_or_default()) {
            let statuses = &pod["status"]["containerStatuses"];
            world.report(pod_name, json!({"phase": pod["status"]["phase"], "containerStatuses": statuses})).await;
        }
    }
    let status = replace(&job["status"], &uids);
    if status != json!({}) {
        let name = job["metadata"]["name"].as_str().unwrap();
        world.sandbox.merge(JOBS, Some(NS), name, Some("status"), json!({ "status": status })).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn every_recorded_state_is_taken_over() {
    for (trace, job) in [
        ("job-plain", "ok"),
        ("job-plain", "bad"),
        ("job-indexed", "idx"),
        ("job-indexed", "pol"),
        ("job-indexed", "suc"),
        ("job-indexed", "ttl"),
    ] {
        let mut lines = recorded(trace, job);
        // What follows the end is the garbage collector's.
        let over =
            lines.iter().position(|l| l.kind == "jobs" && l.object["status"]["conditions"][1]["status"] == "True");
        let over = over.unwrap();
        lines.truncate(over + 1);
        let end = counts(&lines[over].object);
        let first = |l: &&Line| l.kind == "pods" && l.object["metadata"]["resourceVersion"] != "";
        let names: std::collections::BTreeSet<_> =
            lines.iter().filter(first).map(|l| l.object["metadata"]["name"].to_string()).collect();
        for upto in 1..=lines.len() {
            let what = format!("{trace} {job}, {upto} of {} states", lines.len());
            let mut world = World::new().await;
            world.crash();
            // Later than all of it was recorded.
            world.clock.skew(SignedDuration::from_mins(50));
            put(&world, &lines[..upto]).await;
            let before: Vec<String> = world.pods().await.iter().map(|pod| name(pod).to_owned()).collect();
            world.forget();
            world.start();
            world.wait(40).await;
            let pods = world.pods().await;
            let mut end = end.clone();
            if job == "suc" {
                // Its third index fails, and runs again if that is seen before the others have succeeded.
                end["failed"] = json!(pods.iter().filter(|pod| pod["status"]["phase"] == "Failed").count());
            } else {
                assert_eq!(pods.len(), names.len(), "{what}: no Pod too many");
            }
            assert_eq!(counts(&world.get(JOBS, job).await), end, "{what}");
            assert!(before.iter().all(|old| pods.iter().any(|pod| name(pod) == old)), "{what}: no Pod was restarted");
            assert!(pods.iter().all(|pod| finalizers(pod).is_empty()), "{what}");
            assert_eq!(world.asked("delete", "pods"), 0, "{what}");
            if upto == lines.len() {
                let ours = world.written();
                let untouched = ours.iter().all(|w| w.identity == ME && w.resource == "pods" || job == "ttl");
                assert!(untouched, "{what}: {ours:?}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_running_job_is_taken_over_without_a_write() {
    let mut world = World::new().await;
    world.apply(job_with("sum", &[], json!({"completions": 3, "parallelism": 3}))).await;
    world
        .apply(job_with(
            "idx",
            &[],
            json!({"completions": 3, "parallelism": 3, "completionMode": "Indexed", "backoffLimitPerIndex": 1}),
        ))
        .await;
    world.apply(job_with("susp", &[], json!({"suspend": true}))).await;
    world.settle().await;
    world.crash();
    world.forget();
    world.start();
    world.wait(10).await;
    assert!(world.written().is_empty(), "{:?}", world.written());
}

#[tokio::test(start_paused = true)]
async fn who_no_longer_leads_writes_nothing_more() {
    let world = World::new().await;
    let slow = e2e::sandbox::Rule::new(e2e::sandbox::Action::Latency(std::time::Duration::from_millis(10)));
    world.sandbox.faults().add(slow.identity(ME).verb("create"));
    world.apply(job_with("sum", &[("exit", "0")], json!({"completions": 100, "parallelism": 100}))).await;
    world.clock.sleep(std::time::Duration::from_millis(35)).await;
    world.loops.as_ref().unwrap().depose();
    let then = world.written().len();
    assert!(then > 0 && then < 100);
    world.wait(60).await;
    assert!(world.written().len() <= then + 8);
    assert_eq!(world.status("sum").await, json!({}));
    oracle::check(&world);
}
