use common::{
    intstr::{IntOrString, Rounding},
    json::parse_count,
    meta::ReplaceableMeta,
    prelude::*,
    store::ByNamespace,
    wire::{MessageSchema, RawMessage, WithUndeclared, messages},
};
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use serde_json::Value;

use super::{DAEMON_SETS, TEMPLATE_GENERATION_ANNOTATION};

/// The fields of a DaemonSet that the controller reads.
///
/// Values that the API server's validation refuses (negative counts, no selector, no template) are an error of the decoder.
#[derive(Debug)]
pub struct DaemonSet {
    /// The metadata, decoded without finalizers.
    pub metadata: ReplaceableMeta,
    /// How many seconds a Pod must be ready before it is available (`spec.minReadySeconds`); 0 by default.
    pub min_ready_seconds: i32,
    /// `spec.selector`. If it is empty or invalid, the plan has a `selector_problem`, and no Pods are managed.
    pub selector: Selector,
    /// `spec.template` as the server sent it.
    pub template: RawMessage,
    /// `spec.updateStrategy`. An unknown type counts as `OnDelete`.
    pub update_strategy: UpdateStrategy,
    /// Greatest number of earlier revisions without Pods that are kept (`spec.revisionHistoryLimit`); 10 by default.
    pub revision_history_limit: i32,
    /// `status` as the cache shows it.
    pub status: WithUndeclared<DaemonSetStatus>,
}

/// The strategy for Pods that were created from an earlier template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UpdateStrategy {
    /// Users delete Pods, and the controller creates the replacements from the new template.
    OnDelete,
    /// The controller replaces outdated Pods. The limits are numbers, or percentages of the nodes on which a Pod should run.
    RollingUpdate {
        /// Greatest number of nodes without an available Pod; `None` means 1.
        max_unavailable: Option<IntOrString>,
        /// Greatest number of nodes with a new Pod beside the outdated Pod; `None` means 0.
        max_surge: Option<IntOrString>,
    },
}

/// The fields of a DaemonSet's `status` that this controller writes.
///
/// The conditions belong to other writers and are kept as they were received.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DaemonSetStatus {
    /// Number of nodes that should run a Pod and have a Pod.
    pub current_number_scheduled: i32,
    /// Number of nodes that should not run a Pod and have a Pod.
    pub number_misscheduled: i32,
    /// Number of nodes that should run a Pod, with or without a Pod.
    pub desired_number_scheduled: i32,
    /// Number of nodes that should run a Pod and have a ready Pod.
    pub number_ready: i32,
    /// The `metadata.generation` of the last sync that managed Pods; it never decreases.
    pub observed_generation: i64,
    /// Number of nodes that should run a Pod and have a Pod of the current template.
    pub updated_number_scheduled: i32,
    /// Number of nodes that should run a Pod and have an available Pod.
    pub number_available: i32,
    /// Number of nodes that should run a Pod and have no available Pod.
    pub number_unavailable: i32,
    /// How often the name of a new revision was taken by a revision of another template. `None` and 0 give different hashes.
    pub collision_count: Option<i32>,
}

impl DaemonSetStatus {
    /// Whether this status must be written because it differs from `stored`. A different collision count alone needs no write.
    pub fn must_replace(&self, stored: &Self) -> bool {
        let shown = |s: &Self| Self { observed_generation: 0, collision_count: None, ..s.clone() };
        self.observed_generation > stored.observed_generation || shown(self) != shown(stored)
    }
}

impl DaemonSet {
    /// Returns the number in the annotation [`TEMPLATE_GENERATION_ANNOTATION`], which new Pods get as a label. Returns `None`
    /// without the annotation, or if its value is not a number.
    pub fn template_generation(&self) -> Option<i64> {
        self.metadata.annotations.get(TEMPLATE_GENERATION_ANNOTATION)?.parse().ok()
    }

    /// Whether `maxSurge` is at least one node; false if it is invalid. Upstream: `pkg/controller/daemon/util`, `AllowsSurge`.
    pub fn allows_surge(&self) -> bool {
        match &self.update_strategy {
            UpdateStrategy::RollingUpdate { max_surge: Some(surge), .. } => {
                surge.resolve(1, Rounding::Up).is_ok_and(|surge| surge > 0)
            }
            UpdateStrategy::RollingUpdate { max_surge: None, .. } | UpdateStrategy::OnDelete => false,
        }
    }
}

impl Object for DaemonSet {
    const RESOURCE: Resource = DAEMON_SETS;
    type Indexes = (ByNamespace,);
    const PROTOBUF_SCHEMA: Option<&'static MessageSchema> = Some(&messages::DAEMON_SET);

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn drop_unneeded_fields(&mut self) {
        self.metadata.finalizers = Box::default();
    }

    /// A revision has all fields of the template.
    fn has_hidden_fields(&self) -> bool {
        self.template.has_unknown_fields(&messages::POD_TEMPLATE_SPEC)
    }
}

