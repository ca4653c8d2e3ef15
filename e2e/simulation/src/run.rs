//! One run: a scenario, a perturbation and a seed, in one thread, in virtual time.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use common::clock::{Clock, Instant};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::mpsc;

use super::{
    hub::Hub,
    json::{self, number},
    judge::violation_of,
    neighbour,
    outcome::{self, Outcome, Story, Violation},
    perturbation::Perturbation,
    safeguard::Safeguard,
    scenario::{Scenario, Suite, When},
    scenarios,
    stage::Stage,
    world::{Logged, World},
};
use sandbox::Write;

/// What is to be run.
#[derive(Clone, Copy)]
pub struct Run<'a> {
    /// The suite the scenario is of.
    pub suite: &'static Suite,
    /// What users do.
    pub scenario: &'a Scenario,
    /// What goes wrong.
    pub perturbation: &'a Perturbation,
    /// Where all chance comes from.
    pub seed: u64,
    /// The safeguard that is taken away.
    pub without: Option<Safeguard>,
    /// Whether its story is wanted.
    pub told: bool,
}

/// How far behind the truth a controller is when nothing goes wrong: messages take up to some milliseconds each way, and a
/// sync several of them.
pub(super) const LAG: Duration = Duration::from_secs(2);
/// For how long nothing is written when users take things for settled. Longer than anything withheld, than a lost create is
/// waited for, and than a ledger waits.
const SETTLED: Duration = Duration::from_mins(7);
/// The same in the end: longer than the longest back-off of a key and than a progress deadline.
const CONVERGED: Duration = Duration::from_mins(20);
const PATIENCE: Duration = Duration::from_hours(8);
const SEEN: Duration = Duration::from_millis(1);
const LOOK: Duration = Duration::from_millis(500);

struct Notes {
    violation: Option<Violation>,
    /// When anything but an Event was last written, and when anything was.
    changed: Instant,
    written: Instant,
}

type Feed = mpsc::UnboundedReceiver<Arc<Write>>;
type Shared = Arc<Mutex<Notes>>;

/// Runs it, on a runtime of its own.
pub fn run(run: Run<'_>) -> std::io::Result<Outcome> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
    Ok(runtime.block_on(play(run)))
}

async fn play(run: Run<'_>) -> Outcome {
    let start = scenarios::start(run.suite);
    let clock = Clock::simulated(start, run.seed);
    let sandbox = scenarios::server(run.suite, &clock).writes(0).history(10_000).build();
    let began = clock.monotonic_now();
    let (hub, news) = Hub::new(sandbox.clone(), run.perturbation);
    let world = Arc::new(Mutex::new(World::new(began, LAG + run.perturbation.lag(), run.perturbation.skew())));
    let notes: Shared = Arc::new(Mutex::new(Notes { violation: None, changed: began, written: began }));
    let writes = sandbox.writes().subscribe();
    let watching = tokio::spawn(watch(run.suite, clock.clone(), writes, Arc::clone(&world), Arc::clone(&notes)));
    let stage = Stage::new(Arc::clone(&hub), Arc::clone(&world), run.suite, run.without, run.seed);
    let attending = tokio::spawn(Arc::clone(&stage).attend(news));
    stage.start_nodes().await;
    stage.start_all();
    let mut waits = Vec::new();
    let violation = user(&run, &stage, &notes, &mut waits).await.err();
    let violation = violation.or_else(|| notes.lock().violation.take());
    let violation = violation.or_else(|| {
        let world = world.lock();
        let broken = |promise: &super::scenario::Promise| {
            let what = (promise.check)(&world)?;
            Some(Violation { oracle: promise.name, claims: promise.claims, what })
        };
        run.suite.promises.iter().copied().flatten().find_map(broken)
    });
    let story = run.told.then(|| Story {
        writes: world.lock().log().iter().map(|logged| logged.line(began)).collect(),
        explain: stage.explain(),
    });
    stage.end();
    watching.abort();
    attending.abort();
    let seen = std::mem::take(&mut *hub.seen.lock());
    let world = world.lock();
    // What nothing ever happens to can be withheld from anybody.
    let happens: BTreeSet<&str> = world.log().iter().map(|logged| logged.write.resource.as_str()).collect();
    let watched = seen.watched.into_iter().filter(|(_, resource)| happens.contains(resource.as_str())).collect();
    Outcome {
        scenario: run.scenario.name.clone(),
        hash: seen.digest.value(),
        points: seen.points,
        steps: run.scenario.steps.len() as u64,
        watched,
        writes: sandbox.writes().count(),
        requests: seen.requests,
        seconds: (clock.monotonic_now() - began).as_secs(),
        waits,
        beside: seen.beside,
        end: outcome::end(&world),
        violation,
        story: story.unwrap_or_default(),
    }
}

