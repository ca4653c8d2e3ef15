//! Rules that every controller keeps. A test of a controller names the rule and the few values in which its controller differs.

use std::{collections::BTreeSet, fmt::Debug, ops::RangeInclusive, time::Duration};

use common::{clock::Clock, runtime::LoopDefinition, settings::OperatorSettings};
use sandbox::{Action, Operation, Sandbox, Webhook, loops::Loops};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::{
    Cluster, NAMESPACE, World,
    answers::{Lie, Refuser},
    rule,
    world::is_own,
};

/// The verbs of all writes.
const WRITES: [&str; 4] = ["create", "patch", "update", "delete"];

/// What happens in a [`Scene`].
pub enum Step {
    /// An object is created.
    Create(Value),
    /// These fields are merged into the `spec` of the subject.
    Change(Value),
}

/// A cluster with settled objects, and steps that make the controller write.
pub struct Scene {
    /// The cluster.
    pub cluster: Cluster,
    /// Objects that exist and have settled before the first step.
    pub settled: Vec<Value>,
    /// The steps. Each begins when the one before has settled.
    pub steps: Vec<Step>,
}

impl Scene {
    /// Starts the cluster with the settled objects, and clears the log.
    pub async fn start(&self) -> World {
        let world = self.start_with_log().await;
        world.clear_log();
        world
    }

    /// Starts the cluster with the settled objects. The log contains what they caused.
    async fn start_with_log(&self) -> World {
        let world = self.cluster.clone().start().await;
        for object in &self.settled {
            world.create(object.clone()).await;
        }
        world.settle().await;
        world
    }

    /// Takes one step.
    pub async fn take(&self, world: &World, step: &Step) {
        match step {
            Step::Create(object) => drop(world.create(object.clone()).await),
            Step::Change(spec) => world.change(spec.clone()).await,
        }
    }

    /// Crashes the process at each of its writes: at once, and after five seconds in which all writes are lost. Requests are lost,
    /// or only their answers. `check` judges the settled cluster; its log begins before the settled objects were created. At least
    /// so many writes must happen.
    pub async fn crash_at_any_write(&self, at_least: u64, check: impl AsyncFn(&World, &str)) {
        for (lost, seconds) in
            [(Action::CutBefore, 0), (Action::CutAfter, 0), (Action::CutBefore, 5), (Action::CutAfter, 5)]
        {
            for at in 1.. {
                let mut world = self.start_with_log().await;
                let mut writes = world.sandbox.writes().subscribe();
                let mut own = 0;
                for step in &self.steps {
                    self.take(&world, step).await;
                    while let Ok(Some(write)) = timeout(Duration::from_secs(5), writes.recv()).await {
                        own += u64::from(is_own(&write));
                        if own == at && is_own(&write) {
                            for verb in WRITES {
                                world.fault(rule(lost.clone(), verb, ""));
                            }
                            tokio::task::yield_now().await;
                            if seconds > 0 {
                                world.wait(seconds).await;
                                // The first step of each scene makes more than four writes.
                                let hits = world.sandbox.faults().hits(&lost);
                                assert!(hits > 0 || at > 3, "no write after write {at} was lost");
                            }
                            world.crash();
                            world.clear_faults();
                            world.start();
                        }
                    }
                }
                world.settle().await;
                check(&world, &format!("crash {seconds} s after write {at}, {lost:?}")).await;
                if own < at {
                    assert!(at > at_least, "only {own} writes");
                    break;
                }
            }
        }
    }

    /// Lets the given faults happen one at a time, each to the first request that its verb and resource match. `check` judges the
    /// settled cluster after so many seconds for each step.
    pub async fn one_fault(
        &self,
        faults: &[Action],
        requests: &[(&str, &str)],
        seconds: u32,
        check: impl AsyncFn(&World, &str),
    ) {
        for (verb, resource) in requests {
            for fault in faults {
                let world = self.start().await;
                world.fault(rule(fault.clone(), verb, resource).times(1));
                for step in &self.steps {
                    self.take(&world, step).await;
                    world.wait(seconds).await;
                }
                assert_eq!(world.sandbox.faults().hits(fault), 1, "{verb} {resource} {fault:?} did not happen");
                check(&world, &format!("{verb} {resource} {fault:?}")).await;
            }
        }
    }
}

