//! Workloads and `PodGroups`: alpha, served if gate `GenericWorkload` is on.

use serde_json::Value;

use super::{
    Env,
    behaviour::Behaviour,
    conditions,
    errors::{Bad, Errors, Path},
    strategy, syntax,
    value::{child, for_each_object_in_list, insert_default, int, list, object, text, with_object_in_field},
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

pub(super) fn workload() -> Behaviour {
    Behaviour {
        prepare_create: Some(|workload, env| {
            for_each_object_in_list(child(workload, "spec"), "podGroupTemplates", |template| {
                drop_gated(template, env);
                // Encoders write this one whether it is set or not.
                insert_default(template, "schedulingConstraints", Value::Null);
            });
            strategy::create("scheduling/v1alpha2.Workload", workload, false);
        }),
        validate: Some(|errors, new, old| {
            if old.is_null() {
                return validate_workload(errors, new);
            }
            fixed(errors, new, old, &["controllerRef", "podGroupTemplates"]);
        }),
        ..Behaviour::default()
    }
}

pub(super) fn pod_group() -> Behaviour {
    Behaviour {
        prepare_create: Some(|group, env| {
            strategy::add_finalizer(group, PROTECTION);
            with_object_in_field(object(group), "spec", |spec| {
                drop_gated(spec, env);
                insert_default(spec, "disruptionMode", "Pod");
            });
            strategy::create("scheduling/v1alpha2.PodGroup", group, false);
        }),
        validate: Some(|errors, new, old| {
            if !old.is_null() {
                return fixed(errors, new, old, &["podGroupTemplateRef", "schedulingPolicy"]);
            }
            let at = Path::new("spec");
            let reference = &new["spec"]["podGroupTemplateRef"];
            if reference.is_object() {
                validate_reference(errors, reference, &at.child("podGroupTemplateRef"));
            }
            validate_policy(errors, &new["spec"]["schedulingPolicy"], &at.child("schedulingPolicy"));
        }),
        validate_status: Some(|errors, new, _| {
            conditions::validate(errors, list(&new["status"]["conditions"]), &Path::new("status").child("conditions"));
        }),
        cell: Some(|group, _, column| (column == "Status").then(|| status_cell(group).into())),
        ..Behaviour::default()
    }
}

fn drop_gated(fields: &mut serde_json::Map<String, Value>, env: &Env<'_>) {
    for (field, gate) in GATED {
        if !(env.gate)(gate) {
            fields.remove(field);
        }
    }
}

/// What may not be changed; the value is not shown.
fn fixed(errors: &mut Errors, new: &Value, old: &Value, fields: &[&str]) {
    let spec = Path::new("spec");
    for field in fields.iter().filter(|field| new["spec"][**field] != old["spec"][**field]) {
        errors.invalid(&spec.child(field), Bad::raw("null"), "field is immutable");
    }
}

fn validate_reference(errors: &mut Errors, reference: &Value, at: &Path<'_>) {
    let workload = &reference["workload"];
    if !workload.is_object() {
        errors.invalid(at, "", "must specify one of: `workload`");
        return;
    }
    let at = at.child("workload");
    required(errors, workload, &at, &["workloadName", "podGroupTemplateName"]);
    let name = text(&workload["workloadName"]);
    if !name.is_empty() {
        errors.syntax(&at.child("workloadName"), name, syntax::subdomain(name));
    }
    validate_label(errors, &workload["podGroupTemplateName"], &at.child("podGroupTemplateName"));
}

/// A DNS label, if there is one; here its length is one of bytes.
fn validate_label(errors: &mut Errors, label: &Value, at: &Path<'_>) {
    let label = text(label);
    if !label.is_empty() {
        let wrong = syntax::label(label).into_iter();
        errors.syntax(at, label, wrong.map(|wrong| wrong.replace("63 characters", "63 bytes")));
    }
}

fn required(errors: &mut Errors, object: &Value, at: &Path<'_>, fields: &[&str]) {
    for field in fields {
        if text(&object[*field]).is_empty() {
            errors.required(&at.child(field), "");
        }
    }
}

fn validate_workload(errors: &mut Errors, workload: &Value) {
    let at = Path::new("spec");
    let reference = &workload["spec"]["controllerRef"];
    if reference.is_object() {
        required(errors, reference, &at.child("controllerRef"), &["kind", "name"]);
    }
    let at = at.child("podGroupTemplates");
    let templates = list(&workload["spec"]["podGroupTemplates"]);
    match templates.len() {
        0 => errors.required(&at, ""),
        found if found > MOST_TEMPLATES => errors.too_many(&at, found, MOST_TEMPLATES),
        _ => {}
    }
    for (i, template) in templates.iter().enumerate() {
        let at = at.index(i);
        required(errors, template, &at, &["name"]);
        validate_label(errors, &template["name"], &at.child("name"));
        if templates[..i].iter().any(|before| before["name"] == template["name"]) {
            let [name, policy, constraints] =
                ["name", "schedulingPolicy", "schedulingConstraints"].map(|field| template[field].to_string());
            let shown =
                format!(r#"{{"name":{name},"schedulingPolicy":{policy},"schedulingConstraints":{constraints}}}"#);
            errors.duplicate(&at, Bad::raw(shown));
        }
        validate_policy(errors, &template["schedulingPolicy"], &at.child("schedulingPolicy"));
    }
}

/// Exactly one policy; a gang is of one Pod at least.
fn validate_policy(errors: &mut Errors, policy: &Value, at: &Path<'_>) {
    let given: Vec<&str> = ["basic", "gang"].into_iter().filter(|kind| policy[*kind].is_object()).collect();
    match given.len() {
        1 => {}
        0 => errors.invalid(at, "", "must specify one of: `basic`, `gang`"),
        _ => errors.invalid(at, &*format!("{{{}}}", given.join(", ")), "must specify exactly one of: `basic`, `gang`"),
    }
    if policy["gang"].is_object() {
        let count = int(&policy["gang"]["minCount"]);
        let at = at.child("gang");
        match count {
            0 => errors.required(&at.child("minCount"), ""),
            ..0 => errors.invalid(&at.child("minCount"), count, "must be greater than or equal to 1"),
            _ => {}
        }
    }
}

fn status_cell(group: &Value) -> &str {
    let condition = |kind: &str| list(&group["status"]["conditions"]).iter().find(|c| text(&c["type"]) == kind);
    match (condition("DisruptionTarget"), condition("PodGroupScheduled")) {
        (Some(target), _) => text(&target["reason"]),
        (None, Some(scheduled)) if text(&scheduled["status"]) == "True" => "Scheduled",
        (None, Some(_)) => "Unschedulable",
        (None, None) => "Pending",
    }
}
