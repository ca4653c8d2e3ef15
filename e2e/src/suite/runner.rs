//! Runs a suite in the way of `cargo test`.

use std::{io, panic::AssertUnwindSafe, process::ExitCode, sync::Arc, time::Duration};

use futures::FutureExt as _;
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use tokio::runtime::{Handle, Runtime};
use tracing_subscriber::{
    Layer as _,
    filter::{LevelFilter, Targets},
    layer::SubscriberExt as _,
    util::SubscriberInitExt as _,
};

use super::{Context, Failure, Outcome, PATIENT_ELECTION, Shared, TestFn, request::Client};
use crate::{
    cluster::{self, Cluster, Kind},
    controllers,
    process::{Launch, Process},
    rights::{self, Holder},
    sandbox, skips,
};

/// The default number of concurrent tests, which is high because tests mostly wait. `--test-threads` sets it.
const TESTS_AT_ONCE: usize = 8;
/// The time limit for a controller to become ready or to end.
const CONTROLLER_PATIENCE: Duration = Duration::from_secs(60);
/// The environment variable that keeps suites from starting controllers.
const CONTROLLERS_VARIABLE: &str = "NONET_CONTROLLERS";

/// One test.
#[derive(Clone, Copy)]
pub struct Test {
    name: &'static str,
    run: TestFn,
    kinds: &'static [Kind],
    needs: Option<Condition>,
}

/// A condition of a test besides the kind of cluster. The error names the missing part.
pub type Condition = fn() -> Result<(), String>;

impl Test {
    /// A test for every kind of cluster.
    pub const fn new(name: &'static str, run: TestFn) -> Self {
        Self { name, run, kinds: &[Kind::Sandbox, Kind::Envtest, Kind::Kubeconfig], needs: None }
    }

    /// A test for some kinds of clusters; ignored on others.
    #[must_use]
    pub const fn only(self, kinds: &'static [Kind]) -> Self {
        Self { kinds, ..self }
    }

    /// A test with a condition. If the condition is not met, the test is ignored and the reason is printed.
    #[must_use]
    pub const fn needs(self, condition: Condition) -> Self {
        Self { needs: Some(condition), ..self }
    }

    /// Its name within the suite.
    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    /// The reason why it cannot run on this kind of cluster.
    fn other_kind(&self, kind: Kind) -> Option<String> {
        let kinds = || self.kinds.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(" or ");
        (!self.kinds.contains(&kind)).then(|| format!("it needs NONET_CLUSTER={}", kinds()))
    }

    /// The missing part of its condition.
    fn missing(&self) -> Option<String> {
        self.needs.and_then(|condition| condition().err())
    }
}

/// A suite.
pub struct Suite {
    /// Its name in the output.
    pub name: &'static str,
    /// The controllers under test, with their flags.
    pub controllers: &'static [(&'static str, &'static [&'static str])],
    /// Whether its tests start their controllers themselves ([`Context::start`]).
    pub starts_its_own: bool,
    /// Sets up the builder of its cluster.
    pub cluster: fn(cluster::Builder) -> cluster::Builder,
    /// The number of concurrent tests; 8 for `None`. `--test-threads` takes precedence.
    pub at_once: Option<usize>,
    /// Its tests.
    pub tests: Vec<Test>,
}

/// Runs the tests of a suite that the command line asks for, and ends with the code `cargo test` expects.
pub fn run(suite: &Suite) -> ExitCode {
    run_with(suite, Arguments::from_args(), "")
}

/// The same with parsed arguments; `prefix` precedes the name of each test.
pub(super) fn run_with(suite: &Suite, mut arguments: Arguments, prefix: &str) -> ExitCode {
    arguments.test_threads = arguments.test_threads.or(suite.at_once).or(Some(TESTS_AT_ONCE));
    // `RUST_LOG=debug`, `RUST_LOG=common=trace,warn`
    let wanted = std::env::var("RUST_LOG").ok().and_then(|text| text.parse::<Targets>().ok());
    let lines = tracing_subscriber::fmt::layer().with_writer(io::stderr);
    tracing_subscriber::registry()
        .with(lines.with_filter(wanted.unwrap_or_else(|| Targets::new().with_default(LevelFilter::WARN))))
        .init();
    if arguments.list {
        return libtest_mimic::run(&arguments, trials(suite, prefix, &State::NotStarted)).exit_code();
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return give_up(suite, &format!("no runtime: {error}")),
    };
    let shared = match runtime.block_on(start(suite)) {
        Ok(shared) => shared,
        Err(StartError::Skip(why)) => {
            eprintln!("suite {}: {why}", suite.name);
            return libtest_mimic::run(&arguments, trials(suite, prefix, &State::Skipped)).exit_code();
        }
        Err(StartError::Failed(why)) => return give_up(suite, &why),
    };
    let shared = Arc::new(shared);
    let state = State::Running(runtime.handle().clone(), Arc::clone(&shared));
    let conclusion = libtest_mimic::run(&arguments, trials(suite, prefix, &state));
    drop(state);
    match end(&runtime, shared) {
        Ok(()) => conclusion.exit_code(),
        Err(failure) => give_up(suite, &failure.0),
    }
}

fn give_up(suite: &Suite, why: &str) -> ExitCode {
    eprintln!("suite {}: {why}", suite.name);
    ExitCode::FAILURE
}

