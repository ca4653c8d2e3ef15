//! All built-in kinds: their coordinates, subresources and columns as recorded from a real server, joined with what each
//! kind does.
//!
//! The recorded part is `data/resources-1.36.json`; columns that many kinds share stand there once, under a short name.

use std::{collections::BTreeMap, sync::LazyLock};

use serde_json::Value;

use super::{
    Column, Kind, Subresource, admission,
    behaviour::Behaviour,
    claims, configs, cron_jobs, daemon_sets, deployments, endpoints, events, jobs, networking, nodes, others, pods,
    policies, rbac, replica_sets, scheduling, services, stateful_sets, storage,
    value::{list, text, yes},
};

static KINDS: LazyLock<Vec<Kind>> = LazyLock::new(load);

/// All built-in kinds, groups in the order the real server lists them.
pub(super) fn kinds() -> &'static [Kind] {
    &KINDS
}

/// What the kind of a group and version does.
fn behaviour(group: &str, version: &str, kind: &str) -> Option<Behaviour> {
    Some(match (group, kind) {
        ("", "Binding") => others::reviews::BINDING,
        ("", "ComponentStatus") => others::COMPONENT_STATUS,
        ("", "ConfigMap") => configs::CONFIG_MAP,
        ("", "Endpoints") => endpoints::ENDPOINTS,
        ("", "Event") => events::CORE,
        ("", "LimitRange") => configs::LIMIT_RANGE,
        ("", "Namespace") => nodes::NAMESPACE,
        ("", "Node") => nodes::NODE,
        ("", "PersistentVolume") => claims::VOLUME,
        ("", "PersistentVolumeClaim") => claims::CLAIM,
        ("", "Pod") => pods::POD,
        ("", "PodTemplate") => pods::TEMPLATE,
        ("", "ReplicationController") => replica_sets::CONTROLLER,
        ("", "ResourceQuota") => configs::RESOURCE_QUOTA,
        ("", "Secret") => configs::SECRET,
        ("", "Service") => services::SERVICE,
        ("", "ServiceAccount") => configs::SERVICE_ACCOUNT,
        ("apiregistration.k8s.io", "APIService") => admission::API_SERVICE,
        ("apps", "ControllerRevision") => stateful_sets::REVISION,
        ("apps", "DaemonSet") => daemon_sets::DAEMON_SET,
        ("apps", "Deployment") => deployments::DEPLOYMENT,
        ("apps", "ReplicaSet") => replica_sets::REPLICA_SET,
        ("apps", "StatefulSet") => stateful_sets::STATEFUL_SET,
        ("events.k8s.io", "Event") => events::EVENTS,
        ("authentication.k8s.io", "SelfSubjectReview") => others::reviews::SELF,
        ("authentication.k8s.io", "TokenReview") => others::reviews::TOKEN,
        ("authorization.k8s.io", "LocalSubjectAccessReview") => others::reviews::LOCAL_ACCESS,
        ("authorization.k8s.io", "SelfSubjectAccessReview") => others::reviews::SELF_ACCESS,
        ("authorization.k8s.io", "SelfSubjectRulesReview") => others::reviews::SELF_RULES,
        ("authorization.k8s.io", "SubjectAccessReview") => others::reviews::ACCESS,
        ("autoscaling", "HorizontalPodAutoscaler") if version == "v1" => policies::AUTOSCALER_V1,
        ("autoscaling", "HorizontalPodAutoscaler") => policies::AUTOSCALER,
        ("batch", "CronJob") => cron_jobs::CRON_JOB,
        ("batch", "Job") => jobs::JOB,
        ("certificates.k8s.io", "CertificateSigningRequest") => others::SIGNING_REQUEST,
        ("networking.k8s.io", "IPAddress") => networking::IP_ADDRESS,
        ("networking.k8s.io", "Ingress") => networking::INGRESS,
        ("networking.k8s.io", "IngressClass") => networking::INGRESS_CLASS,
        ("networking.k8s.io", "NetworkPolicy") => networking::NETWORK_POLICY,
        ("networking.k8s.io", "ServiceCIDR") => networking::SERVICE_CIDR,
        ("policy", "PodDisruptionBudget") => policies::BUDGET,
        ("rbac.authorization.k8s.io", "ClusterRole") => rbac::CLUSTER_ROLE,
        ("rbac.authorization.k8s.io", "ClusterRoleBinding") => rbac::CLUSTER_ROLE_BINDING,
        ("rbac.authorization.k8s.io", "Role") => rbac::ROLE,
        ("rbac.authorization.k8s.io", "RoleBinding") => rbac::ROLE_BINDING,
        ("storage.k8s.io", "CSIDriver") => storage::DRIVER,
        ("storage.k8s.io", "CSINode") => storage::NODE,
        ("storage.k8s.io", "CSIStorageCapacity") => storage::CAPACITY,
        ("storage.k8s.io", "StorageClass") => storage::CLASS,
        ("storage.k8s.io", "VolumeAttachment") => storage::ATTACHMENT,
        ("storage.k8s.io", "VolumeAttributesClass") => storage::ATTRIBUTES_CLASS,
        ("admissionregistration.k8s.io", "MutatingAdmissionPolicy") => admission::MUTATING_POLICY,
        ("admissionregistration.k8s.io", "MutatingAdmissionPolicyBinding") => admission::MUTATING_BINDING,
        ("admissionregistration.k8s.io", "MutatingWebhookConfiguration") => admission::MUTATING_WEBHOOKS,
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy") => admission::VALIDATING_POLICY,
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding") => admission::VALIDATING_BINDING,
        ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration") => admission::VALIDATING_WEBHOOKS,
        ("apiextensions.k8s.io", "CustomResourceDefinition") => admission::DEFINITION,
        ("scheduling.k8s.io", "PodGroup") => scheduling::POD_GROUP,
        ("scheduling.k8s.io", "Workload") => scheduling::WORKLOAD,
        ("scheduling.k8s.io", "PriorityClass") => policies::PRIORITY_CLASS,
        ("coordination.k8s.io", "Lease") => policies::LEASE,
        ("node.k8s.io", "RuntimeClass") => others::RUNTIME_CLASS,
        ("discovery.k8s.io", "EndpointSlice") => endpoints::SLICE,
        ("resource.k8s.io", "DeviceClass") => others::DEVICE_CLASS,
        ("resource.k8s.io", "ResourceClaim") => others::RESOURCE_CLAIM,
        ("resource.k8s.io", "ResourceClaimTemplate") => others::CLAIM_TEMPLATE,
        ("resource.k8s.io", "ResourceSlice") => others::RESOURCE_SLICE,
        ("flowcontrol.apiserver.k8s.io", "FlowSchema") => others::FLOW_SCHEMA,
        ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration") => others::PRIORITY_LEVEL,
        _ => return None,
    })
}

