//! Starts control loops, their leader election, and the gate that lets the loops write only while this process leads.

use std::{fmt, sync::Arc, time::Duration};

use futures::future;
use parking_lot::Mutex;
use tokio::task::{JoinHandle, JoinSet};

use crate::{
    api::{Api, RequestMetrics, Throttle, WireFormat},
    client,
    clock::Clock,
    events::{EventRecorder, EventSender, ReportingLoop},
    gate::{self, WriteGate, WriteGateKeeper},
    history::ServerHistory,
    io::SyncCallbacks,
    leader::{self, Election, ElectionOutcome},
    metrics::{Counter, Metrics, Stability},
    pace::Pace,
    runtime::{LoopContext, LoopDefinition, LoopParts, RunningLoop, SharedValues},
    second_writer::{SecondWriterWatch, WriteSampler},
    settings::OperatorSettings,
    succession::WriteLog,
    watched,
};

/// How long a shutdown waits, after the loops have finished, for the last Events to be sent.
const EVENT_FLUSH_TIMEOUT: Duration = Duration::from_millis(250);

/// Callback that receives the name and the handle of each control loop that has started.
type OnLoopStarted = Arc<dyn Fn(&'static str, &Arc<dyn RunningLoop>) + Send + Sync>;

/// How the control loops get the permission to write.
#[derive(Clone)]
pub enum LeadershipMode {
    /// The loops may write from the start, because there is no leader election.
    Always,
    /// The loops may never write, as in shadow mode.
    Never,
    /// The loops may write while this process holds the Lease.
    Elected(leader::ElectionSettings),
    /// The caller decides when the loops may write, by opening and closing `gate`.
    SetByCaller {
        /// Handle that opens and closes `gate`.
        keeper: Arc<WriteGateKeeper>,
        /// The gate that every write of the loops passes; a closed gate refuses the write.
        gate: WriteGate,
        /// Record of the object versions that the loops write. The next leader waits until its caches show these versions.
        writes: WriteLog,
    },
}

impl LeadershipMode {
    /// Returns keeper, gate and record of writes: the fields of [`Self::SetByCaller`], or new values for the other variants.
    fn gate_and_writes(&self, clock: &Clock) -> (Arc<WriteGateKeeper>, WriteGate, WriteLog) {
        if let Self::SetByCaller { keeper, gate, writes } = self {
            return (Arc::clone(keeper), gate.clone(), writes.clone());
        }
        let (keeper, gate) = gate::closed_write_gate(clock.clone());
        (Arc::new(keeper), gate, WriteLog::default())
    }
}

/// The parameters of [`start_loops`].
pub struct StartParameters {
    /// Client for the requests of the loops.
    pub client: kube::Client,
    /// Client for the leader election, with connections of its own, so that a burst of writes cannot delay a renewal.
    pub lease_client: kube::Client,
    /// Source of time and randomness.
    pub clock: Clock,
    /// Registry for the metrics of the loops, the requests and the leader election.
    pub metrics: Metrics,
    /// Numbers of workers, feature gates and settings of `--tune` for the loops.
    pub settings: Arc<OperatorSettings>,
    /// Control loops to start, in this order.
    pub loops: Vec<LoopDefinition>,
    /// The rule that decides when the loops may write.
    pub leadership: LeadershipMode,
    /// Whether a standby fills its caches. If false, the loops start only when this process becomes the leader.
    pub is_standby_warm: bool,
    /// Time that an idle thread sleeps, so that it then handles several watch events together; zero by default.
    pub pace: Pace,
    /// Rate limit of each loop: requests per second, and burst. `None` sets no limit.
    pub qps_and_burst_per_loop: Option<(f64, u32)>,
    /// Format of the answers to lists and watches, for every kind that supports this format; protobuf by default.
    pub preferred_response_format: WireFormat,
    /// Value of the label `host` in the metrics of requests.
    pub metrics_host_label: String,
    /// Pause before each loop starts. Jitter of up to 100 % is added.
    pub loop_start_interval: Duration,
    /// Source component of the Events about leader election.
    pub election_event_component: &'static str,
    /// Callback for each control loop that has started: receives the name and the handle of the loop. Does nothing by default.
    pub on_loop_started: OnLoopStarted,
    /// Callbacks for the syncs that send requests. They receive the planned requests and their outcomes. `None` by default.
    pub sync_callbacks: Option<Arc<dyn SyncCallbacks>>,
    /// How often a leader searches the API server for signs of another process with the same loops; zero for never.
    pub second_writer_search_period: Duration,
}

impl StartParameters {
    /// Returns parameters without leader election, with `client` for all requests, and with defaults for all other fields.
    pub fn new(client: kube::Client, clock: Clock, loops: &[LoopDefinition]) -> Self {
        Self {
            lease_client: client.clone(),
            client,
            clock,
            metrics: Metrics::new(),
            settings: Arc::default(),
            loops: loops.to_vec(),
            leadership: LeadershipMode::Always,
            is_standby_warm: true,
            pace: Pace::default(),
            qps_and_burst_per_loop: None,
            preferred_response_format: WireFormat::Protobuf,
            metrics_host_label: String::new(),
            loop_start_interval: Duration::ZERO,
            election_event_component: loops.first().map_or("controller", |l| l.name),
            on_loop_started: Arc::new(|_, _| {}),
            sync_callbacks: None,
            second_writer_search_period: Duration::ZERO,
        }
    }
}

/// Result of [`RunningLoops::shutdown`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShutdownResult {
    /// All syncs finished, and the Lease was released if this process held it.
    Clean,
    /// The loops did not finish in time. The Lease was not released and expires.
    TimedOut,
    /// The Lease was lost during the shutdown, or could not be released.
    LeaseLost,
}

