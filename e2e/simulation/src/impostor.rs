//! Tests of the oracles themselves: a run without controllers, in which an impostor writes under a controller's name.
//!
//! An oracle that no impostor can turn red proves nothing. The impostor's writes go through the sandbox, its nodes run the
//! Pods, and the oracles look on as in every other run.

use std::{sync::Arc, time::Duration};

use common::clock::Clock;
use jiff::Timestamp;
use parking_lot::Mutex;

use super::{
    notation::{self, Notation, Unreadable},
    run::LAG,
    scenario::{Suite, What},
    scenarios, users,
    world::{Logged, World},
};

/// How long the nodes get before each act, and after the last one, to run the Pods, longer than what an oracle forgives a slow
/// controller.
const PAUSE: Duration = Duration::from_secs(30);

/// One act of an impostor or of a user.
#[derive(Clone, Debug)]
pub struct Act {
    by: String,
    what: What,
    pause: Duration,
}

impl Act {
    /// The acts in a text, which semicolons separate: what users do, or a controller of which they are said to be
    /// (`as gc-controller delete secrets/leaf`), half a minute or another time after the preceding act (`after 5s ...`).
    ///
    /// # Errors
    /// An act that cannot be read.
    pub fn read(notation: &Notation, text: &str) -> Result<Vec<Self>, Unreadable> {
        let text = notation.expand(text)?;
        let mut acts = Vec::new();
        for mut text in notation::split(&text, ';') {
            let (mut by, mut pause) = (sandbox::ADMIN.to_owned(), PAUSE);
            while let Some((word, (value, rest))) =
                text.split_once(' ').and_then(|(word, rest)| Some((word, rest.split_once(' ')?)))
            {
                match (word, notation::duration(value)) {
                    // The number of an incarnation tells a controller's writes from those of a user.
                    ("as", _) => by = format!("{value}#1"),
                    ("after", Some(time)) => pause = time,
                    _ => break,
                }
                text = rest;
            }
            let deeds = notation::deeds(text)?.into_iter();
            acts.extend(deeds.map(|what| Self { by: by.clone(), what, pause }));
        }
        Ok(acts)
    }
}

/// What an oracle says of a run: its name, and what is wrong.
pub type Objection = (&'static str, String);

/// What some acts lead to.
pub struct Played {
    /// What the oracles say before the last act.
    pub before: Vec<Objection>,
    /// What they say in the end: the invariants in the order of the writes, then the promises.
    pub after: Vec<Objection>,
    /// The world in the end.
    pub world: World,
}

/// Plays some acts under the oracles of a suite.
///
/// # Errors
/// An act that the server refuses, or a machine without what a runtime needs.
pub fn play(suite: &'static Suite, acts: &[Act]) -> anyhow::Result<Played> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
    let mut played = runtime.block_on(perform(suite, acts))?;
    // An act that follows at once leaves no time to look at the world before it.
    if let Some((_, earlier)) = acts.split_last().filter(|(last, _)| last.pause < PAUSE) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
        played.before = runtime.block_on(perform(suite, earlier))?.after;
    }
    Ok(played)
}

async fn perform(suite: &'static Suite, acts: &[Act]) -> anyhow::Result<Played> {
    let clock = Clock::simulated(Timestamp::from_second(1_795_254_447)?, 1);
    let sandbox = scenarios::server(suite, &clock).build();
    let world = Arc::new(Mutex::new(World::new(clock.monotonic_now(), LAG, Duration::ZERO)));
    let violated: Arc<Mutex<Vec<Objection>>> = Arc::default();
    let mut writes = sandbox.writes().subscribe();
    let watching = {
        let (world, violated, clock) = (Arc::clone(&world), Arc::clone(&violated), clock.clone());
        tokio::spawn(async move {
            while let Some(write) = writes.recv().await {
                let logged = Logged { at: clock.monotonic_now(), write };
                let mut world = world.lock();
                world.apply(logged.clone());
                let invariants = suite.invariants.iter().copied().flatten();
                violated.lock().extend(invariants.filter_map(|i| Some((i.name, (i.check)(&world, &logged)?))));
            }
        })
    };
    let objections = || {
        let (mut all, world) = (violated.lock().clone(), world.lock());
        let promises = suite.promises.iter().copied().flatten();
        all.extend(promises.filter_map(|promise| Some((promise.name, (promise.check)(&world)?))));
        all
    };
    let nodes = scenarios::nodes(suite).start(sandbox.client("nodes#1"), clock.clone());
    nodes.ready().await;
    let mut before = Vec::new();
    for (number, Act { by, what, pause }) in acts.iter().enumerate() {
        if !pause.is_zero() {
            clock.sleep(*pause).await;
        }
        if number + 1 == acts.len() {
            before = objections();
        }
        users::switch(&nodes, what);
        if let What::Stop(time) = what {
            world.lock().stops(clock.now(), clock.now().checked_add(*time)?);
        }
        users::perform(&sandbox.acting_as(by), what).await?;
    }
    clock.sleep(PAUSE).await;
    watching.abort();
    drop(nodes);
    let after = objections();
    let world = world.lock().clone();
    Ok(Played { before, after, world })
}
