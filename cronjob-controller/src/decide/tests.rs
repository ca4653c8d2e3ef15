use std::{collections::BTreeMap, sync::Arc};

use common::{controller::Decision, prelude::*};
use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{
    create::format_scheduled_time,
    runs::{run_of_existing_job, unrecorded_run_of_job},
    *,
};
use crate::{
    CronJobController,
    objects::{CRON_JOB_SCHEDULED_TIMESTAMP_ANNOTATION, Job},
    plan::{Action, DeletionReason, LiveRead, PlannedEvent},
    schedule::{Schedule, ZoneRules},
    world::{cron_job_snapshot, job_json, job_of_run, manually_created_job, parse_timestamp, status_with_active_jobs},
};

/// Returns the deletions that a sync of the snapshot requests, each with its reason.
fn deletions(snapshot: &Snapshot) -> Vec<String> {
    Decision::<CronJobController>::with_forecast(snapshot, snapshot.now)
        .explain()
        .actions
        .into_iter()
        .filter(|action| action.starts_with("delete"))
        .collect()
}

/// CRONJOB-44, CRONJOB-53, CRONJOB-54, CRONJOB-55.
#[test]
fn the_oldest_finished_jobs_beyond_the_limits_are_deleted() {
    type Ended = (&'static str, Option<u32>, &'static str);
    let cases: [(Value, &[Ended], &[&str]); 4] = [
        (
            json!({"successfulJobsHistoryLimit": 3}),
            &[
                ("a", Some(1), "Complete"),
                ("b", Some(2), "Complete"),
                ("c", Some(3), "Complete"),
                ("d", Some(4), "Complete"),
                ("e", Some(5), "Complete"),
            ],
            &["a", "b"],
        ),
        (
            json!({"failedJobsHistoryLimit": 1}),
            &[("x", Some(5), "Failed"), ("y", None, "Failed"), ("z", Some(5), "Failed")],
            &["x", "z"],
        ),
        (json!({"successfulJobsHistoryLimit": 0}), &[("a", Some(1), "Complete"), ("b", Some(2), "Failed")], &["a"]),
        (json!({}), &[("a", Some(1), "Complete"), ("b", Some(2), "Complete")], &[]),
    ];
    for (mut spec, jobs, gone) in cases {
        spec["suspend"] = json!(true);
        let jobs: Vec<Value> = jobs.iter().map(|(name, start, end)| job_json(name, *start, Some(end))).collect();
        let snapshot = cron_job_snapshot(spec, json!({}), &jobs);
        let want: Vec<String> =
            gone.iter().map(|name| format!("delete Job {name}: it is beyond the history limit")).collect();
        assert_eq!(deletions(&snapshot), want);
    }
}

/// CRONJOB-56, CRONJOB-79.
#[test]
fn a_terminating_job_is_not_deleted_again() {
    let mut going = job_json("a", Some(1), Some("Complete"));
    going["metadata"]["deletionTimestamp"] = json!("2026-03-01T00:05:00Z");
    let snapshot = cron_job_snapshot(json!({"successfulJobsHistoryLimit": 0, "suspend": true}), json!({}), &[going]);
    assert_eq!(decide(&snapshot).actions, []);
}

/// CRONJOB-36, CRONJOB-38, CRONJOB-39.
#[test]
fn the_job_of_a_run_has_the_template_and_the_scheduled_time() {
    // A template that was copied from the Job of an earlier run has the annotation that the controller sets.
    let copied = json!({"annotations": {CRON_JOB_SCHEDULED_TIMESTAMP_ANNOTATION: "2026-03-01T00:00:00Z"}});
    for (zone, in_zone, metadata) in
        [("UTC", "2026-03-01T00:05:00Z", json!({})), ("America/New_York", "2026-02-28T19:05:00-05:00", copied)]
    {
        let template = json!({"metadata": metadata, "spec": {"template": {"unheard": {"of": [1.50]}}}});
        let plan = decide(&cron_job_snapshot(json!({"timeZone": zone, "jobTemplate": template}), json!({}), &[]));
        let [Action::CreateJob { name, body, scheduled_time: scheduled }] = &plan.actions[..] else {
            panic!("{:?}", plan.actions)
        };
        assert_eq!((&**name, *scheduled), ("tick-29538725", parse_timestamp("2026-03-01T00:05:00Z")));
        assert_eq!(
            body["spec"],
            json!({"template": {"unheard": {"of": [1.50]}}}),
            "the spec of the template is copied verbatim"
        );
        assert_eq!(body["metadata"]["annotations"], json!({CRON_JOB_SCHEDULED_TIMESTAMP_ANNOTATION: in_zone}));
        assert_eq!(body["metadata"].get("labels"), None);
    }
}

