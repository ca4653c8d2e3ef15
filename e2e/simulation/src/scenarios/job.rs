//! Jobs: the suites, and what users do at any moment.

use common::settings::TunableValue;
use serde_json::json;

use super::{
    gc_invariants,
    interferences::{self, again, at_once, delete_pod, later, one_of},
    job_invariants::{INVARIANTS, PROMISES, SHORT_LISTS},
    job_reads::SHORT,
};
use crate::{
    json::{controller_uid, is_deleting, name, uid},
    scenario::{Deeds, Interference, Suite, Target, What},
    stage::NAMESPACE,
    world::World,
};

pub(super) const SUITE: Suite = Suite {
    name: "job",
    programs: &[&job_controller::DEFINITION],
    tunes: &[],
    gates: &[],
    text: include_str!("job.txt"),
    invariants: &[INVARIANTS],
    promises: &[PROMISES],
    interferences: INTERFERENCES,
};

/// Jobs of which a sync, and a status, deals with a few Pods only.
pub(super) const CAPPED: Suite = Suite {
    name: "job-capped",
    tunes: &[
        ("job-max-uncounted-pods", TunableValue::Count(SHORT as u64)),
        ("job-max-pods-per-sync", TunableValue::Count(SHORT as u64)),
    ],
    invariants: &[INVARIANTS, SHORT_LISTS],
    ..SUITE
};

/// Jobs that are synced on whatever the caches show.
pub(super) const STALE: Suite =
    Suite { name: "job-stale", gates: &[("StaleControllerConsistencyJob", false), ("AtomicFIFO", false)], ..SUITE };

/// The end of Jobs, with the garbage collector, which is half of it.
pub(super) const DELETION: Suite = Suite {
    name: "job-deletion",
    programs: &[&job_controller::DEFINITION, &gc_controller::DEFINITION],
    tunes: super::gc::TUNES,
    gates: &[],
    text: SUITE.text,
    invariants: &[INVARIANTS, gc_invariants::INVARIANTS],
    promises: &[PROMISES, gc_invariants::PROMISES],
    interferences: INTERFERENCES,
};

const DELETE_POD: Interference = Interference { name: "delete-pod", act: delete_pod };
const RELEASE_POD: Interference = Interference { name: "release-pod", act: release };
const STRIP_POD: Interference = Interference { name: "strip-pod", act: strip };
const SUSPEND: Interference =
    Interference { name: "suspend", act: |world, luck| interferences::suspend(world, luck, JOBS, SUM) };
const SCALE: Interference =
    Interference { name: "scale", act: |world, luck| interferences::scale(world, luck, (JOBS, SUM), "parallelism", 4) };
const REPLACE: Interference = Interference { name: "replace", act: replace };

const INTERFERENCES: &[Interference] = &[DELETE_POD, RELEASE_POD, STRIP_POD, SUSPEND, SCALE, REPLACE];

/// What users may do with a gang: servers do not let it be scaled.
pub(super) const INTERFERENCES_WITH_GANGS: &[Interference] = &[DELETE_POD, RELEASE_POD, STRIP_POD, SUSPEND, REPLACE];

const JOBS: &str = "jobs.batch";
const PODS: &str = "pods";
pub(super) const SUM: &str = "sum";
const APP: &str = "app";
const UID: &str = "batch.kubernetes.io/controller-uid";

/// The Pods of the Job that are not over yet, by name.
fn pods(world: &World) -> Vec<String> {
    let Some(job) = world.get(JOBS, NAMESPACE, SUM) else { return Vec::new() };
    let own = world.list(PODS).filter(|pod| controller_uid(pod) == uid(job) && !is_deleting(pod));
    own.map(|pod| name(pod).to_owned()).collect()
}

fn release(world: &World, luck: u64) -> Deeds {
    let pod = one_of(pods(world), luck)?;
    let released = What::merge(PODS, &pod, json!({"metadata": {"labels": {UID: "other"}}}));
    later(released, 60, What::delete_now(PODS, &pod))
}

fn strip(world: &World, luck: u64) -> Deeds {
    let pod = one_of(pods(world), luck)?;
    at_once([What::merge(PODS, &pod, json!({"metadata": {"finalizers": null}}))])
}

fn replace(world: &World, _: u64) -> Deeds {
    let mut again = again(world, JOBS, SUM)?;
    if let Some(spec) = again["spec"].as_object_mut() {
        spec.remove("selector");
    }
    again["spec"]["template"]["metadata"]["labels"] = json!({APP: SUM});
    let delete = What::Delete(Target::new(JOBS, SUM), json!({"propagationPolicy": "Background"}));
    let pods = pods(world).into_iter().map(|pod| What::delete(PODS, &pod));
    at_once([delete, What::Create(again)].into_iter().chain(pods))
}
