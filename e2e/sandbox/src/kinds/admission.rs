//! The kinds that extend the API server: webhooks, policies, custom resource definitions, API services.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::{
    behaviour::{Behaviour, behaviour},
    canonical::canonicalize,
    schema, selectors,
    table::{age, name, name_and_created, or},
    value::{for_each_object_in_list, insert_default, list, object, text, with_object_in_field, yes},
};

/// `mutatingwebhookconfigurations`.
pub(super) const MUTATING_WEBHOOKS: Behaviour = behaviour!("admissionregistration.MutatingWebhookConfiguration", counted,
    default: |hooks| {
        canonicalize("admissionregistration.MutatingWebhookConfiguration", hooks);
        for_each_object_in_list(object(hooks), "webhooks", |hook| {
            default_webhook(hook);
            insert_default(hook, "reinvocationPolicy", "Never");
        });
    },
    unconditional_update: false,
    row: |hooks, now| vec![name(hooks), list(&hooks["webhooks"]).len().into(), age(hooks, now)],
);

/// `validatingwebhookconfigurations`.
pub(super) const VALIDATING_WEBHOOKS: Behaviour = behaviour!("admissionregistration.ValidatingWebhookConfiguration", counted,
    default: |hooks| {
        canonicalize("admissionregistration.ValidatingWebhookConfiguration", hooks);
        for_each_object_in_list(object(hooks), "webhooks", default_webhook);
    },
    unconditional_update: false,
    row: |hooks, now| vec![name(hooks), list(&hooks["webhooks"]).len().into(), age(hooks, now)],
);

/// `mutatingadmissionpolicies`.
pub(super) const MUTATING_POLICY: Behaviour = behaviour!("admissionregistration.MutatingAdmissionPolicy", counted,
    default: |policy| {
        canonicalize("admissionregistration.MutatingAdmissionPolicy", policy);
        with_object_in_field(object(policy), "spec", default_policy);
    },
    unconditional_update: false,
    row: |policy, now| policy_row(policy, "mutations", now),
);

/// `validatingadmissionpolicies`.
pub(super) const VALIDATING_POLICY: Behaviour = behaviour!("admissionregistration.ValidatingAdmissionPolicy", counted,
    default: |policy| {
        canonicalize("admissionregistration.ValidatingAdmissionPolicy", policy);
        with_object_in_field(object(policy), "spec", default_policy);
    },
    unconditional_update: false,
    row: |policy, now| policy_row(policy, "validations", now),
);

/// `mutatingadmissionpolicybindings`.
pub(super) const MUTATING_BINDING: Behaviour = behaviour!("admissionregistration.MutatingAdmissionPolicyBinding", counted,
    default: |binding| {
        canonicalize("admissionregistration.MutatingAdmissionPolicyBinding", binding);
        with_object_in_field(object(binding), "spec", |spec| with_object_in_field(spec, "matchResources", default_match));
    },
    unconditional_update: false,
    row: binding_row,
);

/// `validatingadmissionpolicybindings`.
pub(super) const VALIDATING_BINDING: Behaviour = behaviour!("admissionregistration.ValidatingAdmissionPolicyBinding", counted,
    default: |binding| {
        canonicalize("admissionregistration.ValidatingAdmissionPolicyBinding", binding);
        with_object_in_field(object(binding), "spec", |spec| with_object_in_field(spec, "matchResources", default_match));
    },
    unconditional_update: false,
    row: binding_row,
);

/// `customresourcedefinitions`.
pub(super) const DEFINITION: Behaviour = behaviour!("apiextensions.CustomResourceDefinition", counted,
    default: default_definition,
    prepare_create: |definition, _| {
        super::strategy::create("apiextensions.CustomResourceDefinition", definition, true);
        default_stored_versions(definition);
    },
    unconditional_update: false,
    row: name_and_created,
);

/// `apiservices`.
pub(super) const API_SERVICE: Behaviour = behaviour!("apiregistration.APIService", plain,
    default: |service| {
        canonicalize("apiregistration.APIService", service);
        with_object_in_field(object(service), "spec", |spec| with_object_in_field(spec, "service", |service| insert_default(service, "port", 443)));
    },
    unconditional_update: false,
    row: api_service_row,
);

