//! Kinds that are stored and shown, and little else: certificates, runtime classes, devices, flow control; and kinds
//! that are never stored.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    behaviour::{Behaviour, behaviour},
    canonical::canonicalize,
    table::{age, duration, name, or},
    value::{insert_default, int, list, object, text, with_object_in_field},
};

/// `certificatesigningrequests`.
pub(super) const SIGNING_REQUEST: Behaviour = behaviour!("certificates.CertificateSigningRequest", plain,
    field: |request, field| (field == "spec.signerName").then(|| text(&request["spec"]["signerName"]).to_owned()),
    field_labels: true,
    row: signing_row,
);

/// `runtimeclasses`.
pub(super) const RUNTIME_CLASS: Behaviour = behaviour!("node.RuntimeClass", plain,
    unconditional_update: false,
    create_on_update: true,
    row: |class, now| vec![name(class), text(&class["handler"]).into(), age(class, now)],
);

/// `deviceclasses`.
pub(super) const DEVICE_CLASS: Behaviour = behaviour!("resource.DeviceClass", counted);

/// `resourceclaims`.
pub(super) const RESOURCE_CLAIM: Behaviour = behaviour!("resource.ResourceClaim", plain,
    default: |claim| {
        canonicalize("resource.ResourceClaim", claim);
        with_object_in_field(object(claim), "spec", default_devices);
    },
    row: |claim, now| vec![name(claim), claim_state(claim).into(), age(claim, now)],
);

/// `resourceclaimtemplates`.
pub(super) const CLAIM_TEMPLATE: Behaviour = behaviour!("resource.ResourceClaimTemplate", plain,
    default: |template| {
        canonicalize("resource.ResourceClaimTemplate", template);
        with_object_in_field(object(template), "spec", |spec| with_object_in_field(spec, "spec", default_devices));
    },
);

/// `resourceslices`.
pub(super) const RESOURCE_SLICE: Behaviour = behaviour!("resource.ResourceSlice", counted,
    field: |slice, field| match field {
        "spec.nodeName" | "spec.driver" => Some(text(&slice["spec"][&field[5..]]).to_owned()),
        _ => None,
    },
    field_labels: true,
    row: |slice, now| {
        let spec = &slice["spec"];
        let [node, driver, pool] = [&spec["nodeName"], &spec["driver"], &spec["pool"]["name"]].map(|v| text(v).into());
        vec![name(slice), node, driver, pool, age(slice, now)]
    },
);

/// `flowschemas`.
pub(super) const FLOW_SCHEMA: Behaviour = behaviour!("flowcontrol.FlowSchema", counted,
    default: |schema| {
        canonicalize("flowcontrol.FlowSchema", schema);
        with_object_in_field(object(schema), "spec", |spec| {
            if spec.get("matchingPrecedence").is_none_or(|precedence| int(precedence) == 0) {
                spec.insert("matchingPrecedence".to_owned(), 1000.into());
            }
        });
    },
    row: flow_row,
);

/// `prioritylevelconfigurations`.
pub(super) const PRIORITY_LEVEL: Behaviour = behaviour!("flowcontrol.PriorityLevelConfiguration", counted,
    default: default_level,
    row: level_row,
);

/// `componentstatuses`: shown, never stored.
pub(super) const COMPONENT_STATUS: Behaviour = behaviour!("core.ComponentStatus", plain,
    row: |status, _| {
        let healthy = list(&status["conditions"]).iter().find(|condition| text(&condition["type"]) == "Healthy");
        let condition = healthy.unwrap_or(&Value::Null);
        let word = match condition["status"].as_str() {
            Some("True") => "Healthy",
            Some(_) => "Unhealthy",
            None => "Unknown",
        };
        vec![name(status), word.into(), text(&condition["message"]).into(), text(&condition["error"]).into()]
    },
);

/// Kinds that are answers to a question.
pub(super) mod reviews {
    use super::{Behaviour, behaviour};

    /// `tokenreviews`.
    pub(in super::super) const TOKEN: Behaviour = behaviour!("authentication.TokenReview", plain);
    /// `selfsubjectreviews`.
    pub(in super::super) const SELF: Behaviour = behaviour!("authentication.SelfSubjectReview", plain);
    /// `subjectaccessreviews`.
    pub(in super::super) const ACCESS: Behaviour = behaviour!("authorization.SubjectAccessReview", plain);
    /// `localsubjectaccessreviews`.
    pub(in super::super) const LOCAL_ACCESS: Behaviour = behaviour!("authorization.LocalSubjectAccessReview", plain);
    /// `selfsubjectaccessreviews`.
    pub(in super::super) const SELF_ACCESS: Behaviour = behaviour!("authorization.SelfSubjectAccessReview", plain);
    /// `selfsubjectrulesreviews`.
    pub(in super::super) const SELF_RULES: Behaviour = behaviour!("authorization.SelfSubjectRulesReview", plain);
    /// `bindings`.
    pub(in super::super) const BINDING: Behaviour = behaviour!("core.Binding", plain);
}

