//! The example application: a shop of two Deployments, rolled out twice.

use std::{fmt::Write as _, time::Duration};

use common::{clock::Instant, meta::Key};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    limits::Limits,
    rollout::{Phase, Rollout},
    world::World,
};

/// The namespace of the example.
pub(super) const NAMESPACE: &str = "shop";
/// How long one rollout may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// One Deployment of the example.
struct App {
    name: &'static str,
    replicas: u32,
    max_surge: Value,
    max_unavailable: Value,
    min_ready_seconds: u32,
    /// How its Pods come up, as the nodes of the sandbox understand it.
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
pub(super) fn names() -> Vec<&'static str> {
    apps().iter().map(|app| app.name).collect()
}

/// The image of one of them in its `n`th version.
fn image(name: &str, n: u32) -> String {
    format!("example.com/{NAMESPACE}/{name}:1.{n}")
}

/// What is applied first.
pub(super) fn objects() -> Vec<Value> {
    let mut objects = vec![json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})];
    for app in apps() {
        let labels = json!({"app.kubernetes.io/name": app.name, "app.kubernetes.io/part-of": NAMESPACE});
        let annotations: serde_json::Map<String, Value> =
            app.script.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect();
        objects.push(json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": app.name, "namespace": NAMESPACE, "labels": labels},
            "spec": {
                "replicas": app.replicas,
                "minReadySeconds": app.min_ready_seconds,
                "strategy": {
                    "type": "RollingUpdate",
                    "rollingUpdate": {"maxSurge": app.max_surge, "maxUnavailable": app.max_unavailable},
                },
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels, "annotations": annotations},
                    "spec": {"containers": [{
                        "name": app.name,
                        "image": image(app.name, 1),
                        "ports": [{"name": "http", "containerPort": 8080}],
                        "readinessProbe": {"httpGet": {"path": "/ready", "port": "http"}},
                        "resources": {"requests": {"cpu": "50m", "memory": "32Mi"}},
                    }]},
                },
            },
        }));
    }
    objects
}

/// The patch that makes a Deployment roll out its `n`th version.
pub(super) fn update(name: &str, n: u32) -> Value {
    json!({"spec": {"template": {"spec": {"containers": [{"name": name, "image": image(name, n)}]}}}})
}

/// Where the example is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The first or second rollout is on its way.
    Rolling(u32),
    /// Both are done.
    Done,
}

/// What is to be done next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Nothing: it is still on its way.
    Wait,
    /// A rollout is complete: these lines say how it went. The images are to be updated.
    Update(Vec<String>),
    /// Both rollouts are complete: these lines say how the last one went.
    Done(Vec<String>),
    /// It takes too long, for this reason.
    Late(String),
}

/// Follows the example through its rollouts.
#[derive(Debug)]
pub(super) struct Example {
    step: Step,
    since: Instant,
    late: bool,
}

impl Example {
    /// The example was just applied.
    pub(super) fn applied(now: Instant) -> Self {
        Self { step: Step::Rolling(1), since: now, late: false }
    }

    /// One line about where it is.
    pub(super) fn status(&self) -> String {
        match self.step {
            Step::Rolling(1) => "the example is rolled out for the first time".to_owned(),
            Step::Rolling(_) => "the example's images were updated and are rolled out".to_owned(),
            Step::Done => "the example has rolled out twice".to_owned(),
        }
    }

    /// Looks how far it is.
    pub(super) fn look(&mut self, world: &World, limits: &Limits, now: Timestamp, instant: Instant) -> Next {
        let Step::Rolling(n) = self.step else { return Next::Wait };
        let mut lines = Vec::new();
        let mut missing = Vec::new();
        for name in names() {
            let key = Key::new(NAMESPACE, name);
            let Some(deployment) = world.deployment(&key) else {
                missing.push(format!("{key} is gone"));
                continue;
            };
            let rollout = Rollout::of(world, &key, deployment, now);
            let revision: u32 = rollout.revision.parse().unwrap_or(0);
            if rollout.phase != Phase::Complete || revision < n || rollout.old.active() > 0 {
                missing.push(format!("{key}: {}", rollout.line()));
                continue;
            }
            lines.push(summary(n, &rollout, limits, instant - self.since));
        }
        if !missing.is_empty() {
            let late = instant - self.since > PATIENCE && !self.late;
            self.late |= late;
            let why = || format!("rollout {n} is not complete after {} s: {}", PATIENCE.as_secs(), missing.join("; "));
            return if late { Next::Late(why()) } else { Next::Wait };
        }
        self.since = instant;
        self.step = if n == 1 { Step::Rolling(2) } else { Step::Done };
        if n == 1 { Next::Update(lines) } else { Next::Done(lines) }
    }
}

/// How a complete rollout went, in one line.
fn summary(n: u32, rollout: &Rollout, limits: &Limits, took: Duration) -> String {
    let mut line = format!("{} rollout {n} complete in {:.1} s", rollout.key, took.as_secs_f64());
    if let Some(extremes) = limits.extremes(&rollout.key) {
        let bounds = extremes.bounds;
        let _ = write!(line, ": at most {} Pods (replicas + maxSurge: {})", extremes.most, bounds.most);
        if let Some(least) = extremes.least.filter(|_| n > 1) {
            let _ = write!(line, ", at least {least} available (replicas - maxUnavailable: {})", bounds.least);
        }
    }
    line
}
