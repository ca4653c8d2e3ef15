//! The loops that keep one object in each namespace: the ServiceAccount `default`, and the ConfigMap `kube-root-ca.crt`.
//!
//! Upstream: `pkg/controller/serviceaccount`, `ServiceAccountsController`, and `pkg/controller/certificates/rootcacertpublisher`,
//! `Publisher`.

pub mod decide;

use std::sync::Arc;

use common::{api::PatchFormat, ca_bundle::Bundle, ca_bundle_file::BundleFile, prelude::*, second_writer::OwnedWrites};
use jiff::Timestamp;
use serde_json::{Value, json};

use self::decide::{Plan, Snapshot};
use crate::{
    OWN_OBJECT_DELAY,
    metrics::SyncMetrics,
    objects::{CA_KEY, ConfigMap, DESCRIPTION_ANNOTATION, Namespace, ServiceAccount},
};

/// `serviceaccount-controller`: creates the ServiceAccount `default` of each namespace.
pub const SERVICE_ACCOUNT_LOOP: LoopDefinition =
    LoopDefinition::new("serviceaccount-controller", "serviceaccount", start_service_accounts)
        .with_user_agent_and_component("service-account-controller", "serviceaccount-controller")
        .with_owned_writes(&[OWNED_WRITES_OF_ACCOUNTS]);
/// `root-ca-certificate-publisher-controller`: keeps the ConfigMap `kube-root-ca.crt` of each namespace.
pub const ROOT_CA_LOOP: LoopDefinition =
    LoopDefinition::new("root-ca-certificate-publisher-controller", "root-ca-cert-publisher", start_config_maps)
        .with_user_agent_and_component("root-ca-cert-publisher", "root-ca-certificate-publisher-controller")
        .with_owned_writes(&[OwnedWrites::of_object("", "configmaps")]);

/// A second writer shows no field of an account: a creation with a name alone leaves none in `managedFields`, and the fields that
/// kube-controller-manager writes later are those of another loop.
const OWNED_WRITES_OF_ACCOUNTS: OwnedWrites =
    OwnedWrites { required_fields_v1_text: "f:metadata", ..OwnedWrites::of_object("", "serviceaccounts") };

/// Upstream: `rootcacertpublisher`, `Description`.
const DESCRIPTION: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such \
     as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes \
     clusters.";

/// A kind of object of which each namespace has one.
pub trait KeptObject: Object {
    /// `metadata.name` of the object.
    const NAME: &'static str;

    /// Returns the fields of a new object besides those that every object has.
    fn content(_bundle: &Bundle) -> Value {
        json!({})
    }
    /// Returns what is wrong with the object, and the strategic merge patch that makes it right; `None` if it is right.
    fn repair(&self, _bundle: &Bundle) -> Option<(&'static str, Value)> {
        None
    }
}

impl KeptObject for ServiceAccount {
    const NAME: &'static str = "default";
}

impl KeptObject for ConfigMap {
    const NAME: &'static str = "kube-root-ca.crt";

    fn content(bundle: &Bundle) -> Value {
        json!({"metadata": {"annotations": {DESCRIPTION_ANNOTATION: DESCRIPTION}}, "data": {CA_KEY: bundle.text}})
    }

    fn repair(&self, bundle: &Bundle) -> Option<(&'static str, Value)> {
        let has_bundle = self.bundle_hash == Some(bundle.hash);
        let mut patch = Self::content(bundle);
        // It replaces all keys, also unknown ones. The server ignores a replacement of what is missing.
        if self.has_data {
            patch["data"]["$patch"] = json!("replace");
        }
        if self.has_binary_bundle {
            patch["binaryData"] = json!({CA_KEY: null});
        }
        let fault = if has_bundle { "its description is missing" } else { "its data is not the bundle alone" };
        (!has_bundle || !self.is_described).then_some((fault, patch))
    }
}

/// Caches and memory of a loop.
struct KeeperController<K> {
    namespaces: Arc<Store<Namespace>>,
    objects: Arc<Store<K>>,
    ledger: Ledger,
    /// The bundle with its metrics; `None` if the objects do not have it.
    bundle_file: Option<(Arc<BundleFile>, SyncMetrics)>,
}

fn start_service_accounts(context: LoopContext) -> Arc<dyn RunningLoop> {
    let queue = context.new_queue("serviceaccount");
    start::<ServiceAccount>(SERVICE_ACCOUNT_LOOP.name, context, queue, None)
}

fn start_config_maps(context: LoopContext) -> Arc<dyn RunningLoop> {
    let queue = context.new_queue("root_ca_cert_publisher");
    let bundle_file = (BundleFile::shared(&context), SyncMetrics::of_config_maps(&context.metrics));
    start::<ConfigMap>(ROOT_CA_LOOP.name, context, queue, Some(bundle_file))
}

