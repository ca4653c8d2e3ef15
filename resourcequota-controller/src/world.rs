//! Builds the quotas and counted objects of the unit tests.

use std::{collections::BTreeMap, sync::Arc};

use common::{prelude::*, store::CacheEntry};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    decide::{KindState, Snapshot},
    extended::ExtendedUsage,
    names,
    objects::{CountedObject, CountedUsage, Gates, Quota},
    usage::UsageSums,
};

/// All gates are on.
pub(crate) const GATES: Gates = Gates { pod_level_resources: true, extended_resources: true };

/// Returns the time so many seconds after the start of the tests.
pub(crate) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_795_000_000 + seconds).unwrap()
}

/// Decodes an object named `a` in the namespace `shop`, after a merge of `patch`.
pub(crate) fn decoded<K: Object>(patch: &Value) -> K {
    let mut object = json!({"metadata": {"name": "a", "namespace": "shop", "uid": "A", "resourceVersion": "1"}});
    for (field, value) in patch.as_object().unwrap() {
        if field == "metadata" {
            object["metadata"].as_object_mut().unwrap().extend(value.as_object().unwrap().clone());
        } else {
            object[field] = value.clone();
        }
    }
    serde_json::from_str(&object.to_string()).unwrap()
}

/// Returns an object of a list or a watch event.
pub(crate) fn entry<K: Object>(patch: &Value) -> CacheEntry<K> {
    CacheEntry::Decoded(Arc::new(decoded(patch)))
}

/// Returns the usage of an object, as text by name.
pub(crate) fn amounts_of<K: CountedObject>(patch: &Value) -> BTreeMap<String, String> {
    let CountedUsage { usage, .. } = decoded::<K>(patch).usage(GATES);
    usage.amounts.iter().map(|(name, amount)| (name.to_string(), amount.to_string())).collect()
}

/// Returns the sums over objects.
pub(crate) fn sums_of<K: CountedObject>(objects: &[Value]) -> UsageSums {
    let mut sums = UsageSums::default();
    for object in objects {
        sums.add(&decoded::<K>(object).usage(GATES).usage);
    }
    sums
}

/// Returns the snapshot of a quota with these hard names, scopes and status, and with the sums of these kinds.
pub(crate) fn snapshot(spec: &Value, status: &Value, kinds: &[(&str, KindState)]) -> Snapshot {
    let quota: Quota = decoded(&json!({"spec": spec, "status": status}));
    let state = |kind: &Text| kinds.iter().find(|(known, _)| *kind == *known).map(|(_, state)| state.clone());
    let kinds = quota.hard.keys().filter_map(|name| names::kind_of(name));
    let kinds = kinds.map(|kind| (kind.clone(), state(&kind).unwrap_or(KindState::Unserved))).collect();
    Snapshot { quota: Arc::new(quota), kinds, extended: ExtendedUsage::default(), now: at(0) }
}
