use std::collections::BTreeMap;

use http::{Request, Response};
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::*;
use crate::{
    api::WireFormat,
    gate,
    leader::{Election, ElectionSettings},
    meta::ResourceVersion,
    object::Resource,
    runtime::RunningLoop,
    succession::WriteLog,
};

const DEPLOYMENTS: Resource = Resource::namespaced("apps", "v1", "deployments", "Deployment");

fn never(_: crate::runtime::LoopContext) -> Arc<dyn RunningLoop> {
    unreachable!("the loop is not started")
}

const LOOP: LoopDefinition = LoopDefinition::new("deployment-controller", "deployment", never)
    .with_owned_writes(&[OwnedWrites::of_status("apps", "deployments")]);

/// A loop without writes that only it makes, in the same process.
const SWEEPER: LoopDefinition = LoopDefinition::new("sweep-controller", "sweep", never);

/// A loop without writes that only it makes, and without Events.
const QUIET: LoopDefinition =
    LoopDefinition::new("quiet-controller", "quiet", never).with_user_agent_and_component("quiet-controller", "");

/// An API server in memory, which counts its requests by method and last path segment.
#[derive(Clone, Default)]
struct Server(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    own_lease: Option<Value>,
    renewals_of_built_in: Option<u32>,
    pods: Vec<Value>,
    events: Vec<Value>,
    version: u64,
    requests: BTreeMap<String, u32>,
}

impl Server {
    fn client(&self) -> kube::Client {
        let server = self.clone();
        let answer = move |request: Request<Body>| {
            let server = server.clone();
            async move {
                let (parts, body) = request.into_parts();
                let body = http_body_util::BodyExt::collect(body).await.unwrap().to_bytes();
                let (code, answer) = server.answer(&parts, &body);
                let mut response = Response::new(http_body_util::Full::new(answer));
                *response.status_mut() = code.try_into().unwrap();
                Ok::<_, std::convert::Infallible>(response)
            }
        };
        kube::Client::new(tower::service_fn(answer), "default")
    }

    fn answer(&self, parts: &http::request::Parts, body: &[u8]) -> (u16, bytes::Bytes) {
        let mut state = self.0.lock();
        let path = parts.uri.path().rsplit('/').next().unwrap_or_default().to_owned();
        *state.requests.entry(format!("{} {path}", parts.method)).or_default() += 1;
        state.version += 1;
        let missing = || (404, json!({"kind": "Status", "code": 404, "reason": "NotFound", "message": "not found"}));
        let (code, answer) = match (parts.method.as_str(), path.as_str()) {
            ("GET", "events") if parts.uri.query() == Some("limit=1") => {
                (200, json!({"kind": "EventList", "metadata": {"resourceVersion": "77"}, "items": []}))
            }
            ("GET", "events") => {
                let query = parts.uri.query().unwrap();
                assert!(query.contains("reportingComponent%3Dsweep-controller"), "{query}");
                assert!(query.contains("resourceVersion=77&"), "{query}");
                let lines = state.events.drain(..).map(|event| format!("{event}\n"));
                return (200, lines.collect::<String>().into());
            }
            ("GET", "pods") => (200, json!({"kind": "PodList", "metadata": {}, "items": state.pods})),
            ("GET", "kube-controller-manager") => match &mut state.renewals_of_built_in {
                Some(renewals) => {
                    *renewals += 1;
                    (200, json!({"spec": {"holderIdentity": "node_1", "renewTime": renewals.to_string()}}))
                }
                None => missing(),
            },
            ("GET", _) => state.own_lease.clone().map_or_else(missing, |lease| (200, lease)),
            _ => {
                let mut lease: Value = serde_json::from_slice(body).unwrap();
                let known = state.own_lease.as_ref().map(|lease| &lease["metadata"]["resourceVersion"]);
                if known.is_some_and(|known| *known != lease["metadata"]["resourceVersion"]) {
                    let conflict = json!({"kind": "Status", "code": 409, "reason": "Conflict", "message": "conflict"});
                    return (409, conflict.to_string().into());
                }
                lease["metadata"]["resourceVersion"] = json!(state.version.to_string());
                state.own_lease = Some(lease.clone());
                (200, lease)
            }
        };
        (code, answer.to_string().into())
    }
}

