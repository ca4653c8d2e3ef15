//! Control loops, their gate and their election, put together over any client and any clock.

use std::{fmt, sync::Arc, time::Duration};

use futures::future;
use parking_lot::Mutex;
use tokio::task::{JoinHandle, JoinSet};

use crate::{
    api::{Api, Format, Requests, Throttle},
    client,
    clock::Clock,
    events::{Recorder, Sender, Source},
    gate::{self, Gate, Keeper},
    io::AccountObserver,
    leader::{self, Election, End},
    metrics::Metrics,
    pace::Pace,
    runtime::{Context, LoopDefinition, Running, Shared},
    second_writer::{SecondWriterWatch, WriteSampler},
    settings::Settings,
    succession::Writes,
};

/// How long Events that were recorded last may take to leave when everything else is done.
const LAST_EVENTS: Duration = Duration::from_millis(250);

/// Is told of every loop that starts.
type Started = Arc<dyn Fn(&'static str, &Arc<dyn Running>) + Send + Sync>;

/// How the loops come to lead.
#[derive(Clone)]
pub enum Leadership {
    /// There is no election: the gate is open from the start.
    Always,
    /// The gate never opens.
    Nobody,
    /// The holder of this Lease leads.
    Lease(leader::Settings),
    /// The caller decides, by the keeper of this gate; the writes of the loops are noted for their successor.
    Caller {
        /// Opens and closes the gate.
        keeper: Arc<Keeper>,
        /// The gate that all writes of the loops pass.
        gate: Gate,
        /// What the loops have written.
        writes: Writes,
    },
}

impl Leadership {
    /// The gate of the loops with its keeper, and where their writes are noted: the caller's, or new ones.
    fn permission(&self, clock: &Clock) -> (Arc<Keeper>, Gate, Writes) {
        if let Self::Caller { keeper, gate, writes } = self {
            return (Arc::clone(keeper), gate.clone(), writes.clone());
        }
        let (keeper, gate) = gate::gate(clock.clone());
        (Arc::new(keeper), gate, Writes::default())
    }
}

/// What is put together.
pub struct Parts {
    /// The API server, for the loops.
    pub client: kube::Client,
    /// The API server, for the election: connections of its own, so that a burst of writes cannot delay a renewal.
    pub lease_client: kube::Client,
    /// Time and randomness.
    pub clock: Clock,
    /// Where metrics are registered.
    pub metrics: Metrics,
    /// What the loops look at.
    pub settings: Arc<Settings>,
    /// The loops.
    pub loops: Vec<LoopDefinition>,
    /// How the loops come to lead.
    pub leadership: Leadership,
    /// Whether a standby runs its informers.
    pub standby_warm: bool,
    /// How the thread that all this runs on handles events of watches.
    pub pace: Pace,
    /// Requests a second and at once, for each loop.
    pub rate: Option<(f64, u32)>,
    /// The format of lists and watches, wherever a kind has it.
    pub preferred_format: Format,
    /// The API server as metrics name it.
    pub host: String,
    /// Pause before each loop starts, before jitter.
    pub start_interval: Duration,
    /// The component that Events about the election come from.
    pub component: &'static str,
    /// Is told of every loop that starts.
    pub started: Started,
    /// Sees the accounts of syncs.
    pub accounts: Option<Arc<dyn AccountObserver>>,
    /// How often a leader asks the API server for signs of a second writer; never if zero.
    pub second_writer_period: Duration,
}

impl Parts {
    /// Loops over one client, with defaults for the rest and no election.
    pub fn new(client: kube::Client, clock: Clock, loops: &[LoopDefinition]) -> Self {
        Self {
            lease_client: client.clone(),
            client,
            clock,
            metrics: Metrics::new(),
            settings: Arc::default(),
            loops: loops.to_vec(),
            leadership: Leadership::Always,
            standby_warm: true,
            pace: Pace::default(),
            rate: None,
            preferred_format: Format::Protobuf,
            host: String::new(),
            start_interval: Duration::ZERO,
            component: loops.first().map_or("controller", |l| l.name),
            started: Arc::new(|_, _| {}),
            accounts: None,
            second_writer_period: Duration::ZERO,
        }
    }
}

/// How a shutdown went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// All work was finished, and the Lease was released if it was held.
    Clean,
    /// The loops did not finish in time; the Lease was left to run out.
    TimedOut,
    /// The Lease was lost meanwhile, or could not be released.
    Lost,
}

