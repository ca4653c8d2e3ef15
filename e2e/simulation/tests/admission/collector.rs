//! The garbage collector.

use serde_json::{Value, json};

use super::{
    Operation::{Delete, Update},
    Situation, meet, nothing,
    place::Place,
};

fn config(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

/// A reference to an owner that there is not.
fn absent() -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "absent", "uid": "00000000-0000-0000-0000-000000000000"})
}

/// An owner and its dependent.
async fn family(place: Place) {
    let owner = place.create(config("owner")).await;
    place.create_owned(&owner, config("dependent")).await;
}

#[test]
fn dependents() {
    let situation = Situation::new("", Update, "configmaps");
    meet(
        gc_controller::LOOPS,
        &[],
        nothing,
        &[
            Situation {
                name: "delete",
                writes: 2,
                on_conflict: 5,
                events: 0,
                operation: Delete,
                then: |place| {
                    Box::pin(async move {
                        let mut dependent = config("dependent");
                        dependent["metadata"]["ownerReferences"] = json!([absent()]);
                        place.create(dependent).await;
                    })
                },
                ..situation
            },
            Situation {
                name: "delete-in-cascade",
                writes: 2,
                on_conflict: 5,
                events: 0,
                operation: Delete,
                before: |place| Box::pin(family(place)),
                then: |place| Box::pin(async move { place.delete_with("configmaps", "owner", "Background").await }),
                ..situation
            },
            Situation {
                name: "orphan",
                writes: 2,
                on_conflict: 5,
                before: |place| Box::pin(family(place)),
                then: |place| Box::pin(async move { place.delete_with("configmaps", "owner", "Orphan").await }),
                ..situation
            },
            Situation {
                name: "foreground",
                writes: 2,
                on_conflict: 5,
                events: 0,
                before: |place| Box::pin(async move { drop(place.create(config("owner")).await) }),
                then: |place| Box::pin(async move { place.delete_with("configmaps", "owner", "Foreground").await }),
                ..situation
            },
            Situation {
                name: "one-owner-left",
                writes: 2,
                on_conflict: 5,
                then: |place| {
                    Box::pin(async move {
                        let owner = place.create(config("owner")).await;
                        let mut dependent = config("dependent");
                        let solid = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]});
                        dependent["metadata"]["ownerReferences"] = json!([absent(), solid]);
                        place.create(dependent).await;
                    })
                },
                ..situation
            },
        ],
    );
}