/// CRONJOB-38.
#[test]
fn scheduled_times_have_the_offset_of_their_zone() {
    for (time, zone, want) in [
        ("2026-03-01T00:05:00Z", None, "2026-03-01T00:05:00Z"),
        ("2026-03-08T07:00:00Z", Some("America/New_York"), "2026-03-08T03:00:00-04:00"),
        ("2026-11-01T05:30:00Z", Some("America/New_York"), "2026-11-01T01:30:00-04:00"),
        ("2026-11-01T06:30:00Z", Some("America/New_York"), "2026-11-01T01:30:00-05:00"),
        ("2026-07-01T12:00:00Z", Some("Asia/Kathmandu"), "2026-07-01T17:45:00+05:45"),
    ] {
        let zone = zone.map(|zone| ZoneRules::find_by_name(zone).unwrap());
        assert_eq!(format_scheduled_time(parse_timestamp(time), zone.as_ref()), want);
    }
}

/// CRONJOB-11, CRONJOB-63.
#[test]
fn a_malformed_schedule_or_zone_starts_nothing() {
    for (spec, reason, message) in [
        (
            json!({"schedule": "*/5 * * *"}),
            "UnparseableSchedule",
            "unparseable schedule: \"*/5 * * *\" : expected exactly 5 fields, found 4: [*/5 * * *]",
        ),
        (
            json!({"schedule": "0 0 30 2 *"}),
            "InvalidSchedule",
            "invalid schedule: 0 0 30 2 * : time difference between two schedules is less than 1 second",
        ),
        (
            json!({"timeZone": "Mars/Base"}),
            "UnknownTimeZone",
            "invalid timeZone: \"Mars/Base\": unknown time zone Mars/Base",
        ),
        (json!({"timeZone": "../etc"}), "UnknownTimeZone", "invalid timeZone: \"../etc\": time: invalid location name"),
    ] {
        let plan = decide(&cron_job_snapshot(spec, json!({}), &[]));
        assert_eq!(plan.actions, [Action::RecordEvent(PlannedEvent::warning(reason, message))]);
        assert_eq!((plan.requeue_after, plan.reasons_for_no_job), (None, vec![message.to_owned()]));
    }
}

/// CRONJOB-7.
#[test]
fn a_change_to_an_unknown_zone_enqueues_by_the_schedule_only() {
    let spec = |zone: &str, schedule: &str| {
        cron_job_snapshot(json!({"timeZone": zone, "schedule": schedule}), json!({}), &[]).cron_job.spec.clone()
    };
    assert!(parse_schedule_with_time_zone(&spec("Mars/Base", "*/5 * * * *")).is_err());
    assert!(parse_schedule_ignoring_unknown_time_zone(&spec("Mars/Base", "*/5 * * * *")).is_ok());
    assert!(parse_schedule_ignoring_unknown_time_zone(&spec("Mars/Base", "nonsense")).is_err());
    let in_zone = parse_schedule_ignoring_unknown_time_zone(&spec("Asia/Kathmandu", "0 0 * * *"))
        .unwrap()
        .next_firing_after(parse_timestamp("2026-03-01T00:00:00Z"));
    assert_eq!(in_zone, Some(parse_timestamp("2026-03-01T18:15:00Z")));
}

/// CRONJOB-21.
#[test]
fn a_zone_in_the_schedule_works_and_causes_a_warning() {
    let plan = decide(&cron_job_snapshot(
        json!({"schedule": "TZ=Asia/Kathmandu 50 5 * * *", "timeZone": null}),
        json!({}),
        &[],
    ));
    let [Action::RecordEvent(event), Action::CreateJob { scheduled_time: scheduled, .. }] = &plan.actions[..] else {
        panic!("{:?}", plan.actions)
    };
    assert_eq!((event.reason, *scheduled), ("UnsupportedSchedule", parse_timestamp("2026-03-01T00:05:00Z")));
}

