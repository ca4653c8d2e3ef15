//! The controllers that protect storage in use, on the sandbox and on a real kube-apiserver without kube-controller-manager.
//!
//! The API server gives every claim, volume and volume attributes class a finalizer. Without these controllers nothing takes it
//! away, and `kubectl delete pvc` waits for ever. Here a deleted object loses its finalizer
//!
//! - if it is a claim: as soon as no Pod that is assigned to a node mounts it. A Pod that has ended and still exists counts;
//! - if it is a volume: as soon as it is not bound;
//! - if it is a volume attributes class: as soon as no claim and no volume refers to it.
//!
//! What is still in use is looked at again every half second. While nothing is being deleted, this costs three watches of
//! metadata.
//!
//! Upstream: `pkg/controller/volume`, packages `pvcprotection`, `pvprotection` and `vacprotection`.

use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    time::Duration,
};

use common::{
    api::{Api, Error, PatchFormat, RequestTarget},
    clock::Clock,
    gate::closed_write_gate,
    informer::{CacheEventHandler, Informer, InformerConfig},
    meta::{Meta, NamespacedName},
    object::{Object, Resource},
    store::CacheEvent,
};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::{sync::mpsc, task::JoinHandle};

use crate::actors::nodes::{
    objects::PODS,
    request::{insist, is_transient},
};

const CLAIMS: Resource = Resource::namespaced("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim");
const VOLUMES: Resource = Resource::cluster_scoped("", "v1", "persistentvolumes", "PersistentVolume");
const CLASSES: Resource =
    Resource::cluster_scoped("storage.k8s.io", "v1", "volumeattributesclasses", "VolumeAttributesClass");

/// The pause before what is still in use is looked at again.
const PAUSE: Duration = Duration::from_millis(500);

/// The kinds that are protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Claim,
    Volume,
    AttributesClass,
}

impl Kind {
    const ALL: [Self; 3] = [Self::Claim, Self::Volume, Self::AttributesClass];

    fn resource(self) -> Resource {
        match self {
            Self::Claim => CLAIMS,
            Self::Volume => VOLUMES,
            Self::AttributesClass => CLASSES,
        }
    }

    fn finalizer(self) -> &'static str {
        match self {
            Self::Claim => "kubernetes.io/pvc-protection",
            Self::Volume => "kubernetes.io/pv-protection",
            Self::AttributesClass => "kubernetes.io/vac-protection",
        }
    }
}

/// The metadata of a protected object of any kind.
#[derive(Debug, Deserialize)]
struct Protected {
    metadata: Meta,
}

impl Object for Protected {
    const RESOURCE: Resource = CLAIMS;
    type Indexes = ();

    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

/// An object that is being deleted and has its finalizer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Terminating {
    kind: Kind,
    key: NamespacedName,
}

/// Running controllers of protected storage. They end when this is dropped.
pub struct Protection(JoinHandle<()>);

impl Protection {
    /// Starts them. Must be called inside a tokio runtime, in which they live.
    pub fn start(client: kube::Client, clock: Clock) -> Self {
        Self(tokio::spawn(run(client, clock)))
    }
}

impl Drop for Protection {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn run(client: kube::Client, clock: Clock) {
    let (keeper, gate) = closed_write_gate(clock.clone());
    keeper.open_without_deadline();
    let api = Api::new(client, clock.clone(), gate, "storage-protection");
    // An API server before 1.34 does not serve the last kind.
    let served = insist(&api, || api.read_path("/apis/storage.k8s.io/v1", "application/json")).await;
    let has_classes = served.is_ok_and(|list| names_resource(&list, CLASSES.plural()));
    let (sender, mut events) = mpsc::unbounded_channel();
    let kinds = Kind::ALL.into_iter().filter(|kind| *kind != Kind::AttributesClass || has_classes);
    let watch = |kind: Kind| {
        let config =
            InformerConfig { resource: Some(kind.resource()), is_metadata_only: true, ..InformerConfig::default() };
        Informer::start(api.clone(), config, vec![handler(kind, sender.clone())])
    };
    let informers: Vec<Informer<Protected>> = kinds.map(watch).collect();
    let mut waiting = BTreeSet::new();
    while let Some(first) = next(&mut events, waiting.is_empty(), &clock).await {
        waiting.extend(first);
        while let Ok(more) = events.try_recv() {
            waiting.insert(more);
        }
        let mut round = Round { api: &api, pods: BTreeMap::new() };
        for object in waiting.clone() {
            match round.release(&object).await {
                Ok(Released::Yes) => _ = waiting.remove(&object),
                Ok(Released::InUse) => {}
                Err(error) if is_transient(&error) || error.is_conflict() => {
                    tracing::debug!(object = %object.key, err = %error, "Could not be released, trying again");
                }
                Err(error) => tracing::warn!(object = %object.key, err = %error, "Could not be released"),
            }
        }
    }
    drop(informers);
}

/// The next object that is being deleted; nothing but a pause if some are waiting already, and `None` at the end.
async fn next(
    events: &mut mpsc::UnboundedReceiver<Terminating>,
    is_idle: bool,
    clock: &Clock,
) -> Option<Option<Terminating>> {
    if is_idle {
        return events.recv().await.map(Some);
    }
    tokio::select! {
        event = events.recv() => event.map(Some),
        () = clock.sleep(PAUSE) => Some(None),
    }
}

fn names_resource(list: &[u8], plural: &str) -> bool {
    let list: Value = serde_json::from_slice(list).unwrap_or_default();
    list["resources"].as_array().into_iter().flatten().any(|resource| resource["name"] == plural)
}

fn handler(kind: Kind, sender: mpsc::UnboundedSender<Terminating>) -> CacheEventHandler<Protected> {
    Box::new(move |event, _| {
        let (CacheEvent::Added(object) | CacheEvent::Updated { new: object, .. }) = event else { return };
        let meta = &object.metadata;
        if meta.is_deleting() && meta.finalizers.iter().any(|finalizer| &**finalizer == kind.finalizer()) {
            // A task that has ended needs no events.
            let _ = sender.send(Terminating { kind, key: meta.key() });
        }
    })
}

enum Released {
    Yes,
    InUse,
}

/// One look at all objects that wait, with one list of Pods for each namespace. The lists are younger than the deletions.
struct Round<'a> {
    api: &'a Api,
    pods: BTreeMap<String, Vec<Value>>,
}

