//! What admission makes of the controllers' writes: it refuses, changes or delays them.
//!
//! # Refused for ever
//!
//! A write that is refused costs one attempt a back-off, and a user reads about it once a back-off. Each controller works for an
//! hour of virtual time in one namespace for each pair of a situation and a kind of refusal.
//! The server refuses the write that the situation asks for. What is sent for each namespace is compared with what the back-off
//! of the loop allows ([`Pace`]). Then the refusal is lifted, and the write has to be made within the longest back-off.
//!
//! # Changed, delayed, refused for a while
//!
//! All controllers work in one [`cluster`] in which webhooks change what they create or are slow, a quota grows by a Pod a
//! minute, or the namespace terminates.

#![allow(clippy::unwrap_used, reason = "a test that panics fails")]

mod apps;
mod batch;
mod cluster;
mod collector;
mod mutated;
mod nodes;
mod place;
mod quota;
mod server;
mod services;
mod slow;
mod terminating;

use std::time::Duration;

use common::{
    clock::Clock,
    runtime::LoopDefinition,
    settings::{OperatorSettings, TunableValue},
};
use sandbox::{Sandbox, loops::Loops};

use place::{Act, Place};
use server::{BUSY, Ban, Operation, REFUSALS, Refusal, Refusing, Sent, TERMINATING};

/// How long the server refuses.
const HOUR: Duration = Duration::from_hours(1);
/// How long a situation has to come about before its trigger.
const PREPARED: Duration = Duration::from_secs(60);
/// In which time the write has to be made once it is granted: the longest back-off of any loop, and a sync.
const RECOVERED: Duration = Duration::from_secs(1030);
/// How often a request is sent that is answered with `Retry-After`: once, and ten times more (client-go `maxRetries`).
const TRIES_OF_BUSY: u64 = 11;

/// When a loop comes back to a key that failed.
#[derive(Clone, Copy, Debug)]
enum Pace {
    /// After a delay that doubles from the first to the longest.
    Exponential(Duration, Duration),
    /// In every pass.
    Every(Duration),
}

/// Most loops: 5 ms, 10 ms, ..., 1000 s.
const USUAL: Pace = Pace::Exponential(Duration::from_millis(5), Duration::from_secs(1000));

impl Pace {
    /// How often a key that always fails is tried in an hour.
    fn attempts(self) -> u64 {
        self.attempts_in(HOUR)
    }

    /// How often a key that always fails is tried in that time.
    fn attempts_in(self, time: Duration) -> u64 {
        let (mut delay, longest) = match self {
            Self::Exponential(first, longest) => (first, longest),
            Self::Every(period) => (period, period),
        };
        let (mut attempts, mut passed) = (1, delay);
        while passed <= time {
            attempts += 1;
            delay = (delay * 2).min(longest);
            passed += delay;
        }
        attempts
    }
}

/// A write that a controller wants to make.
struct Situation {
    /// Its name, which is the beginning of the names of its namespaces.
    name: &'static str,
    /// The write.
    operation: Operation,
    resource: &'static str,
    /// When the loop comes back.
    pace: Pace,
    /// How often one sync sends the write at most: more than once where upstream repeats it at once.
    writes: u64,
    /// The same after a conflict.
    on_conflict: u64,
    /// The number of Events that tell users of it, for one sync.
    events: u64,
    /// The number of other writes that one sync sends, whatever becomes of the refused one.
    others: u64,
    /// The number of reads that one sync sends at most besides one for each refused write.
    reads: u64,
    /// Makes the objects.
    before: Act,
    /// Makes the controller want the write.
    then: Act,
}

/// Nothing else is needed.
fn nothing(_: Place) -> place::Acting {
    Box::pin(async {})
}

/// How often in an hour a key is synced because of an event, or because it is due, and not because of its back-off: its objects
/// are made, and its progress deadline of ten minutes is over.
const WAKES: u64 = 3;
/// How often a create is sent into a namespace that terminates: once, and again at each progress deadline of a Deployment.
const INTO_TERMINATING: u64 = 1 + 6;
/// How many other writes a situation takes: its objects, their statuses.
const OTHERS: u64 = 8;
/// How many Events tell of what was done before the refusal.
const EARLIER: u64 = 2;
/// How often a write is made at most once it is granted: one for each of three Pods, or a status that follows what it tells of.
const GRANTED: u64 = 4;

impl Situation {
    /// A write that waits for the usual back-off, is sent once a sync, and is told by one Event a sync.
    const fn new(name: &'static str, operation: Operation, resource: &'static str) -> Self {
        let (before, then): (Act, Act) = (nothing, nothing);
        Self {
            name,
            operation,
            resource,
            pace: USUAL,
            writes: 1,
            on_conflict: 1,
            events: 1,
            others: 0,
            reads: 0,
            before,
            then,
        }
    }

