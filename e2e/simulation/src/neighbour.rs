//! Tenants that write the worst objects the API server accepts, in a namespace of their own.
//!
//! A neighbour is a perturbation: the same scenario runs with it and without it, and [`judge`](super::judge) compares the
//! two. Nothing in the neighbour's namespace reaches the [`World`](super::world::World), so invariants, promises, the end
//! state, and the time that users wait for are those of the other namespaces. The neighbour itself never comes to rest: its
//! controllers retry for ever.

use serde_json::{Value, json};

/// The namespace of every neighbour.
pub const NAMESPACE: &str = "neighbour";

const MOST: i64 = i32::MAX as i64;
/// Number of ReplicaSets of the neighbour `crowd`.
pub const CROWD: usize = 100;
const DAEMONS: usize = 20;
/// Number of objects of the neighbour `owners`, and of the owners that each names.
const OWNED: usize = 50;
const OWNERS: usize = 40;
/// Number of Pods of the neighbour `strays`, and of the tolerations of each.
const STRAYS: usize = 50;
const TOLERATIONS: usize = 100;
/// Number of addresses in the Endpoints of the neighbour `addresses`: three times the number that is mirrored.
const ADDRESSES: usize = 3_000;

/// A hostile tenant.
pub struct Neighbour {
    /// Name, as in `neighbour:refused@step1`.
    pub name: &'static str,
    /// Description in one line.
    pub about: &'static str,
    /// The objects it creates, in this order, without their namespace.
    objects: fn() -> Vec<Value>,
}

impl Neighbour {
    /// The objects it creates, in its namespace, which must exist.
    pub(super) fn objects(&self) -> Vec<Value> {
        let mut objects = (self.objects)();
        for object in &mut objects {
            object["metadata"]["namespace"] = json!(NAMESPACE);
        }
        objects
    }
}

/// The neighbour of that name.
pub fn find(name: &str) -> Option<&'static Neighbour> {
    NEIGHBOURS.iter().find(|neighbour| neighbour.name == name)
}

pub(super) fn namespace() -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
}

/// Every neighbour.
pub const NEIGHBOURS: &[Neighbour] = &[
    Neighbour {
        name: "refused",
        about: "controllers of 2,147,483,647 Pods each, which a quota refuses",
        objects: refused,
    },
    Neighbour {
        name: "unready",
        about: "a StatefulSet of 2,147,483,647 ordered Pods whose first Pod never becomes ready, and rollouts that never complete",
        objects: unready,
    },
    Neighbour {
        name: "cronjobs",
        about: "CronJobs with invalid annotations and the largest limits, whose Jobs a quota refuses",
        objects: cronjobs,
    },
    Neighbour {
        name: "addresses",
        about: "Endpoints of 3,000 addresses, and a Service for each of a hundred ports",
        objects: addresses,
    },
    Neighbour { name: "crowd", about: "100 ReplicaSets that fail at the same time, repeatedly", objects: crowd },
    Neighbour {
        name: "daemons",
        about: "20 DaemonSets, half of them with Pods that a quota refuses, and half with Pods that never become ready",
        objects: daemons,
    },
    Neighbour {
        name: "owners",
        about: "objects that own each other in a circle, and 50 objects with 40 owners each whose kinds and names do not exist",
        objects: owners,
    },
    Neighbour {
        name: "strays",
        about: "50 Pods with a hundred tolerations each, on one existing node and on nodes that do not exist",
        objects: strays,
    },
];

fn no_pods() -> Value {
    json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "no-pods"},
        "spec": {"hard": {"pods": "0", "persistentvolumeclaims": "0"}}})
}

fn template(app: &str, annotations: Value) -> Value {
    json!({"metadata": {"labels": {"app": app}, "annotations": annotations},
        "spec": {"containers": [{"name": "c", "image": "img:1"}]}})
}

fn workload(kind: &str, name: &str, replicas: i64, annotations: Value, more: Value) -> Value {
    let mut object = json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template(name, annotations)}});
    for (field, value) in more.as_object().into_iter().flatten() {
        object["spec"][field] = value.clone();
    }
    object
}

fn never_ready() -> Value {
    json!({"sim/never-ready": "true"})
}

fn any_surge() -> Value {
    json!({"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": MOST, "maxUnavailable": MOST}}})
}

fn job(name: &str, mut spec: Value) -> Value {
    spec["template"] = template(name, json!({}));
    spec["template"]["spec"]["restartPolicy"] = json!("Never");
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec})
}

