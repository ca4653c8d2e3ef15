//! ReplicaSets, Deployments, StatefulSets and DaemonSets.

use serde_json::{Value, json};

use super::{
    Operation::{Create, Delete, Status, Update},
    Situation, meet, nothing,
    place::{Place, ready, stray, template, worker},
};

const SETS: &str = "replicasets.apps";
const DEPLOYMENTS: &str = "deployments.apps";
const STATEFUL_SETS: &str = "statefulsets.apps";
const DAEMON_SETS: &str = "daemonsets.apps";

fn workload(kind: &str, more: Value) -> Value {
    let mut spec = json!({"selector": {"matchLabels": {"app": "web"}}, "template": template("img:1")});
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "web"}, "spec": spec})
}

fn replica_set(replicas: u64) -> Value {
    workload("ReplicaSet", json!({"replicas": replicas}))
}

fn deployment(replicas: u64) -> Value {
    workload("Deployment", json!({"replicas": replicas}))
}

fn stateful_set(replicas: u64) -> Value {
    workload("StatefulSet", json!({"replicas": replicas, "serviceName": "web"}))
}

fn daemon_set() -> Value {
    workload("DaemonSet", json!({}))
}

/// A StatefulSet whose Pod has a claim.
fn with_claim() -> Value {
    let mut set = stateful_set(1);
    set["spec"]["volumeClaimTemplates"] = json!([{"metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}]);
    set
}

fn scaled(replicas: u64) -> Value {
    json!({"spec": {"replicas": replicas}})
}

fn another_image() -> Value {
    json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "img:2"}]}}}})
}

fn no_node() -> Value {
    json!({"spec": {"template": {"spec": {"nodeSelector": {"on": "no-node"}}}}})
}

#[test]
fn replica_sets() {
    let situation = Situation::new("", Create, "pods");
    meet(
        replicaset_controller::LOOPS,
        &[],
        nothing,
        &[
            Situation {
                name: "create",
                then: |place| Box::pin(async move { drop(place.create(replica_set(3)).await) }),
                ..situation
            },
            Situation {
                name: "create-of-controller",
                then: |place| {
                    Box::pin(async move {
                        let spec = json!({"replicas": 3, "selector": {"app": "web"}, "template": template("img:1")});
                        let set = json!({"apiVersion": "v1", "kind": "ReplicationController", "metadata": {"name": "web"}, "spec": spec});
                        place.create(set).await;
                    })
                },
                ..situation
            },
            Situation {
                name: "delete",
                operation: Delete,
                before: |place| Box::pin(async move { drop(place.create(replica_set(1)).await) }),
                then: |place| Box::pin(async move { place.merge(SETS, "web", scaled(0)).await }),
                ..situation
            },
            Situation {
                name: "adopt",
                operation: Update,
                then: |place| {
                    Box::pin(async move {
                        place.create(stray("stray")).await;
                        place.create(replica_set(1)).await;
                    })
                },
                ..situation
            },
            Situation {
                name: "release",
                operation: Update,
                before: |place| Box::pin(async move { drop(place.create(replica_set(1)).await) }),
                then: |place| Box::pin(relabel(place)),
                ..situation
            },
            Situation {
                name: "status",
                on_conflict: 2,
                events: 0,
                operation: Status,
                resource: "replicasets",
                then: |place| Box::pin(async move { drop(place.create(replica_set(1)).await) }),
                ..situation
            },
        ],
    );
}

async fn relabel(place: Place) {
    let pod = place.only("pods").await;
    place.merge("pods", &pod, json!({"metadata": {"labels": {"app": "other"}}})).await;
}

#[test]
fn deployments() {
    let situation = Situation::new("", Create, "replicasets");
    meet(
        deployment_controller::LOOPS,
        &[],
        nothing,
        &[
            Situation {
                name: "create",
                then: |place| Box::pin(async move { drop(place.create(deployment(3)).await) }),
                ..situation
            },
            Situation {
                name: "scale",
                operation: Update,
                before: |place| Box::pin(async move { drop(place.create(deployment(1)).await) }),
                then: |place| Box::pin(async move { place.merge(DEPLOYMENTS, "web", scaled(2)).await }),
                ..situation
            },
            Situation {
                name: "adopt",
                operation: Update,
                then: |place| {
                    Box::pin(async move {
                        let mut set = replica_set(1);
                        set["metadata"]["labels"] = json!({"app": "web"});
                        place.create(set).await;
                        place.create(deployment(1)).await;
                    })
                },
                ..situation
            },
            Situation {
                name: "history",
                operation: Delete,
                before: |place| {
                    let spec = json!({"replicas": 0, "revisionHistoryLimit": 0});
                    Box::pin(async move { drop(place.create(workload("Deployment", spec)).await) })
                },
                then: |place| {
                    Box::pin(async move {
                        // Its controller has seen it.
                        let set = place.only(SETS).await;
                        place.status(SETS, &set, json!({"replicas": 0, "observedGeneration": 1})).await;
                        place.merge(DEPLOYMENTS, "web", another_image()).await;
                    })
                },
                ..situation
            },
            Situation {
                name: "status",
                events: 0,
                operation: Status,
                resource: "deployments",
                then: |place| Box::pin(async move { drop(place.create(deployment(1)).await) }),
                ..situation
            },
        ],
    );
}

