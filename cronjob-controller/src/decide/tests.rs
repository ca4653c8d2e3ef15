use std::{collections::BTreeMap, sync::Arc};

use common::refs::Owner;
use proptest::prelude::*;

use super::*;
use crate::objects::CRON_JOBS;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// A CronJob that was created at 00:02, at 00:07:30.
fn world(spec: Value, status: Value, jobs: &[Value]) -> Snapshot {
    let mut cron = json!({"metadata": {"name": "tick", "namespace": "shop", "uid": "U", "creationTimestamp": "2026-03-01T00:02:00Z"},
        "spec": {"schedule": "*/5 * * * *", "timeZone": "UTC",
            "jobTemplate": {"spec": {"template": {"unheard": {"of": [1.50]}}}}}, "status": status});
    for (key, value) in spec.as_object().unwrap() {
        cron["spec"][key] = value.clone();
    }
    let cron: CronJob = serde_json::from_str(&cron.to_string()).unwrap();
    let jobs = jobs.iter().map(|job| Arc::new(serde_json::from_str(&job.to_string()).unwrap())).collect();
    Snapshot {
        owner: Owner::new(CRON_JOBS, &cron.metadata),
        cron: Arc::new(cron),
        is_live: false,
        jobs,
        found: BTreeMap::new(),
        now: at("2026-03-01T00:07:30Z"),
    }
}

fn job(name: &str, start: Option<u32>, end: Option<&str>) -> Value {
    let conditions = end.map(|end| json!([{"type": end, "status": "True"}]));
    let time = |minute: u32| format!("2026-03-01T00:00:{minute:02}Z");
    json!({"metadata": {"name": name, "namespace": "shop", "uid": name},
        "status": {"startTime": start.map(time), "conditions": conditions, "completionTime": start.map(|s| time(s + 1))}})
}

fn running(names: &[&str]) -> Value {
    json!({"active": names.iter().map(|name| json!({"name": name, "uid": name})).collect::<Vec<_>>()})
}

fn steps(plan: &Plan) -> Vec<String> {
    plan.steps.iter().map(ToString::to_string).collect()
}

#[test]
fn history_is_trimmed_from_its_old_end() {
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
        let jobs: Vec<Value> = jobs.iter().map(|(name, start, end)| job(name, *start, Some(end))).collect();
        let plan = decide(&world(spec, json!({}), &jobs));
        let want: Vec<String> =
            gone.iter().map(|name| format!("delete Job {name}: more have ended than are kept")).collect();
        assert_eq!(steps(&plan), want);
    }
}

#[test]
fn a_job_that_goes_already_is_not_deleted_again() {
    let mut going = job("a", Some(1), Some("Complete"));
    going["metadata"]["deletionTimestamp"] = json!("2026-03-01T00:05:00Z");
    let plan = decide(&world(json!({"successfulJobsHistoryLimit": 0, "suspend": true}), json!({}), &[going]));
    assert_eq!(steps(&plan), Vec::<String>::new());
}

#[test]
fn the_job_of_a_run_is_the_template_and_its_time() {
    let plan = decide(&world(json!({}), json!({}), &[]));
    let [Step::Start { name, body, scheduled }] = &plan.steps[..] else { panic!("{:?}", plan.steps) };
    assert_eq!((&**name, *scheduled), ("tick-29538725", at("2026-03-01T00:05:00Z")));
    assert_eq!(body["spec"], json!({"template": {"unheard": {"of": [1.50]}}}), "verbatim");
    assert_eq!(body["metadata"]["annotations"], json!({SCHEDULED_TIMESTAMP: "2026-03-01T00:05:00Z"}));
    assert_eq!(body["metadata"].get("labels"), None);
}

#[test]
fn times_are_written_with_the_offset_of_their_zone() {
    for (time, zone, want) in [
        ("2026-03-01T00:05:00Z", None, "2026-03-01T00:05:00Z"),
        ("2026-03-08T07:00:00Z", Some("America/New_York"), "2026-03-08T03:00:00-04:00"),
        ("2026-11-01T05:30:00Z", Some("America/New_York"), "2026-11-01T01:30:00-04:00"),
        ("2026-11-01T06:30:00Z", Some("America/New_York"), "2026-11-01T01:30:00-05:00"),
        ("2026-07-01T12:00:00Z", Some("Asia/Kathmandu"), "2026-07-01T17:45:00+05:45"),
    ] {
        let zone = zone.map(|zone| schedule::zone(zone).unwrap());
        assert_eq!(wall_time(at(time), zone.as_ref()), want);
    }
}

#[test]
fn nothing_is_started_on_a_schedule_that_makes_no_sense() {
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
        let plan = decide(&world(spec, json!({}), &[]));
        assert_eq!(plan.steps, [Step::Tell(Event::warning(reason, message))]);
        assert_eq!((plan.requeue(), plan.waiting), (common::controller::Requeue::No, vec![message.to_owned()]));
    }
}

