//! Validation of Jobs and of the Jobs in `CronJobs`.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    FieldError, dump,
    errors::{Bad, Errors, Path},
    job_status,
    jobs::{NAME_LABELS, UID_LABELS, has_condition},
    pod_spec, selectors, syntax,
    value::{int, list, object, take, text, yes},
    workloads,
};

/// Validates a Job. With `prefixed`, the labels with a domain must be there as well.
pub(super) fn validate(job: &Value, prefixed: bool) -> Errors {
    let mut errors = Errors::new();
    let spec = &job["spec"];
    validate_generated(&mut errors, job, prefixed);
    validate_with_selector(&mut errors, spec);
    if text(&spec["completionMode"]) == "Indexed"
        && let Some(completions) = spec["completions"].as_i64().filter(|completions| *completions > 0)
    {
        let name = text(&job["metadata"]["name"]);
        let longest = format!("{name}-{}", completions - 1);
        if !syntax::label(&longest).is_empty() {
            let message = format!("will not able to create pod with invalid DNS label: {longest}");
            errors.invalid(&"metadata.name", name, &message);
        }
    }
    errors
}

/// The labels and the selector that were generated must be as generated.
fn validate_generated(errors: &mut Errors, job: &Value, prefixed: bool) {
    let spec = &job["spec"];
    if yes(&spec["manualSelector"]) || !spec["selector"].is_object() {
        return;
    }
    let (name, uid) = (text(&job["metadata"]["name"]), text(&job["metadata"]["uid"]));
    if uid.is_empty() {
        errors.required(&"metadata.uid", "");
    }
    let labels = &spec["template"]["metadata"]["labels"];
    let wanted = [(UID_LABELS, uid), (NAME_LABELS, name)];
    let mut expected = serde_json::Map::new();
    for i in 0..if prefixed { 2 } else { 1 } {
        for (label, value) in wanted.map(|(labels, value)| (labels[i], value)) {
            let at = format!("spec.template.metadata.labels[{label}]");
            let message = format!("must be '{value}'");
            match labels.get(label).map(text) {
                None => errors.required(&at, &message),
                Some(held) if held != value => errors.invalid(&at, Bad::json(labels), &message),
                Some(_) => {}
            }
            expected.insert(label.to_owned(), value.into());
        }
    }
    if selectors::is_usable(&spec["selector"]) && !selectors::matches(&spec["selector"], &Value::Object(expected)) {
        errors.invalid(&"spec.selector", selectors::shown(&spec["selector"]), "`selector` not auto-generated");
    }
}

fn validate_with_selector(errors: &mut Errors, spec: &Value) {
    let at = Path::new("spec");
    validate_spec(errors, spec, &at);
    let selector = &spec["selector"];
    if selector.is_object() {
        selectors::validate(errors, selector, &at.child("selector"));
    } else {
        errors.required(&at.child("selector"), "");
    }
    workloads::validate_match(errors, selector, &spec["template"], &at.child("template"));
}

/// Validates the spec of a Job, without its selector.
pub(super) fn validate_spec(errors: &mut Errors, spec: &Value, at: &Path<'_>) {
    let counters = [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ];
    workloads::validate_counters(errors, spec, &counters, at);
    if spec["maxFailedIndexes"].is_number() && !spec["backoffLimitPerIndex"].is_number() {
        errors.required(&at.child("backoffLimitPerIndex"), "when maxFailedIndexes is specified");
    }
    if let Some(manager) = spec["managedBy"].as_str() {
        validate_manager(errors, manager, &at.child("managedBy"));
    }
    validate_mode(errors, spec, at);
    if spec["podFailurePolicy"].is_object() {
        validate_failure_policy(errors, spec, &at.child("podFailurePolicy"));
    }
    if spec["successPolicy"].is_object() {
        let at = at.child("successPolicy");
        if text(&spec["completionMode"]) == "Indexed" {
            validate_success_policy(errors, spec, &at);
        } else {
            let shown = Bad::raw(dump::internal("SuccessPolicy", &spec["successPolicy"]));
            errors.invalid(&at, shown, "requires indexed completion mode");
        }
    }
    validate_replacement(errors, spec, &at.child("podReplacementPolicy"));
    let template_at = at.child("template");
    pod_spec::validate_template(errors, &spec["template"], &template_at);
    let spec_at = template_at.child("spec");
    let policy_at = spec_at.child("restartPolicy");
    match text(&spec["template"]["spec"]["restartPolicy"]) {
        "Always" | "" => errors.required(&policy_at, "valid values: \"OnFailure\", \"Never\""),
        "OnFailure" if spec["podFailurePolicy"].is_object() => {
            errors.invalid(&policy_at, "OnFailure", "only \"Never\" is supported when podFailurePolicy is specified");
        }
        "Never" | "OnFailure" => {}
        other => errors.not_supported(&policy_at, other, &["OnFailure", "Never"]),
    }
}

