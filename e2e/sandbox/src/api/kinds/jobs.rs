//! Jobs: defaults, strategy, table.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    Env,
    behaviour::Behaviour,
    canonical::parse_time,
    job_status, job_validation, pod_defaults, strategy,
    table::duration,
    value::{child, insert_default, int, list, object, text, with_object_in_field, yes},
};

pub(super) fn job() -> Behaviour {
    Behaviour {
        default: Some(default),
        prepare_create: Some(prepare_create),
        validate: Some(job_validation::validate),
        validate_status: Some(job_status::validate),
        cell: Some(cell),
        ..Behaviour::default()
    }
}

/// Labels that tie Pods to their Job, old and new, with what they hold.
pub(super) const NAME_LABELS: [&str; 2] = ["job-name", "batch.kubernetes.io/job-name"];
/// Like [`NAME_LABELS`], for the uid.
pub(super) const UID_LABELS: [&str; 2] = ["controller-uid", "batch.kubernetes.io/controller-uid"];

fn default(job: &mut Value) {
    pod_defaults::in_spec(job);
    with_object_in_field(object(job), "spec", |spec| {
        if !spec.contains_key("completions") && !spec.contains_key("parallelism") {
            insert_default(spec, "completions", 1);
        }
        insert_default(spec, "parallelism", 1);
        let limit = if spec.contains_key("backoffLimitPerIndex") { i32::MAX } else { 6 };
        insert_default(spec, "backoffLimit", limit);
        insert_default(spec, "completionMode", "NonIndexed");
        insert_default(spec, "suspend", false);
        let policy = if spec.contains_key("podFailurePolicy") { "Failed" } else { "TerminatingOrFailed" };
        insert_default(spec, "podReplacementPolicy", policy);
        insert_default(spec, "manualSelector", false);
    });
    let labels = &job["spec"]["template"]["metadata"]["labels"];
    if labels.is_object() {
        let labels = labels.clone();
        insert_default(child(job, "metadata"), "labels", labels);
    }
}

fn prepare_create(job: &mut Value, _: &Env<'_>) {
    // The Job's labels are those of its template, and stay so when the selector's are added to both.
    let shared = job["metadata"]["labels"] == job["spec"]["template"]["metadata"]["labels"];
    if !yes(&job["spec"]["manualSelector"]) {
        generate_selector(job);
    }
    if shared {
        let labels = job["spec"]["template"]["metadata"]["labels"].clone();
        if labels.is_object() {
            child(job, "metadata").insert("labels".to_owned(), labels);
        }
    }
    strategy::create("batch/v1.Job", job, true);
}

/// Labels the template with the Job's name and uid, and selects by the uid.
fn generate_selector(job: &mut Value) {
    let name = job["metadata"]["name"].clone();
    let uid = job["metadata"]["uid"].clone();
    let spec = child(job, "spec");
    let metadata = object(spec.entry("template").or_insert(Value::Null)).entry("metadata").or_insert_with(|| json!({}));
    let labels = object(object(metadata).entry("labels").or_insert_with(|| json!({})));
    for label in NAME_LABELS {
        insert_default(labels, label, name.clone());
    }
    for label in UID_LABELS {
        insert_default(labels, label, uid.clone());
    }
    let selector = object(spec.entry("selector").or_insert_with(|| json!({})));
    let selected = object(selector.entry("matchLabels").or_insert_with(|| json!({})));
    insert_default(selected, UID_LABELS[1], uid);
}

pub(super) fn has_condition(job: &Value, kind: &str) -> bool {
    list(&job["status"]["conditions"]).iter().any(|c| text(&c["type"]) == kind && text(&c["status"]) == "True")
}

/// What a table calls the state of a Job: the first of its conditions that holds, in this order.
fn state(job: &Value) -> &'static str {
    for done in ["Complete", "Failed"] {
        if has_condition(job, done) {
            return done;
        }
    }
    if job["metadata"]["deletionTimestamp"].is_string() {
        return "Terminating";
    }
    let rest = ["Suspended", "FailureTarget", "SuccessCriteriaMet"];
    rest.into_iter().find(|kind| has_condition(job, kind)).unwrap_or("Running")
}

fn cell(job: &Value, now: Timestamp, column: &str) -> Option<Value> {
    let (spec, status) = (&job["spec"], &job["status"]);
    let shown = match column {
        "Status" => state(job).to_owned(),
        "Completions" => {
            let succeeded = int(&status["succeeded"]);
            match (spec["completions"].as_i64(), int(&spec["parallelism"])) {
                (Some(completions), _) => format!("{succeeded}/{completions}"),
                (None, parallelism) if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
                (None, _) => format!("{succeeded}/1"),
            }
        }
        "Duration" => {
            let [started, completed] = ["startTime", "completionTime"].map(|field| parse_time(text(&status[field])));
            let end = completed.unwrap_or(now).as_second();
            started.map_or(String::new(), |started| duration(end - started.as_second()))
        }
        _ => return None,
    };
    Some(shown.into())
}
