//! What the sandbox promises beyond recorded behaviour: clients without sockets, watches, faults, rights, transports.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

use std::time::Duration;

use bytes::Bytes;
use common::clock::Clock;
use futures::{StreamExt as _, TryStreamExt as _};
use http::Request;
use http_body_util::{BodyExt as _, Full};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams, WatchEvent, WatchParams},
    config::KubeConfigOptions,
};
use proptest::prelude::*;
use sandbox::{ADMIN, Action, Change, ConnectionCut, Credential, Refused, Rule, Sandbox, Tls};
use serde_json::{Value, json};
use tower::ServiceExt as _;

fn clock() -> Clock {
    Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap(), 7)
}

fn sandbox() -> Sandbox {
    Sandbox::builder().clock(clock()).build()
}

fn config_map(name: &str) -> ConfigMap {
    ConfigMap { metadata: ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() }, ..ConfigMap::default() }
}

fn raw_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}})
}

fn maps(sandbox: &Sandbox, identity: &str) -> Api<ConfigMap> {
    Api::namespaced(sandbox.client(identity), "default")
}

fn pod(name: &str, node: Option<&str>) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": name}},
        "spec": {"containers": [{"name": "c", "image": "i:1"}]}
    });
    if let Some(node) = node {
        pod["spec"]["nodeName"] = node.into();
    }
    pod
}

/// The type and the name of the next event of a watch, and the address of its Pod.
async fn pod_event(watch: &mut Lines) -> (String, String, String) {
    let event = watch.event().await;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let pod = &event["object"];
    (text(&event["type"]), text(&pod["metadata"]["name"]), text(&pod["status"]["podIP"]))
}

/// A watch as lines, read one at a time.
struct Lines {
    body: sandbox::ResponseBody,
    text: Vec<u8>,
}

impl Lines {
    async fn open(sandbox: &Sandbox, identity: &str, path: &str) -> Self {
        let request = Request::get(path).body(Full::new(Bytes::new())).unwrap();
        let response = sandbox.service(identity).oneshot(request).await.unwrap();
        assert_eq!(response.status(), 200);
        Self { body: response.into_body(), text: Vec::new() }
    }

    /// The next line; nothing at the end of the stream.
    async fn next(&mut self) -> Option<Result<String, ConnectionCut>> {
        loop {
            if let Some(end) = self.text.iter().position(|c| *c == b'\n') {
                let line: Vec<u8> = self.text.drain(..=end).collect();
                return Some(Ok(String::from_utf8_lossy(&line).into_owned()));
            }
            match self.body.frame().await {
                None | Some(Err(_)) if !self.text.is_empty() => {
                    return Some(Ok(String::from_utf8_lossy(&std::mem::take(&mut self.text)).into_owned()));
                }
                None => return None,
                Some(Ok(frame)) => self.text.extend_from_slice(frame.data_ref().unwrap()),
                Some(Err(cut)) => return Some(Err(cut)),
            }
        }
    }

    async fn event(&mut self) -> Value {
        serde_json::from_str(&self.next().await.unwrap().unwrap()).unwrap()
    }

    /// Whether nothing comes for that long.
    async fn silent_for(&mut self, time: Duration) -> bool {
        tokio::time::timeout(time, self.next()).await.is_err()
    }
}

const WATCH: &str = "/api/v1/namespaces/default/configmaps?watch=1";

fn refused(result: Result<Value, Refused>) -> (u16, String) {
    let error = result.unwrap_err();
    (error.code, error.message)
}

#[tokio::test(start_paused = true)]
async fn one_seed_gives_one_history() {
    let run = async || {
        let sandbox = Sandbox::builder().clock(clock()).build();
        for _ in 0..3 {
            let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "x-", "namespace": "default"}});
            sandbox.create(map).await.unwrap();
        }
        let writes = sandbox.writes().all();
        writes.iter().map(|w| w.after().unwrap().to_string()).collect::<Vec<_>>()
    };
    assert_eq!(run().await, run().await);
}

#[tokio::test(start_paused = true)]
async fn watches_carry_bookmarks_about_once_a_minute_and_end_in_time() {
    let sandbox = sandbox();
    let maps = maps(&sandbox, "me");
    let params = WatchParams::default().timeout(200);
    let started = sandbox.clock().monotonic_now();
    let events: Vec<WatchEvent<ConfigMap>> = maps.watch(&params, "1").await.unwrap().try_collect().await.unwrap();
    assert_eq!(started.elapsed().as_secs(), 200);
    let bookmarks = events.iter().filter(|e| matches!(e, WatchEvent::Bookmark(_))).count();
    assert!((3..=4).contains(&bookmarks), "{events:?}");
}

#[tokio::test(start_paused = true)]
async fn an_object_that_enters_or_leaves_a_field_selector_is_added_or_deleted() {
    let sandbox = sandbox();
    let path = "/api/v1/namespaces/default/pods?watch=1&fieldSelector=status.podIP%21%3D";
    let mut watch = Lines::open(&sandbox, "me", path).await;
    let address = async |name: &str, ip: &str| {
        let ips = if ip.is_empty() { json!(null) } else { json!([{"ip": ip}]) };
        let status = json!({"status": {"podIP": ip, "podIPs": ips}});
        sandbox.merge("pods", Some("default"), name, Some("status"), status).await.unwrap()["metadata"].clone()
    };
    let event = |kind: &str, name: &str, ip: &str| (kind.to_owned(), name.to_owned(), ip.to_owned());
    sandbox.create(pod("a", None)).await.unwrap();
    assert!(watch.silent_for(Duration::from_secs(1)).await);
    address("a", "10.0.0.1").await;
    assert_eq!(pod_event(&mut watch).await, event("ADDED", "a", "10.0.0.1"));
    address("a", "10.0.0.2").await;
    assert_eq!(pod_event(&mut watch).await, event("MODIFIED", "a", "10.0.0.2"));
    let changed = address("a", "").await;
    let deleted = watch.event().await;
    // The last state with an address, at the version of the change.
    assert_eq!((&deleted["type"], &deleted["object"]["status"]["podIP"]), (&json!("DELETED"), &json!("10.0.0.2")));
    assert_eq!(deleted["object"]["metadata"]["resourceVersion"], changed["resourceVersion"]);
    let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0});
    let path = "/api/v1/namespaces/default/pods/a";
    sandbox.send(http::Method::DELETE, path, "application/json", Some(&options)).await.unwrap();
    assert!(watch.silent_for(Duration::from_secs(1)).await);
}