/// CRONJOB-43, CRONJOB-48, CRONJOB-71.
#[test]
fn live_reads_settle_what_the_caches_cannot_answer() {
    let plan =
        decide(&cron_job_snapshot(json!({}), status_with_active_jobs(&["gone"]), &[job_json("stray", Some(1), None)]));
    assert_eq!(plan.live_reads, [LiveRead::CronJob, LiveRead::Job("gone".into())]);
    assert!(plan.actions.is_empty() && !plan.is_status_changed);
    let snapshot = cron_job_snapshot(json!({}), status_with_active_jobs(&["gone"]), &[]);
    let explained = Decision::<CronJobController>::with_forecast(&snapshot, snapshot.now).explain();
    assert_eq!(
        explained.situation,
        "1 active Job; first read Job gone: it is listed as active, and the cache does not hold it"
    );
    assert_eq!(
        explained.actions,
        [
            "create Job tick-29538725: it has been due since 2026-03-01T00:05:00Z",
            "write the status: Active job went missing: gone",
        ]
    );
    let mut answered = cron_job_snapshot(
        json!({"suspend": true}),
        status_with_active_jobs(&["gone"]),
        &[job_json("stray", Some(1), None)],
    );
    answered.was_cron_job_read_live = true;
    answered.jobs_read_live.insert("gone".into(), None);
    let plan = decide(&answered);
    let told: Vec<&str> = plan
        .actions
        .iter()
        .filter_map(|s| if let Action::RecordEvent(event) = s { Some(event.reason) } else { None })
        .collect();
    assert_eq!(told, ["UnexpectedJob", "MissingJob"]);
    assert!(plan.is_status_changed && plan.status.active.is_empty());
}

/// CRONJOB-29, CRONJOB-33, CRONJOB-71.
#[test]
fn a_run_that_has_to_wait_is_explained() {
    for (spec, waiting) in [
        (json!({"concurrencyPolicy": "Forbid"}), "the run of 2026-03-01T00:05:00Z waits for the active Job (Forbid)"),
        (json!({"suspend": true}), "the CronJob is suspended"),
    ] {
        let plan = decide(&cron_job_snapshot(spec, status_with_active_jobs(&["a"]), &[job_json("a", Some(1), None)]));
        assert!(plan.reasons_for_no_job.iter().any(|reason| reason == waiting), "{:?}", plan.reasons_for_no_job);
        assert!(!plan.actions.iter().any(|step| matches!(step, Action::CreateJob { .. })), "{waiting}");
    }
}

/// CRONJOB-31, CRONJOB-47, CRONJOB-61.
#[test]
fn a_terminating_cron_job_starts_nothing_and_still_updates_its_status() {
    let mut snapshot = cron_job_snapshot(
        json!({"successfulJobsHistoryLimit": 0}),
        status_with_active_jobs(&["a"]),
        &[job_json("a", Some(1), Some("Complete"))],
    );
    Arc::make_mut(&mut snapshot.cron_job).metadata.deletion_timestamp = Some(snapshot.now);
    let plan = decide(&snapshot);
    assert_eq!(plan.actions.len(), 1);
    assert_eq!(deletions(&snapshot), ["delete Job a: it is beyond the history limit"]);
    assert!(plan.is_status_changed && plan.status.active.is_empty() && plan.status.last_successful_time.is_some());
}

fn events(plan: &Plan) -> Vec<&str> {
    plan.actions
        .iter()
        .filter_map(|s| if let Action::RecordEvent(event) = s { Some(event.reason) } else { None })
        .collect()
}

/// Names of manually created Jobs. Some equal the Job names of runs: the due run, a run before the creation, and a future run.
const NAMES: &[&str] =
    &["tick-1", "tick-29538725", "tick-29538720", "tick-29539000", "tick-0", "tick-", "tick", "x-1", "manual"];

