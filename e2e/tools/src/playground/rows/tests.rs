use std::sync::Arc;

use http::Method;
use serde_json::{Value, json};

use super::*;
use crate::sandbox::Sandbox;

const MERGE: &str = "application/merge-patch+json";

/// A sandbox, and the rows that follow from what was written to it.
struct Fixture(Sandbox);

impl Fixture {
    fn new() -> Self {
        Self(Sandbox::builder().writes(1000).build())
    }

    async fn apply(&self, api_version: &str, kind: &str, metadata: Value, spec: Value) -> Value {
        let object = json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec});
        self.0.apply(object).await.unwrap()
    }

    async fn status(&self, path: &str, status: Value) {
        let body = json!({"status": status});
        self.0.send(Method::PATCH, &format!("{path}/status"), MERGE, Some(&body)).await.unwrap();
    }

    fn world(&self) -> World {
        let mut world = World::default();
        self.0.writes().all().iter().for_each(|write| world.apply(write));
        world
    }

    /// The only row of a kind.
    fn row(&self, kind: &str) -> Row {
        let rows = rows(&self.world(), "2026-01-01T00:00:00Z".parse().unwrap());
        let mut found = rows.into_iter().filter(|row| row.kind == kind);
        let row = found.next().unwrap();
        assert_eq!(found.next(), None);
        row
    }

    fn state(&self, kind: &str) -> (&'static str, Progress) {
        let row = self.row(kind);
        (row.word, row.progress)
    }
}

fn named(name: &str) -> Value {
    json!({"name": name, "namespace": "default"})
}

fn template(restart: &str) -> Value {
    json!({"metadata": {"labels": {"app": "x"}}, "spec": {"restartPolicy": restart, "containers": [{"name": "c", "image": "i"}]}})
}

/// The spec of a workload of two.
fn spec(more: Value) -> Value {
    let mut spec = json!({"replicas": 2, "selector": {"matchLabels": {"app": "x"}}, "template": template("Always")});
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    spec
}

#[tokio::test]
async fn a_workload_is_complete_when_every_pod_is_new_and_available() {
    let rolling = json!({"strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}});
    let mut daemons = spec(json!({}));
    daemons.as_object_mut().unwrap().remove("replicas");
    let (replicas, scheduled) = (
        ["replicas", "updatedReplicas", "readyReplicas", "availableReplicas"],
        ["desiredNumberScheduled", "updatedNumberScheduled", "numberReady", "numberAvailable"],
    );
    for (kind, spec, fields, more) in [
        ("Deployment", spec(rolling), replicas, "  revision 0  (2 to 3 Pods)"),
        ("StatefulSet", spec(json!({"serviceName": "db"})), replicas, ""),
        ("DaemonSet", daemons, scheduled, ""),
    ] {
        let fixture = Fixture::new();
        fixture.apply("apps/v1", kind, named("db"), spec).await;
        assert_eq!(fixture.state(kind), ("pending", Progress::Underway), "{kind}");
        let path = format!("/apis/apps/v1/namespaces/default/{}s/db", kind.to_lowercase());
        let status = |counts: [u32; 4]| {
            let counts = fields.into_iter().zip(counts).map(|(field, count)| (field.to_owned(), json!(count)));
            Value::Object(counts.chain([("observedGeneration".to_owned(), json!(1))]).collect())
        };
        for counts in [[2, 1, 2, 2], [2, 2, 2, 1]] {
            fixture.status(&path, status(counts)).await;
            assert_eq!(fixture.state(kind), ("rolling", Progress::Underway), "{kind} {counts:?}");
        }
        fixture.status(&path, status([2, 2, 2, 2])).await;
        let line = format!("complete: new 2/2  ready 2  available 2  i{more}");
        assert_eq!((fixture.row(kind).progress, fixture.row(kind).line()), (Progress::Done, line));
    }
}

#[test]
fn a_rollout_can_be_paused_and_can_fail() {
    let described = |more: Value| {
        let mut deployment = json!({
            "metadata": {"generation": 2},
            "spec": {"replicas": 3},
            "status": {"observedGeneration": 2, "replicas": 3, "updatedReplicas": 1, "availableReplicas": 3},
        });
        for (part, fields) in more.as_object().unwrap() {
            deployment[part].as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        }
        let (progress, word, text) = workload(&Object(Arc::new(deployment)));
        (progress, word, text.contains("too late"))
    };
    assert_eq!(described(json!({"spec": {"paused": true}})), (Progress::Suspended, "paused", false));
    let late = json!([{"type": "Progressing", "status": "False", "message": "too late"}]);
    assert_eq!(described(json!({"status": {"conditions": late}})), (Progress::Failed, "failed", true));
    assert_eq!(described(json!({"status": {"updatedReplicas": 3}})).1, "complete");
    assert_eq!(described(json!({"status": {"updatedReplicas": 3, "observedGeneration": 1}})).1, "pending");
}

#[tokio::test]
async fn a_service_is_done_when_its_slices_name_as_many_pods_as_are_ready() {
    let fixture = Fixture::new();
    fixture.apply("v1", "Service", named("web"), json!({"selector": {"app": "x"}, "ports": [{"port": 80}]})).await;
    assert_eq!(fixture.state("Service"), ("empty", Progress::Done));
    let metadata = json!({"name": "p", "namespace": "default", "labels": {"app": "x"}});
    fixture.apply("v1", "Pod", metadata, template("Always")["spec"].clone()).await;
    let ready = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
    fixture.status("/api/v1/namespaces/default/pods/p", ready).await;
    assert_eq!(fixture.state("Service"), ("updating", Progress::Underway));
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": "web-1", "namespace": "default", "labels": {"kubernetes.io/service-name": "web"}},
        "addressType": "IPv4",
        "endpoints": [
            {"addresses": ["10.0.0.1"], "conditions": {"ready": true}},
            {"addresses": ["10.0.0.2"], "conditions": {"ready": false}},
        ],
    });
    fixture.0.apply(slice).await.unwrap();
    assert_eq!(fixture.state("Service"), ("current", Progress::Done));
    let text = fixture.row("Service").text;
    assert!(text.starts_with("endpoints 1/1 ready Pods, 1 slice, 10."), "{text}");
}

