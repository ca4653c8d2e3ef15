//! The life cycle of the process: start, leadership, shutdown.

use std::{collections::BTreeMap, path::PathBuf, process::ExitCode, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{
    runtime::{Builder, Runtime},
    signal::unix::{Signal, SignalKind, signal},
};

use super::{Assembly, Definition, Leadership, Options, Parts, Stopped, assemble};
use crate::{
    api::{Api, Error},
    client::{self, Connections},
    clock::Clock,
    gate, leader, logging,
    metrics::{Gauge, Limits, Metrics, Stability},
    names,
    pace::Pace,
    panics,
    server::{self, Access},
    settings::{SECOND_WRITER_PERIOD, Settings, WATCH_BATCH_PERIOD},
    version,
};

/// First and longest pause between two attempts to reach the API server; each pause is twice the pause before.
const LOOK_FIRST: Duration = Duration::from_millis(500);
const LOOK_LAST: Duration = Duration::from_secs(30);
/// Timeout of one attempt to reach the API server.
const LOOK_TIMEOUT: Duration = Duration::from_secs(10);
/// How often a shutdown without timeout logs that it still waits for loops.
const STILL_WAITING: Duration = Duration::from_secs(5);

/// Returns the rule for the sleep of an idle thread, during which watch events collect. With several threads, no thread sleeps.
pub(super) fn pace(options: &Options) -> Pace {
    let is_alone = options.threads <= 1;
    if is_alone { Pace::new(options.settings.duration(&WATCH_BATCH_PERIOD)) } else { Pace::default() }
}

/// Builds a tokio runtime with `threads` worker threads. A single thread sleeps before it parks, for as long as `pace` says.
pub(super) fn runtime(threads: usize, pace: &Pace, clock: &Clock) -> std::io::Result<Runtime> {
    // A runtime with a single thread ignores `worker_threads`.
    let mut builder = if threads > 1 { Builder::new_multi_thread() } else { Builder::new_current_thread() };
    builder.worker_threads(threads);
    if pace.is_on() {
        let (pace, clock) = (pace.clone(), clock.clone());
        builder.on_thread_park(move || {
            let rest = pace.rest(clock.instant());
            if !rest.is_zero() {
                clock.block(rest);
            }
        });
    }
    // The blocking threads are used for little more than DNS lookups.
    builder.enable_all().max_blocking_threads(4).thread_keep_alive(Duration::from_secs(1)).build()
}

/// Returns the name of the machine, as Go's `os.Hostname` does.
pub(super) fn hostname() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname")
        .ok()
        .or_else(|| std::env::var("HOSTNAME").ok())
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "localhost".to_owned())
}

/// Signals that stop the process: SIGTERM and SIGINT.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Waits for the next SIGTERM or SIGINT. Safe to cancel.
    async fn asked(&mut self) {
        tokio::select! {
            biased;
            _ = self.terminate.recv() => tracing::info!(signal = "SIGTERM", "Received signal, shutting down"),
            _ = self.interrupt.recv() => tracing::info!(signal = "SIGINT", "Received signal, shutting down"),
        }
    }
}

/// Result of a check of `/readyz` that depends on the state of the process, such as its start, and not on a control loop.
type Phase = Arc<Mutex<Result<(), String>>>;