#[derive(Deserialize)]
struct Wire {
    metadata: ReplaceableMeta,
    spec: WireSpec,
    status: Option<WithUndeclared<DaemonSetStatus>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireSpec {
    min_ready_seconds: Option<i64>,
    #[serde(default)]
    selector: Value,
    template: Option<RawMessage>,
    update_strategy: Option<WireUpdate>,
    revision_history_limit: Option<i64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireUpdate {
    #[serde(default, rename = "type")]
    kind: Text,
    rolling_update: Option<WireRolling>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireRolling {
    max_unavailable: Option<IntOrString>,
    max_surge: Option<IntOrString>,
}

impl<'de> Deserialize<'de> for DaemonSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Wire::deserialize(deserializer)?.into_daemon_set().map_err(D::Error::custom)
    }
}

impl Wire {
    fn into_daemon_set(self) -> Result<DaemonSet, String> {
        let Self { metadata, spec, status } = self;
        let min_ready_seconds = parse_count("spec.minReadySeconds", spec.min_ready_seconds.unwrap_or(0))?;
        let revision_history_limit =
            parse_count("spec.revisionHistoryLimit", spec.revision_history_limit.unwrap_or(10))?;
        let selector = Selector::from_value(&spec.selector);
        if selector.is_null() {
            return Err("spec.selector is missing".to_owned());
        }
        let template = spec.template.ok_or("spec.template is missing")?;
        let update_strategy = match spec.update_strategy {
            Some(update) if &*update.kind == "RollingUpdate" || update.kind.is_empty() => {
                let WireRolling { max_unavailable, max_surge } = update.rolling_update.unwrap_or_default();
                UpdateStrategy::RollingUpdate { max_unavailable, max_surge }
            }
            // With an unknown strategy, the controller replaces no outdated Pods.
            Some(_) => UpdateStrategy::OnDelete,
            None => UpdateStrategy::RollingUpdate { max_unavailable: None, max_surge: None },
        };
        let status = status.unwrap_or_default();
        Ok(DaemonSet {
            metadata,
            min_ready_seconds,
            selector,
            template,
            update_strategy,
            revision_history_limit,
            status,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn agent() -> Value {
        json!({
            "metadata": {"name": "agent", "namespace": "shop", "uid": "u",
                "annotations": {"deprecated.daemonset.template.generation": "7"}},
            "spec": {"selector": {"matchLabels": {"app": "agent"}}, "minReadySeconds": 5,
                "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}},
                "template": {"metadata": {"labels": {"app": "agent"}}, "spec": {"containers": []}}},
            "status": {"numberReady": 2, "currentNumberScheduled": 3},
        })
    }

    fn read(value: &Value) -> Result<DaemonSet, String> {
        serde_json::from_str(&value.to_string()).map_err(|error| error.to_string())
    }

    /// DAEMONSET-4.
    #[test]
    fn a_set_is_decoded_with_defaults() {
        let set = read(&agent()).unwrap();
        assert_eq!((set.min_ready_seconds, set.revision_history_limit, set.template_generation()), (5, 10, Some(7)));
        assert_eq!((set.status.number_ready, set.status.collision_count), (2, None));
        let limits = UpdateStrategy::RollingUpdate { max_unavailable: Some(1.into()), max_surge: Some(0.into()) };
        assert_eq!(set.update_strategy, limits);
    }

    /// DAEMONSET-46.
    #[test]
    fn surge_is_allowed_by_any_positive_limit() {
        for (surge, allowed) in [
            (json!(null), false),
            (json!(0), false),
            (json!(-1), false),
            (json!("0%"), false),
            (json!("x"), false),
            (json!(3), true),
            (json!("1%"), true),
        ] {
            let mut object = agent();
            object["spec"]["updateStrategy"]["rollingUpdate"]["maxSurge"] = surge.clone();
            assert_eq!(read(&object).unwrap().allows_surge(), allowed, "{surge}");
            object["spec"]["updateStrategy"]["type"] = json!("OnDelete");
            assert!(!read(&object).unwrap().allows_surge());
        }
    }

    /// DAEMONSET-55.
    #[test]
    fn an_unknown_strategy_replaces_nothing() {
        let mut object = agent();
        object["spec"]["updateStrategy"]["type"] = json!("Sometimes");
        assert_eq!(read(&object).unwrap().update_strategy, UpdateStrategy::OnDelete);
    }

    /// DAEMONSET-4.
    #[test]
    fn invalid_objects_are_refused() {
        for (path, value, error) in [
            ("/spec/minReadySeconds", json!(-1), "spec.minReadySeconds is -1"),
            ("/spec/minReadySeconds", json!(3_000_000_000_i64), "spec.minReadySeconds is 3000000000"),
            ("/spec/selector", json!(null), "spec.selector is missing"),
            ("/spec/template", json!(null), "spec.template is missing"),
            ("/spec/template", json!("x"), "expected an object"),
            ("/spec/updateStrategy/rollingUpdate/maxSurge", json!(1.5), "invalid type"),
            ("/status", json!({"numberReady": "many"}), "invalid type"),
        ] {
            let mut object = agent();
            *object.pointer_mut(path).unwrap() = value.clone();
            let got = read(&object).unwrap_err();
            assert!(got.contains(error), "{path} = {value}: {got}");
        }
        let mut object = agent();
        object["spec"]["revisionHistoryLimit"] = json!(-2);
        assert!(read(&object).unwrap_err().contains("spec.revisionHistoryLimit is -2"));
    }

    /// DAEMONSET-58.
    #[test]
    fn a_status_differs_by_its_counts_and_by_a_newer_generation() {
        let stored = DaemonSetStatus { number_ready: 1, observed_generation: 2, ..DaemonSetStatus::default() };
        assert!(!DaemonSetStatus { collision_count: Some(1), ..stored.clone() }.must_replace(&stored));
        assert!(!DaemonSetStatus { observed_generation: 1, ..stored.clone() }.must_replace(&stored));
        assert!(DaemonSetStatus { observed_generation: 3, ..stored.clone() }.must_replace(&stored));
        assert!(DaemonSetStatus { number_unavailable: 1, ..stored.clone() }.must_replace(&stored));
    }
}