/// Strings of the recorded file, each kept once for as long as the program runs.
#[derive(Default)]
struct Strings(BTreeMap<String, &'static str>);

impl Strings {
    fn keep(&mut self, value: &Value) -> &'static str {
        let text = text(value);
        if let Some(&kept) = self.0.get(text) {
            return kept;
        }
        let kept: &'static str = Box::leak(text.to_owned().into_boxed_str());
        self.0.insert(text.to_owned(), kept);
        kept
    }

    fn keep_all(&mut self, values: &Value) -> &'static [&'static str] {
        list(values).iter().map(|value| self.keep(value)).collect::<Vec<_>>().leak()
    }
}

fn load() -> Vec<Kind> {
    let recorded: Value = serde_json::from_str(include_str!("data/resources-1.36.json")).unwrap_or_default();
    let mut strings = Strings::default();
    let shared = &recorded["columns"];
    list(&recorded["resources"]).iter().filter_map(|resource| load_kind(&mut strings, resource, shared)).collect()
}

fn load_kind(strings: &mut Strings, resource: &Value, shared: &Value) -> Option<Kind> {
    let [group, version, kind] = ["group", "version", "kind"].map(|field| strings.keep(&resource[field]));
    let does = behaviour(group, version, kind)?;
    let columns: Vec<Column> = list(&resource["columns"])
        .iter()
        .map(|column| load_column(strings, column.as_str().map_or(column, |name| &shared[name])))
        .collect();
    let subresources: Vec<Subresource> = list(&resource["subresources"])
        .iter()
        .map(|sub| Subresource {
            name: strings.keep(&sub["name"]),
            kind: strings.keep(&sub["kind"]),
            group_version: sub.get("version").map(|version| (strings.keep(&sub["group"]), strings.keep(version))),
            verbs: strings.keep_all(&sub["verbs"]),
        })
        .collect();
    Some(Kind {
        group,
        version,
        gate: resource.get("gate").map(|gate| strings.keep(gate)),
        kind,
        plural: strings.keep(&resource["plural"]),
        singular: strings.keep(&resource["singular"]),
        short_names: strings.keep_all(&resource["shortNames"]),
        categories: strings.keep_all(&resource["categories"]),
        namespaced: yes(&resource["namespaced"]),
        verbs: strings.keep_all(&resource["verbs"]),
        storage_hash: strings.keep(&resource["hash"]),
        hub: does.hub,
        type_error: does.type_error,
        subresources: subresources.leak(),
        default: does.default,
        prepare_create: does.prepare_create,
        prepare_update: does.prepare_update,
        prepare_status: does.prepare_status,
        validate_create: does.validate_create,
        validate_update: does.validate_update,
        validate_status: does.validate_status,
        name: does.name,
        merge_keys: does.merge_keys,
        field: does.field,
        field_labels: does.field_labels,
        unconditional_update: does.unconditional_update,
        create_on_update: does.create_on_update,
        default_propagation: does.default_propagation,
        columns: columns.leak(),
        row: does.row,
        row_conditions: does.row_conditions,
        prune: does.prune,
    })
}

