//! The hand-over of running Jobs from upstream's controller, in every state that was recorded on a real cluster.

use std::path::Path;

use crate::world::*;

/// Reads the recorded states of one Job and its Pods, in their order: lines with kind, type of the event, and object.
fn recorded(trace: &str, job: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../e2e/goldens/traces/{trace}.jsonl"));
    let text = std::fs::read_to_string(path).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let concerns = |line: &Value| {
        let metadata = &line["object"]["metadata"];
        line["kind"] == "jobs" && metadata["name"] == job
            || line["kind"] == "pods" && metadata["labels"]["job-name"] == job
    };
    lines.filter(concerns).collect()
}

fn outcome_of_job(job: &Value) -> Value {
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

/// Returns the Job and its Pods after the last of these recorded states.
fn state(lines: &[Value]) -> (Value, BTreeMap<String, Value>) {
    let (mut job, mut pods) = (Value::Null, BTreeMap::new());
    for line in lines {
        let object = line["object"].clone();
        if line["kind"] == "jobs" {
            job = object;
        } else if line["type"] == "DELETED" {
            pods.remove(name(&object));
        } else {
            pods.insert(name(&object).to_owned(), object);
        }
    }
    (job, pods)
}

/// Creates the Job and its Pods on the server as they are after the last of these recorded states.
async fn create_state(world: &World, lines: &[Value]) {
    let (job, pods) = state(lines);
    let mut fresh = job.clone();
    fresh["metadata"] = json!({"name": job["metadata"]["name"], "namespace": NAMESPACE});
    fresh["status"].take();
    for field in ["selector", "manualSelector"] {
        fresh["spec"].as_object_mut().unwrap().remove(field);
    }
    fresh["spec"]["template"]["metadata"]["labels"].take();
    let created = world.create(fresh).await;
    let uid = |object: &Value| object["metadata"]["uid"].as_str().unwrap().to_owned();
    let mut uids = BTreeMap::from([(uid(&job), uid(&created))]);
    for (pod_name, pod) in &pods {
        let spec = &pod["spec"];
        let mut annotations = pod["metadata"]["annotations"].clone();
        if is_terminating(pod) {
            // The Pod terminates for 8 s, so that it is still terminating when the loops start.
            annotations["sim/terminate-after"] = json!("8");
        }
        let fresh = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": pod_name, "namespace": NAMESPACE, "labels": pod["metadata"]["labels"],
                "annotations": annotations, "ownerReferences": pod["metadata"]["ownerReferences"],
                "finalizers": pod["metadata"]["finalizers"]},
            "spec": {"containers": [{"name": "c", "image": "img:1"}], "restartPolicy": "Never", "hostname": spec["hostname"]}});
        let created = world.create(replace(&fresh, &uids)).await;
        uids.insert(uid(pod), uid(&created));
        if has_finished(pod) {
            let statuses = &pod["status"]["containerStatuses"];
            world
                .patch_pod_status(pod_name, json!({"phase": pod["status"]["phase"], "containerStatuses": statuses}))
                .await;
        }
    }
    let going: Vec<&String> = pods.iter().filter(|(_, pod)| is_terminating(pod)).map(|(name, _)| name).collect();
    if !going.is_empty() {
        // The nodes get time to start the Pods, because the server removes a deleted Pod directly if no node runs it.
        world.wait(0.5).await;
    }
    for pod in going {
        world.delete("pods", pod).await;
        assert!(is_terminating(&world.get("pods", pod).await), "{pod}");
    }
    let status = replace(&job["status"], &uids);
    if status != json!({}) {
        let name = job["metadata"]["name"].as_str().unwrap();
        world.patch_status(JOBS, name, status).await;
    }
}

/// The expected outcome after the loops take over a recorded state.
struct Expected {
    counts: Value,
    /// The number of Pods that exist at the end.
    pods: usize,
    /// The number of delete requests for Pods.
    deletes: usize,
}

