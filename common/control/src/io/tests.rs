//! Syncs against a scripted server, in virtual time.

mod revisions;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Request as HttpRequest, Response};
use http_body_util::{BodyExt as _, Full};
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::*;
use crate::{
    api::{Api, PatchFormat, WireFormat},
    clock::Clock,
    consistency::{Ledger, LedgerOwner},
    events::{EventRecorder, EventType, InvolvedObject},
    gate::{DecisionTime, WriteGateKeeper, closed_write_gate},
    map::HashSet,
    meta::{Meta, ResourceVersion, Uid},
    object::Resource,
    pods::PODS,
    refs::{HasMeta, Owner},
    selector::Selector,
    wire::{Envelope, decode_message, messages},
};

const SETS: Resource = Resource::namespaced("apps", "v1", "replicasets", "ReplicaSet");

/// The memory of the test controller: the numbers that syncs have stored.
type Memory = Mutex<Vec<u32>>;

/// Takes a request's method, last path segment and body, and returns the status code and the body of the answer.
type AnswerScript = dyn Fn(&str, &str, &Value) -> (u16, Value) + Send + Sync;

struct ScriptedWorld {
    executor: SyncExecutor,
    keeper: WriteGateKeeper,
    ledger: Ledger,
    requests: Arc<Mutex<Vec<(String, Value)>>>,
    /// Path, query and content type of each request.
    targets: Arc<Mutex<Vec<String>>>,
    events: Arc<Mutex<Vec<String>>>,
    memory: Memory,
    ends: Arc<Mutex<bool>>,
}

fn world(script: impl Fn(&str, &str, &Value) -> (u16, Value) + Send + Sync + 'static) -> ScriptedWorld {
    let script: Arc<AnswerScript> = Arc::new(script);
    let requests: Arc<Mutex<Vec<(String, Value)>>> = Arc::default();
    let targets: Arc<Mutex<Vec<String>>> = Arc::default();
    let (seen, addressed) = (Arc::clone(&requests), Arc::clone(&targets));
    let service = tower::service_fn(move |request: HttpRequest<kube::client::Body>| {
        let (script, seen, addressed) = (Arc::clone(&script), Arc::clone(&seen), Arc::clone(&addressed));
        async move {
            let content_type = request.headers().get("content-type").and_then(|value| value.to_str().ok());
            addressed.lock().push(format!("{} {}", request.uri(), content_type.unwrap_or_default()));
            let (method, path) = (request.method().to_string(), request.uri().path().to_owned());
            let name = path.rsplit('/').next().unwrap_or_default().to_owned();
            let bytes = request.into_body().collect().await.map_err(|error| error.to_string())?.to_bytes();
            let body = match Envelope::decode(&bytes) {
                Ok(options) if options.kind == "DeleteOptions" => {
                    decode_message(&messages::DELETE_OPTIONS, options.object).unwrap()
                }
                Ok(pod) => decode_message(&messages::POD, pod.object).unwrap(),
                Err(_) => serde_json::from_slice(&bytes).unwrap_or_default(),
            };
            seen.lock().push((format!("{method} {name}"), body));
            let body = seen.lock().last().map(|(_, body)| body.clone()).unwrap_or_default();
            let (code, answer) = script(&method, &name, &body);
            let answer = Full::new(Bytes::from(answer.to_string()));
            Ok::<_, tower::BoxError>(Response::builder().status(code).body(answer)?)
        }
    });
    let clock = Clock::simulated(Timestamp::UNIX_EPOCH, 0);
    let (keeper, gate) = closed_write_gate(clock.clone());
    keeper.open_without_deadline();
    let api = Api::new(kube::Client::new(service, "default"), clock.clone(), gate, "test");
    let events: Arc<Mutex<Vec<String>>> = Arc::default();
    let told = Arc::clone(&events);
    let recorder = EventRecorder::forwarding_events_to("test", clock.clone(), move |_, _, reason, message| {
        told.lock().push(format!("{reason}: {message}"));
    });
    let ledger = Ledger::new(clock, Duration::from_mins(5));
    let ends: Arc<Mutex<bool>> = Arc::default();
    let ended = Arc::clone(&ends);
    let executor = SyncExecutor {
        api,
        recorder,
        ledger: Some(ledger.clone()),
        sync_callbacks: None,
        is_shutting_down: Arc::new(move || *ended.lock()),
    };
    ScriptedWorld { executor, keeper, ledger, requests, targets, events, memory: Mutex::default(), ends }
}

