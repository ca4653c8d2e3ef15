//! `DaemonSets`.

use serde_json::{Value, json};

use super::{
    Env,
    behaviour::Behaviour,
    errors::{Errors, Path, quoted},
    pod_defaults, strategy,
    value::{child, object, take, text},
    workloads,
};

pub(super) fn daemon_set() -> Behaviour {
    Behaviour {
        default: Some(pod_defaults::in_spec),
        prepare_create: Some(prepare_create),
        prepare_update: Some(prepare_update),
        validate: Some(validate),
        validate_status: Some(workloads::validate_collisions),
        type_error: Some(generation_error),
        ..Behaviour::default()
    }
}

/// Where the generation of the template is kept.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

fn generation_error(set: &Value) -> Option<String> {
    let given = set["metadata"]["annotations"][TEMPLATE_GENERATION].as_str()?;
    let error = given.parse::<i64>().is_err();
    error.then(|| format!("strconv.ParseInt: parsing {}: invalid syntax", quoted(given)))
}

fn template_generation(set: &Value) -> i64 {
    text(&set["metadata"]["annotations"][TEMPLATE_GENERATION]).parse().unwrap_or_default()
}

fn set_template_generation(set: &mut Value, generation: i64) {
    let annotations = child(set, "metadata").entry("annotations").or_insert_with(|| json!({}));
    object(annotations).insert(TEMPLATE_GENERATION.to_owned(), generation.to_string().into());
}

fn prepare_create(set: &mut Value, _: &Env<'_>) {
    strategy::create("apps/v1.DaemonSet", set, true);
    let generation = template_generation(set).max(1);
    set_template_generation(set, generation);
}

fn prepare_update(new: &mut Value, old: &Value, _: &Env<'_>) {
    take(new, old, "status");
    let template_changed = new["spec"]["template"] != old["spec"]["template"];
    set_template_generation(new, template_generation(old) + i64::from(template_changed));
    let changed = new["spec"] != old["spec"];
    strategy::bump_generation(new, old, changed);
}

fn validate(errors: &mut Errors, set: &Value, _: &Value) {
    let spec = &set["spec"];
    let at = Path::new("spec");
    workloads::validate(errors, spec, "daemonset");
    let update = &spec["updateStrategy"];
    let at = at.child("updateStrategy");
    let rolling = &update["rollingUpdate"];
    let rolling_at = at.child("rollingUpdate");
    match text(&update["type"]) {
        "OnDelete" => {}
        "RollingUpdate" => {
            let fields = ["maxUnavailable", "maxSurge"];
            for field in fields {
                workloads::validate_int_or_percent(errors, &rolling[field], &rolling_at.child(field));
                workloads::validate_at_most_all(errors, &rolling[field], &rolling_at.child(field));
            }
            match fields.map(|field| workloads::int_or_percents(&rolling[field])) {
                [0, 0] => errors.required(&rolling_at.child("maxUnavailable"), "cannot be 0 when maxSurge is 0"),
                [0, _] | [_, 0] => {}
                _ => {
                    let message = "may not be set when maxUnavailable is non-zero";
                    errors.invalid(&rolling_at.child("maxSurge"), &rolling["maxSurge"], message);
                }
            }
        }
        _ => errors.not_supported(&at, update, &["RollingUpdate", "OnDelete"]),
    }
}
