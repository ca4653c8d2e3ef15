//! What users do with Jobs.

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
    scenario::{Interference, Scenario, Step, Suite, What, When, after, settled},
    stage::NAMESPACE,
    world::World,
};

/// Jobs on their own.
pub(super) const SUITE: Suite = Suite {
    name: "job",
    programs: &[&job_controller::DEFINITION],
    tunes: &[],
    gates: &[],
    scenarios,
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
    scenarios: capped,
    invariants: &[INVARIANTS, SHORT_LISTS],
    ..SUITE
};

/// Jobs that are synced on whatever the caches show.
pub(super) const STALE: Suite = Suite {
    name: "job-stale",
    gates: &[("StaleControllerConsistencyJob", false), ("AtomicFIFO", false)],
    scenarios: stale,
    ..SUITE
};

/// The end of Jobs, with the garbage collector, which is half of it.
pub(super) const DELETION: Suite = Suite {
    name: "job-deletion",
    programs: &[&job_controller::DEFINITION, &gc_controller::DEFINITION],
    tunes: super::gc::TUNES,
    gates: &[],
    scenarios: deletions,
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
const INDEX: &str = "batch.kubernetes.io/job-completion-index";
const UID: &str = "batch.kubernetes.io/controller-uid";

/// Longer than anything keeps a Pod from being created: all Pods of a Job run before the first of them ends.
pub(super) const LONG: &str = "200";
/// The same where three creates in a row may each be lost, and be waited for.
const LONGER: &str = "300";

/// A Job whose Pods live as their annotations say.
pub(super) fn job(pods: Value, mut spec: Value) -> Value {
    spec["template"] = json!({"metadata": {"labels": {APP: SUM}, "annotations": pods},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "img:1"}]}});
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": SUM}, "spec": spec})
}

/// Pods that succeed after so many seconds, and need two to end when they are deleted.
pub(super) fn working(seconds: &str) -> Value {
    json!({"sim/exit": "0", "sim/after": seconds, "sim/terminate-after": "2"})
}

/// Pods that run until they are deleted.
fn running() -> Value {
    json!({"sim/terminate-after": "2"})
}

pub(super) fn create(object: Value) -> Step {
    after(0.1, What::Create(object))
}

pub(super) fn spec(patch: Value) -> What {
    What::merge(JOBS, SUM, json!({ "spec": patch }))
}

/// Once the status says that so many Pods are active ...
fn once_active(pods: i64, what: What) -> Step {
    Step { when: When::Shows(JOBS, SUM, "/status/active", pods), what }
}

/// ... or ready.
fn once_ready(pods: i64, what: What) -> Step {
    Step { when: When::Shows(JOBS, SUM, "/status/ready", pods), what }
}

/// A change that means nothing to anybody.
fn noted() -> What {
    What::merge(JOBS, SUM, json!({"metadata": {"annotations": {"note": "seen"}}}))
}

fn delete_pods() -> What {
    What::DeleteAll(PODS.to_owned(), APP.to_owned(), SUM.to_owned(), json!({}))
}

fn delete(propagation: &str) -> What {
    What::Delete(JOBS.to_owned(), SUM.to_owned(), json!({"propagationPolicy": propagation}))
}

fn exits(action: &str, code: i64) -> Value {
    json!({"action": action, "onExitCodes": {"operator": "In", "values": [code]}})
}

fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario {
            name: "plain",
            about: "three Pods of which two run at a time, and a Job that somebody else manages",
            steps: vec![
                create({
                    let mut foreign = job(running(), json!({"managedBy": "example.com/other"}));
                    foreign["metadata"]["name"] = json!("foreign");
                    foreign
                }),
                create(job(working("5"), json!({"completions": 3, "parallelism": 2}))),
            ],
        },
        Scenario {
            name: "work-queue",
            about: "Pods that share the work: once one has succeeded, none is started any more",
            steps: vec![create(job(working(LONG), json!({"parallelism": 3})))],
        },
        Scenario {
            name: "indexed",
            about: "an Indexed Job of three, two at a time",
            steps: vec![create(job(
                working("5"),
                json!({"completions": 3, "parallelism": 2, "completionMode": "Indexed"}),
            ))],
        },
        Scenario {
            name: "elastic",
            about: "an Indexed Job that grows and shrinks while it runs, and is complete then",
            steps: vec![
                create(job(
                    json!({"sim/exit-index-0": "0", "sim/after": "5", "sim/terminate-after": "2"}),
                    json!({"completions": 2, "parallelism": 2, "completionMode": "Indexed"}),
                )),
                Step {
                    when: When::Shows(JOBS, SUM, "/status/succeeded", 1),
                    what: spec(json!({"completions": 3, "parallelism": 3})),
                },
                once_active(2, noted()),
                after(5.0, spec(json!({"completions": 1, "parallelism": 1}))),
            ],
        },
        Scenario {
            name: "backoff-limit",
            about: "Pods that fail, each later than the one before, until it is enough",
            steps: vec![create(job(json!({"sim/exit": "1", "sim/after": "3"}), json!({"backoffLimit": 2})))],
        },
        Scenario {
            name: "per-index",
            about: "one index that succeeds, one that fails twice, and one that fails for good at once",
            steps: vec![create(job(
                json!({"sim/exit-index-0": "0", "sim/exit-index-1": "1", "sim/exit-index-2": "42", "sim/after": "5"}),
                json!({"completions": 3, "parallelism": 3, "completionMode": "Indexed", "backoffLimitPerIndex": 1,
                    "podFailurePolicy": {"rules": [exits("FailIndex", 42)]}}),
            ))],
        },
        Scenario {
            name: "max-failed-indexes",
            about: "the failure of one index of three ends the Job while the other two run",
            steps: vec![create(job(
                json!({"sim/exit-index-1": "1", "sim/after": LONG, "sim/terminate-after": "2"}),
                json!({"completions": 3, "parallelism": 3, "completionMode": "Indexed", "backoffLimitPerIndex": 0,
                    "maxFailedIndexes": 0}),
            ))],
        },
        Scenario {
            name: "max-failed-indexes-replaced-late",
            about: "the same for a Job that replaces only finished Pods",
            steps: vec![create(job(
                json!({"sim/exit-index-1": "1", "sim/after": LONG, "sim/terminate-after": "2"}),
                json!({"completions": 3, "parallelism": 3, "completionMode": "Indexed", "backoffLimitPerIndex": 0,
                    "maxFailedIndexes": 0, "podReplacementPolicy": "Failed"}),
            ))],
        },
        Scenario {
            name: "failing-pod",
            about: "a Pod of three whose exit code fails the Job",
            steps: vec![create(job(
                json!({"sim/exit-index-0": "42", "sim/after": LONG, "sim/terminate-after": "2"}),
                json!({"completions": 3, "parallelism": 3, "completionMode": "Indexed",
                    "podFailurePolicy": {"rules": [exits("FailJob", 42)]}}),
            ))],
        },
        Scenario {
            name: "ignored-failure",
            about: "a Pod whose failure does not count, in a Job that allows for none",
            steps: vec![
                create(job(
                    working(LONG),
                    json!({"backoffLimit": 0, "podFailurePolicy": {"rules": [exits("Ignore", 143)]}}),
                )),
                once_ready(1, noted()),
                after(5.0, delete_pods()),
            ],
        },
        Scenario {
            name: "success-policy",
            about: "an Indexed Job that has succeeded with its first index, while others run",
            // Pods that have failed when the success is told count, whoever made them fail: these take longer than any process
            // that deleted them is away.
            steps: vec![create({
                let mut job = job(
                    json!({"sim/exit-index-0": "0", "sim/after": LONG, "sim/terminate-after": LONG}),
                    json!({"completions": 3, "parallelism": 3, "completionMode": "Indexed",
                        "successPolicy": {"rules": [{"succeededIndexes": "0"}]}}),
                );
                job["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = json!(600);
                job
            })],
        },
        success_while_pods_go(),
        Scenario {
            name: "suspend-resume",
            about: "a Job that is created suspended, resumed, suspended while it runs, and resumed again",
            steps: vec![
                create(job(working(LONG), json!({"completions": 2, "parallelism": 2, "suspend": true}))),
                settled(spec(json!({"suspend": false}))),
                once_active(2, noted()),
                after(5.0, spec(json!({"suspend": true}))),
                settled(spec(json!({"suspend": false}))),
            ],
        },
        Scenario {
            name: "suspended-after-success",
            about: "a Job of four, two at a time, is suspended shortly after the first two have succeeded",
            // A controller that hears of nothing from before the success on takes the two for running.
            steps: vec![
                create(job(working(LONG), json!({"completions": 4, "parallelism": 2}))),
                after(190.0, noted()),
                after(15.0, spec(json!({"suspend": true}))),
                settled(spec(json!({"suspend": false}))),
            ],
        },
        Scenario {
            name: "replaced-while-terminating",
            about: "Pods that a user deletes and that take their time; the next ones need not wait for them",
            steps: vec![
                create(job(slow(), json!({"completions": 2, "parallelism": 2}))),
                once_ready(2, noted()),
                after(5.0, delete_pods()),
            ],
        },
        Scenario {
            name: "replaced-when-failed",
            about: "the same where they have to wait",
            steps: vec![
                create(job(slow(), json!({"completions": 2, "parallelism": 2, "podReplacementPolicy": "Failed"}))),
                once_ready(2, noted()),
                after(5.0, delete_pods()),
            ],
        },
        Scenario {
            name: "deadline",
            about: "a Job that takes too long",
            steps: vec![create(job(
                running(),
                json!({"completions": 2, "parallelism": 2, "activeDeadlineSeconds": 200}),
            ))],
        },
    ]
}