/// CRONJOB-42.
#[test]
fn a_manually_created_job_never_changes_the_schedule() {
    let annotations = [
        json!({}),
        json!({CRON_JOB_SCHEDULED_TIMESTAMP_ANNOTATION: "2026-03-01T00:05:00Z"}),
        json!({CRON_JOB_SCHEDULED_TIMESTAMP_ANNOTATION: "no time"}),
    ];
    for name in NAMES {
        for annotations in &annotations {
            for policy in ["Allow", "Forbid", "Replace"] {
                for end in [None, Some("Complete"), Some("Failed")] {
                    let spec = json!({"concurrencyPolicy": policy});
                    let mut snapshot = cron_job_snapshot(
                        spec.clone(),
                        json!({}),
                        &[manually_created_job(name, annotations.clone(), end)],
                    );
                    snapshot.was_cron_job_read_live = true;
                    let plan = decide(&snapshot);
                    let without = decide(&cron_job_snapshot(spec, json!({}), &[]));
                    assert_eq!(plan.status.active, []);
                    assert_eq!(plan.status.last_schedule_time, None, "{name}");
                    assert_eq!(plan.requeue_after, without.requeue_after);
                    // The only actions that the plan without the manual Job lacks are Events about that Job.
                    let added = plan.actions.len() - without.actions.len();
                    assert_eq!(events(&plan).len(), added);
                    assert!(plan.actions.ends_with(&without.actions), "{:?}", plan.actions);
                }
            }
        }
    }
}

/// The cases vary the name of a Job, its scheduled time, and the last recorded run of its CronJob.
/// CRONJOB-50, CRONJOB-83.
#[test]
fn only_a_job_with_matching_name_and_time_after_the_last_run_is_recorded() {
    let unrecorded = |scheduled: &str, name: Option<&str>, last: Option<&str>| {
        let mut job = job_of_run(scheduled, Some(1), None);
        if let Some(name) = name {
            job["metadata"]["name"] = json!(name);
        }
        let snapshot = cron_job_snapshot(json!({}), json!({"lastScheduleTime": last}), &[job]);
        unrecorded_run_of_job(&snapshot, &snapshot.jobs[0])
    };
    let run = "2026-03-01T00:05:20Z";
    assert_eq!(unrecorded(run, None, None), Some(parse_timestamp(run)), "intervals have times in seconds");
    assert_eq!(unrecorded("2026-03-01T03:05:20+03:00", None, None), Some(parse_timestamp(run)));
    assert_eq!(unrecorded(run, Some("tick-29538724"), None), None, "the name belongs to another minute");
    assert_eq!(unrecorded(run, None, Some(run)), None, "the run is recorded already");
    assert_eq!(unrecorded("2026-03-01T00:01:00Z", None, None), None, "the time is before the creation of the CronJob");
    assert_eq!(unrecorded("2026-03-01T00:08:00Z", None, None), None, "the time is in the future");
}

/// CRONJOB-50, CRONJOB-83.
#[test]
fn an_interval_keeps_its_phase_after_a_crash_before_the_record() {
    // The CronJob was created at 00:02:00, so its first run is at 00:05:20.
    let spec = json!({"schedule": "@every 200s"});
    let mut snapshot = cron_job_snapshot(spec, json!({}), &[job_of_run("2026-03-01T00:05:20Z", Some(1), None)]);
    snapshot.was_cron_job_read_live = true;
    let plan = decide(&snapshot);
    assert_eq!(plan.status.last_schedule_time, Some(parse_timestamp("2026-03-01T00:05:20Z")));
    assert_eq!(plan.requeue_after, Some(Duration::from_secs(70)), "the next run is at 00:08:40");
}

