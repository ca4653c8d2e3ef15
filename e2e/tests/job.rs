//! Suite: what job-controller promises for Jobs, and for those that have finished.

use std::collections::BTreeMap;

use e2e::suite::prelude::*;

const FINALIZER: &str = "batch.kubernetes.io/job-tracking";
const INDEX: &str = "batch.kubernetes.io/job-completion-index";

pub(crate) fn suite() -> Suite {
    let scenes = scenes! {
        SIMULATED =>
            runs_until_enough_has_succeeded pods_are_made_of_the_template fails_when_too_many_pods_have_failed
            every_index_succeeds_once failures_are_limited_per_index an_exit_code_fails_the_job
            an_exit_code_fails_the_index disruptions_are_ignored a_success_policy_ends_the_job_early
            suspends_and_resumes a_job_that_fails_while_suspended_ends a_deadline_ends_the_job_and_its_pods
            pods_are_replaced_once_they_are_over an_elastic_job_grows_and_shrinks
            a_pod_deleted_by_a_user_is_counted_and_replaced strays_are_adopted_and_counted
            restarts_of_containers_are_limited a_work_queue_ends_with_its_workers pods_of_a_deleted_job_can_go
            finished_jobs_are_removed more_than_a_slice_is_created_and_counted;
        EVERYWHERE =>
            a_job_that_wants_nothing_completes jobs_of_others_are_left_alone a_job_at_rest_is_left_alone;
    };
    Suite::new("job", &[("job-controller", &["--tune=job-pod-failure-backoff=2s"])], scenes)
}

