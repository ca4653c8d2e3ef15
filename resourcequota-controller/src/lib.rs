//! The resource quota controller: keeps the usage in the status of ResourceQuotas.
//!
//! In this crate, a "quota" is a ResourceQuota, and a "tally" has the sums of what the objects of one kind use.
//!
//! # What it promises
//!
//! If the objects of a namespace do not change, the status of each of its quotas ends up with the limits of the spec and with what
//! the objects use. A write names the version of the quota that was read, so it never takes back what admission has charged
//! meanwhile. A kind that cannot be counted leaves its names at their old value and delays no other name. An object of a
//! namespace without a quota, or of a kind that no quota counts, costs no memory.
//!
//! # How it is laid out
//!
//! ```text
//! watch.rs ──► tally.rs ──► observe ──► Snapshot ──► decide.rs ──► Plan ──► act.rs ──► API server
//! (kinds,       (sums by        ▲                    (names, scopes)          (merge patch
//!  discovery)    class)         │                                              of the status)
//!     └──────► queue ───────────┘
//! ```
//!
//! [`objects`] computes the usage of one object, [`usage`] the sums, [`names`] says which kind a name concerns, and [`extended`]
//! adds what ResourceClaims use of extended resources.
//!
//! `docs/behaviour/resourcequota-controller.md` lists the differences from upstream.

pub mod decide;
pub mod extended;
pub mod names;
pub mod objects;
pub mod tally;
pub mod usage;

mod act;
mod watch;
#[cfg(test)]
mod world;

use std::{sync::Arc, time::Duration};

use common::{
    app::ProgramDefinition,
    prelude::*,
    runtime::LoopInformer,
    settings::{EXPECTATIONS_TIMEOUT, FeatureGate, Tunable, WorkersFlag},
};
use jiff::Timestamp;

use crate::{
    decide::{Plan, Snapshot},
    objects::{Gates, QUOTAS},
    watch::Watch,
};

/// Number of workers that sync quotas concurrently; 5 by default.
pub const CONCURRENT_RESOURCE_QUOTA_SYNCS: WorkersFlag =
    WorkersFlag::new("concurrent-resource-quota-syncs", 5, "How many resource quotas are synced at once");

/// Interval between syncs of all quotas without an event; 5 minutes by default.
pub const RESOURCE_QUOTA_SYNC_PERIOD: Tunable = Tunable::of_duration(
    "resource-quota-sync-period",
    Duration::from_mins(5),
    "How often all resource quotas are synced without a change; 0: never",
);

/// The gate under which the resources of a Pod replace those of its containers.
pub const POD_LEVEL_RESOURCES: FeatureGate = FeatureGate::on_by_default(
    "PodLevelResources",
    "Resources of a whole Pod count instead of those of its containers",
);
/// The gate under which ResourceClaims count for extended resources.
pub const DRA_EXTENDED_RESOURCE: FeatureGate = FeatureGate::on_by_default(
    "DRAExtendedResource",
    "ResourceClaims count for the extended resources of their classes",
);
/// The gate under which the resources in the status of a container count, too.
pub const IN_PLACE_POD_VERTICAL_SCALING: FeatureGate =
    FeatureGate::always_on("InPlacePodVerticalScaling", "Containers count with the resources in their status, too");
/// The gate under which the devices of ResourceClaims are counted.
pub const DYNAMIC_RESOURCE_ALLOCATION: FeatureGate =
    FeatureGate::always_on("DynamicResourceAllocation", "The devices of ResourceClaims are counted by class");
/// The gate under which quotas select PersistentVolumeClaims by class.
pub const VOLUME_ATTRIBUTES_CLASS: FeatureGate =
    FeatureGate::always_on("VolumeAttributesClass", "Quotas select volume claims by VolumeAttributesClass");
/// The gate under which the allocated storage of a claim counts.
pub const RECOVER_VOLUME_EXPANSION_FAILURE: FeatureGate =
    FeatureGate::always_on("RecoverVolumeExpansionFailure", "Volume claims count with their allocated storage, too");

