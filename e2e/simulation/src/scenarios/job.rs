//! Jobs: the suites, and what users do at any moment.

use std::time::Duration;

use common::settings::TunableValue;
use serde_json::{Value, json};

use super::{
    gc_invariants,
    job_invariants::{INVARIANTS, PROMISES, SHORT_LISTS},
    job_reads::SHORT,
    replicaset::pod_interferences,
};
use crate::{
    json::{controller_uid, is_deleting, name, number, uid},
    scenario::{Interference, Suite, Target, What},
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

const DELETE_POD: Interference = Interference { name: "delete-pod", act: pod_interferences::delete };
const RELEASE_POD: Interference = Interference { name: "release-pod", act: release };
const STRIP_POD: Interference = Interference { name: "strip-pod", act: strip };
const SUSPEND: Interference = Interference { name: "suspend", act: suspend };
const SCALE: Interference = Interference { name: "scale", act: scale };
const REPLACE: Interference = Interference { name: "replace", act: replace };

const INTERFERENCES: &[Interference] = &[DELETE_POD, RELEASE_POD, STRIP_POD, SUSPEND, SCALE, REPLACE];

/// What users may do with a gang: servers do not let it be scaled.
pub(super) const INTERFERENCES_WITH_GANGS: &[Interference] = &[DELETE_POD, RELEASE_POD, STRIP_POD, SUSPEND, REPLACE];

const JOBS: &str = "jobs.batch";
const PODS: &str = "pods";
pub(super) const SUM: &str = "sum";
const APP: &str = "app";
const UID: &str = "batch.kubernetes.io/controller-uid";

fn spec(patch: Value) -> What {
    What::merge(JOBS, SUM, json!({ "spec": patch }))
}

/// The Pods of the Job that are not over yet, by name.
fn pods(world: &World) -> Vec<String> {
    let Some(job) = world.get(JOBS, NAMESPACE, SUM) else { return Vec::new() };
    let own = world.list(PODS).filter(|pod| controller_uid(pod) == uid(job) && !is_deleting(pod));
    own.map(|pod| name(pod).to_owned()).collect()
}

fn one(world: &World, luck: u64) -> Option<String> {
    let mut pods = pods(world);
    let index = usize::try_from(luck).unwrap_or(0).checked_rem(pods.len())?;
    Some(pods.swap_remove(index))
}

/// A Pod leaves its Job by its label, and is deleted a while later.
fn release(world: &World, luck: u64) -> Vec<(Duration, What)> {
    let Some(pod) = one(world, luck) else { return Vec::new() };
    let gone = What::merge(PODS, &pod, json!({"metadata": {"labels": {UID: "other"}}}));
    vec![(Duration::ZERO, gone), (Duration::from_secs(60), What::delete_now(PODS, &pod))]
}

fn strip(world: &World, luck: u64) -> Vec<(Duration, What)> {
    let pod = one(world, luck).into_iter();
    pod.map(|pod| (Duration::ZERO, What::merge(PODS, &pod, json!({"metadata": {"finalizers": null}})))).collect()
}

fn suspend(world: &World, luck: u64) -> Vec<(Duration, What)> {
    let Some(job) = world.get(JOBS, NAMESPACE, SUM) else { return Vec::new() };
    let suspended = job["spec"]["suspend"] == json!(true);
    let suspend = |suspend: bool| spec(json!({ "suspend": suspend }));
    vec![(Duration::ZERO, suspend(!suspended)), (Duration::from_secs(luck % 30), suspend(suspended))]
}

fn scale(world: &World, luck: u64) -> Vec<(Duration, What)> {
    let Some(job) = world.get(JOBS, NAMESPACE, SUM) else { return Vec::new() };
    let (size, other) = (number(job, "/spec/parallelism"), i64::try_from(luck % 4).unwrap_or(0));
    let size_of = |parallelism: i64| spec(json!({ "parallelism": parallelism }));
    vec![(Duration::ZERO, size_of(other)), (Duration::from_secs(luck % 20), size_of(size))]
}

/// A Job is replaced by another one of its name, and its Pods go with it.
fn replace(world: &World, _luck: u64) -> Vec<(Duration, What)> {
    let Some(old) = world.get(JOBS, NAMESPACE, SUM) else { return Vec::new() };
    let mut again = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": SUM}, "spec": old["spec"]});
    if let Some(spec) = again["spec"].as_object_mut() {
        spec.remove("selector");
    }
    again["spec"]["template"]["metadata"]["labels"] = json!({APP: SUM});
    let delete = What::Delete(Target::new(JOBS, SUM), json!({"propagationPolicy": "Background"}));
    let gone = pods(world).into_iter().map(|pod| (Duration::ZERO, What::delete(PODS, &pod)));
    [(Duration::ZERO, delete), (Duration::ZERO, What::Create(again))].into_iter().chain(gone).collect()
}