impl SyncSubject for ScriptedWorld {
    fn object(&self) -> InvolvedObject {
        InvolvedObject::without_version(SETS, "shop", "web", Uid::new("SET"))
    }
    fn ledger_owner(&self) -> LedgerOwner {
        LedgerOwner::Object(Uid::new("SET"))
    }
    fn child_uids(&self) -> HashSet<Uid> {
        HashSet::default()
    }
}

impl ScriptedWorld {
    async fn run(
        &self,
        sync: impl AsyncFn(Io<'_, Memory>) -> Result<Requeue, SyncError>,
    ) -> (Result<Requeue, SyncError>, Vec<String>) {
        let forecast = forecast_sync(Timestamp::UNIX_EPOCH, &sync);
        let account = forecast.request_account.clone().unwrap();
        let outcome = self.executor.run(&self.memory, self, self.decision_time(), forecast, &sync).await;
        (outcome, account.entries().iter().map(ToString::to_string).collect())
    }

    fn decision_time(&self) -> DecisionTime {
        self.executor.api.gate().decision_time()
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().iter().map(|(line, _)| line.clone()).collect()
    }
}

struct Pod(Meta);

impl HasMeta for &Pod {
    fn meta(&self) -> &Meta {
        &self.0
    }
}

fn pod(name: &str) -> &'static Pod {
    let meta = Meta {
        namespace: "shop".into(),
        name: name.into(),
        uid: Uid::new(name),
        resource_version: ResourceVersion::parse("5"),
        ..Meta::default()
    };
    Box::leak(Box::new(Pod(meta)))
}

fn owner() -> &'static Owner {
    let meta = Meta { namespace: "shop".into(), name: "web".into(), uid: Uid::new("SET"), ..Meta::default() };
    Box::leak(Box::new(Owner::new(SETS, &meta)))
}

/// Returns the selector of the owner, which matches `app=web`.
fn selector() -> &'static Selector {
    Box::leak(Box::new(Selector::from_value(&json!({"matchLabels": {"app": "web"}}))))
}

/// Returns a Pod as the server stores it, with this value of the label `app` and the owner with this UID as its controller.
fn stored_pod(app: &str, controller: Option<&str>) -> Value {
    let mut pod = object("web-x", 8);
    pod["metadata"]["labels"] = json!({"app": app});
    let reference = controller.map(|uid| json!({"kind": "ReplicaSet", "name": "web", "uid": uid, "controller": true}));
    pod["metadata"]["ownerReferences"] = json!(Vec::from_iter(reference));
    pod
}

fn object(name: &str, version: u32) -> Value {
    json!({"metadata": {"name": name, "uid": name, "resourceVersion": version.to_string()}})
}

fn status(reason: &str, message: &str) -> Value {
    json!({"kind": "Status", "reason": reason, "message": message})
}

/// Returns a sync that adopts the Pod `orphan`, creates `creates` Pods, and deletes the adopted Pod.
fn sync(creates: usize) -> impl AsyncFn(Io<'_, Memory>) -> Result<Requeue, SyncError> {
    async move |io: Io<'_, Memory>| {
        io.update_memory(|memory| memory.lock().push(1));
        let adopt = [pod("orphan")];
        let mut claim = ChildClaim::new(owner(), PODS, &adopt, &[]).send(io).await;
        if claim.has_only_conflicts() || (claim.take_claim_result().map(|()| !claim.has_adopted_all())?) {
            return Ok(Requeue::After(Duration::ZERO));
        }
        io.update_memory(|memory| memory.lock().push(2));
        let pod = || Request::create(PODS, &"shop".into(), &"".into(), RequestBody::default());
        let create = |_| create_pod(io, pod(), owner(), selector());
        let created = io.run_group(GroupConcurrency::SlowStart(usize::MAX), 0..creates, create).await;
        if let Some(refusal) = created.into_iter().find_map(Result::err) {
            return Err(SyncError::from_refusal("cannot create Pods", &refusal));
        }
        let delete = Request::delete(PODS, &adopt[0].0).with_reason("there are too many");
        let _ = io.await_unless_shutting_down(delete_pod(io, delete)).await;
        Ok(Requeue::AfterPlannedDelay)
    }
}

/// Grants every request and returns fixed versions.
fn granting(method: &str, name: &str, _: &Value) -> (u16, Value) {
    match method {
        "GET" => (200, json!({"metadata": {"name": "web", "uid": "SET", "resourceVersion": "3"}})),
        "POST" => (201, stored_pod("web", Some("SET"))),
        _ => (200, object(name, 7)),
    }
}

