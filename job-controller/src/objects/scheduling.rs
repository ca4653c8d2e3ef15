//! Projections of Workloads and `PodGroups`, with which a scheduler places Pods together or not at all.
//!
//! The APIs of both kinds are alpha, and watched only if the gate `WorkloadWithJob` is on.

use common::{json::RawJson, prelude::*, store::StoreIndex};
use serde::Deserialize;
use serde_json::Value;

use super::job::JOBS;

/// Workloads in the API (alpha), which are watched only with the gate `WorkloadWithJob`.
pub const WORKLOADS: Resource = Resource::namespaced("scheduling.k8s.io", "v1alpha2", "workloads", "Workload");
/// `PodGroups` in the API (alpha), which are watched only with the gate `WorkloadWithJob`.
pub const POD_GROUPS: Resource = Resource::namespaced("scheduling.k8s.io", "v1alpha2", "podgroups", "PodGroup");

/// A list of templates for the `PodGroups` of one object, for example a Job.
#[derive(Clone, Debug, Deserialize)]
pub struct Workload {
    /// The metadata, with the references to the owners.
    pub metadata: Meta,
    spec: WorkloadSpec,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WorkloadSpec {
    controller_ref: Option<ControllerRef>,
    #[serde(default)]
    pod_group_templates: Vec<PodGroupTemplate>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ControllerRef {
    api_group: Text,
    kind: Text,
    name: Text,
}

/// The template of one `PodGroup`.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodGroupTemplate {
    /// The name, unique within the Workload.
    pub name: Text,
    /// The scheduling policy as raw JSON, which the `PodGroup` copies.
    pub scheduling_policy: RawJson,
}

impl Workload {
    /// Returns the name of the Job in `spec.controllerRef`; `None` if the field is absent or names another kind.
    fn referenced_job_name(&self) -> Option<&Text> {
        let of = self.spec.controller_ref.as_ref()?;
        (of.api_group == JOBS.group() && of.kind == JOBS.kind() && !of.name.is_empty()).then_some(&of.name)
    }

    /// Builds the Workload, with one template, which a forecast (a sync without requests) uses instead of the server's answer.
    pub fn for_forecast(name: &str, template: &str) -> serde_json::Result<Self> {
        let template =
            PodGroupTemplate { name: Text::new(template), scheduling_policy: RawJson::from_value(&Value::Null)? };
        let spec = WorkloadSpec { controller_ref: None, pod_group_templates: vec![template] };
        Ok(Self { metadata: Meta { name: name.into(), ..Meta::default() }, spec })
    }

    /// Returns the templates for `PodGroups`; exactly one in a Workload that this controller has created.
    pub fn pod_group_templates(&self) -> &[PodGroupTemplate] {
        &self.spec.pod_group_templates
    }
}

impl Object for Workload {
    const RESOURCE: Resource = WORKLOADS;
    type Indexes = (ByReferencedObject,);

    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

/// A group of Pods that are scheduled together.
#[derive(Clone, Debug, Deserialize)]
pub struct PodGroup {
    /// The metadata, with the references to the owners.
    pub metadata: Meta,
    #[serde(default)]
    spec: PodGroupSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodGroupSpec {
    pod_group_template_ref: Option<TemplateRef>,
}

#[derive(Clone, Debug, Deserialize)]
struct TemplateRef {
    workload: Option<WorkloadRef>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WorkloadRef {
    workload_name: Text,
}

impl PodGroup {
    /// Returns the name of the Workload that contains the group's template.
    fn referenced_workload_name(&self) -> Option<&Text> {
        let of = self.spec.pod_group_template_ref.as_ref()?.workload.as_ref()?;
        (!of.workload_name.is_empty()).then_some(&of.workload_name)
    }
}

impl Object for PodGroup {
    const RESOURCE: Resource = POD_GROUPS;
    type Indexes = (ByReferencedObject,);

    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

/// Returns the value under which [`ByReferencedObject`] lists the objects that refer to this name.
pub(crate) fn referenced_object_index_value(namespace: &str, name: &str) -> IndexValue {
    IndexValue::Text(format!("{namespace}/{name}").as_str().into())
}

/// The index of Workloads by their Job, and of `PodGroups` by their Workload.
#[derive(Clone, Copy, Debug)]
pub struct ByReferencedObject;

impl StoreIndex<Workload> for ByReferencedObject {
    fn value(meta: &Meta, workload: Option<&Workload>) -> Option<IndexValue> {
        Some(referenced_object_index_value(&meta.namespace, workload?.referenced_job_name()?))
    }
}

impl StoreIndex<PodGroup> for ByReferencedObject {
    fn value(meta: &Meta, group: Option<&PodGroup>) -> Option<IndexValue> {
        Some(referenced_object_index_value(&meta.namespace, group?.referenced_workload_name()?))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_workload_is_indexed_by_the_job_it_refers_to() {
        let of = |reference: Value| {
            let json = json!({"metadata": {"name": "w", "namespace": "shop"},
                "spec": {"controllerRef": reference, "podGroupTemplates": []}});
            let workload: Workload = serde_json::from_str(&json.to_string()).unwrap();
            ByReferencedObject::value(&workload.metadata, Some(&workload))
        };
        let job = |group: &str, kind: &str, name: &str| of(json!({"apiGroup": group, "kind": kind, "name": name}));
        assert_eq!(job("batch", "Job", "sum"), Some(referenced_object_index_value("shop", "sum")));
        assert_eq!(job("batch", "Job", ""), None);
        assert_eq!(job("batch", "CronJob", "sum"), None);
        assert_eq!(job("", "Job", "sum"), None);
        assert_eq!(of(json!(null)), None);
    }

    #[test]
    fn a_group_is_indexed_by_the_workload_it_refers_to() {
        let of = |reference: Value| {
            let json = json!({"metadata": {"name": "g", "namespace": "shop"},
                "spec": {"podGroupTemplateRef": reference, "schedulingPolicy": {"basic": {}}}});
            let group: PodGroup = serde_json::from_str(&json.to_string()).unwrap();
            ByReferencedObject::value(&group.metadata, Some(&group))
        };
        let reference = json!({"workload": {"workloadName": "w", "podGroupTemplateName": "t"}});
        assert_eq!(of(reference), Some(referenced_object_index_value("shop", "w")));
        assert_eq!(of(json!({"workload": {"workloadName": ""}})), None);
        assert_eq!((of(json!({})), of(json!(null))), (None, None));
    }
}