/// Runs until a signal arrives, the Lease is lost, or a new version asks for the Lease. Fails if the process cannot start.
pub(super) async fn run(
    definition: &Definition,
    options: Options,
    clock: Clock,
    pace: Pace,
    log: logging::Handle,
) -> Result<ExitCode, Box<dyn std::error::Error>> {
    let mut signals = Signals::new().map_err(|error| format!("cannot register handlers for signals: {error}"))?;
    let connections = Connections::load(&options.client).await?;
    // The leader election has separate connections, so that a burst of writes cannot delay a renewal of the Lease.
    let lease_timeout = options.election.as_ref().map(leader::Settings::request_timeout).unwrap_or_default();
    let client = connections.client()?;
    let lease_client = connections.urgent_client(lease_timeout)?;
    let Definition { name, version, .. } = definition;
    let v = version::VERSION;
    tracing::info!(version, kubernetes = v.git_version, commit = v.commit, "Starting {name}");
    for (name, value) in &options.given {
        tracing::debug!(v = 1, "FLAG: --{name}={value:?}");
    }
    for warning in &options.warnings {
        tracing::warn!("{warning}");
    }
    let metrics = metrics(definition, &options, &clock)?;
    count_certificate(&metrics, &connections);
    // The task that follows changes of the credentials runs until the process ends.
    tokio::spawn(Arc::clone(&connections).follow(clock.clone()));
    let (always, open) = gate::gate(clock.clone());
    always.open();
    let free =
        Api::new(client.clone(), clock.clone(), open, &client::user_agent(definition.name)).with_pace(pace.clone());

    let state = server::State::new(metrics.clone(), log);
    let reached = Phase::new(Mutex::new(Err("the API server has not been reached yet".to_owned())));
    let running = Phase::new(Mutex::new(Err("starting".to_owned())));
    for (name, phase) in [("apiserver", &reached), ("running", &running)] {
        let phase = Arc::clone(phase);
        state.ready().add(name, move || phase.lock().clone());
    }
    count_readiness(&metrics, &state);
    let access = if options.insecure_debug { None } else { Some(access(definition, &options, &free).await?) };
    let _server = server::start(&options.server, &state, access, &clock)?;

    tokio::select! {
        biased;
        () = signals.asked() => return Ok(ExitCode::SUCCESS),
        () = reach(&free, &reached) => {}
    }

    let started = state.clone();
    let mut assembly = assemble(Parts {
        lease_client,
        metrics,
        settings: Arc::new(options.settings.clone()),
        leadership: options.election.clone().map_or(Leadership::Always, Leadership::Lease),
        standby_warm: options.standby_warm,
        rate: options.rate,
        preferred_format: options.preferred_format,
        pace,
        host: connections.host(),
        start_interval: options.start_interval,
        component: definition.name,
        started: Arc::new(move |name, running| started.add_loop(name, running)),
        second_writer_period: options.settings.duration(&SECOND_WRITER_PERIOD),
        ..Parts::new(client, clock.clone(), &options.loops)
    });
    if let Some(status) = assembly.election().cloned() {
        let live = status.clone();
        state.live().add("leaderElection", move || live.healthy());
        let reported = status.clone();
        state.ready().add("probation", move || status.ready());
        state.ready().note("probation", move || Some(reported.summary()));
    }
    *running.lock() = Ok(());

    let asked_to_hand_over = assembly.asked();
    tokio::select! {
        biased;
        () = signals.asked() => {}
        () = assembly.lost() => return Ok(ExitCode::FAILURE),
        () = asked_to_hand_over => tracing::info!("Shutting down to hand over the Lease; to be started again as a standby"),
    }
    *running.lock() = Err("shutting down".to_owned());
    let timeout = Some(options.shutdown_timeout).filter(|timeout| !timeout.is_zero());
    let ended = tokio::select! {
        biased;
        () = signals.asked() => {
            tracing::error!("Received a second signal, exiting at once");
            ExitCode::FAILURE
        }
        stopped = stop(assembly, timeout, &clock) => match stopped {
            Stopped::Clean => {
                tracing::info!("All controllers terminated");
                ExitCode::SUCCESS
            }
            Stopped::TimedOut => {
                tracing::error!("Controller shutdown timeout reached");
                ExitCode::FAILURE
            }
            Stopped::Lost => ExitCode::FAILURE,
        },
    };
    state.clear_loops();
    Ok(ended)
}

/// Sets up the reviews of HTTP requests, by the API server of the controllers or by the clusters of separate kubeconfigs.
async fn access(definition: &Definition, options: &Options, api: &Api) -> Result<Access, client::Error> {
    let asked = async |kubeconfig: &Option<PathBuf>| match kubeconfig {
        None => Ok(api.clone()),
        Some(path) => {
            let options = client::Options { kubeconfig: Some(path.clone()), master: None };
            let connections = Connections::load(&options).await?;
            let client = connections.client()?;
            tokio::spawn(connections.follow(api.clock().clone()));
            let api_of_reviews =
                Api::new(client, api.clock().clone(), api.gate().clone(), &client::user_agent(definition.name));
            Ok(api_of_reviews.with_pace(api.pace().clone()))
        }
    };
    let authentication = asked(&options.authentication).await?;
    let authorization = asked(&options.authorization).await?;
    Ok(Access::new(authentication, authorization, options.reviews.clone()))
}

/// Shuts the loops down, and logs regularly that the shutdown still waits for some of them.
async fn stop(assembly: Assembly, timeout: Option<Duration>, clock: &Clock) -> Stopped {
    let patience = timeout.map_or(STILL_WAITING, |timeout| timeout / 3);
    let mut stopping = std::pin::pin!(assembly.shutdown(timeout));
    loop {
        tokio::select! {
            biased;
            stopped = &mut stopping => return stopped,
            () = clock.sleep(patience) => tracing::info!("Still waiting for some controllers to terminate..."),
        }
    }
}

