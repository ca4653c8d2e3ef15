//! Removes Pods that no kubelet will ever finish: terminated Pods above a threshold, Pods of nodes that no longer exist,
//! terminating Pods without a node, and terminating Pods on a node that an operator has declared out of service.
//!
//! A pass reads only what it can act on, through indexes of the cache. Before Pods are removed because of their node, the node
//! is read from the server. Every write names the uid and the version of the Pod that was judged, where upstream's deletion
//! names neither. Finalizers are never touched. Upstream: `pkg/controller/podgc`.

mod observe;

use std::{sync::Arc, time::Duration};

use common::{
    controller::{Controller, Loop, Observed, Requeue},
    informer::AnyInformer,
    metrics::{Counters, Stability},
    queue::{Backoff, Priority},
    runtime::{Context, LoopDefinition, Running},
    settings::{Tune, TuneValue},
};
use futures::future::try_join_all;
use jiff::Timestamp;
use parking_lot::Mutex;

use crate::{
    caches::Caches,
    decide::{
        garbage::{self as decide, OfNode, Plan, Snapshot},
        quarantine::Quarantine,
    },
    error::Error,
    pass::Pass,
};

/// The shortest pause between two passes, whatever is configured.
const MIN_PERIOD: Duration = Duration::from_millis(10);

/// How many nodes a pass reads from the server at once, in the order of the plan.
const NODES_AT_ONCE: usize = 8;

/// The pause between two passes.
pub const POD_GC_PERIOD: Tune = Tune {
    name: "pod-gc-period",
    default: TuneValue::Duration(Duration::from_secs(20)),
    help: "The pause between two passes of the Pod garbage collector, at least 10ms",
};
/// How long a node has to be missing before its Pods are removed.
pub const POD_GC_QUARANTINE: Tune = Tune {
    name: "pod-gc-quarantine",
    default: TuneValue::Duration(Duration::from_secs(40)),
    help: "How long a node has to be missing before the Pod garbage collector removes its Pods",
};
/// All values of this loop that can be tuned.
pub const TUNES: &[Tune] = &[POD_GC_PERIOD, POD_GC_QUARANTINE];

/// How many terminated Pods are kept; all of them if the number is not positive.
pub const TERMINATED_POD_GC_THRESHOLD: Tune = Tune {
    name: "terminated-pod-gc-threshold",
    default: TuneValue::Integer(12_500),
    help: "How many terminated Pods are kept before the oldest are removed; 0 or less: all of them",
};

/// The loop as the program and `--controllers` know it.
pub const POD_GARBAGE_COLLECTOR: LoopDefinition = LoopDefinition {
    name: "pod-garbage-collector-controller",
    alias: "podgc",
    client: "pod-garbage-collector",
    component: "pod-garbage-collector-controller",
    start,
};

/// The Pod garbage collector.
pub struct PodCollector {
    pub(crate) context: Context,
    pub(crate) deleted: Counters,
    pub(crate) failed: Counters,
    caches: Arc<Caches>,
    /// As the last pass left it.
    quarantine: Mutex<Quarantine>,
    threshold: i64,
    period: Duration,
    quarantine_period: Duration,
}

fn start(context: Context) -> Arc<dyn Running> {
    let queue = context.queue("pod_garbage_collector", Backoff::default());
    let labels = &["namespace", "reason"];
    let deleted = context.metrics.counter(
        "pod_gc_collector_force_delete_pods_total",
        Stability::Alpha,
        "Number of pods that are being forcefully deleted since the Pod GC Controller started.",
        labels,
    );
    let failed = context.metrics.counter(
        "pod_gc_collector_force_delete_pod_errors_total",
        Stability::Alpha,
        "Number of errors encountered when forcefully deleting the pods since the Pod GC Controller started.",
        labels,
    );
    let collector = PodCollector {
        context: context.clone(),
        deleted,
        failed,
        caches: Caches::of(&context),
        quarantine: Mutex::default(),
        threshold: context.settings.integer(&TERMINATED_POD_GC_THRESHOLD),
        period: context.settings.duration(&POD_GC_PERIOD).max(MIN_PERIOD),
        quarantine_period: context.settings.duration(&POD_GC_QUARANTINE),
    };
    queue.add(Pass, Priority::Normal);
    Loop::start(POD_GARBAGE_COLLECTOR.name, context, Arc::new(collector), queue, 1)
}

impl Controller for PodCollector {
    type Key = Pass;
    type Snapshot = Snapshot;
    type Plan = Plan;
    type Error = Error;

    fn observe(&self, _: &Pass, _: Timestamp) -> Result<Observed<Snapshot>, Error> {
        let limits = observe::Limits {
            threshold: self.threshold,
            period: self.period,
            quarantine_period: self.quarantine_period,
        };
        let now = self.context.clock.instant();
        let quarantine = self.quarantine.lock().clone();
        Ok(Observed::Ready(observe::observe(self.caches.view(), quarantine, now, limits)))
    }

    fn decide(snapshot: &Snapshot) -> Plan {
        decide::decide(snapshot)
    }

    fn record(&self, _: &Snapshot, plan: &Plan) {
        *self.quarantine.lock() = plan.quarantine.clone();
    }

    async fn act(&self, _: Snapshot, plan: Plan) -> Result<Requeue, Error> {
        self.remove_all(&plan.terminated).await?;
        for nodes in plan.out_of_service.chunks(NODES_AT_ONCE) {
            let checks = nodes.iter().map(|of_node| self.is_out_of_service(&of_node.node));
            self.remove_confirmed(nodes, try_join_all(checks).await?).await?;
        }
        for nodes in plan.orphaned.chunks(NODES_AT_ONCE) {
            let checks = nodes.iter().map(|of_node| self.is_gone(&of_node.node));
            self.remove_confirmed(nodes, try_join_all(checks).await?).await?;
        }
        self.remove_all(&plan.unscheduled).await?;
        // The pause begins when the pass ends.
        Ok(Requeue::After(plan.pause()))
    }

    fn informers(&self) -> Vec<&dyn AnyInformer> {
        vec![self.caches.nodes.informer(), self.caches.pods.informer()]
    }
}

impl PodCollector {
    /// Removes the Pods of the nodes for which the server confirms the reason.
    async fn remove_confirmed(&self, nodes: &[OfNode], are_confirmed: Vec<bool>) -> Result<(), Error> {
        for (OfNode { pods, .. }, is_confirmed) in nodes.iter().zip(are_confirmed) {
            if is_confirmed {
                self.remove_all(pods).await?;
            }
        }
        Ok(())
    }
}
