//! Jobs whose Pods succeed at once: run to their end, kept over a restart.

use futures::future::{FutureExt as _, LocalBoxFuture};
use serde_json::{Value, json};

use super::Workload;
use crate::{
    bench::{Error, report::Amount, stage::Stage, template},
    suite::{job, resources},
};

/// Jobs of so many Pods each, all of them at once.
pub(super) struct Jobs {
    name: &'static str,
    about: &'static str,
    /// How many Pods a Job has; all of them if none.
    each: Option<u32>,
}

/// One Job has all Pods.
pub(super) const ONE: Jobs =
    Jobs { name: "jobs-one", about: "one Job: run all Pods until they succeed, restart the controllers", each: None };
/// Each Job has ten.
pub(super) const MANY: Jobs =
    Jobs { name: "jobs-many", about: "Jobs of ten Pods: the same, with all Jobs at the same time", each: Some(10) };

const NAME: &str = "bench";

/// A Job all of whose Pods run at once and succeed.
fn job_of(name: &str, pods: u32) -> Value {
    let mut template = template::pod(name);
    template["spec"]["restartPolicy"] = json!("Never");
    job(name)
        .set("spec/completions", pods)
        .set("spec/parallelism", pods)
        .set("spec/template", template)
        .script("sim/exit", "0")
        .build()
}

impl Workload for Jobs {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn pods(&self) -> u32 {
        10_000
    }

    fn needs(&self) -> &'static [&'static str] {
        &["job-controller"]
    }

    fn run<'a>(&'a self, stage: &'a mut Stage<'_>) -> LocalBoxFuture<'a, Result<(), Error>> {
        async move {
            let pods = stage.pods();
            let each = self.each.unwrap_or(pods).min(pods);
            let sizes = (0..pods.div_ceil(each)).map(move |n| each.min(pods - n * each));
            let jobs = stage.follow_jobs().await;
            // A Job is run before anything is measured: connections are open, code has run.
            let warm_up = format!("{NAME}-warm-up");
            stage.create_all(&resources::JOBS, std::iter::once(job_of(&warm_up, 1))).await?;
            stage.until_succeeded(&jobs, 1).await?;
            stage.idle().await;

            let mut phase = stage.begin("run").await?;
            let all = sizes.enumerate().map(|(n, size)| job_of(&format!("{NAME}-{n}"), size));
            stage.create_all(&resources::JOBS, all).await?;
            stage.until_pods("created", |n| n > pods).await?;
            phase.reached("created");
            stage.until_succeeded(&jobs, 1 + pods).await?;
            phase.reached("finished");
            stage.finish(phase, Amount::pods(pods)).await?;

            let mut phase = stage.begin("restart").await?;
            stage.restart().await?;
            stage.create_all(&resources::JOBS, std::iter::once(job_of(&format!("{NAME}-after"), 1))).await?;
            stage.until_succeeded(&jobs, 2 + pods).await?;
            phase.reached("first Pod finished");
            stage.finish(phase, Amount::pods(1)).await?;
            stage.filled();

            // Nobody has to be there who collects the Pods.
            stage.delete_all(&resources::JOBS, std::iter::once(String::new())).await?;
            stage.delete_all(&resources::PODS, std::iter::once(String::new())).await?;
            stage.until_pods("gone", |n| n == 0).await
        }
        .boxed_local()
    }
}
