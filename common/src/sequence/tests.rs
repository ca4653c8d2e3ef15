//! Sequences against a scripted server, in virtual time.

mod history;

use std::sync::Arc;

use http::{Request as HttpRequest, Response};
use http_body_util::{BodyExt as _, Full};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::*;
use crate::{
    api::{Api, Patch},
    clock::Clock,
    consistency::Ledger,
    events::{ObjectRef, Recorder},
    gate::{Keeper, gate},
    map::HashSet,
    meta::{Uid, Version},
    object::Resource,
    pods::PODS,
    refs::{HasMeta, Owner},
};

const SETS: Resource =
    Resource { group: "apps", version: "v1", plural: "replicasets", kind: "ReplicaSet", namespaced: true };

/// A note of the tests.
#[derive(Debug)]
struct Count(u32);

impl Note for Count {
    type Question = u32;
    type Fresh = u32;
}

/// What the server says to a request: method, last segments of the path, body.
type Script = dyn Fn(&str, &str, &Value) -> (u16, Value) + Send + Sync;

struct World {
    executor: Executor,
    keeper: Keeper,
    ledger: Ledger,
    requests: Arc<Mutex<Vec<(String, Value)>>>,
    events: Arc<Mutex<Vec<String>>>,
    notes: Mutex<Vec<u32>>,
    ends: Arc<Mutex<bool>>,
}

fn world(script: impl Fn(&str, &str, &Value) -> (u16, Value) + Send + Sync + 'static) -> World {
    let script: Arc<Script> = Arc::new(script);
    let requests: Arc<Mutex<Vec<(String, Value)>>> = Arc::default();
    let seen = Arc::clone(&requests);
    let service = tower::service_fn(move |request: HttpRequest<kube::client::Body>| {
        let (script, seen) = (Arc::clone(&script), Arc::clone(&seen));
        async move {
            let (method, path) = (request.method().to_string(), request.uri().path().to_owned());
            let name = path.rsplit('/').next().unwrap_or_default().to_owned();
            let bytes = request.into_body().collect().await.map_err(|error| error.to_string())?.to_bytes();
            let body = serde_json::from_slice(&bytes).unwrap_or_default();
            seen.lock().push((format!("{method} {name}"), body));
            let body = seen.lock().last().map(|(_, body)| body.clone()).unwrap_or_default();
            let (code, answer) = script(&method, &name, &body);
            let answer = Full::new(Bytes::from(answer.to_string()));
            Ok::<_, tower::BoxError>(Response::builder().status(code).body(answer)?)
        }
    });
    let clock = Clock::simulated(Timestamp::UNIX_EPOCH, 0);
    let (keeper, gate) = gate(clock.clone());
    keeper.open();
    let api = Api::new(kube::Client::new(service, "default"), clock.clone(), gate, "test");
    let events: Arc<Mutex<Vec<String>>> = Arc::default();
    let told = Arc::clone(&events);
    let recorder = Recorder::tapped("test", clock.clone(), move |_, _, reason, message| {
        told.lock().push(format!("{reason}: {message}"));
    });
    let ledger = Ledger::new(clock, Duration::from_mins(5));
    let ends: Arc<Mutex<bool>> = Arc::default();
    let ended = Arc::clone(&ends);
    let executor =
        Executor { api, recorder, ledger: Some(ledger.clone()), accounts: None, ends: Arc::new(move || *ended.lock()) };
    World { executor, keeper, ledger, requests, events, notes: Mutex::default(), ends }
}

impl World {
    async fn execute(&self, make: impl Fn() -> Box<dyn Sequence<Count>>) -> (Result<Requeue, Failed>, Vec<String>) {
        let forecast = forecast(&mut *make(), Timestamp::UNIX_EPOCH);
        let account = forecast.account.clone().unwrap();
        let subject = Subject {
            object: &|| (ObjectRef::bare(SETS, "shop", "web", Uid::new("SET")), Uid::new("SET")),
            children: &HashSet::default,
            note: &|Count(note)| self.notes.lock().push(note),
            fresh: &|question| Some(question + 1),
        };
        let outcome = self.executor.execute(&subject, &mut *make(), forecast).await;
        (outcome, account.entries().iter().map(ToString::to_string).collect())
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
        resource_version: Version::parse("5"),
        ..Meta::default()
    };
    Box::leak(Box::new(Pod(meta)))
}

