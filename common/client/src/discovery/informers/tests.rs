//! Tests with a sink that keeps only the names of objects.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use http::{Request, Response};
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::*;
use crate::{
    api::Api,
    clock::Clock,
    gate::closed_write_gate,
    informer::{InformerConfig, ObjectHead},
    meta::{Meta, ResourceVersion},
    object::Object,
    store::{CacheEntry, ChangeOrigin},
};

/// The metadata of an object of any resource.
#[derive(serde::Deserialize)]
struct AnyObject {
    metadata: Meta,
}

impl Object for AnyObject {
    const RESOURCE: Resource = Resource::namespaced("", "v1", "any", "Any");
    type Indexes = ();
    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

#[derive(Default)]
struct NameSink {
    names: Mutex<BTreeSet<String>>,
}

impl Sink for NameSink {
    type Object = AnyObject;
    type Set = BTreeSet<String>;

    fn begin_set(&self) -> BTreeSet<String> {
        BTreeSet::new()
    }
    fn add_to_set(&self, set: &mut BTreeSet<String>, entry: CacheEntry<AnyObject>, _origin: ChangeOrigin) {
        set.insert(entry.meta().name.to_string());
    }
    fn complete_set(&self, set: BTreeSet<String>, _version: ResourceVersion, _origin: ChangeOrigin) {
        *self.names.lock() = set;
    }
    fn put_object(&self, entry: CacheEntry<AnyObject>) {
        self.names.lock().insert(entry.meta().name.to_string());
    }
    fn handle_foreign(&self, _head: &ObjectHead<'_>) {}
    fn remove_deleted(&self, last: &Meta) {
        self.names.lock().remove(&*last.name);
    }
    fn raise_version(&self, _version: ResourceVersion) {}
    fn version(&self) -> ResourceVersion {
        ResourceVersion::UNKNOWN
    }
    fn len(&self) -> usize {
        self.names.lock().len()
    }
    fn replay(&self) {}
}

/// A server with one object of each resource: its name is the path of the collection. Lists of `webs` fail while `is_broken`.
struct World {
    api: Api,
    is_broken: Arc<AtomicBool>,
    informers: DiscoveredInformers<NameSink>,
}

impl World {
    fn new() -> Self {
        let is_broken = Arc::new(AtomicBool::new(false));
        let breaks = Arc::clone(&is_broken);
        let service = tower::service_fn(move |request: Request<Body>| {
            let (uri, is_broken) = (request.uri().clone(), breaks.load(Ordering::Relaxed));
            async move {
                if uri.query().is_some_and(|query| query.contains("watch=")) {
                    return std::future::pending().await;
                }
                let status = if is_broken && uri.path().ends_with("webs") { 500 } else { 200 };
                let object = json!({"metadata": {"name": uri.path(), "uid": uri.path(), "resourceVersion": "1"}});
                let list = json!({"metadata": {"resourceVersion": "2"}, "items": [object]});
                Response::builder()
                    .status(status)
                    .body(Body::from(list.to_string().into_bytes()))
                    .map_err(tower::BoxError::from)
            }
        });
        let clock = Clock::simulated(jiff::Timestamp::UNIX_EPOCH, 1);
        let client = kube::Client::new(service, "default");
        let api = Api::new(client, clock.clone(), closed_write_gate(clock).1, "test");
        Self { api, is_broken, informers: DiscoveredInformers::default() }
    }

    /// Follows the result of discovery for this group `x.io`, and wants each preferred resource. Returns the started and the
    /// stopped informers as texts.
    fn follow(&mut self, versions: &Value) -> [Vec<String>; 2] {
        let document =
            json!({"kind": "APIGroupDiscoveryList", "items": [{"metadata": {"name": "x.io"}, "versions": versions}]});
        let mut discovered_resources = DiscoveredResources::default();
        discovered_resources.add_document(document.to_string().as_bytes()).unwrap();
        let preferred = discovered_resources.resources.iter().filter(|found| found.is_preferred);
        let wanted = preferred.map(|found| found.resource.clone()).collect();
        let api = self.api.clone();
        let changes = self.informers.follow(discovered_resources, wanted, |resource| {
            let resource = Some(resource.clone());
            let config = InformerConfig { resource, is_streaming_list_enabled: false, ..InformerConfig::default() };
            SinkInformer::start_with_sink(api.clone(), config, NameSink::default())
        });
        [changes.started, changes.stopped].map(|all| all.iter().map(|informer| text(&informer.resource())).collect())
    }

