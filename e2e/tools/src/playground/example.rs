//! The example application: a shop with an object of each kind, which rolls out twice.

use std::{fmt::Write as _, time::Duration};

use common::{clock::Instant, meta::NamespacedName};
use serde_json::{Value, json};

use super::{
    limits::Limits,
    rollout::{Phase, Rollout},
    workloads::{Progress, Row},
};

/// The namespace of the example.
pub(super) const NAMESPACE: &str = "shop";
/// The time limit of one rollout.
const PATIENCE: Duration = Duration::from_secs(120);

/// One Deployment of the example.
struct App {
    name: &'static str,
    replicas: u32,
    max_surge: Value,
    max_unavailable: Value,
    min_ready_seconds: u32,
    /// The annotations that script the start of its Pods on the simulated nodes.
    script: [(&'static str, &'static str); 2],
}

fn apps() -> [App; 2] {
    [
        App {
            name: "web",
            replicas: 6,
            max_surge: json!(2),
            max_unavailable: json!(1),
            min_ready_seconds: 1,
            script: [("sim/start-after", "0.4"), ("sim/ready-after", "0.8")],
        },
        App {
            name: "api",
            replicas: 3,
            max_surge: json!("25%"),
            max_unavailable: json!(0),
            min_ready_seconds: 0,
            script: [("sim/start-after", "0.3"), ("sim/ready-after", "1.5")],
        },
    ]
}

/// Names of the example's Deployments.
const DEPLOYMENTS: [&str; 2] = ["web", "api"];
/// The name of its StatefulSet, and of the headless Service that gives its Pods their names.
const STATEFUL_SET: &str = "db";
/// The name of its DaemonSet.
const DAEMON_SET: &str = "logs";
/// The name of its Job.
const JOB: &str = "migrate";
/// The name of its CronJob.
const CRON_JOB: &str = "report";

/// The list of all objects of the example, in one line.
pub(super) const PARTS: &str =
    "Deployments web and api, StatefulSet db, DaemonSet logs, Services web and db, Job migrate, CronJob report";

/// The image of a container in its `n`th version.
fn image(name: &str, n: u32) -> String {
    format!("example.com/{NAMESPACE}/{name}:1.{n}")
}

fn labels(name: &str) -> Value {
    json!({"app.kubernetes.io/name": name, "app.kubernetes.io/part-of": NAMESPACE})
}

fn metadata(name: &str) -> Value {
    json!({"name": name, "namespace": NAMESPACE, "labels": labels(name)})
}

/// Tolerations for the loss of a node of ten seconds, instead of the usual five minutes.
fn brief() -> Value {
    let one = |key| json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 10});
    json!([one("node.kubernetes.io/not-ready"), one("node.kubernetes.io/unreachable")])
}

/// A Pod template of an HTTP server whose start follows the script.
fn server(name: &str, script: &[(&str, &str)]) -> Value {
    let annotations: serde_json::Map<String, Value> =
        script.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect();
    json!({
        "metadata": {"labels": labels(name), "annotations": annotations},
        "spec": {"tolerations": brief(), "containers": [{
            "name": name,
            "image": image(name, 1),
            "ports": [{"name": "http", "containerPort": 8080}],
            "readinessProbe": {"httpGet": {"path": "/ready", "port": "http"}},
            "resources": {"requests": {"cpu": "50m", "memory": "32Mi"}},
        }]},
    })
}

/// The spec of a Job whose Pods sleep.
fn sleeping_job(name: &str, completions: u32, parallelism: u32, seconds: u32) -> Value {
    json!({
        "completions": completions,
        "parallelism": parallelism,
        "template": {
            "metadata": {"labels": labels(name)},
            "spec": {
                "restartPolicy": "Never",
                "containers": [{
                    "name": name,
                    "image": image(name, 1),
                    "command": ["sleep", seconds.to_string()],
                }],
            },
        },
    })
}

