//! The memory of one decision depends on the size of its objects, and not on the numbers in them.

use std::{collections::BTreeMap, sync::Arc};

use common::prelude::*;
use cronjob_controller::{
    decide::decide,
    objects::{CRON_JOBS, CronJob, Job},
    plan::Snapshot,
};
use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::METER;

/// A decision may allocate `PER_BYTE` bytes for each byte of its objects, and `BESIDES` bytes more.
const PER_BYTE: usize = 64;
const BESIDES: usize = 4_000_000;

fn times() -> impl Strategy<Value = Option<String>> {
    prop::option::of(prop_oneof![
        Just("0001-01-01T00:00:00Z".to_owned()),
        Just("1970-01-01T00:00:00Z".to_owned()),
        Just("9999-12-30T22:00:00Z".to_owned()),
        (0i64..2_000_000_000).prop_map(|second| Timestamp::from_second(second).unwrap().to_string()),
    ])
}

fn numbers() -> impl Strategy<Value = Option<i64>> {
    prop::option::of(prop::sample::select(vec![0, 1, 100, i64::from(i32::MAX), i64::MAX, -1, i64::MIN]))
}

fn schedules() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(vec![
            "* * * * *",
            "@every 1s",
            "59 23 31 2 *",
            "0 0 29 2 *",
            ", , , , ,",
            "@every 2540400h"
        ])
        .prop_map(str::to_owned),
        (1usize..250_000).prop_map(|items| format!("{} * * * *", "*/5,".repeat(items))),
        (1usize..500_000).prop_map(|parts| "x ".repeat(parts)),
        "[ -~]{0,40}",
    ]
}

fn snapshot(cron: &Value, jobs: &[Value]) -> Snapshot {
    let cron: CronJob = serde_json::from_str(&cron.to_string()).unwrap();
    let jobs = jobs.iter().map(|job| Arc::new(serde_json::from_str::<Job>(&job.to_string()).unwrap())).collect();
    Snapshot {
        owner: Owner::new(CRON_JOBS, &cron.metadata),
        cron_job: Arc::new(cron),
        was_cron_job_read_live: true,
        jobs,
        jobs_read_live: BTreeMap::new(),
        now: "2026-03-01T00:05:00.5Z".parse().unwrap(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// CRONJOB-70.
    #[test]
    fn deciding_allocates_in_proportion_to_the_size_of_its_objects(
        schedule in schedules(), last in times(), created in times(), deadline in numbers(), limit in numbers(),
        policy in prop::sample::select(vec!["Allow", "Forbid", "Replace"]), active in 0usize..3_000, jobs in 0usize..300,
        garbage in "[ -~]{0,40}",
    ) {
        let active: Vec<Value> = (0..active).map(|n| json!({"name": format!("j{n}"), "uid": format!("uid-{n}")})).collect();
        let cron = json!({"metadata": {"name": "tick", "namespace": "shop", "uid": "U", "creationTimestamp": created},
            "spec": {"schedule": schedule, "timeZone": "Europe/Berlin", "startingDeadlineSeconds": deadline,
                "successfulJobsHistoryLimit": limit, "failedJobsHistoryLimit": limit, "concurrencyPolicy": policy,
                "jobTemplate": {"spec": {}}},
            "status": {"active": active, "lastScheduleTime": last}});
        let jobs: Vec<Value> = (0..jobs).map(|n| json!({
            "metadata": {"name": format!("tick-{n}"), "namespace": "shop", "uid": format!("uid-{n}"),
                "annotations": {"batch.kubernetes.io/cronjob-scheduled-timestamp": garbage}},
            "status": {"conditions": [{"type": if n % 2 == 0 { "Complete" } else { "Failed" }, "status": "True"}]}})).collect();
        let size = cron.to_string().len() + jobs.iter().map(|job| job.to_string().len()).sum::<usize>();
        let snapshot = snapshot(&cron, &jobs);
        let (plan, allocated) = METER.total(|| decide(&snapshot));
        prop_assert!(plan.live_reads.len() <= 100, "one sync looks up a bounded number of Jobs");
        prop_assert!(allocated <= PER_BYTE * size + BESIDES, "{allocated} bytes for objects of {size}");
    }
}