/// Conditions that are `True`, with their reasons, in their order.
fn conditions(job: &Value) -> Vec<String> {
    let list = job["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let text = |c: &Value, field: &str| c[field].as_str().unwrap_or_default().to_owned();
    list.iter()
        .filter(|c| c["status"] == "True")
        .map(|c| format!("{} {}", text(c, "type"), text(c, "reason")))
        .collect()
}

/// Waits until a Job has ended, and checks what is true of every Job that has.
async fn finished(c: &Context, name: &str) -> Result<Value, Failure> {
    let job = c
        .until(&format!("Job {name} to finish"), async || {
            let job = c.get(JOBS, name).await.ok()?;
            let over = ["Complete", "Failed"].iter().any(|k| condition(&job, k).is_some_and(|c| c["status"] == "True"));
            over.then_some(job)
        })
        .await?;
    let status = &job["status"];
    assert_eq!((status.get("active"), &status["ready"], &status["terminating"]), (None, &json!(0), &json!(0)));
    assert_eq!(status["uncountedTerminatedPods"], json!({}));
    for pod in c.pods_of(&job).await? {
        assert!(!has_finalizer(&pod), "{}", pod["metadata"]["name"]);
    }
    for process in c.controllers() {
        let (_, metrics) = process.get("/metrics").await?;
        let refused: Vec<&str> =
            metrics.lines().filter(|l| l.starts_with("nonet_sync_errors_total") && l.contains("\"invalid\"")).collect();
        assert!(metrics.contains("job_controller_job_syncs_total") && refused.is_empty(), "{refused:?}");
    }
    Ok(job)
}

/// Waits for a Job whose status is as wanted.
async fn until_status(c: &Context, name: &str, what: &str, holds: impl Fn(&Value) -> bool) -> Result<Value, Failure> {
    c.until_object(JOBS, name, &format!("Job {name}: {what}"), |job| holds(&job["status"])).await
}

fn has_finalizer(pod: &Value) -> bool {
    pod["metadata"]["finalizers"].as_array().is_some_and(|list| list.contains(&json!(FINALIZER)))
}

async fn active(c: &Context, job: &Value) -> Result<Vec<Value>, Failure> {
    let mut pods = c.pods_of(job).await?;
    pods.retain(|p| {
        let over = matches!(p["status"]["phase"].as_str(), Some("Failed" | "Succeeded"));
        p["metadata"].get("deletionTimestamp").is_none() && !over
    });
    Ok(pods)
}

async fn runs_until_enough_has_succeeded(c: Context) -> Outcome {
    let spec = job("sum").set("spec/completions", 4).set("spec/parallelism", 2);
    c.create(JOBS, spec.script("sim/exit", "0").script("sim/after", "1")).await?;
    let job = finished(&c, "sum").await?;
    assert_eq!(conditions(&job), ["SuccessCriteriaMet CompletionsReached", "Complete CompletionsReached"]);
    assert_eq!((&job["status"]["succeeded"], job["status"].get("failed")), (&json!(4), None));
    assert_eq!(c.pods_of(&job).await?.len(), 4);
    c.until_event("Job", "sum", "Normal Completed Job completed").await?;
    c.until_event("Job", "sum", "Normal SuccessfulCreate Created pod: sum-").await
}

async fn pods_are_made_of_the_template(c: Context) -> Outcome {
    let spec = job("sum")
        .set("spec/completions", 1)
        .set("spec/completionMode", "Indexed")
        .set("spec/template/metadata/annotations/note", "kept")
        .set("spec/template/metadata/finalizers", json!(["example.com/keep"]));
    let job = c.create(JOBS, spec).await?;
    until_status(&c, "sum", "an active Pod", |status| status["active"] == 1 && status["ready"] == 1).await?;
    let pod = c.pods_of(&job).await?[0].clone();
    let meta = &pod["metadata"];
    assert_eq!((&meta["generateName"], &meta["annotations"]["note"]), (&json!("sum-0-"), &json!("kept")));
    assert_eq!((&meta["annotations"][INDEX], &meta["labels"][INDEX]), (&json!("0"), &json!("0")));
    assert_eq!(meta["finalizers"], json!(["example.com/keep", FINALIZER]));
    let owner = json!([{"apiVersion": "batch/v1", "kind": "Job", "name": "sum", "uid": job["metadata"]["uid"],
        "controller": true, "blockOwnerDeletion": true}]);
    assert_eq!((&meta["ownerReferences"], &pod["spec"]["hostname"]), (&owner, &json!("sum-0")));
    assert_eq!(pod["spec"]["containers"][0]["env"][0]["name"], "JOB_COMPLETION_INDEX");
    let name = meta["name"].as_str().unwrap();
    c.json_patch(PODS, name, json!([{"op": "remove", "path": "/metadata/finalizers/0"}])).await?;
    Ok(())
}

async fn fails_when_too_many_pods_have_failed(c: Context) -> Outcome {
    c.create(JOBS, job("bad").set("spec/backoffLimit", 1).script("sim/exit", "1")).await?;
    let job = finished(&c, "bad").await?;
    assert_eq!(conditions(&job), ["FailureTarget BackoffLimitExceeded", "Failed BackoffLimitExceeded"]);
    assert_eq!((&job["status"]["failed"], job["status"].get("completionTime")), (&json!(2), None));
    c.until_event("Job", "bad", "Warning BackoffLimitExceeded Job has reached the specified backoff limit").await
}

async fn every_index_succeeds_once(c: Context) -> Outcome {
    let spec = job("sum").set("spec/completions", 5).set("spec/parallelism", 3).set("spec/completionMode", "Indexed");
    c.create(JOBS, spec.script("sim/exit", "0").script("sim/after", "0.5")).await?;
    let job = finished(&c, "sum").await?;
    let status = &job["status"];
    assert_eq!((&status["completedIndexes"], &status["succeeded"]), (&json!("0-4"), &json!(5)));
    let mut indexes = BTreeMap::new();
    for pod in c.pods_of(&job).await? {
        *indexes.entry(pod["metadata"]["annotations"][INDEX].as_str().unwrap().to_owned()).or_insert(0) += 1;
    }
    assert_eq!(indexes, (0..5).map(|i| (i.to_string(), 1)).collect());
    Ok(())
}

fn per_index_job(name: &str, limit: u32) -> Builder {
    job(name)
        .set("spec/completions", 3)
        .set("spec/parallelism", 3)
        .set("spec/completionMode", "Indexed")
        .set("spec/backoffLimitPerIndex", limit)
        .script("sim/exit", "0")
        .script("sim/exit-index-1", "3")
}

async fn failures_are_limited_per_index(c: Context) -> Outcome {
    c.create(JOBS, per_index_job("sum", 1)).await?;
    let job = finished(&c, "sum").await?;
    let status = &job["status"];
    assert_eq!((&status["completedIndexes"], &status["failedIndexes"]), (&json!("0,2"), &json!("1")));
    assert_eq!((&status["succeeded"], &status["failed"]), (&json!(2), &json!(2)));
    assert_eq!(conditions(&job), ["FailureTarget FailedIndexes", "Failed FailedIndexes"]);
    Ok(())
}

async fn an_exit_code_fails_the_job(c: Context) -> Outcome {
    let policy = json!({"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [3]}}]});
    let spec = per_index_job("sum", 5).set("spec/podFailurePolicy", policy).script("sim/exit-index-0", "0");
    c.create(JOBS, spec.script("sim/after", "1")).await?;
    let job = finished(&c, "sum").await?;
    assert_eq!(conditions(&job), ["FailureTarget PodFailurePolicy", "Failed PodFailurePolicy"]);
    let message = condition(&job, "Failed").unwrap()["message"].as_str().unwrap().to_owned();
    assert!(message.ends_with(" failed with exit code 3 matching FailJob rule at index 0"), "{message}");
    Ok(())
}

async fn an_exit_code_fails_the_index(c: Context) -> Outcome {
    let policy = json!({"rules": [{"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [3]}}]});
    c.create(JOBS, per_index_job("sum", 5).set("spec/podFailurePolicy", policy)).await?;
    let job = finished(&c, "sum").await?;
    let status = &job["status"];
    assert_eq!(
        (&status["failedIndexes"], &status["failed"], &status["succeeded"]),
        (&json!("1"), &json!(1), &json!(2))
    );
    Ok(())
}

async fn disruptions_are_ignored(c: Context) -> Outcome {
    let policy = json!({"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]});
    let spec = job("sum").set("spec/backoffLimit", 0).set("spec/podFailurePolicy", policy);
    let job = c.create(JOBS, spec).await?;
    until_status(&c, "sum", "an active Pod", |status| status["ready"] == 1).await?;
    let first = c.pods_of(&job).await?[0]["metadata"]["name"].as_str().unwrap().to_owned();
    let time = c.cluster().clock().now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let conditions = json!([{"type": "DisruptionTarget", "status": "True", "lastTransitionTime": time}]);
    c.merge_status(PODS, &first, json!({"status": {"phase": "Failed", "conditions": conditions}})).await?;
    c.until("another Pod in the place of the disrupted one", async || {
        let pods = active(&c, &job).await.ok()?;
        (pods.len() == 1 && pods[0]["metadata"]["name"] != first.as_str()).then_some(())
    })
    .await?;
    let job = until_status(&c, "sum", "an active Pod", |status| status["active"] == 1).await?;
    assert_eq!(job["status"].get("failed"), None);
    Ok(())
}

async fn a_success_policy_ends_the_job_early(c: Context) -> Outcome {
    let spec = job("sum")
        .set("spec/completions", 3)
        .set("spec/parallelism", 3)
        .set("spec/completionMode", "Indexed")
        .set("spec/successPolicy", json!({"rules": [{"succeededIndexes": "0-1"}]}));
    c.create(JOBS, spec.script("sim/exit-index-0", "0").script("sim/exit-index-1", "0")).await?;
    let job = finished(&c, "sum").await?;
    assert_eq!(conditions(&job), ["SuccessCriteriaMet SuccessPolicy", "Complete SuccessPolicy"]);
    let status = &job["status"];
    assert_eq!((&status["completedIndexes"], status.get("failed")), (&json!("0,1"), None));
    Ok(())
}

async fn suspends_and_resumes(c: Context) -> Outcome {
    let spec = job("sum").set("spec/suspend", true).set("spec/completions", 2).set("spec/parallelism", 2);
    let job = c.create(JOBS, spec).await?;
    let seen = until_status(&c, "sum", "it is suspended", |status| status["conditions"][0]["status"] == "True").await?;
    assert_eq!((conditions(&seen), seen["status"].get("startTime")), (vec!["Suspended JobSuspended".to_owned()], None));
    for _ in 0..2 {
        c.merge(JOBS, "sum", json!({"spec": {"suspend": false}})).await?;
        let seen = until_status(&c, "sum", "it is resumed", |status| status["active"] == 2).await?;
        assert_eq!(seen["status"]["conditions"][0]["reason"], "JobResumed");
        assert!(seen["status"]["startTime"].is_string());
        c.merge(JOBS, "sum", json!({"spec": {"suspend": true}})).await?;
        let seen = until_status(&c, "sum", "it is suspended", |status| {
            status["conditions"][0]["status"] == "True" && status["terminating"] == 0 && status.get("active").is_none()
        })
        .await?;
        assert_eq!((seen["status"].get("startTime"), seen["status"].get("failed")), (None, None));
        c.until("its Pods to be gone", async || c.pods_of(&job).await.ok()?.is_empty().then_some(())).await?;
    }
    // While it is suspended its Pods may be directed elsewhere.
    let selector = json!({"spec": {"template": {"spec": {"nodeSelector": {"kubernetes.io/os": "linux"}}}}});
    c.merge(JOBS, "sum", selector).await?;
    c.until_event("Job", "sum", "Normal Suspended Job suspended").await?;
    c.until_event("Job", "sum", "Normal Resumed Job resumed").await
}

async fn a_job_that_fails_while_suspended_ends(c: Context) -> Outcome {
    c.create(JOBS, job("bad").set("spec/backoffLimit", 3).script("sim/exit", "1")).await?;
    until_status(&c, "bad", "a failure", |status| status["failed"] == 1).await?;
    c.merge(JOBS, "bad", json!({"spec": {"suspend": true}})).await?;
    until_status(&c, "bad", "it is suspended", |status| status["conditions"][0]["status"] == "True").await?;
    c.merge(JOBS, "bad", json!({"spec": {"backoffLimit": 0}})).await?;
    let job = finished(&c, "bad").await?;
    assert_eq!(conditions(&job).last().unwrap(), "Failed BackoffLimitExceeded");
    assert!(job["status"]["startTime"].is_string());
    Ok(())
}

async fn a_job_that_wants_nothing_completes(c: Context) -> Outcome {
    for suspend in [false, true] {
        let name = format!("none-{suspend}");
        c.create(JOBS, job(&name).set("spec/completions", 0).set("spec/suspend", suspend)).await?;
        let job = finished(&c, &name).await?;
        assert_eq!(conditions(&job).last().unwrap(), "Complete CompletionsReached");
    }
    Ok(())
}

async fn a_deadline_ends_the_job_and_its_pods(c: Context) -> Outcome {
    let spec = job("slow").set("spec/activeDeadlineSeconds", 3).set("spec/completions", 2).set("spec/parallelism", 2);
    c.create(JOBS, spec.script("sim/terminate-after", "2")).await?;
    let seen = until_status(&c, "slow", "its end is decided", |status| {
        status["conditions"].as_array().is_some_and(|list| list.iter().any(|c| c["type"] == "FailureTarget"))
    })
    .await?;
    assert_eq!(seen["status"]["terminating"], 2, "{}", seen["status"]);
    let job = finished(&c, "slow").await?;
    assert_eq!(conditions(&job), ["FailureTarget DeadlineExceeded", "Failed DeadlineExceeded"]);
    assert_eq!(job["status"]["failed"], 2);
    Ok(())
}

async fn pods_are_replaced_once_they_are_over(c: Context) -> Outcome {
    let spec = job("sum").set("spec/podReplacementPolicy", "Failed").script("sim/terminate-after", "4");
    let job = c.create(JOBS, spec).await?;
    until_status(&c, "sum", "an active Pod", |status| status["ready"] == 1).await?;
    let first = c.pods_of(&job).await?[0]["metadata"]["name"].as_str().unwrap().to_owned();
    c.delete(PODS, &first, "Background").await?;
    until_status(&c, "sum", "its Pod is going", |status| status["terminating"] == 1).await?;
    c.stays("no Pod is created while the first is going", Duration::from_secs(2), async || {
        c.pods_of(&job).await.is_ok_and(|pods| pods.len() == 1)
    })
    .await?;
    let seen = until_status(&c, "sum", "another Pod", |status| status["active"] == 1 && status["failed"] == 1).await?;
    assert_eq!(seen["status"]["terminating"], 0);
    Ok(())
}

async fn an_elastic_job_grows_and_shrinks(c: Context) -> Outcome {
    let spec = job("sum").set("spec/completions", 4).set("spec/parallelism", 4).set("spec/completionMode", "Indexed");
    c.create(JOBS, spec.script("sim/exit-index-0", "0").script("sim/exit-index-3", "0")).await?;
    until_status(&c, "sum", "two indexes", |status| status["completedIndexes"] == "0,3").await?;
    c.merge(JOBS, "sum", json!({"spec": {"completions": 2, "parallelism": 2}})).await?;
    let seen =
        until_status(&c, "sum", "it shrinks", |status| status["completedIndexes"] == "0" && status["active"] == 1)
            .await?;
    assert_eq!((&seen["status"]["succeeded"], seen["status"].get("failed")), (&json!(1), None));
    c.merge(JOBS, "sum", json!({"spec": {"completions": 5, "parallelism": 5}})).await?;
    until_status(&c, "sum", "it grows", |status| status["completedIndexes"] == "0,3" && status["active"] == 3).await?;
    Ok(())
}

async fn a_pod_deleted_by_a_user_is_counted_and_replaced(c: Context) -> Outcome {
    let job = c.create(JOBS, job("sum").set("spec/completions", 2).set("spec/parallelism", 2)).await?;
    until_status(&c, "sum", "two active Pods", |status| status["ready"] == 2).await?;
    let first = c.pods_of(&job).await?[0]["metadata"]["name"].as_str().unwrap().to_owned();
    c.delete(PODS, &first, "Background").await?;
    until_status(&c, "sum", "it is counted and replaced", |status| status["failed"] == 1 && status["ready"] == 2)
        .await?;
    assert!(c.get(PODS, &first).await.is_err(), "the Pod is gone once it is counted");
    Ok(())
}

async fn strays_are_adopted_and_counted(c: Context) -> Outcome {
    c.create(PODS, pod("done", "sum").set("spec/restartPolicy", "Never").script("sim/exit", "0")).await?;
    c.create(PODS, pod("runs", "sum").set("spec/restartPolicy", "Never")).await?;
    c.until("Pod done to be over", async || {
        (c.get(PODS, "done").await.ok()?["status"]["phase"] == "Succeeded").then_some(())
    })
    .await?;
    let spec = job("sum")
        .set("spec/completions", 3)
        .set("spec/parallelism", 2)
        .set("spec/manualSelector", true)
        .set("spec/selector", json!({"matchLabels": {"app": "sum"}}));
    c.create(JOBS, spec).await?;
    until_status(&c, "sum", "both are adopted", |status| status["succeeded"] == 1 && status["active"] == 2).await?;
    assert!(has_finalizer(&c.get(PODS, "runs").await?));
    c.merge(PODS, "runs", json!({"metadata": {"labels": {"app": "other"}}})).await?;
    c.until_object(PODS, "runs", "a Pod whose labels changed to be released", |pod| {
        pod["metadata"].get("ownerReferences").is_none() && !has_finalizer(pod)
    })
    .await
    .map(drop)
}

async fn restarts_of_containers_are_limited(c: Context) -> Outcome {
    let spec = job("sum").set("spec/backoffLimit", 2).set("spec/template/spec/restartPolicy", "OnFailure");
    c.create(JOBS, spec.script("sim/exit", "1").script("sim/restart-after", "0.5")).await?;
    let job = finished(&c, "sum").await?;
    assert_eq!(conditions(&job).last().unwrap(), "Failed BackoffLimitExceeded");
    assert_eq!(job["status"]["failed"], 1);
    Ok(())
}

async fn a_work_queue_ends_with_its_workers(c: Context) -> Outcome {
    c.create(JOBS, job("queue").set("spec/parallelism", 3).script("sim/exit", "0").script("sim/after", "2")).await?;
    let job = finished(&c, "queue").await?;
    assert_eq!(job["status"]["succeeded"], 3);
    Ok(())
}

async fn pods_of_a_deleted_job_can_go(c: Context) -> Outcome {
    for (name, propagation) in [("background", "Background"), ("foreground", "Foreground"), ("orphan", "Orphan")] {
        let job = c.create(JOBS, job(name).set("spec/completions", 2).set("spec/parallelism", 2)).await?;
        until_status(&c, name, "two active Pods", |status| status["active"] == 2).await?;
        c.delete(JOBS, name, propagation).await?;
        c.until("its Pods to lose the finalizer", async || {
            let pods = c.pods_of(&job).await.ok()?;
            pods.iter().all(|pod| !has_finalizer(pod)).then_some(())
        })
        .await?;
        let pods = c.pods_of(&job).await?;
        assert_eq!(pods.len(), 2, "they are the garbage collector's");
        if propagation != "Background" {
            c.merge(JOBS, name, json!({"metadata": {"finalizers": null}})).await?;
        }
    }
    Ok(())
}

async fn jobs_of_others_are_left_alone(c: Context) -> Outcome {
    let job = c.create(JOBS, job("theirs").set("spec/managedBy", "example.com/queue")).await?;
    c.stays("nothing is done about it", Duration::from_secs(3), async || {
        let status = c.get(JOBS, "theirs").await.map(|job| job["status"].clone());
        status.is_ok_and(|status| status == json!({})) && c.pods_of(&job).await.is_ok_and(|pods| pods.is_empty())
    })
    .await
}

async fn finished_jobs_are_removed(c: Context) -> Outcome {
    c.create(JOBS, job("ok").set("spec/ttlSecondsAfterFinished", 3).script("sim/exit", "0")).await?;
    c.create(JOBS, job("stays").script("sim/exit", "0")).await?;
    finished(&c, "ok").await?;
    finished(&c, "stays").await?;
    c.until("the Job to be removed", async || match c.get(JOBS, "ok").await {
        Ok(job) => (job["metadata"]["finalizers"] == json!(["foregroundDeletion"])).then_some(()),
        Err(_) => Some(()),
    })
    .await?;
    let job = c.get(JOBS, "ok").await?;
    let since = |value: &Value| value.as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    let after = since(&job["metadata"]["deletionTimestamp"])
        .duration_since(since(&condition(&job, "Complete").unwrap()["lastTransitionTime"]));
    assert!((3..8).contains(&after.as_secs()), "{after}");
    assert!(c.get(JOBS, "stays").await?["metadata"].get("deletionTimestamp").is_none());
    c.merge(JOBS, "ok", json!({"metadata": {"finalizers": null}})).await?;
    Ok(())
}

async fn more_than_a_slice_is_created_and_counted(c: Context) -> Outcome {
    let spec =
        job("many").set("spec/completions", 1200).set("spec/parallelism", 1200).set("spec/completionMode", "Indexed");
    c.create(JOBS, spec.script("sim/exit", "0").script("sim/after", "2")).await?;
    let job = finished(&c, "many").await?;
    assert_eq!((&job["status"]["completedIndexes"], &job["status"]["succeeded"]), (&json!("0-1199"), &json!(1200)));
    assert_eq!(c.pods_of(&job).await?.len(), 1200);
    Ok(())
}

async fn a_job_at_rest_is_left_alone(c: Context) -> Outcome {
    c.create(JOBS, job("sum").set("spec/parallelism", 2)).await?;
    until_status(&c, "sum", "two active Pods", |status| status["ready"] == 2).await?;
    c.sleep(Duration::from_secs(2)).await;
    let before = c.get(JOBS, "sum").await?["metadata"]["resourceVersion"].clone();
    c.sleep(Duration::from_secs(3)).await;
    assert_eq!(c.get(JOBS, "sum").await?["metadata"]["resourceVersion"], before);
    Ok(())
}
