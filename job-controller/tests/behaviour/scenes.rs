//! What job-controller promises for Jobs, and for those that have finished, on any cluster.

use testkit::{
    objects::{owners, pick},
    scene::prelude::*,
};

const FINALIZER: &str = "batch.kubernetes.io/job-tracking";
const INDEX: &str = "batch.kubernetes.io/job-completion-index";

suite! {
    Suite::new("job").controller(&job_controller::DEFINITION, &["--tune=job-pod-failure-backoff=2s"]);
    SIMULATED.sample() =>
        jobs_end_with_a_reason_and_the_counts_of_their_pods pods_are_made_of_the_template finished_jobs_are_removed;
    SIMULATED =>
        disruptions_are_ignored suspends_and_resumes a_job_that_fails_while_suspended_ends
        a_deadline_ends_the_job_and_its_pods pods_are_replaced_once_they_are_over an_elastic_job_grows_and_shrinks
        a_pod_deleted_by_a_user_is_counted_and_replaced strays_are_adopted_and_counted pods_of_a_deleted_job_can_go
        more_pods_than_one_sync_creates_are_created_and_counted;
    EVERYWHERE =>
        a_job_that_wants_nothing_completes jobs_of_others_are_left_alone a_job_at_rest_is_left_alone;
}

/// Whether a Job is complete or has failed.
pub(crate) fn is_finished(job: &Value) -> bool {
    ["Complete", "Failed"].iter().any(|kind| condition(job, kind).is_some_and(|c| c["status"] == "True"))
}

/// Waits until a Job has finished, and checks what is true of every finished Job.
async fn finished(c: &Context, name: &str) -> Result<Value, Failure> {
    let job = c.until_object(JOBS, name, &format!("Job {name} to finish"), is_finished).await?;
    let status = &job["status"];
    assert_eq!((status.get("active"), &status["ready"], &status["terminating"]), (None, &json!(0), &json!(0)));
    assert_eq!(status["uncountedTerminatedPods"], json!({}));
    for pod in c.pods_of(&job).await? {
        assert!(!has_finalizer(&pod), "{}", pod["metadata"]["name"]);
    }
    for metrics in c.metrics().await? {
        let refused: Vec<&str> =
            metrics.lines().filter(|l| l.starts_with("nonet_sync_errors_total") && l.contains("\"invalid\"")).collect();
        assert!(metrics.contains("job_controller_job_syncs_total") && refused.is_empty(), "{refused:?}");
    }
    Ok(job)
}

fn has_finalizer(pod: &Value) -> bool {
    pod["metadata"]["finalizers"].as_array().is_some_and(|list| list.contains(&json!(FINALIZER)))
}

