//! The disruption controller: counts the Pods of PodDisruptionBudgets, and says how many of them may be evicted.
//!
//! In this crate, a "budget" is a PodDisruptionBudget.
//!
//! # What it promises
//!
//! If a budget and its Pods do not change, its status ends up with their counts, and allows as many evictions as there are
//! healthy Pods above the desired count. A write names the version of the budget that was read, so it never gives back an eviction
//! that the API server has approved meanwhile. A budget whose Pods or owners cannot be counted allows no eviction, and says why in
//! its condition. A Pod that was not terminated after its disruption loses the condition `DisruptionTarget`.
//!
//! # How it is laid out
//!
//! ```text
//! watch.rs ──► queue ──► budgets.rs: observe ──► Snapshot ──► budgets/decide ──► Plan ──► budgets/act.rs ──► API server
//! (events,                (index, caches,                      census, status              scale of owners,
//!  index)                  discovery)                                                      status, fail-safe
//!          └──► queue ──► stale_pods.rs ──► stale_pods/decide.rs ──► reset of a condition
//! ```
//!
//! `docs/behaviour/disruption-controller.md` lists the differences from upstream.

pub mod budgets;
pub mod objects;
pub mod stale_pods;

mod watch;
#[cfg(test)]
mod world;

use std::{sync::Arc, time::Duration};

use common::{
    app::ProgramDefinition,
    prelude::*,
    runtime::LoopGroup,
    settings::{EXPECTATIONS_TIMEOUT, Tunable},
};

use crate::{budgets::BudgetController, stale_pods::StalePodController, watch::Watch};

/// Number of workers of each queue, which upstream fixes, too.
const WORKERS: usize = 1;

/// How long a Pod may have the condition `DisruptionTarget` before it is reset; 2 minutes by default. Upstream:
/// `stalePodDisruptionTimeout`.
pub const STALE_POD_DISRUPTION_TIMEOUT: Tunable = Tunable::of_duration(
    "stale-pod-disruption-timeout",
    Duration::from_mins(2),
    "How long a Pod that is not terminated keeps the condition DisruptionTarget",
);

/// The loop that syncs budgets. It owns no writes, because the API server writes the same status.
pub const DISRUPTION: LoopDefinition = LoopDefinition::new("disruption-controller", "disruption", start)
    .with_user_agent_and_component("disruption-controller", "controllermanager");
/// The loops that this crate runs.
pub const LOOPS: &[LoopDefinition] = &[DISRUPTION];

/// Name, flags and loops of the binary.
pub const DEFINITION: ProgramDefinition = ProgramDefinition {
    name: "disruption-controller",
    version: env!("CARGO_PKG_VERSION"),
    about: "Counts the Pods of PodDisruptionBudgets, and writes how many of them may be evicted.",
    loops: LOOPS,
    workers_flags: &[],
    feature_gates: &[],
    tunables: &[EXPECTATIONS_TIMEOUT, STALE_POD_DISRUPTION_TIMEOUT],
    single_value_flags: &[],
};

fn start(context: LoopContext) -> Arc<dyn RunningLoop> {
    let (budgets, stale_pods) = (context.new_queue("disruption"), context.new_queue("stale_pod_disruption"));
    let timeout = context.settings.tuned_duration(&STALE_POD_DISRUPTION_TIMEOUT);
    let watch = Watch::start(&context, budgets.clone(), stale_pods.clone(), timeout);
    let controller = Arc::new(BudgetController::new(&context, Arc::clone(&watch)));
    let stale_pod_controller = Arc::new(StalePodController { watch, timeout });
    Arc::new(LoopGroup(vec![
        ("budgets", Loop::start(DISRUPTION.name, context.clone(), controller, budgets, WORKERS)),
        ("stale-pods", Loop::start("stale-pod-disruption", context, stale_pod_controller, stale_pods, WORKERS)),
    ]))
}