/// Follows every accepted write, and asks every invariant after it. What is written in the namespace of a hostile neighbour
/// is not followed: nothing is promised to the neighbour, and it never comes to rest.
async fn watch(suite: &'static Suite, clock: Clock, mut writes: Feed, world: Arc<Mutex<World>>, notes: Shared) {
    while let Some(write) = writes.recv().await {
        if write.namespace == neighbour::NAMESPACE {
            continue;
        }
        let logged = Logged { at: clock.monotonic_now(), write };
        let mut world = world.lock();
        if is_heartbeat(&logged.write) {
            world.hear(&logged);
            continue;
        }
        world.apply(logged.clone());
        let mut notes = notes.lock();
        notes.written = logged.at;
        if logged.write.resource != "events" {
            notes.changed = logged.at;
        }
        // What completes a deletion was judged when it was asked for.
        if notes.violation.is_none() && !logged.completes_a_deletion() {
            let broken = |invariant: &super::scenario::Invariant| {
                let what = (invariant.check)(&world, &logged)?;
                Some(Violation { oracle: invariant.name, claims: invariant.claims, what })
            };
            notes.violation = suite.invariants.iter().copied().flatten().find_map(broken);
        }
    }
}

/// Whether a node says nothing but that it is alive. That goes on for ever.
fn is_heartbeat(write: &Write) -> bool {
    let bare = |node: Option<Arc<Value>>| {
        let mut node = Arc::unwrap_or_clone(node?);
        node["metadata"]["resourceVersion"].take();
        for condition in node["status"]["conditions"].as_array_mut().into_iter().flatten() {
            condition["lastHeartbeatTime"].take();
        }
        Some(node)
    };
    match write.resource.as_str() {
        "leases" => write.namespace == "kube-node-lease",
        "nodes" if write.subresource.as_deref() == Some("status") => bare(write.before()) == bare(write.after()),
        _ => false,
    }
}

/// Does what users do, waits until everything is settled, and watches it rest.
async fn user(run: &Run<'_>, stage: &Arc<Stage>, notes: &Shared, waits: &mut Vec<Duration>) -> Result<(), Violation> {
    let clock = &stage.hub.clock;
    for (number, step) in run.scenario.steps.iter().enumerate() {
        match &step.when {
            When::After(time) => pass(stage, notes, *time).await?,
            When::Settled => waits.push(settle(stage, notes, SETTLED).await?),
            when => {
                let began = clock.monotonic_now();
                let patience = began + PATIENCE;
                // What the step before has written is seen first.
                pass(stage, notes, SEEN).await?;
                while !holds(when, stage) {
                    if clock.monotonic_now() > patience {
                        // Somebody else has changed what is wanted: a stranger's Pod may fill the quota, for one. The steps that
                        // follow, and the promises in the end, hold for it all the same.
                        if run.perturbation.changes_the_wish() {
                            break;
                        }
                        let what = format!("step {} waited for {when:?}, which did not happen in time", number + 1);
                        return Err(violation_of("gets-there", what));
                    }
                    pass(stage, notes, LOOK).await?;
                }
                waits.push(clock.monotonic_now() - began);
            }
        }
        stage.hub.step(number as u64 + 1, stage.suite.programs[0].name);
        match stage.perform(&step.what).await {
            Ok(()) => {}
            // Another user may have taken away what this one meant, or made it already.
            Err(refused) if matches!(refused.code, 404 | 409) && run.perturbation.changes_the_wish() => {}
            Err(refused) => {
                let what = format!("the server refused step {}: {refused}", number + 1);
                return Err(violation_of("users-are-served", what));
            }
        }
    }
    // A time that was written by a clock that was ahead comes that much later.
    waits.push(settle(stage, notes, CONVERGED + run.perturbation.skew()).await?);
    // What is refused or changes nothing is a write as well.
    let count = || (stage.world.lock().log().len(), stage.hub.seen.lock().points.len());
    let before = count();
    let rest = scenarios::rest(run.suite);
    // Where nodes are judged, every minute is full of heartbeats. The time since the last attempt of a controller counts there:
    // it is longer than every back-off and period of these loops, too.
    let attempted = stage.hub.seen.lock().attempted.filter(|_| scenarios::judges_nodes(run.suite));
    let silent = attempted.map_or(Duration::ZERO, |at| clock.monotonic_now().saturating_duration_since(at));
    pass(stage, notes, rest.saturating_sub(silent)).await?;
    let after = count();
    let minutes = rest.as_secs() / 60;
    if after.1 > before.1 && after.0 == before.0 {
        let last = stage.hub.seen.lock().points.last().cloned();
        let what = format!(
            "{} writes without effect in {minutes} minutes of rest; the last one: {last:?}",
            after.1 - before.1
        );
        return Err(violation_of("rests", what));
    }
    if after.0 > before.0 {
        let world = stage.world.lock();
        let last = world.log().last().map(|logged| logged.line(logged.at)).unwrap_or_default();
        let what = format!("{} writes in {minutes} minutes of rest; the last one: {last}", after.0 - before.0);
        return Err(violation_of("rests", what));
    }
    Ok(())
}

