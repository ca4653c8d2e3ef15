//! All built-in kinds: their coordinates, subresources and columns as recorded from a real server, joined with what each
//! kind does.
//!
//! The recorded part is `data/resources-1.36.json`; columns that many kinds share stand there once, under a short name.

use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock},
};

use serde_json::Value;

use super::{
    Column, Kind, autoscalers,
    behaviour::Behaviour,
    claims, configs, cron_jobs, daemon_sets, deployments, endpoints, events, jobs, nodes, others, pods, policies,
    replica_sets, scheduling, services, stateful_sets,
    value::{entries, list, text, yes},
};
use crate::{
    api::{
        logic::{NameRule, Propagation, TableColumn},
        resource::{Registry, Resource, Sub, qualify},
    },
    value::object::strings,
};

static KINDS: LazyLock<Vec<Recorded>> = LazyLock::new(load);

/// All built-in resources, groups in the order the real server lists them.
pub(crate) fn kinds() -> &'static [Recorded] {
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

/// A recorded resource.
pub(crate) struct Recorded {
    /// The feature gate that has to be on for it to be served, if there is one.
    gate: Option<String>,
    pub(crate) resource: Arc<Resource>,
}

/// What a server serves whose gates are those.
pub(crate) fn registry(gate: impl Fn(&str) -> bool) -> Arc<Registry> {
    // The same for all servers of a process, with what was made from it for discovery.
    static UNGATED: LazyLock<Arc<Registry>> = LazyLock::new(|| {
        let mut registry = Registry::default();
        for recorded in kinds().iter().filter(|recorded| recorded.gate.is_none()) {
            registry.add(Arc::clone(&recorded.resource));
        }
        Arc::new(registry)
    });
    let mut registry = Arc::clone(&UNGATED);
    for recorded in kinds().iter().filter(|recorded| recorded.gate.as_deref().is_some_and(&gate)) {
        Arc::make_mut(&mut registry).add(Arc::clone(&recorded.resource));
    }
    registry
}

fn load() -> Vec<Recorded> {
    let recorded: Value = serde_json::from_str(include_str!("data/resources-1.36.json")).unwrap_or_default();
    let shared = &recorded["columns"];
    list(&recorded["resources"]).iter().map(|resource| load_resource(resource, shared)).collect()
}

fn load_resource(resource: &Value, shared: &Value) -> Recorded {
    let [group, version, kind, plural] = ["group", "version", "kind", "plural"].map(|field| text(&resource[field]));
    let columns = list(&resource["columns"])
        .iter()
        .map(|column| load_column(column.as_str().map_or(column, |name| &shared[name])));
    let subresources = list(&resource["subresources"]).iter().map(|sub| Sub {
        name: text(&sub["name"]).to_owned(),
        kind: text(&sub["kind"]).to_owned(),
        group_version: sub.get("version").map(|version| (text(&sub["group"]).to_owned(), text(version).to_owned())),
        verbs: strings(&sub["verbs"]),
    });
    let fields: BTreeMap<String, String> = entries(&resource["fields"])
        .map(|(field, expression)| (field.to_owned(), text(expression).to_owned()))
        .collect();
    let behaviour = behaviour(group, version, kind);
    // Events are in one place for two groups.
    let stored_group = behaviour.hub.as_ref().map_or(group, |hub| hub.group);
    let table = qualify(plural, stored_group).into();
    let logic = Kind {
        columns: columns.collect(),
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
        structure: structure_name(group, version, kind),
        counted: yes(&resource["counted"]),
        fields,
        behaviour,
    };
    let gate = resource["gate"].as_str().map(str::to_owned);
    let resource = Resource {
        group: group.to_owned(),
        version: version.to_owned(),
        kind: kind.to_owned(),
        list_kind: format!("{kind}List"),
        plural: plural.to_owned(),
        singular: text(&resource["singular"]).to_owned(),
        short_names: strings(&resource["shortNames"]),
        categories: strings(&resource["categories"]),
        namespaced: yes(&resource["namespaced"]),
        verbs: strings(&resource["verbs"]),
        subresources: subresources.collect(),
        storage_hash: text(&resource["hash"]).to_owned(),
        table,
        logic: Box::new(logic),
    };
    Recorded { gate, resource: Arc::new(resource) }
}

/// The name in the schema: the first part of the group, the version and the kind.
fn structure_name(group: &str, version: &str, kind: &str) -> String {
    let group = if group.is_empty() { "core" } else { group.split('.').next().unwrap_or(group) };
    format!("{group}/{version}.{kind}")
}

fn load_column(column: &Value) -> Column {
    let [name, kind, format, description] = [0, 1, 2, 3].map(|at| text(&column[at]).to_owned());
    let priority = column[4].as_i64().unwrap_or_default();
    Column { head: TableColumn { name, kind, format, description, priority }, cell: column[5].clone() }
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
        let env = crate::api::logic::Env { now, gate: &gate };
        for kind in kinds().iter().map(|recorded| &recorded.resource) {
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
            assert_eq!(kind.row(&object, now).len(), kind.columns().len(), "cells of {}", kind.kind);
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
        let env = crate::api::logic::Env { now, gate: &gate };
        let hostile =
            [json!("x"), json!([1]), json!({"a": {"b": [null, 1, "x"]}}), json!(-1), json!(null), json!(true)];
        for kind in kinds().iter().map(|recorded| &recorded.resource) {
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
