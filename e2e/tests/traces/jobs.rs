//! Runs of Jobs.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{
    Replay, Step,
    signature::{EventText, Signature, hide_generated, masked},
};

/// What two runs must have in common of their Jobs: every state of a status, by what it says and not by when.
fn story(steps: &[Step]) -> Signature {
    let mut out = Signature::default();
    let mut counted: BTreeSet<(&str, &str, &str)> = BTreeSet::new();
    for step in steps {
        let (object, name) = (&step.object, step.name());
        let as_created = || {
            let mut shape = masked(object);
            shape["status"].take();
            without_uids(shape)
        };
        match step.resource.as_str() {
            "pods" => {
                let job = object["metadata"]["labels"]["job-name"].as_str().unwrap_or_default();
                if step.created {
                    out.insert(format!("{job}: Pods as created"), as_created());
                }
                // How a Pod ends is the node's story.
                if object["metadata"]["finalizers"].is_null() && !step.is_terminating() {
                    let state = format!("{} without the finalizer", object["status"]["phase"]);
                    out.insert(format!("{job}: Pods in the end"), state);
                }
            }
            "jobs" => {
                let status = &object["status"];
                if step.created {
                    out.push(format!("{name}: as created"), as_created());
                }
                if let Some(conditions) = status["conditions"].as_array() {
                    let shown = conditions.iter().map(|c| {
                        assert_eq!(c["lastProbeTime"], c["lastTransitionTime"]);
                        let message = hide_generated(c["message"].as_str().unwrap_or_default());
                        format!("{}={} {}: {message}", c["type"], c["status"], c["reason"])
                    });
                    out.push(format!("{name}: conditions"), shown.collect::<Vec<_>>().join("; "));
                }
                for field in ["succeeded", "failed", "completedIndexes", "failedIndexes"] {
                    out.push(format!("{name}: {field}"), &status[field]);
                }
                for field in ["startTime", "completionTime"] {
                    out.push(format!("{name}: {field}"), status[field].is_string());
                }
                for field in ["succeeded", "failed"] {
                    let uids = status["uncountedTerminatedPods"][field].as_array().into_iter().flatten();
                    counted.extend(uids.filter_map(Value::as_str).map(|uid| (name, field, uid)));
                }
                let mut last = status.clone();
                last["conditions"].take();
                for field in ["startTime", "completionTime"] {
                    last[field] = json!(last[field].is_string());
                }
                out.set(format!("{name}: last status"), last);
                if step.is_terminating() {
                    out.set(format!("{name}: deleted"), &object["metadata"]["finalizers"]);
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
    out.tally("uids that were named", counted.into_iter().map(|(job, field, _)| format!("{job}: {field}")));
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

#[tokio::test(start_paused = true)]
async fn a_job_that_completes_and_one_that_fails() {
    let replay = Replay::new("job-plain").await;
    replay.create("jobs/ok", 5.1).await;
    replay.create("jobs/bad", 14.0).await;
    replay.compare(story);
}

#[tokio::test(start_paused = true)]
async fn indexes_policies_suspension_and_removal() {
    let replay = Replay::new("job-indexed").await;
    let suspended = |suspend: bool| json!({"spec": {"suspend": suspend}});
    replay.create("jobs/idx", 8.0).await;
    replay.create("jobs/pol", 5.0).await;
    replay.create("jobs/suc", 6.0).await;
    replay.create("jobs/susp", 1.0).await;
    replay.merge("jobs.batch", "susp", suspended(false), 1.0).await;
    replay.merge("jobs.batch", "susp", suspended(true), 3.0).await;
    replay.merge("jobs.batch", "susp", suspended(false), 6.0).await;
    replay.create("jobs/ttl", 5.0).await;
    // The garbage collector's part of a foreground deletion: nothing is left to wait for.
    replay.merge("jobs.batch", "ttl", json!({"metadata": {"finalizers": null}}), 0.0).await;
    replay.compare(story);
}