#[tokio::test(start_paused = true)]
async fn pods_are_selected_by_the_fields_of_a_real_server_and_by_no_others() {
    let sandbox = sandbox();
    let mut once = pod("once", Some("node-0"));
    once["spec"]["restartPolicy"] = json!("Never");
    once["spec"]["hostNetwork"] = json!(true);
    once["spec"]["schedulerName"] = json!("mine");
    once["spec"]["serviceAccountName"] = json!("robot");
    sandbox.create(once).await.unwrap();
    sandbox.create(pod("ever", None)).await.unwrap();
    let status = json!({"status": {"phase": "Running", "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}]}});
    sandbox.merge("pods", Some("default"), "once", Some("status"), status).await.unwrap();
    let nominated = json!({"status": {"nominatedNodeName": "node-1"}});
    sandbox.merge("pods", Some("default"), "ever", Some("status"), nominated).await.unwrap();
    let list = async |selector: &str| {
        let selector = selector.replace('!', "%21").replace('=', "%3D").replace(',', "%2C");
        let path = format!("/api/v1/namespaces/default/pods?fieldSelector={selector}");
        sandbox.send(http::Method::GET, &path, "application/json", None).await
    };
    for selector in [
        "metadata.name=once",
        "metadata.namespace=default,metadata.name!=ever",
        "spec.nodeName=node-0",
        "spec.restartPolicy!=Always",
        "spec.schedulerName=mine",
        "spec.serviceAccountName=robot",
        "spec.hostNetwork=true",
        "status.phase!=Pending",
        "status.podIP!=",
        "status.nominatedNodeName!=node-1",
    ] {
        let pods = list(selector).await.unwrap();
        let names: Vec<&Value> = pods["items"].as_array().unwrap().iter().map(|p| &p["metadata"]["name"]).collect();
        assert_eq!(names, ["once"], "{selector}");
    }
    let (code, why) = refused(list("spec.priority=0").await);
    assert_eq!(code, 400);
    assert!(why.contains("field label not supported: spec.priority"), "{why}");
}

#[tokio::test(start_paused = true)]
async fn a_compacted_history_expires_watches_and_pages() {
    let sandbox = sandbox();
    for name in ["a", "b", "c"] {
        sandbox.create(raw_map(name)).await.unwrap();
    }
    let maps = maps(&sandbox, "me");
    let page = maps.list(&ListParams::default().limit(1)).await.unwrap();
    let token = page.metadata.continue_.unwrap();
    sandbox.create(raw_map("d")).await.unwrap();
    let second = maps.list(&ListParams::default().limit(5).continue_token(&token)).await.unwrap();
    assert_eq!(second.items.iter().map(ResourceExt::name_any).collect::<Vec<_>>(), ["b", "c"]);
    sandbox.compact();
    let mut watch = Lines::open(&sandbox, "me", &format!("{WATCH}&resourceVersion=3")).await;
    let event = watch.event().await;
    assert_eq!((&event["type"], &event["object"]["code"]), (&json!("ERROR"), &json!(410)));
    assert!(watch.next().await.is_none());
    let path = format!("/api/v1/namespaces/default/configmaps?limit=5&continue={token}");
    let error = sandbox.send(http::Method::GET, &path, "", None).await.unwrap_err();
    assert_eq!((error.code, &*error.reason), (410, "Expired"));
}

#[tokio::test(start_paused = true)]
async fn a_held_watch_gets_everything_later_and_others_get_it_now() {
    let sandbox = sandbox();
    let mut held = Lines::open(&sandbox, "slow", WATCH).await;
    let mut free = Lines::open(&sandbox, "fast", WATCH).await;
    sandbox.faults().hold_watch("slow", "configmaps");
    sandbox.create(raw_map("x")).await.unwrap();
    assert_eq!(free.event().await["type"], "ADDED");
    assert!(held.silent_for(Duration::from_secs(30)).await);
    sandbox.faults().release_watch("slow", "configmaps");
    assert_eq!(held.event().await["object"]["metadata"]["name"], "x");
}

#[tokio::test(start_paused = true)]
async fn a_delayed_watch_lags_by_that_much() {
    let sandbox = sandbox();
    sandbox.faults().delay_watch("slow", "configmaps", Duration::from_secs(5));
    let mut watch = Lines::open(&sandbox, "slow", WATCH).await;
    let started = sandbox.clock().monotonic_now();
    sandbox.create(raw_map("x")).await.unwrap();
    watch.event().await;
    assert_eq!(started.elapsed(), Duration::from_secs(5));
}

#[tokio::test(start_paused = true)]
async fn watches_break_in_all_the_ways_they_can() {
    for (action, want) in [
        (Action::CloseWatch, None),
        (Action::CutWatch, Some(Err(ConnectionCut))),
        (Action::Garbage, Some(Ok("not a watch event"))),
        (Action::HalfLine, Some(Ok("{\"type\":\"MODIFIED\",\"object\":"))),
        (Action::ExpireWatch, Some(Ok("\"type\":\"ERROR\""))),
    ] {
        let sandbox = sandbox();
        let mut watch = Lines::open(&sandbox, "me", WATCH).await;
        sandbox.faults().add(Rule::new(action.clone()).identity("me").resource("configmaps").skip(1).times(1));
        sandbox.create(raw_map("x")).await.unwrap();
        sandbox.create(raw_map("y")).await.unwrap();
        assert_eq!(watch.event().await["object"]["metadata"]["name"], "x", "{action:?}");
        let got = watch.next().await;
        match (&got, &want) {
            (None, None) | (Some(Err(_)), Some(Err(_))) => {}
            (Some(Ok(line)), Some(Ok(part))) => assert!(line.contains(part), "{action:?}: {line}"),
            _ => panic!("{action:?}: {got:?}"),
        }
        assert_eq!(sandbox.faults().hits(&action), 1, "{action:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_cut_before_does_nothing_and_a_cut_after_does_it_all() {
    let sandbox = sandbox();
    let maps = maps(&sandbox, "me");
    sandbox.faults().add(Rule::new(Action::CutBefore).verb("create").times(1));
    assert!(maps.create(&PostParams::default(), &config_map("a")).await.is_err());
    assert_eq!(sandbox.count("configmaps"), 0);
    sandbox.faults().add(Rule::new(Action::CutAfter).verb("create").times(1));
    assert!(maps.create(&PostParams::default(), &config_map("a")).await.is_err());
    assert_eq!(sandbox.count("configmaps"), 1);
}

#[tokio::test(start_paused = true)]
async fn refusals_come_as_the_real_ones_do() {
    let sandbox = sandbox();
    for (action, code, reason) in [
        (Action::Conflict, 409, "Conflict"),
        (Action::TooManyRequests(3), 429, "TooManyRequests"),
        (Action::InternalError, 500, "InternalError"),
        (Action::Unavailable, 503, "ServiceUnavailable"),
        (Action::Timeout, 504, "Timeout"),
    ] {
        sandbox.faults().clear();
        sandbox.faults().add(Rule::new(action).verb("create").resource("configmaps"));
        let error = sandbox.create(raw_map("x")).await.unwrap_err();
        assert_eq!((error.code, &*error.reason), (code, reason));
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_down_answers_nothing_and_cuts_watches() {
    let sandbox = sandbox();
    let maps = maps(&sandbox, "me");
    let mut watch = Lines::open(&sandbox, "me", WATCH).await;
    sandbox.faults().go_down_for(Duration::from_mins(1));
    assert_eq!(watch.next().await, Some(Err(ConnectionCut)));
    assert!(maps.list(&ListParams::default()).await.is_err());
    tokio::time::sleep(Duration::from_mins(1)).await;
    maps.list(&ListParams::default()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn latency_takes_virtual_time() {
    let sandbox = sandbox();
    sandbox.faults().add(Rule::new(Action::Latency(Duration::from_secs(2))).verb("create"));
    let started = sandbox.clock().monotonic_now();
    sandbox.create(raw_map("x")).await.unwrap();
    assert_eq!(started.elapsed(), Duration::from_secs(2));
}

#[tokio::test(start_paused = true)]
async fn a_stale_list_shows_the_past_with_the_past_s_version() {
    let sandbox = sandbox();
    sandbox.create(raw_map("x")).await.unwrap();
    let then = sandbox.resource_version();
    sandbox.create(raw_map("y")).await.unwrap();
    sandbox.faults().add(Rule::new(Action::StaleList(1)).verb("list").times(1));
    let list = maps(&sandbox, "me").list(&ListParams::default()).await.unwrap();
    assert_eq!((list.items.len(), list.metadata.resource_version), (1, Some(then.to_string())));
}

#[tokio::test(start_paused = true)]
async fn writes_are_logged_with_author_and_both_states() {
    let sandbox = sandbox();
    let mut subscriber = sandbox.writes().subscribe();
    let before = sandbox.resource_version();
    let maps = maps(&sandbox, "me");
    maps.create(&PostParams::default(), &config_map("x")).await.unwrap();
    maps.patch("x", &PatchParams::default(), &Patch::Merge(&json!({"data": {"a": "1"}}))).await.unwrap();
    // Changes nothing, so it is no write.
    maps.patch("x", &PatchParams::default(), &Patch::Merge(&json!({"data": {"a": "1"}}))).await.unwrap();
    maps.delete("x", &DeleteParams::default()).await.unwrap();
    let writes = sandbox.writes().since(before);
    let summary: Vec<_> = writes.iter().map(|w| (w.verb, w.change, &*w.identity)).collect();
    assert_eq!(
        summary,
        [("create", Change::Added, "me"), ("patch", Change::Modified, "me"), ("delete", Change::Deleted, "me")]
    );
    assert!(writes[1].before().unwrap().get("data").is_none());
    assert_eq!(writes[1].after().unwrap()["data"]["a"], "1");
    assert!(writes[2].after().is_none());
    assert_eq!(subscriber.recv().await.unwrap().rv, writes[0].rv);
    assert_eq!(sandbox.requests().count(Some("me"), Some("patch"), Some("configmaps")), 2);
}

#[tokio::test(start_paused = true)]
async fn a_deleted_namespace_goes_when_nothing_is_left_in_it() {
    let sandbox = sandbox();
    sandbox.create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}})).await.unwrap();
    let map = |name: &str, finalizers: Value| {
        json!({"apiVersion": "v1", "kind": "ConfigMap",
               "metadata": {"name": name, "namespace": "ns", "finalizers": finalizers}})
    };
    sandbox.create(map("free", json!([]))).await.unwrap();
    sandbox.create(map("held", json!(["example.com/hold"]))).await.unwrap();
    let deleted = sandbox.delete("namespaces", None, "ns").await.unwrap();
    assert_eq!(deleted["status"]["phase"], "Terminating");
    assert_eq!(sandbox.get("configmaps", Some("ns"), "free").await.unwrap_err().code, 404);
    let error = sandbox.create(map("late", json!([]))).await.unwrap_err();
    assert_eq!(error.code, 403);
    assert!(error.message.contains("because it is being terminated"), "{error}");
    sandbox.merge("configmaps", Some("ns"), "held", None, json!({"metadata": {"finalizers": null}})).await.unwrap();
    assert_eq!(sandbox.get("namespaces", None, "ns").await.unwrap_err().code, 404);
}

#[tokio::test(start_paused = true)]
async fn without_the_namespace_controller_a_client_empties_and_finalizes_deleted_namespaces() {
    let sandbox = Sandbox::builder().clock(clock()).without_namespace_controller().build();
    let mut namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}});
    sandbox.create(namespace.clone()).await.unwrap();
    let mut map = raw_map("a");
    map["metadata"]["namespace"] = json!("ns");
    sandbox.create(map).await.unwrap();
    sandbox.delete("namespaces", None, "ns").await.unwrap();
    let kept = sandbox.get("namespaces", None, "ns").await.unwrap();
    assert_eq!(
        (&kept["status"]["phase"], &kept["spec"]["finalizers"]),
        (&json!("Terminating"), &json!(["kubernetes"]))
    );
    sandbox.delete("configmaps", Some("ns"), "a").await.unwrap();
    let terminating = sandbox.get("namespaces", None, "ns").await.unwrap();
    let path = "/api/v1/namespaces/ns/finalize";
    let put = async |body: Value| sandbox.send(http::Method::PUT, path, "application/json", Some(&body)).await;
    let mut stale = terminating.clone();
    stale["metadata"]["resourceVersion"] = json!("1");
    assert_eq!(put(stale).await.unwrap_err().code, 409);
    // The metadata of the body is stored, and the status is kept.
    let mut labelled = terminating;
    labelled["metadata"]["labels"] = json!({"a": "b"});
    labelled["status"] = json!({"phase": "Active"});
    let stored = put(labelled).await.unwrap();
    assert_eq!((&stored["metadata"]["labels"]["a"], &stored["status"]["phase"]), (&json!("b"), &json!("Terminating")));
    namespace["spec"] = json!({"finalizers": []});
    sandbox.send(http::Method::PUT, path, "application/json", Some(&namespace)).await.unwrap();
    assert_eq!(sandbox.get("namespaces", None, "ns").await.unwrap_err().code, 404);
}

#[tokio::test(start_paused = true)]
async fn a_collection_is_deleted_page_by_page() {
    let sandbox = sandbox();
    for name in ["a", "b", "c"] {
        sandbox.create(raw_map(name)).await.unwrap();
    }
    let path = "/api/v1/namespaces/default/configmaps?limit=2&propagationPolicy=Background";
    let delete = async |path: &str| sandbox.send(http::Method::DELETE, path, "application/json", None).await.unwrap();
    let names = |list: &Value| -> Vec<String> {
        list["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].as_str().unwrap().into()).collect()
    };
    let first = delete(path).await;
    assert_eq!((names(&first), sandbox.count("configmaps")), (vec!["a".to_owned(), "b".to_owned()], 1));
    let token = first["metadata"]["continue"].as_str().unwrap();
    let second = delete(&format!("{path}&continue={}", common::api::percent_encode(token))).await;
    assert_eq!((names(&second), sandbox.count("configmaps")), (vec!["c".to_owned()], 0));
    assert_eq!(second["metadata"]["continue"], Value::Null);
}

#[tokio::test(start_paused = true)]
async fn a_quota_is_enforced_by_its_status_which_a_controller_keeps() {
    let quota = |pods: &str| {
        json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few", "namespace": "default"},
               "spec": {"hard": {"pods": pods, "count/jobs.batch": "3"}}})
    };
    let status = async |sandbox: &Sandbox| {
        sandbox.get("resourcequotas", Some("default"), "few").await.unwrap()["status"].clone()
    };
    let sandbox = sandbox();
    sandbox.create(pod("a", None)).await.unwrap();
    sandbox.create(quota("2")).await.unwrap();
    let counted =
        json!({"hard": {"pods": "2", "count/jobs.batch": "3"}, "used": {"pods": "1", "count/jobs.batch": "0"}});
    assert_eq!(status(&sandbox).await, counted);
    sandbox.create(pod("b", None)).await.unwrap();
    let why = "pods \"c\" is forbidden: exceeded quota: few, requested: pods=1, used: pods=2, limited: pods=2";
    assert_eq!(refused(sandbox.create(pod("c", None)).await), (403, why.to_owned()));
    // A Pod that has ended is not counted, nor is one that is gone.
    let ended = json!({"status": {"phase": "Succeeded"}});
    sandbox.merge("pods", Some("default"), "a", Some("status"), ended).await.unwrap();
    assert_eq!(status(&sandbox).await["used"]["pods"], "1");
    sandbox.delete("pods", Some("default"), "b").await.unwrap();
    assert_eq!(status(&sandbox).await["used"]["pods"], "0");
    sandbox
        .merge("resourcequotas", Some("default"), "few", None, json!({"spec": {"hard": {"pods": "0"}}}))
        .await
        .unwrap();
    assert_eq!(refused(sandbox.create(pod("d", None)).await).0, 403);

    let sandbox = Sandbox::builder().clock(clock()).without_quota_controller().build();
    sandbox.create(quota("0")).await.unwrap();
    sandbox.create(pod("a", None)).await.unwrap();
    let in_force = json!({"status": {"hard": {"pods": "5"}, "used": {"pods": "4"}}});
    sandbox.merge("resourcequotas", Some("default"), "few", Some("status"), in_force).await.unwrap();
    sandbox.create(pod("b", None)).await.unwrap();
    assert_eq!(status(&sandbox).await["used"]["pods"], "5");
    assert_eq!(refused(sandbox.create(pod("c", None)).await).0, 403);
}

#[tokio::test(start_paused = true)]
async fn applying_owns_fields_and_conflicts_with_other_owners() {
    let sandbox = sandbox();
    let path = |manager: &str| format!("/api/v1/namespaces/default/configmaps/x?fieldManager={manager}");
    let apply = async |manager: &str, data: Value| {
        let mut map = raw_map("x");
        map["data"] = data;
        sandbox.send(http::Method::PATCH, &path(manager), "application/apply-patch+yaml", Some(&map)).await
    };
    apply("one", json!({"a": "1", "b": "1"})).await.unwrap();
    assert_eq!(
        refused(apply("two", json!({"a": "2"})).await),
        (409, "Apply failed with 1 conflict: conflict with \"one\": .data.a".into())
    );
    // Agreeing is sharing.
    apply("two", json!({"a": "1"})).await.unwrap();
    // What one lets go of, two keeps; what nobody else wants goes.
    let after = apply("one", json!({})).await.unwrap();
    assert_eq!(after["data"], json!({"a": "1"}));
    // An update takes fields over.
    sandbox.merge("configmaps", Some("default"), "x", None, json!({"data": {"a": "9"}})).await.unwrap();
    let (code, message) = refused(apply("two", json!({"a": "1"})).await);
    assert_eq!((code, &*message), (409, "Apply failed with 1 conflict: conflict with \"sandbox\" using v1: .data.a"));
}

#[tokio::test(start_paused = true)]
async fn rights_come_from_roles_and_bindings() {
    let sandbox = Sandbox::builder().clock(clock()).rbac(true).build();
    let mine = maps(&sandbox, "me");
    let error = mine.list(&ListParams::default()).await.unwrap_err();
    let kube::Error::Api(status) = error else { panic!("{error}") };
    assert_eq!(
        status.message,
        "configmaps is forbidden: User \"me\" cannot list resource \"configmaps\" in API group \"\" in the namespace \"default\""
    );
    let rbac = |kind: &str, rest: Value| {
        let mut object = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind,
                                "metadata": {"name": "r", "namespace": "default"}});
        object.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        object
    };
    let rules = json!({"rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}]});
    sandbox.create(rbac("Role", rules)).await.unwrap();
    let binding = json!({
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "me"}]
    });
    sandbox.create(rbac("RoleBinding", binding)).await.unwrap();
    mine.list(&ListParams::default()).await.unwrap();
    assert!(mine.create(&PostParams::default(), &config_map("x")).await.is_err());
    let review = json!({"spec": {"user": "me", "resourceAttributes":
        {"verb": "list", "resource": "configmaps", "namespace": "default"}}});
    let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    let answer = sandbox.send(http::Method::POST, path, "application/json", Some(&review)).await.unwrap();
    assert_eq!(answer["status"]["allowed"], true);
}

