//! Workloads and `PodGroups`: alpha, served if gate `GenericWorkload` is on.

use jiff::Timestamp;
use serde_json::Value;

use super::{
    Env, FieldError,
    behaviour::{Behaviour, behaviour},
    conditions,
    errors::{Bad, Errors, Path},
    strategy, syntax,
    table::{age, name},
    value::{child, each, list, text, within},
};

/// What admission puts on each group, for the loop that takes it off when no Pod is left in the group.
const PROTECTION: &str = "scheduling.k8s.io/podgroup-protection";
/// How many templates a Workload may have.
const MOST_TEMPLATES: usize = 8;
/// Fields and the gates, off in 1.36, without which they are not kept.
const GATED: [(&str, &str); 5] = [
    ("schedulingConstraints", "TopologyAwareWorkloadScheduling"),
    ("resourceClaims", "DRAWorkloadResourceClaims"),
    ("disruptionMode", "WorkloadAwarePreemption"),
    ("priorityClassName", "WorkloadAwarePreemption"),
    ("priority", "WorkloadAwarePreemption"),
];

/// `workloads`.
pub(super) const WORKLOAD: Behaviour = behaviour!("scheduling.Workload", plain,
    prepare_create: |workload, env| {
        each(child(workload, "spec"), "podGroupTemplates", |template| drop_gated(template, env));
        strategy::create("scheduling.Workload", workload, false);
    },
    validate_create: validate_workload,
    validate_update: |new, old| {
        let mut errors = Errors::new();
        let spec = Path::new("spec");
        for field in ["controllerRef", "podGroupTemplates"] {
            errors.immutable(&spec.child(field), &new["spec"][field], &old["spec"][field]);
        }
        errors.into_list()
    },
);

/// `podgroups`.
pub(super) const POD_GROUP: Behaviour = behaviour!("scheduling.PodGroup", plain,
    prepare_create: |group, env| {
        strategy::add_finalizer(group, PROTECTION);
        within(super::value::object(group), "spec", |spec| drop_gated(spec, env));
        strategy::create("scheduling.PodGroup", group, false);
    },
    validate_create: |group| {
        let mut errors = Errors::new();
        let at = Path::new("spec");
        let reference = &group["spec"]["podGroupTemplateRef"];
        if reference.is_object() {
            let at = at.child("podGroupTemplateRef");
            let at = at.child("workload");
            required(&mut errors, &reference["workload"], &at, &["workloadName", "podGroupTemplateName"]);
        }
        validate_policy(&mut errors, &group["spec"]["schedulingPolicy"], &at.child("schedulingPolicy"));
        errors.into_list()
    },
    validate_update: |new, old| {
        let mut errors = Errors::new();
        let spec = Path::new("spec");
        for field in ["podGroupTemplateRef", "schedulingPolicy"] {
            errors.immutable(&spec.child(field), &new["spec"][field], &old["spec"][field]);
        }
        errors.into_list()
    },
    validate_status: |new, _| {
        let mut errors = Errors::new();
        let status = Path::new("status");
        conditions::validate(&mut errors, list(&new["status"]["conditions"]), &status.child("conditions"));
        errors.into_list()
    },
    row: group_row,
);

fn drop_gated(fields: &mut serde_json::Map<String, Value>, env: &Env<'_>) {
    for (field, gate) in GATED {
        if !(env.gate)(gate) && fields.get(field).is_some_and(|value| !value.is_null()) {
            fields.remove(field);
        }
    }
}

fn required(errors: &mut Errors, object: &Value, at: &Path<'_>, fields: &[&str]) {
    for field in fields {
        if text(&object[*field]).is_empty() {
            errors.required(&at.child(field), "");
        }
    }
}

fn validate_workload(workload: &Value) -> Vec<FieldError> {
    let mut errors = Errors::new();
    let at = Path::new("spec");
    let reference = &workload["spec"]["controllerRef"];
    if reference.is_object() {
        required(&mut errors, reference, &at.child("controllerRef"), &["kind", "name"]);
    }
    let at = at.child("podGroupTemplates");
    let templates = list(&workload["spec"]["podGroupTemplates"]);
    match templates.len() {
        0 => errors.required(&at, "must have at least one item"),
        found if found > MOST_TEMPLATES => errors.too_many(&at, found, MOST_TEMPLATES),
        _ => {}
    }
    for (i, template) in templates.iter().enumerate() {
        let at = at.index(i);
        let label = text(&template["name"]);
        if label.is_empty() {
            errors.required(&at.child("name"), "");
        } else {
            errors.syntax(&at.child("name"), label, syntax::label(label));
        }
        if templates[..i].iter().any(|before| text(&before["name"]) == label) {
            errors.duplicate(&at, Bad::json(template));
        }
        validate_policy(&mut errors, &template["schedulingPolicy"], &at.child("schedulingPolicy"));
    }
    errors.into_list()
}

/// Exactly one policy; a gang is of one Pod at least.
fn validate_policy(errors: &mut Errors, policy: &Value, at: &Path<'_>) {
    let given: Vec<&str> = ["basic", "gang"].into_iter().filter(|kind| policy[*kind].is_object()).collect();
    match given.len() {
        1 => {}
        0 => errors.invalid(at, "", "must specify one of: `basic`, `gang`"),
        _ => errors.invalid(
            at,
            Bad::raw(format!("{{{}}}", given.join(", "))),
            "must specify exactly one of: `basic`, `gang`",
        ),
    }
    if policy["gang"].is_object() {
        let count = super::value::int(&policy["gang"]["minCount"]);
        let at = at.child("gang");
        match count {
            0 => errors.required(&at.child("minCount"), ""),
            ..0 => errors.invalid(&at.child("minCount"), count, "must be greater than or equal to 1"),
            _ => {}
        }
    }
}

fn group_row(group: &Value, now: Timestamp) -> Vec<Value> {
    let policy = if group["spec"]["schedulingPolicy"]["gang"].is_object() { "Gang" } else { "Basic" };
    let workload = match &group["spec"]["podGroupTemplateRef"] {
        Value::Object(reference) => text(&reference["workload"]["workloadName"]),
        _ => "<none>",
    };
    let condition = |kind: &str| list(&group["status"]["conditions"]).iter().find(|c| text(&c["type"]) == kind);
    let status = match (condition("DisruptionTarget"), condition("PodGroupScheduled")) {
        (Some(target), _) => text(&target["reason"]),
        (None, Some(scheduled)) if text(&scheduled["status"]) == "True" => "Scheduled",
        (None, Some(_)) => "Unschedulable",
        (None, None) => "Pending",
    };
    vec![name(group), policy.into(), workload.into(), status.into(), age(group, now)]
}