/// COMMON-71.
#[tokio::test(start_paused = true)]
async fn a_fully_granted_sync_matches_its_forecast() {
    let world = world(granting);
    let (outcome, account) = world.run(sync(3)).await;
    assert_eq!(outcome.unwrap(), Requeue::AfterPlannedDelay);
    assert_eq!(
        account,
        [
            "read ReplicaSet web: an owner must exist and not be terminating to adopt",
            "adopt Pod orphan: the selector matches it and it has no controller",
            "create 3 Pods",
            "delete Pod orphan: there are too many",
        ]
    );
    assert_eq!(world.requests(), ["GET web", "PATCH orphan", "POST pods", "POST pods", "POST pods", "DELETE orphan"]);
    assert_eq!(*world.memory.lock(), [1, 2]);
    assert_eq!(world.events.lock().last().unwrap(), "SuccessfulDelete: Deleted pod: orphan");
    assert_eq!(world.events.lock().len(), 4);
}

/// COMMON-26.
#[tokio::test(start_paused = true)]
async fn a_write_names_its_object_at_the_version_of_the_last_write_of_the_sync() {
    let world = world(granting);
    world.run(sync(0)).await.0.unwrap();
    let requests = world.requests.lock();
    let (adoption, deletion) = (&requests[1].1, &requests[2].1);
    assert_eq!(
        (&adoption["metadata"]["uid"], &adoption["metadata"]["resourceVersion"]),
        (&json!("orphan"), &json!("5"))
    );
    assert_eq!(adoption["metadata"]["ownerReferences"][0]["uid"], "SET");
    assert_eq!(deletion["preconditions"], json!({"uid": "orphan", "resourceVersion": "7"}));
}