#[tokio::test(start_paused = true)]
async fn tokens_are_reviewed() {
    let sandbox = sandbox();
    let token = sandbox.token("system:serviceaccount:ns:sa");
    let review = |token: &str| json!({"spec": {"token": token}});
    let path = "/apis/authentication.k8s.io/v1/tokenreviews";
    let ask = async |token: &str| {
        sandbox.send(http::Method::POST, path, "application/json", Some(&review(token))).await.unwrap()["status"]
            .clone()
    };
    let known = ask(&token).await;
    assert_eq!(known["user"]["username"], "system:serviceaccount:ns:sa");
    assert_eq!(known["user"]["groups"][1], "system:serviceaccounts:ns");
    assert!(ask("nonsense").await.get("authenticated").is_none());
}

#[tokio::test(start_paused = true)]
async fn unknown_fields_survive_where_the_server_is_of_a_later_release() {
    let sandbox = Sandbox::builder().clock(clock()).keep_unknown_fields(true).build();
    let mut map = raw_map("x");
    map["later"] = json!({"a": 1});
    assert_eq!(sandbox.create(map).await.unwrap()["later"], json!({"a": 1}));
}

#[tokio::test(start_paused = true)]
async fn an_eviction_spends_the_budget_and_is_refused_without_one() {
    let sandbox = sandbox();
    sandbox
        .create(json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b", "namespace": "default"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "p"}}}
        }))
        .await
        .unwrap();
    sandbox.create(pod("p", Some("n"))).await.unwrap();
    let running = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    sandbox.merge("pods", Some("default"), "p", Some("status"), running).await.unwrap();
    let evict = async || {
        let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}});
        let path = "/api/v1/namespaces/default/pods/p/eviction";
        sandbox.send(http::Method::POST, path, "application/json", Some(&eviction)).await
    };
    let budget = async |allowed: i64| {
        let status = json!({"status": {"observedGeneration": 1, "disruptionsAllowed": allowed, "currentHealthy": 1,
                                       "desiredHealthy": 1, "expectedPods": 1}});
        sandbox.merge("poddisruptionbudgets.policy", Some("default"), "b", Some("status"), status).await.unwrap();
    };
    budget(0).await;
    assert_eq!(evict().await.unwrap_err().code, 429);
    budget(1).await;
    evict().await.unwrap();
    let left = sandbox.get("poddisruptionbudgets.policy", Some("default"), "b").await.unwrap();
    assert_eq!(left["status"]["disruptionsAllowed"], 0);
    let pod = sandbox.get("pods", Some("default"), "p").await.unwrap();
    assert!(pod["metadata"]["deletionTimestamp"].is_string());
}

