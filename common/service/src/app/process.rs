//! The life cycle of the process: start, leadership, shutdown.

use std::{collections::BTreeMap, path::PathBuf, process::ExitCode, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::runtime::{Builder, Runtime};
#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{
    LeadershipMode, ProgramDefinition, ProgramOptions, RunningLoops, ShutdownResult, StartParameters, start_loops,
};
use crate::{
    api::{Api, Error},
    client::{self, ReloadingClients},
    clock::Clock,
    gate, leader, logging,
    metrics::{Gauge, MetricLimits, Metrics, Stability},
    names,
    pace::Pace,
    panics,
    server::{self, RequestAuthorizer},
    settings::{OperatorSettings, SECOND_WRITER_SEARCH_PERIOD, WATCH_BATCH_PERIOD},
    version,
};

/// First and longest pause between two attempts to reach the API server; each pause is twice the previous pause.
const FIRST_CONNECT_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_CONNECT_PAUSE: Duration = Duration::from_secs(30);
/// Timeout of one attempt to reach the API server.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How often a shutdown without timeout logs that it still waits for loops.
const SHUTDOWN_LOG_PERIOD: Duration = Duration::from_secs(5);

/// Returns the sleep of an idle thread, which then handles several watch events together; zero with several threads.
pub(super) fn pace_from_options(options: &ProgramOptions) -> Pace {
    let is_alone = options.worker_threads <= 1;
    if is_alone { Pace::new(options.settings.tuned_duration(&WATCH_BATCH_PERIOD)) } else { Pace::default() }
}

