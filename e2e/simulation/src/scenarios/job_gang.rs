//! Jobs whose Pods are scheduled as a gang: gate `WorkloadWithJob`.

use serde_json::Value;

use super::{
    job::{self, SUITE},
    job_invariants::INVARIANTS,
    job_reads::{JOBS, PODS},
};
use crate::{
    json::{controller_uid, name, text, uid},
    scenario::{Invariant, Suite},
    stage::NAMESPACE,
    world::{Logged, World},
};

const WORKLOADS: &str = "workloads.scheduling.k8s.io";
const GROUPS: &str = "podgroups.scheduling.k8s.io";

/// Indexed Jobs all of whose Pods run at once.
pub(super) const GANG: Suite = Suite {
    name: "job-gang",
    gates: &[("GenericWorkload", true), ("WorkloadWithJob", true)],
    invariants: &[INVARIANTS, GANGS],
    interferences: job::INTERFERENCES_WITH_GANGS,
    ..SUITE
};

const GANGS: &[Invariant] = &[
    Invariant { name: "gangs-are-made-once", claims: "JOB-64", check: made_once },
    Invariant { name: "members-name-their-group", claims: "JOB-64", check: named_by_members },
];

fn made_once(world: &World, logged: &Logged) -> Option<String> {
    let kinds = [WORKLOADS, GROUPS];
    let resource = kinds.into_iter().find(|kind| logged.resource() == *kind && logged.creates())?;
    let made = logged.after()?;
    let of = |object: &Value| controller_uid(object).to_owned();
    let recent = world.recently(JOBS, NAMESPACE, job::SUM).any(|job| uid(job) == controller_uid(&made));
    if !recent {
        return Some(format!("{} is made for a Job that is gone", name(&made)));
    }
    let others: Vec<&str> =
        world.list(resource).filter(|o| of(o) == of(&made) && uid(o) != uid(&made)).map(|o| name(o)).collect();
    (!others.is_empty()).then(|| format!("{} is made, and there is {others:?}", name(&made)))
}

fn named_by_members(world: &World, logged: &Logged) -> Option<String> {
    let pod = logged.after().filter(|_| logged.resource() == PODS && logged.creates() && !logged.by_user())?;
    let group =
        world.list(GROUPS).find(|group| controller_uid(group) == controller_uid(&pod)).map_or("", |group| name(group));
    let named = text(&pod, "/spec/schedulingGroup/podGroupName");
    (group.is_empty() || named != group)
        .then(|| format!("Pod {} names group {named:?}, and there is {group:?}", name(&pod)))
}