#[tokio::test(start_paused = true)]
async fn a_graceful_deletion_can_only_be_shortened() {
    let sandbox = sandbox();
    sandbox.create(pod("p", Some("n"))).await.unwrap();
    let delete = async |grace: i64| {
        let options = json!({"gracePeriodSeconds": grace});
        let path = "/api/v1/namespaces/default/pods/p";
        sandbox.send(http::Method::DELETE, path, "application/json", Some(&options)).await.unwrap()
    };
    assert_eq!(delete(30).await["metadata"]["deletionTimestamp"], "2026-01-01T00:00:30Z");
    assert_eq!(delete(60).await["metadata"]["deletionTimestamp"], "2026-01-01T00:00:30Z");
    assert_eq!(delete(10).await["metadata"]["deletionTimestamp"], "2026-01-01T00:00:10Z");
    delete(0).await;
    assert_eq!(sandbox.count("pods"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_custom_resource_comes_and_goes_with_its_definition() {
    let sandbox = sandbox();
    sandbox.create(json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
                "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}},
                "additionalPrinterColumns": [{"name": "N", "type": "integer", "jsonPath": ".spec.n"}]
            }]
        }
    })).await.unwrap();
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"n": 2}});
    sandbox.create(widget).await.unwrap();
    let mut watch = Lines::open(&sandbox, "me", "/apis/example.com/v1/widgets?watch=1&resourceVersion=1").await;
    assert_eq!(watch.event().await["type"], "ADDED");
    let path = "/apis/example.com/v1/namespaces/default/widgets/w/scale";
    let patch = json!({"spec": {"replicas": 5}});
    let scale = sandbox.send(http::Method::PATCH, path, "application/merge-patch+json", Some(&patch)).await.unwrap();
    assert_eq!(scale["spec"]["replicas"], 5);
    let changed = watch.event().await;
    assert_eq!(changed["object"]["spec"]["n"], 5);
    assert_eq!(changed["object"]["metadata"]["generation"], 2);
    sandbox.delete("customresourcedefinitions.apiextensions.k8s.io", None, "widgets.example.com").await.unwrap();
    assert_eq!(watch.event().await["type"], "DELETED");
    assert!(watch.next().await.is_none());
    assert_eq!(sandbox.get("widgets.example.com", Some("default"), "w").await.unwrap_err().code, 404);
}

