//! What ordinary users do beside a hostile neighbour, whose objects are in [`neighbour`](crate::neighbour).
//!
//! The scenarios are the ordinary part. The plan lets a neighbour move in before any of their steps, and random runs always
//! have one, so that every other fault happens beside a neighbour, too.

use std::time::Duration;

use common::settings::TunableValue;
use serde_json::{Value, json};

use super::{
    cronjob_invariants, daemonset_invariants, deployment_invariants, endpointslice_invariants, gc, gc_invariants,
    job_invariants, node_lifecycle, node_lifecycle_invariants, replicaset::pod_interferences, replicaset_invariants,
    statefulset_invariants,
};
use crate::{
    scenario::{Interference, Scenario, Step, Suite, What, after, settled},
    world::World,
};

/// All controllers together. The nodes have no heartbeats that somebody could judge.
pub(super) const SUITE: Suite = Suite {
    name: "neighbour",
    programs: &[
        &deployment_controller::DEFINITION,
        &replicaset_controller::DEFINITION,
        &statefulset_controller::DEFINITION,
        &job_controller::DEFINITION,
        &cronjob_controller::DEFINITION,
        &endpointslice_controller::DEFINITION,
        &daemonset_controller::DEFINITION,
        &gc_controller::DEFINITION,
        &node_lifecycle::OF_PODS,
    ],
    tunes: &[("max-endpoints-per-slice", TunableValue::Count(endpointslice_invariants::MAX_ENDPOINTS)), gc::TUNES[0]],
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
        daemonset_invariants::INVARIANTS,
        gc_invariants::INVARIANTS,
        node_lifecycle_invariants::OF_EVICTION,
    ],
    promises: &[
        deployment_invariants::PROMISES,
        replicaset_invariants::PROMISES,
        statefulset_invariants::PROMISES,
        job_invariants::PROMISES,
        cronjob_invariants::PROMISES,
        endpointslice_invariants::PROMISES,
        daemonset_invariants::PROMISES,
        gc_invariants::PROMISES,
    ],
    interferences: &[
        Interference { name: "delete-pod", act: pod_interferences::delete },
        Interference { name: "roll-out", act: roll_out },
    ],
};

const DEPLOYMENTS: &str = "deployments.apps";
const STATEFUL_SETS: &str = "statefulsets.apps";
const DAEMON_SETS: &str = "daemonsets.apps";
const JOBS: &str = "jobs.batch";
const NODES: &str = "nodes";
const WEB: &str = "web";
const AGENT: &str = "agent";
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

fn daemon_set() -> Value {
    json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": AGENT},
        "spec": {"selector": {"matchLabels": {"app": AGENT}}, "template": template(AGENT, "img:1")}})
}

/// The specification of a Job whose Pods succeed after five seconds.
fn work(completions: i64) -> Value {
    json!({"parallelism": 2, "completions": completions, "template": {
        "metadata": {"labels": {"app": "work"},
            "annotations": {"sim/exit": "0", "sim/after": "5", "sim/terminate-after": "2"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "img:1"}]}}})
}

/// A Job whose Pods never end.
fn endless_job() -> Value {
    let mut job = job();
    job["spec"]["template"]["metadata"]["annotations"] = json!({"sim/terminate-after": "2"});
    job
}

fn deleted(resource: &str, name: &str) -> What {
    What::Delete(resource.to_owned(), name.to_owned(), json!({}))
}

fn job() -> Value {
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "sum"}, "spec": work(3)})
}

/// A CronJob that is due at 09:50, and not again for a year.
fn cron_job() -> Value {
    json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "tick"},
        "spec": {"schedule": "50 9 21 11 *", "timeZone": "Etc/UTC", "jobTemplate": {"spec": work(1)}}})
}

/// Another image for an object with a template.
fn with_image(resource: &str, name: &str, image: &str) -> What {
    let containers = json!([{"name": "c", "image": image}]);
    What::merge(resource, name, json!({"spec": {"template": {"spec": {"containers": containers}}}}))
}

fn rolled_out(image: &str) -> What {
    with_image(DEPLOYMENTS, WEB, image)
}

/// The node has these taints from now on.
fn tainted(taints: Value) -> What {
    What::merge(NODES, "node-0", json!({"spec": {"taints": taints}}))
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
        Scenario {
            name: "daemons",
            about: "a DaemonSet is rolled out",
            steps: vec![create(daemon_set()), settled(with_image(DAEMON_SETS, AGENT, "img:2"))],
        },
        Scenario {
            name: "cascade",
            about: "a Deployment is deleted with everything that belongs to it",
            steps: vec![create(deployment()), settled(deleted(DEPLOYMENTS, WEB))],
        },
        Scenario {
            name: "cascade-of-all",
            about: "a StatefulSet, a DaemonSet and a Job are deleted with everything that belongs to them",
            steps: vec![
                create(stateful_set()),
                create(daemon_set()),
                create(endless_job()),
                settled(deleted(DAEMON_SETS, AGENT)),
                after(0.1, deleted(STATEFUL_SETS, DB)),
                after(0.1, deleted(JOBS, "sum")),
            ],
        },
        Scenario {
            name: "eviction",
            about: "the Pods of a Deployment have to leave a node",
            steps: vec![
                create(deployment()),
                settled(tainted(json!([{"key": "sim.example.com/leave", "effect": "NoExecute"}]))),
                settled(tainted(json!(null))),
            ],
        },
    ]
}

/// The Deployment is rolled out, and rolled back a while later.
fn roll_out(world: &World, luck: u64) -> Vec<(Duration, What)> {
    if world.get(DEPLOYMENTS, crate::stage::NAMESPACE, WEB).is_none() {
        return Vec::new();
    }
    vec![(Duration::ZERO, rolled_out("img:3")), (Duration::from_secs(luck % 30), rolled_out("img:1"))]
}
