//! The scenes of a controller, and the clusters on which they run.

use std::panic::AssertUnwindSafe;

use common::app::ProgramDefinition;
use futures::{FutureExt as _, future::LocalBoxFuture};
use sandbox::nodes::{self, Nodes};

use super::{Context, Kind, Outcome};

/// The controller for which an actor of the sandbox stands in, in virtual time.
pub(super) const REPLICA_SETS: &str = "replicaset-controller";
/// The default number of concurrent scenes on one cluster, which is high because scenes mostly wait.
const SCENES_AT_ONCE: usize = 8;

/// A condition of a scene besides the kind of cluster. The error names the missing part.
pub type Condition = fn() -> Result<(), String>;

/// The kinds of clusters on which a scene runs, and its condition.
#[derive(Clone, Copy)]
pub struct Requirements {
    kinds: &'static [Kind],
    condition: Option<Condition>,
    is_sample: bool,
}

/// Every kind of cluster.
pub const EVERYWHERE: Requirements =
    Requirements::kinds(&[Kind::Virtual, Kind::Sandbox, Kind::Envtest, Kind::Kubeconfig]);
/// Clusters whose nodes follow scripts, and on which only the controllers of the suite act.
pub const SIMULATED: Requirements = Requirements::kinds(&[Kind::Virtual, Kind::Sandbox, Kind::Envtest]);
/// The sandbox alone.
pub const SANDBOX: Requirements = Requirements::kinds(&[Kind::Virtual, Kind::Sandbox]);
/// A real API server with simulated nodes.
pub const ENVTEST: Requirements = Requirements::kinds(&[Kind::Envtest]);

impl Requirements {
    const fn kinds(kinds: &'static [Kind]) -> Self {
        Self { kinds, condition: None, is_sample: false }
    }

    /// Adds a condition. If the condition is not met, the scene is ignored and the reason is printed.
    #[must_use]
    pub const fn needs(self, condition: Condition) -> Self {
        Self { condition: Some(condition), ..self }
    }

    /// Marks scenes that every run of the suites tries with the real binaries on the sandbox.
    #[must_use]
    pub const fn sample(self) -> Self {
        Self { is_sample: true, ..self }
    }

    /// The reason why the scene cannot run on this kind of cluster.
    pub fn other_kind(&self, kind: Kind) -> Option<String> {
        let kinds = || self.kinds.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(" or ");
        (!self.kinds.contains(&kind)).then(|| format!("it needs NONET_CLUSTER={}", kinds()))
    }

    /// The part that the condition misses.
    pub fn missing(&self) -> Option<String> {
        self.condition.and_then(|condition| condition().err())
    }
}

/// One scene.
#[derive(Clone, Copy)]
pub struct Scene {
    /// Its name within the suite.
    pub name: &'static str,
    /// Its function.
    pub run: fn(Context) -> LocalBoxFuture<'static, Outcome>,
    /// Where it runs.
    pub requirements: Requirements,
}

impl Scene {
    /// Runs the scene. A failed assertion fails with a description of the namespace, too.
    pub async fn attempt(self, context: Context) -> Outcome {
        match AssertUnwindSafe((self.run)(context.clone())).catch_unwind().await {
            Ok(outcome) => outcome,
            Err(panic) => {
                let text = panic.downcast_ref::<String>().map(String::as_str);
                let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("panicked");
                context.fail(text).await
            }
        }
    }
}

/// The scenes with the names of these functions, by their [`Requirements`]: `scenes! { SIMULATED => scales rolls_back; }`.
#[macro_export]
macro_rules! scenes {
    ($($requirements:expr => $($scene:ident)+;)*) => {
        vec![$($($crate::scene::Scene {
            name: stringify!($scene),
            run: |context| Box::pin($scene(context)),
            requirements: $requirements,
        },)+)*]
    };
}

/// Defines the function `suite`, and a test in virtual time for each scene. The description of the suite comes first, and the
/// scenes follow as in [`scenes!`].
#[macro_export]
macro_rules! suite {
    ($suite:expr; $($requirements:expr => $($scene:ident)+;)*) => {
        pub(crate) fn suite() -> $crate::scene::Suite {
            $suite.scenes($crate::scenes! { $($requirements => $($scene)+;)* })
        }

        mod in_virtual_time {
            $($(
                #[tokio::test(start_paused = true)]
                async fn $scene() {
                    super::suite().run_in_virtual_time(stringify!($scene)).await;
                }
            )+)*
        }
    };
}