    fn refusals(&self) -> Vec<&'static Refusal> {
        let creates = self.operation == Operation::Create;
        let fits = |refusal: &&Refusal| creates || refusal.name != "quota";
        REFUSALS.iter().filter(fits).chain([&BUSY]).chain(creates.then_some(&TERMINATING)).collect()
    }

    /// What is wrong with the requests of an hour in which the write is refused.
    fn judge(&self, refusal: &Refusal, sent: &Sent) -> Vec<String> {
        let syncs = self.pace.attempts() + WAKES;
        let repeats = if refusal.name == "conflict" { self.on_conflict.max(self.writes) } else { self.writes };
        let tries = if refusal.name == BUSY.name { TRIES_OF_BUSY } else { 1 };
        let is_terminating = refusal.name == TERMINATING.name;
        let (most, least) = if is_terminating { (INTO_TERMINATING, 1) } else { (syncs * repeats * tries, 2 * tries) };
        let mut wrong = Vec::new();
        let mut must = |holds: bool, what: String| wrong.extend((!holds).then_some(what));
        must(sent.refused <= most, format!("{} refused writes are more than {most}", sent.refused));
        must(sent.refused >= least, format!("{} refused writes are fewer than {least}", sent.refused));
        // A conflict, for one, has the object read again.
        let reads = sent.refused + WAKES + syncs * self.reads;
        must(sent.reads <= reads, format!("{} reads are more than {reads}", sent.reads));
        let others = OTHERS + syncs * self.others;
        must(sent.others <= others, format!("{} other writes are more than {others}", sent.others));
        let events = if is_terminating { 0 } else { syncs * self.events } + EARLIER;
        must(sent.events <= events, format!("{} Events are more than {events}", sent.events));
        // What only a user can change has to be told again and again.
        let told = if refusal.is_denial() && self.events > 0 { 10 } else { 0 };
        must(sent.events >= told, format!("{} Events are fewer than {told}", sent.events));
        wrong
    }
}

/// The settings of a run.
fn settings(tunes: &[(&str, TunableValue)]) -> OperatorSettings {
    tunes.iter().fold(OperatorSettings::new(), |settings, (name, value)| settings.with_tunable(name, *value))
}

/// Lets a controller meet every refusal in every situation.
fn meet(loops: &[LoopDefinition], tunes: &[(&str, TunableValue)], common: Act, situations: &[Situation]) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let clock = Clock::simulated(jiff::Timestamp::UNIX_EPOCH, 1);
        let sandbox = Sandbox::builder().clock(clock.clone()).writes(0).history(1000).build();
        let server = Refusing::new(&sandbox);
        let mut places = Vec::new();
        for situation in situations {
            for refusal in situation.refusals() {
                let place = Place::new(&sandbox, &format!("{}-{}", situation.name, refusal.name)).await;
                let Situation { operation, resource, .. } = *situation;
                server.ban(&place.name, Ban { operation, resource, refusal });
                places.push((situation, refusal, place));
            }
        }
        common(Place::new(&sandbox, "common").await).await;
        let client = kube::Client::new(server.clone(), "default");
        let loops = Loops::start(&client, &clock, settings(tunes), loops);
        for (situation, _, place) in &places {
            (situation.before)(place.clone()).await;
        }
        clock.sleep(PREPARED).await;
        for (situation, _, place) in &places {
            (situation.then)(place.clone()).await;
        }
        clock.sleep(HOUR).await;
        let sent: Vec<Sent> = places.iter().map(|(.., place)| server.sent(&place.name)).collect();
        server.lift();
        clock.sleep(RECOVERED).await;
        let mut wrong = Vec::new();
        for ((situation, refusal, place), sent) in places.iter().zip(&sent) {
            let after = server.sent(&place.name).granted;
            let mut found = situation.judge(refusal, sent);
            // A namespace that terminates does so for good.
            if refusal.name != TERMINATING.name && !(1..=GRANTED).contains(&after) {
                found.push(format!("the write is made {after} times once it is granted"));
            }
            let told = |what| format!("{}: {what} ({sent:?})", place.name);
            wrong.extend(found.into_iter().map(told));
        }
        drop(loops);
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    });
}

#[test]
fn the_attempts_of_an_hour_follow_from_the_back_off() {
    // 5 ms doubled 18 times is 1310.72 s, whose sum is just above that; then every 1000 s.
    assert_eq!(USUAL.attempts(), 1 + 18 + 2);
}