#[tokio::test]
async fn jobs_of_a_cron_job_are_part_of_its_row() {
    let fixture = Fixture::new();
    let job = json!({"template": template("Never")});
    let spec = json!({"schedule": "* * * * *", "jobTemplate": {"spec": job}});
    let made = fixture.apply("batch/v1", "CronJob", named("report"), spec).await;
    assert_eq!(fixture.row("CronJob").line(), "scheduled: \"* * * * *\", no Job yet");
    let owner = json!({
        "apiVersion": "batch/v1", "kind": "CronJob", "name": "report", "uid": made["metadata"]["uid"], "controller": true,
    });
    let metadata = json!({"name": "report-29000001", "namespace": "default", "ownerReferences": [owner]});
    fixture.apply("batch/v1", "Job", metadata, job.clone()).await;
    assert_eq!(fixture.row("CronJob").line(), "scheduled: \"* * * * *\", 1 Job, last report-29000001 running");
    fixture.apply("batch/v1", "Job", named("alone"), json!({"completions": 3, "template": job["template"]})).await;
    assert_eq!(fixture.row("Job").line(), "running: succeeded 0/3  active 0");
    let path = "/apis/batch/v1/namespaces/default/cronjobs/report";
    fixture.status(path, json!({"lastSuccessfulTime": "2026-01-01T00:00:02Z"})).await;
    assert_eq!(fixture.row("CronJob").word, "scheduled", "a Job that was started by hand is no run of the schedule");
    fixture.status(path, json!({"lastScheduleTime": "2026-01-01T00:00:00Z"})).await;
    assert_eq!(fixture.state("CronJob"), ("has run", Progress::Done));
}

#[tokio::test]
async fn nodes_are_shown_with_their_power_and_taints_and_few_of_them_by_name() {
    let fixture = Fixture::new();
    let taints = |effects: &[&str]| {
        let taint = |effect: &&str| json!({"key": "node.kubernetes.io/unreachable", "effect": effect});
        json!({"taints": effects.iter().map(taint).collect::<Vec<_>>()})
    };
    for (n, (power, spec, ready, line)) in [
        ("", json!({}), "True", None),
        ("on", json!({}), "True", None),
        ("", json!({"unschedulable": true}), "True", Some("node-2 Ready,SchedulingDisabled")),
        ("off", json!({}), "True", Some("node-3 Ready, switched off")),
        (
            "off",
            taints(&["NoSchedule", "NoExecute"]),
            "Unknown",
            Some("node-4 NotReady, switched off, unreachable:NoExecute"),
        ),
        ("", json!({}), "False", Some("and 1 more")),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("node-{n}");
        fixture.apply("v1", "Node", json!({"name": name, "annotations": {POWER: power}}), spec).await;
        let status = json!({"conditions": [{"type": "Ready", "status": ready}]});
        fixture.status(&format!("/api/v1/nodes/{name}"), status).await;
        let shown = node_line(&fixture.world());
        assert_eq!(shown.as_ref().and_then(|shown| shown.rsplit_once("; ")).map(|(_, last)| last), line);
    }
    assert!(node_line(&fixture.world()).unwrap().starts_with("nodes: 4 of 6 Ready; node-2 "));
}
