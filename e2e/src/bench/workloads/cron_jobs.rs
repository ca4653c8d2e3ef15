//! CronJobs that are all due at the same time: how late their Jobs are, and what they cost while nothing is due.

use std::time::Duration;

use futures::future::{FutureExt as _, LocalBoxFuture};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::Workload;
use crate::{
    bench::{Error, report::Amount, stage::Stage, template},
    suite::resources,
};

/// CronJobs due in the same minute.
pub(super) struct CronJobs;

const NAME: &str = "bench";
/// How long CronJobs are left alone to measure what they cost then.
const IDLE: Duration = Duration::from_secs(60);

/// A CronJob that fires once a year. Its Jobs are suspended: no other controller is measured.
fn cron_job(n: u32, due: Timestamp) -> Value {
    let schedule = due.strftime("%-M %-H %-d %-m *").to_string();
    let mut pod = template::pod(NAME);
    pod["spec"]["restartPolicy"] = json!("Never");
    json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": format!("{NAME}-{n}")}, "spec": {
        "schedule": schedule, "timeZone": "Etc/UTC", "jobTemplate": {"spec": {"suspend": true, "template": pod}}}})
}

/// A full minute by which so many CronJobs have certainly been created and synced.
fn due_after(now: Timestamp, count: u32) -> Timestamp {
    let ready = now.as_second() + 30 + i64::from(count) / 100;
    Timestamp::from_second((ready / 60 + 1) * 60).unwrap_or(now)
}

impl Workload for CronJobs {
    fn name(&self) -> &'static str {
        "cronjobs"
    }

    fn about(&self) -> &'static str {
        "one CronJob for each of --pods, all due in the same minute: the delay of the Jobs; then a minute of rest"
    }

    fn pods(&self) -> u32 {
        10_000
    }

    fn needs(&self) -> &'static [&'static str] {
        &["cronjob-controller"]
    }

    fn run<'a>(&'a self, stage: &'a mut Stage<'_>) -> LocalBoxFuture<'a, Result<(), Error>> {
        async move {
            let count = stage.pods();
            let amount = Amount::objects(count);
            stage.idle().await;

            let mut phase = stage.begin("create").await?;
            let due = due_after(stage.now(), count);
            stage.create_all(&resources::CRON_JOBS, (0..count).map(|n| cron_job(n, due))).await?;
            phase.reached("created");
            stage.finish(phase, amount).await?;
            stage.filled();

            let mut phase = stage.begin("due").await?;
            stage.sleep(Duration::try_from(due.duration_since(stage.now())).unwrap_or_default()).await;
            for (percentile, what) in [(50, "median late"), (99, "p99 late"), (100, "last late")] {
                let wanted = (u64::from(count) * percentile).div_ceil(100);
                stage.until_count(resources::JOBS, "created", |jobs| u64::from(jobs) >= wanted).await?;
                phase.late(what, due);
            }
            stage.finish(phase, amount).await?;

            let mut phase = stage.begin("idle").await?;
            stage.sleep(IDLE).await;
            phase.reached("over");
            stage.finish(phase, amount).await?;

            stage.delete_all(&resources::CRON_JOBS, std::iter::once(String::new())).await?;
            stage.delete_all(&resources::JOBS, std::iter::once(String::new())).await
        }
        .boxed_local()
    }
}
