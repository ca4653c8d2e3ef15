//! The programs of a run and what becomes of them: started, crashed, restarted, replaced.

use std::{sync::Arc, time::Duration};

use common::{
    app::ProgramDefinition,
    clock::{Clock, Instant},
    settings::{OperatorSettings, TunableValue},
    succession::WrittenVersions,
};
use parking_lot::{MappedMutexGuard, Mutex, MutexGuard};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::{
    accounts::{Accounts, Observer},
    hub::{Hub, Life, News, Process},
    json, neighbour,
    perturbation::Kind,
    safeguard::{Safeguard, Seam},
    scenario::{Suite, What},
    scenarios, users,
    wire::Wire,
    world::World,
};
use sandbox::{Refused, loops::Loops, nodes::Nodes};

pub(super) const NODES: &str = "nodes";
/// The namespace of what a scenario says of no other namespace.
pub(super) const NAMESPACE: &str = "default";
/// In which time a process that is to crash has.
const PROMPT: Duration = Duration::from_secs(1);
const RESTART: Duration = Duration::from_secs(5);
/// After how long the Lease of a leader that hangs is taken by another: its duration and a try.
const LEASE: Duration = Duration::from_secs(17);
/// For how long a leader may write after it renewed its Lease, and how often it does.
const RENEWED: Duration = Duration::from_secs(10);
const RENEWAL: Duration = Duration::from_secs(2);
const HAND_OVER: Duration = Duration::from_secs(2);
/// In which time a standby fills its caches, and how long it stands by then if nothing happens.
const FILLED: Duration = Duration::from_millis(300);
const STANDS_BY: Duration = Duration::from_mins(10);

struct Replica {
    process: Arc<Process>,
    loops: Loops,
}

/// A program: who acts for it, and who does not any more.
struct Seat {
    definition: &'static ProgramDefinition,
    incarnations: u32,
    acting: Option<Replica>,
    retired: Vec<Replica>,
    leader: Option<Arc<Process>>,
    /// Until when users let no process of the program run.
    stopped_until: Option<Instant>,
}

impl Seat {
    fn replica(&self, process: &Process) -> Option<&Replica> {
        self.acting.iter().chain(&self.retired).find(|replica| replica.process.identity == process.identity)
    }
}

pub(super) struct Stage {
    pub(super) hub: Arc<Hub>,
    pub(super) world: Arc<Mutex<World>>,
    pub(super) suite: &'static Suite,
    without: Option<Safeguard>,
    seed: u64,
    seats: Mutex<Vec<Seat>>,
    nodes: Mutex<Option<Arc<Nodes>>>,
}