/// CRONJOB-40.
#[test]
fn an_existing_job_counts_as_the_run_only_if_it_was_created_for_it() {
    let wanted = parse_timestamp("2026-03-01T00:05:00Z");
    let owned = |mut job: Value, owner: &str| {
        job["metadata"]["ownerReferences"] = json!([{"apiVersion": "batch/v1", "kind": "CronJob", "name": "tick",
            "uid": owner, "controller": true}]);
        let snapshot = cron_job_snapshot(json!({}), status_with_active_jobs(&["recorded"]), &[]);
        let job: Job = serde_json::from_str(&job.to_string()).unwrap();
        run_of_existing_job(&snapshot, &job, wanted)
    };
    let ours = job_of_run("2026-03-01T00:05:20Z", None, None);
    assert_eq!(owned(ours.clone(), "U"), Some(parse_timestamp("2026-03-01T00:05:20Z")), "the time keeps its seconds");
    assert_eq!(owned(ours.clone(), "V"), None, "the Job has another owner");
    assert_eq!(
        owned(manually_created_job("tick-29538725", json!({}), None), "U"),
        None,
        "the Job was created manually"
    );
    assert_eq!(owned(job_of_run("2026-03-01T00:06:00Z", None, None), "U"), None, "the Job belongs to another run");
    let mut recorded = ours;
    recorded["metadata"]["uid"] = json!("recorded");
    assert_eq!(owned(recorded, "U"), None, "the Job is recorded already");
}

/// CRONJOB-61.
#[test]
fn a_finished_job_whose_deletion_is_refused_is_still_reported() {
    let jobs = [job_json("a", Some(1), Some("Complete"))];
    let plan = decide(&cron_job_snapshot(
        json!({"successfulJobsHistoryLimit": 0, "suspend": true}),
        status_with_active_jobs(&["a"]),
        &jobs,
    ));
    let [Action::DeleteJob { event_if_refused: Some(event), .. }] = &plan.actions[..] else {
        panic!("{:?}", plan.actions)
    };
    assert_eq!(event.message, "Saw completed job: a, condition: Complete");
}

/// CRONJOB-55.
#[test]
fn negative_and_huge_history_limits_delete_nothing() {
    let jobs = [job_json("a", Some(1), Some("Complete")), job_json("b", Some(2), Some("Failed"))];
    for limit in [-1, i64::MIN, i64::from(i32::MAX), i64::MAX] {
        let spec = json!({"successfulJobsHistoryLimit": limit, "failedJobsHistoryLimit": limit, "suspend": true});
        assert_eq!(decide(&cron_job_snapshot(spec, json!({}), &jobs)).actions, []);
    }
}

/// CRONJOB-49.
#[test]
fn thousands_of_active_jobs_are_read_live_in_several_syncs() {
    let names: Vec<String> = (0..5_000).map(|at| format!("j{at:04}")).collect();
    let mut snapshot = cron_job_snapshot(
        json!({}),
        status_with_active_jobs(&names.iter().map(String::as_str).collect::<Vec<_>>()),
        &[],
    );
    let mut syncs = 0;
    while !snapshot.cron_job.status.active.is_empty() {
        snapshot.jobs_read_live.clear();
        let plan = decide(&snapshot);
        assert!((1..=100).contains(&plan.live_reads.len()), "{}", plan.live_reads.len());
        for question in plan.live_reads {
            let LiveRead::Job(name) = question else { panic!("{question:?}") };
            snapshot.jobs_read_live.insert(name, None);
        }
        let plan = decide(&snapshot);
        assert!(plan.live_reads.is_empty() && plan.is_status_changed);
        let is_last = plan.status.active.is_empty();
        assert_eq!(
            plan.actions.iter().any(|step| matches!(step, Action::CreateJob { .. })),
            is_last,
            "a run starts only after all active Jobs are known"
        );
        assert!(is_last || plan.requeue_after == Some(LOOKUP_PAUSE));
        Arc::make_mut(&mut snapshot.cron_job).status = plan.status;
        syncs += 1;
    }
    assert_eq!(syncs, 50);
}

/// CRONJOB-65, CRONJOB-87.
#[test]
fn long_messages_are_truncated() {
    let plan = decide(&cron_job_snapshot(json!({"schedule": "é ".repeat(400_000)}), json!({}), &[]));
    let [Action::RecordEvent(event)] = &plan.actions[..] else { panic!("{:?}", plan.actions.len()) };
    assert!(event.message.starts_with("unparseable schedule: \"é é ") && event.message.ends_with("..."));
    assert!(event.message.len() <= 1024 && plan.reasons_for_no_job[0].len() <= 1024);
}