/// Asserts that the process has written and that all objects of the subject's resource have settled. Then asserts that a new
/// process syncs them, writes nothing, and reads none of these resources again, and that nothing is written for a day.
pub async fn settled_objects_are_left_alone(world: &mut World, unread: &[(&str, &str)]) {
    world.settle().await;
    assert!(!world.own_writes().is_empty(), "the objects have not reached their state");
    world.crash();
    world.clear_log();
    world.start();
    world.settle().await;
    let objects = world.names(world.subject_resource_and_name().0).await;
    for object in &objects {
        let explained = world.loops().explain(Some(&format!("{NAMESPACE}/{object}")));
        let mut loops = explained.as_array().into_iter().flatten();
        assert!(loops.any(|one| one["state"] == "settled"), "{object}: {explained:#}");
    }
    let syncs = world.metric_sum("workqueue_work_duration_seconds_count");
    assert!(syncs >= objects.len() as u64, "{syncs} syncs of {objects:?}");
    world.assert_wrote_nothing();
    for (verb, resource) in unread {
        assert_eq!(world.count(verb, resource), 0, "{verb} {resource}");
    }
    world.wait(86_400).await;
    world.assert_wrote_nothing();
}

/// Asserts that a set whose revision needs a name that other data have takes another name, and then rests. Returns the taken
/// name and the other one.
pub async fn a_taken_revision_name_counts_as_a_collision(cluster: &Cluster, set: Value) -> (World, String, String) {
    const REVISIONS: &str = "controllerrevisions.apps";
    let taken = cluster.clone().settled(set.clone()).await.names(REVISIONS).await.remove(0);
    let world = cluster.clone().start().await;
    let data = json!({"spec": {"template": {"$patch": "replace"}}});
    world
        .create(json!({"apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": 1, "data": data,
            "metadata": {"name": taken, "namespace": NAMESPACE}}))
        .await;
    world.create(set).await;
    world.settle().await;
    assert_eq!(world.status().await["collisionCount"], 1);
    let mut others = world.names(REVISIONS).await;
    others.retain(|name| *name != taken);
    let [other] = &others[..] else { panic!("{others:?}") };
    for pod in world.pods().await {
        // The label has the name of the revision, or its end.
        let hash = pod["metadata"]["labels"]["controller-revision-hash"].as_str().unwrap();
        assert!(!hash.is_empty() && other.ends_with(hash), "{hash} of {other}");
    }
    world.clear_log();
    world.touch_subject().await;
    world.wait(60).await;
    world.assert_wrote_nothing();
    let other = other.clone();
    (world, taken, other)
}

/// Asserts that a leader writes nothing after it was deposed while it creates a hundred Pods for the object.
pub async fn a_deposed_leader_writes_nothing(world: &World, object: Value) {
    world.fault(rule(Action::Latency(Duration::from_millis(10)), "create", ""));
    world.create(object).await;
    world.wait(0.035).await;
    world.loops().depose();
    let then = world.own_writes().len();
    assert!(then > 0 && then < 100, "{then} writes");
    world.wait(60).await;
    // Only requests that had reached the server before the loss of leadership take effect.
    let later = world.own_writes().len();
    assert!(later <= then + 8, "{then} writes then, {later} later");
    let events = world.events().await;
    assert!(events.iter().all(|event| event.starts_with("Normal")), "{events:?}");
}

/// Asserts that a process with any choice of loops watches exactly the resources that its loops read. A resource with a field
/// selector is followed by `?` and the selector.
pub async fn each_choice_of_loops_watches_only_what_it_reads(loops: &[LoopDefinition], reads: &[(&str, &[&str])]) {
    let reads_of = |name: &str| reads.iter().find(|(of, _)| *of == name).expect(name).1;
    assert_eq!(reads.len(), loops.len());
    for choice in 1..1_usize << loops.len() {
        let is_chosen = |index: usize| choice & (1 << index) != 0;
        let chosen = loops.iter().enumerate().filter(|(index, _)| is_chosen(*index));
        let chosen: Vec<LoopDefinition> = chosen.map(|(_, definition)| *definition).collect();
        let names: Vec<&str> = chosen.iter().map(|definition| definition.name).collect();
        let read: BTreeSet<String> =
            names.iter().flat_map(|name| reads_of(name)).map(|resource| (*resource).to_owned()).collect();
        assert_eq!(watched(&chosen).await, read, "{names:?}");
    }
}

