//! All built-in kinds: their coordinates, subresources and columns as recorded from a real server, joined with what each
//! kind does.
//!
//! The recorded part is `data/resources-1.36.json`; columns that many kinds share stand there once, under a short name.

use std::{collections::BTreeMap, sync::LazyLock};

use serde_json::Value;

use super::{
    Column, Kind, NameRule, Propagation, Subresource, autoscalers,
    behaviour::Behaviour,
    claims, configs, cron_jobs, daemon_sets, deployments, endpoints, events, jobs, nodes, others, pods, policies,
    replica_sets, scheduling, services, stateful_sets,
    value::{entries, list, text, yes},
};

static KINDS: LazyLock<Vec<Kind>> = LazyLock::new(load);

/// All built-in kinds, groups in the order the real server lists them.
pub(super) fn kinds() -> &'static [Kind] {
    &KINDS
}

/// What the kind of a group and version does beyond the data.
fn behaviour(group: &str, version: &str, kind: &str) -> Behaviour {
    match (group, kind) {
        ("", "ConfigMap") => configs::config_map(),
        ("", "Endpoints") => endpoints::endpoints(),
        ("", "Event") => events::core(),
        ("", "LimitRange") => configs::limit_range(),
        ("", "Namespace") => nodes::namespace(),
        ("", "Node") => nodes::node(),
        ("", "PersistentVolume") => claims::volume(),
        ("", "PersistentVolumeClaim") => claims::claim(),
        ("", "Pod") => pods::pod(),
        ("", "PodTemplate") => pods::template(),
        ("", "ReplicationController") => replica_sets::controller(),
        ("", "ResourceQuota") => configs::resource_quota(),
        ("", "Secret") => configs::secret(),
        ("", "Service") => services::service(),
        ("", "ServiceAccount") => configs::service_account(),
        ("apps", "ControllerRevision") => stateful_sets::revision(),
        ("apps", "DaemonSet") => daemon_sets::daemon_set(),
        ("apps", "Deployment") => deployments::deployment(),
        ("apps", "ReplicaSet") => replica_sets::replica_set(),
        ("apps", "StatefulSet") => stateful_sets::stateful_set(),
        ("events.k8s.io", "Event") => events::events(),
        ("autoscaling", "HorizontalPodAutoscaler") => autoscalers::autoscaler(version),
        ("batch", "CronJob") => cron_jobs::cron_job(),
        ("batch", "Job") => jobs::job(),
        ("certificates.k8s.io", "CertificateSigningRequest") => others::signing_request(),
        ("networking.k8s.io", "Ingress") => others::ingress(),
        ("networking.k8s.io", "IngressClass") => others::ingress_class(),
        ("networking.k8s.io", "NetworkPolicy") => others::network_policy(),
        ("policy", "PodDisruptionBudget") => policies::budget(),
        ("rbac.authorization.k8s.io", "ClusterRoleBinding" | "RoleBinding") => others::role_binding(),
        ("storage.k8s.io", "CSIDriver") => others::driver(),
        ("storage.k8s.io", "StorageClass") => others::storage_class(),
        ("storage.k8s.io", "VolumeAttributesClass") => others::attributes_class(),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => others::definition(),
        ("scheduling.k8s.io", "PodGroup") => scheduling::pod_group(),
        ("scheduling.k8s.io", "Workload") => scheduling::workload(),
        ("scheduling.k8s.io", "PriorityClass") => policies::priority_class(),
        ("coordination.k8s.io", "Lease") => policies::lease(),
        ("discovery.k8s.io", "EndpointSlice") => endpoints::slice(),
        ("resource.k8s.io", "ResourceClaim") => others::resource_claim(),
        _ => Behaviour::default(),
    }
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
    list(&recorded["resources"]).iter().map(|resource| load_kind(&mut strings, resource, shared)).collect()
}

fn load_kind(strings: &mut Strings, resource: &Value, shared: &Value) -> Kind {
    let [group, version, kind] = ["group", "version", "kind"].map(|field| strings.keep(&resource[field]));
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
    let fields: BTreeMap<String, String> = entries(&resource["fields"])
        .map(|(field, expression)| (field.to_owned(), text(expression).to_owned()))
        .collect();
    let behaviour = behaviour(group, version, kind);
    Kind {
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
        subresources: subresources.leak(),
        columns: columns.leak(),
        name: match text(&resource["names"]) {
            "label" => NameRule::Label,
            "segment" => NameRule::PathSegment,
            _ => NameRule::Subdomain,
        },
        // Jobs have a field of their own, but no words.
        field_labels: kind != "Job" && (!fields.is_empty() || behaviour.field.is_some()),
        unconditional_update: !yes(&resource["conditional"]),
        create_on_update: yes(&resource["createOnUpdate"]),
        default_propagation: match text(&resource["propagation"]) {
            "orphan" => Propagation::Orphan,
            _ => Propagation::Background,
        },
        structure: strings.keep(&structure_name(group, version, kind).into()),
        counted: yes(&resource["counted"]),
        fields,
        behaviour,
    }
}

/// The name in the schema: the first part of the group, the version and the kind.
fn structure_name(group: &str, version: &str, kind: &str) -> String {
    let group = if group.is_empty() { "core" } else { group.split('.').next().unwrap_or(group) };
    format!("{group}/{version}.{kind}")
}

fn load_column(strings: &mut Strings, column: &Value) -> Column {
    Column {
        name: strings.keep(&column[0]),
        kind: strings.keep(&column[1]),
        format: strings.keep(&column[2]),
        description: strings.keep(&column[3]),
        priority: column[4].as_i64().unwrap_or_default() as i32,
        cell: column[5].clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::Logic, *};

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
            kind.default(&mut object);
            let once = object.clone();
            kind.default(&mut object);
            assert_eq!(once, object, "defaults of {} are idempotent", kind.kind);
            kind.prepare_create(&mut object, &env);
            kind.validate_create(&object);
            kind.validate_update(&object, &object);
            kind.validate_status(&object, &object);
            let old = object.clone();
            kind.prepare_update(&mut object, &old, &env);
            assert_eq!(old, object, "an update of {} that changes nothing changes nothing", kind.kind);
            kind.prepare_status(&mut object, &old, &env);
            assert_eq!(old, object, "a status update of {} that changes nothing changes nothing", kind.kind);
            assert_eq!(kind.type_error(&object), None, "{}", kind.kind);
            assert!(kind.prune(&mut object).is_empty(), "{}", kind.kind);
            if !kind.columns.is_empty() {
                assert_eq!(kind.row(&object, now).len(), kind.columns.len(), "cells of {}", kind.kind);
            }
            // The first way through the stored form may add its defaults.
            kind.to_stored(&mut object);
            kind.to_served(&mut object);
            let served = object.clone();
            kind.to_stored(&mut object);
            kind.to_served(&mut object);
            assert_eq!(served["spec"], object["spec"], "{} survives its stored form", kind.kind);
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
                kind.type_error(&object);
                kind.default(&mut object);
                kind.prepare_create(&mut object, &env);
                kind.validate_create(&object);
                let old = json!({"metadata": {}, "spec": {"containers": [1]}, "status": 1});
                kind.validate_update(&object, &old);
                kind.validate_status(&object, &old);
                kind.prepare_update(&mut object, &old, &env);
                kind.prepare_status(&mut object, &old, &env);
                kind.row(&object, now);
                kind.field(&object, "spec.nodeName");
                kind.prune(&mut object);
            }
        }
    }
}