fn owner() -> &'static Owner {
    let meta = Meta { namespace: "shop".into(), name: "web".into(), uid: Uid::new("SET"), ..Meta::default() };
    Box::leak(Box::new(Owner::new(SETS, &meta)))
}

fn object(name: &str, version: u32) -> Value {
    json!({"metadata": {"name": name, "uid": name, "resourceVersion": version.to_string()}})
}

fn status(reason: &str, message: &str) -> Value {
    json!({"kind": "Status", "reason": reason, "message": message})
}

/// Adopts a Pod, creates Pods, deletes the adopted one, and patches another twice.
struct Scenario {
    claim: Claim<'static, &'static Pod, Count>,
    creates: Vec<CreatePod>,
    delete: DeletePod,
}

fn sync(creates: usize) -> Box<dyn Sequence<Count>> {
    let adopt: &'static [&'static Pod] = Vec::leak(vec![pod("orphan")]);
    let pod_to_create = || CreatePod::new(&"shop".into(), &"".into(), Body::default());
    let state = Scenario {
        claim: Claim::new(owner(), PODS, &[], adopt, &[]),
        creates: (0..creates).map(|_| pod_to_create()).collect(),
        delete: DeletePod::new(&adopt[0].0, "there are too many"),
    };
    Box::new(Steps::new(state, |_, turn: &mut Turn<Count>| {
        turn.note(Count(1));
        Step::All(|sync| vec![&mut sync.claim], Pace::AtOnce, create)
    }))
}

fn create(sync: &mut Scenario, turn: &mut Turn<Count>) -> Step<Scenario, Count> {
    match sync.claim.outcome() {
        Ok(Claimed::Done) if sync.claim.is_complete() => {
            turn.note(Count(2));
            Step::All(|sync| members(&mut sync.creates), Pace::SlowStart(usize::MAX), delete)
        }
        Ok(_) => {
            turn.end(Ok(Requeue::After(Duration::ZERO)));
            Step::Done
        }
        Err(failed) => {
            turn.end(Err(failed));
            Step::Done
        }
    }
}

fn delete(sync: &mut Scenario, turn: &mut Turn<Count>) -> Step<Scenario, Count> {
    if let Some(refusal) = sync.creates.iter().find_map(CreatePod::failure) {
        turn.end(Err(Failed::request("cannot create Pods", refusal)));
        return Step::Done;
    }
    Step::All(|sync| vec![&mut sync.delete], Pace::AtOnce, |_, _| Step::Done)
}