/// The scenes of a controller, and the cluster on which they run.
pub struct Suite {
    /// Its name.
    pub name: &'static str,
    /// The controller under test with its flags. Without one, the scenes start their controllers.
    pub controller: Option<(&'static ProgramDefinition, &'static [&'static str])>,
    /// Other controllers that run beside it, without flags.
    pub companions: &'static [&'static str],
    /// Sets up the simulated nodes.
    pub nodes: fn(nodes::Builder) -> nodes::Builder,
    /// Sets up the sandbox.
    pub sandbox: fn(sandbox::Builder) -> sandbox::Builder,
    /// Whether a Pod is refused in a namespace without the account that it names, where the controllers are processes.
    pub service_account_admission: bool,
    /// Whether an actor removes the protection finalizers of storage. Not beside a controller that does.
    pub storage_protection: bool,
    /// The number of concurrent scenes where scenes share a cluster.
    pub at_once: usize,
    /// Its scenes.
    pub scenes: Vec<Scene>,
}

impl Suite {
    /// A suite without a controller and without scenes, on an ordinary cluster.
    pub fn new(name: &'static str) -> Self {
        let (nodes, sandbox) = (std::convert::identity, std::convert::identity);
        Self {
            name,
            controller: None,
            companions: &[],
            nodes,
            sandbox,
            service_account_admission: false,
            storage_protection: true,
            at_once: SCENES_AT_ONCE,
            scenes: Vec::new(),
        }
    }

    /// Sets the controller under test and its flags.
    #[must_use]
    pub fn controller(self, definition: &'static ProgramDefinition, flags: &'static [&'static str]) -> Self {
        Self { controller: Some((definition, flags)), ..self }
    }

    /// Runs other controllers beside it. In virtual time, an actor of the sandbox stands in for the ReplicaSet controller, and no
    /// other controller can run.
    #[must_use]
    pub fn beside(self, companions: &'static [&'static str]) -> Self {
        Self { companions, ..self }
    }

    /// Sets up the simulated nodes.
    #[must_use]
    pub fn nodes(self, nodes: fn(nodes::Builder) -> nodes::Builder) -> Self {
        Self { nodes, ..self }
    }

    /// Sets up the sandbox.
    #[must_use]
    pub fn sandbox(self, sandbox: fn(sandbox::Builder) -> sandbox::Builder) -> Self {
        Self { sandbox, ..self }
    }

    /// Enables the admission plugin `ServiceAccount`.
    #[must_use]
    pub fn service_account_admission(self) -> Self {
        Self { service_account_admission: true, ..self }
    }

    /// Leaves the protection finalizers of storage to a controller of the suite.
    #[must_use]
    pub fn without_storage_protection(self) -> Self {
        Self { storage_protection: false, ..self }
    }

    /// Sets the number of concurrent scenes where scenes share a cluster.
    #[must_use]
    pub fn at_once(self, at_once: usize) -> Self {
        Self { at_once, ..self }
    }

    /// Sets the scenes.
    #[must_use]
    pub fn scenes(self, scenes: Vec<Scene>) -> Self {
        Self { scenes, ..self }
    }

    /// Whether the scenes run in virtual time, in the crate of the controller.
    pub fn runs_in_virtual_time(&self) -> bool {
        self.controller.is_some() && self.companions.iter().all(|name| *name == REPLICA_SETS)
    }

    /// Whether every run of the suites tries a scene on this kind of cluster. On the sandbox, those that run in virtual time are
    /// tried only if they are samples.
    pub fn tries_by_default(&self, scene: &Scene, kind: Kind) -> bool {
        let Requirements { is_sample, .. } = scene.requirements;
        scene.requirements.other_kind(kind).is_none()
            && (kind != Kind::Sandbox || is_sample || !self.runs_in_virtual_time())
    }

    /// The nodes of its cluster.
    pub fn nodes_builder(&self) -> nodes::Builder {
        (self.nodes)(Nodes::builder())
    }

    /// The settings of its sandbox: the controllers have only the rights that they are granted.
    pub fn hardened(&self, builder: sandbox::Builder) -> sandbox::Builder {
        (self.sandbox)(builder.rbac(true).owner_references_permission_enforcement(true))
    }
}
