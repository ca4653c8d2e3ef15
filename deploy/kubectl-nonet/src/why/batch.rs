//! What Jobs and CronJobs wait for.

use k8s_openapi::api::{
    batch::v1::{CronJob, Job},
    core::v1::Pod,
};

use super::{
    objects::deletion,
    pod,
    scope::{Scope, is_controlled_by, name, uid},
    tree::{Branch, Weight, with_thousands},
    workloads::{add_pods, blame_pending_work, creation_event, is_going},
};

/// How many Pods that ended are shown of a Job.
const MAX_ENDED_PODS: usize = 3;

/// Returns the branch of a Job.
pub(super) async fn job(scope: &Scope, object: &Job) -> Branch {
    let called = name(&object.metadata);
    let mut branch = Branch::new("Job", called);
    let spec = object.spec.clone().unwrap_or_default();
    let status = object.status.clone().unwrap_or_default();
    deletion(scope, &object.metadata, "Job", &mut branch).await;
    let conditions = status.conditions.clone().unwrap_or_default();
    let is_true =
        |kind: &str| conditions.iter().find(|condition| condition.type_ == kind && condition.status == "True");
    if is_true("Complete").is_some() {
        branch.say(
            "status",
            format!(
                "Complete: {} succeeded, {} failed",
                status.succeeded.unwrap_or_default(),
                status.failed.unwrap_or_default()
            ),
        );
        return branch;
    }
    let manager = spec.managed_by.clone().unwrap_or_else(|| "kubernetes.io/job-controller".to_owned());
    if manager != "kubernetes.io/job-controller" {
        branch.say("spec", format!("managedBy: {manager}"));
        branch.blame(
            Weight::Rests,
            format!("Job {called} is left to the controller {manager} (spec.managedBy)"),
            ["see that controller; the Job controller does nothing for it".to_owned()],
        );
        return branch;
    }
    let failed = is_true("Failed").or_else(|| is_true("FailureTarget"));
    let mut end = None;
    let acts = if let Some(failed) = failed {
        let text = format!(
            "{}: {}",
            failed.reason.as_deref().unwrap_or_default(),
            failed.message.as_deref().unwrap_or_default()
        );
        branch.say(
            "status",
            format!(
                "Failed: {text}; {} succeeded, {} failed",
                status.succeeded.unwrap_or_default(),
                status.failed.unwrap_or_default()
            ),
        );
        if let Some(indexes) = status.failed_indexes.as_ref().filter(|indexes| !indexes.is_empty()) {
            branch.say("status", format!("indexes that failed: {indexes}"));
        }
        let remedy = match failed.reason.as_deref() {
            Some("BackoffLimitExceeded" | "MaxFailedIndexesExceeded" | "FailedIndexes") => {
                "correct the program, then create the Job again; backoffLimit allows more attempts"
            }
            Some("DeadlineExceeded") => "raise activeDeadlineSeconds, or make the Job faster, then create it again",
            _ => "correct the template, then create the Job again",
        };
        end = Some((format!("Job {called} failed for good: {text}"), remedy.to_owned()));
        false
    } else {
        scope.say_decision(&mut branch, "job-controller", &object.metadata).await
    };
    let pods = scope.list::<Pod>().await;
    let own: Vec<&Pod> = pods.iter().filter(|pod| is_controlled_by(&pod.metadata, uid(&object.metadata))).collect();
    if failed.is_none() && spec.suspend != Some(true) {
        creation_event_if_missing(scope, object, own.len(), &mut branch).await;
    }
    let going = own.iter().copied().filter(|pod| is_going(pod));
    add_pods(scope, going, &mut branch).await;
    let mut ended: Vec<&Pod> = own
        .into_iter()
        .filter(|pod| pod::phase(pod) == "Failed" && pod.metadata.deletion_timestamp.is_none())
        .collect();
    ended.sort_by_key(|pod| std::cmp::Reverse(pod.metadata.creation_timestamp.clone().map(|time| time.0)));
    if ended.len() > MAX_ENDED_PODS {
        branch
            .say("list", format!("{} Pods failed, the newest {MAX_ENDED_PODS} are shown", with_thousands(ended.len())));
    }
    add_pods(scope, ended.into_iter().take(MAX_ENDED_PODS), &mut branch).await;
    if spec.suspend == Some(true) {
        branch.blame(
            Weight::Rests,
            format!("Job {called} is suspended"),
            [format!("kubectl -n {} patch job {called} -p '{{\"spec\":{{\"suspend\":false}}}}'", scope.namespace)],
        );
    }
    if let Some((text, remedy)) = end {
        // The end is what counts; its reason is that of a Pod.
        let below = branch.cause();
        let reason = below.as_ref().map_or_else(String::new, |cause| format!("; {}", cause.text));
        let remedies = below.into_iter().flat_map(|cause| cause.remedies).chain([remedy]);
        branch.blame(Weight::Blocks, format!("{text}{reason}"), remedies.collect::<Vec<_>>());
    }
    blame_pending_work(&mut branch, acts, "job");
    if failed.is_none() && branch.cause().is_none() {
        let age = status.start_time.map_or_else(String::new, |time| format!(" for {}", scope.since(time.0)));
        branch.blame(
            Weight::Waits,
            format!("Job {called} has run{age} and has not ended: {} Pods active", status.active.unwrap_or_default()),
            [format!("wait, or see what it does: kubectl -n {} logs job/{called}", scope.namespace)],
        );
    }
    branch
}

