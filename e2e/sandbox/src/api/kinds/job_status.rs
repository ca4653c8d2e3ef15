//! Validation of the status of a Job: what a controller may say after what was said before.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    canonical::parse_time,
    errors::{Bad, Errors, Path, quoted},
    jobs::has_condition,
    value::{int, list, text, yes},
};

/// Two statuses of one Job and what differs between them.
struct Change<'a> {
    new: &'a Value,
    old: &'a Value,
}

impl Change<'_> {
    fn field(&self, field: &str) -> bool {
        self.new["status"][field] != self.old["status"][field]
    }

    fn number(&self, field: &str) -> bool {
        int(&self.new["status"][field]) != int(&self.old["status"][field])
    }

    fn condition(&self, kind: &str) -> bool {
        has_condition(self.new, kind) != has_condition(self.old, kind)
    }

    fn finished(&self) -> bool {
        is_finished(self.new) != is_finished(self.old)
    }
}

fn is_finished(job: &Value) -> bool {
    has_condition(job, "Complete") || has_condition(job, "Failed")
}

pub(super) fn validate(errors: &mut Errors, new: &Value, old: &Value) {
    let change = Change { new, old };
    let at = Path::new("status");
    validate_counts(errors, &new["status"], &at);
    validate_conditions(errors, &change, &at);
    validate_finished(errors, &change, &at);
    validate_indexes(errors, &change, &at);
    validate_rest(errors, &change, &at);
    validate_history(errors, &change, &at);
}

fn validate_counts(errors: &mut Errors, status: &Value, at: &Path<'_>) {
    let at = at.child("uncountedTerminatedPods");
    let mut seen = BTreeSet::new();
    for field in ["succeeded", "failed"] {
        let at = at.child(field);
        for (i, uid) in list(&status["uncountedTerminatedPods"][field]).iter().map(text).enumerate() {
            if uid.is_empty() {
                errors.invalid(&at.index(i), uid, "must not be empty");
            } else if !seen.insert(uid) {
                errors.duplicate(&at.index(i), uid);
            }
        }
    }
}

fn validate_conditions(errors: &mut Errors, change: &Change<'_>, at: &Path<'_>) {
    let job = change.new;
    let status = &job["status"];
    let [complete, failed] = ["Complete", "Failed"].map(|kind| has_condition(job, kind));
    let [complete_changed, failed_changed] = ["Complete", "Failed"].map(|kind| change.condition(kind));
    let conditions = at.child("conditions");
    let refuse = |errors: &mut Errors, message: &str| errors.invalid(&conditions, Bad::OMITTED, message);
    if (complete_changed || failed_changed) && complete && failed {
        refuse(errors, "cannot set Complete=True and Failed=true conditions");
    }
    let target = has_condition(job, "FailureTarget");
    if (complete_changed || change.condition("FailureTarget")) && complete && target {
        refuse(errors, "cannot set Complete=True and FailureTarget=true conditions");
    }
    let completed_at = at.child("completionTime");
    let completion = &status["completionTime"];
    if complete_changed || change.field("completionTime") {
        if completion.is_string() && !complete {
            let message = "cannot set completionTime when there is no Complete=True condition";
            errors.invalid(&completed_at, completion, message);
        }
        if !completion.is_string() && complete {
            errors.required(&completed_at, "completionTime is required for Complete jobs");
        }
    }
    if change.field("startTime") || change.field("completionTime") {
        let [start, end] = ["startTime", "completionTime"].map(|field| parse_time(text(&status[field])));
        if let (Some(start), Some(end)) = (start, end)
            && end < start
        {
            errors.invalid(&completed_at, completion, "must be equal to or after `startTime`");
        }
    }
    if (failed_changed || change.field("failedIndexes")) && failed && !target {
        refuse(errors, "cannot set Failed=True condition without the FailureTarget=true condition");
    }
    let met = has_condition(job, "SuccessCriteriaMet");
    if (complete_changed || change.condition("SuccessCriteriaMet")) && complete && !met {
        refuse(errors, "cannot set Complete=True condition without the SuccessCriteriaMet=true condition");
    }
}

