//! The example application: a shop with an object of each kind, which rolls out twice.

use std::{fmt::Write as _, time::Duration};

use anyhow::{Context as _, Result};
use common::{clock::Instant, meta::NamespacedName};
use serde_json::{Value, json};

use super::{
    limits::Limits,
    rows::{Progress, Row},
};

pub(super) const NAMESPACE: &str = "shop";
/// The time limit of one step.
const PATIENCE: Duration = Duration::from_secs(120);

/// Kinds and names of the objects, with the controllers that complete them.
const PARTS: [(&str, &str, &[&str]); 8] = [
    ("Deployment", "web", &["deployment-controller"]),
    ("Deployment", "api", &["deployment-controller"]),
    ("StatefulSet", "db", &["statefulset-controller"]),
    ("DaemonSet", "logs", &["daemonset-controller"]),
    ("Service", "web", &["endpointslice-controller"]),
    ("Service", "db", &["endpointslice-controller", "statefulset-controller"]),
    ("Job", "migrate", &["job-controller"]),
    ("CronJob", "report", &["cronjob-controller", "job-controller"]),
];

/// The list of all objects of the example, in one line.
pub(super) const SUMMARY: &str =
    "Deployments web and api, StatefulSet db, DaemonSet logs, Services web and db, Job migrate, CronJob report";

pub(super) fn objects() -> Result<Vec<Value>> {
    let file: Value = serde_saphyr::from_str(include_str!("example.yaml")).context("example.yaml")?;
    Ok(file["objects"].as_array().cloned().unwrap_or_default())
}