fn load_column(strings: &mut Strings, column: &Value) -> Column {
    Column {
        name: strings.keep(&column[0]),
        kind: strings.keep(&column[1]),
        format: strings.keep(&column[2]),
        description: strings.keep(&column[3]),
        priority: column[4].as_i64().unwrap_or_default() as i32,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn has_every_recorded_resource() {
        let recorded: Value = serde_json::from_str(include_str!("data/resources-1.36.json")).unwrap();
        assert_eq!(kinds().len(), list(&recorded["resources"]).len());
    }

    #[test]
    fn every_kind_survives_being_empty() {
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        let gate = |_: &str| true;
        let env = super::super::Env { now, gate: &gate };
        for kind in kinds() {
            let mut object = json!({"metadata": {"name": "x", "uid": "u"}});
            (kind.default)(&mut object);
            let once = object.clone();
            (kind.default)(&mut object);
            assert_eq!(once, object, "defaults of {} are idempotent", kind.kind);
            (kind.prepare_create)(&mut object, &env);
            (kind.validate_create)(&object);
            (kind.validate_update)(&object, &object);
            (kind.validate_status)(&object, &object);
            let old = object.clone();
            (kind.prepare_update)(&mut object, &old, &env);
            assert_eq!(old, object, "an update of {} that changes nothing changes nothing", kind.kind);
            (kind.prepare_status)(&mut object, &old, &env);
            assert_eq!(old, object, "a status update of {} that changes nothing changes nothing", kind.kind);
            assert_eq!((kind.type_error)(&object), None, "{}", kind.kind);
            assert!((kind.prune)(&mut object).is_empty(), "{}", kind.kind);
            if !kind.columns.is_empty() {
                assert_eq!((kind.row)(&object, now).len(), kind.columns.len(), "cells of {}", kind.kind);
            }
            if let Some(hub) = &kind.hub {
                // The first way through the stored form may add its defaults.
                (hub.to_hub)(&mut object);
                (hub.from_hub)(&mut object);
                let served = object.clone();
                (hub.to_hub)(&mut object);
                (hub.from_hub)(&mut object);
                assert_eq!(served["spec"], object["spec"], "{} survives its stored form", kind.kind);
            }
        }
    }

    #[test]
    fn kinds_survive_hostile_objects() {
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        let gate = |_: &str| false;
        let env = super::super::Env { now, gate: &gate };
        let hostile =
            [json!("x"), json!([1]), json!({"a": {"b": [null, 1, "x"]}}), json!(-1), json!(null), json!(true)];
        for kind in kinds() {
            for value in &hostile {
                let mut object = json!({"metadata": {"name": "x"}, "spec": value, "status": value, "data": value, "rules": value,
                    "subsets": value, "endpoints": value, "ports": value, "template": value, "webhooks": value});
                (kind.type_error)(&object);
                (kind.default)(&mut object);
                (kind.prepare_create)(&mut object, &env);
                (kind.validate_create)(&object);
                let old = json!({"metadata": {}, "spec": {"containers": [1]}, "status": 1});
                (kind.validate_update)(&object, &old);
                (kind.validate_status)(&object, &old);
                (kind.prepare_update)(&mut object, &old, &env);
                (kind.prepare_status)(&mut object, &old, &env);
                (kind.row)(&object, now);
                (kind.field)(&object, "spec.nodeName");
                (kind.prune)(&mut object);
            }
        }
    }
}
