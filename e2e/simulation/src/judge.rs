//! What is asked of a perturbed run that an unperturbed one answers.

use std::{collections::BTreeMap, time::Duration};

use serde_json::Value;

use super::{
    json,
    outcome::{Outcome, Violation, differences},
    perturbation::{Fault, Kind, Perturbation},
};

/// A perturbed run may need so many times the writes of the unperturbed one ...
const TIMES: usize = 2;
/// ... and so many more. Attempts count as well: who is refused must not spin.
const MORE: usize = 40;
/// What a user who interferes may set off besides: a dozen changes, each of which is followed and taken back.
const INTERFERED: usize = 100;
/// What being refused for most of a minute may cost besides: a key comes back some fourteen times then, each time with as
/// many requests as Pods are to be deleted.
const REFUSED: usize = 150;

/// Each wait of users beside a hostile neighbour may take so many times as long as without it, in percent ...
const LONGER_PERCENT: u32 = 150;
/// ... and so much longer. A retry or two and the debounce of a controller fit into it.
const LONGER: Duration = Duration::from_secs(5);

/// The first thing wrong with a run.
pub fn judge(perturbation: &Perturbation, unperturbed: &Outcome, outcome: &Outcome) -> Option<Violation> {
    if let Some(violation) = &outcome.violation {
        return Some(violation.clone());
    }
    let more = |fault: &Fault| match fault.kind {
        Kind::Interfere(_) | Kind::Recreate(_) => INTERFERED,
        Kind::Reject(..) => REFUSED,
        _ => 0,
    };
    let more = MORE + perturbation.0.iter().map(more).sum::<usize>();
    let (writes, bound) = (outcome.points.len(), unperturbed.points.len() * TIMES + more);
    if writes > bound {
        let what = format!(
            "{writes} writes; the unperturbed run makes {}, and at most {bound} are allowed",
            unperturbed.points.len()
        );
        return Some(violation_of("work-is-bounded", what));
    }
    if perturbation.changes_the_wish() {
        return None;
    }
    let differences = if perturbation.hastens_deadlines() {
        differences(&without_haste(&unperturbed.end), &without_haste(&outcome.end))
    } else {
        differences(&unperturbed.end, &outcome.end)
    };
    if !differences.is_empty() {
        let what = format!("the final state differs:\n    {}", differences.join("\n    "));
        return Some(violation_of("ends-the-same", what));
    }
    // Other faults delay by themselves, and hit something else when the order of the writes is another one.
    perturbation.has_only_neighbours().then(|| delay(unperturbed, outcome)).flatten()
}

/// The first wait of the users that was much longer than the same wait in another run of the scenario.
pub fn delay(alone: &Outcome, beside: &Outcome) -> Option<Violation> {
    let mut waits = alone.waits.iter().zip(&beside.waits).enumerate();
    let (number, (alone, beside)) =
        waits.find(|(_, (alone, beside))| **beside > **alone * LONGER_PERCENT / 100 + LONGER)?;
    let (number, alone, beside) = (number + 1, alone.as_secs_f64(), beside.as_secs_f64());
    let what = format!("wait {number} of the users takes {beside:.1} s with a neighbour, and {alone:.1} s without it");
    Some(violation_of("neighbours-do-not-delay", what))
}

/// An end without what depends on how much had happened when a deadline passed: how many Pods of a Job had failed by then.
///
/// A clock that jumps ahead makes a deadline pass early, and another fault may have kept Pods from being created until then.
fn without_haste(end: &BTreeMap<String, u32>) -> BTreeMap<String, u32> {
    let mut out = BTreeMap::new();
    for (object, count) in end {
        let mut value: Value = serde_json::from_str(object).unwrap_or_default();
        let late = json::condition(&value, "Failed", "reason") == "DeadlineExceeded";
        if let Some(status) = value.get_mut("status").and_then(Value::as_object_mut).filter(|_| late) {
            status.remove("failed");
        }
        *out.entry(if late { value.to_string() } else { object.clone() }).or_insert(0) += count;
    }
    out
}

/// Something that holds in every run, whatever the suite.
pub struct Oracle {
    /// A name, unique among all.
    pub name: &'static str,
    /// The claims of `docs/behaviour` that it checks; empty if it checks the run itself.
    pub claims: &'static str,
    /// What it demands, for a list.
    pub about: &'static str,
}

/// The oracles of every run.
pub const ORACLES: &[Oracle] = &[
    Oracle {
        name: "ends-the-same",
        claims: "COMMON-101",
        about: "the final state is that of the unperturbed run, except for names, times and nodes",
    },
    Oracle {
        name: "work-is-bounded",
        claims: "COMMON-102",
        about: "the number of writes, with the refused ones, is at most twice that of the unperturbed run plus 40; plus 100 with an interfering user, plus 150 with refusals",
    },
    Oracle {
        name: "neighbours-do-not-delay",
        claims: "COMMON-90",
        about: "with a hostile neighbour, each wait of the users takes at most 1.5 times as long as without it, plus 5 s",
    },
    Oracle {
        name: "rests",
        claims: "COMMON-103",
        about: "there are no writes in the 20 minutes after the end; in the hour after it in suites with a loop that may write once an hour",
    },
    Oracle {
        name: "gets-there",
        claims: "COMMON-101, COMMON-102",
        about: "the writes end, and the conditions that users wait for are met",
    },
    Oracle { name: "users-are-served", claims: "", about: "the server refuses no step of a user" },
    Oracle { name: "statuses-are-valid", claims: "COMMON-104", about: "the server refuses no status as invalid" },
    Oracle {
        name: "only-leaders-write",
        claims: "COMMON-19, COMMON-49",
        about: "a process that has lost its Lease sends no writes",
    },
    Oracle {
        name: "accounts-are-complete",
        claims: "COMMON-105",
        about: "the accounts of the syncs, which /debug/explain shows, contain exactly the writes that are sent, with their names or the prefixes of generated names",
    },
    Oracle {
        name: "forecasts-are-kept",
        claims: "COMMON-71",
        about: "the account of a sync that deviates from its forecast has the reason",
    },
    Oracle {
        name: "reads-are-consistent",
        claims: "COMMON-1",
        about: "no list or watch starts from version 0, which a server may answer with old data",
    },
];

pub(super) fn violation_of(oracle: &'static str, what: String) -> Violation {
    let known = ORACLES.iter().find(|known| known.name == oracle);
    debug_assert!(known.is_some(), "{oracle} is not in ORACLES");
    let claims = known.map_or("", |known| known.claims);
    Violation { oracle, claims, what }
}