type StartedLoops = Arc<Mutex<Vec<(&'static str, Arc<dyn RunningLoop>)>>>;

/// Handle of running control loops. Dropping the handle aborts the loops and closes the gate, but keeps the Lease.
pub struct RunningLoops {
    keeper: Arc<WriteGateKeeper>,
    gate: WriteGate,
    metrics: Metrics,
    loops: StartedLoops,
    sender: Option<EventSender>,
    election: Option<RunningElection>,
    /// Tasks that start the loops and watch for other processes with the same loops.
    tasks: JoinSet<()>,
}

struct RunningElection {
    stop: leader::ElectionStopHandle,
    status: leader::ElectionStatus,
    question: leader::StandbyRequestReceiver,
    task: JoinHandle<ElectionOutcome>,
    /// Keeps the separate gate for the requests of the leader election open.
    _always: WriteGateKeeper,
}

impl fmt::Debug for RunningLoops {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Assembly").field("gate", &self.gate).finish_non_exhaustive()
    }
}

/// Starts the control loops, their leader election and the watch for second writers as tasks.
///
/// The function must be called inside a tokio runtime.
pub fn start_loops(parameters: StartParameters) -> RunningLoops {
    let shadow = parameters.settings.is_shadow();
    // In shadow mode the gate stays closed, so that even a loop that ignores the mode cannot write.
    let leadership = if shadow { LeadershipMode::Never } else { parameters.leadership };
    let (keeper, gate, writes) = leadership.gate_and_writes(&parameters.clock);
    let requests = Arc::new(RequestMetrics::new(&parameters.metrics, &parameters.metrics_host_label));
    let history = ServerHistory::default();
    let api = |client: &kube::Client, name: &str, gate: &WriteGate| {
        Api::new(client.clone(), parameters.clock.clone(), gate.clone(), &client::user_agent(name))
            .with_request_callbacks(Arc::<RequestMetrics>::clone(&requests))
            .with_pace(parameters.pace.clone())
            .with_preferred_format(parameters.preferred_response_format)
            .with_history(history.clone())
    };
    let sender = (!shadow).then(|| {
        EventSender::start(api(&parameters.client, parameters.election_event_component, &gate), &parameters.metrics)
    });
    let recorder = |component, client| match &sender {
        Some(sender) => sender.recorder_for_loop(ReportingLoop { component, client_name: client }),
        None => EventRecorder::discarding_events(component, parameters.clock.clone()),
    };
    let loops = StartedLoops::default();
    let election = match leadership {
        LeadershipMode::Elected(settings) => {
            let (always, open) = gate::closed_write_gate(parameters.clock.clone());
            always.open_without_deadline();
            let api = api(&parameters.lease_client, "leader-election", &open);
            let recorder = recorder(parameters.election_event_component, parameters.election_event_component);
            let election =
                Election::new(settings, api, Arc::clone(&keeper), writes.clone(), recorder, &parameters.metrics)
                    .ask_for_lease_only_if_caches_filled(caches_filled_check(
                        &loops,
                        parameters.loops.len(),
                        parameters.is_standby_warm,
                    ));
            let (stop, status, question) =
                (election.stop_handle(), election.status(), election.standby_request_receiver());
            Some(RunningElection { stop, status, question, task: tokio::spawn(election.run()), _always: always })
        }
        LeadershipMode::Always => {
            keeper.open_without_deadline();
            None
        }
        LeadershipMode::Never | LeadershipMode::SetByCaller { .. } => None,
    };
    let sampler = (!shadow && !parameters.second_writer_search_period.is_zero()).then(|| {
        WriteSampler::new(parameters.clock.clone(), writes.clone(), parameters.loops.iter().map(|l| l.owned_writes))
    });
    let mut tasks = JoinSet::new();
    if let Some(sampler) = &sampler {
        let watch = SecondWriterWatch {
            api: api(&parameters.client, "second-writer-watch", &gate),
            gate: gate.clone(),
            election_status: election.as_ref().map(|election| election.status.clone()),
            event_recorder: recorder(parameters.election_event_component, parameters.election_event_component),
            sent_events: sender.as_ref().map(EventSender::sent_event_names).unwrap_or_default(),
            write_sampler: Arc::clone(sampler),
            loops: parameters.loops.clone(),
            search_period: parameters.second_writer_search_period,
        };
        tasks.spawn(watch.run(parameters.metrics.clone()));
    }
    let shared = SharedValues::default();
    let starts: Vec<_> = parameters
        .loops
        .iter()
        .map(|definition| {
            let rate = parameters.qps_and_burst_per_loop.and_then(|(qps, burst)| Throttle::new(qps, burst));
            let context = LoopContext {
                api: api(&parameters.client, definition.user_agent_suffix, &gate)
                    .with_throttle(rate)
                    .with_write_log(writes.clone()),
                clock: parameters.clock.clone(),
                write_gate: gate.clone(),
                settings: Arc::clone(&parameters.settings),
                metrics: parameters.metrics.clone(),
                recorder: recorder(definition.event_component, definition.user_agent_suffix),
                sync_callbacks: parameters.sync_callbacks.clone(),
                write_sampler: sampler.clone(),
                shared_values: shared.clone(),
                parts: LoopParts::default(),
            };
            (*definition, context)
        })
        .collect();
    let starter = LoopStarter {
        starts,
        loops: Arc::clone(&loops),
        on_loop_started: Arc::clone(&parameters.on_loop_started),
        keeper: Arc::clone(&keeper),
        restarts_total: restarts_counter(&parameters.metrics),
    };
    let reports = history.subscribe();
    let cold = !parameters.is_standby_warm && !shadow;
    let is_immediate = parameters.loop_start_interval.is_zero() && !cold;
    if is_immediate {
        starter.start_all();
    }
    let (clock, gate_of_start, interval) = (parameters.clock.clone(), gate.clone(), parameters.loop_start_interval);
    tasks.spawn(async move {
        if cold {
            gate_of_start.wait_until_leading().await;
        }
        if !is_immediate {
            for (definition, context) in &starter.starts {
                clock.sleep(clock.jitter(interval, 1.0)).await;
                starter.start(definition, context.clone());
            }
        }
        starter.restart_after_lost_changes(reports).await;
    });
    RunningLoops { keeper, gate, metrics: parameters.metrics, loops, sender, election, tasks }
}

