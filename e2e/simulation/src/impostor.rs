//! Tests of the oracles themselves: a run without controllers, in which an impostor writes under a controller's name.
//!
//! An oracle that no impostor can turn red proves nothing. The impostor's writes go through the sandbox, its nodes run the
//! Pods, and the oracles look on as in every other run.

use std::{rc::Rc, sync::Arc, time::Duration};

use common::clock::Clock;
use jiff::Timestamp;
use parking_lot::Mutex;

use super::{
    run::LAG,
    scenario::{Suite, What},
    scenarios, users,
    world::{Logged, World},
};
use sandbox::Sandbox;

/// How long the nodes get before each act, and after the last one, to run the Pods, longer than what an oracle forgives a slow
/// controller.
const PAUSE: Duration = Duration::from_secs(30);

/// One act of an impostor or of a user.
#[derive(Clone)]
pub struct Act {
    by: &'static str,
    what: Rc<dyn Fn(&World) -> What>,
    pause: Duration,
}

impl Act {
    /// An act of a user.
    pub fn user(what: impl Fn(&World) -> What + 'static) -> Self {
        Self { by: sandbox::ADMIN, what: Rc::new(what), pause: PAUSE }
    }

    /// An act that looks like one of this controller.
    pub fn impostor(controller: &'static str, what: impl Fn(&World) -> What + 'static) -> Self {
        Self { by: controller, what: Rc::new(what), pause: PAUSE }
    }

    /// The same act without a pause before it, as in one sync. The [`World`] that it reads may lack the preceding act.
    #[must_use]
    pub fn at_once(self) -> Self {
        Self { pause: Duration::ZERO, ..self }
    }
}

/// What an oracle says of a run: its name, and what is wrong.
pub type Objection = (&'static str, String);

/// The names of all oracles of a suite that are violated by these acts, in alphabetical order.
///
/// # Errors
/// An act that the server refuses, or a machine without what a runtime needs.
pub fn violated(suite: &'static Suite, acts: &[Act]) -> anyhow::Result<Vec<&'static str>> {
    let mut names: Vec<&str> = objections(suite, acts)?.into_iter().map(|(name, _)| name).collect();
    names.sort_unstable();
    names.dedup();
    Ok(names)
}

/// Everything that the oracles of a suite say of these acts: the invariants in the order of the writes, then the promises.
///
/// # Errors
/// The same as those of [`violated`].
pub fn objections(suite: &'static Suite, acts: &[Act]) -> anyhow::Result<Vec<Objection>> {
    play(suite, acts).map(|(objections, _)| objections)
}

/// The world that these acts lead to.
///
/// # Errors
/// The same as those of [`violated`].
pub fn world(suite: &'static Suite, acts: &[Act]) -> anyhow::Result<World> {
    play(suite, acts).map(|(_, world)| world)
}

fn play(suite: &'static Suite, acts: &[Act]) -> anyhow::Result<(Vec<Objection>, World)> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
    runtime.block_on(perform(suite, acts))
}

async fn perform(suite: &'static Suite, acts: &[Act]) -> anyhow::Result<(Vec<Objection>, World)> {
    let clock = Clock::simulated(Timestamp::from_second(1_795_254_447)?, 1);
    let builder = Sandbox::builder().clock(clock.clone());
    let sandbox = suite.gates.iter().fold(builder, |builder, (name, on)| builder.gate(*name, *on)).build();
    let world = Arc::new(Mutex::new(World::new(clock.monotonic_now(), LAG, Duration::ZERO)));
    let violated = Arc::new(Mutex::new(Vec::new()));
    let mut writes = sandbox.writes().subscribe();
    let watching = {
        let (world, violated, clock) = (Arc::clone(&world), Arc::clone(&violated), clock.clone());
        tokio::spawn(async move {
            while let Some(write) = writes.recv().await {
                let logged = Logged { at: clock.monotonic_now(), write };
                let mut world = world.lock();
                world.apply(logged.clone());
                let invariants = suite.invariants.iter().copied().flatten();
                violated.lock().extend(invariants.filter_map(|i| Some((i.name, (i.check)(&world, &logged).err()?))));
            }
        })
    };
    let nodes = scenarios::nodes(suite).start(sandbox.client("nodes#1"), clock.clone());
    nodes.ready().await;
    for act in acts {
        if !act.pause.is_zero() {
            clock.sleep(act.pause).await;
        }
        let what = (act.what)(&world.lock());
        // The number of an incarnation tells a controller's writes from those of a user.
        let by = if act.by == sandbox::ADMIN { act.by.to_owned() } else { format!("{}#1", act.by) };
        users::switch(&nodes, &what);
        if let What::Stop(time) = &what {
            world.lock().stops(clock.now(), clock.now().checked_add(*time)?);
        }
        users::perform(&sandbox.acting_as(&by), &what).await?;
    }
    clock.sleep(PAUSE).await;
    watching.abort();
    drop(nodes);
    let world = world.lock();
    let mut objections = std::mem::take(&mut *violated.lock());
    let promises = suite.promises.iter().copied().flatten();
    objections.extend(promises.filter_map(|promise| Some((promise.name, (promise.check)(&world).err()?))));
    Ok((objections, world.clone()))
}
