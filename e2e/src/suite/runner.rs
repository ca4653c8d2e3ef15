//! Runs a suite in the way of `cargo test`.

use std::{io, process::ExitCode, sync::Arc, time::Duration};

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use tokio::runtime::{Handle, Runtime};
use tracing_subscriber::{
    Layer as _,
    filter::{LevelFilter, Targets},
    layer::SubscriberExt as _,
    util::SubscriberInitExt as _,
};

use super::{Client, Context, Failure, Outcome, PATIENT_ELECTION, Processes, Scene, Suite, environment::Shared};
use crate::{
    cluster::{Cluster, Kind},
    process::{Launch, Process},
    rights::{self, Holder},
    skips,
};

const CONTROLLER_PATIENCE: Duration = Duration::from_secs(60);
const CONTROLLERS_VARIABLE: &str = "NONET_CONTROLLERS";

/// Runs the scenes of a suite that the command line asks for. The name of a test is `<suite>::<scene>`.
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
    let builder = Cluster::builder().nodes(Some(suite.nodes_builder()));
    let builder = builder.sandbox(|sandbox| suite.hardened(sandbox));
    let builder = builder.without_storage_protection(!suite.storage_protection);
    let cluster = builder.service_account_admission(suite.service_account_admission).start().await;
    let cluster = cluster.map_err(|error| {
        let text = error.to_string();
        if error.is_skip() { StartError::Skip(text) } else { StartError::Failed(text) }
    })?;
    let mut controllers = Vec::new();
    if has_controllers() {
        if suite.controller.is_none() {
            let why = format!("skipped: {CONTROLLERS_VARIABLE}=none, and its scenes start controllers of their own");
            return Err(StartError::Skip(why));
        }
        eprintln!("suite {}: the controllers of the cluster are tried", suite.name);
    } else {
        let tested = suite.controller.map(|(definition, flags)| (definition.name, flags));
        for (name, flags) in tested.into_iter().chain(suite.companions.iter().map(|&name| (name, &[][..]))) {
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
    let user = holder.user.map_or_else(|| rights::identity(name), str::to_owned);
    let mut launch = Launch::controller(name, &cluster.kubeconfig_for(&user)?)?.argument("--v=2");
    for flag in flags {
        launch = launch.argument(*flag);
    }
    let mut process = launch.start(cluster.clock())?;
    process.ready(CONTROLLER_PATIENCE).await?;
    Ok(process)
}

fn trials(suite: &Suite, state: &State) -> Vec<Trial> {
    let trial = |scene: &Scene| {
        let scene = *scene;
        let name = format!("{}::{}", suite.name, scene.name);
        let State::Running(handle, shared) = state else {
            return Trial::test(name, || Err(Failed::from("there is no cluster to run on"))).with_ignored_flag(true);
        };
        let kind = shared.cluster.kind();
        let other_kind = scene.requirements.other_kind(kind);
        // Elsewhere, what runs on the sandbox alone has usually run before.
        if other_kind.is_some() && kind == Kind::Sandbox {
            skips::note(&name, other_kind.as_deref());
        }
        let is_ignored = !suite.tries_by_default(&scene, kind);
        let (handle, shared, record) = (handle.clone(), Arc::clone(shared), name.clone());
        let run = move || {
            if let Some(why) = other_kind {
                return Ok(Completion::ignored_with(why));
            }
            let missing = scene.requirements.missing();
            skips::note(&record, missing.as_deref());
            match missing {
                Some(why) => Ok(Completion::ignored_with(why)),
                None => {
                    let attempted = handle.block_on(attempt(scene, shared));
                    attempted.map(|()| Completion::Completed).map_err(|failure| Failed::from(failure.0))
                }
            }
        };
        Trial::ignorable_test(name, run).with_ignored_flag(is_ignored)
    };
    suite.scenes.iter().map(trial).collect()
}

async fn attempt(scene: Scene, shared: Arc<Shared>) -> Outcome {
    let context = Context::new(Arc::new(Processes::new(shared)), scene.name).await?;
    let result = scene.attempt(context.clone()).await;
    let cleaned = context.clean().await;
    result?;
    cleaned.map_err(|error| Failure(format!("the scene passed, but its objects could not be deleted: {error}")))
}

fn end(runtime: &Runtime, shared: Arc<Shared>) -> Outcome {
    let Some(shared) = Arc::into_inner(shared) else { return Err(Failure::new("a scene still holds the cluster")) };
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
    use testkit::scenes;

    use super::{
        super::{EVERYWHERE, SANDBOX},
        *,
    };
    use crate::controllers;

    #[test]
    fn a_scene_that_lacks_what_it_needs_says_so() {
        assert_eq!(EVERYWHERE.missing(), None);
        assert_eq!(EVERYWHERE.needs(|| Ok(())).missing(), None);
        let lacking = EVERYWHERE.needs(|| Err("there is no compass".to_owned()));
        assert_eq!(lacking.missing().as_deref(), Some("there is no compass"));
        assert_eq!(SANDBOX.other_kind(Kind::Envtest).as_deref(), Some("it needs NONET_CLUSTER=virtual or sandbox"));
    }

    #[test]
    fn scenes_that_run_in_virtual_time_are_tried_on_the_sandbox_if_they_are_samples() {
        async fn passes(_: Context) -> Outcome {
            Ok(())
        }
        let suite = |requirements| Suite::new("job").scenes(scenes! { requirements => passes; });
        let tries = |suite: &Suite, kind| suite.tries_by_default(&suite.scenes[0], kind);
        let scenes = suite(EVERYWHERE).controller(controllers::ALL[0], &[]);
        assert_eq!((tries(&scenes, Kind::Sandbox), tries(&scenes, Kind::Envtest)), (false, true));
        assert!(tries(&suite(EVERYWHERE.sample()).controller(controllers::ALL[0], &[]), Kind::Sandbox));
        assert!(tries(&scenes.beside(&["gc-controller"]), Kind::Sandbox));
        assert!(tries(&suite(EVERYWHERE), Kind::Sandbox));
    }
}