/// The objects of the first version.
pub(super) fn objects() -> Vec<Value> {
    let mut objects = vec![json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})];
    for (name, headless) in [("web", false), (STATEFUL_SET, true)] {
        let mut service = json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata(name),
            "spec": {"selector": labels(name), "ports": [{"name": "http", "port": 80, "targetPort": "http"}]},
        });
        if headless {
            service["spec"]["clusterIP"] = "None".into();
        }
        objects.push(service);
    }
    for app in apps() {
        objects.push(json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": metadata(app.name),
            "spec": {
                "replicas": app.replicas,
                "minReadySeconds": app.min_ready_seconds,
                "strategy": {
                    "type": "RollingUpdate",
                    "rollingUpdate": {"maxSurge": app.max_surge, "maxUnavailable": app.max_unavailable},
                },
                "selector": {"matchLabels": labels(app.name)},
                "template": server(app.name, &app.script),
            },
        }));
    }
    objects.push(json!({
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": metadata(STATEFUL_SET),
        "spec": {
            "replicas": 3,
            "serviceName": STATEFUL_SET,
            "selector": {"matchLabels": labels(STATEFUL_SET)},
            "template": server(STATEFUL_SET, &[("sim/start-after", "0.2"), ("sim/ready-after", "0.6")]),
        },
    }));
    let mut agent = server(DAEMON_SET, &[("sim/start-after", "0.2"), ("sim/ready-after", "0.4")]);
    agent["spec"]["tolerations"] = json!([{"operator": "Exists"}]);
    objects.push(json!({
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": metadata(DAEMON_SET),
        "spec": {
            "selector": {"matchLabels": labels(DAEMON_SET)},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "30%"}},
            "template": agent,
        },
    }));
    objects.push(json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata(JOB),
        "spec": sleeping_job(JOB, 4, 2, 1),
    }));
    objects.push(json!({
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": metadata(CRON_JOB),
        "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": sleeping_job(CRON_JOB, 1, 1, 2)}},
    }));
    objects
}

/// The patches for the `n`th version of the example: path, body, and name of the object.
pub(super) fn updates(n: u32) -> Vec<(String, Value, &'static str)> {
    let deployments = DEPLOYMENTS.into_iter().map(|name| ("deployments", name));
    let update = |(resource, name): (&str, &'static str)| {
        let path = format!("/apis/apps/v1/namespaces/{NAMESPACE}/{resource}/{name}");
        let containers = json!([{"name": name, "image": image(name, n)}]);
        (path, json!({"spec": {"template": {"spec": {"containers": containers}}}}), name)
    };
    deployments.chain([("statefulsets", STATEFUL_SET), ("daemonsets", DAEMON_SET)]).map(update).collect()
}

/// The parts of the example that are awaited and checked: those whose controllers run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Judged {
    services: bool,
    stateful_set: bool,
    daemon_set: bool,
    job: bool,
    cron_job: bool,
}

impl Judged {
    /// The parts that these controllers complete. Without controllers, all parts are awaited, from controllers that were
    /// started elsewhere.
    pub(super) fn by(controllers: &[&str]) -> Self {
        let runs = |name: &str| controllers.is_empty() || controllers.contains(&name);
        Self {
            services: runs("endpointslice-controller"),
            stateful_set: runs("statefulset-controller"),
            daemon_set: runs("daemonset-controller"),
            job: runs("job-controller"),
            cron_job: runs("cronjob-controller") && runs("job-controller"),
        }
    }

    /// Kinds and names of the objects that must be complete before the next rollout.
    fn with_each_rollout(self) -> Vec<(&'static str, &'static str)> {
        let mut parts = Vec::new();
        if self.stateful_set {
            parts.push(("StatefulSet", STATEFUL_SET));
        }
        if self.daemon_set {
            parts.push(("DaemonSet", DAEMON_SET));
        }
        if self.services {
            parts.push(("Service", "web"));
        }
        if self.services && self.stateful_set {
            parts.push(("Service", STATEFUL_SET));
        }
        if self.job {
            parts.push(("Job", JOB));
        }
        parts
    }
}

/// The current step of the example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The first or the second rollout is in progress.
    Rolling(u32),
    /// Both rollouts are complete; the CronJob has not run yet.
    Scheduled,
    /// The example is done.
    Done,
}

/// The next action of the playground.
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
    judged: Judged,
    step: Step,
    since: Instant,
    late: bool,
}