impl Stage {
    pub(super) fn new(
        hub: Arc<Hub>,
        world: Arc<Mutex<World>>,
        suite: &'static Suite,
        without: Option<Safeguard>,
        seed: u64,
    ) -> Arc<Self> {
        let seat = |definition: &&'static ProgramDefinition| Seat {
            definition,
            incarnations: 0,
            acting: None,
            retired: Vec::new(),
            leader: None,
            stopped_until: None,
        };
        let seats = Mutex::new(suite.programs.iter().map(seat).collect());
        Arc::new(Self { hub, world, suite, without, seed, seats, nodes: Mutex::default() })
    }

    /// The seat of a program, locked with all others.
    fn seat(&self, program: &str) -> Option<MappedMutexGuard<'_, Seat>> {
        MutexGuard::try_map(self.seats.lock(), |seats| seats.iter_mut().find(|s| s.definition.name == program)).ok()
    }

    pub(super) async fn start_nodes(&self) {
        let process = Process::new(NODES, 1, self.hub.clock.clone(), Accounts::default());
        let client = kube::Client::new(Wire::new(&self.hub, &process, None), NAMESPACE);
        let nodes = scenarios::nodes(self.suite).start(client, self.hub.clock.clone());
        nodes.ready().await;
        *self.nodes.lock() = Some(Arc::new(nodes));
    }

    pub(super) fn start_all(&self) {
        for definition in self.suite.programs {
            self.start(definition.name, true);
        }
    }

    /// Starts a process of a program; it becomes the one that acts, and whoever acted is retired.
    fn start(&self, program: &str, leads: bool) {
        let Some(mut seat) = self.seat(program) else { return };
        if seat.stopped_until.is_some_and(|until| self.hub.clock.monotonic_now() < until) {
            return;
        }
        seat.incarnations += 1;
        // Each process has its own clock and its own luck.
        let luck = self.seed.wrapping_mul(1009) ^ (u64::from(seat.incarnations) << 32) ^ program.len() as u64;
        let clock = Clock::simulated(self.hub.clock.now(), luck);
        let accounts = Accounts::new(self.missing(program));
        let process = Process::new(seat.definition.name, seat.incarnations, clock.clone(), accounts);
        let seam = Seam::of(self.missing(program)).map(Arc::new);
        let client = kube::Client::new(Wire::new(&self.hub, &process, seam), NAMESPACE);
        let observer = Arc::new(Observer { hub: Arc::clone(&self.hub), process: Arc::clone(&process) });
        let (settings, definitions) = (self.settings(program), seat.definition.loops);
        let loops = Loops::stand_by_observed(&client, &clock, settings, definitions, Some(observer));
        self.hub.acts(&process);
        let retired = seat.acting.replace(Replica { process, loops });
        seat.retired.extend(retired);
        if leads {
            self.elect(&mut seat);
        }
    }

    /// Gives who acts for a program the permission to write: for good, or, where leaders hang, for as long as it renews it.
    /// There is one Lease: whoever else holds it has lost it.
    fn elect(&self, seat: &mut Seat) {
        let Some(replica) = &seat.acting else { return };
        let elected = Arc::clone(&replica.process);
        if let Some(last) = seat.leader.replace(elected).filter(|last| last.identity != replica.process.identity) {
            self.unseat(seat, &last);
        }
        let Some(replica) = &seat.acting else { return };
        if !self.hub.has_paused_leaders() || self.missing(replica.process.program) == Some(Safeguard::Leadership) {
            return replica.loops.lead();
        }
        let (process, keeper) = (Arc::clone(&replica.process), Arc::clone(replica.loops.keeper()));
        keeper.open_until(process.clock.monotonic_now() + RENEWED);
        tokio::spawn(async move {
            loop {
                process.clock.sleep(RENEWAL).await;
                process.runs().await;
                if process.is_deposed() {
                    return keeper.close();
                }
                keeper.open_until(process.clock.monotonic_now() + RENEWED);
            }
        });
    }

    /// The safeguard a program lacks: only the suite's own controller lacks any.
    fn missing(&self, program: &str) -> Option<Safeguard> {
        self.without.filter(|_| self.suite.programs[0].name == program)
    }

    /// The suite's settings; a ledger that forgets at once is none.
    fn settings(&self, program: &str) -> OperatorSettings {
        let tuned =
            |settings: OperatorSettings, (name, value): &(&str, TunableValue)| settings.with_tunable(name, *value);
        let settings = self.suite.tunes.iter().fold(OperatorSettings::new(), tuned);
        let gated = |settings: OperatorSettings, (name, on): &(&str, bool)| settings.with_feature_gate(name, *on);
        let settings = self.suite.gates.iter().fold(settings, gated);
        if self.missing(program) == Some(Safeguard::Consistency) {
            return settings.with_tunable("expectations-timeout", TunableValue::Duration(Duration::ZERO));
        }
        settings
    }

    fn unseat(&self, seat: &Seat, process: &Process) {
        if self.missing(process.program) != Some(Safeguard::Leadership)
            && let Some(replica) = seat.replica(process)
        {
            replica.loops.depose();
        }
        process.depose();
    }

    fn depose(&self, program: &str) -> Option<Arc<Process>> {
        let mut seat = self.seat(program)?;
        let leader = seat.leader.take()?;
        self.unseat(&seat, &leader);
        Some(leader)
    }

    /// Lets who acts for a program lead, and know what the last leader left, if that one left anything.
    fn follow(&self, program: &str, last: Option<&Process>) {
        let Some(mut seat) = self.seat(program) else { return };
        let left = last.and_then(|last| seat.replica(last)).and_then(|replica| replica.loops.left());
        let left = match self.missing(program) {
            Some(Safeguard::Succession) => Some(WrittenVersions::default()),
            _ => left,
        };
        if let Some(acting) = &seat.acting {
            acting.loops.inherit(left);
            self.elect(&mut seat);
        }
    }

    /// Clears away who has crashed, if it acts for its program still, and starts another after a while if nobody acts then.
    async fn restart(&self, process: &Process) -> bool {
        // A request that is given up on the way, because its process leads no more, does not end it.
        if tokio::time::timeout(PROMPT, process.dies()).await.is_err() {
            process.set(Life::Dead);
        }
        if let Some(mut seat) = self.seat(process.program) {
            seat.acting.take_if(|acting| acting.process.identity == process.identity);
        }
        self.hub.clock.sleep(RESTART).await;
        self.fill(process.program)
    }

    fn fill(&self, program: &str) -> bool {
        let vacant = self.seat(program).is_some_and(|seat| seat.acting.is_none());
        if vacant {
            self.start(program, true);
        }
        vacant
    }

    pub(super) fn explain(&self) -> Value {
        let seats = self.seats.lock();
        let said = |seat: &Seat| {
            let loops = seat.acting.as_ref().map(|replica| replica.loops.explain(None));
            json!({"program": seat.definition.name, "explain": loops})
        };
        seats.iter().map(said).collect()
    }

    pub(super) async fn attend(self: Arc<Self>, mut news: mpsc::UnboundedReceiver<News>) {
        while let Some(news) = news.recv().await {
            let stage = Arc::clone(&self);
            tokio::spawn(async move {
                stage.follow_up(news).await;
                stage.hub.pending.send_modify(|n| *n -= 1);
            });
        }
    }

    async fn follow_up(self: &Arc<Self>, News { kind, process }: News) {
        let (clock, faults) = (&self.hub.clock, self.hub.sandbox.faults());
        let program = process.program;
        match kind {
            Kind::Crash(_) => {
                self.restart(&process).await;
            }
            Kind::Lag(by) => {
                if !self.restart(&process).await {
                    return;
                }
                let Some(identity) = self.identity(program) else { return };
                for resource in self.hub.watched_by(program) {
                    faults.delay_watch(&identity, &resource, by);
                }
                clock.sleep(by * 4).await;
                for resource in self.hub.watched_by(program) {
                    faults.delay_watch(&identity, &resource, Duration::ZERO);
                }
            }
            Kind::Hold(_, resource, time) => {
                clock.sleep(time).await;
                faults.release_watch(&process.identity, &resource);
            }
            Kind::Missed(time) => {
                clock.sleep(time).await;
                self.hub.sandbox.compact();
                for resource in self.hub.watched_by(program) {
                    faults.release_watch(&process.identity, &resource);
                }
            }
            Kind::Recreate(time) => {
                let stranger = self.recreate_a_pod().await;
                clock.sleep(time).await;
                if self.seed % 2 == 1 {
                    self.hub.sandbox.compact();
                }
                faults.release_watch(&process.identity, "pods");
                // The owner of a Pod with a fixed name cannot create it anew as long as the stranger has the name.
                if let Some(stranger) = stranger {
                    clock.sleep(time).await;
                    let _ = self.perform(&What::delete_now("pods", &stranger)).await;
                }
            }
            Kind::Reject(_, time) | Kind::Unread(time) => clock.sleep(time).await,
            Kind::FailOver => {
                clock.sleep(Duration::from_millis(50)).await;
                // Who has crashed meanwhile hands nothing over.
                let Some(last) = self.depose(program) else { return };
                self.start(program, false);
                clock.sleep(HAND_OVER).await;
                self.follow(program, Some(&last));
            }
            Kind::StaleStandby(time) => {
                self.start(program, false);
                clock.sleep(FILLED).await;
                let Some(standby) = self.identity(program) else { return };
                let withheld = self.hub.watched_by(program);
                let held_since = self.hold_until_a_write(program, &standby, &withheld, time).await;
                // Who leads by now, or is no more, is no standby.
                if self.stands_by(program, &standby) {
                    let last = self.depose(program);
                    // What is on its way arrives before the Lease is given up.
                    clock.sleep(FILLED).await;
                    // A leader that has crashed leaves nothing.
                    self.follow(program, last.as_deref().filter(|last| !last.is_dead()));
                }
                clock.sleep(time.saturating_sub(clock.monotonic_now().saturating_duration_since(held_since))).await;
                for resource in &withheld {
                    faults.release_watch(&standby, resource);
                }
            }
            Kind::PausedLeader(time) => {
                self.start(program, false);
                clock.sleep(LEASE).await;
                // Its gate has shut by itself.
                process.depose();
                self.follow(program, None);
                clock.sleep(time.saturating_sub(LEASE)).await;
                process.set(Life::Running);
            }
            Kind::Interfere(name) => self.interfere(&name).await,
            Kind::Neighbour(name) => self.move_in(&name).await,
            Kind::Error(_) | Kind::Clock(_) => {}
        }
    }

    /// Withholds all events from a standby until its leader has written something more, and returns since when they are withheld.
    ///
    /// The standby catches up now and then while the leader writes nothing, so that it is never behind by more than `time`.
    /// Ends also when the Lease of a leader that has crashed has expired, and after [`STANDS_BY`].
    async fn hold_until_a_write(&self, program: &str, standby: &str, withheld: &[String], time: Duration) -> Instant {
        let (clock, faults) = (&self.hub.clock, self.hub.sandbox.faults());
        let count = || self.hub.seen.lock().points.iter().filter(|point| point.program == program).count();
        let hold = || {
            for resource in withheld {
                faults.hold_watch(standby, resource);
            }
            clock.monotonic_now()
        };
        let before = count();
        let mut patience = clock.monotonic_now() + STANDS_BY;
        let mut held_since = hold();
        // A process that leads meanwhile hears everything.
        while count() == before && clock.monotonic_now() < patience && self.stands_by(program, standby) {
            if self.has_lost_its_leader(program) {
                patience = patience.min(clock.monotonic_now() + LEASE);
            }
            if clock.monotonic_now().saturating_duration_since(held_since) > time / 2 {
                for resource in withheld {
                    faults.release_watch(standby, resource);
                }
                clock.sleep(FILLED).await;
                held_since = hold();
            }
            clock.sleep(Duration::from_millis(5)).await;
        }
        held_since
    }

    fn has_lost_its_leader(&self, program: &str) -> bool {
        self.seat(program).is_some_and(|seat| seat.leader.as_ref().is_none_or(|leader| leader.is_dead()))
    }

    fn stands_by(&self, program: &str, identity: &str) -> bool {
        self.seat(program).is_some_and(|seat| {
            let acts = seat.acting.as_ref().is_some_and(|replica| replica.process.identity == identity);
            acts && seat.leader.as_ref().is_none_or(|leader| leader.identity != identity)
        })
    }

    fn identity(&self, program: &str) -> Option<String> {
        self.seat(program)?.acting.as_ref().map(|replica| replica.process.identity.clone())
    }

    /// Creates the objects of a hostile neighbour. One that the server refuses would harm nobody, so that is a violation.
    async fn move_in(&self, name: &str) {
        let Some(neighbour) = neighbour::find(name) else { return };
        let sandbox = &self.hub.sandbox;
        let mut refused = sandbox.apply(neighbour::namespace()).await.err();
        for object in neighbour.objects() {
            let failed = sandbox.create(object).await.err();
            // It may have moved in before. The quota of another neighbour applies to its Pods, too: they share the namespace.
            let is_expected =
                |refused: &Refused| refused.reason == "AlreadyExists" || refused.message.contains("exceeded quota");
            let failed = failed.filter(|refused| !is_expected(refused));
            refused = refused.or(failed);
        }
        if let Some(refused) = refused {
            let what = format!("the neighbour {name} is refused: {refused}");
            self.hub.seen.lock().violations.push(("users-are-served", what));
        }
    }

    async fn interfere(self: &Arc<Self>, name: &str) {
        let Some(interference) = self.suite.interferences.iter().find(|i| i.name == name) else { return };
        // A user is not in step with anything.
        self.hub.clock.sleep(Duration::from_millis(self.hub.clock.random_below(3000) as u64)).await;
        let steps = (interference.act)(&self.world.lock(), self.hub.clock.random_u64());
        for (wait, what) in steps.into_iter().flatten() {
            self.hub.clock.sleep(wait).await;
            // What a user meant may be gone by now.
            let _ = self.perform(&what).await;
        }
    }

    /// Replaces a Pod that has an owner by a stranger: another Pod of its name, without an owner. Returns the name of the
    /// stranger if the owner needs that name again, because it gives its Pods fixed names.
    async fn recreate_a_pod(self: &Arc<Self>) -> Option<String> {
        let pods: Vec<(String, bool)> = {
            let world = self.world.lock();
            let owned = world.list("pods").filter(|pod| json::owners(pod).next().is_some());
            let fixed = |pod: &Value| json::controller(pod).is_some_and(|owner| owner["kind"] == "StatefulSet");
            owned.map(|pod| (json::name(pod).to_owned(), fixed(pod))).collect()
        };
        let (name, fixed) = pods.get(self.hub.clock.random_below(pods.len()))?;
        // Whoever does so does not care what others want to do before it goes.
        let _ = self.perform(&What::merge("pods", name, json!({"metadata": {"finalizers": null}}))).await;
        let _ = self.perform(&What::delete_now("pods", name)).await;
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "stranger"}},
            "spec": {"containers": [{"name": "c", "image": "stranger"}]}});
        let _ = self.perform(&What::Create(pod)).await;
        fixed.then(|| name.clone())
    }

    pub(super) async fn perform(self: &Arc<Self>, what: &What) -> Result<(), Refused> {
        if let Some(nodes) = &*self.nodes.lock() {
            users::switch(nodes, what);
        }
        match what {
            What::Pause(time) => self.pause(*time),
            What::Stop(time) => self.stop(*time),
            What::Outage(time) => {
                self.world.lock().is_away_until(self.hub.clock.monotonic_now() + *time);
                self.hub.sandbox.faults().go_down_for(*time);
            }
            _ => {}
        }
        users::perform(&self.hub.sandbox, what).await
    }

    fn pause(&self, time: Duration) {
        let own = self.seat(self.suite.programs[0].name);
        let acting = own.as_ref().and_then(|seat| seat.acting.as_ref());
        let Some(process) = acting.map(|replica| Arc::clone(&replica.process)) else { return };
        let hub = Arc::clone(&self.hub);
        self.note_stop(time);
        hub.pending.send_modify(|n| *n += 1);
        process.set(Life::Hanging);
        tokio::spawn(async move {
            hub.clock.sleep(time).await;
            process.set(Life::Running);
            hub.pending.send_modify(|n| *n -= 1);
        });
    }

    fn stop(self: &Arc<Self>, time: Duration) {
        let own = self.suite.programs[0].name;
        if let Some(mut seat) = self.seat(own) {
            seat.stopped_until = Some(self.hub.clock.monotonic_now() + time);
            let retired = seat.acting.take();
            seat.retired.extend(retired);
            seat.retired.iter().for_each(|replica| replica.process.set(Life::Dead));
        }
        self.note_stop(time);
        self.hub.pending.send_modify(|n| *n += 1);
        let stage = Arc::clone(self);
        tokio::spawn(async move {
            stage.hub.clock.sleep(time).await;
            stage.fill(own);
            // What it has missed is made up for before users take things for settled.
            stage.hub.clock.sleep(RESTART).await;
            stage.hub.pending.send_modify(|n| *n -= 1);
        });
    }

    fn note_stop(&self, time: Duration) {
        let now = self.hub.clock.now();
        self.world.lock().stops(now, now.checked_add(time).unwrap_or(now));
    }

    pub(super) fn end(&self) {
        self.seats.lock().clear();
        self.nodes.lock().take();
    }
}
