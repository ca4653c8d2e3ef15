//! A cluster in which the programs of all controllers run, each known to the server by its name.

use std::time::Duration;

use common::{app::ProgramDefinition, clock::Clock, settings::OperatorSettings};
pub(crate) use kubectl_nonet::controllers::PROGRAMS;
use sandbox::{Sandbox, loops::Loops, nodes::Nodes};
use serde_json::{Value, json};

/// How often a node says that it is alive: as rarely as its grace period of 50 s allows.
const HEARTBEAT: Option<Duration> = Some(Duration::from_secs(30));

pub(crate) struct Cluster {
    pub(crate) sandbox: Sandbox,
    pub(crate) clock: Clock,
    _nodes: Nodes,
    _loops: Vec<Loops>,
}

impl Cluster {
    /// A cluster with that many nodes, whose nodes are ready and whose caches are filled. It is midnight.
    pub(crate) async fn start(nodes: u32) -> Self {
        let clock = Clock::simulated(jiff::Timestamp::UNIX_EPOCH, 1);
        let sandbox = Sandbox::builder().clock(clock.clone()).build();
        let nodes = Nodes::builder().count(nodes).heartbeat(HEARTBEAT).start(sandbox.client("nodes"), clock.clone());
        nodes.ready().await;
        let start = |program: &&ProgramDefinition| {
            Loops::start(&sandbox.client(program.name), &clock, OperatorSettings::new(), program.loops)
        };
        let loops = PROGRAMS.iter().map(start).collect();
        clock.sleep(Duration::from_secs(2)).await;
        Self { sandbox, clock, _nodes: nodes, _loops: loops }
    }

    pub(crate) async fn pass(&self, seconds: u64) {
        self.clock.sleep(Duration::from_secs(seconds)).await;
    }

    pub(crate) async fn make_namespace(&self, name: &str) {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        self.sandbox.create(namespace).await.unwrap();
    }

    pub(crate) async fn create(&self, namespace: &str, mut object: Value) {
        object["metadata"]["namespace"] = json!(namespace);
        self.sandbox.create(object).await.unwrap();
    }

    pub(crate) async fn merge(&self, resource: &str, namespace: &str, name: &str, patch: Value) {
        self.sandbox.merge(resource, Some(namespace), name, None, patch).await.unwrap();
    }

    pub(crate) async fn list(&self, resource: &str, namespace: &str) -> Vec<Value> {
        self.sandbox.list(resource, Some(namespace)).await.unwrap()
    }

    pub(crate) async fn status(&self, resource: &str, namespace: &str, name: &str) -> Value {
        self.sandbox.get(resource, Some(namespace), name).await.unwrap()["status"].take()
    }

    pub(crate) async fn pods_of(&self, namespace: &str, kind: &str) -> usize {
        let owned = |pod: &Value| pod["metadata"]["ownerReferences"][0]["kind"] == kind;
        self.list("pods", namespace).await.iter().filter(|pod| owned(pod)).count()
    }

    /// The number of requests with that verb that the programs sent for a resource, or for all but Leases.
    pub(crate) fn sent(&self, verbs: &[&str], resource: Option<&str>) -> u64 {
        let is_of_programs = |identity: &str| PROGRAMS.iter().any(|program| program.name == identity);
        let counts = self.sandbox.requests().all();
        let wanted = counts.iter().filter(|(key, _)| {
            is_of_programs(&key.identity)
                && verbs.contains(&key.verb)
                && resource.map_or(key.resource != "leases.coordination.k8s.io", |wanted| wanted == key.resource)
        });
        wanted.map(|(_, count)| count).sum()
    }

    pub(crate) fn writes(&self) -> u64 {
        self.sent(&["create", "update", "patch", "delete", "deletecollection"], None)
    }

    /// Requires that no program sends a write in an hour.
    pub(crate) async fn rests(&self) {
        let before = self.writes();
        self.pass(3600).await;
        assert_eq!(self.writes() - before, 0, "writes in an hour of rest: {:?}", self.sandbox.requests().all());
    }
}

/// A template of Pods that are ready after a second and end within two.
pub(crate) fn template(app: &str, image: &str) -> Value {
    json!({"metadata": {"labels": {"app": app}, "annotations": {"sim/ready-after": "1", "sim/terminate-after": "2"}},
        "spec": {"containers": [{"name": "c", "image": image}]}})
}

/// A Deployment, StatefulSet, DaemonSet or ReplicaSet of that name.
pub(crate) fn workload(kind: &str, name: &str, more: Value) -> Value {
    let mut spec = json!({"selector": {"matchLabels": {"app": name}}, "template": template(name, "img:1")});
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": spec})
}

/// The specification of a Job whose Pods succeed after five seconds.
pub(crate) fn work(completions: u64) -> Value {
    json!({"parallelism": completions, "completions": completions, "template": {
        "metadata": {"labels": {"app": "sum"},
            "annotations": {"sim/exit": "0", "sim/after": "5", "sim/terminate-after": "2"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "img:1"}]}}})
}

pub(crate) fn job(completions: u64) -> Value {
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "sum", "annotations": {"owner": "me"}}, "spec": work(completions)})
}

/// A CronJob named `tick` that is due once, that many minutes after midnight.
pub(crate) fn cron_job(minute: u64) -> Value {
    json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "tick"},
        "spec": {"schedule": format!("{minute} 0 1 1 *"), "timeZone": "Etc/UTC", "jobTemplate": {"spec": work(1)}}})
}

/// One of each kind: 3 Pods of a Deployment `web`, 2 of a StatefulSet `db`, one for each node of a DaemonSet `agent`, 2 of a Job.
pub(crate) fn one_of_each() -> [Value; 5] {
    [
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
            "spec": {"selector": {"app": "web"}, "ports": [{"name": "http", "port": 80, "targetPort": 8080}]}}),
        workload("Deployment", "web", json!({"replicas": 3})),
        workload("StatefulSet", "db", json!({"replicas": 2, "serviceName": "db"})),
        workload("DaemonSet", "agent", json!({})),
        job(2),
    ]
}

/// Another image for an object with a template.
pub(crate) fn image(image: &str) -> Value {
    json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}})
}