#[tokio::test(start_paused = true)]
async fn a_custom_resource_is_one_storage_under_all_its_versions() {
    let sandbox = sandbox();
    let version = |name: &str, storage: bool| {
        let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
        json!({"name": name, "served": true, "storage": storage, "schema": schema})
    };
    sandbox
        .create(json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "widgets.example.com"},
            "spec": {
                "group": "example.com", "scope": "Cluster", "names": {"plural": "widgets", "kind": "Widget"},
                "versions": [version("v1", true), version("v1beta1", false)]
            }
        }))
        .await
        .unwrap();
    let widget = json!({"apiVersion": "example.com/v1beta1", "kind": "Widget", "metadata": {"name": "w"}});
    assert_eq!(sandbox.create(widget).await.unwrap()["apiVersion"], "example.com/v1beta1");
    for version in ["v1", "v1beta1"] {
        let path = format!("/apis/example.com/{version}/widgets");
        let list = sandbox.send(http::Method::GET, &path, "", None).await.unwrap();
        assert_eq!(list["items"][0]["apiVersion"], format!("example.com/{version}"));
        let mut watch = Lines::open(&sandbox, "me", &format!("{path}?watch=1")).await;
        assert_eq!(watch.event().await["object"]["apiVersion"], format!("example.com/{version}"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_of_tables_sends_its_columns_once() {
    let sandbox = sandbox();
    let request = Request::get("/api/v1/namespaces/default/configmaps?watch=1")
        .header("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
        .body(Full::new(Bytes::new()))
        .unwrap();
    let body = sandbox.service("me").oneshot(request).await.unwrap().into_body();
    let mut watch = Lines { body, text: Vec::new() };
    sandbox.create(raw_map("x")).await.unwrap();
    sandbox.create(raw_map("y")).await.unwrap();
    let (first, second) = (watch.event().await, watch.event().await);
    assert_eq!(first["object"]["columnDefinitions"][0]["name"], "Name");
    assert_eq!(first["object"]["rows"][0]["cells"][0], "x");
    assert!(second["object"]["columnDefinitions"].is_null());
    assert_eq!(second["object"]["rows"][0]["object"]["metadata"]["name"], "y");
}

#[tokio::test(start_paused = true)]
async fn typed_clients_may_send_protobuf() {
    // A Namespace as kubectl's generator sends it.
    let field = |number: u8, bytes: &[u8]| [&[number << 3 | 2, u8::try_from(bytes.len()).unwrap()], bytes].concat();
    let kind = [field(1, b"v1"), field(2, b"Namespace")].concat();
    let namespace = [field(1, &field(1, b"from-go")), field(2, b""), field(3, b"")].concat();
    let body = [b"k8s\0".as_slice(), &field(1, &kind), &field(2, &namespace)].concat();
    let request = Request::post("/api/v1/namespaces")
        .header("Content-Type", "application/vnd.kubernetes.protobuf")
        .header("Accept", "application/vnd.kubernetes.protobuf,application/json")
        .body(Full::new(Bytes::from(body)))
        .unwrap();
    let sandbox = sandbox();
    let response = sandbox.service("me").oneshot(request).await.unwrap();
    assert_eq!(
        (response.status().as_u16(), &response.headers()["content-type"]),
        (201, &"application/vnd.kubernetes.protobuf".parse().unwrap())
    );
    assert_eq!(sandbox.get("namespaces", None, "from-go").await.unwrap()["status"]["phase"], "Active");
}

#[tokio::test(start_paused = true)]
async fn the_bytes_of_a_revision_s_data_are_kept() {
    let sandbox = sandbox();
    let text = r#"{"apiVersion":"apps/v1","kind":"ControllerRevision","metadata":{"name":"r"},"revision":1,"data":{"b":"\u003c","a":[1]}}"#;
    let path = "/apis/apps/v1/namespaces/default/controllerrevisions";
    let send = async |method: &str, path: &str, text: String| {
        let request = Request::builder().method(method).uri(path).header("Content-Type", "application/json");
        let response =
            sandbox.service("me").oneshot(request.body(Full::new(Bytes::from(text))).unwrap()).await.unwrap();
        let status = response.status().as_u16();
        (status, String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap())
    };
    let (_, created) = send("POST", path, text.into()).await;
    assert!(created.contains(r#""data":{"b":"\u003c","a":[1]}"#), "{created}");
    let object = format!("{path}/r");
    let (status, _) = send("PUT", &object, text.replace("\"revision\":1", "\"revision\":2")).await;
    assert_eq!(status, 200);
    // JSON shows the canonical form of whatever is stored; only protobuf shows the bytes.
    let spaced = text.replace("\"r\"", "\"spaced\"").replace("[1]", "[ 1 ]");
    let (_, created) = send("POST", path, spaced).await;
    assert!(created.contains(r#""data":{"b":"\u003c","a":[1]}"#), "{created}");
    let request = Request::get(format!("{path}/spaced")).header("Accept", "application/vnd.kubernetes.protobuf");
    let request = request.body(Full::new(Bytes::new())).unwrap();
    let response = sandbox.service("me").oneshot(request).await.unwrap();
    assert_eq!(response.headers()["content-type"], "application/vnd.kubernetes.protobuf");
    let stored = response.into_body().collect().await.unwrap().to_bytes();
    assert!(String::from_utf8_lossy(&stored).contains(r#"{"b":"\u003c","a":[ 1 ]}"#), "{stored:?}");
    let (status, refusal) =
        send("PUT", &object, text.replace(r#""b":"\u003c","a":[1]"#, r#""a":[1],"b":"\u003c""#)).await;
    assert_eq!(status, 422);
    assert!(refusal.contains("field is immutable"), "{refusal}");
}

#[tokio::test(start_paused = true)]
async fn no_two_services_share_an_address() {
    let sandbox = sandbox();
    let mut addresses = std::collections::BTreeSet::new();
    for i in 0..50 {
        let service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": format!("s{i}"), "namespace": "default"},
            "spec": {"ports": [{"port": 80}]}
        });
        let service = sandbox.create(service).await.unwrap();
        assert!(addresses.insert(service["spec"]["clusterIP"].as_str().unwrap().to_owned()));
    }
}

#[tokio::test(start_paused = true)]
async fn bodies_have_a_limit() {
    let mut map = raw_map("big");
    map["data"] = json!({"a": "x".repeat(4 << 20)});
    assert_eq!(sandbox().create(map).await.unwrap_err().code, 413);
}

#[tokio::test(start_paused = true)]
async fn who_may_impersonate_acts_for_another() {
    let sandbox = Sandbox::builder().clock(clock()).rbac(true).build();
    let ask = async |identity: &str| {
        let request = Request::get("/api/v1/namespaces/default/configmaps").header("Impersonate-User", "someone");
        let response = sandbox.service(identity).oneshot(request.body(Full::new(Bytes::new())).unwrap()).await.unwrap();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        serde_json::from_slice::<Value>(&body).unwrap()["message"].as_str().unwrap().to_owned()
    };
    assert!(ask(ADMIN).await.starts_with("configmaps is forbidden: User \"someone\" cannot list"));
    assert!(ask("me").await.starts_with("users \"someone\" is forbidden: User \"me\" cannot impersonate"));
}

#[tokio::test(start_paused = true)]
async fn events_are_one_storage_under_two_groups() {
    let sandbox = sandbox();
    sandbox
        .create(json!({
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "default"},
            "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"}, "reason": "R", "message": "m",
            "source": {"component": "c"}, "count": 3, "type": "Normal",
            "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:00:01Z"
        }))
        .await
        .unwrap();
    let path = "/apis/events.k8s.io/v1/namespaces/default/events";
    let list = sandbox.send(http::Method::GET, path, "", None).await.unwrap();
    let event = &list["items"][0];
    assert_eq!((&event["note"], &event["regarding"]["name"]), (&json!("m"), &json!("p")));
    assert_eq!((&event["deprecatedCount"], &event["deprecatedSource"]), (&json!(3), &json!({"component": "c"})));
    let mut watch = Lines::open(&sandbox, "me", &format!("{path}?watch=1")).await;
    let line = watch.event().await;
    assert_eq!((&line["object"]["apiVersion"], &line["object"]["note"]), (&json!("events.k8s.io/v1"), &json!("m")));
}

#[tokio::test]
async fn over_tcp_clients_are_known_by_token_or_certificate() {
    let sandbox = Sandbox::builder().build();
    for (tls, credential) in
        [(Tls::Off, Credential::Token), (Tls::On, Credential::Token), (Tls::On, Credential::Certificate)]
    {
        sandbox.writes().clear();
        let server = sandbox.serve(([127, 0, 0, 1], 0).into(), tls).await.unwrap();
        let config: kube::config::Kubeconfig =
            kube::config::Kubeconfig::from_yaml(&server.kubeconfig_for("someone", credential)).unwrap();
        let config = kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await.unwrap();
        let maps: Api<ConfigMap> = Api::namespaced(kube::Client::try_from(config).unwrap(), "default");
        let watch = maps.watch(&WatchParams { bookmarks: false, ..WatchParams::default() }, "0").await.unwrap();
        let mut watch = std::pin::pin!(watch);
        maps.create(&PostParams::default(), &config_map("x")).await.unwrap();
        assert!(matches!(watch.next().await, Some(Ok(WatchEvent::Added(map))) if map.name_any() == "x"));
        assert_eq!(sandbox.writes().all()[0].identity, "someone", "{tls:?} {credential:?}");
        maps.delete("x", &DeleteParams::default()).await.unwrap();
        server.shutdown().await;
        assert!(maps.list(&ListParams::default()).await.is_err());
    }
}

#[tokio::test]
async fn over_tcp_a_server_that_is_down_cuts_and_comes_back() {
    let sandbox = Sandbox::builder().build();
    let server = sandbox.serve(([127, 0, 0, 1], 0).into(), Tls::Off).await.unwrap();
    let get = async || -> std::io::Result<String> {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let mut socket = tokio::net::TcpStream::connect(server.addr).await?;
        socket.write_all(b"GET /readyz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await?;
        let mut answer = String::new();
        socket.read_to_string(&mut answer).await?;
        Ok(answer)
    };
    assert!(get().await.unwrap().ends_with("ok"));
    sandbox.faults().go_down();
    assert!(get().await.is_ok_and(|a| a.is_empty()) || get().await.is_err());
    sandbox.faults().come_up();
    assert!(get().await.unwrap().ends_with("ok"));
}

#[tokio::test]
async fn a_token_nobody_was_given_is_refused() {
    let sandbox = Sandbox::builder().build();
    let server = sandbox.serve(([127, 0, 0, 1], 0).into(), Tls::Off).await.unwrap();
    let kubeconfig = server.kubeconfig_for(ADMIN, Credential::Token).replace(&sandbox.token(ADMIN), "stolen");
    let config = kube::config::Kubeconfig::from_yaml(&kubeconfig).unwrap();
    let config = kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(kube::Client::try_from(config).unwrap(), "default");
    assert!(matches!(maps.list(&ListParams::default()).await, Err(kube::Error::Api(status)) if status.code == 401));
}

/// Objects that no client in its right mind sends.
fn absurd() -> impl Strategy<Value = Value> {
    let keys = prop::sample::select(vec![
        "spec",
        "template",
        "metadata",
        "labels",
        "containers",
        "replicas",
        "selector",
        "matchLabels",
        "status",
        "conditions",
        "strategy",
        "name",
        "rollingUpdate",
        "ports",
        "$patch",
        "$retainKeys",
        "$setElementOrder/containers",
        "$deleteFromPrimitiveList/finalizers",
        "finalizers",
        "ownerReferences",
        "versions",
        "names",
        "schedule",
        "data",
        "clusterIPs",
        "generateName",
        "resourceVersion",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
        Just(json!("replace")),
        Just(json!("300%")),
    ];
    leaf.prop_recursive(6, 48, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map(keys.clone().prop_map(str::to_owned), inner, 0..4)
                .prop_map(|m| Value::Object(m.into_iter().collect()))
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]
    #[test]
    fn absurd_objects_are_refused_and_nothing_breaks(value in absurd(), other in absurd()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let sandbox = sandbox();
            for (resource, api_version, kind) in [
                ("/apis/apps/v1/namespaces/default/deployments", "apps/v1", "Deployment"),
                ("/apis/apps/v1/namespaces/default/replicasets", "apps/v1", "ReplicaSet"),
                ("/apis/apps/v1/namespaces/default/statefulsets", "apps/v1", "StatefulSet"),
                ("/apis/batch/v1/namespaces/default/jobs", "batch/v1", "Job"),
                ("/apis/batch/v1/namespaces/default/cronjobs", "batch/v1", "CronJob"),
                ("/api/v1/namespaces/default/pods", "v1", "Pod"),
                ("/api/v1/namespaces/default/services", "v1", "Service"),
                ("/api/v1/namespaces/default/configmaps", "v1", "ConfigMap"),
                ("/apis/events.k8s.io/v1/namespaces/default/events", "events.k8s.io/v1", "Event"),
                ("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "apiextensions.k8s.io/v1", "CustomResourceDefinition"),
            ] {
                let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}});
                for value in [&value, &other] {
                    if let Value::Object(fields) = value {
                        object.as_object_mut().unwrap().extend(fields.clone());
                    }
                    object["spec"] = value.clone();
                    let send = async |method, path: &str, media: &str, body: &Value| {
                        match sandbox.send(method, path, media, Some(body)).await {
                            Ok(_) => {}
                            Err(error) => assert!(error.code >= 400 && !error.message.is_empty(), "{error}"),
                        }
                    };
                    send(http::Method::POST, resource, "application/json", &object).await;
                    let path = format!("{resource}/x");
                    send(http::Method::PUT, &path, "application/json", &object).await;
                    for media in ["merge-patch", "strategic-merge-patch", "json-patch"] {
                        send(http::Method::PATCH, &path, &format!("application/{media}+json"), value).await;
                        let status = format!("{path}/status");
                        send(http::Method::PATCH, &status, &format!("application/{media}+json"), value).await;
                    }
                    let apply = format!("{path}?fieldManager=m&force=true");
                    send(http::Method::PATCH, &apply, "application/apply-patch+yaml", &object).await;
                }
                send_table(&sandbox, resource).await;
            }
        });
    }
}

async fn send_table(sandbox: &Sandbox, path: &str) {
    let request = Request::get(path).header("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io");
    let response = sandbox.service(ADMIN).oneshot(request.body(Full::new(Bytes::new())).unwrap()).await.unwrap();
    assert_eq!(response.status(), 200);
}