    fn watched(&self) -> Vec<String> {
        self.informers.informers().map(|informer| text(&informer.resource())).collect()
    }

    fn unsynced(&self) -> Vec<String> {
        self.informers.unsynced_resources().iter().map(text).collect()
    }
}

fn text(resource: &Resource) -> String {
    format!("{} {}", resource.version(), resource.plural())
}

fn version(name: &str, freshness: &str, plurals: &[&str]) -> Value {
    let resources: Vec<Value> = plurals
        .iter()
        .map(|plural| json!({"resource": plural, "responseKind": {"kind": plural.to_uppercase()}, "verbs": ["list"]}))
        .collect();
    json!({"version": name, "freshness": freshness, "resources": resources})
}

const NONE: [&str; 0] = [];

#[tokio::test(start_paused = true)]
async fn informers_follow_the_wanted_resources() {
    let mut world = World::new();
    assert_eq!(world.follow(&json!([version("v1", "", &["gates", "webs"])])), [vec!["v1 gates", "v1 webs"], vec![]]);
    assert_eq!(world.unsynced(), ["v1 gates", "v1 webs"]);
    world.informers.wait_for_first_lists().await;
    assert_eq!(world.unsynced(), NONE);
    let gates = Arc::clone(world.informers.informers().next().unwrap());
    assert_eq!(*gates.sink().names.lock(), BTreeSet::from(["/apis/x.io/v1/gates".to_owned()]));
    // A new preferred version of one resource replaces only the informer of this resource.
    let versions = json!([version("v2", "", &["webs"]), version("v1", "", &["gates", "webs"])]);
    assert_eq!(world.follow(&versions), [["v2 webs"], ["v1 webs"]]);
    assert!(Arc::ptr_eq(&gates, world.informers.informers().next().unwrap()));
    let old_webs = world.informers.discovered_resources().resource_of_kind("x.io/v1", "webs").unwrap();
    assert_eq!(
        world.informers.informer_of(old_webs).map(|informer| text(&informer.resource())).as_deref(),
        Some("v2 webs")
    );
    assert_eq!(world.follow(&json!([])), [vec![], vec!["v1 gates", "v2 webs"]]);
    assert_eq!(world.watched(), NONE);
}

#[tokio::test(start_paused = true)]
async fn a_stale_group_version_keeps_its_filled_caches_and_its_kinds() {
    let mut world = World::new();
    world.is_broken.store(true, Ordering::Relaxed);
    world.follow(&json!([version("v1", "", &["gates", "webs"])]));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(world.unsynced(), ["v1 webs"]);
    let stale = json!([version("v1", "Stale", &[])]);
    assert_eq!(world.follow(&stale), [vec![], vec!["v1 webs"]], "a cache without a first list is not worth keeping");
    assert_eq!(world.follow(&stale), [NONE, NONE]);
    assert_eq!(world.watched(), ["v1 gates"]);
    for kind in ["GATES", "webs"] {
        assert!(world.informers.discovered_resources().resource_of_kind("x.io/v1", kind).is_some(), "{kind}");
    }
    assert_eq!(world.follow(&json!([version("v1", "", &["webs"])])), [["v1 webs"], ["v1 gates"]]);
    assert_eq!(world.informers.discovered_resources().resource_of_kind("x.io/v1", "GATES"), None);
}

#[tokio::test(start_paused = true)]
async fn a_failing_resource_is_named_and_affects_no_other() {
    let mut world = World::new();
    world.is_broken.store(true, Ordering::Relaxed);
    world.follow(&json!([version("v1", "", &["gates", "webs"])]));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let failing = world.informers.failing_resources();
    assert_eq!(failing.iter().map(|(resource, _)| text(resource)).collect::<Vec<_>>(), ["v1 webs"]);
    assert_eq!(world.informers.stale_errors(), NONE, "the failures have not lasted long enough");
    tokio::time::sleep(InformerConfig::default().stale_after * 2).await;
    let stale_errors = world.informers.stale_errors();
    assert!(matches!(&stale_errors[..], [error] if error.contains("webs.x.io")), "{stale_errors:?}");
    world.is_broken.store(false, Ordering::Relaxed);
    world.informers.wait_for_first_lists().await;
    assert_eq!((world.unsynced().len(), world.informers.stale_errors().len()), (0, 0));
}