/// Starts the loops of a process, and starts them again when the API server has lost changes.
struct LoopStarter {
    starts: Vec<(LoopDefinition, LoopContext)>,
    loops: StartedLoops,
    on_loop_started: OnLoopStarted,
    keeper: Arc<WriteGateKeeper>,
    restarts_total: Counter,
}

impl LoopStarter {
    fn start(&self, definition: &LoopDefinition, context: LoopContext) {
        tracing::debug!(v = 1, logger = definition.name, "Starting controller");
        let running = (definition.start_loop)(LoopContext { parts: LoopParts::default(), ..context });
        (self.on_loop_started)(definition.name, &running);
        self.loops.lock().push((definition.name, running));
    }

    fn start_all(&self) {
        for (definition, context) in &self.starts {
            self.start(definition, context.clone());
        }
    }

    /// Starts all loops again, without caches, ledgers and other memory, whenever the API server has lost changes. The election
    /// goes on, and the new loops write nothing before their caches are filled.
    async fn restart_after_lost_changes(&self, mut reports: watched::Receiver<u64>) {
        while reports.changed().await.is_ok() {
            self.restarts_total.inc();
            let old = std::mem::take(&mut *self.loops.lock());
            future::join_all(old.iter().map(|(_, running)| running.shutdown())).await;
            drop(old);
            // The old loops may have reported the same loss several times.
            drop(reports.borrow_and_update());
            // The versions that the predecessor wrote may be lost, too.
            self.keeper.set_versions_written_by_predecessor(None);
            let shared_values = SharedValues::default();
            for (definition, context) in &self.starts {
                self.start(definition, LoopContext { shared_values: shared_values.clone(), ..context.clone() });
            }
        }
    }
}