async fn creation_event_if_missing(scope: &Scope, object: &Job, pods: usize, branch: &mut Branch) {
    let wanted = object.spec.as_ref().and_then(|spec| spec.parallelism).unwrap_or(1);
    if i32::try_from(pods).unwrap_or(i32::MAX) < wanted {
        creation_event(scope, &object.metadata, &format!("Job {}", name(&object.metadata)), branch).await;
    }
}

/// Returns the branch of a CronJob.
pub(super) async fn cron_job(scope: &Scope, object: &CronJob) -> Branch {
    let called = name(&object.metadata);
    let mut branch = Branch::new("CronJob", called);
    deletion(scope, &object.metadata, "CronJob", &mut branch).await;
    let acts = scope.say_decision(&mut branch, "cronjob-controller", &object.metadata).await;
    let status = object.status.clone().unwrap_or_default();
    if let Some(last) = status.last_schedule_time {
        branch.say("status", format!("last run: {}", last.0));
    }
    if let Some(event) = scope.newest_event(uid(&object.metadata), &[]) {
        let (message, source) = scope.quote(event);
        branch.say(source, &message);
        let (what, remedy) = match event.reason.as_deref() {
            Some("UnknownTimeZone") => (
                format!("CronJob {called} has a time zone that does not exist: {message}"),
                "correct spec.timeZone, for example to Europe/Paris".to_owned(),
            ),
            Some("UnparseableSchedule" | "InvalidSchedule" | "UnparsableSchedule") => {
                (format!("CronJob {called} has an invalid schedule: {message}"), "correct spec.schedule".to_owned())
            }
            Some("MissSchedule" | "TooManyMissedTimes" | "FailedNeedsStart") => (
                format!("CronJob {called} missed runs: {message}"),
                "see why the controller did not run; startingDeadlineSeconds limits how late a run may start"
                    .to_owned(),
            ),
            Some("FailedCreate") => {
                (format!("CronJob {called} cannot create its Job: {message}"), "correct the jobTemplate".to_owned())
            }
            _ => (String::new(), String::new()),
        };
        if !what.is_empty() {
            branch.blame(Weight::Fails, what, [remedy]);
        }
    }
    let is_blocked = branch.lines.iter().any(|line| line.text.ends_with("waits for the active Job (Forbid)"));
    let jobs = scope.list::<Job>().await;
    let mut own: Vec<&Job> = jobs.iter().filter(|job| is_controlled_by(&job.metadata, uid(&object.metadata))).collect();
    own.sort_by_key(|job| std::cmp::Reverse(job.metadata.creation_timestamp.clone().map(|time| time.0)));
    let is_ended = |job: &Job| {
        job.status
            .iter()
            .flat_map(|status| status.conditions.iter().flatten())
            .any(|condition| matches!(condition.type_.as_str(), "Complete" | "Failed") && condition.status == "True")
    };
    for (index, each) in own.into_iter().enumerate() {
        if index == 0 || !is_ended(each) {
            branch.children.push(job(scope, each).await);
        }
    }
    let active = branch.children.iter().find(|child| child.causes.iter().any(|cause| cause.weight == Weight::Waits));
    if let Some((job, text)) =
        active.filter(|_| is_blocked).map(|child| (child.name.clone(), child.causes[0].text.clone()))
    {
        branch.blame(
            Weight::Fails,
            format!("runs of CronJob {called} are left out while a Job is active (concurrencyPolicy Forbid): {text}"),
            [
                format!("see what the Job does: kubectl -n {} logs job/{job}", scope.namespace),
                format!("end it: kubectl -n {} delete job {job}", scope.namespace),
                "set activeDeadlineSeconds in the jobTemplate, or concurrencyPolicy Replace".to_owned(),
            ],
        );
    }
    if object.spec.suspend == Some(true) {
        branch.blame(
            Weight::Rests,
            format!("CronJob {called} is suspended"),
            [format!("kubectl -n {} patch cronjob {called} -p '{{\"spec\":{{\"suspend\":false}}}}'", scope.namespace)],
        );
    }
    blame_pending_work(&mut branch, acts, "cronjob");
    branch
}