/// COMMON-71.
#[tokio::test(start_paused = true)]
async fn omitted_requests_state_their_reason() {
    let world = world(|method, name, body| match method {
        "POST" => (403, status("Forbidden", "exceeded quota")),
        _ => granting(method, name, body),
    });
    let (outcome, account) = world.run(sync(3)).await;
    assert_eq!(outcome.unwrap_err().to_string(), "cannot create Pods: exceeded quota");
    assert_eq!(
        account[2..],
        [
            "create 3 Pods; refused: exceeded quota; 2 left out: create 1 Pod: exceeded quota",
            "delete Pod orphan: there are too many; 1 left out: create 1 Pod: exceeded quota",
        ]
    );
    assert_eq!(world.requests().len(), 3, "the first batch with a refusal is the last");
    assert_eq!(*world.events.lock(), ["FailedCreate: Error creating: exceeded quota"]);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_admission_has_changed_is_deleted_and_is_the_last_one() {
    let labels = "labels that the selector does not match";
    for (app, controller, problem, preconditions) in [
        // The Pod has its controller, so that the binding by the scheduler does not prevent the deletion.
        ("other", Some("SET"), labels, json!({"uid": "web-x"})),
        ("other", None, labels, json!({"uid": "web-x", "resourceVersion": "8"})),
        ("web", Some("OTHER"), "another controller", json!({"uid": "web-x", "resourceVersion": "8"})),
    ] {
        let world = world(move |method, name, body| match method {
            "POST" => (201, stored_pod(app, controller)),
            _ => granting(method, name, body),
        });
        let (outcome, account) = world.run(sync(3)).await;
        let text =
            format!("pod \"web-x\" was stored with {problem}, probably because of an admission webhook or policy");
        assert_eq!(outcome.unwrap_err().to_string(), format!("cannot create Pods: {text}; it was deleted"));
        assert_eq!(*world.events.lock(), [format!("FailedCreate: Error creating: {text}; it was deleted")]);
        assert_eq!(world.requests()[2..], ["POST pods", "DELETE web-x"]);
        assert_eq!(world.requests.lock()[3].1["preconditions"], preconditions);
        assert_eq!(
            account[2..],
            [
                format!("create 3 Pods; 2 left out: {text}"),
                format!("delete Pod orphan: there are too many; 1 left out: {text}"),
                format!("delete Pod web-x: it does not belong to its owner; 1 added: {text}"),
            ]
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_changed_pod_that_cannot_be_deleted_is_reported_and_an_adoptable_one_stays() {
    let denied = world(|method, name, body| match (method, name) {
        ("POST", _) => (201, stored_pod("other", Some("SET"))),
        ("DELETE", "web-x") => (403, status("Forbidden", "no such right")),
        _ => granting(method, name, body),
    });
    let error = denied.run(sync(3)).await.0.unwrap_err();
    assert!(error.to_string().ends_with("; it cannot be deleted: no such right"), "{error}");
    assert_eq!(denied.events.lock().len(), 1);
    let adoptable = world(|method, name, body| match method {
        "POST" => (201, stored_pod("web", None)),
        _ => granting(method, name, body),
    });
    adoptable.run(sync(3)).await.0.unwrap();
    assert_eq!(adoptable.requests()[2..], ["POST pods", "POST pods", "POST pods", "DELETE orphan"]);
}

#[tokio::test(start_paused = true)]
async fn a_request_is_in_the_account_before_it_leaves() {
    let account: Arc<Mutex<Option<RequestAccount>>> = Arc::default();
    let (seen, told): (Arc<Mutex<Vec<usize>>>, _) = (Arc::default(), Arc::clone(&account));
    let sent = Arc::clone(&seen);
    let world = world(move |method, name, body| {
        let entries = told.lock().as_ref().unwrap().entries();
        sent.lock().push(entries.iter().map(|entry| entry.sent_count).sum());
        granting(method, name, body)
    });
    let forecast = forecast_sync(Timestamp::UNIX_EPOCH, sync(1));
    account.lock().clone_from(&forecast.request_account);
    world.executor.run(&world.memory, &world, world.decision_time(), forecast, sync(1)).await.unwrap();
    assert_eq!(*seen.lock(), [1, 2, 3, 4]);
}

#[tokio::test(start_paused = true)]
async fn a_change_of_a_child_ends_the_claim_and_the_ledger_waits_for_it() {
    let world = world(|method, name, body| match (method, name) {
        ("PATCH", "orphan") => (409, status("Conflict", "the object has been modified")),
        _ => granting(method, name, body),
    });
    let (outcome, account) = world.run(sync(1)).await;
    assert_eq!(outcome.unwrap(), Requeue::After(Duration::ZERO));
    assert!(account[2].ends_with("1 left out: adopt Pod orphan: the object has been modified"), "{account:?}");
    assert_eq!(world.ledger.len(), 1);
}

/// COMMON-27.
#[tokio::test(start_paused = true)]
async fn an_owner_that_was_replaced_adopts_nothing() {
    let world = world(|method, name, body| match method {
        "GET" => (200, json!({"metadata": {"name": "web", "uid": "OTHER"}})),
        _ => granting(method, name, body),
    });
    let (outcome, _) = world.run(sync(1)).await;
    let failed = outcome.unwrap_err();
    assert_eq!(failed.class().as_str(), "not_ours");
    assert_eq!(
        failed.to_string(),
        "can't recheck DeletionTimestamp: original ReplicaSet shop/web is gone: got uid OTHER, wanted SET"
    );
    assert_eq!(world.requests(), ["GET web"]);
}

/// Releases the Pod `orphan`.
async fn release(io: Io<'_, Memory>) -> Result<Requeue, SyncError> {
    ChildClaim::new(owner(), PODS, &[], &[pod("orphan")]).send(io).await.take_claim_result()?;
    Ok(Requeue::AfterPlannedDelay)
}

/// COMMON-106.
#[tokio::test(start_paused = true)]
async fn a_refused_release_has_failed_unless_the_server_has_another_object_of_the_name() {
    for (field, is_done) in [("metadata.uid", true), ("metadata.ownerReferences", false), ("", false)] {
        let world = world(move |_, _, _| {
            let mut refused = status("Invalid", "a policy forbids it");
            refused["code"] = json!(422);
            refused["details"] = json!({"causes": [{"reason": "FieldValueInvalid", "field": field}]});
            (422, refused)
        });
        let (outcome, _) = world.run(release).await;
        assert_eq!(world.requests(), ["PATCH orphan"]);
        assert_eq!(outcome.is_ok(), is_done, "{field}: {outcome:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_process_without_the_lease_stops_at_once_and_an_ending_process_begins_nothing_new() {
    let world = world(granting);
    *world.ends.lock() = true;
    let (outcome, account) = world.run(sync(2)).await;
    assert_eq!(outcome.unwrap(), Requeue::After(Duration::ZERO), "the claim is not complete");
    assert!(account.iter().all(|line| line.ends_with("left out: the process shuts down")), "{account:?}");
    assert!(world.requests().is_empty());
    *world.ends.lock() = false;
    world.keeper.close();
    let (outcome, account) = world.run(sync(2)).await;
    assert_eq!(outcome.unwrap_err().retry_policy, RetryPolicy::Never);
    assert!(account.iter().skip(2).all(|line| line.contains("not the leader")), "{account:?}");
}

/// COMMON-44.
#[tokio::test(start_paused = true)]
async fn a_sync_from_before_a_pause_ends_and_its_key_comes_back() {
    let world = world(granting);
    let clock = world.executor.api.clock().clone();
    let open = || world.keeper.open_until(clock.monotonic_now() + Duration::from_secs(10));
    // A pause of this length, for example by SIGSTOP, between the snapshot and the first write.
    for (pause, may_write) in [(9, true), (60, false)] {
        world.requests.lock().clear();
        open();
        let decided = world.decision_time();
        let forecast = forecast_sync(Timestamp::UNIX_EPOCH, sync(1));
        clock.sleep(Duration::from_secs(pause)).await;
        open();
        let outcome = world.executor.run(&world.memory, &world, decided, forecast, sync(1)).await;
        assert_eq!(world.requests().contains(&"POST pods".to_owned()), may_write, "{pause} s");
        assert_eq!(outcome.err().map(|error| error.retry_policy), (!may_write).then_some(RetryPolicy::Backoff));
    }
}

/// COMMON-44.
#[tokio::test(start_paused = true)]
async fn a_sync_keeps_the_lease_renewed_from_its_first_request_to_its_end() {
    let world = world(granting);
    let long_sync = async |io: Io<'_, Memory>| {
        io.pause(Duration::from_mins(1)).await;
        sync(1)(io).await
    };
    let has_demand = || {
        world.keeper.clear_write_demand();
        world.keeper.has_write_demand()
    };
    let forecast = forecast_sync(Timestamp::UNIX_EPOCH, long_sync);
    let run = world.executor.run(&world.memory, &world, world.decision_time(), forecast, long_sync);
    let during = async {
        world.executor.api.clock().sleep(Duration::from_secs(30)).await;
        has_demand()
    };
    let (outcome, during) = tokio::join!(run, during);
    outcome.unwrap();
    assert_eq!((during, has_demand()), (true, false));
}

#[tokio::test(start_paused = true)]
async fn an_adopted_child_is_not_mistaken_for_the_child_of_a_lost_create() {
    let world = world(|method, name, body| match method {
        "POST" => (504, status("Timeout", "no answer")),
        _ => granting(method, name, body),
    });
    world.run(sync(1)).await.0.unwrap_err();
    let behind = |children: &[&str]| {
        let children = children.iter().map(|uid| Uid::new(uid)).collect();
        world.ledger.first_unseen_write(&Uid::new("SET"), || children).map(|(behind, _)| behind.to_string())
    };
    assert!(behind(&["orphan"]).is_some_and(|behind| behind.contains("1 ")), "{:?}", behind(&["orphan"]));
    assert_eq!(behind(&["orphan", "made"]), None);
}

/// Patches the Pod `a` twice, and records the version after the first patch as an Event.
async fn twice(io: Io<'_, Memory>) -> Result<Requeue, SyncError> {
    let body = || io.encode_body(|| json!({"metadata": {"labels": {"a": "b"}}}));
    let request = || Request::patch(PODS, &pod("a").0, PatchFormat::Merge, body()).with_role(ObjectRole::Child);
    let version = io.send(request()).await.map(|answer| answer.metadata.version);
    io.record_event(EventType::Normal, "Wrote", format!("{version:?}"));
    let _ = io.send(request()).await;
    Ok(Requeue::AfterPlannedDelay)
}

/// COMMON-26.
#[tokio::test(start_paused = true)]
async fn the_second_write_of_an_object_follows_the_first() {
    let world = world(|_, name, body| {
        let at = &body["metadata"];
        assert_eq!((&at["uid"], &at["labels"]["a"]), (&json!("a"), &json!("b")));
        (200, object(name, if at["resourceVersion"] == "5" { 6 } else { 9 }))
    });
    world.run(twice).await.0.unwrap();
    let versions: Vec<Value> =
        world.requests.lock().iter().map(|(_, body)| body["metadata"]["resourceVersion"].clone()).collect();
    assert_eq!(versions, ["5", "6"]);
    assert_eq!(*world.events.lock(), ["Wrote: Ok(6)"]);
    assert!(world.ledger.may_have_unseen_write(&Uid::new("SET"), &PODS));
}

/// Changes the controller's memory and sends nothing.
async fn notes(io: Io<'_, Memory>) -> Result<Requeue, SyncError> {
    io.update_memory(|memory| memory.lock().push(4));
    Ok(Requeue::AfterBackoff)
}

#[test]
fn a_forecast_without_requests_has_no_account() {
    assert!(forecast_sync(Timestamp::UNIX_EPOCH, notes).request_account.is_none());
}

/// Reads the metadata of an object, pauses for 10 to 15 seconds, and observes again.
async fn asks(io: Io<'_, Memory>) -> Result<Requeue, SyncError> {
    let _ = io.send(Request::get_metadata(PODS, &"shop".into(), &"a".into())).await;
    io.pause_with_jitter(Duration::from_secs(10), 0.5).await;
    if let Some(fresh) = io.observe_again(|_| Some(42)) {
        io.update_memory(|memory| memory.lock().push(fresh));
    }
    Ok(Requeue::AfterPlannedDelay)
}

#[tokio::test(start_paused = true)]
async fn a_pause_is_lengthened_and_a_sync_observes_again() {
    let world = world(granting);
    let clock = world.executor.api.clock();
    let begun = clock.monotonic_now();
    let (_, account) = world.run(asks).await;
    assert_eq!((&*account, world.requests()), (&["read Pod a".to_owned()][..], vec!["GET a".to_owned()]));
    assert_eq!(*world.memory.lock(), [42]);
    let took = clock.monotonic_now() - begun;
    assert!(took > Duration::from_secs(10) && took < Duration::from_secs(15), "{took:?}");
}

/// Lists objects, then patches one object three times for two different reasons.
async fn lists_and_patches(io: Io<'_, Memory>) -> Result<Requeue, SyncError> {
    let list = Request::list(PODS, &"shop".into(), "labelSelector=app%3Dweb".to_owned());
    if let Ok(Some(list)) = io.send_and_decode::<Value>(list).await {
        io.update_memory(|memory| memory.lock().push(u32::from(list["items"].is_array())));
    }
    for why in ["it is old", "it is large", "it is old"] {
        let _ = io
            .send(Request::patch(PODS, &pod("a").0, PatchFormat::Merge, RequestBody::default()).with_reason(why))
            .await;
    }
    Ok(Requeue::AfterPlannedDelay)
}

#[tokio::test(start_paused = true)]
async fn equal_requests_share_a_line_with_all_reasons() {
    let world = world(|method, name, body| match (method, name) {
        ("GET", "pods") => (200, json!({"items": []})),
        _ => granting(method, name, body),
    });
    let (_, account) = world.run(lists_and_patches).await;
    assert_eq!(account, ["list 1 Pod", "patch Pod a (3 times): it is old; it is large"]);
    assert_eq!(world.requests(), ["GET pods", "PATCH a", "PATCH a", "PATCH a"]);
    assert_eq!(*world.memory.lock(), [1]);
}

/// Replaces a Pod twice, and stores for each refusal whether the Pod does not exist.
async fn replace_twice(io: Io<'_, Memory>) -> Result<Requeue, SyncError> {
    for _ in 0..2 {
        let body =
            || json!({"metadata": {"name": "a", "uid": "a", "resourceVersion": "5"}, "spec": {"containers": []}});
        let body = io.encode_object(&PODS, &messages::POD, body);
        if let Err(refusal) = io.send(Request::replace(PODS, &pod("a").0, body)).await {
            io.update_memory(|memory| memory.lock().push(refusal.is_not_found().into()));
        }
    }
    Ok(Requeue::AfterPlannedDelay)
}

#[tokio::test(start_paused = true)]
async fn a_replacement_follows_the_last_write_of_the_sync_in_both_formats() {
    for format in [WireFormat::Json, WireFormat::Protobuf] {
        let mut world = world(|_, name, _| (200, object(name, 7)));
        world.executor.api = world.executor.api.with_preferred_format(format);
        world.run(replace_twice).await.0.unwrap();
        let requests = world.requests.lock();
        for ((line, body), version) in requests.iter().zip(["5", "7"]) {
            let metadata = json!({"name": "a", "uid": "a", "resourceVersion": version});
            assert_eq!((&**line, &body["metadata"]), ("PUT a", &metadata));
        }
        assert!(world.targets.lock().iter().all(|target| target.ends_with(format.media_type())));
    }
}

#[tokio::test(start_paused = true)]
async fn a_replacement_recognizes_a_recreated_namesake() {
    let text = "Precondition failed: UID in precondition: a, UID in object meta: b";
    for (message, is_not_found) in [(text, 1), ("it was modified", 0)] {
        let world = world(move |_, _, _| (409, status("Conflict", message)));
        world.run(replace_twice).await.0.unwrap();
        assert_eq!(*world.memory.lock(), [is_not_found, is_not_found]);
    }
}

#[test]
fn created_objects_are_named_by_the_kind_in_the_request() {
    let create = |kind| Request::create(PODS, &"shop".into(), &"".into(), RequestBody::default()).with_kind(kind);
    let forecast = forecast_sync(Timestamp::UNIX_EPOCH, async |io: Io<'_, Memory>| {
        for kind in ["IPv4 Pod", "IPv6 Pod", "IPv4 Pod"] {
            let _ = io.send(create(kind)).await;
        }
        Ok(Requeue::AfterPlannedDelay)
    });
    assert_eq!(forecast.request_account.unwrap().describe_writes(), ["create 2 IPv4 Pods", "create 1 IPv6 Pod"]);
}

#[tokio::test(start_paused = true)]
async fn a_deletion_is_awaited_once_the_server_confirms_it() {
    for (code, reason, awaited) in [(200, "", 1), (404, "NotFound", 1), (409, "Conflict", 0), (500, "InternalError", 0)]
    {
        let world = world(move |_, name, _| match code {
            200 => (code, object(name, 7)),
            _ => (code, status(reason, "refused")),
        });
        let delete = async |io: Io<'_, Memory>| {
            let _ = io.send(Request::delete(PODS, &pod("a").0).with_role(ObjectRole::AwaitedObject)).await;
            Ok(Requeue::AfterPlannedDelay)
        };
        world.run(delete).await.0.unwrap();
        assert_eq!(world.ledger.len(), awaited, "{code}");
    }
}

/// A subject that panics when the executor reads its object or its children.
struct Nameless;

impl SyncSubject for Nameless {
    fn object(&self) -> InvolvedObject {
        panic!("the object must not be read")
    }
    fn ledger_owner(&self) -> LedgerOwner {
        panic!("the owner must not be read")
    }
    fn child_uids(&self) -> HashSet<Uid> {
        panic!("the children must not be read")
    }
}

#[tokio::test(start_paused = true)]
async fn a_sync_that_changes_only_memory_does_not_name_its_object() {
    let world = world(granting);
    let forecast = forecast_sync(Timestamp::UNIX_EPOCH, notes);
    assert_eq!(*world.memory.lock(), [0; 0], "a forecast changes nothing");
    let outcome = world.executor.run(&world.memory, &Nameless, world.decision_time(), forecast, notes).await;
    assert_eq!(outcome.unwrap(), Requeue::AfterBackoff);
    assert_eq!(*world.memory.lock(), [4]);
}

#[tokio::test(start_paused = true)]
async fn no_more_members_than_permitted_are_in_flight() {
    let world = world(granting);
    let patch = async |io: Io<'_, Memory>, name| {
        let answer = io.send(Request::patch(PODS, &pod(name).0, PatchFormat::Merge, RequestBody::default())).await;
        io.pause(Duration::from_secs(1)).await;
        answer
    };
    let clock = world.executor.api.clock();
    let begun = clock.monotonic_now();
    let group = async |io: Io<'_, Memory>| {
        io.run_group(GroupConcurrency::LimitedConcurrent(2), ["a", "b", "c"], |name| patch(io, name)).await;
        Ok(Requeue::AfterPlannedDelay)
    };
    world.run(group).await.0.unwrap();
    assert_eq!(world.requests(), ["PATCH a", "PATCH b", "PATCH c"]);
    assert_eq!((clock.monotonic_now() - begun).as_secs(), 2);
}

/// A sync may await requests, pauses and groups of requests. Any other wait would block the sync for ever, even in a forecast.
#[tokio::test(start_paused = true)]
#[should_panic(expected = "awaits something other")]
async fn a_sync_that_awaits_anything_but_io_is_a_bug() {
    let world = world(granting);
    let foreign = async |io: Io<'_, Memory>| {
        let _ = io.send(Request::get(PODS, &"shop".into(), &"a".into())).await;
        if io.observe_again(|_| Some(())).is_some() {
            std::future::pending::<()>().await;
        }
        Ok(Requeue::AfterPlannedDelay)
    };
    let _ = world.run(foreign).await;
}

