//! Builds the budgets and Pods of the unit tests.

use std::sync::Arc;

use common::{meta::Uid, selector_index::NameSortedObjects};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    budgets::decide::{CountedPods, OwnerSize, Snapshot, count_pods},
    objects::{Budget, Pod},
};

/// Returns the time so many seconds after the start of the tests.
pub(crate) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_795_000_000 + seconds).unwrap()
}

/// Returns the budget `web` of generation 3, with this spec and status.
pub(crate) fn budget(spec: &Value, status: &Value) -> Budget {
    let object = json!({"metadata": {"name": "web", "namespace": "shop", "uid": "U", "generation": 3, "labels": {"team": "a"}},
        "spec": spec, "status": status});
    serde_json::from_str(&object.to_string()).unwrap()
}

/// Returns a ready Pod of this owner, after a merge patch; without an owner for an empty name.
pub(crate) fn pod(name: &str, owner: &str, patch: &Value) -> Arc<Pod> {
    let mut object = json!({"metadata": {"name": name, "namespace": "shop", "uid": name, "generation": 2},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    if !owner.is_empty() {
        object["metadata"]["ownerReferences"] =
            json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": owner, "controller": true}]);
    }
    for (section, fields) in patch.as_object().into_iter().flatten() {
        for (field, value) in fields.as_object().unwrap() {
            object[section][field] = value.clone();
        }
    }
    Arc::new(serde_json::from_str(&object.to_string()).unwrap())
}

/// Returns so many ready Pods of the owner `web`.
pub(crate) fn ready_pods(count: usize) -> NameSortedObjects<Pod> {
    (0..count).map(|number| pod(&format!("web-{number}"), "web", &json!({}))).collect()
}

/// Returns the snapshot of a budget whose owners have this size.
pub(crate) fn snapshot(budget: Budget, pods: &NameSortedObjects<Pod>, replicas: i32) -> Snapshot {
    let census = count_pods(&budget, pods, at(0));
    let size = |uid: &Uid| OwnerSize { uid: uid.clone(), replicas };
    let sizes = census.owners.iter().map(|owner| Ok(Some(size(&owner.reference.uid)))).collect();
    Snapshot { budget: Arc::new(budget), pods: Ok(CountedPods { census, sizes }), discovered: None, now: at(0) }
}