fn refused() -> Vec<Value> {
    let claims = json!([{"metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}]);
    let parallel = json!({"podManagementPolicy": "Parallel", "serviceName": "parallel"});
    let claiming = json!({"serviceName": "claiming", "volumeClaimTemplates": claims, "ordinals": {"start": MOST}});
    vec![
        no_pods(),
        workload("ReplicaSet", "set", MOST, json!({}), json!({})),
        workload("StatefulSet", "parallel", MOST, json!({}), parallel),
        workload("StatefulSet", "claiming", MOST, json!({}), claiming),
        workload("Deployment", "surge", MOST, json!({}), any_surge()),
        job("many", json!({"parallelism": MOST, "completions": MOST, "backoffLimit": MOST})),
        // The most that is accepted of an indexed Job of this size.
        job(
            "indexed",
            json!({"completionMode": "Indexed", "parallelism": 10_000, "completions": MOST, "backoffLimitPerIndex": MOST,
                "maxFailedIndexes": 10_000}),
        ),
    ]
}

fn unready() -> Vec<Value> {
    vec![
        workload("StatefulSet", "ordered", MOST, never_ready(), json!({"serviceName": "ordered"})),
        workload("Deployment", "stuck", 2, never_ready(), any_surge()),
    ]
}

fn cronjobs() -> Vec<Value> {
    let garbage = json!({
        "batch.kubernetes.io/cronjob-scheduled-timestamp": "\u{fffd} no time",
        "batch.kubernetes.io/job-tracking": "{[",
        "neighbour.example.com/long": "x".repeat(100_000),
    });
    let cron = |name: &str, schedule: &str, deadline: i64| {
        json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": name, "annotations": garbage},
            "spec": {"schedule": schedule, "timeZone": "Etc/UTC", "startingDeadlineSeconds": deadline,
                "successfulJobsHistoryLimit": MOST, "failedJobsHistoryLimit": MOST,
                "jobTemplate": {"metadata": {"annotations": garbage}, "spec": job("run", json!({"parallelism": MOST}))["spec"]}}})
    };
    vec![no_pods(), cron("often", "*/10 * * * *", i64::MAX), cron("never", "0 0 31 2 *", 0)]
}

fn addresses() -> Vec<Value> {
    let ip = |n: usize| json!({"ip": format!("192.168.{}.{}", n / 250, n % 250 + 1)});
    let addresses: Vec<Value> = (0..ADDRESSES).map(ip).collect();
    let service = |name: String, port: usize| json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": {"ports": [{"port": port}]}});
    let mut objects = vec![
        service("many".to_owned(), 80),
        json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "many"},
            "subsets": [{"addresses": addresses, "ports": [{"port": 80, "protocol": "TCP"}]}]}),
    ];
    objects.extend((0..100).map(|n| {
        let mut service = service(format!("port-{n}"), 8_000 + n);
        service["spec"]["selector"] = json!({"app": "nobody"});
        service
    }));
    objects
}

fn crowd() -> Vec<Value> {
    let set = |n: usize| workload("ReplicaSet", &format!("set-{n}"), MOST, json!({}), json!({}));
    std::iter::once(no_pods()).chain((0..CROWD).map(set)).collect()
}

fn daemons() -> Vec<Value> {
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few-pods"},
        "spec": {"hard": {"pods": (DAEMONS * 3 / 2).to_string()}}});
    let set = |n: usize| {
        let mut set = workload("DaemonSet", &format!("agent-{n}"), 0, never_ready(), json!({}));
        let spec = &mut set["spec"];
        if let Some(spec) = spec.as_object_mut() {
            spec.remove("replicas");
        }
        spec["updateStrategy"] =
            json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "100%", "maxUnavailable": 0}});
        spec["template"]["spec"]["tolerations"] = json!([{"operator": "Exists"}]);
        set
    };
    std::iter::once(quota).chain((0..DAEMONS).map(set)).collect()
}

fn owners() -> Vec<Value> {
    let map = |name: String, owners: Vec<Value>| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "ownerReferences": owners,
            "finalizers": ["neighbour.example.com/keep"]}})
    };
    let uid = |n: usize| format!("00000000-0000-4000-8000-{n:012x}");
    let nobody = |n: usize| {
        let (version, kind) =
            [("v1", "ConfigMap"), ("v1", "Namespace"), ("neighbour.example.com/v1", "Nothing")][n % 3];
        json!({"apiVersion": version, "kind": kind, "name": format!("nobody-{n}"), "uid": uid(n),
            "blockOwnerDeletion": true})
    };
    // Whose uid is wrong and whose name is right, each the other's owner.
    let wrong = |n: usize| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": format!("ring-{n}"), "uid": uid(n)});
    let ring = (0..2).map(|n| map(format!("ring-{n}"), vec![wrong(1 - n)]));
    ring.chain((0..OWNED).map(|n| map(format!("map-{n}"), (0..OWNERS).map(|k| nobody(n * OWNERS + k)).collect())))
        .collect()
}

fn strays() -> Vec<Value> {
    let toleration = |n: usize| {
        json!({"key": format!("neighbour.example.com/{n}"), "operator": "Exists", "effect": "NoExecute",
            "tolerationSeconds": i64::MAX - n as i64})
    };
    let tolerations: Vec<Value> = (0..TOLERATIONS).map(toleration).collect();
    let pod = |n: usize| {
        let node = if n.is_multiple_of(2) { "node-0".to_owned() } else { format!("nowhere-{n}") };
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("stray-{n}"),
                "finalizers": ["neighbour.example.com/keep"]},
            "spec": {"nodeName": node, "tolerations": tolerations, "containers": [{"name": "c", "image": "img:1"}]}})
    };
    (0..STRAYS).map(pod).collect()
}