impl Round<'_> {
    /// Takes the finalizer away, unless the object is in use.
    async fn release(&mut self, Terminating { kind, key }: &Terminating) -> Result<Released, Error> {
        let target = RequestTarget::object(kind.resource(), &key.namespace, &key.name);
        let object: Value = match self.api.get(target.clone()).await {
            Ok(answer) => serde_json::from_slice(&answer)?,
            Err(error) if error.is_not_found() => return Ok(Released::Yes),
            Err(error) => return Err(error),
        };
        let meta = &object["metadata"];
        let all = meta["finalizers"].as_array().cloned().unwrap_or_default();
        let others: Vec<&Value> = all.iter().filter(|finalizer| *finalizer != kind.finalizer()).collect();
        if meta["deletionTimestamp"].is_null() || others.len() == all.len() {
            return Ok(Released::Yes);
        }
        if self.is_in_use(*kind, &object).await? {
            return Ok(Released::InUse);
        }
        let body = json!({"metadata": {"resourceVersion": meta["resourceVersion"], "finalizers": others}});
        match self.api.patch(target, PatchFormat::Merge, &body).await {
            Err(error) if !error.is_not_found() => Err(error),
            _ => Ok(Released::Yes),
        }
    }

    async fn is_in_use(&mut self, kind: Kind, object: &Value) -> Result<bool, Error> {
        let name = &object["metadata"]["name"];
        match kind {
            Kind::Claim => {
                let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
                let pods = match self.pods.entry(namespace.to_owned()) {
                    Entry::Occupied(known) => known.into_mut(),
                    Entry::Vacant(unknown) => unknown.insert(list(self.api, PODS, namespace).await?),
                };
                Ok(pods.iter().any(|pod| mounts(pod, object)))
            }
            Kind::Volume => Ok(object["status"]["phase"] == "Bound"),
            Kind::AttributesClass => {
                let refers = |object: &Value| {
                    let (spec, status) = (&object["spec"], &object["status"]);
                    let target = &status["modifyVolumeStatus"]["targetVolumeAttributesClassName"];
                    let current = &status["currentVolumeAttributesClassName"];
                    [&spec["volumeAttributesClassName"], current, target].contains(&name)
                };
                let users = [list(self.api, VOLUMES, "").await?, list(self.api, CLAIMS, "").await?];
                Ok(users.iter().flatten().any(refers))
            }
        }
    }
}

/// All objects of a resource in a namespace, as the server has them now.
async fn list(api: &Api, resource: Resource, namespace: &str) -> Result<Vec<Value>, Error> {
    #[derive(Deserialize)]
    struct List {
        items: Vec<Value>,
    }
    let list: List = serde_json::from_slice(&api.list(&resource, namespace, "").await?)?;
    Ok(list.items)
}

/// Whether a Pod mounts a claim. A Pod without a node does not: no kubelet starts it while its claim is being deleted.
fn mounts(pod: &Value, claim: &Value) -> bool {
    let (meta, spec) = (&pod["metadata"], &pod["spec"]);
    if spec["nodeName"].as_str().unwrap_or_default().is_empty() {
        return false;
    }
    let name = claim["metadata"]["name"].as_str().unwrap_or_default();
    let is_shut_down = !meta["deletionTimestamp"].is_null() && meta["deletionGracePeriodSeconds"] == 0;
    let owners = claim["metadata"]["ownerReferences"].as_array();
    let is_owned = || owners.is_some_and(|all| all.iter().any(|o| o["controller"] == true && o["uid"] == meta["uid"]));
    spec["volumes"].as_array().into_iter().flatten().any(|volume| {
        let is_ephemeral = || {
            let parts = meta["name"].as_str().zip(volume["name"].as_str());
            volume["ephemeral"].is_object() && parts.is_some_and(|(pod, volume)| format!("{pod}-{volume}") == name)
        };
        volume["persistentVolumeClaim"]["claimName"] == name || (!is_shut_down && is_ephemeral() && is_owned())
    })
}

#[cfg(test)]
mod tests;