/// JOB-16, JOB-26, JOB-27, JOB-32, JOB-36, JOB-47, JOB-48, JOB-49, JOB-51, JOB-53, JOB-54, JOB-59, JOB-93.
async fn jobs_end_with_a_reason_and_the_counts_of_their_pods(c: Context) -> Outcome {
    let parallel = |name: &str, pods: u32| job(name).set("spec/completions", pods).set("spec/parallelism", pods);
    let indexed = |name: &str, pods: u32| parallel(name, pods).set("spec/completionMode", "Indexed");
    let exits = |job: Builder, code: &str| job.script("sim/exit", code).script("sim/after", "1");
    let index_1_exits_with_3 = |job: Builder| job.script("sim/exit-index-1", "3").script("sim/after", "1");
    let per_index = |name: &str, limit: u32| {
        index_1_exits_with_3(exits(indexed(name, 3), "0")).set("spec/backoffLimitPerIndex", limit)
    };
    let on_exit_code_3 = |job: Builder, action: &str| {
        let codes = json!({"operator": "In", "values": [3]});
        job.set("spec/podFailurePolicy", json!({"rules": [{"action": action, "onExitCodes": codes}]}))
    };
    let fail_index = on_exit_code_3(per_index("fail-index", 5), "FailIndex");
    let fail_job = on_exit_code_3(index_1_exits_with_3(indexed("fail-job", 3)), "FailJob");
    let early = indexed("early", 3).script("sim/exit-index-0", "0").script("sim/exit-index-1", "0");
    let early = early.set("spec/successPolicy", json!({"rules": [{"succeededIndexes": "0-1"}]}));
    let restarting = job("restarting").set("spec/backoffLimit", 2).set("spec/template/spec/restartPolicy", "OnFailure");
    let (reached, too_many, failed_indexes) =
        ("Complete CompletionsReached", "Failed BackoffLimitExceeded", "Failed FailedIndexes");
    // The Job, its condition in the end, the counts and indexes in its status, and the number of Pods that are left.
    let rows = [
        (exits(parallel("plain", 4).set("spec/parallelism", 2), "0"), reached, json!([4, null, null, null]), 4),
        // No Pod is replaced once one has succeeded.
        (exits(job("queue").set("spec/parallelism", 3), "0"), reached, json!([3, null, null, null]), 3),
        (exits(indexed("indexed", 5).set("spec/parallelism", 3), "0"), reached, json!([5, null, "0-4", null]), 5),
        (early, "Complete SuccessPolicy", json!([2, null, "0,1", null]), 2),
        // Failed Pods stay for inspection.
        (exits(job("failing").set("spec/backoffLimit", 1), "1"), too_many, json!([null, 2, null, null]), 2),
        // Restarts of its only Pod, which is deleted then.
        (exits(restarting, "1").script("sim/restart-after", "0.5"), too_many, json!([null, 1, null, null]), 0),
        (per_index("per-index", 1), failed_indexes, json!([2, 2, "0,2", "1"]), 4),
        (fail_index, failed_indexes, json!([2, 1, "0,2", "1"]), 3),
        // Pods that still ran have failed with the Job, and were deleted.
        (fail_job, "Failed PodFailurePolicy", json!([null, 3, null, null]), 1),
    ];
    for (job, ..) in &rows {
        c.create(JOBS, job.clone()).await?;
    }
    for (job, end, counts, pods) in rows {
        let job = job.build();
        let (job, name) = (finished(&c, name(&job)).await?, name(&job));
        let (kind, reason) = end.split_once(' ').unwrap();
        let announced = if kind == "Complete" { "SuccessCriteriaMet" } else { "FailureTarget" };
        assert_eq!(true_conditions(&job), [format!("{announced} {reason}"), end.to_owned()], "{name}");
        let found = pick(&job["status"], "succeeded failed completedIndexes failedIndexes");
        assert_eq!(found, counts, "{name}");
        let times = ["startTime", "completionTime"].map(|field| job["status"][field].is_string());
        assert_eq!(times, [true, kind == "Complete"], "{name}");
        assert_eq!(c.pods_of(&job).await?.len(), pods, "{name}");
        let message = condition(&job, kind).unwrap()["message"].as_str().unwrap().to_owned();
        let event = match kind {
            "Complete" => "Normal Completed Job completed".to_owned(),
            _ => format!("Warning {reason} {message}"),
        };
        c.until_event("Job", name, &event).await?;
    }
    c.until_event("Job", "plain", "Normal SuccessfulCreate Created pod: plain-").await
}

