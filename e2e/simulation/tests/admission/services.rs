//! EndpointSlices, their mirrors, and Endpoints.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    Operation::{Create, Delete, Update},
    Pace, Situation, USUAL, meet,
    place::{Place, ready, stray, worker},
};

const SLICES: Pace = Pace::Exponential(Duration::from_secs(1), Duration::from_secs(1000));
const MIRRORS: Pace = Pace::Exponential(Duration::from_secs(1), Duration::from_secs(100));

fn service() -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
        "spec": {"selector": {"app": "web"}, "ports": [{"name": "http", "port": 80, "targetPort": 8080}]}})
}

/// A Service whose Endpoints a user writes.
async fn serve_by_hand(place: Place) {
    let ports = json!([{"name": "http", "port": 80, "targetPort": 8080}]);
    place
        .create(json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": {"ports": ports}}))
        .await;
    let subsets = json!([{"addresses": [{"ip": "10.7.0.1"}], "ports": [{"name": "http", "port": 8080}]}]);
    place
        .create(json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "web"}, "subsets": subsets}))
        .await;
}

/// A Pod of the Service that is ready.
async fn ready_pod(place: Place) {
    let mut pod = stray("web");
    pod["spec"]["nodeName"] = json!("worker");
    place.create(pod).await;
    place.status("pods", "web", ready()).await;
}

#[test]
fn services() {
    let situation = Situation {
        pace: SLICES,
        then: |place| Box::pin(async move { drop(place.create(service()).await) }),
        ..Situation::new("", Create, "endpointslices")
    };
    let of_endpoints = Situation { resource: "endpoints", pace: USUAL, ..situation };
    meet(
        endpointslice_controller::LOOPS,
        &[],
        |place| Box::pin(worker(place)),
        &[
            Situation { name: "create", ..situation },
            Situation {
                name: "update",
                operation: Update,
                before: situation.then,
                then: |place| Box::pin(ready_pod(place)),
                ..situation
            },
            Situation {
                name: "delete",
                // The slice that stays is written in the same sync.
                others: 1,
                operation: Delete,
                before: situation.then,
                then: |place| {
                    Box::pin(async move {
                        let labels = json!({"kubernetes.io/service-name": "web",
                            "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"});
                        let slice = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
                            "metadata": {"name": "left", "labels": labels}, "addressType": "IPv4", "endpoints": [],
                            "ports": [{"name": "old", "port": 1, "protocol": "TCP"}]});
                        place.create(slice).await;
                    })
                },
                ..situation
            },
            Situation {
                name: "mirror",
                events: 0,
                pace: MIRRORS,
                then: |place| Box::pin(serve_by_hand(place)),
                ..situation
            },
            Situation {
                name: "mirror-update",
                events: 0,
                operation: Update,
                pace: MIRRORS,
                before: |place| Box::pin(serve_by_hand(place)),
                then: |place| {
                    Box::pin(async move {
                        let subsets =
                            json!([{"addresses": [{"ip": "10.7.0.2"}], "ports": [{"name": "http", "port": 8080}]}]);
                        place.merge("endpoints", "web", json!({"subsets": subsets})).await;
                    })
                },
                ..situation
            },
            Situation {
                name: "mirror-delete",
                events: 0,
                operation: Delete,
                pace: MIRRORS,
                before: |place| Box::pin(serve_by_hand(place)),
                then: |place| Box::pin(async move { place.delete("endpoints", "web").await }),
                ..situation
            },
            Situation { name: "endpoints", ..of_endpoints },
            Situation {
                name: "endpoints-update",
                operation: Update,
                before: of_endpoints.then,
                then: |place| Box::pin(ready_pod(place)),
                ..of_endpoints
            },
            Situation {
                name: "endpoints-delete",
                events: 0,
                operation: Delete,
                before: of_endpoints.then,
                then: |place| Box::pin(async move { place.delete("services", "web").await }),
                ..of_endpoints
            },
        ],
    );
}
