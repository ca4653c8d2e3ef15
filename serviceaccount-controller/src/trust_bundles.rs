//! The loop that keeps the ClusterTrustBundle of the API server. Upstream:
//! `pkg/controller/certificates/clustertrustbundlepublisher`, `ClusterTrustBundlePublisher`.

pub mod decide;

use std::{sync::Arc, time::Duration};

use common::{
    api::PatchFormat,
    ca_bundle::Bundle,
    ca_bundle_file::BundleFile,
    prelude::*,
    runtime::{LoopGroup, ServedInformer},
    second_writer::OwnedWrites,
    settings::FeatureGate,
};
use jiff::Timestamp;
use serde_json::json;

use self::decide::{Plan, SIGNER, Snapshot};
use crate::{OWN_OBJECT_DELAY, metrics::SyncMetrics, objects::ClusterTrustBundle};

/// The gate of the loop; off by default, as upstream.
pub const CLUSTER_TRUST_BUNDLE: FeatureGate = FeatureGate::off_by_default(
    "ClusterTrustBundle",
    "Publishes the certificate authorities of the API server as a ClusterTrustBundle, too",
);

/// `kube-apiserver-serving-clustertrustbundle-publisher-controller`: keeps the ClusterTrustBundle of the API server.
pub const TRUST_BUNDLE_LOOP: LoopDefinition = LoopDefinition::new(LOOP_NAME, "", start)
    .with_user_agent_and_component("kube-apiserver-serving-clustertrustbundle-publisher", LOOP_NAME)
    .with_owned_writes(&[OwnedWrites::of_object("certificates.k8s.io", "clustertrustbundles")]);
const LOOP_NAME: &str = "kube-apiserver-serving-clustertrustbundle-publisher-controller";

/// The versions of the API, the preferred one first.
const API_VERSIONS: [&str; 2] = ["certificates.k8s.io/v1beta1", "certificates.k8s.io/v1alpha1"];

periodic_key!(BundleKey, "bundle");

/// Caches and memory of the loop.
struct TrustBundleController {
    /// The served resource with its cache, once the first list has been read.
    served: ServedInformer<ClusterTrustBundle>,
    ledger: Ledger,
    bundle_file: Arc<BundleFile>,
    metrics: SyncMetrics,
}

fn start(context: LoopContext) -> Arc<dyn RunningLoop> {
    if !context.settings.is_feature_gate_on(&CLUSTER_TRUST_BUNDLE) {
        return Arc::new(LoopGroup(Vec::new()));
    }
    let queue = context.new_queue("ca_cert_publisher_cluster_trust_bundles");
    let (keys, keys_of_changes) = (queue.clone(), queue.clone());
    let controller = TrustBundleController {
        served: context.start_informer_once_served(
            &API_VERSIONS,
            Box::new(move |_, _| keys_of_changes.add_debounced(BundleKey, OWN_OBJECT_DELAY)),
            move || keys.add(BundleKey, Priority::Normal),
        ),
        ledger: context.ledger(),
        bundle_file: BundleFile::shared(&context),
        metrics: SyncMetrics::of_trust_bundles(&context.metrics),
    };
    let keys = queue.clone();
    controller.bundle_file.on_change(move || keys.add(BundleKey, Priority::Normal));
    Loop::start(LOOP_NAME, context, Arc::new(controller), queue, 1)
}

/// The key under which the ledger records all writes of the loop.
fn ledger_key() -> NamespacedName {
    NamespacedName::new("", SIGNER)
}

impl Controller for TrustBundleController {
    type Key = BundleKey;
    type Snapshot = Snapshot;
    type Plan = Plan;

    fn observe(&self, _: &BundleKey, _: Timestamp) -> Result<Snapshot, NoSnapshot> {
        let unserved = || NoSnapshot::waiting_because("the kind is not served yet", Duration::from_hours(1));
        let (resource, trust_bundles) = self.served.get().ok_or_else(unserved)?;
        self.ledger.check(&ledger_key(), &ledger_key(), WaitPolicy::AllWrites, HashSet::default)?;
        let mut trust_bundles = trust_bundles.all_decoded();
        trust_bundles.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
        Ok(Snapshot { resource: resource.clone(), trust_bundles, bundle: self.bundle_file.bundle() })
    }

    fn decide(snapshot: &Snapshot) -> Plan {
        decide::decide(snapshot)
    }

    async fn act(snapshot: &Snapshot, plan: &Plan, io: Io<'_, Self>) -> Result<Requeue, SyncError> {
        let (Some(bundle), Some(name)) = (&snapshot.bundle, &plan.name) else { return Ok(Requeue::AfterPlannedDelay) };
        let began = io.now();
        let outcome = publish(&snapshot.resource, bundle, name, plan, io).await;
        let duration = io.now().duration_since(began);
        io.update_memory(|controller| controller.metrics.record(outcome.as_ref().err(), duration));
        let failed = |refusal| SyncError::from_refusal("cannot publish the ClusterTrustBundle", &refusal);
        outcome.map(|()| Requeue::AfterPlannedDelay).map_err(failed)
    }

    fn ledger_owner(_: &Snapshot) -> LedgerOwner {
        LedgerOwner::Key(ledger_key())
    }
}

/// Creates or corrects the object, and then deletes the others. The first failure of a deletion is returned after all of them.
async fn publish(
    resource: &Resource,
    Bundle { text, .. }: &Bundle,
    name: &Arc<str>,
    Plan { creates, corrected, deleted, .. }: &Plan,
    io: Io<'_, TrustBundleController>,
) -> Result<(), Refusal> {
    if *creates {
        let spec = json!({"signerName": SIGNER, "trustBundle": text});
        let (api_version, kind) = (resource.api_version(), resource.kind());
        let object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec});
        let request = Request::create(resource.clone(), &Text::default(), name, io.encode_body(|| object));
        io.send(request.with_role(ObjectRole::AwaitedObject).with_reason("the signer lacks it")).await?;
    }
    if let Some(trust_bundle) = corrected {
        let body = io.encode_body(|| json!({"spec": {"trustBundle": text}}));
        let request = Request::patch(resource.clone(), &trust_bundle.metadata, PatchFormat::Merge, body);
        io.send(request.with_role(ObjectRole::Child).with_reason("its bundle is wrong")).await?;
    }
    let mut outcome = Ok(());
    for trust_bundle in deleted {
        let request = Request::delete(resource.clone(), &trust_bundle.metadata);
        if let Err(refusal) = io.send(request.with_reason("it is not the current bundle")).await
            && !refusal.error.is_not_found()
        {
            outcome = outcome.and(Err(refusal));
        }
    }
    outcome
}