/// A server that grants everything; versions count up.
fn granting(method: &str, name: &str, _: &Value) -> (u16, Value) {
    match method {
        "GET" => (200, json!({"metadata": {"name": "web", "uid": "SET", "resourceVersion": "3"}})),
        "POST" => (201, object("web-x", 8)),
        _ => (200, object(name, 7)),
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_granted_is_as_forecast() {
    let world = world(granting);
    let (outcome, account) = world.execute(|| sync(3)).await;
    assert_eq!(outcome.unwrap(), Requeue::No);
    assert_eq!(
        account,
        [
            "read ReplicaSet web: to adopt, it must still be there and not be deleted",
            "adopt Pod orphan: nobody controls it and it is selected",
            "create 3 Pods",
            "delete Pod orphan: there are too many",
        ]
    );
    assert_eq!(world.requests(), ["GET web", "PATCH orphan", "POST pods", "POST pods", "POST pods", "DELETE orphan"]);
    assert_eq!(*world.notes.lock(), [1, 2]);
    assert_eq!(world.events.lock().last().unwrap(), "SuccessfulDelete: Deleted pod: orphan");
    assert_eq!(world.events.lock().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_write_names_the_object_that_was_judged_at_the_version_at_which_the_sync_has_left_it() {
    let world = world(granting);
    world.execute(|| sync(0)).await.0.unwrap();
    let requests = world.requests.lock();
    let (adoption, deletion) = (&requests[1].1, &requests[2].1);
    assert_eq!(
        (&adoption["metadata"]["uid"], &adoption["metadata"]["resourceVersion"]),
        (&json!("orphan"), &json!("5"))
    );
    assert_eq!(adoption["metadata"]["ownerReferences"][0]["uid"], "SET");
    assert_eq!(deletion["preconditions"], json!({"uid": "orphan", "resourceVersion": "7"}));
}

#[tokio::test(start_paused = true)]
async fn what_is_left_out_and_what_is_added_say_why() {
    let world = world(|method, name, body| match method {
        "POST" => (403, status("Forbidden", "exceeded quota")),
        _ => granting(method, name, body),
    });
    let (outcome, account) = world.execute(|| sync(3)).await;
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
async fn a_request_is_in_the_account_before_it_leaves() {
    let account: Arc<Mutex<Option<Account>>> = Arc::default();
    let (seen, told): (Arc<Mutex<Vec<usize>>>, _) = (Arc::default(), Arc::clone(&account));
    let sent = Arc::clone(&seen);
    let world = world(move |method, name, body| {
        let entries = told.lock().as_ref().unwrap().entries();
        sent.lock().push(entries.iter().map(|entry| entry.sent).sum());
        granting(method, name, body)
    });
    let forecast = forecast(&mut *sync(1), Timestamp::UNIX_EPOCH);
    account.lock().clone_from(&forecast.account);
    let subject = Subject {
        object: &|| (ObjectRef::default(), Uid::new("SET")),
        children: &HashSet::default,
        note: &|_| {},
        fresh: &|question| Some(question + 1),
    };
    world.executor.execute(&subject, &mut *sync(1), forecast).await.unwrap();
    assert_eq!(*seen.lock(), [1, 2, 3, 4]);
}

#[tokio::test(start_paused = true)]
async fn a_change_of_a_child_ends_the_claim_and_the_ledger_waits_for_it() {
    let world = world(|method, name, body| match (method, name) {
        ("PATCH", "orphan") => (409, status("Conflict", "the object has been modified")),
        _ => granting(method, name, body),
    });
    let (outcome, account) = world.execute(|| sync(1)).await;
    assert_eq!(outcome.unwrap(), Requeue::After(Duration::ZERO));
    assert!(account[2].ends_with("1 left out: adopt Pod orphan: the object has been modified"), "{account:?}");
    assert_eq!(world.ledger.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_is_deleted_adopts_nothing() {
    let world = world(|method, name, body| match method {
        "GET" => (200, json!({"metadata": {"name": "web", "uid": "OTHER"}})),
        _ => granting(method, name, body),
    });
    let (outcome, _) = world.execute(|| sync(1)).await;
    let failed = outcome.unwrap_err();
    assert_eq!(failed.label(), "not_ours");
    assert_eq!(
        failed.to_string(),
        "can't recheck DeletionTimestamp: original ReplicaSet shop/web is gone: got uid OTHER, wanted SET"
    );
    assert_eq!(world.requests(), ["GET web"]);
}

#[tokio::test(start_paused = true)]
async fn who_may_not_write_stops_at_once_and_who_ends_begins_nothing_new() {
    let world = world(granting);
    *world.ends.lock() = true;
    let (outcome, account) = world.execute(|| sync(2)).await;
    assert_eq!(outcome.unwrap(), Requeue::After(Duration::ZERO), "the claim is not complete");
    assert!(account.iter().all(|line| line.ends_with("left out: the process ends")), "{account:?}");
    assert!(world.requests().is_empty());
    *world.ends.lock() = false;
    world.keeper.close();
    let (outcome, account) = world.execute(|| sync(2)).await;
    assert_eq!(outcome.unwrap_err().retry, Retry::Stop);
    assert!(account.iter().skip(2).all(|line| line.contains("this process may not write any more")), "{account:?}");
}

/// Writes the same object twice.
fn twice() -> Box<dyn Sequence<Count>> {
    fn request(turn: &Turn<Count>) -> Request {
        let body = turn.body(|| json!({"metadata": {"labels": {"a": "b"}}}));
        Request::patch(PODS, &pod("a").0, Patch::Merge, body).role(Role::Child)
    }
    Box::new(Steps::new((), |(), turn: &mut Turn<Count>| {
        Step::Send(request(turn), |(), turn| {
            let version = turn.written().map(|fields| fields.version);
            turn.tell(EventType::Normal, "Wrote", format!("{version:?}"));
            Step::Send(request(turn), |(), _| Step::Done)
        })
    }))
}

#[tokio::test(start_paused = true)]
async fn the_second_write_of_an_object_follows_the_first() {
    let world = world(|_, name, body| {
        let at = &body["metadata"];
        assert_eq!((&at["uid"], &at["labels"]["a"]), (&json!("a"), &json!("b")));
        (200, object(name, if at["resourceVersion"] == "5" { 6 } else { 9 }))
    });
    world.execute(twice).await.0.unwrap();
    let versions: Vec<Value> =
        world.requests.lock().iter().map(|(_, body)| body["metadata"]["resourceVersion"].clone()).collect();
    assert_eq!(versions, ["5", "6"]);
    assert_eq!(*world.events.lock(), ["Wrote: Ok(6)"]);
    assert!(world.ledger.awaits_write(&Uid::new("SET"), PODS));
}

#[test]
fn a_forecast_that_sends_nothing_is_quiet() {
    let mut quiet: Box<dyn Sequence<Count>> = Box::new(Steps::new((), |(), turn: &mut Turn<Count>| {
        turn.note(Count(4));
        turn.end(Ok(Requeue::RateLimited));
        Step::Done
    }));
    let forecast = forecast(&mut *quiet, Timestamp::UNIX_EPOCH);
    assert!(forecast.account.is_none());
    assert!(matches!(forecast.effects[..], [Effect::Note(Count(4))]));
}

/// Reads the metadata of an object, waits, and asks memory something.
fn asks() -> Box<dyn Sequence<Count>> {
    let read = Request::get_metadata(PODS, &"shop".into(), &"a".into());
    Box::new(Steps::new(Some(read), |read: &mut Option<Request>, _: &mut Turn<Count>| {
        let Some(read) = read.take() else { return Step::Done };
        Step::Send(read, |_, _| {
            Step::PauseWithJitter(Duration::from_secs(10), 0.5, |_, _| {
                Step::Observe(41, |_, turn| {
                    if let Some(fresh) = turn.fresh() {
                        turn.note(Count(fresh));
                    }
                    Step::Done
                })
            })
        })
    }))
}

#[tokio::test(start_paused = true)]
async fn a_pause_is_lengthened_and_a_question_is_answered() {
    let world = world(granting);
    let clock = world.executor.api.clock();
    let begun = clock.instant();
    let (_, account) = world.execute(asks).await;
    assert_eq!((&*account, world.requests()), (&["read Pod a".to_owned()][..], vec!["GET a".to_owned()]));
    assert_eq!(*world.notes.lock(), [42]);
    let took = clock.instant() - begun;
    assert!(took > Duration::from_secs(10) && took < Duration::from_secs(15), "{took:?}");
}

/// Lists objects, then patches one for each of these reasons.
fn lists_and_patches() -> Box<dyn Sequence<Count>> {
    fn patch(reasons: &mut Vec<&'static str>, _: &mut Turn<Count>) -> Step<Vec<&'static str>, Count> {
        let Some(why) = reasons.pop() else { return Step::Done };
        Step::Send(Request::patch(PODS, &pod("a").0, Patch::Merge, Body::default()).because(why), patch)
    }
    Box::new(Steps::new(vec!["it is old", "it is large", "it is old"], |_, _| {
        let list = Request::list(PODS, &"shop".into(), "labelSelector=app%3Dweb".to_owned());
        Step::Send(list, |reasons, turn| {
            if let Ok(Some(list)) = turn.read::<Value>() {
                turn.note(Count(u32::from(list["items"].is_array())));
            }
            patch(reasons, turn)
        })
    }))
}

#[tokio::test(start_paused = true)]
async fn requests_that_are_alike_are_one_line_with_all_reasons() {
    let world = world(|method, name, body| match (method, name) {
        ("GET", "pods") => (200, json!({"items": []})),
        _ => granting(method, name, body),
    });
    let (_, account) = world.execute(lists_and_patches).await;
    assert_eq!(account, ["list 1 Pod", "patch Pod a (3 times): it is old; it is large"]);
    assert_eq!(world.requests(), ["GET pods", "PATCH a", "PATCH a", "PATCH a"]);
    assert_eq!(*world.notes.lock(), [1]);
}

#[test]
fn what_is_created_is_named_in_the_words_of_the_request() {
    let create = |kind| Request::create(PODS, &"shop".into(), &"".into(), Body::default()).kind(kind);
    let mut creates = Steps::new(vec!["IPv4 Pod", "IPv6 Pod", "IPv4 Pod"].into_iter().map(create), create_next);
    assert_eq!(
        forecast(&mut creates, Timestamp::UNIX_EPOCH).account.unwrap().lines(),
        ["create 2 IPv4 Pods", "create 1 IPv6 Pod"]
    );
}

fn create_next<I: Iterator<Item = Request>>(creates: &mut I, _: &mut Turn<Count>) -> Step<I, Count> {
    creates.next().map_or(Step::Done, |create| Step::Send(create, create_next))
}

#[tokio::test(start_paused = true)]
async fn an_awaited_deletion_is_awaited_once_the_object_is_known_to_be_gone() {
    for (code, reason, awaited) in [(200, "", 1), (404, "NotFound", 1), (409, "Conflict", 0), (500, "InternalError", 0)]
    {
        let world = world(move |_, name, _| match code {
            200 => (code, object(name, 7)),
            _ => (code, status(reason, "refused")),
        });
        let delete = || {
            let delete = Request::delete(PODS, &pod("a").0).role(Role::Awaited);
            let state = vec![delete].into_iter();
            Box::new(Steps::new(state, create_next)) as Box<dyn Sequence<Count>>
        };
        world.execute(delete).await.0.unwrap();
        assert_eq!(world.ledger.len(), awaited, "{code}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_sync_that_changes_only_memory_does_not_name_its_object() {
    let world = world(granting);
    let mut notes = Steps::new((), |(), turn: &mut Turn<Count>| {
        turn.note(Count(4));
        Step::Done
    });
    let forecast = forecast(&mut notes, Timestamp::UNIX_EPOCH);
    let subject = Subject {
        object: &|| panic!("nobody needs it"),
        children: &HashSet::default,
        note: &|Count(note)| world.notes.lock().push(note),
        fresh: &Some,
    };
    assert_eq!(world.executor.execute(&subject, &mut notes, forecast).await.unwrap(), Requeue::No);
    assert_eq!(*world.notes.lock(), [4]);
}

#[tokio::test(start_paused = true)]
async fn members_are_begun_while_there_is_room() {
    let world = world(granting);
    let patch = |name| {
        Steps::new(name, |name: &mut &'static str, _: &mut Turn<Count>| {
            let first = Request::patch(PODS, &pod(name).0, Patch::Merge, Body::default());
            Step::Send(first, |_, _| Step::PauseWithJitter(Duration::from_secs(1), 0.0, |_, _| Step::Done))
        })
    };
    let clock = world.executor.api.clock();
    let begun = clock.instant();
    let group = || -> Box<dyn Sequence<Count>> {
        Box::new(Steps::new(vec![patch("a"), patch("b"), patch("c")], |_, _| {
            Step::All(|all| members(all), Pace::AtMost(2), |_, _| Step::Done)
        }))
    };
    world.execute(group).await.0.unwrap();
    assert_eq!(world.requests(), ["PATCH a", "PATCH b", "PATCH c"]);
    assert_eq!((clock.instant() - begun).as_secs(), 2);
}