fn default_devices(spec: &mut serde_json::Map<String, Value>) {
    let request = |request: &mut serde_json::Map<String, Value>| {
        insert_default(request, "allocationMode", "ExactCount");
        if request.get("allocationMode").map(text) == Some("ExactCount") {
            insert_default(request, "count", 1);
        }
    };
    with_object_in_field(spec, "devices", |devices| {
        super::value::for_each_object_in_list(devices, "requests", |requested| {
            with_object_in_field(requested, "exactly", request);
            super::value::for_each_object_in_list(requested, "firstAvailable", request);
        });
    });
}

fn default_level(level: &mut Value) {
    canonicalize("flowcontrol.PriorityLevelConfiguration", level);
    with_object_in_field(object(level), "spec", |spec| {
        for (field, shares) in [("limited", 30), ("exempt", 0)] {
            with_object_in_field(spec, field, |limits| {
                insert_default(limits, "nominalConcurrencyShares", shares);
                insert_default(limits, "lendablePercent", 0);
                with_object_in_field(limits, "limitResponse", |response| {
                    with_object_in_field(response, "queuing", |queuing| {
                        for (field, value) in [("handSize", 8), ("queues", 64), ("queueLengthLimit", 50)] {
                            if queuing.get(field).is_none_or(|held| int(held) == 0) {
                                queuing.insert(field.to_owned(), value.into());
                            }
                        }
                    });
                });
            });
        }
    });
}

fn signing_row(request: &Value, now: Timestamp) -> Vec<Value> {
    let spec = &request["spec"];
    let has = |kind: &str| list(&request["status"]["conditions"]).iter().any(|c| text(&c["type"]) == kind);
    let mut state = if has("Denied") {
        "Denied"
    } else if has("Approved") {
        "Approved"
    } else {
        "Pending"
    }
    .to_owned();
    if has("Failed") {
        state.push_str(",Failed");
    }
    if !text(&request["status"]["certificate"]).is_empty() {
        state.push_str(",Issued");
    }
    let asked = spec["expirationSeconds"].as_i64().map_or("<none>".to_owned(), duration);
    vec![
        name(request),
        age(request, now),
        or(text(&spec["signerName"]), "<none>").into(),
        text(&spec["username"]).into(),
        asked.into(),
        state.into(),
    ]
}

fn claim_state(claim: &Value) -> String {
    let deleted = claim["metadata"]["deletionTimestamp"].is_string();
    let mut states = vec![];
    if deleted {
        states.push("deleted");
    }
    if claim["status"]["allocation"].is_object() {
        states.push("allocated");
        if !list(&claim["status"]["reservedFor"]).is_empty() {
            states.push("reserved");
        }
    } else if !deleted {
        states.push("pending");
    }
    states.join(",")
}

fn flow_row(flow: &Value, now: Timestamp) -> Vec<Value> {
    let spec = &flow["spec"];
    let dangling = list(&flow["status"]["conditions"]).iter().find(|condition| text(&condition["type"]) == "Dangling");
    vec![
        name(flow),
        text(&spec["priorityLevelConfiguration"]["name"]).into(),
        int(&spec["matchingPrecedence"]).into(),
        spec["distinguisherMethod"]["type"].as_str().unwrap_or("<none>").into(),
        age(flow, now),
        dangling.map_or("?", |condition| text(&condition["status"])).into(),
    ]
}

fn level_row(level: &Value, now: Timestamp) -> Vec<Value> {
    let limited = &level["spec"]["limited"];
    let queuing = &limited["limitResponse"]["queuing"];
    let shown = |value: &Value| if value.is_null() { json!("<none>") } else { value.clone() };
    vec![
        name(level),
        text(&level["spec"]["type"]).into(),
        shown(&limited["nominalConcurrencyShares"]),
        shown(&queuing["queues"]),
        shown(&queuing["handSize"]),
        shown(&queuing["queueLengthLimit"]),
        age(level, now),
    ]
}