/// The Pods are deleted so shortly before the first index succeeds that whoever looks away for a while sees both at once.
fn success_while_pods_go() -> Scenario {
    let gone = |index: &str| {
        let (resource, key) = (PODS.to_owned(), INDEX.to_owned());
        after(0.01, What::DeleteAll(resource, key, index.to_owned(), json!({})))
    };
    let mut job = job(
        json!({"sim/exit-index-0": "0", "sim/after": LONGER, "sim/terminate-after": LONG}),
        json!({"completions": 4, "parallelism": 4, "completionMode": "Indexed", "backoffLimit": 9,
            "successPolicy": {"rules": [{"succeededIndexes": "0"}]}}),
    );
    job["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = json!(600);
    let ready = vec![create(job), after(285.0, noted())];
    Scenario {
        name: "success-while-pods-go",
        about: "an Indexed Job that succeeds with its first index, some time after a user has deleted the Pods of the others",
        steps: ready.into_iter().chain(["1", "2", "3"].map(gone)).collect(),
    }
}

fn capped() -> Vec<Scenario> {
    let six = |pods: Value, more: Value| {
        let mut spec = json!({"completions": 6, "parallelism": 6});
        more.as_object().into_iter().flatten().for_each(|(field, value)| spec[field] = value.clone());
        job(pods, spec)
    };
    vec![
        Scenario {
            name: "many",
            about: "six Pods that succeed at once",
            steps: vec![create(six(working(LONG), json!({})))],
        },
        Scenario {
            name: "many-indexed",
            about: "six indexes that succeed at once",
            steps: vec![create(six(working(LONG), json!({"completionMode": "Indexed"})))],
        },
        Scenario {
            name: "many-failed",
            about: "six Pods of which one fails the Job",
            steps: vec![create(six(
                json!({"sim/exit-index-3": "42", "sim/after": LONG, "sim/terminate-after": "2"}),
                json!({"completionMode": "Indexed", "podFailurePolicy": {"rules": [exits("FailJob", 42)]}}),
            ))],
        },
        Scenario {
            name: "many-deleted",
            about: "six Pods that a user deletes at once",
            steps: vec![
                create(six(slow(), json!({"backoffLimit": 9}))),
                once_ready(6, noted()),
                after(5.0, delete_pods()),
            ],
        },
        Scenario {
            name: "many-too-many",
            about: "a Job that wants six Pods at once, and then only one",
            steps: vec![
                create(six(slow(), json!({"completions": 7}))),
                once_ready(6, noted()),
                after(5.0, spec(json!({"parallelism": 1}))),
            ],
        },
        success_while_pods_go(),
    ]
}

/// What a cache that lags could make a difference to.
fn stale() -> Vec<Scenario> {
    let telling = [
        "plain",
        "indexed",
        "per-index",
        "backoff-limit",
        "success-policy",
        "success-while-pods-go",
        "suspend-resume",
        "suspended-after-success",
        "replaced-while-terminating",
        "replaced-when-failed",
        "deadline",
    ];
    scenarios().into_iter().filter(|scenario| telling.contains(&scenario.name)).collect()
}

/// Pods that succeed late, and need some time to end when they are deleted.
fn slow() -> Value {
    json!({"sim/exit": "0", "sim/after": LONG, "sim/terminate-after": "10"})
}

fn deletions() -> Vec<Scenario> {
    let two = || job(running(), json!({"completions": 2, "parallelism": 2}));
    vec![
        Scenario {
            name: "background",
            about: "a Job is deleted while its Pods run",
            steps: vec![create(two()), once_ready(2, noted()), after(5.0, delete("Background"))],
        },
        Scenario {
            name: "foreground",
            about: "a Job is deleted while its Pods run, and waits for them",
            steps: vec![create(two()), once_ready(2, noted()), after(5.0, delete("Foreground"))],
        },
        Scenario {
            name: "orphan",
            about: "a Job is deleted and its Pods are left to be nobody's",
            // Nobody can leave Pods alone of which the collector has not heard yet.
            steps: vec![create(two()), once_ready(2, noted()), settled(delete("Orphan"))],
        },
        Scenario {
            name: "recreated",
            about: "a Job is deleted and another one of its name created before its Pods have gone",
            steps: vec![
                create(two()),
                once_ready(2, noted()),
                after(5.0, delete("Background")),
                after(0.01, What::Create(job(working("5"), json!({"completions": 2, "parallelism": 2})))),
            ],
        },
        Scenario {
            name: "ttl",
            about: "a Job that is removed a while after it has finished",
            steps: vec![create(job(
                working("5"),
                json!({"completions": 2, "parallelism": 2, "ttlSecondsAfterFinished": 60}),
            ))],
        },
    ]
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

/// Somebody takes the finalizer off a Pod.
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
    let gone = pods(world).into_iter().map(|pod| (Duration::ZERO, What::Delete(PODS.to_owned(), pod, json!({}))));
    [(Duration::ZERO, delete("Background")), (Duration::ZERO, What::Create(again))].into_iter().chain(gone).collect()
}