/// JOB-23, JOB-25, JOB-26.
async fn pods_are_made_of_the_template(c: Context) -> Outcome {
    let spec = job("sum")
        .set("spec/completions", 1)
        .set("spec/completionMode", "Indexed")
        .set("spec/template/metadata/annotations/note", "kept")
        .set("spec/template/metadata/finalizers", json!(["example.com/keep"]));
    let job = c.create(JOBS, spec).await?;
    c.until_status(JOBS, "sum", "an active Pod", |status| status["active"] == 1 && status["ready"] == 1).await?;
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

/// JOB-47.
async fn disruptions_are_ignored(c: Context) -> Outcome {
    let policy = json!({"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]});
    let spec = job("sum").set("spec/backoffLimit", 0).set("spec/podFailurePolicy", policy);
    let job = c.create(JOBS, spec).await?;
    c.until_status(JOBS, "sum", "an active Pod", |status| status["ready"] == 1).await?;
    let first = c.pods_of(&job).await?[0]["metadata"]["name"].as_str().unwrap().to_owned();
    let time = c.clock().now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let conditions = json!([{"type": "DisruptionTarget", "status": "True", "lastTransitionTime": time}]);
    c.merge_status(PODS, &first, json!({"status": {"phase": "Failed", "conditions": conditions}})).await?;
    c.until("another Pod in the place of the disrupted one", async || {
        let pods = c.active_pods_of(&job).await.ok()?;
        (pods.len() == 1 && pods[0]["metadata"]["name"] != first.as_str()).then_some(())
    })
    .await?;
    let job = c.until_status(JOBS, "sum", "an active Pod", |status| status["active"] == 1).await?;
    assert_eq!(job["status"].get("failed"), None);
    Ok(())
}

/// JOB-56, JOB-57.
async fn suspends_and_resumes(c: Context) -> Outcome {
    let spec = job("sum").set("spec/suspend", true).set("spec/completions", 2).set("spec/parallelism", 2);
    let job = c.create(JOBS, spec).await?;
    let seen =
        c.until_status(JOBS, "sum", "it is suspended", |status| status["conditions"][0]["status"] == "True").await?;
    assert_eq!(
        (true_conditions(&seen), seen["status"].get("startTime")),
        (vec!["Suspended JobSuspended".to_owned()], None)
    );
    for _ in 0..2 {
        c.merge(JOBS, "sum", json!({"spec": {"suspend": false}})).await?;
        let seen = c.until_status(JOBS, "sum", "it is resumed", |status| status["active"] == 2).await?;
        assert_eq!(seen["status"]["conditions"][0]["reason"], "JobResumed");
        assert!(seen["status"]["startTime"].is_string());
        c.merge(JOBS, "sum", json!({"spec": {"suspend": true}})).await?;
        let seen = c
            .until_status(JOBS, "sum", "it is suspended", |status| {
                status["conditions"][0]["status"] == "True"
                    && status["terminating"] == 0
                    && status.get("active").is_none()
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

/// JOB-73.
async fn a_job_that_fails_while_suspended_ends(c: Context) -> Outcome {
    c.create(JOBS, job("bad").set("spec/backoffLimit", 3).script("sim/exit", "1")).await?;
    c.until_status(JOBS, "bad", "a failure", |status| status["failed"] == 1).await?;
    c.merge(JOBS, "bad", json!({"spec": {"suspend": true}})).await?;
    c.until_status(JOBS, "bad", "it is suspended", |status| status["conditions"][0]["status"] == "True").await?;
    c.merge(JOBS, "bad", json!({"spec": {"backoffLimit": 0}})).await?;
    let job = finished(&c, "bad").await?;
    assert_eq!(true_conditions(&job).last().unwrap(), "Failed BackoffLimitExceeded");
    assert!(job["status"]["startTime"].is_string());
    Ok(())
}

async fn a_job_that_wants_nothing_completes(c: Context) -> Outcome {
    for suspend in [false, true] {
        let name = format!("none-{suspend}");
        c.create(JOBS, job(&name).set("spec/completions", 0).set("spec/suspend", suspend)).await?;
        let job = finished(&c, &name).await?;
        assert_eq!(true_conditions(&job).last().unwrap(), "Complete CompletionsReached");
    }
    Ok(())
}

/// JOB-50, JOB-53.
async fn a_deadline_ends_the_job_and_its_pods(c: Context) -> Outcome {
    let spec = job("slow").set("spec/activeDeadlineSeconds", 3).set("spec/completions", 2).set("spec/parallelism", 2);
    c.create(JOBS, spec.script("sim/terminate-after", "2")).await?;
    let seen = c
        .until_status(JOBS, "slow", "its end is decided", |status| {
            status["conditions"].as_array().is_some_and(|list| list.iter().any(|c| c["type"] == "FailureTarget"))
        })
        .await?;
    assert_eq!(seen["status"]["terminating"], 2, "{}", seen["status"]);
    let job = finished(&c, "slow").await?;
    assert_eq!(true_conditions(&job), ["FailureTarget DeadlineExceeded", "Failed DeadlineExceeded"]);
    assert_eq!(job["status"]["failed"], 2);
    Ok(())
}

/// JOB-17.
async fn pods_are_replaced_once_they_are_over(c: Context) -> Outcome {
    let spec = job("sum").set("spec/podReplacementPolicy", "Failed").script("sim/terminate-after", "4");
    let job = c.create(JOBS, spec).await?;
    c.until_status(JOBS, "sum", "an active Pod", |status| status["ready"] == 1).await?;
    let first = c.pods_of(&job).await?[0]["metadata"]["name"].as_str().unwrap().to_owned();
    c.delete(PODS, &first, "Background").await?;
    c.until_status(JOBS, "sum", "its Pod is going", |status| status["terminating"] == 1).await?;
    c.stays("no Pod is created while the first is going", Duration::from_secs(2), async || {
        c.pods_of(&job).await.is_ok_and(|pods| pods.len() == 1)
    })
    .await?;
    let seen =
        c.until_status(JOBS, "sum", "another Pod", |status| status["active"] == 1 && status["failed"] == 1).await?;
    assert_eq!(seen["status"]["terminating"], 0);
    Ok(())
}

/// JOB-21, JOB-31.
async fn an_elastic_job_grows_and_shrinks(c: Context) -> Outcome {
    let spec = job("sum").set("spec/completions", 4).set("spec/parallelism", 4).set("spec/completionMode", "Indexed");
    c.create(JOBS, spec.script("sim/exit-index-0", "0").script("sim/exit-index-3", "0")).await?;
    c.until_status(JOBS, "sum", "two indexes", |status| status["completedIndexes"] == "0,3").await?;
    c.merge(JOBS, "sum", json!({"spec": {"completions": 2, "parallelism": 2}})).await?;
    let seen = c
        .until_status(JOBS, "sum", "it shrinks", |status| status["completedIndexes"] == "0" && status["active"] == 1)
        .await?;
    assert_eq!((&seen["status"]["succeeded"], seen["status"].get("failed")), (&json!(1), None));
    c.merge(JOBS, "sum", json!({"spec": {"completions": 5, "parallelism": 5}})).await?;
    c.until_status(JOBS, "sum", "it grows", |status| status["completedIndexes"] == "0,3" && status["active"] == 3)
        .await?;
    Ok(())
}

/// JOB-43.
async fn a_pod_deleted_by_a_user_is_counted_and_replaced(c: Context) -> Outcome {
    let job = c.create(JOBS, job("sum").set("spec/completions", 2).set("spec/parallelism", 2)).await?;
    c.until_status(JOBS, "sum", "two active Pods", |status| status["ready"] == 2).await?;
    let first = c.pods_of(&job).await?[0]["metadata"]["name"].as_str().unwrap().to_owned();
    c.delete(PODS, &first, "Background").await?;
    c.until_status(JOBS, "sum", "it is counted and replaced", |status| status["failed"] == 1 && status["ready"] == 2)
        .await?;
    assert!(c.get(PODS, &first).await.is_err(), "the Pod is gone once it is counted");
    Ok(())
}

/// JOB-11, JOB-12.
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
    c.until_status(JOBS, "sum", "both are adopted", |status| status["succeeded"] == 1 && status["active"] == 2).await?;
    let adopted = c.get(PODS, "runs").await?;
    assert!(has_finalizer(&adopted) && owners(&adopted) == ["Job sum"]);
    c.merge(PODS, "runs", json!({"metadata": {"labels": {"app": "other"}}})).await?;
    c.until_object(PODS, "runs", "a Pod whose labels changed to be released", |pod| {
        pod["metadata"].get("ownerReferences").is_none() && !has_finalizer(pod)
    })
    .await?;
    c.until_status(JOBS, "sum", "the released Pod is replaced", |status| status["active"] == 2).await.map(drop)
}

/// JOB-14.
async fn pods_of_a_deleted_job_can_go(c: Context) -> Outcome {
    for (name, propagation) in [("background", "Background"), ("foreground", "Foreground"), ("orphan", "Orphan")] {
        let job = c.create(JOBS, job(name).set("spec/completions", 2).set("spec/parallelism", 2)).await?;
        c.until_status(JOBS, name, "two active Pods", |status| status["active"] == 2).await?;
        c.delete(JOBS, name, propagation).await?;
        c.until("its Pods to lose the finalizer", async || {
            let pods = c.pods_of(&job).await.ok()?;
            pods.iter().all(|pod| !has_finalizer(pod)).then_some(())
        })
        .await?;
        let pods = c.pods_of(&job).await?;
        assert_eq!(pods.len(), 2, "they are the garbage collector's");
    }
    Ok(())
}

/// JOB-5.
async fn jobs_of_others_are_left_alone(c: Context) -> Outcome {
    let job = c.create(JOBS, job("theirs").set("spec/managedBy", "example.com/queue")).await?;
    c.stays("nothing is done about it", Duration::from_secs(3), async || {
        let status = c.get(JOBS, "theirs").await.map(|job| job["status"].clone());
        status.is_ok_and(|status| status == json!({})) && c.pods_of(&job).await.is_ok_and(|pods| pods.is_empty())
    })
    .await
}

/// JOB-62.
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
    let after = time(&job["metadata"]["deletionTimestamp"])
        .duration_since(time(&condition(&job, "Complete").unwrap()["lastTransitionTime"]));
    assert!((3..8).contains(&after.as_secs()), "{after}");
    assert!(c.get(JOBS, "stays").await?["metadata"].get("deletionTimestamp").is_none());
    Ok(())
}

async fn more_pods_than_one_sync_creates_are_created_and_counted(c: Context) -> Outcome {
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
    c.until_status(JOBS, "sum", "two active Pods", |status| status["ready"] == 2).await?;
    c.left_alone(&[JOBS, PODS], async || Ok(())).await
}