/// Applies a label of the object of the sync twice.
async fn applies_twice(io: Io<'_, Memory>) -> Result<Requeue, SyncError> {
    let set = Meta {
        name: "web".into(),
        uid: Uid::new("SET"),
        resource_version: ResourceVersion::parse("5"),
        ..Meta::default()
    };
    let body = || io.encode_body(|| json!({"metadata": {"name": "web", "labels": {"a": "b"}}}));
    for _ in 0..2 {
        let apply = Request::apply(SETS, &set.namespace, &set.name, "my-loop", body())
            .with_precondition(Some(Precondition::for_exact_version(&set)))
            .with_role(ObjectRole::SyncedObject);
        let _ = io.send(apply).await;
    }
    Ok(Requeue::AfterPlannedDelay)
}

/// COMMON-26.
#[tokio::test(start_paused = true)]
async fn an_apply_names_its_object_at_the_version_of_the_last_write_of_the_sync() {
    let world = world(|_, _, body| {
        let next = if body["metadata"]["resourceVersion"] == "5" { "6" } else { "7" };
        (200, json!({"metadata": {"name": "web", "uid": "SET", "resourceVersion": next}}))
    });
    world.run(applies_twice).await.0.unwrap();
    let metadata: Vec<Value> = world.requests.lock().iter().map(|(_, body)| body["metadata"].clone()).collect();
    let named = |version| json!({"name": "web", "uid": "SET", "resourceVersion": version, "labels": {"a": "b"}});
    assert_eq!(metadata, [named("5"), named("6")]);
    assert!(world.ledger.may_have_unseen_write(&Uid::new("SET"), &SETS));
}