#[test]
fn stateful_sets() {
    let situation = Situation {
        then: |place| Box::pin(async move { drop(place.create(stateful_set(1)).await) }),
        ..Situation::new("", Create, "pods")
    };
    meet(
        statefulset_controller::LOOPS,
        &[],
        nothing,
        &[
            Situation { name: "create", ..situation },
            Situation { name: "record", resource: "controllerrevisions", ..situation },
            Situation {
                name: "claim",
                events: 2,
                resource: "persistentvolumeclaims",
                then: |place| Box::pin(async move { drop(place.create(with_claim()).await) }),
                ..situation
            },
            Situation {
                name: "delete",
                operation: Delete,
                before: situation.then,
                then: |place| Box::pin(async move { place.merge(STATEFUL_SETS, "web", scaled(0)).await }),
                ..situation
            },
            Situation {
                name: "adopt",
                operation: Update,
                then: |place| {
                    Box::pin(async move {
                        let mut pod = stray("web-0");
                        pod["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"] = json!("web-0");
                        place.create(pod).await;
                        place.create(stateful_set(1)).await;
                    })
                },
                ..situation
            },
            Situation {
                name: "identity",
                operation: Update,
                // The watch does not show the Pod, which is therefore read once a minute.
                reads: 3,
                before: situation.then,
                then: |place| {
                    Box::pin(async move {
                        place.status("pods", "web-0", ready()).await;
                        let labels = json!({"statefulset.kubernetes.io/pod-name": null});
                        place.merge("pods", "web-0", json!({"metadata": {"labels": labels}})).await;
                    })
                },
                ..situation
            },
            Situation {
                name: "retention",
                operation: Update,
                resource: "persistentvolumeclaims",
                before: |place| Box::pin(async move { drop(place.create(with_claim()).await) }),
                then: |place| {
                    Box::pin(async move {
                        let policy = json!({"whenDeleted": "Delete", "whenScaled": "Retain"});
                        let patch = json!({"spec": {"persistentVolumeClaimRetentionPolicy": policy}});
                        place.merge(STATEFUL_SETS, "web", patch).await;
                    })
                },
                ..situation
            },
            Situation {
                name: "history",
                events: 0,
                operation: Delete,
                resource: "controllerrevisions",
                before: |place| {
                    let spec = json!({"replicas": 0, "serviceName": "web", "revisionHistoryLimit": 0});
                    Box::pin(async move { drop(place.create(workload("StatefulSet", spec)).await) })
                },
                then: |place| Box::pin(async move { place.merge(STATEFUL_SETS, "web", another_image()).await }),
                ..situation
            },
            Situation { name: "status", events: 0, operation: Status, resource: "statefulsets", ..situation },
        ],
    );
}

#[test]
fn daemon_sets() {
    let situation = Situation {
        then: |place| Box::pin(async move { drop(place.create(daemon_set()).await) }),
        ..Situation::new("", Create, "pods")
    };
    meet(
        daemonset_controller::LOOPS,
        &[],
        |place| Box::pin(worker(place)),
        &[
            Situation { name: "create", ..situation },
            Situation { name: "record", resource: "controllerrevisions", ..situation },
            Situation {
                name: "delete",
                on_conflict: 5,
                operation: Delete,
                before: situation.then,
                then: |place| {
                    Box::pin(async move {
                        place.merge(DAEMON_SETS, "web", no_node()).await;
                    })
                },
                ..situation
            },
            Situation {
                name: "adopt",
                operation: Update,
                then: |place| {
                    Box::pin(async move {
                        let mut pod = stray("stray");
                        pod["spec"]["nodeName"] = json!("worker");
                        pod["metadata"]["labels"]["controller-revision-hash"] = json!("old");
                        place.create(pod).await;
                        place.create(daemon_set()).await;
                    })
                },
                ..situation
            },
            Situation {
                name: "history",
                operation: Delete,
                resource: "controllerrevisions",
                before: |place| {
                    let mut set = workload("DaemonSet", json!({"revisionHistoryLimit": 0}));
                    set["spec"]["template"]["spec"]["nodeSelector"] = json!({"on": "no-node"});
                    Box::pin(async move { drop(place.create(set).await) })
                },
                then: |place| Box::pin(async move { place.merge(DAEMON_SETS, "web", another_image()).await }),
                ..situation
            },
            Situation { name: "status", events: 0, operation: Status, resource: "daemonsets", ..situation },
        ],
    );
}
