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

    async fn apply(&self, object: Value) -> Value {
        self.0.apply(object).await.unwrap()
    }

    async fn status(&self, path: &str, status: Value) {
        let body = json!({"status": status});
        self.0.send(Method::PATCH, &format!("{path}/status"), MERGE, Some(&body)).await.unwrap();
    }

    fn row(&self, kind: &str) -> Row {
        let mut world = World::default();
        for write in self.0.writes().all() {
            world.apply(&write);
        }
        let rows = world.rows("2026-01-01T00:00:00Z".parse().unwrap());
        let mut found = rows.into_iter().filter(|row| row.kind == kind);
        let row = found.next().unwrap();
        assert_eq!(found.next(), None);
        row
    }
}

fn template(command: &[&str]) -> Value {
    json!({
        "metadata": {"labels": {"app": "x"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i", "command": command}]},
    })
}

#[tokio::test]
async fn a_stateful_set_is_done_when_every_pod_is_new_and_ready() {
    let fixture = Fixture::new();
    let mut pods = template(&[]);
    pods["spec"]["restartPolicy"] = "Always".into();
    let spec = json!({"replicas": 2, "serviceName": "db", "selector": {"matchLabels": {"app": "x"}}, "template": pods});
    let metadata = json!({"name": "db", "namespace": "default"});
    fixture.apply(json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata, "spec": spec})).await;
    assert_eq!((fixture.row("StatefulSet").word, fixture.row("StatefulSet").progress), ("pending", Progress::Underway));
    let path = "/apis/apps/v1/namespaces/default/statefulsets/db";
    let status =
        |updated: u32| json!({"observedGeneration": 1, "replicas": 2, "readyReplicas": 2, "updatedReplicas": updated});
    fixture.status(path, status(1)).await;
    assert_eq!((fixture.row("StatefulSet").word, fixture.row("StatefulSet").progress), ("rolling", Progress::Underway));
    fixture.status(path, status(2)).await;
    let row = fixture.row("StatefulSet");
    assert_eq!((row.progress, row.line().as_str()), (Progress::Done, "complete: new 2/2  ready 2  i"));
}

#[tokio::test]
async fn a_daemon_set_is_done_when_every_node_has_a_new_available_pod() {
    let fixture = Fixture::new();
    let mut pods = template(&[]);
    pods["spec"]["restartPolicy"] = "Always".into();
    let spec = json!({"selector": {"matchLabels": {"app": "x"}}, "template": pods});
    let metadata = json!({"name": "logs", "namespace": "default"});
    fixture.apply(json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": metadata, "spec": spec})).await;
    assert_eq!((fixture.row("DaemonSet").word, fixture.row("DaemonSet").progress), ("pending", Progress::Underway));
    let path = "/apis/apps/v1/namespaces/default/daemonsets/logs";
    let status = |updated: u32, available: u32| {
        json!({"observedGeneration": 1, "desiredNumberScheduled": 2, "updatedNumberScheduled": updated,
            "numberAvailable": available})
    };
    for (updated, available) in [(1, 2), (2, 1)] {
        fixture.status(path, status(updated, available)).await;
        assert_eq!((fixture.row("DaemonSet").word, fixture.row("DaemonSet").progress), ("rolling", Progress::Underway));
    }
    fixture.status(path, status(2, 2)).await;
    let row = fixture.row("DaemonSet");
    assert_eq!((row.progress, row.line().as_str()), (Progress::Done, "complete: new 2/2 nodes  available 2  i"));
}

#[tokio::test]
async fn a_service_is_done_when_its_slices_name_as_many_pods_as_are_ready() {
    let fixture = Fixture::new();
    let spec = json!({"selector": {"app": "x"}, "ports": [{"port": 80}]});
    let metadata = json!({"name": "web", "namespace": "default"});
    fixture.apply(json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec})).await;
    assert_eq!((fixture.row("Service").word, fixture.row("Service").progress), ("empty", Progress::Done));
    let mut pod = template(&[]);
    pod["metadata"]["name"] = "p".into();
    pod["metadata"]["namespace"] = "default".into();
    pod["apiVersion"] = "v1".into();
    pod["kind"] = "Pod".into();
    fixture.apply(pod).await;
    let ready = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
    fixture.status("/api/v1/namespaces/default/pods/p", ready).await;
    assert_eq!((fixture.row("Service").word, fixture.row("Service").progress), ("updating", Progress::Underway));
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": "web-1", "namespace": "default", "labels": {SERVICE_NAME: "web"}},
        "addressType": "IPv4",
        "endpoints": [
            {"addresses": ["10.0.0.1"], "conditions": {"ready": true}},
            {"addresses": ["10.0.0.2"], "conditions": {"ready": false}},
        ],
    });
    fixture.apply(slice).await;
    let row = fixture.row("Service");
    assert_eq!((row.word, row.progress), ("current", Progress::Done));
    assert!(row.text.starts_with("endpoints 1/1 ready Pods, 1 slice, 10."), "{}", row.text);
}

#[tokio::test]
async fn jobs_of_a_cron_job_are_part_of_its_row() {
    let fixture = Fixture::new();
    let job = json!({"template": template(&["sleep", "1"])});
    let spec = json!({"schedule": "* * * * *", "jobTemplate": {"spec": job}});
    let metadata = json!({"name": "report", "namespace": "default"});
    let made =
        fixture.apply(json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": metadata, "spec": spec})).await;
    assert_eq!(fixture.row("CronJob").line(), "scheduled: \"* * * * *\", no Job yet");
    let owner = json!({
        "apiVersion": "batch/v1", "kind": "CronJob", "name": "report", "uid": made["metadata"]["uid"], "controller": true,
    });
    let metadata = json!({"name": "report-29000001", "namespace": "default", "ownerReferences": [owner]});
    fixture.apply(json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": job})).await;
    assert_eq!(fixture.row("CronJob").line(), "scheduled: \"* * * * *\", 1 Job, last report-29000001 running");
    let metadata = json!({"name": "alone", "namespace": "default"});
    let spec = json!({"completions": 3, "template": job["template"]});
    fixture.apply(json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec})).await;
    assert_eq!(fixture.row("Job").line(), "running: succeeded 0/3  active 0");
    let path = "/apis/batch/v1/namespaces/default/cronjobs/report";
    fixture.status(path, json!({"lastSuccessfulTime": "2026-01-01T00:00:02Z"})).await;
    assert_eq!(fixture.row("CronJob").word, "scheduled", "a Job that was started by hand is no run of the schedule");
    fixture.status(path, json!({"lastScheduleTime": "2026-01-01T00:00:00Z"})).await;
    assert_eq!((fixture.row("CronJob").word, fixture.row("CronJob").progress), ("has run", Progress::Done));
}