struct World {
    server: Server,
    clock: Clock,
    metrics: Metrics,
    sampler: Arc<WriteSampler>,
    said: Arc<Mutex<Vec<String>>>,
}

/// Starts a leader of `deployment-controller` that searches for a second writer every five minutes.
fn world() -> World {
    let (server, clock, metrics) =
        (Server::default(), Clock::simulated(jiff::Timestamp::UNIX_EPOCH, 1), Metrics::new());
    let (always, open) = gate::closed_write_gate(clock.clone());
    always.open_without_deadline();
    let api = Api::new(server.client(), clock.clone(), open, "test");
    let (keeper, gate) = gate::closed_write_gate(clock.clone());
    let said = Arc::new(Mutex::new(Vec::new()));
    let recorder = {
        let said = Arc::clone(&said);
        EventRecorder::forwarding_events_to("test", clock.clone(), move |object, _, reason, message| {
            said.lock().push(format!("{} {reason}: {message}", object.name));
        })
    };
    let writes = WriteLog::default();
    let settings = ElectionSettings {
        leads_without_release: true,
        ..ElectionSettings::new("kube-system", "deployment-controller", "me".to_owned())
    };
    let election =
        Election::new(settings, api.clone(), Arc::new(keeper), writes.clone(), recorder.clone(), &Metrics::new());
    let sampler = WriteSampler::new(clock.clone(), writes, [LOOP, SWEEPER, QUIET].map(|each| each.owned_writes));
    let watch = SecondWriterWatch {
        api,
        gate,
        election_status: Some(election.status()),
        event_recorder: recorder,
        sent_events: SentEventNames::default(),
        write_sampler: Arc::clone(&sampler),
        loops: vec![LOOP, SWEEPER, QUIET],
        search_period: Duration::from_mins(5),
    };
    tokio::spawn(election.run());
    let counted = metrics.clone();
    tokio::spawn(async move {
        let _always = always;
        watch.run(counted).await;
    });
    World { server, clock, metrics, sampler, said }
}

impl World {
    fn is_found(&self, evidence: &str) -> bool {
        let text = self.metrics.render_prometheus();
        [LOOP.name, SWEEPER.name, QUIET.name].iter().any(|name| {
            text.contains(&format!("nonet_second_writer{{controller=\"{name}\",evidence=\"{evidence}\"}} 1"))
        })
    }

    fn found(&self) -> Vec<String> {
        self.said.lock().iter().filter(|said| said.contains("SecondWriterFound")).cloned().collect()
    }

    async fn pass(&self, seconds: u64) {
        self.clock.sleep(Duration::from_secs(seconds)).await;
    }
}

fn manager_pod(controllers: &str) -> Value {
    let command = ["kube-controller-manager".to_owned(), format!("--controllers={controllers}")];
    json!({"spec": {"containers": [{"command": command}]}, "status": {"phase": "Running"}})
}

/// COMMON-76, COMMON-77.
#[tokio::test(start_paused = true)]
async fn a_manager_with_the_loop_switched_off_is_no_second_writer() {
    let world = world();
    world.server.0.lock().renewals_of_built_in = Some(0);
    world.server.0.lock().pods = vec![manager_pod("*,-deployment-controller,-sweep-controller,-quiet-controller")];
    world.pass(3600).await;
    assert!(Evidence::ALL.iter().all(|evidence| !world.is_found(evidence.metric_label())));
    assert!(world.metrics.render_prometheus().contains("nonet_built_in_manager_leads 1"));
    assert_eq!(world.found(), Vec::<String>::new());
    let requests = world.server.0.lock().requests.clone();
    // Every five minutes, Pods and the Lease are read, and Events of one loop are listed and watched.
    for (kind, times) in [("GET pods", 1), ("GET kube-controller-manager", 1), ("GET events", 2)] {
        assert!((times * 10..=times * 14).contains(&requests[kind]), "{kind}: {requests:?}");
    }
}