/// The cases are extreme times and numbers. API servers refuse some of them.
/// CRONJOB-28.
#[test]
fn extreme_values_neither_panic_nor_start_a_run_twice() {
    let times = ["0001-01-01T00:00:00Z", "1970-01-01T00:00:00Z", "2026-03-01T00:05:00Z", "9999-12-30T22:00:00Z"];
    let schedules = ["* * * * *", "@every 1s", "@every 2540400h", "0 0 29 2 *", "59 23 31 2 *", ", , , , ,", "@yearly"];
    for schedule in schedules {
        for last in times {
            for deadline in [None, Some(0), Some(1), Some(i64::MAX), Some(i64::MIN), Some(-1)] {
                let spec = json!({"schedule": schedule, "startingDeadlineSeconds": deadline});
                let mut snapshot = cron_job_snapshot(spec, json!({"lastScheduleTime": last}), &[]);
                for _ in 0..3 {
                    let plan = decide(&snapshot);
                    let mut status = plan.status.clone();
                    if let Some(Action::CreateJob { scheduled_time: scheduled, .. }) = plan.actions.last() {
                        assert!(Some(*scheduled) > status.last_schedule_time, "{schedule} after {last}");
                        status.last_schedule_time = Some(*scheduled);
                    }
                    Arc::make_mut(&mut snapshot.cron_job).status = status;
                }
                let again = decide(&snapshot);
                assert!(
                    !again.actions.iter().any(|step| matches!(step, Action::CreateJob { .. })),
                    "{schedule} after {last}"
                );
            }
        }
    }
}

prop_compose! {
    fn jobs()(list in prop::collection::vec((0u32..40, prop::option::of(prop::sample::select(vec!["Complete", "Failed"]))), 0..6)) -> Vec<Value> {
        list.iter().enumerate().map(|(at, (start, end))| job_json(&format!("j{at}"), Some(*start), *end)).collect()
    }
}

prop_compose! {
    /// Generates up to three manually created Jobs, some with the Job names of runs.
    fn manual_jobs()(
        jobs in prop::collection::vec((
            prop_oneof![
                prop::sample::select(NAMES).prop_map(str::to_owned), "tick-[0-9]{1,9}", (29_538_700u64..29_538_800).prop_map(|m| format!("tick-{m}")),
            ],
            prop::option::of(prop_oneof![
                (0u32..60).prop_map(|minute| format!("2026-03-01T00:{minute:02}:00Z")), Just("garbage".to_owned()), Just(String::new()),
            ]),
            prop::option::of(prop::sample::select(vec!["Complete", "Failed"])),
        ), 0..4)
    ) -> Vec<Value> {
        jobs.iter().map(|(name, time, end)| {
            let annotations = time.as_ref().map_or(json!({}), |time| json!({CRON_JOB_SCHEDULED_TIMESTAMP_ANNOTATION: time}));
            manually_created_job(name, annotations, *end)
        }).collect()
    }
}

