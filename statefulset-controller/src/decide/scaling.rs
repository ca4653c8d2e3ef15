//! Pods that are wanted, and Pods that are not.

use std::ops::ControlFlow::{self, Break, Continue};

use common::pods::Phase as PodPhase;

use super::{
    retention::{self, Owners},
    situation::{Situation, Slot},
};
use crate::{
    objects::{POD_NAME_LABEL, StatefulSet},
    plan::{Claims, From, Occasion, Pace, Phase, Reconcile, Why, Work, Wrong},
    snapshot::{PodRef, Snapshot},
};

/// Whether the sync goes on after this Pod, where Pods wait for each other.
type Flow = ControlFlow<()>;

fn pace(set: &StatefulSet) -> Pace {
    if set.is_monotonic() { Pace::InOrder } else { Pace::Batches }
}

/// Adds a phase and says whether the next one has its turn.
fn end(plan: &mut Reconcile, set: &StatefulSet, work: Vec<Work>, flow: Flow) -> Flow {
    if !work.is_empty() {
        plan.phases.push(Phase { pace: pace(set), work });
    }
    if set.is_monotonic() { flow } else { Continue(()) }
}

/// Every number that is wanted gets a Pod that runs, from the lowest.
///
/// Where Pods wait for each other, the first that cannot be counted on ends the sync. Upstream: `processReplica`.
pub fn wanted(situation: &Situation<'_>, plan: &mut Reconcile) -> Flow {
    let set = situation.set();
    let (mut work, mut flow) = (Vec::new(), Continue(()));
    for slot in &situation.wanted {
        flow = match &slot.pod {
            None => missing(situation, slot.ordinal, plan, &mut work),
            Some(pod) => present(situation, slot, pod, plan, &mut work),
        };
        if flow.is_break() && set.is_monotonic() {
            break;
        }
    }
    end(plan, set, work, flow)
}

fn missing(situation: &Situation<'_>, ordinal: i32, plan: &mut Reconcile, work: &mut Vec<Work>) -> Flow {
    let (snapshot, set) = (situation.snapshot, situation.set());
    let pod = set.pod_name(ordinal);
    let stale = set.claims.iter().map(|template| set.claim_name(template, ordinal)).find(|name| {
        let claim = snapshot.claims.get(name);
        claim.is_some_and(|claim| retention::is_stale(set.retention, &claim.metadata.owners, &pod))
    });
    if let Some(claim) = stale {
        plan.waiting.push(format!("Pod {pod} is not created: claim {claim} goes with the one before"));
        plan.claims_to_go.push(claim);
        return Break(());
    }
    let claims = needed(snapshot, ordinal);
    for claim in &claims.going {
        plan.waiting.push(format!("Pod {pod} is not created: claim {claim} is being deleted"));
        plan.claims_to_go.push(claim.clone());
    }
    work.push(Work::Create { ordinal, claims, from: situation.revision_for(ordinal) });
    Break(())
}

fn present(situation: &Situation<'_>, slot: &Slot, pod: &PodRef, plan: &mut Reconcile, work: &mut Vec<Work>) -> Flow {
    let set = situation.set();
    let name = &pod.meta().name;
    let going = pod.meta().is_deleting();
    if pod.phase.is_terminal() {
        if going {
            plan.waiting.push(format!("Pod {name} is over and going: another one takes its place then"));
        } else {
            work.push(Work::Delete { pod: pod.clone(), why: Why::Over });
        }
        return Break(());
    }
    let pending = pod.phase == PodPhase::Pending;
    let wrong = is_wrong(set, slot.ordinal, pod);
    if pending {
        // Claims may be what it lacks. Where Pods wait for each other, the rest has to wait, too.
        let claims = needed(situation.snapshot, slot.ordinal);
        plan.claims_to_go.extend(claims.going.iter().cloned());
        let wrong = wrong.clone().filter(|_| !set.is_monotonic());
        repair(situation, pod, slot.ordinal, claims, wrong, Occasion::Pending, work);
    }
    if set.is_monotonic()
        && let Some(problem) = blocking(situation, pod)
    {
        plan.waiting.push(format!("Pod {name} {problem}: those after it, and updates, wait (OrderedReady)"));
        if is_stuck(situation, slot, pod) {
            let why = Why::Stuck { is_current: situation.is_current(pod) };
            work.push(Work::Delete { pod: pod.clone(), why });
        }
        return Break(());
    }
    if !pending {
        let lacks = wrong.as_ref().is_some_and(|wrong| !wrong.volumes.is_empty());
        let claims = if lacks { needed(situation.snapshot, slot.ordinal) } else { Claims::default() };
        repair(situation, pod, slot.ordinal, claims, wrong, Occasion::Wanted, work);
    }
    Continue(())
}

