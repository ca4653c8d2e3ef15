//! Renders a prediction as text or JSON.

use std::{collections::BTreeMap, fmt::Write as _, time::Duration};

use serde_json::json;

use super::{
    Prediction,
    steps::{Action, ObjectName, Step},
};
use crate::check::format_count;

/// Maximum number of names and fields in a line. Further ones are only counted.
const MAX_LISTED: usize = 3;

/// Renders a prediction as one line for each step, with the assumptions before and the waiting objects after them.
pub fn to_text(prediction: &Prediction) -> String {
    let Prediction { options, notes, steps, waiting, other_steps } = prediction;
    let format = common::duration::format;
    let mut out = format!(
        "Simulated: {} from {}. New Pods become ready after {}, and deleted Pods end at once. Existing Pods and Nodes keep their state.\n",
        format(options.duration),
        options.start.strftime("%Y-%m-%dT%H:%M:%SZ"),
        format(options.ready_after),
    );
    for note in notes {
        out.extend(["note: ", note, "\n"]);
    }
    if steps.is_empty() {
        out.push_str("\nNothing would change.\n");
    } else {
        out.push('\n');
        let one_namespace = steps.iter().all(|step| step.object.namespace == steps[0].object.namespace);
        for line in fold(steps) {
            let time = format!("+{}", format(Duration::from_secs(line.seconds)));
            // A write to a String cannot fail.
            let _ = writeln!(out, "{time:>7}  {}", line.text(one_namespace));
        }
    }
    out.push('\n');
    if *other_steps > 0 {
        let _ = writeln!(
            out,
            "Not shown: {} of objects that do not belong to the files.",
            format_count(*other_steps, "step")
        );
    }
    for (object, reasons) in waiting {
        let _ = writeln!(out, "After {}, {object} waits: {}", format(options.duration), reasons.join("; "));
    }
    if waiting.is_empty() {
        let _ = writeln!(out, "After {}, nothing waits.", format(options.duration));
    }
    out
}

/// Renders a prediction as one JSON object. Its steps are not folded.
pub fn to_json(prediction: &Prediction) -> String {
    let Prediction { options, notes, steps, waiting, other_steps } = prediction;
    let waiting: Vec<_> =
        waiting.iter().map(|(object, reasons)| json!({"object": object, "reasons": reasons})).collect();
    let object = json!({
        "start": options.start,
        "simulatedSeconds": options.duration.as_secs_f64(),
        "readyAfterSeconds": options.ready_after.as_secs_f64(),
        "notes": notes,
        "steps": steps,
        "otherSteps": other_steps,
        "waiting": waiting,
    });
    format!("{object:#}\n")
}

/// Steps that one line shows: the same object does the same to several children in the same second.
struct Line<'a> {
    seconds: u64,
    object: &'a ObjectName,
    actions: Vec<&'a Action>,
}

/// Merges a step with the latest step of its object if both have the same second and kind.
fn fold(steps: &[Step]) -> Vec<Line<'_>> {
    let mut lines: Vec<Line<'_>> = Vec::new();
    let mut last: BTreeMap<&ObjectName, usize> = BTreeMap::new();
    for Step { seconds, object, action } in steps {
        if let Some(line) = last.get(object).and_then(|index| lines.get_mut(*index))
            && line.seconds == *seconds
            && line.actions.first().is_some_and(|first| are_alike(first, action))
        {
            line.actions.push(action);
        } else {
            last.insert(object, lines.len());
            lines.push(Line { seconds: *seconds, object, actions: vec![action] });
        }
    }
    lines
}

fn are_alike(first: &Action, second: &Action) -> bool {
    match (first, second) {
        (Action::Create { child: a, size: None }, Action::Create { child: b, size: None })
        | (Action::Delete { child: a }, Action::Delete { child: b }) => a.kind == b.kind,
        (Action::Report { .. }, Action::Report { .. }) => first == second,
        _ => false,
    }
}

impl Line<'_> {
    fn text(&self, one_namespace: bool) -> String {
        let ObjectName { kind, namespace, name } = self.object;
        let place = if one_namespace || namespace.is_empty() { String::new() } else { format!("{namespace}/") };
        let what = match self.actions.first() {
            None => String::new(),
            Some(Action::Apply) => "is created".to_owned(),
            Some(Action::ApplyChange { fields } | Action::Change { fields }) => {
                format!("changes {}", list(fields.iter().map(String::as_str)))
            }
            Some(Action::Create { child, size: Some((size, of)) }) => {
                format!("creates {} {} ({size} of {of})", child.kind, child.name)
            }
            Some(Action::Create { child, size: None }) => format!("creates {}", self.children(&child.kind)),
            Some(Action::Delete { child }) => format!("deletes {}", self.children(&child.kind)),
            Some(Action::Scale { from, to }) => format!("{from} -> {to}"),
            Some(Action::Report { text }) => text.clone(),
        };
        // A size stands behind a colon: `ReplicaSet web-5f6: 3 -> 2`.
        let times = match self.actions.as_slice() {
            [Action::Report { .. }, _, ..] => format!(" ({} times)", self.actions.len()),
            _ => String::new(),
        };
        format!("{kind} {place}{name}: {what}{times}")
    }

    /// Returns the names of the children, with their count if they are all generated: `3 Pods web-?????`.
    fn children(&self, kind: &str) -> String {
        let names: Vec<&str> = self
            .actions
            .iter()
            .filter_map(|action| match action {
                Action::Create { child, .. } | Action::Delete { child } => Some(child.name.as_str()),
                _ => None,
            })
            .collect();
        match names.as_slice() {
            [] => String::new(),
            [name] => format!("{kind} {name}"),
            [first, rest @ ..] if rest.iter().all(|name| name == first) => {
                format!("{} {first}", format_count(names.len(), kind))
            }
            names => format!("{kind}s {}", list(names.iter().copied())),
        }
    }
}

