//! The bodies of requests that create Pods: the Job's template as received, with the fields that depend on the index.

use std::{borrow::Cow, collections::BTreeMap};

use common::{
    intern::Labels,
    meta::Annotations,
    prelude::*,
    wire::{self, RawFields, RawMessage, messages},
};
use serde::{Deserialize, Serialize};
use serde_json::json;

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

/// The parts of the request bodies that all Pods of one sync share.
pub(crate) struct PodBodyBuilder {
    name: Text,
    labels: Labels,
    annotations: Annotations,
    finalizers: Vec<Text>,
    owner_reference: OwnerRef,
    spec: Option<RawMessage>,
    /// The changed parts of `spec`; `None` if the Job is not indexed.
    indexed_spec: Option<IndexedSpec>,
}

/// The parts of the template's `spec` that differ in the Pods of an Indexed Job.
struct IndexedSpec {
    /// `containers` and `initContainers` with the environment variable `JOB_COMPLETION_INDEX`.
    containers: [Vec<RawMessage>; 2],
    /// The name of the `PodGroup`; `None` if the Job has none.
    group: Option<Text>,
}

impl PodBodyBuilder {
    /// Reads the Job's template. The error says why the template is invalid. New Pods join the `PodGroup` named `group`.
    pub(crate) fn new(job: &Job, owner_reference: OwnerRef, group: Option<&Text>) -> Result<Self, String> {
        let template = job.template.as_ref().ok_or("no template")?;
        if template.labels().is_empty() && !job.is_indexed() {
            return Err("no labels".to_owned());
        }
        let mut finalizers = template.finalizers();
        if !finalizers.iter().any(|finalizer| *finalizer == JOB_TRACKING_FINALIZER) {
            finalizers.push(Text::new(JOB_TRACKING_FINALIZER));
        }
        let spec = template.spec();
        let indexed_spec = spec.as_ref().filter(|_| job.is_indexed()).map(|spec| IndexedSpec::new(spec, group));
        Ok(Self {
            name: Text::new(&job.metadata.name),
            labels: template.labels().clone(),
            annotations: template.annotations(),
            finalizers,
            owner_reference,
            indexed_spec: indexed_spec.transpose().map_err(|error| format!("template cannot be read: {error}"))?,
            spec,
        })
    }

    /// Builds the body of the request that creates this Pod.
    pub(crate) fn pod_body(&self, pod: NewPod) -> impl Serialize {
        let mut labels: BTreeMap<&str, Cow<'_, str>> =
            self.labels.iter().map(|(key, value)| (key, value.into())).collect();
        let mut annotations: BTreeMap<&str, Cow<'_, str>> =
            self.annotations.iter().map(|(key, value)| (key, value.into())).collect();
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
        let spec = self.spec.as_ref().map(|spec| match &self.indexed_spec {
            None => BodySpec::Raw(spec),
            Some(indexed) => BodySpec::Indexed(IndexedBodySpec {
                hostname: format!("{}-{}", self.name, pod.completion_index.unwrap_or_default()),
                scheduling_group: indexed.group.as_deref().map(|name| SchedulingGroup { pod_group_name: name }),
                containers: &indexed.containers[0],
                init_containers: &indexed.containers[1],
                others: spec.fields_without(&messages::POD_SPEC, indexed.changed_fields()),
            }),
        });
        Body {
            kind: "Pod",
            api_version: "v1",
            metadata: Metadata {
                generate_name: self.pod_generate_name(pod.completion_index),
                labels,
                annotations,
                finalizers: &self.finalizers,
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

impl IndexedSpec {
    fn new(raw_spec: &RawMessage, group: Option<&Text>) -> Result<Self, wire::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Containers {
            containers: Option<Vec<RawMessage>>,
            init_containers: Option<Vec<RawMessage>>,
        }
        let Containers { containers, init_containers } = raw_spec.decode(&messages::POD_SPEC)?;
        let [containers, init_containers] = [containers, init_containers]
            .map(|list| list.unwrap_or_default().into_iter().map(with_index_variable).collect::<Result<Vec<_>, _>>());
        Ok(Self { containers: [containers?, init_containers?], group: group.cloned() })
    }

    /// Returns the names of the fields that are not those of the template. Each Pod of an Indexed Job has its own hostname.
    fn changed_fields(&self) -> &'static [&'static str] {
        let fields = &["containers", "initContainers", "hostname", "schedulingGroup"];
        if self.group.is_some() { fields } else { &fields[..3] }
    }
}

/// Adds the environment variable for the index to a container that does not define it. Does not change any other field.
fn with_index_variable(raw_container: RawMessage) -> Result<RawMessage, wire::Error> {
    #[derive(Deserialize)]
    struct Environment {
        env: Option<Vec<Variable>>,
    }
    #[derive(Deserialize)]
    struct Variable {
        #[serde(default)]
        name: Text,
    }
    #[derive(Deserialize)]
    struct RawEnvironment {
        env: Option<Vec<RawMessage>>,
    }
    #[derive(Serialize)]
    struct Extended<'a> {
        env: Vec<RawMessage>,
        #[serde(flatten)]
        others: RawFields<'a>,
    }
    let environment: Environment = raw_container.decode(&messages::CONTAINER)?;
    if environment.env.into_iter().flatten().any(|variable| variable.name == COMPLETION_INDEX_ENV) {
        return Ok(raw_container);
    }
    let RawEnvironment { env } = raw_container.decode(&messages::CONTAINER)?;
    let mut env = env.unwrap_or_default();
    let path = format!("metadata.labels['{JOB_COMPLETION_INDEX_ANNOTATION}']");
    let variable = json!({"name": COMPLETION_INDEX_ENV, "valueFrom": {"fieldRef": {"fieldPath": path}}});
    env.push(raw_container.encode_in_same_format(&messages::ENV_VAR, &variable)?);
    let others = raw_container.fields_without(&messages::CONTAINER, &["env"]);
    raw_container.encode_in_same_format(&messages::CONTAINER, &Extended { env, others })
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
    finalizers: &'a [Text],
    owner_references: [&'a OwnerRef; 1],
}

#[derive(Serialize)]
#[serde(untagged)]
enum BodySpec<'a> {
    Raw(&'a RawMessage),
    Indexed(IndexedBodySpec<'a>),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct IndexedBodySpec<'a> {
    hostname: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    scheduling_group: Option<SchedulingGroup<'a>>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    containers: &'a [RawMessage],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    init_containers: &'a [RawMessage],
    #[serde(flatten)]
    others: RawFields<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SchedulingGroup<'a> {
    pod_group_name: &'a str,
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