/// Starts a loop. The key of an object is its namespace and its name.
fn start<K: KeptObject>(
    name: &'static str,
    context: LoopContext,
    queue: Queue<NamespacedName>,
    bundle_file: Option<(Arc<BundleFile>, SyncMetrics)>,
) -> Arc<dyn RunningLoop> {
    let keys = queue.clone();
    let namespaces = context.watch_shared::<Namespace>(Box::new(move |event, origin| {
        keys.add(NamespacedName::new(&event.meta().name, K::NAME), origin);
    }));
    let (keys, is_repaired) = (queue.clone(), bundle_file.is_some());
    let on_object_event = move |event: &CacheEvent<K>, _| {
        // The event of an object that cannot be decoded may be a deletion.
        if is_repaired || event.cached().is_none() {
            keys.add_debounced(event.meta().key(), OWN_OBJECT_DELAY);
        }
    };
    let objects = context.start_informer(Arc::default(), Box::new(on_object_event));
    if let Some((file, _)) = &bundle_file {
        let (namespaces, keys) = (Arc::clone(&namespaces), queue.clone());
        file.on_change(move || {
            let all = namespaces.all_decoded().into_iter();
            all.for_each(|one| keys.add(NamespacedName::new(&one.metadata.name, K::NAME), Priority::Low));
        });
    }
    let controller = KeeperController { namespaces, objects, ledger: context.ledger(), bundle_file };
    Loop::start(name, context, Arc::new(controller), queue, 1)
}

impl<K: KeptObject> Controller for KeeperController<K> {
    type Key = NamespacedName;
    type Snapshot = Snapshot<K>;
    type Plan = Plan;

    fn observe(&self, key: &NamespacedName, _: Timestamp) -> Result<Snapshot<K>, NoSnapshot> {
        self.ledger.check(key, key, WaitPolicy::AllWrites, HashSet::default)?;
        let namespace = self.namespaces.get("", &key.namespace)?.filter(|_| &*key.name == K::NAME);
        let is_namespace_active = namespace.ok_or(NoSnapshot::Gone)?.is_active;
        let object = self.objects.get(&key.namespace, &key.name)?;
        let no_bundle = Some(Arc::default());
        let bundle = self.bundle_file.as_ref().map_or(no_bundle, |(file, _)| file.bundle());
        Ok(Snapshot { key: key.clone(), is_namespace_active, object, bundle })
    }

    fn decide(snapshot: &Snapshot<K>) -> Plan {
        decide::decide(snapshot)
    }

    async fn act(snapshot: &Snapshot<K>, plan: &Plan, io: Io<'_, Self>) -> Result<Requeue, SyncError> {
        let Snapshot { key, object, bundle: Some(bundle), .. } = snapshot else {
            return Ok(Requeue::AfterPlannedDelay);
        };
        let began = io.now();
        let outcome = match (plan, object) {
            (Plan::Create, _) => {
                let mut content = K::content(bundle);
                (content["apiVersion"], content["kind"]) =
                    (json!(K::RESOURCE.api_version()), json!(K::RESOURCE.kind()));
                content["metadata"]["name"] = json!(key.name);
                let request = Request::create(K::RESOURCE, &key.namespace, &key.name, io.encode_body(|| content));
                match io.send(request.with_role(ObjectRole::AwaitedObject).with_reason("the namespace lacks it")).await
                {
                    // A terminating namespace needs no object.
                    Err(refusal) if refusal.error.has_cause("NamespaceTerminating") => Ok(Requeue::AfterPlannedDelay),
                    // No event reports the deletion of an object that the cache never had, so that the key comes back.
                    created => created.map(|_| Requeue::After(OWN_OBJECT_DELAY)),
                }
            }
            (Plan::Repair(fault, patch), Some(object)) => {
                let body = io.encode_body(|| patch);
                let request = Request::patch(K::RESOURCE, object.meta(), PatchFormat::Strategic, body);
                let repaired = io.send(request.with_role(ObjectRole::Child).with_reason(*fault)).await;
                if repaired.is_ok() {
                    io.update_memory(|_| tracing::info!(configMap = %key, fault, "Repaired a ConfigMap"));
                }
                repaired.map(|_| Requeue::AfterPlannedDelay)
            }
            _ => Ok(Requeue::AfterPlannedDelay),
        };
        let duration = io.now().duration_since(began);
        io.update_memory(|controller| {
            if let Some((_, metrics)) = &controller.bundle_file {
                metrics.record(outcome.as_ref().err(), duration);
            }
        });
        outcome.map_err(|refusal| SyncError::from_refusal(&format!("cannot write {}", K::NAME), &refusal))
    }

    fn ledger_owner(snapshot: &Snapshot<K>) -> LedgerOwner {
        LedgerOwner::from(&snapshot.key)
    }

    fn check_ready(&self) -> Result<(), String> {
        self.bundle_file.as_ref().map_or(Ok(()), |(file, _)| file.check_usable())
    }
}