/// Lets time pass; what has gone wrong ends it.
async fn pass(stage: &Stage, notes: &Shared, time: Duration) -> Result<(), Violation> {
    stage.hub.clock.sleep(time).await;
    if let Some(violation) = notes.lock().violation.take() {
        return Err(violation);
    }
    let first = stage.hub.seen.lock().violations.first().cloned();
    first.map_or(Ok(()), |(oracle, what)| Err(violation_of(oracle, what)))
}

/// Waits until every fault is over and nothing has been written for so long. Returns the time from now to the last write.
async fn settle(stage: &Stage, notes: &Shared, quiet: Duration) -> Result<Duration, Violation> {
    let clock = &stage.hub.clock;
    let (began, patience) = (clock.monotonic_now(), clock.monotonic_now() + PATIENCE);
    loop {
        // The first look comes after what the step before has set off.
        pass(stage, notes, LOOK).await?;
        let changed = notes.lock().changed.max(began);
        let (busy, now) = (*stage.hub.pending.borrow() > 0, clock.monotonic_now());
        // A write that a fault has refused is repeated after the longest back-off at the latest.
        let disturbed = stage.hub.seen.lock().disturbed.unwrap_or(changed);
        let left = (changed.max(disturbed) + quiet).saturating_duration_since(now);
        if !busy && left.is_zero() {
            return Ok(changed - began);
        }
        if now > patience {
            let what = format!("there are still writes after {} hours", PATIENCE.as_secs() / 3600);
            return Err(violation_of("gets-there", what));
        }
        pass(stage, notes, if busy { LOOK * 4 } else { left }).await?;
    }
}

fn holds(when: &When, stage: &Stage) -> bool {
    let world = stage.world.lock();
    match when {
        When::After(_) | When::Settled => true,
        When::Observed(target) => world.find(target).is_some_and(|object| is_observed(object)),
        // What the status says of an older generation is about something else.
        When::Reaches(target, pointer, least) => {
            world.find(target).is_some_and(|object| is_observed(object) && number(object, pointer) >= *least)
        }
        When::Shows(target, pointer, least) => {
            world.find(target).is_some_and(|object| number(object, pointer) >= *least)
        }
        When::Tainted(node, time) => {
            let states = world.states("nodes", "", node).iter().rev();
            let evicts = |state: &Option<Arc<Value>>| state.as_ref().is_some_and(|node| json::evicts(node));
            let since = states.take_while(|(_, state)| evicts(state)).last().map(|(at, _)| *at);
            since.is_some_and(|since| stage.hub.clock.monotonic_now() >= since + *time)
        }
    }
}

fn is_observed(object: &Value) -> bool {
    number(object, "/metadata/generation") == number(object, "/status/observedGeneration")
}