type Loops = Arc<Mutex<Vec<(&'static str, Arc<dyn Running>)>>>;

/// Loops that run, or wait to. Dropping it ends everything at once: the gate shuts, nothing is released.
pub struct Assembly {
    keeper: Arc<Keeper>,
    gate: Gate,
    metrics: Metrics,
    loops: Loops,
    sender: Option<Sender>,
    election: Option<Campaign>,
    /// Starts the loops, and looks for a second writer.
    tasks: JoinSet<()>,
}

/// An election in progress.
struct Campaign {
    stop: leader::Stop,
    status: leader::Status,
    question: leader::Question,
    task: JoinHandle<End>,
    /// The gate of the election's own requests is open for as long as this lives.
    _always: Keeper,
}

impl fmt::Debug for Assembly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Assembly").field("gate", &self.gate).finish_non_exhaustive()
    }
}

/// Starts loops and their election as tasks.
///
/// Must be called inside a tokio runtime.
pub fn assemble(parts: Parts) -> Assembly {
    let shadow = parts.settings.shadow();
    // In shadow mode nobody opens the gate: even a loop that forgot about it could not write.
    let leadership = if shadow { Leadership::Nobody } else { parts.leadership };
    let (keeper, gate, writes) = leadership.permission(&parts.clock);
    let requests = Arc::new(Requests::new(&parts.metrics, &parts.host));
    let api = |client: &kube::Client, name: &str, gate: &Gate| {
        Api::new(client.clone(), parts.clock.clone(), gate.clone(), &client::user_agent(name))
            .with_observer(Arc::<Requests>::clone(&requests))
            .with_pace(parts.pace.clone())
            .with_preferred_format(parts.preferred_format)
    };
    let sender = (!shadow).then(|| Sender::start(api(&parts.client, parts.component, &gate), &parts.metrics));
    let recorder = |component, client| match &sender {
        Some(sender) => sender.recorder(Source { component, client }),
        None => Recorder::silent(component, parts.clock.clone()),
    };
    let loops = Loops::default();
    let election = match leadership {
        Leadership::Lease(settings) => {
            let (always, open) = gate::gate(parts.clock.clone());
            always.open();
            let api = api(&parts.lease_client, "leader-election", &open);
            let recorder = recorder(parts.component, parts.component);
            let election = Election::new(settings, api, Arc::clone(&keeper), writes.clone(), recorder, &parts.metrics)
                .asks_when(warmth(&loops, parts.loops.len(), parts.standby_warm));
            let (stop, status, question) = (election.stop(), election.status(), election.question());
            Some(Campaign { stop, status, question, task: tokio::spawn(election.run()), _always: always })
        }
        Leadership::Always => {
            keeper.open();
            None
        }
        Leadership::Nobody | Leadership::Caller { .. } => None,
    };
    let sampler = (!shadow && !parts.second_writer_period.is_zero())
        .then(|| WriteSampler::new(parts.clock.clone(), writes.clone(), parts.loops.iter().map(|l| l.owned_writes)));
    let mut tasks = JoinSet::new();
    if let Some(sampler) = &sampler {
        let watch = SecondWriterWatch {
            api: api(&parts.client, "second-writer-watch", &gate),
            gate: gate.clone(),
            election: election.as_ref().map(|election| election.status.clone()),
            recorder: recorder(parts.component, parts.component),
            sent: sender.as_ref().map(Sender::sent).unwrap_or_default(),
            sampler: Arc::clone(sampler),
            loops: parts.loops.clone(),
            period: parts.second_writer_period,
        };
        tasks.spawn(watch.run(parts.metrics.clone()));
    }
    let shared = Shared::default();
    let starts: Vec<_> = parts
        .loops
        .iter()
        .map(|definition| {
            let rate = parts.rate.and_then(|(qps, burst)| Throttle::new(qps, burst));
            let context = Context {
                api: api(&parts.client, definition.client, &gate).with_throttle(rate).with_writes(writes.clone()),
                clock: parts.clock.clone(),
                gate: gate.clone(),
                settings: Arc::clone(&parts.settings),
                metrics: parts.metrics.clone(),
                recorder: recorder(definition.component, definition.client),
                accounts: parts.accounts.clone(),
                sampler: sampler.clone(),
                shared: shared.clone(),
            };
            (*definition, context)
        })
        .collect();
    let begin = {
        let (loops, started) = (Arc::clone(&loops), Arc::clone(&parts.started));
        move |definition: LoopDefinition, context: Context| {
            tracing::debug!(v = 1, logger = definition.name, "Starting controller");
            let running = (definition.start)(context);
            started(definition.name, &running);
            loops.lock().push((definition.name, running));
        }
    };
    let cold = !parts.standby_warm && !shadow;
    if parts.start_interval.is_zero() && !cold {
        for (definition, context) in starts {
            begin(definition, context);
        }
    } else {
        let (clock, gate, interval) = (parts.clock.clone(), gate.clone(), parts.start_interval);
        tasks.spawn(async move {
            if cold {
                gate.opened().await;
            }
            for (definition, context) in starts {
                clock.sleep(clock.jitter(interval, 1.0)).await;
                begin(definition, context);
            }
        });
    }
    Assembly { keeper, gate, metrics: parts.metrics, loops, sender, election, tasks }
}