enum StartError {
    Skip(String),
    Failed(String),
}

enum State {
    NotStarted,
    Skipped,
    Running(Handle, Arc<Shared>),
}

async fn start(suite: &Suite) -> Result<Shared, StartError> {
    let hardened = |sandbox: sandbox::Builder| sandbox.rbac(true).owner_references_permission_enforcement(true);
    let cluster = (suite.cluster)(Cluster::builder().sandbox(hardened)).start().await;
    let cluster = cluster.map_err(|error| {
        let text = error.to_string();
        if error.is_skip() { StartError::Skip(text) } else { StartError::Failed(text) }
    })?;
    let mut controllers = Vec::new();
    if has_controllers() {
        if suite.starts_its_own {
            let why = format!("skipped: {CONTROLLERS_VARIABLE}=none, and its tests start controllers of their own");
            return Err(StartError::Skip(why));
        }
        eprintln!("suite {}: the controllers of the cluster are tried", suite.name);
    } else {
        for (name, flags) in suite.controllers {
            let flags = [PATIENT_ELECTION, flags].concat();
            let started = controller(&cluster, Holder::default(), name, &flags).await;
            controllers.push(started.map_err(|failure| StartError::Failed(failure.0))?);
        }
    }
    let client = Client::new(cluster.client().clone());
    Ok(Shared { cluster, controllers, client })
}

/// Whether the controllers already run in the cluster.
fn has_controllers() -> bool {
    std::env::var(CONTROLLERS_VARIABLE).is_ok_and(|v| v == "none")
}

/// Starts a controller on a cluster and waits until it is ready.
///
/// It has only the rights of its manifests in `deploy/`. On the cluster of a kubeconfig it has the rights of the user.
pub(super) async fn controller(
    cluster: &Cluster,
    holder: Holder<'_>,
    name: &str,
    flags: &[&str],
) -> Result<Process, Failure> {
    if cluster.kind() != Kind::Kubeconfig {
        rights::give(cluster.client(), cluster.clock(), name, holder).await?;
    }
    let user = holder.user.map_or_else(|| controllers::identity(name), str::to_owned);
    let mut launch = Launch::controller(name, &cluster.kubeconfig_for(&user)?)?.argument("--v=2");
    for flag in flags {
        launch = launch.argument(*flag);
    }
    let mut process = launch.start(cluster.clock())?;
    process.ready(CONTROLLER_PATIENCE).await?;
    Ok(process)
}

fn trials(suite: &Suite, prefix: &str, state: &State) -> Vec<Trial> {
    let trial = |test: &Test| {
        let test = *test;
        let name = format!("{prefix}{}", test.name);
        let State::Running(handle, shared) = state else {
            let ignored = matches!(state, State::Skipped);
            let run = || Err(Failed::from("there is no cluster to run on"));
            return Trial::test(name, run).with_ignored_flag(ignored);
        };
        let record = format!("{}::{}", suite.name, test.name);
        let kind = shared.cluster.kind();
        let other_kind = test.other_kind(kind);
        // Elsewhere, what runs on the sandbox alone has usually run before.
        if other_kind.is_some() && kind == Kind::Sandbox {
            skips::note(&record, other_kind.as_deref());
        }
        let (handle, shared) = (handle.clone(), Arc::clone(shared));
        let run = move || {
            let missing = test.missing();
            skips::note(&record, missing.as_deref());
            match missing {
                Some(why) => Ok(Completion::ignored_with(why)),
                None => {
                    let attempted = handle.block_on(attempt(test, shared));
                    attempted.map(|()| Completion::Completed).map_err(|failure| Failed::from(failure.0))
                }
            }
        };
        Trial::ignorable_test(name, run).with_ignored_flag(other_kind.is_some())
    };
    suite.tests.iter().map(trial).collect()
}

/// Runs one test in its own namespace, and deletes the namespace afterwards.
async fn attempt(test: Test, shared: Arc<Shared>) -> Outcome {
    let context = Context::new(shared, test.name).await?;
    let result = AssertUnwindSafe((test.run)(context.clone())).catch_unwind().await;
    let result = match result {
        Ok(result) => result,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("panicked");
            context.fail(text).await
        }
    };
    let cleaned = context.clean().await;
    result?;
    cleaned.map_err(|error| Failure(format!("the test passed, but its objects could not be deleted: {error}")))
}

/// Stops the controllers by SIGTERM, and then the cluster.
fn end(runtime: &Runtime, shared: Arc<Shared>) -> Outcome {
    let Some(shared) = Arc::into_inner(shared) else { return Err(Failure::new("a test still holds the cluster")) };
    runtime.block_on(async {
        let mut outcome = Ok(());
        for controller in shared.controllers {
            let name = controller.name().to_owned();
            let status = controller.stop(CONTROLLER_PATIENCE).await?;
            if !status.success() {
                outcome = Err(Failure(format!("{name} ended with {status}")));
            }
        }
        shared.cluster.stop().await;
        outcome
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_that_lacks_what_it_needs_says_so() {
        let test = Test::new("any", |_| Box::pin(async { Ok(()) }));
        assert_eq!(test.missing(), None);
        assert_eq!(test.needs(|| Ok(())).missing(), None);
        assert_eq!(
            test.needs(|| Err("there is no compass".to_owned())).missing().as_deref(),
            Some("there is no compass")
        );
    }
}
