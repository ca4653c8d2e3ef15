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

/// The default number of concurrent tests, which is high because tests mostly wait.
const TESTS_AT_ONCE: usize = 8;
const CONTROLLER_PATIENCE: Duration = Duration::from_secs(60);
const CONTROLLERS_VARIABLE: &str = "NONET_CONTROLLERS";

/// A condition of a test besides the kind of cluster. The error names the missing part.
pub type Condition = fn() -> Result<(), String>;

/// The kinds of clusters on which a test runs, and its condition.
#[derive(Clone, Copy)]
pub struct Requirements {
    kinds: &'static [Kind],
    condition: Option<Condition>,
}

/// Every kind of cluster.
pub const EVERYWHERE: Requirements = Requirements::kinds(&[Kind::Sandbox, Kind::Envtest, Kind::Kubeconfig]);
/// Clusters whose nodes follow scripts, and on which only the controllers of the suite act.
pub const SIMULATED: Requirements = Requirements::kinds(&[Kind::Sandbox, Kind::Envtest]);
/// The sandbox alone.
pub const SANDBOX: Requirements = Requirements::kinds(&[Kind::Sandbox]);
/// A real API server with simulated nodes.
pub const ENVTEST: Requirements = Requirements::kinds(&[Kind::Envtest]);

impl Requirements {
    const fn kinds(kinds: &'static [Kind]) -> Self {
        Self { kinds, condition: None }
    }

    /// Adds a condition. If the condition is not met, the test is ignored and the reason is printed.
    #[must_use]
    pub const fn needs(self, condition: Condition) -> Self {
        Self { condition: Some(condition), ..self }
    }

    /// The reason why the test cannot run on this kind of cluster.
    fn other_kind(&self, kind: Kind) -> Option<String> {
        let kinds = || self.kinds.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(" or ");
        (!self.kinds.contains(&kind)).then(|| format!("it needs NONET_CLUSTER={}", kinds()))
    }

    fn missing(&self) -> Option<String> {
        self.condition.and_then(|condition| condition().err())
    }
}

/// One test.
#[derive(Clone, Copy)]
pub struct Test {
    /// Its name within the suite.
    pub name: &'static str,
    /// Its function.
    pub run: TestFn,
    /// Where it runs.
    pub requirements: Requirements,
}

/// The tests with the names of these functions, by their [`Requirements`]: `scenes! { SIMULATED => scales rolls_back; }`.
#[macro_export]
macro_rules! scenes {
    ($($requirements:expr => $($scene:ident)+;)*) => {
        vec![$($($crate::suite::Test {
            name: stringify!($scene),
            run: |context| Box::pin($scene(context)),
            requirements: $requirements,
        },)+)*]
    };
}

/// A suite.
pub struct Suite {
    pub(super) name: &'static str,
    /// The controllers under test, with their flags. Without any, the tests start their controllers ([`Context::start`]).
    controllers: &'static [(&'static str, &'static [&'static str])],
    /// Sets up the builder of its cluster.
    cluster: fn(cluster::Builder) -> cluster::Builder,
    /// The number of concurrent tests. `--test-threads` takes precedence.
    at_once: usize,
    pub(super) tests: Vec<Test>,
}

impl Suite {
    /// A suite on an ordinary cluster, with eight concurrent tests.
    pub fn new(
        name: &'static str,
        controllers: &'static [(&'static str, &'static [&'static str])],
        tests: Vec<Test>,
    ) -> Self {
        Self { name, controllers, cluster: |cluster| cluster, at_once: TESTS_AT_ONCE, tests }
    }

    /// Sets up the builder of its cluster.
    #[must_use]
    pub fn cluster(self, cluster: fn(cluster::Builder) -> cluster::Builder) -> Self {
        Self { cluster, ..self }
    }

    /// Sets the number of concurrent tests.
    #[must_use]
    pub fn at_once(self, at_once: usize) -> Self {
        Self { at_once, ..self }
    }
}

/// Runs the tests of a suite that the command line asks for. The name of a test is `<suite>::<test>`.
pub(super) fn run(suite: &Suite, mut arguments: Arguments) -> ExitCode {
    arguments.test_threads = arguments.test_threads.or(Some(suite.at_once));
    // `RUST_LOG=debug`, `RUST_LOG=common=trace,warn`
    let wanted = std::env::var("RUST_LOG").ok().and_then(|text| text.parse::<Targets>().ok());
    let lines = tracing_subscriber::fmt::layer().with_writer(io::stderr);
    tracing_subscriber::registry()
        .with(lines.with_filter(wanted.unwrap_or_else(|| Targets::new().with_default(LevelFilter::WARN))))
        .init();
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return give_up(suite, &format!("no runtime: {error}")),
    };
    let shared = match runtime.block_on(start(suite)) {
        Ok(shared) => shared,
        Err(StartError::Skip(why)) => {
            eprintln!("suite {}: {why}", suite.name);
            return libtest_mimic::run(&arguments, trials(suite, &State::Skipped)).exit_code();
        }
        Err(StartError::Failed(why)) => return give_up(suite, &why),
    };
    let shared = Arc::new(shared);
    let state = State::Running(runtime.handle().clone(), Arc::clone(&shared));
    let conclusion = libtest_mimic::run(&arguments, trials(suite, &state));
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
        if suite.controllers.is_empty() {
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

fn trials(suite: &Suite, state: &State) -> Vec<Trial> {
    let trial = |test: &Test| {
        let test = *test;
        let name = format!("{}::{}", suite.name, test.name);
        let State::Running(handle, shared) = state else {
            return Trial::test(name, || Err(Failed::from("there is no cluster to run on"))).with_ignored_flag(true);
        };
        let record = name.clone();
        let kind = shared.cluster.kind();
        let other_kind = test.requirements.other_kind(kind);
        // Elsewhere, what runs on the sandbox alone has usually run before.
        if other_kind.is_some() && kind == Kind::Sandbox {
            skips::note(&record, other_kind.as_deref());
        }
        let (handle, shared) = (handle.clone(), Arc::clone(shared));
        let run = move || {
            let missing = test.requirements.missing();
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
        assert_eq!(EVERYWHERE.missing(), None);
        assert_eq!(EVERYWHERE.needs(|| Ok(())).missing(), None);
        let lacking = EVERYWHERE.needs(|| Err("there is no compass".to_owned()));
        assert_eq!(lacking.missing().as_deref(), Some("there is no compass"));
        assert_eq!(SANDBOX.other_kind(Kind::Envtest).as_deref(), Some("it needs NONET_CLUSTER=sandbox"));
    }
}