#[tokio::test(start_paused = true)]
async fn the_next_sync_after_a_refused_apply_waits_for_the_cache() {
    let uid = json!({"causes": [{"reason": "FieldValueInvalid", "field": "metadata.uid"}]});
    for (code, reason, details, is_awaited) in [
        (409, "Conflict", json!({}), true),
        (404, "NotFound", json!({}), true),
        (422, "Invalid", uid, true),
        (422, "Invalid", json!({}), false),
        (403, "Forbidden", json!({}), false),
    ] {
        let world = world(move |_, _, _| {
            let mut refused = status(reason, "refused");
            refused["code"] = json!(code);
            refused["details"] = details.clone();
            (code, refused)
        });
        world.run(applies_twice).await.0.unwrap();
        assert_eq!(world.ledger.len(), usize::from(is_awaited), "{code} {reason}");
    }
}

/// Sends the requests whose paths are not those of single objects.
async fn addresses(io: Io<'_, Memory>) -> Result<Requeue, SyncError> {
    let (shop, web) = (&"shop".into(), &Arc::from("web"));
    let body = || io.encode_body(|| json!({"kind": "Pod"}));
    for request in [
        Request::delete_collection(PODS, shop, "labelSelector=app%3Dweb".to_owned()),
        Request::apply(PODS, shop, web, "my-loop", body()),
        Request::create(PODS, shop, web, body()).with_subresource("eviction"),
        Request::get(SETS, shop, web).with_subresource("scale"),
        Request::get_path("/apis/metrics.k8s.io/v1beta1/pods?limit=5".to_owned(), PODS, web),
    ] {
        io.send(request).await.map_err(|refusal| SyncError::from_refusal("", &refusal))?;
    }
    Ok(Requeue::AfterPlannedDelay)
}

#[tokio::test(start_paused = true)]
async fn collections_subresources_and_paths_are_addressed() {
    let world = world(granting);
    let (outcome, account) = world.run(addresses).await;
    outcome.unwrap();
    let wanted = ["delete all 1 Pod", "apply Pod web", "create Pod web", "read ReplicaSet web", "read Pod web"];
    assert_eq!(account, wanted);
    let pods = "/api/v1/namespaces/shop/pods";
    assert_eq!(
        *world.targets.lock(),
        [
            format!("{pods}?labelSelector=app%3Dweb "),
            format!("{pods}/web?fieldManager=my-loop&force=true application/apply-patch+yaml"),
            format!("{pods}/web/eviction?fieldManager=kube-controller-manager application/json"),
            "/apis/apps/v1/namespaces/shop/replicasets/web/scale ".to_owned(),
            "/apis/metrics.k8s.io/v1beta1/pods?limit=5 ".to_owned(),
        ]
    );
}
