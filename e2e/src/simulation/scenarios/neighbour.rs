//! What ordinary users do beside a hostile neighbour, whose objects are in [`neighbour`](crate::simulation::neighbour).
//!
//! The scenarios are the ordinary part. The plan lets a neighbour move in before any of their steps, and random runs always
//! have one, so that every other fault happens beside a neighbour, too.

use std::time::Duration;

use common::settings::TuneValue;
use serde_json::{Value, json};

use super::{
    cronjob_invariants, deployment_invariants, endpointslice_invariants, job_invariants, replicaset::pod_interferences,
    replicaset_invariants, statefulset_invariants,
};
use crate::simulation::{
    scenario::{Interference, Scenario, Step, Suite, What, after, settled},
    world::World,
};

/// All workload controllers together.
pub(super) const SUITE: Suite = Suite {
    name: "neighbour",
    programs: &[
        &deployment_controller::DEFINITION,
        &replicaset_controller::DEFINITION,
        &statefulset_controller::DEFINITION,
        &job_controller::DEFINITION,
        &cronjob_controller::DEFINITION,
        &endpointslice_controller::DEFINITION,
    ],
    tunes: &[("max-endpoints-per-slice", TuneValue::Count(endpointslice_invariants::MAX_ENDPOINTS))],
    gates: &[],
    scenarios,
    invariants: &[
        deployment_invariants::INVARIANTS,
        replicaset_invariants::INVARIANTS,
        statefulset_invariants::INVARIANTS,
        statefulset_invariants::ONE_BY_ONE,
        job_invariants::INVARIANTS,
        cronjob_invariants::INVARIANTS,
        endpointslice_invariants::INVARIANTS,
    ],
    promises: &[
        deployment_invariants::PROMISES,
        replicaset_invariants::PROMISES,
        statefulset_invariants::PROMISES,
        job_invariants::PROMISES,
        cronjob_invariants::PROMISES,
        endpointslice_invariants::PROMISES,
    ],
    interferences: &[
        Interference { name: "delete-pod", act: pod_interferences::delete },
        Interference { name: "roll-out", act: roll_out },
    ],
};

const DEPLOYMENTS: &str = "deployments.apps";
const STATEFUL_SETS: &str = "statefulsets.apps";
const WEB: &str = "web";
const DB: &str = "db";

/// A template of Pods that take a second to become ready and two to end.
fn template(app: &str, image: &str) -> Value {
    json!({"metadata": {"labels": {"app": app}, "annotations": {"sim/ready-after": "1", "sim/terminate-after": "2"}},
        "spec": {"containers": [{"name": "c", "image": image}]}})
}

fn create(object: Value) -> Step {
    after(0.1, What::Create(object))
}

fn service() -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": WEB},
        "spec": {"selector": {"app": WEB}, "ports": [{"name": "http", "port": 80, "targetPort": 8080}]}})
}

fn deployment() -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": WEB},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": WEB}}, "template": template(WEB, "img:1"),
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}}})
}

fn stateful_set() -> Value {
    json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": DB},
        "spec": {"replicas": 2, "serviceName": DB, "selector": {"matchLabels": {"app": DB}},
            "template": template(DB, "img:1")}})
}

/// The specification of a Job whose Pods succeed after five seconds.
fn work(completions: i64) -> Value {
    json!({"parallelism": 2, "completions": completions, "template": {
        "metadata": {"labels": {"app": "work"},
            "annotations": {"sim/exit": "0", "sim/after": "5", "sim/terminate-after": "2"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "img:1"}]}}})
}

fn job() -> Value {
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "sum"}, "spec": work(3)})
}

/// A CronJob that is due at 09:50, and not again for a year.
fn cron_job() -> Value {
    json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "tick"},
        "spec": {"schedule": "50 9 21 11 *", "timeZone": "Etc/UTC", "jobTemplate": {"spec": work(1)}}})
}

fn rolled_out(image: &str) -> What {
    What::merge(
        DEPLOYMENTS,
        WEB,
        json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}}),
    )
}

fn scaled(replicas: i64) -> What {
    What::merge(STATEFUL_SETS, DB, json!({"spec": {"replicas": replicas}}))
}

fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario {
            name: "rollout",
            about: "a Deployment behind a Service is rolled out",
            steps: vec![create(service()), create(deployment()), settled(rolled_out("img:2"))],
        },
        Scenario {
            name: "scale",
            about: "a StatefulSet grows and shrinks",
            steps: vec![create(stateful_set()), settled(scaled(4)), settled(scaled(1))],
        },
        Scenario { name: "job", about: "a Job completes", steps: vec![create(job())] },
        Scenario {
            name: "cronjob",
            about: "a CronJob starts its Job a few seconds after it was created",
            steps: vec![after(145.0, What::Create(cron_job()))],
        },
    ]
}

/// The Deployment is rolled out, and rolled back a while later.
fn roll_out(world: &World, luck: u64) -> Vec<(Duration, What)> {
    if world.get(DEPLOYMENTS, crate::simulation::stage::NAMESPACE, WEB).is_none() {
        return Vec::new();
    }
    vec![(Duration::ZERO, rolled_out("img:3")), (Duration::from_secs(luck % 30), rolled_out("img:1"))]
}