/// Joins the first texts with commas, and counts the others.
fn list<'a>(mut texts: impl ExactSizeIterator<Item = &'a str>) -> String {
    let first: Vec<&str> = texts.by_ref().take(MAX_LISTED).collect();
    let more = texts.len();
    if more == 0 { first.join(", ") } else { format!("{} and {more} more", first.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(kind: &str, namespace: &str, name: &str) -> ObjectName {
        ObjectName { kind: kind.to_owned(), namespace: namespace.to_owned(), name: name.to_owned() }
    }

    fn prediction(steps: Vec<(u64, ObjectName, Action)>) -> Prediction {
        let options = crate::plan::Options {
            start: "2026-01-01T00:00:00Z".parse().unwrap(),
            duration: Duration::from_mins(1),
            ready_after: Duration::from_secs(5),
        };
        let steps = steps.into_iter().map(|(seconds, object, action)| Step { seconds, object, action }).collect();
        let waiting = vec![(object("Job", "a", "sum"), vec!["of this".to_owned(), "of that".to_owned()])];
        Prediction { options, notes: vec!["a note".to_owned()], steps, waiting, other_steps: 2 }
    }

    #[test]
    fn steps_of_one_second_and_kind_are_one_line() {
        let (set, old) = (object("StatefulSet", "a", "db"), object("ReplicaSet", "b", "web-1"));
        let create = |name: &str| Action::Create { child: object("Pod", "a", name), size: None };
        let delete = |name: &str| Action::Delete { child: object("Pod", "a", name) };
        let mut steps = vec![(0, set.clone(), create("db-0")), (0, old.clone(), Action::Scale { from: 5000, to: 0 })];
        steps.extend((1..9).map(|ordinal| (0, set.clone(), create(&format!("db-{ordinal}")))));
        steps.extend((0..3).map(|_| (0, old.clone(), delete("web-1-?????"))));
        steps.push((70, set.clone(), delete("db-8")));
        steps.push((70, set.clone(), create("db-8")));
        steps.push((70, set, Action::Report { text: "is rolled out".to_owned() }));
        let expected = "\
Simulated: 1m0s from 2026-01-01T00:00:00Z. New Pods become ready after 5s, and deleted Pods end at once. Existing Pods and Nodes keep their state.
note: a note

    +0s  StatefulSet a/db: creates Pods db-0, db-1, db-2 and 6 more
    +0s  ReplicaSet b/web-1: 5000 -> 0
    +0s  ReplicaSet b/web-1: deletes 3 Pods web-1-?????
 +1m10s  StatefulSet a/db: deletes Pod db-8
 +1m10s  StatefulSet a/db: creates Pod db-8
 +1m10s  StatefulSet a/db: is rolled out

Not shown: 2 steps of objects that do not belong to the files.
After 1m0s, Job a/sum waits: of this; of that
";
        assert_eq!(to_text(&prediction(steps)), expected);
    }

    #[test]
    fn every_step_is_in_the_json() {
        let deployment = object("Deployment", "a", "web");
        let child = object("ReplicaSet", "a", "web-1");
        let steps = vec![
            (0, deployment.clone(), Action::Apply),
            (0, deployment, Action::Create { child: child.clone(), size: Some((1, 4)) }),
            (5, child, Action::Scale { from: 1, to: 4 }),
        ];
        let parsed: serde_json::Value = serde_json::from_str(&to_json(&prediction(steps))).unwrap();
        let web = json!({"kind": "Deployment", "namespace": "a", "name": "web"});
        let set = json!({"kind": "ReplicaSet", "namespace": "a", "name": "web-1"});
        let expected = json!([
            {"seconds": 0, "object": web, "action": "apply"},
            {"seconds": 0, "object": web, "action": "create", "child": set, "size": [1, 4]},
            {"seconds": 5, "object": set, "action": "scale", "from": 1, "to": 4},
        ]);
        assert_eq!(parsed["steps"], expected);
        assert_eq!((&parsed["otherSteps"], &parsed["waiting"][0]["reasons"][1]), (&json!(2), &json!("of that")));
    }
}
