//! `CronJobs`.

use jiff::Timestamp;
use serde_json::Value;

use super::{
    FieldError,
    behaviour::{Behaviour, behaviour},
    canonical::canonicalize,
    errors::{Errors, Path},
    job_validation, jobs, schedules, selectors,
    table::{age, containers, name, since},
    value::{insert_default, list, object, text, with_object_in_field, yes},
    workloads,
};

/// `cronjobs`.
pub(super) const CRON_JOB: Behaviour = behaviour!("batch.CronJob", counted,
    default: default,
    validate_create: validate_create,
    validate_update: |new, old| validate(new, Some(old)).into_list(),
    row: row,
);

fn default(cron: &mut Value) {
    canonicalize("batch.CronJob", cron);
    with_object_in_field(object(cron), "spec", |spec| {
        with_object_in_field(spec, "jobTemplate", |template| {
            with_object_in_field(template, "spec", jobs::default_shared);
        });
        insert_default(spec, "concurrencyPolicy", "Allow");
        insert_default(spec, "suspend", false);
        insert_default(spec, "successfulJobsHistoryLimit", 3);
        insert_default(spec, "failedJobsHistoryLimit", 1);
    });
}

fn validate_create(cron: &Value) -> Vec<FieldError> {
    let mut errors = validate(cron, None);
    let name = text(&cron["metadata"]["name"]);
    if name.len() > 52 {
        errors.invalid(&"metadata.name", name, "must be no more than 52 characters");
    }
    errors.into_list()
}

fn validate(cron: &Value, old: Option<&Value>) -> Errors {
    let mut errors = Errors::new();
    let spec = &cron["spec"];
    let at = Path::new("spec");
    let schedule = text(&spec["schedule"]);
    let zone = spec["timeZone"].as_str();
    if schedule.is_empty() {
        errors.required(&at.child("schedule"), "");
    } else {
        let zoned_before = old.is_some_and(|old| text(&old["spec"]["schedule"]).contains("TZ"));
        validate_schedule(&mut errors, schedule, zone, zoned_before, &at.child("schedule"));
    }
    errors.non_negative(&at.child("startingDeadlineSeconds"), spec["startingDeadlineSeconds"].as_i64());
    if let Some(zone) = zone
        && old.is_none_or(|old| old["spec"]["timeZone"].as_str() != Some(zone))
    {
        validate_zone(&mut errors, zone, &at.child("timeZone"));
    }
    let policies = ["Allow", "Forbid", "Replace"];
    errors.one_of(&at.child("concurrencyPolicy"), text(&spec["concurrencyPolicy"]), &policies);
    let template = &spec["jobTemplate"]["spec"];
    let template_at = at.child("jobTemplate");
    let template_at = template_at.child("spec");
    job_validation::validate_spec(&mut errors, template, &template_at);
    if template["selector"].is_object() {
        let shown = selectors::shown(&template["selector"]);
        errors.invalid(&template_at.child("selector"), shown, "`selector` will be auto-generated");
    }
    if yes(&template["manualSelector"]) {
        errors.not_supported(&template_at.child("manualSelector"), true, &["nil", "false"]);
    }
    workloads::validate_counters(&mut errors, spec, &["successfulJobsHistoryLimit", "failedJobsHistoryLimit"], &at);
    errors
}

fn validate_schedule(errors: &mut Errors, schedule: &str, zone: Option<&str>, zoned_before: bool, at: &Path<'_>) {
    if let Err(wrong) = schedules::check(schedule) {
        errors.invalid(at, schedule, &wrong);
    }
    match (schedule.contains("TZ"), zoned_before) {
        (true, true) if zone.is_some() => {
            errors.invalid(at, schedule, "cannot use both timeZone field and TZ or CRON_TZ in schedule");
        }
        (true, false) => {
            errors.invalid(at, schedule, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead");
        }
        _ => {}
    }
}

fn validate_zone(errors: &mut Errors, zone: &str, at: &Path<'_>) {
    if zone.is_empty() {
        return errors.invalid(at, zone, "timeZone must be nil or non-empty string");
    }
    let unknown = format!("unknown time zone {zone}");
    let proper = |part: &str| {
        (1..=14).contains(&part.len())
            && !matches!(part, "." | "..")
            && !part.starts_with('-')
            && part.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_' | b'+'))
    };
    if !zone.split('/').all(proper) {
        return errors.invalid(at, zone, &unknown);
    }
    if zone.eq_ignore_ascii_case("Local") {
        let message = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
        errors.invalid(at, zone, message);
    }
    if zone != "Local" && schedules::check_zone(zone).is_err() {
        errors.invalid(at, zone, &unknown);
    }
}

fn row(cron: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&cron["spec"], &cron["status"]);
    let job = &spec["jobTemplate"]["spec"];
    let [names, images] = containers(&job["template"]["spec"]["containers"]);
    let last = &status["lastScheduleTime"];
    let last = if last.is_string() { since(last, now) } else { "<none>".to_owned() };
    let suspend = match spec["suspend"].as_bool() {
        Some(true) => "True",
        Some(false) => "False",
        None => "<unset>",
    };
    vec![
        name(cron),
        text(&spec["schedule"]).into(),
        spec["timeZone"].as_str().unwrap_or("<none>").into(),
        suspend.into(),
        list(&status["active"]).len().into(),
        last.into(),
        age(cron, now),
        names,
        images,
        selectors::cell(&job["selector"]).into(),
    ]
}
