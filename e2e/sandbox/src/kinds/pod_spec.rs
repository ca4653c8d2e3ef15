//! Validation of Pod specs and Pod templates, in the order and the words of the real server.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    affinity, containers, dump,
    errors::{Bad, Errors, Path},
    pod_os, pod_security, resources, selectors, syntax, tolerations,
    value::{int, list, text, yes},
    volumes,
};

/// What a Pod spec is validated as.
#[derive(Clone, Copy)]
pub(super) enum Within<'a> {
    /// Part of a template.
    Template,
    /// A Pod of this name.
    Pod(&'a str),
}

/// Validates a Pod template.
pub(super) fn validate_template(errors: &mut Errors, template: &Value, at: &Path<'_>) {
    let metadata = &template["metadata"];
    selectors::validate_labels(errors, &metadata["labels"], &at.child("labels"));
    let annotations = at.child("annotations");
    selectors::validate_annotations(errors, &metadata["annotations"], &annotations);
    validate_annotations(errors, &metadata["annotations"], &template["spec"], &annotations);
    let spec = at.child("spec");
    validate(errors, &template["spec"], &spec, Within::Template);
    if !list(&template["spec"]["ephemeralContainers"]).is_empty() {
        errors.forbidden(&spec.child("ephemeralContainers"), "ephemeral containers not allowed in pod template");
    }
}

/// Validates the annotations that have a meaning on Pods.
pub(super) fn validate_annotations(errors: &mut Errors, annotations: &Value, spec: &Value, at: &Path<'_>) {
    const MIRROR: &str = "kubernetes.io/config.mirror";
    const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
    if let Some(mirror) = annotations.get(MIRROR)
        && text(&spec["nodeName"]).is_empty()
    {
        errors.invalid(&at.key(MIRROR), mirror, "must set spec.nodeName if mirror pod annotation is set");
    }
    if let Some(cost) = annotations.get(DELETION_COST).map(text) {
        let plain = !cost.starts_with('+') && (cost == "0" || !cost.trim_start_matches('-').starts_with('0'));
        if !plain || cost.parse::<i32>().is_err() {
            errors.invalid(&at.key(DELETION_COST), cost, "must be a 32bit integer");
        }
    }
}

/// Validates a Pod spec.
pub(super) fn validate(errors: &mut Errors, spec: &Value, at: &Path<'_>, within: Within<'_>) {
    let grace = spec["terminationGracePeriodSeconds"].as_i64();
    if grace.is_none() {
        errors.required(&at.child("terminationGracePeriodSeconds"), "");
    }
    let pod_name = match within {
        Within::Pod(name) => name,
        Within::Template => "",
    };
    let found = volumes::validate(errors, list(&spec["volumes"]), &at.child("volumes"), pod_name);
    let resource_claims: BTreeSet<&str> =
        list(&spec["resourceClaims"]).iter().map(|claim| text(&claim["name"])).collect();
    validate_resource_claims(errors, list(&spec["resourceClaims"]), &at.child("resourceClaims"));
    let surroundings = containers::Surroundings { spec, volumes: &found, claims: &resource_claims, grace };
    containers::validate(errors, &surroundings, at);
    containers::validate_init(errors, &surroundings, at);
    containers::validate_ephemeral(errors, &surroundings, at);
    resources::validate_pod(errors, spec, &at.child("resources"));
    validate_host_ports(errors, spec, at, within);
    errors.one_of(&at.child("restartPolicy"), text(&spec["restartPolicy"]), &["Always", "OnFailure", "Never"]);
    let dns_policies = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    errors.one_of(&at.child("dnsPolicy"), text(&spec["dnsPolicy"]), &dns_policies);
    selectors::validate_labels(errors, &spec["nodeSelector"], &at.child("nodeSelector"));
    pod_security::validate_pod(errors, spec, &at.child("securityContext"));
    affinity::validate(errors, &spec["affinity"], &at.child("affinity"));
    validate_dns(errors, spec, &at.child("dnsConfig"));
    validate_gates(errors, spec, at);
    affinity::validate_spread(errors, list(&spec["topologySpreadConstraints"]), &at.child("topologySpreadConstraints"));
    pod_os::validate_host_processes(errors, spec, at);
    validate_host_users(errors, spec, at);
    validate_hostname_override(errors, spec, at);
    validate_scheduling_group(errors, spec, at);
    validate_names(errors, spec, at);
    if let Some(deadline) = spec["activeDeadlineSeconds"].as_i64()
        && !(1..=i64::from(i32::MAX)).contains(&deadline)
    {
        let range = syntax::out_of_range(1, i32::MAX.into());
        errors.invalid(&at.child("activeDeadlineSeconds"), deadline, &range);
    }
    for field in ["hostname", "subdomain"] {
        let name = text(&spec[field]);
        if !name.is_empty() {
            errors.syntax(&at.child(field), name, syntax::label(name));
        }
    }
    tolerations::validate(errors, list(&spec["tolerations"]), &at.child("tolerations"));
    validate_host_aliases(errors, list(&spec["hostAliases"]), &at.child("hostAliases"));
    for field in ["priorityClassName", "runtimeClassName"] {
        if let Some(name) = spec[field].as_str() {
            errors.syntax(&at.child(field), name, syntax::subdomain(name));
        }
    }
    if let Some(policy) = spec["preemptionPolicy"].as_str() {
        errors.one_of(&at.child("preemptionPolicy"), policy, &["PreemptLowerPriority", "Never"]);
    }
    if spec["overhead"].is_object() {
        let overhead = at.child("overhead");
        resources::validate_amounts(errors, &spec["overhead"], &overhead.child("limits"));
    }
    pod_os::validate(errors, spec, at);
}

