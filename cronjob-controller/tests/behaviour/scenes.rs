//! What cronjob-controller promises for CronJobs, on any cluster.
//!
//! No scene waits for a minute to pass: the status says that the last run was some time ago, and the missed run is caught up.

use jiff::{SignedDuration, Timestamp};
use testkit::scene::prelude::*;

suite! {
    Suite::new("cronjob").controller(&cronjob_controller::DEFINITION, &[]);
    EVERYWHERE.sample() =>
        a_missed_run_is_made_up_for_once the_job_is_made_of_the_template;
    EVERYWHERE =>
        the_next_run_is_started_at_its_time nothing_is_started_while_suspended what_is_too_late_is_not_started
        jobs_made_by_hand_leave_the_schedule_alone a_cron_job_at_rest_is_left_alone;
    SIMULATED =>
        allow_starts_the_next_job_beside_the_job_before forbid_waits_for_the_job_before
        replace_deletes_the_job_before the_oldest_that_ended_go
        a_job_that_vanished_is_struck_off a_job_that_was_not_recorded_is_found_again;
}

/// A CronJob that fires on the hour, in a zone without surprises.
fn cron(name: &str, spec: Value) -> Value {
    let mut object = json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": name}, "spec": {
        "schedule": "0 * * * *", "timeZone": "Etc/UTC", "jobTemplate": {
            "metadata": {"labels": {"l": "1"}, "annotations": {"a": "1"}},
            "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "img:1"}]}}}}}});
    for (key, value) in spec.as_object().unwrap() {
        object["spec"][key] = value.clone();
    }
    object
}

/// The last full hour; far enough from the next one that a test does not see it.
async fn hour(c: &Context) -> Timestamp {
    loop {
        let now = c.clock().now().as_second();
        if (5..3500).contains(&(now % 3600)) {
            return Timestamp::from_second(now - now % 3600).unwrap();
        }
        c.sleep(Duration::from_secs(3)).await;
    }
}

/// A CronJob that has last fired two hours before the last full hour.
async fn overdue(c: &Context, name: &str, spec: Value) -> Result<(Timestamp, String), Failure> {
    let hour = hour(c).await;
    let mut object = cron(name, spec);
    let suspend = object["spec"]["suspend"].take();
    object["spec"]["suspend"] = json!(true);
    c.create(CRON_JOBS, object).await?;
    let last = hour - SignedDuration::from_hours(2);
    c.merge_status(CRON_JOBS, name, json!({"status": {"lastScheduleTime": last.to_string()}})).await?;
    if suspend != true {
        c.merge(CRON_JOBS, name, json!({"spec": {"suspend": false}})).await?;
    }
    Ok((hour, format!("{name}-{}", hour.as_second() / 60)))
}

fn runs(status: &Value) -> Vec<&str> {
    status["active"].as_array().into_iter().flatten().filter_map(|r| r["name"].as_str()).collect()
}

/// Says of a Job that it has ended.
async fn end(c: &Context, job: &str, kind: &str) -> Result<(), Failure> {
    let now = c.clock().now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let (before, succeeded, time) = match kind {
        "Complete" => ("SuccessCriteriaMet", json!(1), json!(now)),
        _ => ("FailureTarget", Value::Null, Value::Null),
    };
    let condition =
        |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": now, "lastProbeTime": now});
    for (conditions, time) in
        [(json!([condition(before)]), Value::Null), (json!([condition(before), condition(kind)]), time)]
    {
        let status = json!({"status": {"startTime": now, "completionTime": time, "conditions": conditions,
            "succeeded": succeeded, "ready": 0, "terminating": 0, "uncountedTerminatedPods": {}}});
        c.merge_status(JOBS, job, status).await?;
    }
    Ok(())
}

/// CRONJOB-23, CRONJOB-60.
async fn a_missed_run_is_made_up_for_once(c: Context) -> Outcome {
    let (hour, job) = overdue(&c, "tick", json!({})).await?;
    let object = c.until_status(CRON_JOBS, "tick", "a Job", |status| !runs(status).is_empty()).await?;
    assert_eq!(runs(&object["status"]), [&*job]);
    assert_eq!(object["status"]["lastScheduleTime"], hour.to_string());
    c.until_event("CronJob", "tick", &format!("Normal SuccessfulCreate Created job {job}")).await?;
    c.stays("one Job", Duration::from_secs(2), async || c.list(JOBS).await.is_ok_and(|jobs| jobs.len() == 1)).await
}

async fn the_next_run_is_started_at_its_time(c: Context) -> Outcome {
    c.create(CRON_JOBS, cron("tick", json!({"schedule": "* * * * *"}))).await?;
    let job = c
        .until_within("a Job within the minute", Duration::from_secs(75), async || c.list(JOBS).await.ok()?.pop())
        .await?;
    let meta = &job["metadata"];
    let scheduled = time(&meta["annotations"]["batch.kubernetes.io/cronjob-scheduled-timestamp"]);
    assert_eq!(scheduled.as_second() % 60, 0);
    let late = time(&meta["creationTimestamp"]).duration_since(scheduled).as_secs();
    // The clocks of the API server and of the controller may differ by a moment, and creation times are cut to seconds.
    assert!((-1..=5).contains(&late), "at its time: {late} s");
    Ok(())
}

/// CRONJOB-36, CRONJOB-37, CRONJOB-38, CRONJOB-45.
async fn the_job_is_made_of_the_template(c: Context) -> Outcome {
    let (_, name) = overdue(&c, "tick", json!({"timeZone": "Asia/Kathmandu", "schedule": "45 * * * *"})).await?;
    let job = c.until("the Job", async || c.get(JOBS, &name).await.ok()).await?;
    let (meta, scheduled) = (&job["metadata"], "batch.kubernetes.io/cronjob-scheduled-timestamp");
    assert_eq!((&meta["labels"]["l"], &meta["annotations"]["a"]), (&json!("1"), &json!("1")));
    assert!(meta["annotations"][scheduled].as_str().unwrap().ends_with(":45:00+05:45"), "{meta}");
    let owner = &meta["ownerReferences"][0];
    assert_eq!(
        (&owner["kind"], &owner["name"], &owner["controller"]),
        (&json!("CronJob"), &json!("tick"), &json!(true))
    );
    assert_eq!((&owner["apiVersion"], &owner["blockOwnerDeletion"]), (&json!("batch/v1"), &json!(true)));
    assert_eq!(job["spec"]["template"]["spec"]["containers"][0]["image"], "img:1");
    let cron = c.until_status(CRON_JOBS, "tick", "the Job", |status| !runs(status).is_empty()).await?;
    let reference = &cron["status"]["active"][0];
    assert_eq!((&reference["kind"], &reference["apiVersion"]), (&json!("Job"), &json!("batch/v1")));
    assert_eq!((&reference["uid"], &reference["namespace"]), (&meta["uid"], &json!(c.namespace())));
    Ok(())
}

/// Creates a CronJob whose Job of the last hour runs, with a status that records an earlier run as the last one.
async fn running(c: &Context, policy: &str) -> Result<(String, String), Failure> {
    let (hour, job) = overdue(c, "tick", json!({"concurrencyPolicy": policy, "suspend": true})).await?;
    // The run before.
    let before = hour - SignedDuration::from_hours(1);
    let first = format!("tick-{}", before.as_second() / 60);
    let cron = c.get(CRON_JOBS, "tick").await?;
    let uid = &cron["metadata"]["uid"];
    let made = c
        .create(
            JOBS,
            json!({"apiVersion": "batch/v1", "kind": "Job", "spec": cron["spec"]["jobTemplate"]["spec"],
                "metadata": {"name": first, "ownerReferences": [{"apiVersion": "batch/v1", "kind": "CronJob",
                    "name": "tick", "uid": uid, "controller": true, "blockOwnerDeletion": true}]}}),
        )
        .await?;
    let reference = json!({"kind": "Job", "apiVersion": "batch/v1", "name": first, "namespace": c.namespace(),
        "uid": made["metadata"]["uid"]});
    let status = json!({"status": {"active": [reference], "lastScheduleTime": before.to_string()}});
    c.merge_status(CRON_JOBS, "tick", status).await?;
    c.merge(CRON_JOBS, "tick", json!({"spec": {"suspend": false}})).await?;
    Ok((first, job))
}

/// CRONJOB-32.
async fn allow_starts_the_next_job_beside_the_job_before(c: Context) -> Outcome {
    let (first, second) = running(&c, "Allow").await?;
    c.until_status(CRON_JOBS, "tick", "both Jobs", |status| runs(status) == [&*first, &*second]).await.map(drop)
}

/// CRONJOB-9, CRONJOB-33, CRONJOB-47.
async fn forbid_waits_for_the_job_before(c: Context) -> Outcome {
    let (first, second) = running(&c, "Forbid").await?;
    let policy = "Not starting job because prior execution is running and concurrency policy is Forbid";
    c.until_event("CronJob", "tick", &format!("Normal JobAlreadyActive {policy}")).await?;
    assert_eq!(c.list(JOBS).await?.len(), 1);
    end(&c, &first, "Complete").await?;
    let object = c.until_status(CRON_JOBS, "tick", "the next Job", |status| runs(status) == [&*second]).await?;
    assert!(object["status"]["lastSuccessfulTime"].is_string());
    c.until_event("CronJob", "tick", &format!("Normal SawCompletedJob Saw completed job: {first}, condition: Complete"))
        .await
}

/// CRONJOB-34, CRONJOB-60.
async fn replace_deletes_the_job_before(c: Context) -> Outcome {
    let (first, second) = running(&c, "Replace").await?;
    c.until_status(CRON_JOBS, "tick", "the next Job", |status| runs(status) == [&*second]).await?;
    c.until_event("CronJob", "tick", &format!("Normal SuccessfulDelete Deleted job {first}")).await?;
    let gone = |job: Result<Value, _>| job.map_or(true, |job: Value| job["metadata"]["deletionTimestamp"].is_string());
    c.check(gone(c.get(JOBS, &first).await), "the Job before is going").await
}

/// CRONJOB-5, CRONJOB-29.
async fn nothing_is_started_while_suspended(c: Context) -> Outcome {
    let (_, job) = overdue(&c, "tick", json!({"suspend": true})).await?;
    c.stays("no Job", Duration::from_secs(2), async || c.list(JOBS).await.is_ok_and(|jobs| jobs.is_empty())).await?;
    c.merge(CRON_JOBS, "tick", json!({"spec": {"suspend": false}})).await?;
    c.until_status(CRON_JOBS, "tick", "the Job", |status| runs(status) == [&*job]).await.map(drop)
}

/// CRONJOB-25.
async fn what_is_too_late_is_not_started(c: Context) -> Outcome {
    overdue(&c, "late", json!({"startingDeadlineSeconds": 1})).await?;
    // The controller is at work: a CronJob that is younger has its Job.
    let (_, job) = overdue(&c, "tick", json!({})).await?;
    c.until_status(CRON_JOBS, "tick", "a Job", |status| runs(status) == [&*job]).await?;
    c.stays("no other Job", Duration::from_secs(2), async || c.list(JOBS).await.is_ok_and(|jobs| jobs.len() == 1)).await
}

/// CRONJOB-53, CRONJOB-60.
async fn the_oldest_that_ended_go(c: Context) -> Outcome {
    let spec = json!({"suspend": true, "successfulJobsHistoryLimit": 1, "failedJobsHistoryLimit": 0});
    let cron = c.create(CRON_JOBS, cron("tick", spec)).await?;
    let owner = json!([{"apiVersion": "batch/v1", "kind": "CronJob", "name": "tick", "uid": cron["metadata"]["uid"],
        "controller": true, "blockOwnerDeletion": true}]);
    for name in ["a", "b", "c"] {
        let job = json!({"apiVersion": "batch/v1", "kind": "Job", "spec": cron["spec"]["jobTemplate"]["spec"],
            "metadata": {"name": name, "ownerReferences": owner}});
        c.create(JOBS, job).await?;
    }
    end(&c, "a", "Complete").await?;
    c.sleep(Duration::from_millis(1100)).await;
    end(&c, "b", "Complete").await?;
    end(&c, "c", "Failed").await?;
    c.until("one Job to be kept", async || {
        let jobs = c.list(JOBS).await.ok()?;
        let kept: Vec<&str> = jobs
            .iter()
            .filter(|job| job["metadata"].get("deletionTimestamp").is_none())
            .filter_map(|job| job["metadata"]["name"].as_str())
            .collect();
        (kept == ["b"]).then_some(())
    })
    .await?;
    c.until_event("CronJob", "tick", "Normal SuccessfulDelete Deleted job a").await
}

/// CRONJOB-9, CRONJOB-48.
async fn a_job_that_vanished_is_struck_off(c: Context) -> Outcome {
    let (_, job) = overdue(&c, "tick", json!({})).await?;
    c.until_status(CRON_JOBS, "tick", "a Job", |status| !runs(status).is_empty()).await?;
    c.delete(JOBS, &job, "Background").await?;
    c.until_status(CRON_JOBS, "tick", "no Job", |status| runs(status).is_empty()).await?;
    c.until_event("CronJob", "tick", &format!("Normal MissingJob Active job went missing: {job}")).await?;
    c.stays("no other Job", Duration::from_secs(2), async || c.list(JOBS).await.is_ok_and(|jobs| jobs.is_empty())).await
}

/// CRONJOB-50, CRONJOB-68.
async fn a_job_that_was_not_recorded_is_found_again(c: Context) -> Outcome {
    let (hour, job) = overdue(&c, "tick", json!({})).await?;
    let object = c.until_status(CRON_JOBS, "tick", "a Job", |status| !runs(status).is_empty()).await?;
    // As if the process had died between the start and its record.
    let last = hour - SignedDuration::from_hours(1);
    let status = json!({"status": {"active": null, "lastScheduleTime": last.to_string()}});
    c.merge_status(CRON_JOBS, "tick", status).await?;
    let again = c.until_status(CRON_JOBS, "tick", "the same Job", |status| runs(status) == [&*job]).await?;
    assert_eq!(again["status"]["active"][0]["uid"], object["status"]["active"][0]["uid"]);
    let events = c.events_of("CronJob", "tick").await?;
    c.check(events.iter().all(|event| !event.contains("UnexpectedJob")), "the Job is known").await?;
    c.check(c.list(JOBS).await?.len() == 1, "one Job").await
}

/// CRONJOB-42, CRONJOB-43.
async fn jobs_made_by_hand_leave_the_schedule_alone(c: Context) -> Outcome {
    let (hour, job) = overdue(&c, "tick", json!({"suspend": true})).await?;
    let object = c.get(CRON_JOBS, "tick").await?;
    let (template, last) = (&object["spec"]["jobTemplate"], object["status"]["lastScheduleTime"].clone());
    // As kubectl create job --from=cronjob/tick makes them.
    for name in ["tick-1".to_owned(), format!("tick-{}", hour.as_second() / 60 - 60), "tick-manual".to_owned()] {
        let mut annotations = template["metadata"]["annotations"].clone();
        annotations["cronjob.kubernetes.io/instantiate"] = json!("manual");
        let owner = json!({"apiVersion": "batch/v1", "kind": "CronJob", "name": "tick",
            "uid": object["metadata"]["uid"], "controller": true});
        let made = json!({"apiVersion": "batch/v1", "kind": "Job", "spec": template["spec"],
            "metadata": {"name": name, "annotations": annotations, "ownerReferences": [owner]}});
        c.create(JOBS, made).await?;
        c.until_event(
            "CronJob",
            "tick",
            &format!("Warning UnexpectedJob Saw a job that the controller did not create or forgot: {name}"),
        )
        .await?;
    }
    let status = c.get(CRON_JOBS, "tick").await?["status"].clone();
    assert_eq!((&status["active"], &status["lastScheduleTime"]), (&Value::Null, &last));
    c.merge(CRON_JOBS, "tick", json!({"spec": {"suspend": false}})).await?;
    let object = c
        .until_status(CRON_JOBS, "tick", "the Job of the run, and no other", |status| !runs(status).is_empty())
        .await?;
    assert_eq!(runs(&object["status"]), [&*job]);
    assert_eq!(object["status"]["lastScheduleTime"], hour.to_string());
    Ok(())
}

async fn a_cron_job_at_rest_is_left_alone(c: Context) -> Outcome {
    let object = c.create(CRON_JOBS, cron("tick", json!({"schedule": "0 0 1 1 *"}))).await?;
    // The controller is at work: a CronJob that is younger has its Job.
    let (_, job) = overdue(&c, "busy", json!({})).await?;
    c.until_status(CRON_JOBS, "busy", "a Job", |status| runs(status) == [&*job]).await?;
    c.left_alone(&[CRON_JOBS, JOBS], async || Ok(())).await?;
    assert_eq!(c.get(CRON_JOBS, "tick").await?["metadata"]["resourceVersion"], object["metadata"]["resourceVersion"]);
    Ok(())
}