/// Tries to reach the API server until it answers. An answer with any status below 500 counts.
async fn reach(api: &Api, reached: &Phase) {
    let mut pause = LOOK_FIRST;
    loop {
        let why = match tokio::time::timeout(LOOK_TIMEOUT, api.read("/version", "application/json")).await {
            Ok(Ok(_)) => break,
            Ok(Err(Error::Status(status))) if status.code < 500 => {
                tracing::warn!(err = %status, "The API server refuses to return its version");
                break;
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer within {}s", LOOK_TIMEOUT.as_secs()),
        };
        tracing::error!(err = why, again_in = crate::duration::format(pause), "Cannot reach the API server");
        *reached.lock() = Err(why);
        api.clock().sleep(api.clock().jitter(pause, 0.1)).await;
        pause = (pause * 2).min(LOOK_LAST);
    }
    *reached.lock() = Ok(());
}

fn metrics(definition: &Definition, options: &Options, clock: &Clock) -> Result<Metrics, String> {
    let metrics = Metrics::limited(limits(options)?);
    register_program(definition, &options.settings, clock, &metrics);
    Ok(metrics)
}

/// Registers the metrics of the process itself, and of its version and feature gates.
fn register_program(definition: &Definition, settings: &Settings, clock: &Clock, metrics: &Metrics) {
    metrics.process(clock.now());
    metrics.build("kube");
    metrics.program(definition.name, definition.version);
    for gate in definition.all_gates() {
        metrics.feature(gate.name, names::stage(gate.name, gate.locked), settings.gate(&gate));
    }
}

/// Registers every metric that a process can serve, except the metrics of its loops, for the reference of metrics.
pub fn register_metrics(definition: &Definition, clock: &Clock, metrics: &Metrics) {
    register_program(definition, &Settings::new(), clock, metrics);
    certificate_expiry(metrics);
    readiness(metrics);
    server::register_metrics(metrics);
}

/// Registers the gauge of the client certificate's expiry, updated before each scrape. Does nothing without a certificate.
fn count_certificate(metrics: &Metrics, connections: &Arc<Connections>) {
    if connections.certificate_expiry().is_none() {
        return;
    }
    let expiry = certificate_expiry(metrics);
    let connections = Arc::clone(connections);
    metrics.before_scrape(move || {
        if let Some(at) = connections.certificate_expiry() {
            expiry.set(at.as_second() as f64);
        }
    });
}

/// Registers and returns the gauge of the time at which the client certificate expires.
fn certificate_expiry(metrics: &Metrics) -> Gauge {
    let help = "When the client certificate in the kubeconfig expires, in seconds since unix epoch.";
    metrics.gauge("nonet_client_certificate_expiration_timestamp_seconds", Stability::Alpha, help, &[]).with(&[])
}

/// Registers the gauge of the readiness of the process, updated before each scrape.
fn count_readiness(metrics: &Metrics, state: &server::State) {
    let ready = readiness(metrics);
    let state = state.clone();
    metrics.before_scrape(move || {
        ready.set(f64::from(state.ready().failures().is_empty()));
    });
}

/// Registers and returns the gauge that is 1 if every check of `/readyz` passes, else 0.
fn readiness(metrics: &Metrics) -> Gauge {
    let help = "1 if the process is ready, 0 if it is not; /readyz names the checks that fail.";
    metrics.gauge("nonet_ready", Stability::Alpha, help, &[]).with(&[])
}

/// Returns the limits on metrics from the command line, or from the file of `--allow-metric-labels-manifest`.
fn limits(options: &Options) -> Result<Limits, String> {
    let limits = options.metrics.clone();
    let Some(path) = options.metrics_manifest.as_ref().filter(|_| limits.allows_everything()) else {
        return Ok(limits);
    };
    let failed =
        |why: String| format!("--allow-metric-labels-manifest: {}: {}", path.display(), why.replace('\n', " "));
    let text = std::fs::read_to_string(path).map_err(|e| failed(e.to_string()))?;
    let lists: BTreeMap<String, String> = serde_saphyr::from_str(&text).map_err(|e| failed(e.to_string()))?;
    limits.with_pairs(lists.iter().map(|(key, values)| (&**key, &**values))).map_err(failed)
}

// The table of exit codes in `app.rs` states that a panic ends the process with code 2.
const _: () = assert!(panics::EXIT_CODE == 2);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::{Parsed, parse, tests::DEFINITION};

    fn limits_by(manifest: &std::path::Path) -> Result<Limits, String> {
        let arguments = ["x".to_owned(), format!("--allow-metric-labels-manifest={}", manifest.display())];
        match parse(&DEFINITION, arguments, || "me".to_owned()) {
            Ok(Parsed::Run(options)) => limits(&options),
            _ => panic!("the command line is right"),
        }
    }

    #[test]
    fn a_single_thread_asks_the_pace_before_it_parks() {
        let pace = Pace::new(Duration::from_millis(1));
        let runtime = runtime(1, &pace, &Clock::system()).unwrap();
        pace.received();
        let rest = || pace.rest(Clock::system().instant());
        assert!(!rest().is_zero());
        pace.received();
        runtime.block_on(async { tokio::time::sleep(Duration::from_millis(1)).await });
        assert!(rest().is_zero(), "the runtime did not ask the pace");
    }

    #[test]
    fn a_manifest_lists_the_values_that_labels_may_have() {
        let path = std::env::temp_dir().join(format!("nonet-labels-{}.yaml", std::process::id()));
        std::fs::write(&path, "\"workqueue_depth,name\": \"job,deployment\"\n").unwrap();
        assert_eq!(limits_by(&path), Limits::default().with_pairs([("workqueue_depth,name", "job,deployment")]));
        for (text, expected) in [("- a\n", ".yaml: "), ("a: b\n", ".yaml: \"a\" is not of the form metric,label")] {
            std::fs::write(&path, text).unwrap();
            let error = limits_by(&path).unwrap_err();
            assert!(error.contains(expected) && !error.contains('\n'), "{error}");
        }
        std::fs::remove_file(&path).unwrap();
        assert!(limits_by(&path).unwrap_err().contains("No such file"));
    }
}