fn validate_resource_claims(errors: &mut Errors, claims: &[Value], at: &Path<'_>) {
    let mut names = BTreeSet::new();
    for (i, claim) in claims.iter().enumerate() {
        let at = at.index(i);
        let name = text(&claim["name"]);
        if name.is_empty() {
            errors.required(&at.child("name"), "");
        } else {
            if !names.insert(name) {
                errors.duplicate(&at.child("name"), name);
            }
            errors.syntax(&at.child("name"), name, syntax::label(name));
        }
        let shown = || Bad::raw(dump::internal("PodResourceClaim", claim));
        let [direct, template] = ["resourceClaimName", "resourceClaimTemplateName"].map(|field| claim[field].as_str());
        match (direct, template) {
            (Some(_), Some(_)) => {
                let message = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified";
                errors.invalid(&at, shown(), message);
            }
            (None, None) => {
                let message = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`";
                errors.invalid(&at, shown(), message);
            }
            _ => {}
        }
        for (field, name) in [("resourceClaimName", direct), ("resourceClaimTemplateName", template)] {
            if let Some(name) = name {
                errors.syntax(&at.child(field), name, syntax::subdomain(name));
            }
        }
    }
}

fn validate_host_ports(errors: &mut Errors, spec: &Value, at: &Path<'_>, within: Within<'_>) {
    if !yes(&spec["hostNetwork"]) {
        return;
    }
    let at = at.child("containers");
    for (i, container) in list(&spec["containers"]).iter().enumerate() {
        let at = at.index(i);
        let at = at.child("ports");
        for (j, port) in list(&container["ports"]).iter().enumerate() {
            let (host, inner) = (int(&port["hostPort"]), int(&port["containerPort"]));
            if (matches!(within, Within::Pod(_)) || host != 0) && host != inner {
                let message = "must match `containerPort` when `hostNetwork` is true";
                errors.invalid(&at.index(j).child("hostPort"), host, message);
            }
        }
    }
}

fn validate_dns(errors: &mut Errors, spec: &Value, at: &Path<'_>) {
    let config = &spec["dnsConfig"];
    let servers = list(&config["nameservers"]);
    if text(&spec["dnsPolicy"]) == "None" {
        if !config.is_object() {
            return errors.required(at, "must provide `dnsConfig` when `dnsPolicy` is None");
        }
        if servers.is_empty() {
            let message = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            return errors.required(&at.child("nameservers"), message);
        }
    }
    let servers_at = at.child("nameservers");
    if servers.len() > 3 {
        errors.invalid(&servers_at, &config["nameservers"], "must not have more than 3 nameservers");
    }
    for (i, server) in servers.iter().enumerate() {
        if let Some(wrong) = syntax::ip_error(text(server)) {
            errors.invalid(&servers_at.index(i), server, wrong);
        }
    }
    let searches = list(&config["searches"]);
    let searches_at = at.child("searches");
    if searches.len() > 32 {
        errors.invalid(&searches_at, &config["searches"], "must not have more than 32 search paths");
    }
    if searches.iter().map(|search| text(search).len() + 1).sum::<usize>() > 2049 {
        let message = "must not have more than 2048 characters (including spaces) in the search list";
        errors.invalid(&searches_at, &config["searches"], message);
    }
    for (i, search) in searches.iter().map(text).enumerate().filter(|(_, search)| *search != ".") {
        let search = search.strip_suffix('.').unwrap_or(search);
        errors.syntax(&searches_at.index(i), search, syntax::subdomain_with_underscores(search));
    }
    let options_at = at.child("options");
    for (i, option) in list(&config["options"]).iter().enumerate() {
        if text(&option["name"]).is_empty() {
            errors.required(&options_at.index(i), "must not be empty");
        }
    }
}

fn validate_gates(errors: &mut Errors, spec: &Value, at: &Path<'_>) {
    let readiness = at.child("readinessGates");
    for (i, gate) in list(&spec["readinessGates"]).iter().enumerate() {
        let condition = text(&gate["conditionType"]);
        errors.syntax(&readiness.index(i).child("conditionType"), condition, syntax::qualified_name(condition));
    }
    let scheduling = at.child("schedulingGates");
    let mut seen = BTreeSet::new();
    for (i, gate) in list(&spec["schedulingGates"]).iter().enumerate() {
        let name = text(&gate["name"]);
        errors.syntax(&scheduling.index(i), name, syntax::qualified_name(name));
        if !seen.insert(name) {
            errors.duplicate(&scheduling.index(i), name);
        }
    }
}

fn validate_host_users(errors: &mut Errors, spec: &Value, at: &Path<'_>) {
    if spec["hostUsers"].as_bool() != Some(false) {
        return;
    }
    for (field, shown) in [("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")] {
        if yes(&spec[field]) {
            errors.forbidden(&at.child(shown), "when `hostUsers` is false");
        }
    }
}

fn validate_hostname_override(errors: &mut Errors, spec: &Value, at: &Path<'_>) {
    let Some(name) = spec["hostnameOverride"].as_str() else { return };
    let at = at.child("hostnameOverride");
    if yes(&spec["setHostnameAsFQDN"]) {
        errors.forbidden(&at, "may not be specified when setHostnameAsFQDN is true");
    }
    if yes(&spec["hostNetwork"]) {
        errors.forbidden(&at, "may not be specified when hostNetwork is true");
    }
    if name.len() > 64 {
        errors.too_long(&at, 64);
    }
    errors.syntax(&at, name, syntax::subdomain(name));
}

fn validate_scheduling_group(errors: &mut Errors, spec: &Value, at: &Path<'_>) {
    if !spec["schedulingGroup"].is_object() {
        return;
    }
    let at = at.child("schedulingGroup");
    let at = at.child("podGroupName");
    match spec["schedulingGroup"]["podGroupName"].as_str() {
        Some(name) => errors.syntax(&at, name, syntax::subdomain(name)),
        None => errors.invalid(&at, Bad::raw("null"), "must specify one of: `podGroupName`"),
    }
}

fn validate_names(errors: &mut Errors, spec: &Value, at: &Path<'_>) {
    for field in ["serviceAccountName", "nodeName"] {
        let name = text(&spec[field]);
        if !name.is_empty() {
            errors.syntax(&at.child(field), name, syntax::subdomain(name));
        }
    }
}

fn validate_host_aliases(errors: &mut Errors, aliases: &[Value], at: &Path<'_>) {
    for (i, alias) in aliases.iter().enumerate() {
        let at = at.index(i);
        if let Some(wrong) = syntax::ip_error(text(&alias["ip"])) {
            errors.invalid(&at.child("ip"), text(&alias["ip"]), wrong);
        }
        let names = at.child("hostnames");
        for (j, name) in list(&alias["hostnames"]).iter().map(text).enumerate() {
            errors.syntax(&names.index(j), name, syntax::subdomain(name));
        }
    }
}

/// What only Pods, not templates, must fulfil.
pub(super) fn validate_pod_only(errors: &mut Errors, spec: &Value, at: &Path<'_>) {
    if text(&spec["serviceAccountName"]).is_empty() {
        let at = at.child("volumes");
        for (i, volume) in list(&spec["volumes"]).iter().enumerate() {
            let at = at.index(i);
            let at = at.child("projected");
            let at = at.child("sources");
            for (j, source) in list(&volume["projected"]["sources"]).iter().enumerate() {
                if source["serviceAccountToken"].is_object() {
                    let message = "must not be specified when serviceAccountName is not set";
                    errors.forbidden(&at.index(j).child("serviceAccountToken"), message);
                }
            }
        }
    }
    for field in ["containers", "initContainers"] {
        let at = at.child(field);
        for (i, container) in list(&spec[field]).iter().enumerate() {
            containers::validate_image_padding(errors, container, &at.index(i));
        }
    }
}
