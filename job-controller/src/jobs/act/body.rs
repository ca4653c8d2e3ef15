//! The bodies of requests that create Pods: the Job's template as raw JSON, with the fields that depend on the index.

use std::{borrow::Cow, collections::BTreeMap};

use common::{
    intern::Labels,
    json::{RawJson, null_as_default},
    prelude::*,
};
use serde::{Deserialize, Serialize};
use serde_json::{json, value::RawValue};

use crate::{
    jobs::plan::{IndexFailureCounts, NewPod},
    objects::{
        COMPLETION_INDEX_ENV, JOB_COMPLETION_INDEX_ANNOTATION, JOB_INDEX_FAILURE_COUNT_ANNOTATION,
        JOB_INDEX_IGNORED_FAILURE_COUNT_ANNOTATION, JOB_TRACKING_FINALIZER, Job,
    },
};

/// The maximum length of a `generateName`, in bytes. The server cuts longer prefixes before it appends 5 characters.
const MAX_GENERATE_NAME: usize = 58;
/// The maximum length of a Pod name, in bytes.
const MAX_NAME: usize = 253;

type Fields = BTreeMap<String, Box<RawValue>>;

/// The parts of the request bodies that all Pods of one sync share.
pub(crate) struct PodBodyBuilder {
    name: Text,
    metadata: TemplateMeta,
    owner_reference: OwnerRef,
    /// The template's `spec`. For an Indexed Job, it includes the environment variable `JOB_COMPLETION_INDEX`.
    spec: Option<Spec>,
}

enum Spec {
    Raw(RawJson),
    Fields(Fields),
}

#[derive(Deserialize)]
struct Template<'a> {
    #[serde(default, deserialize_with = "null_as_default")]
    metadata: TemplateMeta,
    #[serde(borrow)]
    spec: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct TemplateMeta {
    labels: Labels,
    #[serde(deserialize_with = "null_as_default")]
    annotations: BTreeMap<String, String>,
    #[serde(deserialize_with = "null_as_default")]
    finalizers: Vec<String>,
}

impl PodBodyBuilder {
    /// Reads the Job's template. The error says why the template is invalid. New Pods join the `PodGroup` named `group`.
    pub(crate) fn new(job: &Job, owner_reference: OwnerRef, group: Option<&Text>) -> Result<Self, String> {
        let raw = job.template.as_ref().ok_or("no template")?;
        let wrong = |error: serde_json::Error| format!("template cannot be read: {error}");
        let Template { mut metadata, spec } = serde_json::from_str(raw.text()).map_err(wrong)?;
        let indexed = job.is_indexed();
        if metadata.labels.is_empty() && !indexed {
            return Err("no labels".to_owned());
        }
        if !metadata.finalizers.iter().any(|finalizer| finalizer == JOB_TRACKING_FINALIZER) {
            metadata.finalizers.push(JOB_TRACKING_FINALIZER.to_owned());
        }
        let spec = match spec {
            Some(spec) if indexed => {
                let mut fields = with_index_variable(spec).map_err(wrong)?;
                // Each Pod of an Indexed Job gets its own hostname.
                fields.remove("hostname");
                if let Some(group) = group {
                    let group = serde_json::value::to_raw_value(&json!({ "podGroupName": group }));
                    fields.insert("schedulingGroup".to_owned(), group.map_err(wrong)?);
                }
                Some(Spec::Fields(fields))
            }
            Some(spec) => Some(Spec::Raw(serde_json::from_str(spec.get()).map_err(wrong)?)),
            None => None,
        };
        Ok(Self { name: Text::new(&job.metadata.name), metadata, owner_reference, spec })
    }

    /// Builds the body of the request that creates this Pod.
    pub(crate) fn pod_body(&self, pod: NewPod) -> impl Serialize {
        let mut labels: BTreeMap<&str, Cow<'_, str>> =
            self.metadata.labels.iter().map(|(key, value)| (key, value.into())).collect();
        let mut annotations: BTreeMap<&str, Cow<'_, str>> =
            self.metadata.annotations.iter().map(|(key, value)| (key.as_str(), value.into())).collect();
        if let Some(index) = pod.completion_index {
            labels.insert(JOB_COMPLETION_INDEX_ANNOTATION, index.to_string().into());
            annotations.insert(JOB_COMPLETION_INDEX_ANNOTATION, index.to_string().into());
        }
        if let Some(IndexFailureCounts { failure_count, ignored_failure_count }) = pod.index_failure_counts {
            annotations.insert(JOB_INDEX_FAILURE_COUNT_ANNOTATION, failure_count.to_string().into());
            if ignored_failure_count > 0 {
                annotations
                    .insert(JOB_INDEX_IGNORED_FAILURE_COUNT_ANNOTATION, ignored_failure_count.to_string().into());
            }
        }
        let spec = self.spec.as_ref().map(|spec| match spec {
            Spec::Raw(raw) => BodySpec::Raw(raw),
            Spec::Fields(fields) => {
                let hostname = format!("{}-{}", self.name, pod.completion_index.unwrap_or_default());
                BodySpec::Indexed { fields, hostname }
            }
        });
        Body {
            kind: "Pod",
            api_version: "v1",
            metadata: Metadata {
                generate_name: self.pod_generate_name(pod.completion_index),
                labels,
                annotations,
                finalizers: &self.metadata.finalizers,
                owner_references: [&self.owner_reference],
            },
            spec,
        }
    }