fn restarts_counter(metrics: &Metrics) -> Counter {
    let help = "How often the loops were started again with empty caches, because the API server had lost changes.";
    metrics.counter("nonet_lost_changes_restarts_total", Stability::Alpha, help, &[]).with_label_values(&[])
}

/// Returns a check that fails until all loops have filled their caches. The check always passes if `standby_warm` is false.
fn caches_filled_check(
    loops: &StartedLoops,
    count: usize,
    standby_warm: bool,
) -> impl Fn() -> bool + Send + Sync + 'static {
    let loops = Arc::clone(loops);
    move || {
        let started = loops.lock().clone();
        !standby_warm || (started.len() == count && started.iter().all(|(_, running)| running.check_ready().is_ok()))
    }
}

impl RunningLoops {
    /// Returns the gate that every write of the loops passes.
    pub fn gate(&self) -> &WriteGate {
        &self.gate
    }

    /// Returns the registry for the metrics of the loops, the requests and the leader election.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Returns the status of the leader election; `None` without leader election.
    pub fn election_status(&self) -> Option<&leader::ElectionStatus> {
        self.election.as_ref().map(|election| &election.status)
    }

    /// Returns the names and handles of the control loops that have started.
    pub fn started_loops(&self) -> Vec<(&'static str, Arc<dyn RunningLoop>)> {
        self.loops.lock().clone()
    }

    /// Waits until this process loses the Lease; forever without leader election. Safe to cancel.
    pub async fn wait_for_lease_loss(&mut self) {
        let Some(election) = &mut self.election else { return future::pending().await };
        let ended = (&mut election.task).await;
        tracing::debug!(?ended, "The election ended");
    }

    /// Returns a future that ends when a standby of a new version asks for the Lease. The process must then call
    /// [`Self::shutdown`], and start again as a standby.
    pub fn wait_for_hand_over_request(&self) -> impl Future<Output = ()> + Send + 'static {
        let question = self.election.as_ref().map(|election| election.question.clone());
        async {
            let Some(question) = question else { return future::pending().await };
            question.wait_for_request().await;
        }
    }

    /// Waits until the syncs in progress have finished, at most for `timeout`, and then releases the Lease.
    pub async fn shutdown(mut self, timeout: Option<Duration>) -> ShutdownResult {
        self.tasks.abort_all();
        // Ends all waits for retries against a busy server, because they would delay the release of the Lease.
        self.keeper.end_waits();
        if let Some(election) = &self.election {
            election.stop.prevent_new_leadership();
        }
        let loops = self.started_loops();
        let finished = future::join_all(loops.iter().map(|(_, running)| running.shutdown()));
        if tokio::time::timeout(timeout.unwrap_or(Duration::MAX), finished).await.is_err() {
            return ShutdownResult::TimedOut;
        }
        drop(loops);
        if let Some(sender) = &self.sender
            && self.gate.is_leading()
        {
            // Events are best effort: an Event that cannot be sent within `EVENT_FLUSH_TIMEOUT` is dropped.
            let _ = tokio::time::timeout(EVENT_FLUSH_TIMEOUT, sender.flush()).await;
        }
        let Some(election) = &mut self.election else { return ShutdownResult::Clean };
        election.stop.release_lease();
        match (&mut election.task).await {
            Ok(ElectionOutcome::Released | ElectionOutcome::StoppedBeforeLeading) => ShutdownResult::Clean,
            Ok(ElectionOutcome::LeaseLost | ElectionOutcome::ReleaseFailed) | Err(_) => ShutdownResult::LeaseLost,
        }
    }

    /// Aborts the loops and the election, as a crash does: requests in flight are dropped, and the Lease is not released.
    pub fn kill(self) {
        drop(self);
    }
}

impl Drop for RunningLoops {
    fn drop(&mut self) {
        self.tasks.abort_all();
        if let Some(election) = &self.election {
            election.task.abort();
        }
        self.keeper.close();
        self.loops.lock().clear();
    }
}