fn validate_manager(errors: &mut Errors, manager: &str, at: &Path<'_>) {
    const MOST: usize = 63;
    match manager.split_once('/') {
        _ if manager.is_empty() => errors.required(at, ""),
        Some((host, path)) if !host.is_empty() && !path.is_empty() => {
            errors.syntax(at, host, syntax::subdomain(host));
            errors.syntax(at, path, syntax::http_path(path));
        }
        _ => errors.invalid(at, manager, "must be a domain-prefixed path (such as \"acme.io/foo\")"),
    }
    if manager.len() > MOST {
        errors.too_long(at, MOST);
    }
}

fn validate_mode(errors: &mut Errors, spec: &Value, at: &Path<'_>) {
    let mode = spec["completionMode"].as_str();
    if let Some(mode) = mode.filter(|mode| !["NonIndexed", "Indexed"].contains(mode)) {
        errors.not_supported(&at.child("completionMode"), mode, &["NonIndexed", "Indexed"]);
    }
    let number = |field: &str| spec[field].as_i64();
    let [completions, parallelism, failed] = ["completions", "parallelism", "maxFailedIndexes"].map(number);
    let per_index = number("backoffLimitPerIndex");
    if mode == Some("Indexed") {
        let [parallelism_at, failed_at] = [at.child("parallelism"), at.child("maxFailedIndexes")];
        let Some(completions) = completions else {
            errors.required(&at.child("completions"), "when completion mode is Indexed");
            return;
        };
        if let Some(parallelism) = parallelism.filter(|n| *n > 100_000) {
            let message = "must be less than or equal to 100000 when completion mode is Indexed";
            errors.invalid(&parallelism_at, parallelism, message);
        }
        if let Some(failed) = failed.filter(|n| *n > completions) {
            errors.invalid(&failed_at, failed, "must be less than or equal to completions");
        }
        if let Some(failed) = failed.filter(|n| *n > 100_000) {
            errors.invalid(&failed_at, failed, "must be less than or equal to 100000");
        }
        if completions > 100_000 && per_index.is_some() {
            let message = "must be less than or equal to 10000 when completions are above 100000 and used with backoff limit per index";
            if failed.is_none() {
                errors.required(&failed_at, "must be specified when completions is above 100000");
            }
            if let Some(parallelism) = parallelism.filter(|n| *n > 10_000) {
                errors.invalid(&parallelism_at, parallelism, message);
            }
            if let Some(failed) = failed.filter(|n| *n > 10_000) {
                errors.invalid(&failed_at, failed, message);
            }
        }
    } else if matches!(mode, None | Some("NonIndexed")) {
        for (field, given) in [("backoffLimitPerIndex", per_index), ("maxFailedIndexes", failed)] {
            if let Some(given) = given {
                errors.invalid(&at.child(field), given, "requires indexed completion mode");
            }
        }
    }
}

fn validate_replacement(errors: &mut Errors, spec: &Value, at: &Path<'_>) {
    let Some(policy) = spec["podReplacementPolicy"].as_str() else { return };
    let known: &[&str] =
        if spec["podFailurePolicy"].is_object() { &["Failed"] } else { &["Failed", "TerminatingOrFailed"] };
    if !known.contains(&policy) {
        errors.not_supported(at, policy, known);
    }
}