fn default_match(resources: &mut Map<String, Value>) {
    insert_default(resources, "matchPolicy", "Equivalent");
    insert_default(resources, "namespaceSelector", json!({}));
    insert_default(resources, "objectSelector", json!({}));
    for field in ["resourceRules", "excludeResourceRules"] {
        for_each_object_in_list(resources, field, |rule| insert_default(rule, "scope", "*"));
    }
}

fn default_webhook(hook: &mut Map<String, Value>) {
    insert_default(hook, "failurePolicy", "Fail");
    insert_default(hook, "matchPolicy", "Equivalent");
    insert_default(hook, "namespaceSelector", json!({}));
    insert_default(hook, "objectSelector", json!({}));
    insert_default(hook, "timeoutSeconds", 10);
    for_each_object_in_list(hook, "rules", |rule| insert_default(rule, "scope", "*"));
    with_object_in_field(hook, "clientConfig", |config| {
        with_object_in_field(config, "service", |service| insert_default(service, "port", 443));
    });
}

fn default_policy(spec: &mut Map<String, Value>) {
    insert_default(spec, "failurePolicy", "Fail");
    with_object_in_field(spec, "matchConstraints", default_match);
}

fn default_definition(definition: &mut Value) {
    canonicalize("apiextensions.CustomResourceDefinition", definition);
    with_object_in_field(object(definition), "spec", |spec| {
        with_object_in_field(spec, "names", |names| {
            let kind = names.get("kind").map(text).unwrap_or_default().to_owned();
            insert_default(names, "singular", kind.to_lowercase());
            if !kind.is_empty() {
                insert_default(names, "listKind", format!("{kind}List"));
            }
        });
        insert_default(spec, "conversion", json!({"strategy": "None"}));
        with_object_in_field(spec, "conversion", |conversion| {
            with_object_in_field(conversion, "webhook", |hook| {
                with_object_in_field(hook, "clientConfig", |config| {
                    with_object_in_field(config, "service", |service| insert_default(service, "port", 443));
                });
            });
        });
    });
    default_stored_versions(definition);
}

/// The version that is stored is one that was stored.
fn default_stored_versions(definition: &mut Value) {
    let stored = list(&definition["spec"]["versions"]).iter().find(|version| yes(&version["storage"]));
    let Some(stored) = stored.map(|version| version["name"].clone()) else { return };
    let status = object(definition)
        .entry("status")
        .or_insert_with(|| schema::zero("apiextensions.CustomResourceDefinitionStatus"));
    if list(&status["storedVersions"]).is_empty() {
        object(status).insert("storedVersions".to_owned(), json!([stored]));
    }
}

fn policy_row(policy: &Value, counted: &str, now: Timestamp) -> Vec<Value> {
    let spec = &policy["spec"];
    let kind = &spec["paramKind"];
    let kind = if kind.is_object() {
        format!("{}/{}", text(&kind["apiVersion"]), text(&kind["kind"]))
    } else {
        "<unset>".to_owned()
    };
    vec![name(policy), list(&spec[counted]).len().into(), kind.into(), age(policy, now)]
}

fn binding_row(binding: &Value, now: Timestamp) -> Vec<Value> {
    let spec = &binding["spec"];
    let param = &spec["paramRef"];
    let shown = if !text(&param["name"]).is_empty() {
        format!("{}/{}", or(text(&param["namespace"]), "*"), text(&param["name"]))
    } else if param["selector"].is_object() {
        selectors::cell(&param["selector"])
    } else {
        "<unset>".to_owned()
    };
    vec![name(binding), text(&spec["policyName"]).into(), shown.into(), age(binding, now)]
}

fn api_service_row(service: &Value, now: Timestamp) -> Vec<Value> {
    let host = &service["spec"]["service"];
    let host = if host.is_object() {
        format!("{}/{}", text(&host["namespace"]), text(&host["name"]))
    } else {
        "Local".to_owned()
    };
    let available =
        list(&service["status"]["conditions"]).iter().find(|condition| text(&condition["type"]) == "Available");
    let status = available.map_or("Unknown".to_owned(), |condition| match text(&condition["status"]) {
        "True" => "True".to_owned(),
        status => format!("{status} ({})", text(&condition["reason"])),
    });
    vec![name(service), host.into(), status.into(), age(service, now)]
}