    /// Returns the `generateName` of a Pod with this index. Upstream: `pkg/controller/job`, `podGenerateNameWithIndex`.
    pub(crate) fn pod_generate_name(&self, index: Option<u32>) -> String {
        let Some(index) = index else {
            let dash = if self.name.len() < MAX_NAME { "-" } else { "" };
            return format!("{}{dash}", self.name);
        };
        let end = format!("-{index}-");
        let room = MAX_GENERATE_NAME.saturating_sub(end.len());
        let name: String = self.name.chars().take(room).collect();
        format!("{name}{end}")
    }
}

/// Adds the environment variable for the index to every container that does not define it. Does not change any other field.
fn with_index_variable(spec: &RawValue) -> serde_json::Result<Fields> {
    #[derive(Deserialize)]
    struct Named {
        #[serde(default)]
        name: Text,
    }
    let variable = json!({"name": COMPLETION_INDEX_ENV,
        "valueFrom": {"fieldRef": {"fieldPath": format!("metadata.labels['{JOB_COMPLETION_INDEX_ANNOTATION}']")}}});
    let variable = serde_json::value::to_raw_value(&variable)?;
    let mut fields: Fields = serde_json::from_str(spec.get())?;
    for list in ["containers", "initContainers"] {
        let Some(raw) = fields.get_mut(list).filter(|raw| raw.get() != "null") else { continue };
        let mut containers: Vec<Fields> = serde_json::from_str(raw.get())?;
        for container in &mut containers {
            let listed = container.get("env").filter(|raw| raw.get() != "null");
            let mut variables: Vec<Box<RawValue>> =
                listed.map_or_else(|| Ok(Vec::new()), |listed| serde_json::from_str(listed.get()))?;
            let mut defined = false;
            for variable in &variables {
                defined |= serde_json::from_str::<Named>(variable.get())?.name == COMPLETION_INDEX_ENV;
            }
            if !defined {
                variables.push(variable.clone());
                container.insert("env".to_owned(), serde_json::value::to_raw_value(&variables)?);
            }
        }
        *raw = serde_json::value::to_raw_value(&containers)?;
    }
    Ok(fields)
}

/// The body of a create request for a Pod.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    kind: &'static str,
    api_version: &'static str,
    metadata: Metadata<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    spec: Option<BodySpec<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    generate_name: String,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    labels: BTreeMap<&'a str, Cow<'a, str>>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    annotations: BTreeMap<&'a str, Cow<'a, str>>,
    finalizers: &'a [String],
    owner_references: [&'a OwnerRef; 1],
}