/// Simulates a year of a CronJob and returns the times of its runs. Each Job finishes `takes` seconds after its start.
fn year(schedule: &str, zone: &str, policy: &str, takes: i64, start: Timestamp) -> Vec<Timestamp> {
    let spec = json!({"schedule": schedule, "timeZone": zone, "concurrencyPolicy": policy,
        "successfulJobsHistoryLimit": 3, "failedJobsHistoryLimit": 1});
    let mut snapshot = cron_job_snapshot(spec, json!({}), &[]);
    Arc::make_mut(&mut snapshot.cron_job).metadata.creation_timestamp = Some(start);
    let end = start + jiff::SignedDuration::from_hours(365 * 24);
    let (mut runs, mut finishes) = (Vec::new(), BTreeMap::new());
    snapshot.now = start;
    while snapshot.now < end {
        let now = snapshot.now;
        for job in &mut snapshot.jobs {
            if finishes.get(&job.metadata.name).is_some_and(|at| *at <= now) && job.status.outcome.is_none() {
                let mut finished = serde_json::to_value(json!({"metadata": {"name": job.metadata.name, "namespace": "shop",
                    "uid": job.metadata.uid.to_string()}, "status": {"conditions": [{"type": "Complete", "status": "True"}]}})).unwrap();
                finished["status"]["startTime"] = json!(job.scheduled_time.unwrap().to_string());
                finished["status"]["completionTime"] = json!(now.to_string());
                finished["metadata"]["annotations"] =
                    json!({CRON_JOB_SCHEDULED_TIMESTAMP_ANNOTATION: job.scheduled_time.unwrap().to_string()});
                *job = Arc::new(serde_json::from_str(&finished.to_string()).unwrap());
            }
        }
        let plan = decide(&snapshot);
        assert!(plan.live_reads.is_empty(), "{:?}", plan.live_reads);
        let mut status = plan.status.clone();
        for step in &plan.actions {
            match step {
                Action::DeleteJob { uid, .. } => {
                    snapshot.jobs.retain(|job| job.metadata.uid != *uid);
                    status.remove_active_job(uid);
                }
                Action::CreateJob { name, scheduled_time: scheduled, body } => {
                    let mut body = (**body).clone();
                    body["metadata"]["uid"] = json!(format!("uid of {}", &**name));
                    let job: Job = serde_json::from_str(&body.to_string()).unwrap();
                    assert!(snapshot.jobs.iter().all(|other| other.metadata.name != job.metadata.name), "{}", &**name);
                    status.active.push(crate::objects::JobReference::from_job(&job.metadata));
                    status.last_schedule_time = Some(*scheduled);
                    finishes.insert(job.metadata.name.clone(), now + jiff::SignedDuration::from_secs(takes));
                    assert_eq!(*scheduled, now, "the run starts in the second of its scheduled time");
                    runs.push(*scheduled);
                    snapshot.jobs.push(Arc::new(job));
                }
                Action::RecordEvent(_) => {}
            }
        }
        assert!(snapshot.jobs.len() <= 3 + 1 + status.active.len(), "the history is bounded");
        Arc::make_mut(&mut snapshot.cron_job).status = status;
        let next = now + plan.requeue_after.unwrap();
        assert!(next > now, "the key comes back later than now");
        // The completion of a Job enqueues the CronJob, too, possibly before the next firing.
        let ends = finishes.values().copied().filter(|at| *at > now).min();
        snapshot.now = ends.map_or(next, |ends| ends.min(next));
    }
    runs
}

/// Returns the firings in the 365 days after `start`, in order.
fn firings(schedule: &str, zone: &str, start: Timestamp) -> Vec<Timestamp> {
    let schedule = Schedule::parse(&format!("TZ={zone} {schedule}")).unwrap();
    let end = start + jiff::SignedDuration::from_hours(365 * 24);
    std::iter::successors(schedule.next_firing_after(start), |last| schedule.next_firing_after(*last))
        .take_while(|at| *at < end)
        .collect()
}

/// CRONJOB-15, CRONJOB-34.
#[test]
fn each_firing_of_a_year_has_exactly_one_run() {
    let start = parse_timestamp("2026-01-01T00:00:30Z");
    for (schedule, zone, count) in [
        // The schedule fires every six hours of wall-clock time; one day has 23 hours and one day has 25.
        ("0 */6 * * *", "America/New_York", 1460),
        // A wall-clock time in the spring gap does not fire, and a wall-clock time in the autumn overlap fires twice.
        ("30 2 * * *", "Europe/Berlin", 365),
        ("30 1 * * *", "America/New_York", 366),
        ("30 2 * * *", "America/New_York", 364),
        // Midnight is missing on one day in April.
        ("0 0 * * *", "Africa/Cairo", 364),
        ("0 12 * * 5", "Africa/Cairo", 51),
        ("15 10 29 2 *", "UTC", 0),
        ("0 0 1,15 * 3", "Asia/Kathmandu", 72),
        ("@every 25h", "UTC", 350),
        ("@monthly", "Australia/Lord_Howe", 12),
    ] {
        let runs = year(schedule, zone, "Allow", 600, start);
        assert_eq!(runs, firings(schedule, zone, start), "{schedule} in {zone}");
        assert_eq!(runs.len(), count, "{schedule} in {zone}");
    }
    // Each Job is active until the next Job replaces it.
    let (schedule, zone) = ("30 1 * * *", "America/New_York");
    assert_eq!(year(schedule, zone, "Replace", i64::from(i32::MAX), start), firings(schedule, zone, start));
}