fn validate_failure_policy(errors: &mut Errors, spec: &Value, at: &Path<'_>) {
    let at = at.child("rules");
    let rules = list(&spec["podFailurePolicy"]["rules"]);
    if rules.len() > 20 {
        errors.too_many(&at, rules.len(), 20);
    }
    let pod = &spec["template"]["spec"];
    let names: BTreeSet<&str> =
        list(&pod["containers"]).iter().chain(list(&pod["initContainers"])).map(|c| text(&c["name"])).collect();
    let known = ["Count", "FailIndex", "FailJob", "Ignore"];
    for (i, rule) in rules.iter().enumerate() {
        let at = at.index(i);
        match text(&rule["action"]) {
            "" => errors.required(&at.child("action"), r#"valid values: ["Count" "FailIndex" "FailJob" "Ignore"]"#),
            "FailIndex" if !spec["backoffLimitPerIndex"].is_number() => {
                let message = "requires the backoffLimitPerIndex to be set";
                errors.invalid(&at.child("action"), "FailIndex", message);
            }
            action if !known.contains(&action) => errors.not_supported(&at.child("action"), action, &known),
            _ => {}
        }
        let (codes, conditions) = (&rule["onExitCodes"], list(&rule["onPodConditions"]));
        if codes.is_object() {
            validate_exit_codes(errors, codes, &names, &at.child("onExitCodes"));
        }
        validate_conditions(errors, conditions, &at.child("onPodConditions"));
        match (codes.is_object(), conditions.is_empty()) {
            (true, false) => {
                let message = "specifying both OnExitCodes and OnPodConditions is not supported";
                errors.invalid(&at, Bad::OMITTED, message);
            }
            (false, true) => {
                let message = "specifying one of OnExitCodes and OnPodConditions is required";
                errors.invalid(&at, Bad::OMITTED, message);
            }
            _ => {}
        }
    }
}

fn validate_exit_codes(errors: &mut Errors, codes: &Value, names: &BTreeSet<&str>, at: &Path<'_>) {
    let operator = text(&codes["operator"]);
    if operator.is_empty() {
        errors.required(&at.child("operator"), r#"valid values: ["In" "NotIn"]"#);
    } else if !["In", "NotIn"].contains(&operator) {
        errors.not_supported(&at.child("operator"), operator, &["In", "NotIn"]);
    }
    if let Some(name) = codes["containerName"].as_str().filter(|name| !names.contains(name)) {
        let message = "must be one of the container or initContainer names in the pod template";
        errors.invalid(&at.child("containerName"), name, message);
    }
    let values: Vec<i64> = list(&codes["values"]).iter().map(int).collect();
    let at = at.child("values");
    if values.is_empty() {
        errors.invalid(&at, Bad::json(&codes["values"]), "at least one value is required");
    } else if values.len() > 255 {
        errors.too_many(&at, values.len(), 255);
    }
    let mut seen = BTreeSet::new();
    for (i, &code) in values.iter().enumerate() {
        if operator == "In" && code == 0 {
            errors.invalid(&at.index(i), code, "must not be 0 for the In operator");
        }
        if !seen.insert(code) {
            errors.duplicate(&at.index(i), code);
        }
    }
    if !values.is_sorted() {
        errors.invalid(&at, Bad::json(&codes["values"]), "must be ordered");
    }
}

fn validate_conditions(errors: &mut Errors, patterns: &[Value], at: &Path<'_>) {
    if patterns.len() > 20 {
        errors.too_many(at, patterns.len(), 20);
    }
    let known = ["False", "True", "Unknown"];
    for (i, pattern) in patterns.iter().enumerate() {
        let at = at.index(i);
        let kind = text(&pattern["type"]);
        errors.syntax(&at.child("type"), kind, syntax::qualified_name(kind));
        match text(&pattern["status"]) {
            "" => errors.required(&at.child("status"), r#"valid values: ["False" "True" "Unknown"]"#),
            status if !known.contains(&status) => errors.not_supported(&at.child("status"), status, &known),
            _ => {}
        }
    }
}

fn validate_success_policy(errors: &mut Errors, spec: &Value, at: &Path<'_>) {
    let at = at.child("rules");
    let rules = list(&spec["successPolicy"]["rules"]);
    if rules.is_empty() {
        errors.required(&at, "at least one rules must be specified when the successPolicy is specified");
    }
    if rules.len() > 20 {
        errors.too_many(&at, rules.len(), 20);
    }
    let completions = int(&spec["completions"]);
    for (i, rule) in rules.iter().enumerate() {
        let at = at.index(i);
        let (indexes, count) = (rule["succeededIndexes"].as_str(), rule["succeededCount"].as_i64());
        if indexes.is_none() && count.is_none() {
            errors.required(&at, "at least one of succeededCount or succeededIndexes must be specified");
        }
        let mut total = 0;
        if let Some(indexes) = indexes {
            const MOST: usize = 64 * 1024;
            let at = at.child("succeededIndexes");
            if indexes.len() > MOST {
                errors.too_long(&at, MOST);
            }
            match job_status::count_indexes(indexes, completions) {
                Ok(count) => total = count,
                Err(wrong) => errors.invalid(&at, indexes, &format!("error parsing succeededIndexes: {wrong}")),
            }
        }
        let Some(count) = count else { continue };
        let at = at.child("succeededCount");
        errors.non_negative(&at, Some(count));
        if count > completions {
            let message = format!("must be less than or equal to {completions} (the number of specified completions)");
            errors.invalid(&at, count, &message);
        }
        if indexes.is_some() && count > total {
            let message = format!(
                "must be less than or equal to {total} (the number of indexes in the specified succeededIndexes field)"
            );
            errors.invalid(&at, count, &message);
        }
    }
}

/// Validates an update of a Job.
pub(super) fn validate_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let labels = &old["spec"]["template"]["metadata"]["labels"];
    let prefixed = labels.get(NAME_LABELS[1]).is_some() && labels.get(UID_LABELS[1]).is_some();
    let mut errors = validate(new, prefixed);
    let (spec, before) = (&new["spec"], &old["spec"]);
    // The real server validates the spec a second time as part of the update.
    validate_with_selector(&mut errors, spec);
    validate_completions(&mut errors, spec, before);
    if spec["selector"] != before["selector"] {
        errors.invalid(&"spec.selector", selectors::shown(&spec["selector"]), "field is immutable");
    }
    validate_template_update(&mut errors, new, old);
    for field in ["completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"] {
        if spec[field] == before[field] {
            continue;
        }
        let shown = match field {
            "podFailurePolicy" if spec[field].is_object() => Bad::raw(dump::internal("PodFailurePolicy", &spec[field])),
            "successPolicy" if spec[field].is_object() => Bad::raw(dump::internal("SuccessPolicy", &spec[field])),
            _ => Bad::from(&spec[field]),
        };
        errors.invalid(&format!("spec.{field}"), shown, "field is immutable");
    }
    errors.into_list()
}

fn validate_completions(errors: &mut Errors, spec: &Value, before: &Value) {
    let at = "spec.completions";
    if text(&spec["completionMode"]) != "Indexed" {
        return errors.immutable(&at, &spec["completions"], &before["completions"]);
    }
    let Some(completions) = spec["completions"].as_i64() else { return };
    if spec["completions"] != before["completions"] && spec["parallelism"].as_i64() != Some(completions) {
        errors.invalid(&at, completions, "can only be modified in tandem with spec.parallelism");
    }
}

fn validate_template_update(errors: &mut Errors, new: &Value, old: &Value) {
    let (template, mut held) = (&new["spec"]["template"], old["spec"]["template"].clone());
    let suspended = yes(&old["spec"]["suspend"]);
    let started = old["status"]["startTime"].is_string();
    let idle = (!started || has_condition(old, "Suspended")) && int(&old["status"]["active"]) == 0;
    if !suspended || !idle {
        if *template != held {
            let shown = Bad::raw(dump::internal("PodTemplateSpec", template));
            errors.invalid(&"spec.template", shown, "field is immutable");
        }
        return;
    }
    // Where and with how much a Job runs may be changed while it waits.
    if template["spec"]["affinity"]["nodeAffinity"] != held["spec"]["affinity"]["nodeAffinity"] {
        allow_node_affinity(template, &mut held);
    }
    for field in ["nodeSelector", "tolerations", "schedulingGates"] {
        take(&mut held["spec"], &template["spec"], field);
    }
    for field in ["containers", "initContainers"] {
        let wanted = list(&template["spec"][field]);
        if let Some(Value::Array(containers)) = held["spec"].get_mut(field)
            && containers.len() == wanted.len()
        {
            for (container, wanted) in containers.iter_mut().zip(wanted) {
                if container["name"] == wanted["name"] {
                    take(container, wanted, "resources");
                }
            }
        }
    }
    if template["spec"] != held["spec"] {
        let shown = Bad::raw(dump::internal("PodSpec", &template["spec"]));
        errors.invalid(&"spec.template.spec", shown, "field is immutable");
    }
}

fn allow_node_affinity(template: &Value, held: &mut Value) {
    let wanted = &template["spec"]["affinity"];
    let spec = object(&mut held["spec"]);
    if wanted.is_object() || spec.contains_key("affinity") {
        let affinity = spec.entry("affinity").or_insert(Value::Null);
        take(affinity, wanted, "nodeAffinity");
        if !wanted.is_object() && affinity.as_object().is_some_and(serde_json::Map::is_empty) {
            spec.remove("affinity");
        }
    }
}
