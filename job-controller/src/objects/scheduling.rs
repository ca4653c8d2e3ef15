//! What is read of Workloads and `PodGroups`: by them a scheduler learns that Pods are to be placed together or not at all.
//!
//! Both are alpha; they are watched only if gate `WorkloadWithJob` is on.

use common::{
    intern::Text,
    json::Raw,
    meta::Meta,
    object::{Object, Resource},
    store::{Index, IndexValue},
};
use serde::Deserialize;
use serde_json::Value;

use super::job::JOBS;

/// Workloads on the API server.
pub const WORKLOADS: Resource = Resource {
    group: "scheduling.k8s.io",
    version: "v1alpha2",
    plural: "workloads",
    kind: "Workload",
    namespaced: true,
};
/// `PodGroups` on the API server.
pub const POD_GROUPS: Resource = Resource {
    group: "scheduling.k8s.io",
    version: "v1alpha2",
    plural: "podgroups",
    kind: "PodGroup",
    namespaced: true,
};

/// Says of whom groups of Pods are made, and how each group is scheduled.
#[derive(Clone, Debug, Deserialize)]
pub struct Workload {
    /// Metadata.
    pub metadata: Meta,
    spec: WorkloadSpec,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WorkloadSpec {
    controller_ref: Option<ControllerRef>,
    #[serde(default)]
    pod_group_templates: Vec<GroupTemplate>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ControllerRef {
    api_group: Text,
    kind: Text,
    name: Text,
}

/// What one group of Pods is made from.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupTemplate {
    /// Its name in the Workload.
    pub name: Text,
    /// How the group is scheduled, as it is written.
    pub scheduling_policy: Raw,
}

impl Workload {
    /// The name of the Job it is of, by its reference.
    fn job(&self) -> Option<&Text> {
        let of = self.spec.controller_ref.as_ref()?;
        (of.api_group == JOBS.group && of.kind == JOBS.kind && !of.name.is_empty()).then_some(&of.name)
    }

    /// A Workload of that name that does not exist yet, with one template.
    pub fn to_be_made(name: &str, template: &str) -> serde_json::Result<Self> {
        let template = GroupTemplate { name: Text::new(template), scheduling_policy: Raw::from_value(&Value::Null)? };
        let spec = WorkloadSpec { controller_ref: None, pod_group_templates: vec![template] };
        Ok(Self { metadata: Meta { name: name.into(), ..Meta::default() }, spec })
    }

    /// What its groups are made from.
    pub fn templates(&self) -> &[GroupTemplate] {
        &self.spec.pod_group_templates
    }
}

impl Object for Workload {
    const RESOURCE: Resource = WORKLOADS;
    type Indexes = (ByReference,);

    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

/// A group of Pods that are scheduled together.
#[derive(Clone, Debug, Deserialize)]
pub struct PodGroup {
    /// Metadata.
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
    /// The name of the Workload whose template it is made from.
    fn workload(&self) -> Option<&Text> {
        let of = self.spec.pod_group_template_ref.as_ref()?.workload.as_ref()?;
        (!of.workload_name.is_empty()).then_some(&of.workload_name)
    }
}

impl Object for PodGroup {
    const RESOURCE: Resource = POD_GROUPS;
    type Indexes = (ByReference,);

    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

/// Where an index files what refers to that name.
pub(crate) fn named(namespace: &str, name: &str) -> IndexValue {
    IndexValue::Text(format!("{namespace}/{name}").as_str().into())
}

/// Files Workloads under the Job they refer to, and `PodGroups` under the Workload.
#[derive(Clone, Copy, Debug)]
pub struct ByReference;

impl Index<Workload> for ByReference {
    fn value(meta: &Meta, workload: Option<&Workload>) -> Option<IndexValue> {
        Some(named(&meta.namespace, workload?.job()?))
    }
}

impl Index<PodGroup> for ByReference {
    fn value(meta: &Meta, group: Option<&PodGroup>) -> Option<IndexValue> {
        Some(named(&meta.namespace, group?.workload()?))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_workload_is_of_the_job_it_refers_to() {
        let of = |reference: Value| {
            let json = json!({"metadata": {"name": "w", "namespace": "shop"},
                "spec": {"controllerRef": reference, "podGroupTemplates": []}});
            let workload: Workload = serde_json::from_str(&json.to_string()).unwrap();
            ByReference::value(&workload.metadata, Some(&workload))
        };
        let job = |group: &str, kind: &str, name: &str| of(json!({"apiGroup": group, "kind": kind, "name": name}));
        assert_eq!(job("batch", "Job", "sum"), Some(named("shop", "sum")));
        assert_eq!(job("batch", "Job", ""), None);
        assert_eq!(job("batch", "CronJob", "sum"), None);
        assert_eq!(job("", "Job", "sum"), None);
        assert_eq!(of(json!(null)), None);
    }

    #[test]
    fn a_group_is_of_the_workload_it_refers_to() {
        let of = |reference: Value| {
            let json = json!({"metadata": {"name": "g", "namespace": "shop"},
                "spec": {"podGroupTemplateRef": reference, "schedulingPolicy": {"basic": {}}}});
            let group: PodGroup = serde_json::from_str(&json.to_string()).unwrap();
            ByReference::value(&group.metadata, Some(&group))
        };
        let reference = json!({"workload": {"workloadName": "w", "podGroupTemplateName": "t"}});
        assert_eq!(of(reference), Some(named("shop", "w")));
        assert_eq!(of(json!({"workload": {"workloadName": ""}})), None);
        assert_eq!((of(json!({})), of(json!(null))), (None, None));
    }
}