proptest! {
    /// CRONJOB-25, CRONJOB-28, CRONJOB-29, CRONJOB-31, CRONJOB-33, CRONJOB-34, CRONJOB-42, CRONJOB-46.
    #[test]
    fn invariants_of_every_plan(
        mut jobs in jobs(), manual in manual_jobs(), recorded in prop::collection::btree_set(0usize..6, 0..6), policy in prop::sample::select(vec!["Allow", "Forbid", "Replace"]),
        suspend in any::<bool>(), deleting in any::<bool>(), limit in prop::option::of(0i64..3), deadline in prop::option::of(0i64..400),
        last in prop::option::of(0u32..8),
    ) {
        let names: Vec<String> = recorded.iter().map(|at| format!("j{at}")).collect();
        let by_hand: Vec<Uid> = manual.iter().map(|job| Uid::new(job["metadata"]["uid"].as_str().unwrap())).collect();
        jobs.extend(manual);
        let mut status = status_with_active_jobs(&names.iter().map(String::as_str).collect::<Vec<_>>());
        status["lastScheduleTime"] = json!(last.map(|minute| format!("2026-03-01T00:0{minute}:00Z")));
        let spec = json!({"concurrencyPolicy": policy, "suspend": suspend, "successfulJobsHistoryLimit": limit,
            "failedJobsHistoryLimit": limit, "startingDeadlineSeconds": deadline});
        let mut snapshot = cron_job_snapshot(spec, status, &jobs);
        snapshot.was_cron_job_read_live = true;
        for name in &names {
            snapshot.jobs_read_live.insert(Text::new(name), None);
        }
        if deleting {
            Arc::make_mut(&mut snapshot.cron_job).metadata.deletion_timestamp = Some(snapshot.now);
        }
        let plan = decide(&snapshot);
        prop_assert!(plan.live_reads.is_empty());
        let starts: Vec<&Timestamp> =
            plan.actions.iter().filter_map(|s| if let Action::CreateJob { scheduled_time, .. } = s { Some(scheduled_time) } else { None }).collect();
        prop_assert!(starts.len() <= 1, "one sync starts at most one Job");
        let last_run = starts.first().copied().copied().or(snapshot.cron_job.status.last_schedule_time);
        prop_assert!(plan.status.last_schedule_time <= last_run, "a manually created Job is not a run");
        prop_assert!(plan.status.active.iter().all(|reference| !by_hand.contains(&reference.uid)));
        let replaces_by_hand = plan.actions.iter().any(
            |s| matches!(s, Action::DeleteJob { uid, reason: DeletionReason::ReplacedByNextRun, .. } if by_hand.contains(uid))
        );
        prop_assert!(!replaces_by_hand);
        let ended = |uid: &Uid| snapshot.jobs.iter().any(|job| job.metadata.uid == *uid && job.status.outcome.is_some());
        for step in &plan.actions {
            if let Action::DeleteJob { uid, reason: DeletionReason::BeyondHistoryLimit, .. } = step {
                prop_assert!(ended(uid), "only finished Jobs are deleted as history");
            }
        }
        prop_assert!(plan.status.active.iter().all(|reference| !ended(&reference.uid)));
        if let Some(scheduled) = starts.first() {
            prop_assert!(!suspend && !deleting);
            prop_assert!(snapshot.cron_job.status.last_schedule_time.is_none_or(|last| last < **scheduled));
            let late = snapshot.now.duration_since(**scheduled).as_secs();
            prop_assert!(deadline.is_none_or(|deadline| late <= deadline));
            let replaced = plan.actions.iter().filter(|s| matches!(s, Action::DeleteJob { reason: DeletionReason::ReplacedByNextRun, .. })).count();
            match policy {
                "Forbid" => prop_assert!(plan.status.active.is_empty()),
                "Replace" => prop_assert_eq!(replaced, plan.status.active.len()),
                _ => prop_assert_eq!(replaced, 0),
            }
        }
    }
}