/// The loop that counts usage. It owns no writes, because the API server writes the same status.
pub const RESOURCEQUOTA: LoopDefinition = LoopDefinition::new("resourcequota-controller", "resourcequota", start);
/// The loops that this crate runs.
pub const LOOPS: &[LoopDefinition] = &[RESOURCEQUOTA];

/// Name, flags and loops of the binary.
pub const DEFINITION: ProgramDefinition = ProgramDefinition {
    name: "resourcequota-controller",
    version: env!("CARGO_PKG_VERSION"),
    about: "Counts what the objects of a namespace use, and writes it to the status of its ResourceQuotas.",
    loops: LOOPS,
    workers_flags: &[CONCURRENT_RESOURCE_QUOTA_SYNCS],
    feature_gates: &[
        POD_LEVEL_RESOURCES,
        DRA_EXTENDED_RESOURCE,
        IN_PLACE_POD_VERTICAL_SCALING,
        DYNAMIC_RESOURCE_ALLOCATION,
        VOLUME_ATTRIBUTES_CLASS,
        RECOVER_VOLUME_EXPANSION_FAILURE,
    ],
    tunables: &[EXPECTATIONS_TIMEOUT],
    single_value_flags: &[RESOURCE_QUOTA_SYNC_PERIOD],
};

/// Delay after which a quota is observed again that waits for a first list or for discovery.
const AWAITED_RECHECK_DELAY: Duration = Duration::from_secs(1);

/// Caches and tallies of the loop.
pub struct QuotaController {
    watch: Arc<Watch>,
}

fn start(context: LoopContext) -> Arc<dyn RunningLoop> {
    let settings = Arc::clone(&context.settings);
    let gates = Gates {
        pod_level_resources: settings.is_feature_gate_on(&POD_LEVEL_RESOURCES),
        extended_resources: settings.is_feature_gate_on(&DRA_EXTENDED_RESOURCE),
    };
    let queue = context.new_queue("resourcequota_primary");
    let period = Some(settings.tuned_duration(&RESOURCE_QUOTA_SYNC_PERIOD)).filter(|period| !period.is_zero());
    let watch = Watch::start(&context, queue.clone(), gates, period);
    let workers = settings.worker_count(&CONCURRENT_RESOURCE_QUOTA_SYNCS);
    Loop::start(RESOURCEQUOTA.name, context, Arc::new(QuotaController { watch }), queue, workers)
}

impl Controller for QuotaController {
    type Key = NamespacedName;
    type Snapshot = Snapshot;
    type Plan = Plan;

    fn observe(&self, key: &NamespacedName, now: Timestamp) -> Result<Snapshot, NoSnapshot> {
        let no_children = |_: &Uid| HashSet::default();
        let (quota, _) = self.watch.ledger.read(&self.watch.quotas, key, WaitPolicy::AllWrites, no_children)?;
        let awaited = |why| NoSnapshot::waiting_because(why, AWAITED_RECHECK_DELAY);
        let (kinds, extended) = self.watch.read_kinds(&quota).map_err(awaited)?;
        Ok(Snapshot { quota, kinds, extended, now })
    }

    fn decide(snapshot: &Snapshot) -> Plan {
        decide::decide(snapshot)
    }

    async fn act(snapshot: &Snapshot, plan: &Plan, io: Io<'_, Self>) -> Result<Requeue, SyncError> {
        act::act(snapshot, plan, io).await
    }

    fn object(snapshot: &Snapshot) -> InvolvedObject {
        InvolvedObject::new(QUOTAS, &snapshot.quota.metadata)
    }

    fn problem(&self) -> Option<String> {
        self.watch.problem()
    }

    fn optional_informers(&self) -> Vec<LoopInformer> {
        self.watch.informers()
    }

    /// Drops the ledger record of a quota that was deleted during the sync, because no later event would drop the record.
    fn after_sync(&self, snapshot: &Snapshot) {
        let quota = &snapshot.quota.metadata;
        if !self.watch.quotas.contains_object(quota) {
            self.watch.ledger.forget_owner(&quota.uid);
        }
    }
}