/// Builds a tokio runtime with `threads` worker threads. A single thread sleeps before it parks; `pace` sets how long.
pub(super) fn build_runtime(threads: usize, pace: &Pace, clock: &Clock) -> std::io::Result<Runtime> {
    // A runtime with a single thread ignores `worker_threads`.
    let mut builder = if threads > 1 { Builder::new_multi_thread() } else { Builder::new_current_thread() };
    builder.worker_threads(threads);
    if pace.allows_sleep() {
        let (pace, clock) = (pace.clone(), clock.clone());
        builder.on_thread_park(move || {
            let rest = pace.next_sleep_duration(clock.monotonic_now());
            if !rest.is_zero() {
                clock.block_thread(rest);
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

/// Signals that stop the process: SIGTERM and SIGINT; Ctrl-C on Windows.
struct Signals {
    #[cfg(unix)]
    terminate: Signal,
    #[cfg(unix)]
    interrupt: Signal,
}

impl Signals {
    #[cfg(unix)]
    fn new() -> std::io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    #[cfg(not(unix))]
    #[expect(clippy::unnecessary_wraps, reason = "the signature is that of Unix")]
    fn new() -> std::io::Result<Self> {
        Ok(Self {})
    }

    /// Waits for the next signal. Safe to cancel.
    async fn next_signal(&mut self) {
        #[cfg(unix)]
        tokio::select! {
            biased;
            _ = self.terminate.recv() => tracing::info!(signal = "SIGTERM", "Received signal, shutting down"),
            _ = self.interrupt.recv() => tracing::info!(signal = "SIGINT", "Received signal, shutting down"),
        }
        #[cfg(not(unix))]
        if tokio::signal::ctrl_c().await.is_ok() {
            tracing::info!(signal = "Ctrl-C", "Received signal, shutting down");
        }
    }
}

/// Result of a check of `/readyz` for the process itself, such as whether the API server has been reached.
type PhaseCheck = Arc<Mutex<Result<(), String>>>;

/// Runs until a signal arrives, the Lease is lost, or a new version asks for the Lease. Fails if the process cannot start.
pub(super) async fn run(
    definition: &ProgramDefinition,
    options: ProgramOptions,
    clock: Clock,
    pace: Pace,
    verbosity: logging::VerbosityHandle,
) -> Result<ExitCode, Box<dyn std::error::Error>> {
    let mut signals = Signals::new().map_err(|error| format!("cannot register handlers for signals: {error}"))?;
    let clients = ReloadingClients::load(&options.api_server_options).await?;
    // The leader election has separate connections, so that a burst of writes cannot delay a renewal of the Lease.
    let lease_timeout =
        options.election_settings.as_ref().map(leader::ElectionSettings::request_timeout).unwrap_or_default();
    let client = clients.build_client()?;
    let lease_client = clients.build_leader_election_client(lease_timeout)?;
    let ProgramDefinition { name, version, .. } = definition;
    let v = version::KUBERNETES_VERSION;
    tracing::info!(version, kubernetes = v.git_version, commit = v.commit, "Starting {name}");
    for (name, value) in &options.all_flag_values {
        tracing::debug!(v = 1, "FLAG: --{name}={value:?}");
    }
    for warning in &options.command_line_warnings {
        tracing::warn!("{warning}");
    }
    let metrics = build_metrics(definition, &options, &clock)?;
    register_certificate_expiry(&metrics, &clients);
    // This task reloads the clients when their credentials change. It runs until the process ends.
    tokio::spawn(Arc::clone(&clients).reload_on_change(clock.clone()));
    let (always, open) = gate::closed_write_gate(clock.clone());
    always.open_without_deadline();
    let free =
        Api::new(client.clone(), clock.clone(), open, &client::user_agent(definition.name)).with_pace(pace.clone());

    let state = server::ServerState::new(metrics.clone(), verbosity);
    let reached = PhaseCheck::new(Mutex::new(Err("the API server has not been reached yet".to_owned())));
    let running = PhaseCheck::new(Mutex::new(Err("starting".to_owned())));
    for (name, phase) in [("apiserver", &reached), ("running", &running)] {
        let phase = Arc::clone(phase);
        state.readiness_checks().add_check(name, move || phase.lock().clone());
    }
    register_readiness(&metrics, &state);
    let access = if options.allows_unauthenticated_access {
        None
    } else {
        Some(build_access(definition, &options, &free, &metrics).await?)
    };
    let _server = server::start_server(&options.server_settings, &state, access, &clock)?;

    tokio::select! {
        biased;
        () = signals.next_signal() => return Ok(ExitCode::SUCCESS),
        () = wait_for_api_server(&free, &reached) => {}
    }

    let started = state.clone();
    let mut assembly = start_loops(StartParameters {
        lease_client,
        metrics,
        settings: Arc::new(options.settings.clone()),
        leadership: options.election_settings.clone().map_or(LeadershipMode::Always, LeadershipMode::Elected),
        is_standby_warm: options.is_standby_warm,
        qps_and_burst_per_loop: options.qps_and_burst_per_loop,
        preferred_response_format: options.preferred_response_format,
        pace,
        metrics_host_label: clients.host_and_port(),
        loop_start_interval: options.loop_start_interval,
        election_event_component: definition.name,
        on_loop_started: Arc::new(move |name, running| started.add_loop(name, running)),
        second_writer_search_period: options.settings.tuned_duration(&SECOND_WRITER_SEARCH_PERIOD),
        ..StartParameters::new(client, clock.clone(), &options.loops)
    });
    if let Some(status) = assembly.election_status().cloned() {
        let live = status.clone();
        state.liveness_checks().add_check("leaderElection", move || live.check_healthy());
        let reported = status.clone();
        state.readiness_checks().add_check("probation", move || status.check_ready());
        state.readiness_checks().add_remark("probation", move || Some(reported.role_summary()));
    }
    *running.lock() = Ok(());
    #[cfg(target_os = "linux")]
    tokio::spawn({
        let clock = clock.clone();
        async move { nonet_platform::resting_pages::release_pages_at_rest(&clock).await }
    });

    let asked_to_hand_over = assembly.wait_for_hand_over_request();
    tokio::select! {
        biased;
        () = signals.next_signal() => {}
        () = assembly.wait_for_lease_loss() => return Ok(ExitCode::FAILURE),
        () = asked_to_hand_over => tracing::info!("Shutting down to hand over the Lease; to be started again as a standby"),
    }
    *running.lock() = Err("shutting down".to_owned());
    let timeout = Some(options.shutdown_timeout).filter(|timeout| !timeout.is_zero());
    let ended = tokio::select! {
        biased;
        () = signals.next_signal() => {
            tracing::error!("Received a second signal, exiting at once");
            ExitCode::FAILURE
        }
        stopped = shut_down(assembly, timeout, &clock) => match stopped {
            ShutdownResult::Clean => {
                tracing::info!("All controllers terminated");
                ExitCode::SUCCESS
            }
            ShutdownResult::TimedOut => {
                tracing::error!("Controller shutdown timeout reached");
                ExitCode::FAILURE
            }
            ShutdownResult::LeaseLost => ExitCode::FAILURE,
        },
    };
    state.clear_loops();
    Ok(ended)
}

/// Sets up the reviews of HTTP requests, by the API server of the controllers or by the clusters of separate kubeconfigs.
async fn build_access(
    definition: &ProgramDefinition,
    options: &ProgramOptions,
    api: &Api,
    metrics: &Metrics,
) -> Result<RequestAuthorizer, client::Error> {
    let asked = async |kubeconfig: &Option<PathBuf>| match kubeconfig {
        None => Ok(api.clone()),
        Some(path) => {
            let options = client::ApiServerOptions { kubeconfig: Some(path.clone()), master: None };
            let connections = ReloadingClients::load(&options).await?;
            let client = connections.build_client()?;
            tokio::spawn(connections.reload_on_change(api.clock().clone()));
            let api_of_reviews =
                Api::new(client, api.clock().clone(), api.gate().clone(), &client::user_agent(definition.name));
            Ok(api_of_reviews.with_pace(api.pace().clone()))
        }
    };
    let authentication = asked(&options.authentication_kubeconfig).await?;
    let authorization = asked(&options.authorization_kubeconfig).await?;
    Ok(RequestAuthorizer::new(authentication, authorization, options.review_options.clone(), metrics))
}

/// Shuts the loops down, and logs regularly that the shutdown still waits for some of them.
async fn shut_down(loops: RunningLoops, timeout: Option<Duration>, clock: &Clock) -> ShutdownResult {
    let patience = timeout.map_or(SHUTDOWN_LOG_PERIOD, |timeout| timeout / 3);
    let mut stopping = std::pin::pin!(loops.shutdown(timeout));
    loop {
        tokio::select! {
            biased;
            stopped = &mut stopping => return stopped,
            () = clock.sleep(patience) => tracing::info!("Still waiting for some controllers to terminate..."),
        }
    }
}

/// Tries to reach the API server until an answer arrives. An answer with a status below 500 is enough, even if it is an error.
async fn wait_for_api_server(api: &Api, phase_check: &PhaseCheck) {
    let mut pause = FIRST_CONNECT_PAUSE;
    loop {
        let why = match tokio::time::timeout(CONNECT_TIMEOUT, api.read_path("/version", "application/json")).await {
            Ok(Ok(_)) => break,
            Ok(Err(Error::Status(status))) if status.code < 500 => {
                tracing::warn!(err = %status, "The API server refuses to return its version");
                break;
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer within {}s", CONNECT_TIMEOUT.as_secs()),
        };
        tracing::error!(err = why, again_in = crate::duration::format(pause), "Cannot reach the API server");
        *phase_check.lock() = Err(why);
        api.clock().sleep(api.clock().jitter(pause, 0.1)).await;
        pause = (pause * 2).min(LONGEST_CONNECT_PAUSE);
    }
    *phase_check.lock() = Ok(());
}

fn build_metrics(definition: &ProgramDefinition, options: &ProgramOptions, clock: &Clock) -> Result<Metrics, String> {
    let metrics = Metrics::with_limits(load_metric_limits(options)?);
    register_program_metrics(definition, &options.settings, clock, &metrics);
    Ok(metrics)
}

/// Registers the metrics of the process itself, and of its version and feature gates.
fn register_program_metrics(
    definition: &ProgramDefinition,
    settings: &OperatorSettings,
    clock: &Clock,
    metrics: &Metrics,
) {
    metrics.serve_process_metrics(clock.now());
    metrics.serve_version_info("kube");
    metrics.serve_nonet_build_info(definition.name, definition.version);
    for gate in definition.all_feature_gates() {
        metrics.serve_feature_gate(
            gate.name,
            names::feature_gate_stage(gate.name, gate.is_locked),
            settings.is_feature_gate_on(&gate),
        );
    }
}

/// Registers all metrics of a process, except the metrics of its loops, to generate the reference of metrics.
pub fn register_metrics(definition: &ProgramDefinition, clock: &Clock, metrics: &Metrics) {
    register_program_metrics(definition, &OperatorSettings::new(), clock, metrics);
    certificate_expiry_gauge(metrics);
    readiness_gauge(metrics);
    server::register_metrics(metrics);
}

/// Registers the gauge of the client certificate's expiry, updated before each scrape. Does nothing without a certificate.
fn register_certificate_expiry(metrics: &Metrics, clients: &Arc<ReloadingClients>) {
    if clients.client_certificate_expiry().is_none() {
        return;
    }
    let expiry = certificate_expiry_gauge(metrics);
    let clients = Arc::clone(clients);
    metrics.run_before_each_scrape(move || {
        if let Some(at) = clients.client_certificate_expiry() {
            expiry.set(at.as_second() as f64);
        }
    });
}

fn certificate_expiry_gauge(metrics: &Metrics) -> Gauge {
    let help = "When the client certificate in the kubeconfig expires, in seconds since unix epoch.";
    metrics
        .gauge("nonet_client_certificate_expiration_timestamp_seconds", Stability::Alpha, help, &[])
        .with_label_values(&[])
}

/// Registers the gauge of the readiness of the process, updated before each scrape.
fn register_readiness(metrics: &Metrics, state: &server::ServerState) {
    let ready = readiness_gauge(metrics);
    let state = state.clone();
    metrics.run_before_each_scrape(move || {
        ready.set(f64::from(state.readiness_checks().find_failed_checks().is_empty()));
    });
}

fn readiness_gauge(metrics: &Metrics) -> Gauge {
    let help = "1 if the process is ready, 0 if it is not; /readyz names the checks that fail.";
    metrics.gauge("nonet_ready", Stability::Alpha, help, &[]).with_label_values(&[])
}

/// Returns the limits on metrics from the command line, or from the file of `--allow-metric-labels-manifest`.
fn load_metric_limits(options: &ProgramOptions) -> Result<MetricLimits, String> {
    let limits = options.metric_limits.clone();
    let Some(path) = options.allow_metric_labels_manifest.as_ref().filter(|_| limits.allows_all_label_values()) else {
        return Ok(limits);
    };
    let failed =
        |why: String| format!("--allow-metric-labels-manifest: {}: {}", path.display(), why.replace('\n', " "));
    let text = std::fs::read_to_string(path).map_err(|e| failed(e.to_string()))?;
    let lists: BTreeMap<String, String> = serde_saphyr::from_str(&text).map_err(|e| failed(e.to_string()))?;
    limits.with_allowed_value_flags(lists.iter().map(|(key, values)| (&**key, &**values))).map_err(failed)
}

// The table of exit codes in `app.rs` states that a panic ends the process with code 2.
const _: () = assert!(panics::PANIC_EXIT_CODE == 2);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::{ParsedCommandLine, parse_command_line, tests::DEFINITION};

    fn limits_by(manifest: &std::path::Path) -> Result<MetricLimits, String> {
        let arguments = ["x".to_owned(), format!("--allow-metric-labels-manifest={}", manifest.display())];
        match parse_command_line(&DEFINITION, arguments, || "me".to_owned()) {
            Ok(ParsedCommandLine::Run(options)) => load_metric_limits(&options),
            _ => panic!("the command line is right"),
        }
    }

    #[test]
    fn a_single_thread_asks_the_pace_before_it_parks() {
        let pace = Pace::new(Duration::from_millis(1));
        let runtime = build_runtime(1, &pace, &Clock::system()).unwrap();
        pace.record_watch_data();
        let rest = || pace.next_sleep_duration(Clock::system().monotonic_now());
        assert!(!rest().is_zero());
        pace.record_watch_data();
        runtime.block_on(async { tokio::time::sleep(Duration::from_millis(1)).await });
        assert!(rest().is_zero(), "the runtime did not ask the pace");
    }

    #[test]
    fn a_manifest_lists_the_values_that_labels_may_have() {
        let path = std::env::temp_dir().join(format!("nonet-labels-{}.yaml", std::process::id()));
        std::fs::write(&path, "\"workqueue_depth,name\": \"job,deployment\"\n").unwrap();
        assert_eq!(
            limits_by(&path),
            MetricLimits::default().with_allowed_value_flags([("workqueue_depth,name", "job,deployment")])
        );
        for (text, expected) in [("- a\n", ".yaml: "), ("a: b\n", ".yaml: \"a\" is not of the form metric,label")] {
            std::fs::write(&path, text).unwrap();
            let error = limits_by(&path).unwrap_err();
            assert!(error.contains(expected) && !error.contains('\n'), "{error}");
        }
        std::fs::remove_file(&path).unwrap();
        assert!(limits_by(&path).unwrap_err().contains("No such file"));
    }
}