/// Returns the expected outcome without further user actions: the recorded end, or a suspended Job without Pods.
fn expected(name: &str, lines: &[Value], end: &Value, left: usize) -> Expected {
    let (job, pods) = state(lines);
    if job["spec"]["suspend"] == true {
        let active = pods.values().filter(|pod| !has_finished(pod) && !is_terminating(pod)).count();
        let mut counts = json!({"conditions": [["Suspended", "True", "JobSuspended"]]});
        for field in ["succeeded", "failed", "completedIndexes", "failedIndexes"] {
            counts[field].take();
        }
        return Expected { counts, pods: 0, deletes: active };
    }
    let mut expected = Expected { counts: end.clone(), pods: left, deletes: 0 };
    let phase = |index: &str| {
        let of = |pod: &&Value| pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"] == index;
        pods.values().find(of).map_or("", |pod| pod["status"]["phase"].as_str().unwrap())
    };
    // If index 2 has failed and index 1 still runs, index 2 runs once more and fails again, as its back-off has ended.
    if name == "suc" && (phase("1"), phase("2")) == ("Running", "Failed") {
        expected.counts["failed"] = json!(2);
        expected.pods = 4;
    }
    expected
}

/// JOB-58.
#[tokio::test(start_paused = true)]
async fn every_recorded_state_is_taken_over() {
    let mut taken_over_going = 0;
    for (trace, job) in [
        ("job-plain", "ok"),
        ("job-plain", "bad"),
        ("job-indexed", "susp"),
        ("job-indexed", "idx"),
        ("job-indexed", "pol"),
        ("job-indexed", "suc"),
        ("job-indexed", "ttl"),
    ] {
        let mut lines = recorded(trace, job);
        // After the end of a Job, only the garbage collector changes its objects, so later states are dropped.
        let is_over = |line: &Value| {
            let ends = ["Complete", "Failed"];
            line["kind"] == "jobs" && ends.iter().any(|kind| !condition(&line["object"], kind).is_null())
        };
        let over = lines.iter().position(is_over).unwrap();
        lines.truncate(over + 1);
        let (end, left) = (outcome_of_job(&lines[over]["object"]), state(&lines).1.len());
        for upto in 1..=lines.len() {
            let what = format!("{trace} {job}, {upto} of {} states", lines.len());
            let mut world = cluster().start().await;
            world.crash();
            // The clock is set to a time after the whole recording.
            world.clock.shift_wall_clock(SignedDuration::from_mins(50));
            create_state(&world, &lines[..upto]).await;
            let expected = expected(job, &lines[..upto], &end, left);
            let found = world.pods().await;
            taken_over_going += found.iter().filter(|pod| is_terminating(pod)).count();
            let stays = |pod: &&Value| !is_terminating(pod) && expected.deletes == 0;
            let stay: Vec<&str> = found.iter().filter(stays).map(name).collect();
            world.clear_log();
            world.start();
            world.wait(40).await;
            let pods = world.pods().await;
            assert_eq!(outcome_of_job(&world.get(JOBS, job).await), expected.counts, "{what}");
            assert_eq!(pods.len(), expected.pods, "{what}: no extra Pod");
            assert!(stay.iter().all(|old| pods.iter().any(|pod| name(pod) == *old)), "{what}: no Pod was restarted");
            assert!(pods.iter().all(|pod| finalizers(pod).is_empty()), "{what}");
            assert_eq!(world.count("delete", "pods"), expected.deletes as u64, "{what}");
            if upto == lines.len() {
                let ours = world.own_writes();
                let untouched = ours.iter().all(|w| w.identity == CONTROLLER && w.resource == "pods" || job == "ttl");
                assert!(untouched, "{what}: {ours:?}");
            }
        }
    }
    assert_eq!(taken_over_going, 10, "two in each of five states");
}

/// JOB-58.
#[tokio::test(start_paused = true)]
async fn a_running_job_is_taken_over_without_a_write() {
    let mut world = cluster().settled(parallel("", 3)).await;
    let limited = json!({"completions": 3, "parallelism": 3, "completionMode": "Indexed", "backoffLimitPerIndex": 1});
    world.create(job("idx", "", limited)).await;
    world.create(job("susp", "", json!({"suspend": true}))).await;
    world.create(job("done", "exit=0", json!({}))).await;
    conformance::settled_objects_are_left_alone(&mut world, &[("get", JOBS), ("get", "pods")]).await;
}

#[tokio::test(start_paused = true)]
async fn a_deposed_leader_writes_nothing_more() {
    let world = cluster().start().await;
    conformance::a_deposed_leader_writes_nothing(&world, parallel("exit=0", 100)).await;
    assert_eq!(world.status().await, json!({}));
}