fn validate_finished(errors: &mut Errors, change: &Change<'_>, at: &Path<'_>) {
    let job = change.new;
    let status = &job["status"];
    let (finished, changed) = (is_finished(job), change.finished());
    let active = int(&status["active"]);
    if (changed || change.number("active")) && finished && active > 0 {
        errors.invalid(&at.child("active"), active, "active>0 is invalid for finished job");
    }
    let never_ran = yes(&job["spec"]["suspend"]) && job["spec"]["completions"].as_i64() == Some(0);
    let started = status["startTime"].is_string();
    if (changed || change.field("startTime")) && !never_ran && finished && !started {
        errors.required(&at.child("startTime"), "startTime is required for finished job");
    }
    let uncounted = &status["uncountedTerminatedPods"];
    let left = ["succeeded", "failed"].iter().any(|field| !list(&uncounted[*field]).is_empty());
    if (changed || change.field("uncountedTerminatedPods")) && finished && left {
        errors.invalid(&at.child("uncountedTerminatedPods"), uncounted, "must be empty for finished job");
    }
}

fn validate_indexes(errors: &mut Errors, change: &Change<'_>, at: &Path<'_>) {
    let (status, spec) = (&change.new["status"], &change.new["spec"]);
    let completions = spec["completions"].as_i64();
    let limited = spec["backoffLimitPerIndex"].is_number();
    let [done_changed, failed_changed] = ["completedIndexes", "failedIndexes"].map(|field| change.field(field));
    let (done, failed) = (text(&status["completedIndexes"]), status["failedIndexes"].as_str());
    let [done_at, failed_at] = [at.child("completedIndexes"), at.child("failedIndexes")];
    if let Some(completions) = completions.filter(|_| done_changed)
        && let Err(wrong) = count_indexes(done, completions)
    {
        errors.invalid(&done_at, done, &format!("error parsing completedIndexes: {wrong}"));
    }
    if let (Some(completions), Some(failed)) = (completions.filter(|_| failed_changed && limited), failed)
        && let Err(wrong) = count_indexes(failed, completions)
    {
        errors.invalid(&failed_at, failed, &format!("error parsing failedIndexes: {wrong}"));
    }
    if done_changed && !done.is_empty() && text(&spec["completionMode"]) != "Indexed" {
        let message = "cannot set non-empty completedIndexes when non-indexed completion mode";
        errors.invalid(&done_at, done, message);
    }
    if let Some(failed) = failed.filter(|_| failed_changed && !limited) {
        let message = "cannot set non-null failedIndexes when backoffLimitPerIndex is null";
        errors.invalid(&failed_at, failed, message);
    }
    if let (Some(completions), Some(failed)) = (completions, failed)
        && (done_changed || failed_changed)
        && let Some(index) = overlap(done, failed, completions)
    {
        let message = format!("failedIndexes and completedIndexes overlap at index: {index}");
        errors.invalid(&failed_at, failed, &message);
    }
}

fn validate_rest(errors: &mut Errors, change: &Change<'_>, at: &Path<'_>) {
    let job = change.new;
    let status = &job["status"];
    let terminating = int(&status["terminating"]);
    if (change.finished() || change.field("terminating")) && terminating > 0 && is_finished(job) {
        errors.invalid(&at.child("terminating"), terminating, "terminating>0 is invalid for finished job");
    }
    if let Some(ready) = status["ready"].as_i64()
        && (change.field("ready") || change.number("active"))
        && ready > int(&status["active"])
    {
        errors.invalid(&at.child("ready"), ready, "cannot set more ready pods than active");
    }
    let conditions = at.child("conditions");
    let met = has_condition(job, "SuccessCriteriaMet");
    for (kind, shown) in [("Failed", "Failed=true"), ("FailureTarget", "FailureTarget=true")] {
        if met && has_condition(job, kind) {
            let message = format!("cannot set SuccessCriteriaMet=True and {shown} conditions");
            errors.invalid(&conditions, Bad::OMITTED, &message);
        }
    }
    if job["spec"]["successPolicy"].is_object() && !met && has_condition(job, "Complete") {
        let message = "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True";
        errors.invalid(&conditions, Bad::OMITTED, message);
    }
}

