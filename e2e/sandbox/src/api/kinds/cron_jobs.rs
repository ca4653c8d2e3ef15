//! `CronJobs`.

use serde_json::Value;

use super::{
    behaviour::Behaviour,
    errors::{Errors, Path},
    job_validation, pod_defaults, schedules,
    value::{object, text, with_object_in_field, yes},
};

pub(super) fn cron_job() -> Behaviour {
    Behaviour {
        default: Some(|cron| {
            with_object_in_field(object(cron), "spec", |spec| {
                if let Some(template) = spec.get_mut("jobTemplate") {
                    pod_defaults::in_spec(template);
                }
            });
        }),
        validate: Some(validate),
        ..Behaviour::default()
    }
}

fn validate(errors: &mut Errors, cron: &Value, old: &Value) {
    let spec = &cron["spec"];
    let at = Path::new("spec");
    let schedule = text(&spec["schedule"]);
    let zone = spec["timeZone"].as_str();
    if !schedule.is_empty() {
        let zoned_before = text(&old["spec"]["schedule"]).contains("TZ");
        validate_schedule(errors, schedule, zone, zoned_before, &at.child("schedule"));
    }
    if let Some(zone) = zone.filter(|zone| old["spec"]["timeZone"].as_str() != Some(zone)) {
        validate_zone(errors, zone, &at.child("timeZone"));
    }
    let template = &spec["jobTemplate"]["spec"];
    let template_at = at.child("jobTemplate");
    let template_at = template_at.child("spec");
    job_validation::validate_spec(errors, template, &template_at);
    if template["selector"].is_object() {
        errors.invalid(&template_at.child("selector"), &template["selector"], "`selector` will be auto-generated");
    }
    if yes(&template["manualSelector"]) {
        errors.not_supported(&template_at.child("manualSelector"), true, &["nil", "false"]);
    }
    let name = text(&cron["metadata"]["name"]);
    if old.is_null() && name.len() > 52 {
        errors.invalid(&"metadata.name", name, "must be no more than 52 characters");
    }
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