impl Example {
    /// The progress right after the objects were applied.
    pub(super) fn applied(judged: Judged, now: Instant) -> Self {
        Self { judged, step: Step::Rolling(1), since: now, late: false }
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

    /// Checks the current step, and continues with the next one when it is complete.
    pub(super) fn look(&mut self, rollouts: &[Rollout], rows: &[Row], limits: &Limits, instant: Instant) -> Next {
        let took = instant - self.since;
        let result = match self.step {
            Step::Rolling(n) => self.rolling(n, rollouts, rows, limits, took),
            Step::Scheduled => done(rows, "CronJob", CRON_JOB, 1, "").map(|line| vec![line]).map_err(|why| vec![why]),
            Step::Done => return Next::Wait,
        };
        let lines = match result {
            Ok(lines) => lines,
            Err(missing) => {
                let late = took > PATIENCE && !self.late;
                self.late |= late;
                let why = || format!("not done after {} s: {}", PATIENCE.as_secs(), missing.join("; "));
                return if late { Next::Late(why()) } else { Next::Wait };
            }
        };
        (self.since, self.late) = (instant, false);
        self.step = match self.step {
            Step::Rolling(1) => Step::Rolling(2),
            Step::Rolling(_) if self.judged.cron_job => Step::Scheduled,
            Step::Rolling(_) | Step::Scheduled | Step::Done => Step::Done,
        };
        match self.step {
            Step::Rolling(_) => Next::Update(lines),
            Step::Scheduled => Next::Went(lines),
            Step::Done => Next::Done(lines),
        }
    }

    /// A description of the complete `n`th rollout, or the objects that are not complete yet.
    fn rolling(
        &self,
        n: u32,
        rollouts: &[Rollout],
        rows: &[Row],
        limits: &Limits,
        took: Duration,
    ) -> Result<Vec<String>, Vec<String>> {
        let mut lines = Vec::new();
        let mut missing = Vec::new();
        for name in DEPLOYMENTS {
            let key = NamespacedName::new(NAMESPACE, name);
            let Some(rollout) = rollouts.iter().find(|rollout| rollout.key == key) else {
                missing.push(format!("Deployment {key} is gone"));
                continue;
            };
            let revision: u32 = rollout.revision.parse().unwrap_or(0);
            if rollout.phase == Phase::Complete && revision >= n && rollout.old.active() == 0 {
                lines.push(summary(n, rollout, limits, took));
            } else {
                missing.push(format!("Deployment {key}: {}", rollout.line()));
            }
        }
        for (kind, name) in self.judged.with_each_rollout() {
            // Only objects with a new image have a new generation.
            let (generation, rollout) = match kind {
                "StatefulSet" | "DaemonSet" => (i64::from(n), format!(" rollout {n}")),
                _ => (0, String::new()),
            };
            match done(rows, kind, name, generation, &rollout) {
                // A Job completes only once.
                Ok(_) if kind == "Job" && n > 1 => {}
                Ok(line) => lines.push(line),
                Err(why) => missing.push(why),
            }
        }
        if missing.is_empty() { Ok(lines) } else { Err(missing) }
    }
}

/// The description of an object that is complete at a generation, or its progress.
fn done(rows: &[Row], kind: &str, name: &str, generation: i64, what: &str) -> Result<String, String> {
    let key = NamespacedName::new(NAMESPACE, name);
    let row = rows.iter().find(|row| row.kind == kind && row.key == key);
    let row = row.ok_or_else(|| format!("{kind} {key} is gone"))?;
    if row.progress == Progress::Done && row.generation >= generation {
        Ok(format!("{kind} {key}{what} {}: {}", row.word, row.text))
    } else {
        Err(format!("{kind} {key} {}", row.line()))
    }
}

/// A description of a complete rollout, in one line.
fn summary(n: u32, rollout: &Rollout, limits: &Limits, took: Duration) -> String {
    let mut line = format!("Deployment {} rollout {n} complete in {:.1} s", rollout.key, took.as_secs_f64());
    if let Some(extremes) = limits.extremes(&rollout.key) {
        let bounds = extremes.bounds;
        let _ = write!(line, ": at most {} Pods (replicas + maxSurge: {})", extremes.most, bounds.most);
        if let Some(least) = extremes.least.filter(|_| n > 1) {
            let _ = write!(line, ", at least {least} available (replicas - maxUnavailable: {})", bounds.least);
        }
    }
    line
}