/// What was said once and may not be taken back.
fn validate_history(errors: &mut Errors, change: &Change<'_>, at: &Path<'_>) {
    let Change { new, old } = change;
    let (status, before, spec) = (&new["status"], &old["status"], &new["spec"]);
    let conditions = at.child("conditions");
    for kind in ["Failed", "Complete", "FailureTarget"] {
        if has_condition(old, kind) && !has_condition(new, kind) {
            let message = format!("cannot disable the terminal {kind}=True condition");
            errors.invalid(&conditions, Bad::OMITTED, &message);
        }
    }
    if int(&status["failed"]) < int(&before["failed"]) {
        errors.invalid(&at.child("failed"), int(&status["failed"]), "cannot decrease the failed counter");
    }
    let elastic = text(&spec["completionMode"]) == "Indexed" && spec["completions"] == spec["parallelism"];
    if !elastic && int(&status["succeeded"]) < int(&before["succeeded"]) {
        errors.invalid(&at.child("succeeded"), int(&status["succeeded"]), "cannot decrease the succeeded counter");
    }
    let completion = &status["completionTime"];
    if completion.is_string() && before["completionTime"].is_string() {
        errors.immutable(&at.child("completionTime"), completion, &before["completionTime"]);
    }
    let flipped = list(&status["conditions"])
        .iter()
        .any(|condition| text(&condition["type"]) == "Suspended" && text(&condition["status"]) == "False");
    let resuming = has_condition(old, "Suspended") && flipped;
    if before["startTime"].is_string() && change.field("startTime") && !yes(&spec["suspend"]) && !resuming {
        let message = "field is immutable for unsuspended job once set";
        errors.invalid(&at.child("startTime"), &status["startTime"], message);
    }
    let [met, was_met] = [*new, *old].map(|job| has_condition(job, "SuccessCriteriaMet"));
    if was_met && !met {
        errors.invalid(&conditions, Bad::OMITTED, "cannot disable the SuccessCriteriaMet=True condition");
    }
    if has_condition(old, "Complete") && !was_met && met {
        let message = "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions";
        errors.invalid(&conditions, Bad::OMITTED, message);
    }
}

/// How many indexes a list like `1,3-5` holds; what is wrong with it otherwise.
pub(super) fn count_indexes(indexes: &str, completions: i64) -> Result<i64, String> {
    if indexes.is_empty() {
        return Ok(0);
    }
    let mut total = 0;
    let mut last: Option<i64> = None;
    for interval in indexes.split(',') {
        let (first, end) = parse_interval(interval, completions)?;
        if let Some(last) = last.filter(|last| *last >= first) {
            return Err(format!("non-increasing order, previous: {last}, current: {first}"));
        }
        total += end - first + 1;
        last = Some(end);
    }
    Ok(total)
}

fn parse_interval(interval: &str, completions: i64) -> Result<(i64, i64), String> {
    let limits: Vec<&str> = interval.split('-').collect();
    let parse = |limit: &str| {
        let error = || format!("cannot convert string to integer for index: {}", quoted(limit));
        let index: i64 = limit.parse().map_err(|_| error())?;
        if index >= completions { Err(format!("too large index: {}", quoted(limit))) } else { Ok(index) }
    };
    match limits[..] {
        [only] => parse(only).map(|index| (index, index)),
        [first, last] => {
            let (first, last) = (parse(first)?, parse(last)?);
            if first >= last {
                return Err(format!("non-increasing order, previous: {first}, current: {last}"));
            }
            Ok((first, last))
        }
        _ => Err(format!(
            "the fragment {} violates the requirement that an index interval can have at most two parts separated by '-'",
            quoted(interval)
        )),
    }
}

/// The first index in both lists; intervals that cannot be read are skipped.
fn overlap(done: &str, failed: &str, completions: i64) -> Option<i64> {
    let read = |indexes: &str| -> Vec<(i64, i64)> {
        indexes.split(',').filter_map(|interval| parse_interval(interval, completions).ok()).collect()
    };
    let failed = read(failed);
    read(done).into_iter().find_map(|(first, last)| {
        failed.iter().find(|(from, to)| first <= *to && *from <= last).map(|(from, _)| first.max(*from))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_indexes_and_finds_the_first_common_one() {
        let table = [
            ("", 5, Ok(0)),
            ("1,3-4", 5, Ok(3)),
            ("3,1", 5, Err("non-increasing order, previous: 3, current: 1")),
            ("5", 5, Err(r#"too large index: "5""#)),
            ("a", 5, Err(r#"cannot convert string to integer for index: "a""#)),
            ("2-2", 5, Err("non-increasing order, previous: 2, current: 2")),
        ];
        for (indexes, completions, counted) in table {
            assert_eq!(count_indexes(indexes, completions), counted.map_err(str::to_owned), "{indexes}");
        }
        assert_eq!(overlap("0-3,7", "5,7-8", 10), Some(7));
        assert_eq!(overlap("0-3", "4", 10), None);
    }
}