#[derive(Serialize)]
#[serde(untagged)]
enum BodySpec<'a> {
    Raw(&'a RawJson),
    Indexed {
        #[serde(flatten)]
        fields: &'a Fields,
        hostname: String,
    },
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::world::job;

    fn bodies(change: impl FnOnce(&mut Value)) -> Result<PodBodyBuilder, String> {
        grouped(None, change)
    }

    fn grouped(group: Option<&str>, change: impl FnOnce(&mut Value)) -> Result<PodBodyBuilder, String> {
        let mut value = job("sum").0;
        change(&mut value);
        let job: Job = serde_json::from_str(&value.to_string()).unwrap();
        let owner = OwnerRef { kind: "Job".into(), controller: Some(true), ..OwnerRef::default() };
        PodBodyBuilder::new(&job, owner, group.map(Text::new).as_ref())
    }

    fn make_indexed(job: &mut Value, completions: u32) {
        job["spec"]["completionMode"] = json!("Indexed");
        job["spec"]["completions"] = json!(completions);
    }

    fn body(bodies: &PodBodyBuilder, pod: NewPod) -> Value {
        serde_json::to_value(bodies.pod_body(pod)).unwrap()
    }

    /// JOB-23.
    #[test]
    fn a_pod_has_its_template_its_owner_and_the_finalizer() {
        let bodies = bodies(|job| {
            job["spec"]["template"] = json!({
                "metadata": {"labels": {"app": "sum"}, "annotations": {"a": "1"}, "finalizers": ["example.com/f"],
                    "name": "ignored", "generateName": "ignored-", "ownerReferences": [{"kind": "Other"}]},
                "spec": {"containers": [{"name": "c", "futureField": {"x": [1, 2.50]}}], "hostname": "h", "fromTheFuture": true},
            });
        });
        assert_eq!(
            body(&bodies.unwrap(), NewPod::default()),
            json!({"kind": "Pod", "apiVersion": "v1",
                "metadata": {"generateName": "sum-", "labels": {"app": "sum"}, "annotations": {"a": "1"},
                    "finalizers": ["example.com/f", JOB_TRACKING_FINALIZER],
                    "ownerReferences": [{"apiVersion": "", "kind": "Job", "name": "", "uid": "", "controller": true}]},
                "spec": {"containers": [{"name": "c", "futureField": {"x": [1, 2.50]}}], "hostname": "h", "fromTheFuture": true}})
        );
    }

    /// JOB-25.
    #[test]
    fn a_pod_of_an_indexed_job_knows_its_index() {
        let bodies = bodies(|job| {
            make_indexed(job, 9);
            job["spec"]["template"]["metadata"]["finalizers"] = json!([JOB_TRACKING_FINALIZER]);
            job["spec"]["template"]["spec"] = json!({"hostname": "h", "restartPolicy": "Never", "new": 1.10,
                "containers": [{"name": "a", "env": [{"name": "X", "value": "1"}]},
                    {"name": "b", "env": [{"name": "JOB_COMPLETION_INDEX", "value": "mine"}]}],
                "initContainers": [{"name": "i", "env": null}]});
        })
        .unwrap();
        let pod = body(&bodies, NewPod { completion_index: Some(7), index_failure_counts: None });
        let metadata = &pod["metadata"];
        assert_eq!(metadata["generateName"], "sum-7-");
        assert_eq!(
            (&metadata["labels"][JOB_COMPLETION_INDEX_ANNOTATION], &metadata["annotations"]),
            (&json!("7"), &json!({JOB_COMPLETION_INDEX_ANNOTATION: "7"}))
        );
        assert_eq!(metadata["finalizers"], json!([JOB_TRACKING_FINALIZER]));
        let spec = &pod["spec"];
        assert_eq!((&spec["hostname"], &spec["new"]), (&json!("sum-7"), &json!(1.10)));
        let variable = json!({"name": "JOB_COMPLETION_INDEX",
            "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['batch.kubernetes.io/job-completion-index']"}}});
        assert_eq!(spec["containers"][0]["env"], json!([{"name": "X", "value": "1"}, variable]));
        assert_eq!(spec["containers"][1]["env"], json!([{"name": "JOB_COMPLETION_INDEX", "value": "mine"}]));
        assert_eq!(spec["initContainers"][0]["env"], json!([variable]));
    }

    #[test]
    fn a_pod_of_a_gang_names_its_group() {
        let indexed = |job: &mut Value| make_indexed(job, 2);
        let spec = |bodies: PodBodyBuilder| body(&bodies, NewPod::default())["spec"].clone();
        let spec_of_gang = spec(grouped(Some("sum-b2-g"), indexed).unwrap());
        assert_eq!(spec_of_gang["schedulingGroup"], json!({"podGroupName": "sum-b2-g"}));
        assert_eq!(spec(bodies(indexed).unwrap()).get("schedulingGroup"), None);
    }

    /// JOB-33.
    #[test]
    fn failures_of_an_index_are_inherited() {
        let bodies = bodies(|job| make_indexed(job, 9)).unwrap();
        let annotations = |counted, ignored| {
            let failures = Some(IndexFailureCounts { failure_count: counted, ignored_failure_count: ignored });
            body(&bodies, NewPod { completion_index: Some(0), index_failure_counts: failures })["metadata"]["annotations"].clone()
        };
        assert_eq!(
            annotations(0, 0),
            json!({JOB_COMPLETION_INDEX_ANNOTATION: "0", JOB_INDEX_FAILURE_COUNT_ANNOTATION: "0"})
        );
        assert_eq!(
            annotations(2, 1),
            json!({JOB_COMPLETION_INDEX_ANNOTATION: "0", JOB_INDEX_FAILURE_COUNT_ANNOTATION: "2", JOB_INDEX_IGNORED_FAILURE_COUNT_ANNOTATION: "1"})
        );
    }

    /// JOB-26.
    #[test]
    fn long_names_are_cut_so_that_the_index_stays() {
        for (length, index, prefix) in [
            (56, Some(0), format!("{}-0-", "a".repeat(55))),
            (60, Some(123), format!("{}-123-", "a".repeat(53))),
            (60, None, format!("{}-", "a".repeat(60))),
            (253, None, "a".repeat(253)),
        ] {
            let bodies = bodies(|job| {
                job["metadata"]["name"] = json!("a".repeat(length));
                if index.is_some() {
                    make_indexed(job, 500);
                }
            });
            assert_eq!(bodies.unwrap().pod_generate_name(index), prefix);
        }
    }

    /// JOB-24.
    #[test]
    fn a_template_without_labels_or_with_invalid_parts_is_an_error() {
        let without = bodies(|job| job["spec"]["template"]["metadata"]["labels"] = json!({}));
        assert_eq!(without.err().unwrap(), "no labels");
        for (path, value) in [
            ("/spec/template/metadata/labels", json!({"a": 1})),
            ("/spec/template/spec/containers", json!("none")),
            ("/spec/template/spec/containers/0/env", json!({"A": "1"})),
        ] {
            let wrong = bodies(|job| {
                make_indexed(job, 1);
                job["spec"]["template"]["spec"]["containers"][0]["env"] = json!([]);
                *job.pointer_mut(path).unwrap() = value.clone();
            });
            assert!(wrong.err().unwrap().starts_with("template cannot be read"), "{path}");
        }
    }
}