/// The resources that a process with these loops watches.
async fn watched(definitions: &[LoopDefinition]) -> BTreeSet<String> {
    const NAME: &str = "loops";
    let clock = Clock::simulated(jiff::Timestamp::UNIX_EPOCH, 1);
    let sandbox = Sandbox::builder().clock(clock.clone()).build();
    let loops = Loops::start(&sandbox.client(NAME), &clock, OperatorSettings::new(), definitions);
    clock.sleep(Duration::from_secs(60)).await;
    drop(loops);
    let selectors = sandbox.requests().field_selectors().into_iter().filter(|(key, _)| key.identity == NAME);
    let watched = selectors.flat_map(|(key, selectors)| {
        selectors.into_iter().map(move |selector| {
            if selector.is_empty() { key.resource.clone() } else { format!("{}?{selector}", key.resource) }
        })
    });
    watched.collect()
}

/// An object that a faulty server describes wrongly, and other objects beside it.
pub struct Malformed {
    /// The objects. The malformed one is named `bad`.
    pub objects: Vec<Value>,
    /// How often a sync of the malformed object fails within a minute.
    pub failures: RangeInclusive<u64>,
}

impl Malformed {
    /// Asserts for each lie that the object `bad` fails with the given error and backs off. `check` judges the others.
    pub async fn backs_off_alone(
        &self,
        cluster: &Cluster,
        lies: &[(&'static [Lie], &str)],
        check: impl AsyncFn(&World, &str),
    ) {
        for (lies, error) in lies {
            let mut world = cluster.clone().lies(lies).stopped().await;
            for object in &self.objects {
                world.create(object.clone()).await;
            }
            world.start();
            world.wait(60).await;
            let explained = world.loops().explain(Some(&format!("{NAMESPACE}/bad")))[0].take();
            let why = explained["waiting"][0].as_str().unwrap_or_default();
            assert!(why.contains(error), "{error}: {explained:#}");
            let failures = explained["lastError"]["failures"].as_u64().unwrap_or_default();
            assert!(self.failures.contains(&failures), "{error}: {explained:#}");
            check(&world, error).await;
        }
    }
}

/// Asserts that refused requests are repeated with growing pauses and reported: the number of requests in 20 seconds, and the
/// beginning of the Event. `meanwhile` judges the cluster at that time. Ends a minute after the last refusal,
/// so 80 seconds after `cause`.
pub async fn refusals_back_off(
    world: &World,
    (action, verb, plural): (Action, &str, &str),
    cause: impl Future<Output = impl Debug>,
    attempts: RangeInclusive<u64>,
    event: &str,
    meanwhile: impl AsyncFn(),
) {
    world.fault(rule(action.clone(), verb, plural));
    cause.await;
    world.wait(20).await;
    world.assert_event(event).await;
    let tries = world.sandbox.faults().hits(&action);
    assert!(attempts.contains(&tries), "{tries} requests in 20 seconds, not {attempts:?}");
    meanwhile().await;
    world.clear_faults();
    world.wait(60).await;
}

/// Asserts that each sync whose adoptions of the orphans are denied reports them in one Event. So many such syncs happen in a
/// minute, and the orphans are adopted after it.
pub async fn denied_adoptions_are_reported_in_one_event_per_sync(
    cluster: &Cluster,
    orphans: &[Value],
    owner: Value,
    syncs: RangeInclusive<u64>,
) {
    let world = cluster.clone().start().await;
    for orphan in orphans {
        world.create(orphan.clone()).await;
    }
    world.settle().await;
    world.clear_log();
    world.fault(rule(Action::Forbidden, "patch", "pods"));
    world.create(owner).await;
    world.wait(60).await;
    let (resource, subject) = cluster.subject;
    let attempts = world.count("get", resource);
    assert_eq!(world.count("patch", "pods"), orphans.len() as u64 * attempts);
    assert!(syncs.contains(&attempts), "{attempts} syncs in a minute, not {syncs:?}");
    let events = world.list("events").await;
    let reports: Vec<_> = events.iter().filter(|event| event["reason"] == "FailedUpdate").collect();
    let [event] = reports[..] else { panic!("{events:#?}") };
    let message = event["message"].as_str().unwrap();
    assert!(message.starts_with("Error: cannot adopt Pod shop/") && message.contains("is forbidden: "), "{message}");
    assert!(message.ends_with(&format!(" (and {} more)", orphans.len() - 1)), "{message}");
    assert_eq!((&event["type"], &event["involvedObject"]["name"]), (&json!("Warning"), &json!(subject)));
    assert_eq!(event["count"].as_u64(), Some(attempts));
    world.clear_faults();
    world.wait(400).await;
    let adopted = |pod: Value| pod["metadata"]["ownerReferences"][0]["name"] == *subject;
    assert!(world.pods().await.into_iter().all(adopted), "{:#?}", world.pods().await);
}

/// Asserts that an object in a terminating namespace sends one creation of a Pod, without an Event or a condition, although Pods
/// of the object are deleted and enqueue it. `late_pod` builds a Pod that the object counts, from the object and a name. Five
/// minutes later the object creates its Pods.
pub async fn a_terminating_namespace_costs_one_creation(
    cluster: &Cluster,
    object: Value,
    late_pod: impl Fn(&Value, &str) -> Value,
) {
    let namespace = Refuser::terminating_namespace("pods");
    let world = cluster.clone().filter(namespace.filter()).settled(object).await;
    for name in ["late-0", "late-1", "late-2", "late-3"] {
        world.create(late_pod(&world.subject().await, name)).await;
        world.wait(2).await;
        world.delete_and_settle("pods", name).await;
    }
    world.wait(60).await;
    assert_eq!((namespace.attempts(), world.events().await), (1, Vec::new()));
    assert!(world.conditions().await.is_empty());
    world.assert_waits("no Pods are created: the namespace is terminating");
    namespace.allow();
    world.wait(300).await;
    world.touch_subject().await;
    world.settle().await;
    assert_eq!(world.active_pods().await.len(), 3);
}

/// Asserts that an object which wants billions of Pods delays a hundred ordinary objects of its kind by half at most.
/// `ordinary` builds the ordinary objects, and `is_done` tells from an object whether it has its two Pods.
pub async fn a_greedy_object_does_not_delay_others(
    cluster: &Cluster,
    greedy: Value,
    ordinary: impl Fn(&str) -> Value,
    is_done: impl Fn(&Value) -> bool,
) {
    const ORDINARY: usize = 100;
    let mut taken = Vec::new();
    for beside in [false, true] {
        let world = cluster.clone().start().await;
        // With slow requests, all workers are busy.
        world.fault(rule(Action::Latency(Duration::from_millis(20)), "", ""));
        if beside {
            world.create(greedy.clone()).await;
            world.wait(1).await;
        }
        let names: Vec<String> = (0..ORDINARY).map(|at| format!("ordinary-{at}")).collect();
        for name in &names {
            world.create(ordinary(name)).await;
        }
        let all_done = async || {
            let objects = world.list(cluster.subject.0).await;
            objects.iter().filter(|object| names.iter().any(|name| object["metadata"]["name"] == **name)).all(&is_done)
        };
        taken.push(world.until(60, all_done).await);
        let pods = world.active_pods().await;
        assert_eq!(pods.iter().filter(|pod| pod.starts_with("ordinary-")).count(), 2 * ORDINARY);
        assert_eq!(beside, pods.len() > 2 * ORDINARY);
    }
    // The greedy object occupies one of five workers at any time.
    let limit = taken[0] * 3 / 2 + Duration::from_millis(500);
    assert!(taken[1] <= limit, "{:?} alone, {:?} beside it", taken[0], taken[1]);
}

/// Starts a cluster in which a webhook changes a label that the selector requires, creates the object, and asserts that Pods are
/// deleted, reported, and tried again with growing pauses. Ends after 15 minutes, with the webhook `policy` still installed.
pub async fn relabelled_pods_are_tried_with_growing_pauses(cluster: &Cluster, object: Value, label: &str) -> World {
    let world = cluster.clone().start().await;
    let path = format!("/metadata/labels/{label}");
    let patch = json!([{"op": "add", "path": path, "value": "other"}]);
    world.sandbox.webhooks().install(Webhook::new("policy", Operation::Create, "pods").patches(patch));
    world.create(object).await;
    world.wait(900).await;
    // One Pod after 0 s, 1 s, 3 s, 7 s, ... 511 s and 811 s.
    assert_eq!((world.count("create", "pods"), world.pods().await), (11, Vec::new()));
    let events = world.events().await;
    let reported = format!("Error creating: pod \"{}-", cluster.subject.1);
    let is_reported = |event: &String| {
        event.starts_with("Warning FailedCreate ")
            && event.contains(&reported)
            && event.contains("was stored with labels that the selector does not match")
    };
    assert!(!events.is_empty() && events.iter().all(is_reported), "{events:?}");
    let explained = world.loops().explain(Some(&world.key()));
    let waits_for = |text: &str| {
        let mut loops = explained.as_array().into_iter().flatten();
        assert!(loops.any(|one| one["waiting"].to_string().contains(text)), "{text}: {explained:#}");
    };
    waits_for("no Pods are created: admission changes them");
    waits_for("the next attempt is in 211s");
    world
}

/// Asserts that an event of the object that leaves its `spec` as it is does not end the pause. Ends after the pause.
pub async fn a_touched_object_waits_for_the_end_of_the_pause(world: &World, resource: &str) {
    world.touch(resource, world.subject_resource_and_name().1).await;
    world.wait(200).await;
    assert_eq!(world.pods().await.len(), 0);
    world.wait(20).await;
}

/// Asserts that hostile objects in the namespace `hostile` delay ordinary ones by at most a second. `is_ready` tells whether an
/// ordinary object is done. Returns the cluster with the hostile objects.
pub async fn hostile_objects_do_not_delay_others(
    cluster: &Cluster,
    hostile: impl AsyncFn(&World),
    ordinary: &[Value],
    is_ready: impl Fn(&Value) -> bool,
) -> World {
    let run = async |beside: bool| {
        let world = cluster.clone().start().await;
        world.create(crate::objects::namespace("hostile")).await;
        if beside {
            hostile(&world).await;
            world.wait(5).await;
        }
        let began = world.clock.monotonic_now();
        for object in ordinary {
            world.create(object.clone()).await;
        }
        world.until(120, async || world.list(cluster.subject.0).await.iter().all(&is_ready)).await;
        (world.clock.monotonic_now() - began, world)
    };
    let (alone, _) = run(false).await;
    let (beside, world) = run(true).await;
    assert!(beside <= alone + Duration::from_secs(1), "{alone:?} alone, {beside:?} beside hostile objects");
    world
}

/// A fault without effect; the sandbox counts the requests that it matches.
const COUNTED: Action = Action::Latency(Duration::ZERO);

/// A time in which the requests of the loops are counted, those in the namespace of the tests apart from all others.
pub struct Observation {
    began: common::clock::Instant,
}

/// What happened during an [`Observation`].
#[derive(Debug)]
pub struct Observed {
    /// How long it took, the number of requests in the namespace of the tests, refused ones included, and the number of writes
    /// there by verb and resource.
    pub inside: (Duration, u64, std::collections::BTreeMap<String, u64>),
    /// The number of requests elsewhere.
    pub elsewhere: u64,
}

impl Observation {
    /// Begins to count.
    pub fn begin(world: &World) -> Self {
        let mut counted = rule(COUNTED, "", "");
        counted.matcher.namespace = Some(NAMESPACE.to_owned());
        world.fault(counted);
        world.clear_log();
        Self { began: world.clock.monotonic_now() }
    }

    /// Ends the observation.
    pub fn end(self, world: &World) -> Observed {
        let taken = world.clock.monotonic_now() - self.began;
        let requests = world.sandbox.faults().hits(&COUNTED);
        let mut writes = std::collections::BTreeMap::new();
        for write in world.own_writes().iter().filter(|write| write.namespace == NAMESPACE) {
            let subresource = write.subresource.as_deref().unwrap_or_default();
            *writes.entry(format!("{} {}/{subresource}", write.verb, write.resource)).or_default() += 1;
        }
        Observed { inside: (taken, requests, writes), elsewhere: world.count_all() - requests }
    }
}