/// Why the others wait for a Pod, if they do.
fn blocking(situation: &Situation<'_>, pod: &PodRef) -> Option<&'static str> {
    if pod.meta().is_deleting() {
        Some("is going")
    } else if !pod.is_running_and_ready() {
        Some("is not ready")
    } else if situation.is_unavailable(pod) {
        Some("is not available yet")
    } else {
        None
    }
}

/// Whether waiting for a Pod is in vain: it is of a template that was given up, and never got ready with it.
///
/// Only where the operator wants it. Upstream waits, and has users delete such Pods ("forced rollback").
fn is_stuck(situation: &Situation<'_>, slot: &Slot, pod: &PodRef) -> bool {
    situation.snapshot.limits.replaces_stuck_pods
        && matches!(situation.set().update, crate::objects::Update::Rolling(_))
        && situation.revision_for(slot.ordinal) == From::Update
        && !situation.is_updated(pod)
        && !pod.meta().is_deleting()
        && !pod.is_ready()
}

/// The claims a Pod of that number needs and that are not there.
fn needed(snapshot: &Snapshot, ordinal: i32) -> Claims {
    let set = &snapshot.set;
    let mut claims = Claims::default();
    for (at, template) in set.claims.iter().enumerate() {
        let name = set.claim_name(template, ordinal);
        match snapshot.claims.get(&name) {
            None => claims.missing.push((at, name)),
            Some(claim) if claim.metadata.is_deleting() => claims.going.push(name),
            Some(_) => {}
        }
    }
    claims
}

/// What is wrong with a Pod of that number, if anything is. Upstream: `identityMatches`, `storageMatches`.
fn is_wrong(set: &StatefulSet, ordinal: i32, pod: &PodRef) -> Option<Wrong> {
    let labels = pod.meta().labels.get(POD_NAME_LABEL) != Some(&*pod.meta().name);
    let claims = set.claims.iter().map(|template| (template.name.to_string(), set.claim_name(template, ordinal)));
    let volumes: Vec<_> = claims.filter(|(volume, claim)| pod.claim(volume) != Some(claim.as_str())).collect();
    (labels || !volumes.is_empty()).then_some(Wrong { labels, volumes })
}

/// Adds what a Pod that is there needs, if it needs anything.
fn repair(
    situation: &Situation<'_>,
    pod: &PodRef,
    ordinal: i32,
    claims: Claims,
    wrong: Option<Wrong>,
    occasion: Occasion,
    work: &mut Vec<Work>,
) {
    let (set, meta) = (situation.set(), pod.meta());
    let owners_to_be = Owners::new(set, &meta.name, &meta.uid, occasion == Occasion::Condemned);
    let (mut owners, mut conflicting) = (Vec::new(), Vec::new());
    for template in &set.claims {
        let name = set.claim_name(template, ordinal);
        let Some(claim) = situation.snapshot.claims.get(&name) else { continue };
        let verdict = owners_to_be.judge(&claim.metadata.owners);
        if verdict.conflicting {
            conflicting.push(name);
        }
        owners.extend(verdict.change.map(|change| (claim.clone(), change)));
    }
    let needs = !claims.are_there() || wrong.is_some() || !owners.is_empty();
    // Of a Pod that is as it is to be, nobody is told anything.
    let tells = !conflicting.is_empty() && occasion != Occasion::Wanted;
    if needs || tells {
        work.push(Work::Repair { pod: pod.clone(), ordinal, claims, conflicting, owners, wrong, occasion });
    }
}

/// Pods that are not wanted go, from the highest number, after their claims know with whom they go.
///
/// Where Pods wait for each other, one goes at a time, and only a healthy one or the one that all the others wait for.
/// Upstream: `processCondemned`.
pub fn condemned(situation: &Situation<'_>, plan: &mut Reconcile) -> Flow {
    let set = situation.set();
    let mut claims = Vec::new();
    for (ordinal, pod) in &situation.condemned {
        repair(situation, pod, *ordinal, Claims::default(), None, Occasion::Condemned, &mut claims);
    }
    let _ = end(plan, set, claims, Continue(()));
    let first = situation.first_unavailable();
    let (mut work, mut flow) = (Vec::new(), Continue(()));
    for (ordinal, pod) in &situation.condemned {
        let name = &pod.meta().name;
        if pod.meta().is_deleting() {
            plan.waiting.push(format!("Pod {name} is going"));
            flow = Break(());
        } else if set.is_monotonic() && blocking(situation, pod).is_some() && first != Some(*ordinal) {
            plan.waiting.push(format!("Pod {name} is not deleted: it and one of those before it are unavailable"));
            flow = Break(());
        } else {
            work.push(Work::Delete { pod: pod.clone(), why: Why::Condemned });
            flow = Break(());
        }
        if flow.is_break() && set.is_monotonic() {
            break;
        }
    }
    end(plan, set, work, flow)
}