/// COMMON-74, COMMON-76, COMMON-78.
#[tokio::test(start_paused = true)]
async fn a_pod_that_runs_the_loop_is_announced_once_an_hour_with_a_remedy() {
    let world = world();
    world.server.0.lock().pods = vec![manager_pod("*,-sweep-controller,-quiet-controller")];
    world.pass(180).await;
    assert!(world.is_found("arguments"));
    let found = world.found();
    assert_eq!(found.len(), 1);
    for part in [
        "deployment-controller SecondWriterFound: a second writer runs deployment-controller",
        "--controllers=*,-deployment-controller",
        "kubectl annotate lease -n kube-system deployment-controller nonet/second-writer-expected-until=1970-01-01T01:",
    ] {
        assert!(found[0].contains(part), "{part}: {}", found[0]);
    }
    world.pass(3600).await;
    assert_eq!(world.found().len(), 2);
    world.server.0.lock().pods.clear();
    world.pass(1200).await;
    assert!(!world.is_found("arguments"));
    let gone = world.said.lock().iter().filter(|said| said.contains("SecondWriterGone")).count();
    assert_eq!(gone, 1, "the end is announced once");
}

/// COMMON-74, COMMON-77.
#[tokio::test(start_paused = true)]
async fn an_event_of_another_process_is_found() {
    let world = world();
    world.pass(30).await;
    world.server.0.lock().events = vec![
        json!({"type": "ADDED", "object": {"metadata": {"name": "web.18a", "managedFields": [{"manager": "kube-controller-manager"}]}}}),
    ];
    world.pass(120).await;
    assert!(world.is_found("events"));
    assert_eq!(world.found().len(), 1);
}

/// COMMON-74, COMMON-75, COMMON-78.
#[tokio::test(start_paused = true)]
async fn writes_of_another_process_are_found_and_an_annotation_silences_the_announcement() {
    let world = world();
    world.pass(90).await;
    let annotated = |lease: &mut Value| {
        lease["metadata"]["annotations"] = json!({SECOND_WRITER_EXPECTED_UNTIL_ANNOTATION: "1970-01-01T00:04:00Z"});
        lease["metadata"]["resourceVersion"] = json!("7000000");
    };
    world.server.0.lock().own_lease.as_mut().map(annotated);
    let bring = |name: &str, version: u64| {
        let line = json!({"type": "MODIFIED", "object": {"metadata": {"name": name, "namespace": "shop", "managedFields": [
            {"manager": "kube-controller-manager", "subresource": "status", "time": world.clock.now().to_string(), "fieldsV1": {}}]}}});
        let version = ResourceVersion::parse(&version.to_string());
        let frame = line.to_string();
        world.sampler.examine_watch_event(
            &DEPLOYMENTS,
            version,
            WireFormat::Json,
            frame.as_bytes(),
            world.clock.monotonic_now(),
        );
    };
    for n in 0..3 {
        bring(&format!("web-{n}"), 1000 + n);
        world.pass(20).await;
    }
    world.pass(20).await;
    assert!(world.is_found("writes"), "the gauge is set for an expected writer, too");
    assert!(world.metrics.render_prometheus().contains("nonet_second_writer_expected 1"));
    assert_eq!(world.found(), Vec::<String>::new());
    world.pass(120).await;
    assert!(world.metrics.render_prometheus().contains("nonet_second_writer_expected 0"));
    assert_eq!(world.found().len(), 1, "the annotated time has passed");
}