#[test]
fn a_zone_in_the_schedule_is_honoured_and_frowned_upon() {
    let plan = decide(&world(json!({"schedule": "TZ=Asia/Kathmandu 50 5 * * *", "timeZone": null}), json!({}), &[]));
    let [Step::Tell(event), Step::Start { scheduled, .. }] = &plan.steps[..] else { panic!("{:?}", plan.steps) };
    assert_eq!((event.reason, *scheduled), ("UnsupportedSchedule", at("2026-03-01T00:05:00Z")));
}

#[test]
fn what_the_caches_do_not_agree_on_is_asked_first() {
    let plan = decide(&world(json!({}), running(&["gone"]), &[job("stray", Some(1), None)]));
    assert_eq!(plan.questions, [Question::CronJob, Question::Job("gone".into())]);
    assert!(plan.steps.is_empty() && !plan.changed);
    let mut answered = world(json!({"suspend": true}), running(&["gone"]), &[job("stray", Some(1), None)]);
    answered.is_live = true;
    answered.found.insert("gone".into(), Presence::Gone);
    let plan = decide(&answered);
    let told: Vec<&str> =
        plan.steps.iter().filter_map(|s| if let Step::Tell(event) = s { Some(event.reason) } else { None }).collect();
    assert_eq!(told, ["UnexpectedJob", "MissingJob"]);
    assert!(plan.changed && plan.status.active.is_empty());
}

#[test]
fn a_cron_job_that_goes_starts_nothing_and_still_tidies_up() {
    let mut snapshot =
        world(json!({"successfulJobsHistoryLimit": 0}), running(&["a"]), &[job("a", Some(1), Some("Complete"))]);
    Arc::make_mut(&mut snapshot.cron).metadata.deleted = Some(snapshot.now);
    let plan = decide(&snapshot);
    assert_eq!(steps(&plan), ["delete Job a: more have ended than are kept"]);
    assert!(plan.changed && plan.status.active.is_empty() && plan.status.last_successful_time.is_some());
}

prop_compose! {
    fn jobs()(list in prop::collection::vec((0u32..40, prop::option::of(prop::sample::select(vec!["Complete", "Failed"]))), 0..6)) -> Vec<Value> {
        list.iter().enumerate().map(|(at, (start, end))| job(&format!("j{at}"), Some(*start), *end)).collect()
    }
}

proptest! {
    #[test]
    fn what_every_plan_keeps(
        jobs in jobs(), recorded in prop::collection::btree_set(0usize..6, 0..6), policy in prop::sample::select(vec!["Allow", "Forbid", "Replace"]),
        suspend in any::<bool>(), deleting in any::<bool>(), limit in prop::option::of(0i64..3), deadline in prop::option::of(0i64..400),
        last in prop::option::of(0u32..8),
    ) {
        let names: Vec<String> = recorded.iter().map(|at| format!("j{at}")).collect();
        let mut status = running(&names.iter().map(String::as_str).collect::<Vec<_>>());
        status["lastScheduleTime"] = json!(last.map(|minute| format!("2026-03-01T00:0{minute}:00Z")));
        let spec = json!({"concurrencyPolicy": policy, "suspend": suspend, "successfulJobsHistoryLimit": limit,
            "failedJobsHistoryLimit": limit, "startingDeadlineSeconds": deadline});
        let mut snapshot = world(spec, status, &jobs);
        snapshot.is_live = true;
        for name in &names {
            snapshot.found.insert(Text::new(name), Presence::Gone);
        }
        if deleting {
            Arc::make_mut(&mut snapshot.cron).metadata.deleted = Some(snapshot.now);
        }
        let plan = decide(&snapshot);
        prop_assert!(plan.questions.is_empty());
        let starts: Vec<&Timestamp> =
            plan.steps.iter().filter_map(|s| if let Step::Start { scheduled, .. } = s { Some(scheduled) } else { None }).collect();
        prop_assert!(starts.len() <= 1, "one sync starts at most one Job");
        let ended = |uid: &Uid| snapshot.jobs.iter().any(|job| job.metadata.uid == *uid && job.end().is_some());
        for step in &plan.steps {
            if let Step::Delete { uid, reason: Reason::History, .. } = step {
                prop_assert!(ended(uid), "only what has ended is history");
            }
        }
        prop_assert!(plan.status.active.iter().all(|reference| !ended(&reference.uid)));
        if let Some(scheduled) = starts.first() {
            prop_assert!(!suspend && !deleting);
            prop_assert!(snapshot.cron.status.last_schedule_time.is_none_or(|last| last < **scheduled));
            let late = snapshot.now.duration_since(**scheduled).as_secs();
            prop_assert!(deadline.is_none_or(|deadline| late <= deadline));
            let replaced = plan.steps.iter().filter(|s| matches!(s, Step::Delete { reason: Reason::Replaced, .. })).count();
            match policy {
                "Forbid" => prop_assert!(plan.status.active.is_empty()),
                "Replace" => prop_assert_eq!(replaced, plan.status.active.len()),
                _ => prop_assert_eq!(replaced, 0),
            }
        }
    }
}
