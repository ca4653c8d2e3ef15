//! The test environment: an API server in memory (the sandbox) with the CronJob loop. Tests finish Jobs with
//! [`TestCluster::finish_job`].

use std::time::Duration;

use common::{prelude::*, settings::OperatorSettings};
use sandbox::{Sandbox, loops::Loops};
use serde_json::{Value, json};

/// Name under which the sandbox records the requests of the CronJob loop.
pub(crate) const CONTROLLER_IDENTITY: &str = "controllers";
pub(crate) const NAMESPACE: &str = "shop";
pub(crate) const CRON_JOBS_RESOURCE: &str = "cronjobs.batch";
pub(crate) const JOBS: &str = "jobs.batch";

pub(crate) struct TestCluster {
    pub(crate) sandbox: Sandbox,
    pub(crate) clock: Clock,
    settings: OperatorSettings,
    loops: Option<Loops>,
}

/// Returns a CronJob with this schedule in UTC. Its Job template has a label, an annotation and one container.
pub(crate) fn cron_job_tick(schedule: &str) -> Value {
    json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "tick", "namespace": NAMESPACE},
        "spec": {"schedule": schedule, "timeZone": "Etc/UTC", "jobTemplate": {
            "metadata": {"labels": {"app": "tick"}, "annotations": {"note": "kept"}},
            "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "img:1"}]}}}}}})
}

impl TestCluster {
    /// Starts the loop at 00:01:59 and waits a second, so that the test begins at 00:02.
    pub(crate) async fn new() -> Self {
        Self::with_settings(OperatorSettings::new()).await
    }

    /// Starts the loop as [`TestCluster::new`] does, with `settings` instead of the defaults.
    pub(crate) async fn with_settings(settings: OperatorSettings) -> Self {
        let clock = Clock::simulated("2026-03-01T00:01:59Z".parse().unwrap(), 7);
        let sandbox = Sandbox::builder().clock(clock.clone()).build();
        sandbox
            .create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}))
            .await
            .unwrap();
        let mut world = Self { sandbox, clock, settings, loops: None };
        world.start_loop();
        world.wait_seconds(1).await;
        world
    }

    /// Starts the loop without caches and memory, as a new process does.
    pub(crate) fn start_loop(&mut self) {
        let client = self.sandbox.client(CONTROLLER_IDENTITY);
        self.loops = Some(Loops::start(&client, &self.clock, self.settings.clone(), cronjob_controller::LOOPS));
    }

    /// Starts the loop in shadow mode, in which it decides everything and writes nothing.
    pub(crate) fn start_shadow(&mut self) {
        self.settings = self.settings.clone().with_shadow_mode(true);
        self.start_loop();
    }

    /// Stops the loop without a shutdown, as a crash of the process does.
    pub(crate) fn crash_loop(&mut self) {
        self.loops = None;
    }

    pub(crate) async fn wait_seconds(&self, seconds: u64) {
        self.clock.sleep(Duration::from_secs(seconds)).await;
    }

    pub(crate) async fn create_object(&self, object: Value) -> Value {
        self.sandbox.create(object).await.unwrap()
    }

    /// Deletes a Job with background propagation.
    pub(crate) async fn delete_job(&self, job: &str) {
        let path = format!("/apis/batch/v1/namespaces/{NAMESPACE}/jobs/{job}");
        let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"});
        self.sandbox.send(http::Method::DELETE, &path, "application/json", Some(&options)).await.unwrap();
    }

    pub(crate) async fn patch_spec(&self, spec: Value) {
        self.sandbox.merge(CRON_JOBS_RESOURCE, Some(NAMESPACE), "tick", None, json!({ "spec": spec })).await.unwrap();
    }

    pub(crate) async fn status(&self) -> Value {
        self.sandbox.get(CRON_JOBS_RESOURCE, Some(NAMESPACE), "tick").await.unwrap()["status"].clone()
    }

    /// Returns the names of the Jobs in `status.active`.
    pub(crate) async fn active_job_names(&self) -> Vec<String> {
        let status = self.status().await;
        let list = status["active"].as_array().cloned().unwrap_or_default();
        list.iter().map(|reference| reference["name"].as_str().unwrap().to_owned()).collect()
    }

    /// Returns the scheduled times of all Jobs as "hour:minute", sorted.
    pub(crate) async fn scheduled_times(&self) -> Vec<String> {
        let jobs = self.sandbox.list(JOBS, Some(NAMESPACE)).await.unwrap();
        let time = |job: &Value| {
            job["metadata"]["annotations"]["batch.kubernetes.io/cronjob-scheduled-timestamp"]
                .as_str()
                .map(str::to_owned)
        };
        let mut runs: Vec<String> = jobs.iter().filter_map(time).map(|at| at[11..16].to_owned()).collect();
        runs.sort();
        runs
    }

    /// Finishes a Job now: sets the condition `kind`, which is `Complete` or `Failed`.
    pub(crate) async fn finish_job(&self, job: &str, kind: &str) {
        let now = self.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let condition = |kind: &str| {
            json!({"type": kind, "status": "True", "reason": "R", "message": "", "lastTransitionTime": now,
                "lastProbeTime": now})
        };
        let (before, succeeded) =
            if kind == "Complete" { ("SuccessCriteriaMet", json!(1)) } else { ("FailureTarget", Value::Null) };
        let status = |conditions: Value, time: Value| {
            json!({"status": {"startTime": now, "completionTime": time, "conditions": conditions,
                "succeeded": succeeded, "ready": 0, "terminating": 0, "uncountedTerminatedPods": {}}})
        };
        let first = status(json!([condition(before)]), Value::Null);
        self.sandbox.merge(JOBS, Some(NAMESPACE), job, Some("status"), first).await.unwrap();
        let time = if kind == "Complete" { json!(now) } else { Value::Null };
        let last = status(json!([condition(before), condition(kind)]), time);
        self.sandbox.merge(JOBS, Some(NAMESPACE), job, Some("status"), last).await.unwrap();
    }

    /// Returns the number of requests with this verb that the CronJob loop has sent to this resource.
    pub(crate) fn request_count(&self, verb: &str, resource: &str) -> u64 {
        self.sandbox.requests().count(Some(CONTROLLER_IDENTITY), Some(verb), Some(resource))
    }

    /// Returns the Events as "type reason message", sorted; a series of equal Events gives one text.
    pub(crate) async fn event_texts(&self) -> Vec<String> {
        let events = self.sandbox.list("events", Some(NAMESPACE)).await.unwrap();
        let text = |e: &Value, field: &str| e[field].as_str().unwrap_or_default().to_owned();
        let mut out: Vec<String> = events
            .iter()
            .map(|e| format!("{} {} {}", text(e, "type"), text(e, "reason"), text(e, "message")))
            .collect();
        out.sort();
        out
    }

    pub(crate) async fn event_count(&self, start: &str) -> usize {
        self.event_texts().await.iter().filter(|event| event.starts_with(start)).count()
    }

    /// Returns the plans for the CronJob `tick` that contain requests, each with the time of its decision.
    pub(crate) fn plans(&self) -> Vec<(jiff::Timestamp, Vec<String>)> {
        self.loops.as_ref().unwrap().plans("shop/tick")
    }

    pub(crate) fn explain(&self) -> Value {
        self.loops.as_ref().unwrap().explain(Some("shop/tick"))[0].clone()
    }
}