/// The patches for the `n`th version of the example: path, body, and name of the object.
pub(super) fn updates(n: u32) -> impl Iterator<Item = (String, Value, &'static str)> {
    let workloads = PARTS.into_iter().filter(|(kind, _, _)| kind.ends_with("Set") || *kind == "Deployment");
    workloads.map(move |(kind, name, _)| {
        let path = format!("/apis/apps/v1/namespaces/{NAMESPACE}/{}s/{name}", kind.to_lowercase());
        let containers = json!([{"name": name, "image": format!("example.com/{NAMESPACE}/{name}:1.{n}")}]);
        (path, json!({"spec": {"template": {"spec": {"containers": containers}}}}), name)
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The first or the second rollout is in progress.
    Rolling(u32),
    /// Both rollouts are complete; the CronJob has not run yet.
    Scheduled,
    Done,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Wait: the step is in progress.
    Wait,
    /// Update the images: the first rollout is complete, as these lines describe.
    Update(Vec<String>),
    /// Continue: a step is complete, as these lines describe.
    Went(Vec<String>),
    /// The example is done: these lines describe the last step.
    Done(Vec<String>),
    /// The step has exceeded its time limit, for this reason.
    Late(String),
}

/// The progress of the example through its steps.
#[derive(Debug)]
pub(super) struct Example {
    /// The controllers that run. Without any, all parts are awaited, from controllers that were started elsewhere.
    controllers: Vec<&'static str>,
    step: Step,
    since: Instant,
    is_late: bool,
}

impl Example {
    /// The progress right after the objects were applied.
    pub(super) fn applied(controllers: Vec<&'static str>, now: Instant) -> Self {
        Self { controllers, step: Step::Rolling(1), since: now, is_late: false }
    }

    /// The current step in one line.
    pub(super) fn status(&self) -> &'static str {
        match self.step {
            Step::Rolling(1) => "the example is rolled out for the first time",
            Step::Rolling(_) => "the example's images were updated and are rolled out",
            Step::Scheduled => "both rollouts are complete; the CronJob runs at the next full minute",
            Step::Done => "the example is done; the cluster is yours: try kubectl, or press u",
        }
    }

    /// The parts of the present step whose controllers run: kind and name.
    fn parts(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let runs = |controller: &&str| self.controllers.is_empty() || self.controllers.contains(controller);
        let is_scheduled = self.step == Step::Scheduled;
        let parts = PARTS.into_iter().filter(move |(kind, _, _)| (*kind == "CronJob") == is_scheduled);
        parts.filter(move |(_, _, needed)| needed.iter().all(runs)).map(|(kind, name, _)| (kind, name))
    }

    /// Checks the current step, and continues with the next one when it is complete.
    pub(super) fn look(&mut self, rows: &[Row], limits: &Limits, instant: Instant) -> Next {
        let took = instant - self.since;
        if self.step == Step::Done {
            return Next::Wait;
        }
        let (mut lines, mut missing) = (Vec::new(), Vec::new());
        for (kind, name) in self.parts() {
            match self.part(rows, kind, name, limits, took) {
                // A Job completes only once.
                Ok(_) if kind == "Job" && self.step != Step::Rolling(1) => {}
                Ok(line) => lines.push(line),
                Err(why) => missing.push(why),
            }
        }
        if !missing.is_empty() {
            let is_late = took > PATIENCE && !self.is_late;
            self.is_late |= is_late;
            let why = || format!("not done after {} s: {}", PATIENCE.as_secs(), missing.join("; "));
            return if is_late { Next::Late(why()) } else { Next::Wait };
        }
        (self.since, self.is_late) = (instant, false);
        self.step = match self.step {
            Step::Rolling(1) => Step::Rolling(2),
            Step::Rolling(_) => Step::Scheduled,
            Step::Scheduled | Step::Done => Step::Done,
        };
        if self.step == Step::Scheduled && self.parts().next().is_none() {
            self.step = Step::Done;
        }
        match self.step {
            Step::Rolling(_) => Next::Update(lines),
            Step::Scheduled => Next::Went(lines),
            Step::Done => Next::Done(lines),
        }
    }

    /// The description of a part that is complete in this step, or its progress.
    fn part(&self, rows: &[Row], kind: &str, name: &str, limits: &Limits, took: Duration) -> Result<String, String> {
        let key = NamespacedName::new(NAMESPACE, name);
        let row = rows.iter().find(|row| row.kind == kind && row.key == key);
        let row = row.ok_or_else(|| format!("{kind} {key} is gone"))?;
        // Only objects with a new image have a new generation.
        let rollout = match self.step {
            Step::Rolling(n) if kind.ends_with("Set") || kind == "Deployment" => n,
            _ => 0,
        };
        if row.progress != Progress::Done || row.generation < i64::from(rollout) {
            return Err(format!("{kind} {key} {}", row.line()));
        }
        let rolled_out = if rollout > 0 { format!(" rollout {rollout}") } else { String::new() };
        let mut line = format!("{kind} {key}{rolled_out} {}", row.word);
        let Some(extremes) = limits.extremes(&key).filter(|_| kind == "Deployment") else {
            return Ok(format!("{line}: {}", row.text));
        };
        let (bounds, most) = (extremes.bounds, extremes.most);
        let _ =
            write!(line, " in {:.1} s: at most {most} Pods (replicas + maxSurge: {})", took.as_secs_f64(), bounds.most);
        if let Some(least) = extremes.least.filter(|_| rollout > 1) {
            let _ = write!(line, ", at least {least} available (replicas - maxUnavailable: {})", bounds.least);
        }
        Ok(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_objects_are_those_of_the_summary() {
        let objects = objects().unwrap();
        assert_eq!(objects.len(), PARTS.len() + 1);
        for (kind, name, _) in PARTS {
            assert!(
                objects.iter().any(|object| object["kind"] == kind && object["metadata"]["name"] == name),
                "{name}"
            );
            assert!(SUMMARY.contains(kind) && SUMMARY.contains(name), "{name}");
        }
        let template = &objects[3]["spec"]["template"]["spec"];
        assert_eq!(template["tolerations"][0]["tolerationSeconds"], 10);
        assert_eq!(template["containers"][0]["readinessProbe"]["httpGet"]["port"], "http");
        assert_eq!(updates(2).count(), 4);
    }
}
