//! Counts the Pods of a run again, from the write log of the server, and checks every write of the run.

use crate::world::*;

/// The Pods of one Job, counted from the write log.
#[derive(Debug, Default)]
struct JobRecount {
    /// UIDs that the status no longer lists, each with the name of the counter that includes the Pod.
    counted: BTreeMap<String, &'static str>,
    interim: Option<String>,
}

fn uids(status: &Value, field: &str) -> BTreeSet<String> {
    let list = status["uncountedTerminatedPods"][field].as_array().cloned().unwrap_or_default();
    list.iter().map(|uid| uid.as_str().unwrap().to_owned()).collect()
}

fn number(status: &Value, field: &str) -> i64 {
    status[field].as_i64().unwrap_or(0)
}

fn indexes(text: &Value) -> BTreeSet<i64> {
    let mut out = BTreeSet::new();
    for item in text.as_str().unwrap_or_default().split(',').filter(|item| !item.is_empty()) {
        let (first, last) = item.split_once('-').unwrap_or((item, item));
        out.extend(first.parse::<i64>().unwrap()..=last.parse::<i64>().unwrap());
    }
    out
}

fn has(status: &Value, kind: &str) -> bool {
    let list = status["conditions"].as_array().cloned().unwrap_or_default();
    list.iter().any(|c| c["type"] == kind && c["status"] == "True")
}

/// Panics if a write of the run so far counts a Pod twice, or contradicts the rules for statuses and finalizers.
pub(crate) fn check_all_writes(world: &World) {
    // A filter or a fault may reject valid requests.
    if !world.has_filter() && world.sandbox.faults().hits(&Action::Invalid) == 0 {
        let text = world.metrics();
        assert!(!text.contains(r#"error="invalid""#), "the server rejected a request as invalid:\n{text}");
    }
    let mut jobs: BTreeMap<String, JobRecount> = BTreeMap::new();
    let mut pods: BTreeMap<String, (String, Value)> = BTreeMap::new();
    for write in world.sandbox.writes().all() {
        let before = write.before();
        let Some(after) = write.after() else {
            let uid = before.map_or(Value::Null, |before| before["metadata"]["uid"].clone());
            pods.remove(uid.as_str().unwrap_or_default());
            continue;
        };
        let uid = after["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        match write.resource.as_str() {
            "pods" => {
                let owner = after["metadata"]["ownerReferences"][0]["uid"].as_str().unwrap_or_default().to_owned();
                pods.insert(uid, (owner, (*after).clone()));
            }
            "jobs" => {
                let before = before.map_or(Value::Null, |before| before["status"].clone());
                check_status(jobs.entry(uid).or_default(), &before, &after);
            }
            _ => {}
        }
    }
    for (uid, (owner, pod)) in pods {
        let Some(tally) = jobs.get(&owner) else { continue };
        let finalizers = finalizers(&pod);
        let phase = pod["status"]["phase"].as_str().unwrap_or_default();
        if let Some(counter) = tally.counted.get(&uid) {
            assert!(!finalizers.contains(&TRACKING_FINALIZER), "{uid} is counted and still has the finalizer");
            assert!(*counter == "failed" || phase == "Succeeded", "{uid} is {phase} and counts as {counter}");
        }
    }
}

fn check_status(tally: &mut JobRecount, before: &Value, job: &Value) {
    let status = &job["status"];
    let (succeeded, failed) = (uids(status, "succeeded"), uids(status, "failed"));
    assert!(succeeded.is_disjoint(&failed), "in both lists: {status}");
    assert!(succeeded.len() + failed.len() <= 500, "too many uids: {}", succeeded.len() + failed.len());
    let indexed = job["spec"]["completionMode"] == "Indexed";
    for (field, named) in [("succeeded", &succeeded), ("failed", &failed)] {
        let left: Vec<String> = uids(before, field).difference(named).cloned().collect();
        for uid in &left {
            assert_eq!(tally.counted.insert(uid.clone(), field), None, "{uid} is counted twice");
        }
        for uid in named {
            assert!(!tally.counted.contains_key(uid), "{uid} is listed again");
        }
        if field == "failed" || !indexed {
            let grown = number(status, field) - number(before, field);
            assert_eq!(grown, i64::try_from(left.len()).unwrap(), "{field} of {before} to {status}");
        }
    }
    let (done, given_up) = (indexes(&status["completedIndexes"]), indexes(&status["failedIndexes"]));
    assert!(done.is_disjoint(&given_up), "completed and failed: {status}");
    if indexed {
        assert_eq!(number(status, "succeeded"), i64::try_from(done.len()).unwrap(), "{status}");
    }
    for (terminal, interim) in [("Complete", "SuccessCriteriaMet"), ("Failed", "FailureTarget")] {
        if has(status, terminal) {
            assert_eq!(tally.interim.as_deref(), Some(interim), "{terminal} without {interim} before: {status}");
            assert!(succeeded.is_empty() && failed.is_empty(), "{status}");
            assert_eq!((number(status, "active"), number(status, "terminating")), (0, 0), "{status}");
        }
    }
    for interim in ["SuccessCriteriaMet", "FailureTarget"] {
        if has(status, interim) {
            tally.interim = Some(interim.to_owned());
        }
    }
}
