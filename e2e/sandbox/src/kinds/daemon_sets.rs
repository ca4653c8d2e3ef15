//! `DaemonSets`.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    Env, FieldError,
    behaviour::{Behaviour, behaviour},
    canonical::canonicalize,
    decode, deployments, dump,
    errors::{Bad, Errors, Path},
    pod_defaults, pod_spec, selectors, strategy,
    table::{age, containers, name},
    value::{child, insert_default, int, object, take, text, with_object_in_field},
    workloads::{self, Words},
};

/// `daemonsets`.
pub(super) const DAEMON_SET: Behaviour = behaviour!("apps.DaemonSet", counted,
    default: default,
    prepare_create: prepare_create,
    prepare_update: prepare_update,
    validate_create: |set| validate(set).into_list(),
    validate_update: validate_update,
    validate_status: validate_status,
    row: row,
    type_error: |set| decode::type_error("apps.DaemonSet", set).or_else(|| generation_error(set)),
);

const WORDS: Words = Words { empty: "daemonset", deadline: "DaemonSet", unusable: "" };

/// Where the generation of the template is kept.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

fn generation_error(set: &Value) -> Option<String> {
    let given = set["metadata"]["annotations"][TEMPLATE_GENERATION].as_str()?;
    let error = given.parse::<i64>().is_err();
    error.then(|| format!("strconv.ParseInt: parsing {}: invalid syntax", super::errors::quoted(given)))
}

fn template_generation(set: &Value) -> i64 {
    text(&set["metadata"]["annotations"][TEMPLATE_GENERATION]).parse().unwrap_or_default()
}

fn set_template_generation(set: &mut Value, generation: i64) {
    let annotations = child(set, "metadata").entry("annotations").or_insert_with(|| json!({}));
    object(annotations).insert(TEMPLATE_GENERATION.to_owned(), generation.to_string().into());
}

fn default(set: &mut Value) {
    canonicalize("apps.DaemonSet", set);
    with_object_in_field(object(set), "spec", |spec| {
        with_object_in_field(spec, "template", pod_defaults::template);
        with_object_in_field(spec, "updateStrategy", |update| {
            insert_default(update, "type", "RollingUpdate");
            if update.get("type").map(text) == Some("RollingUpdate") {
                insert_default(update, "rollingUpdate", json!({}));
                with_object_in_field(update, "rollingUpdate", |rolling| {
                    insert_default(rolling, "maxUnavailable", 1);
                    insert_default(rolling, "maxSurge", 0);
                });
            }
        });
        insert_default(spec, "revisionHistoryLimit", 10);
    });
}

fn prepare_create(set: &mut Value, _: &Env<'_>) {
    strategy::create("apps.DaemonSet", set, true);
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

fn validate(set: &Value) -> Errors {
    let mut errors = Errors::new();
    let spec = &set["spec"];
    let (selector, template) = (&spec["selector"], &spec["template"]);
    let at = Path::new("spec");
    let selector_at = at.child("selector");
    selectors::validate(&mut errors, selector, &selector_at);
    let template_at = at.child("template");
    workloads::validate_match(&mut errors, selector, template, &template_at);
    if selector.is_object() && selectors::is_empty(selector) {
        let message = format!("empty selector is invalid for {}", WORDS.empty);
        errors.invalid(&selector_at, selectors::shown(selector), &message);
    }
    pod_spec::validate_template(&mut errors, template, &template_at);
    workloads::validate_endless(&mut errors, template, &WORDS, &template_at);
    workloads::validate_counters(&mut errors, spec, &["minReadySeconds"], &at);
    validate_strategy(&mut errors, &spec["updateStrategy"], &at.child("updateStrategy"));
    workloads::validate_counters(&mut errors, spec, &["revisionHistoryLimit"], &at);
    errors
}

fn validate_strategy(errors: &mut Errors, update: &Value, at: &Path<'_>) {
    let rolling = &update["rollingUpdate"];
    let rolling_at = at.child("rollingUpdate");
    match text(&update["type"]) {
        "OnDelete" => {}
        "RollingUpdate" => {
            let fields = ["maxUnavailable", "maxSurge"];
            for field in fields {
                workloads::validate_int_or_percent(errors, &rolling[field], &rolling_at.child(field));
            }
            for field in fields {
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
        _ => {
            let shown = Bad::raw(dump::internal("DaemonSetUpdateStrategy", update));
            errors.not_supported(at, shown, &["RollingUpdate", "OnDelete"]);
        }
    }
}

fn validate_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut immutable = Errors::new();
    deployments::validate_same_selector(&mut immutable, new, old);
    let mut errors = immutable.into_list();
    errors.extend(validate(new).into_list());
    errors
}

fn validate_status(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Errors::new();
    let at = Path::new("status");
    let counters = [
        "currentNumberScheduled",
        "numberMisscheduled",
        "desiredNumberScheduled",
        "numberReady",
        "observedGeneration",
        "updatedNumberScheduled",
        "numberAvailable",
        "numberUnavailable",
        "collisionCount",
    ];
    workloads::validate_counters(&mut errors, &new["status"], &counters, &at);
    workloads::validate_collisions(&mut errors, &new["status"], &old["status"], &at);
    errors.into_list()
}

fn row(set: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&set["spec"], &set["status"]);
    let [names, images] = containers(&spec["template"]["spec"]["containers"]);
    let count = |field: &str| Value::from(int(&status[field]));
    vec![
        name(set),
        count("desiredNumberScheduled"),
        count("currentNumberScheduled"),
        count("numberReady"),
        count("updatedNumberScheduled"),
        count("numberAvailable"),
        selectors::labels_cell(&spec["template"]["spec"]["nodeSelector"]).into(),
        age(set, now),
        names,
        images,
        selectors::cell(&spec["selector"]).into(),
    ]
}