/// Whether all loops have started and have their caches filled; always, if standbys do not fill them.
fn warmth(loops: &Loops, count: usize, standby_warm: bool) -> impl Fn() -> bool + Send + Sync + 'static {
    let loops = Arc::clone(loops);
    move || {
        let started = loops.lock().clone();
        !standby_warm || (started.len() == count && started.iter().all(|(_, running)| running.ready().is_ok()))
    }
}

impl Assembly {
    /// The permission to write.
    pub fn gate(&self) -> &Gate {
        &self.gate
    }

    /// What is counted.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// The election, if there is one.
    pub fn election(&self) -> Option<&leader::Status> {
        self.election.as_ref().map(|election| &election.status)
    }

    /// The loops that have started.
    pub fn loops(&self) -> Vec<(&'static str, Arc<dyn Running>)> {
        self.loops.lock().clone()
    }

    /// Waits until the election ends by itself, which means that the Lease was lost. Safe to cancel.
    pub async fn lost(&mut self) {
        let Some(election) = &mut self.election else { return future::pending().await };
        let ended = (&mut election.task).await;
        tracing::debug!(?ended, "The election ended");
    }

    /// Resolves when a standby of a new version asks for the Lease that this process holds. The process then has to
    /// [shut down](Self::shutdown), and to start again as a standby.
    pub fn asked(&self) -> impl Future<Output = ()> + Send + 'static {
        let question = self.election.as_ref().map(|election| election.question.clone());
        async {
            let Some(question) = question else { return future::pending().await };
            question.asked().await;
        }
    }

    /// Finishes what is being done, within `timeout` if there is one, and then gives the Lease up.
    pub async fn shutdown(mut self, timeout: Option<Duration>) -> Stopped {
        self.tasks.abort_all();
        // Who waits for a busy server's better moment holds up the Lease of everybody else.
        self.keeper.drain();
        if let Some(election) = &self.election {
            election.stop.drain();
        }
        let loops = self.loops();
        let finished = future::join_all(loops.iter().map(|(_, running)| running.shutdown()));
        if tokio::time::timeout(timeout.unwrap_or(Duration::MAX), finished).await.is_err() {
            return Stopped::TimedOut;
        }
        drop(loops);
        if let Some(sender) = &self.sender
            && self.gate.is_open()
        {
            // Nothing depends on Events: they get a moment, not a promise.
            let _ = tokio::time::timeout(LAST_EVENTS, sender.flush()).await;
        }
        let Some(election) = &mut self.election else { return Stopped::Clean };
        election.stop.release();
        match (&mut election.task).await {
            Ok(End::Released | End::Withdrawn) => Stopped::Clean,
            Ok(End::Lost | End::NotReleased) | Err(_) => Stopped::Lost,
        }
    }

    /// Ends everything at once, as a crash would: in-flight writes are cut, nothing is released.
    pub fn kill(self) {
        drop(self);
    }
}

impl Drop for Assembly {
    fn drop(&mut self) {
        self.tasks.abort_all();
        if let Some(election) = &self.election {
            election.task.abort();
        }
        self.keeper.close();
        self.loops.lock().clear();
    }
}
