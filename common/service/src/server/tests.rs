use std::{
    future::Future,
    pin::Pin,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    time::Duration,
};

use axum::{body::Body, http::Request};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::*;
use crate::{api::Api, gate, server::admission::Peer};

/// A loop with fixed answers; only its readiness changes.
struct Fake {
    ready: AtomicBool,
}

impl RunningLoop for Fake {
    fn check_ready(&self) -> Result<(), String> {
        if self.ready.load(Ordering::Relaxed) { Ok(()) } else { Err("waiting for pods".to_owned()) }
    }
    fn problems_besides_readiness(&self) -> Option<String> {
        Some("no list or watch of secrets has succeeded".to_owned())
    }
    fn debug_queue(&self) -> Value {
        json!({"depth": 3})
    }
    fn debug_cache(&self) -> Value {
        json!({"pods": 7})
    }
    fn explain(&self, key: Option<&str>) -> Value {
        json!({"asked": key})
    }
    fn debug_graph(&self, around: &[String]) -> Option<String> {
        self.ready.load(Ordering::Relaxed).then(|| format!("digraph {around:?}"))
    }
    fn shutdown(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async {})
    }
}

async fn get(router: &Router, uri: &str, headers: &[(&str, &str)]) -> (u16, HeaderMap, String) {
    let mut request = Request::get(uri);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    send(router, request.body(Body::empty()).unwrap()).await
}

async fn send(router: &Router, request: Request<Body>) -> (u16, HeaderMap, String) {
    let response = router.clone().oneshot(request).await.unwrap();
    let (parts, body) = response.into_parts();
    let text = String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap();
    (parts.status.as_u16(), parts.headers, text)
}

/// COMMON-66.
#[tokio::test]
async fn health_checks_answer_as_upstream() {
    let state = ServerState::new(Metrics::new(), logging::VerbosityHandle::new_detached());
    let router = state.router();
    assert_eq!(get(&router, "/healthz?verbose", &[]).await.2, "[+]ping ok\nhealthz check passed\n");
    let ill = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&ill);
    state
        .liveness_checks()
        .add_check("leaderElection", move || if seen.load(Ordering::Relaxed) { Err("secret".into()) } else { Ok(()) });
    let running: Arc<dyn RunningLoop> = Arc::new(Fake { ready: AtomicBool::new(false) });
    state.add_loop("replicaset-controller", &running);
    let (code, headers, text) = get(&router, "/healthz", &[]).await;
    assert_eq!((code, text.as_str()), (200, "ok"));
    assert_eq!(headers["content-type"], "text/plain; charset=utf-8");
    assert_eq!(headers["cache-control"], "no-cache, private");
    assert_eq!(headers["x-content-type-options"], "nosniff");
    ill.store(true, Ordering::Relaxed);
    let (code, _, text) = get(&router, "/livez", &[]).await;
    assert_eq!(code, 500);
    assert_eq!(text, "[-]leaderElection failed: reason withheld\n[+]replicaset-controller ok\nhealthz check failed\n");
    assert_eq!(get(&router, "/livez?exclude=leaderElection", &[]).await.0, 200);
    assert_eq!(get(&router, "/healthz/leaderElection", &[]).await.0, 404);
    let slis = get(&router, "/metrics/slis", &[]).await.2;
    assert!(slis.contains("kubernetes_healthcheck{name=\"leaderElection\",type=\"healthz\"} 0\n"), "{slis}");
    let delete = Request::delete("/metrics/slis").body(Body::empty()).unwrap();
    let (code, _, text) = send(&router, delete).await;
    assert_eq!((code, text.as_str()), (200, "metrics reset\n"));
    let slis = get(&router, "/metrics/slis", &[]).await.2;
    assert!(!slis.contains("kubernetes_healthcheck{"), "{slis}");
}

/// COMMON-65.
#[tokio::test]
async fn readiness_names_the_missing_cache() {
    let state = ServerState::new(Metrics::new(), logging::VerbosityHandle::new_detached());
    let fake = Arc::new(Fake { ready: AtomicBool::new(false) });
    let running: Arc<dyn RunningLoop> = Arc::clone(&fake) as _;
    state.add_loop("replicaset-controller", &running);
    let router = state.router();
    let (code, _, text) = get(&router, "/readyz", &[]).await;
    assert_eq!(
        (code, text.as_str()),
        (500, "[-]replicaset-controller failed: waiting for pods\nreadyz check failed\n")
    );
    fake.ready.store(true, Ordering::Relaxed);
    let ok = |text: &str| (200, text.to_owned());
    let answer = async |path: &str| {
        let (code, _, text) = get(&router, path, &[]).await;
        (code, text)
    };
    assert_eq!(answer("/readyz").await, ok("ok"));
    // The verbose answer also reports problems that leave the process ready.
    let troubles = "[+]replicaset-controller ok: no list or watch of secrets has succeeded\nreadyz check passed\n";
    assert_eq!(answer("/readyz?verbose").await, ok(troubles));
    assert_eq!(answer("/livez?verbose").await, ok("[+]replicaset-controller ok\nhealthz check passed\n"));
}

/// COMMON-69, COMMON-70.
#[tokio::test]
async fn diagnostics_are_json_or_text() {
    let state = ServerState::new(Metrics::new(), logging::VerbosityHandle::new_detached());
    let running: Arc<dyn RunningLoop> = Arc::new(Fake { ready: AtomicBool::new(true) });
    state.add_loop("replicaset-controller", &running);
    let router = state.router();
    let (_, headers, text) = get(&router, "/debug/explain?key=ns/web", &[("accept", "*/*")]).await;
    assert_eq!(headers["content-type"], "application/json");
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), json!({"replicaset-controller": {"asked": "ns/web"}}));
    assert_eq!(get(&router, "/debug/queue?format=text", &[]).await.2, "replicaset-controller:\n  depth: 3\n");
    assert_eq!(
        get(&router, "/debug/cache", &[("accept", "text/plain")]).await.2,
        "replicaset-controller:\n  pods: 7\n"
    );
}

/// COMMON-70.
#[tokio::test]
async fn a_loop_with_a_graph_shows_it() {
    let state = ServerState::new(Metrics::new(), logging::VerbosityHandle::new_detached());
    let [without, with]: [Arc<dyn RunningLoop>; 2] =
        [false, true].map(|ready| Arc::new(Fake { ready: AtomicBool::new(ready) }) as _);
    state.add_loop("job-controller", &without);
    let router = state.router();
    assert_eq!(get(&router, "/debug/graph", &[]).await.0, 404);
    state.add_loop("garbage-collector-controller", &with);
    let (code, headers, text) = get(&router, "/debug/graph", &[]).await;
    assert_eq!((code, text.as_str()), (200, "digraph []"));
    assert_eq!(headers["content-type"], "text/vnd.graphviz");
    let of = |name: &str| format!("/debug/controllers/{name}/graph?uid=a&depth=2&uid=b");
    let text = get(&router, &of("garbage-collector-controller"), &[]).await.2;
    assert_eq!(text, "digraph [\"a\", \"b\"]");
    assert_eq!(get(&router, &of("job-controller"), &[]).await.0, 404);
}

/// COMMON-70.
#[tokio::test]
async fn a_put_changes_the_verbosity_of_the_log() {
    let log = logging::VerbosityHandle::new_detached();
    let router = ServerState::new(Metrics::new(), log.clone()).router();
    let put = |text: &'static str| Request::put("/debug/flags/v").body(Body::from(text)).unwrap();
    assert_eq!(send(&router, put("4")).await.2, "successfully set klog.logging.verbosity to 4\n");
    assert_eq!(log.verbosity(), 4);
    assert_eq!(send(&router, put("much")).await.0, 400);
    assert_eq!(get(&router, "/debug/flags/v", &[]).await.2, "4\n");
}

/// COMMON-83.
#[tokio::test]
async fn metrics_have_the_format_that_the_client_accepts() {
    let metrics = Metrics::new();
    metrics.counter("x_total", crate::metrics::Stability::Beta, "X", &[]).with_label_values(&[]).inc();
    let router = ServerState::new(metrics, logging::VerbosityHandle::new_detached()).router();
    let (_, headers, text) = get(&router, "/metrics", &[]).await;
    assert_eq!(headers["content-type"], "text/plain; version=0.0.4; charset=utf-8");
    assert_eq!(text, "# HELP x_total [BETA] X\n# TYPE x_total counter\nx_total 1\n");
    let (_, headers, text) =
        get(&router, "/metrics", &[("accept", "application/openmetrics-text;version=1.0.0")]).await;
    assert!(headers["content-type"].to_str().unwrap().starts_with("application/openmetrics-text"));
    assert!(text.ends_with("# EOF\n"));
}

/// Returns an API server that accepts the tokens `good` (for `/metrics`) and `ready` (for `/readyz`), and the number of reviews
/// that it has received.
fn reviewer() -> (Api, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        count.fetch_add(1, Ordering::Relaxed);
        async move {
            let (parts, body) = request.into_parts();
            let body: Value = serde_json::from_slice(&body.collect().await.unwrap().to_bytes()).unwrap();
            let spec = &body["spec"];
            let status = if parts.uri.path().ends_with("/tokenreviews") {
                let user = json!({"username": "prometheus", "groups": ["monitoring"], "extra": {"k": ["v"]}});
                let operator = json!({"username": "operator"});
                let user = if spec["token"] == "ready" { operator } else { user };
                json!({"authenticated": spec["token"] == "good" || spec["token"] == "ready", "user": user})
            } else if spec["user"] == "operator" {
                json!({"allowed": spec["nonResourceAttributes"] == json!({"path": "/readyz", "verb": "get"})})
            } else {
                let allowed = spec["user"] == "prometheus"
                    && spec["extra"]["k"][0] == "v"
                    && spec["nonResourceAttributes"] == json!({"path": "/metrics", "verb": "get"});
                json!({"allowed": allowed})
            };
            let body = json!({"status": status}).to_string();
            Ok::<_, std::io::Error>(http::Response::new(http_body_util::Full::new(bytes::Bytes::from(body))))
        }
    });
    let clock = Clock::simulated(jiff::Timestamp::UNIX_EPOCH, 0);
    let (keeper, open) = gate::closed_write_gate(clock.clone());
    keeper.open_without_deadline();
    std::mem::forget(keeper);
    (Api::new(kube::Client::new(service, "default"), clock, open, "test"), asked)
}

/// COMMON-67.
#[tokio::test(start_paused = true)]
async fn reviews_decide_about_requests_and_are_cached_for_ten_seconds() {
    let (api, asked) = reviewer();
    let clock = api.clock().clone();
    let open = ["/healthz".to_owned(), "/open/*".to_owned()];
    let metrics = Metrics::new();
    let access = Arc::new(RequestAuthorizer::new(api.clone(), api, ReviewOptions::new(&open), &metrics));
    let state = ServerState::new(metrics.clone(), logging::VerbosityHandle::new_detached());
    let router = state.router().layer(middleware::from_fn_with_state(access, access::guard_request));
    let good = [("authorization", "Bearer good")];
    assert_eq!(get(&router, "/healthz", &[]).await.0, 200);
    assert_eq!(asked.load(Ordering::Relaxed), 0, "health checks need no review");
    assert_eq!(get(&router, "/metrics", &good).await.0, 200);
    assert_eq!(get(&router, "/metrics", &good).await.0, 200);
    assert_eq!(asked.load(Ordering::Relaxed), 2);
    clock.sleep(Duration::from_secs(11)).await;
    assert_eq!(get(&router, "/metrics", &good).await.0, 200);
    assert_eq!(asked.load(Ordering::Relaxed), 4);
    let (code, _, text) = get(&router, "/debug/queue", &good).await;
    assert_eq!((code, text.as_str()), (403, "forbidden: User \"prometheus\" cannot get path \"/debug/queue\"\n"));
    let (code, _, text) = get(&router, "/metrics", &[]).await;
    assert_eq!((code, text.as_str()), (403, "forbidden: User \"system:anonymous\" cannot get path \"/metrics\"\n"));
    for header in ["Bearer bad", "Basic eDp5", "Bearer", "Bearer \u{e9}"] {
        let (code, _, text) = get(&router, "/metrics", &[("authorization", header)]).await;
        assert_eq!((code, text.as_str()), (401, "Unauthorized\n"), "{header}");
    }
    let text = metrics.render_prometheus();
    for line in ["nonet_rejected_requests_total{code=\"401\"} 4", "nonet_rejected_requests_total{code=\"403\"} 2"] {
        assert!(text.lines().any(|each| each == line), "{line}\nis not in\n{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn answers_are_cached_for_the_configured_time() {
    let (api, asked) = reviewer();
    let clock = api.clock().clone();
    let second = Duration::from_secs(1);
    let options = ReviewOptions {
        always_allowed_paths: Vec::new(),
        token_cache_ttl: second * 60,
        granted_permission_cache_ttl: second * 10,
        denied_permission_cache_ttl: second * 2,
    };
    let access = Arc::new(RequestAuthorizer::new(api.clone(), api, options, &Metrics::new()));
    let state = ServerState::new(Metrics::new(), logging::VerbosityHandle::new_detached());
    let router = state.router().layer(middleware::from_fn_with_state(access, access::guard_request));
    let ask = async |path: &str, pause: u32| {
        clock.sleep(second * pause).await;
        let before = asked.load(Ordering::Relaxed);
        get(&router, path, &[("authorization", "Bearer good")]).await;
        asked.load(Ordering::Relaxed) - before
    };
    assert_eq!(ask("/metrics", 0).await, 2);
    assert_eq!(ask("/metrics", 9).await, 0);
    assert_eq!(ask("/metrics", 2).await, 1, "the user of the token is cached for longer");
    assert_eq!(ask("/debug/queue", 0).await, 1);
    assert_eq!(ask("/debug/queue", 1).await, 0);
    assert_eq!(ask("/debug/queue", 2).await, 1);
}

async fn comes_from(mut request: Request<Body>) -> Request<Body> {
    if let Some(peer) = request.headers_mut().remove("peer") {
        let peer = Peer::from_address(peer.to_str().unwrap().parse().unwrap());
        request.extensions_mut().insert(peer);
    }
    request
}

/// Returns a guarded router, the number of its reviews, its clock and its state. The header `peer` of a request sets the peer.
fn guarded(open: &[&str]) -> (Router, Arc<AtomicUsize>, Clock, ServerState) {
    let (api, asked) = reviewer();
    let clock = api.clock().clone();
    let open: Vec<String> = open.iter().map(|path| (*path).to_owned()).collect();
    let access = Arc::new(RequestAuthorizer::new(api.clone(), api, ReviewOptions::new(&open), &Metrics::new()));
    let state = ServerState::new(Metrics::new(), logging::VerbosityHandle::new_detached());
    let router = state.router().layer(middleware::from_fn_with_state(access, access::guard_request));
    (router.layer(middleware::map_request(comes_from)), asked, clock, state)
}

/// COMMON-98.
#[tokio::test(start_paused = true)]
async fn invalid_tokens_cost_few_reviews_and_lock_no_caller_out() {
    let (router, asked, clock, _) = guarded(&[]);
    let good = [("authorization", "Bearer good"), ("peer", "10.0.0.1")];
    assert_eq!(get(&router, "/metrics", &good).await.0, 200);
    let mut refused = 0;
    for second in 0..20u32 {
        for n in 0..100 {
            let token = format!("Bearer bad-{second}-{n}");
            let bad = [("authorization", token.as_str()), ("peer", "10.0.0.2")];
            let (code, headers, _) = get(&router, "/metrics", &bad).await;
            assert!(code == 401 || code == 429, "{code}");
            refused += usize::from(code == 429);
            assert_eq!(headers.contains_key("retry-after"), code == 429);
        }
        clock.sleep(Duration::from_secs(1)).await;
    }
    let one_peer = asked.load(Ordering::Relaxed) - 2;
    assert!(one_peer <= 10 + 20 * 4 && refused >= 1900, "{one_peer} reviews, {refused} refusals");
    // Reviews of invalid tokens from many peers reach the limit for all peers together.
    for n in 0..2000 {
        let (token, peer) = (format!("Bearer worse-{n}"), format!("10.1.{}.{}", n / 250, n % 250));
        get(&router, "/metrics", &[("authorization", &token), ("peer", &peer)]).await;
    }
    let all = asked.load(Ordering::Relaxed) - one_peer - 2;
    assert!(all <= 50, "{all} reviews at once");
    // A caller with a granted request is exempt from the limits, although its review has to be repeated.
    assert_eq!(get(&router, "/metrics", &good).await.0, 200);
    assert_eq!(asked.load(Ordering::Relaxed), one_peer + all + 4);
}

/// COMMON-67.
#[tokio::test(start_paused = true)]
async fn rejections_are_cached_and_evict_no_accepted_credentials() {
    let (router, asked, clock, _) = guarded(&[]);
    let (good, bad) = ([("authorization", "Bearer good")], [("authorization", "Bearer bad")]);
    assert_eq!(get(&router, "/metrics", &good).await.0, 200);
    for _ in 0..100 {
        assert_eq!(get(&router, "/metrics", &bad).await.0, 401);
    }
    assert_eq!(asked.load(Ordering::Relaxed), 3);
    clock.sleep(Duration::from_secs(5)).await;
    for n in 0..3000 {
        let (token, peer) = (format!("Bearer bad-{n}"), format!("10.1.{}.{}", n / 250, n % 250));
        get(&router, "/metrics", &[("authorization", &token), ("peer", &peer)]).await;
        get(&router, &format!("/made/up/{n}"), &[("peer", &peer)]).await;
    }
    let before = asked.load(Ordering::Relaxed);
    assert_eq!(get(&router, "/metrics", &good).await.0, 200);
    assert_eq!(asked.load(Ordering::Relaxed), before, "the answer was still cached");
    let long = "x".repeat(2000);
    assert_eq!(get(&router, &format!("/{long}"), &good).await.0, 414);
}

/// COMMON-65.
#[tokio::test(start_paused = true)]
async fn reasons_for_unreadiness_are_shown_only_to_callers_with_permission() {
    let (router, _, _, state) = guarded(&["/readyz"]);
    let running: Arc<dyn RunningLoop> = Arc::new(Fake { ready: AtomicBool::new(false) });
    state.add_loop("replicaset-controller", &running);
    let withheld = "[-]replicaset-controller failed: reason withheld\nreadyz check failed\n";
    let shown = "[-]replicaset-controller failed: waiting for pods\nreadyz check failed\n";
    assert_eq!(get(&router, "/readyz?verbose", &[]).await.2, withheld);
    assert_eq!(
        get(&router, "/readyz?verbose", &[("authorization", "Bearer good")]).await.2,
        withheld,
        "this user lacks the permission"
    );
    assert_eq!(get(&router, "/readyz?verbose", &[("authorization", "Bearer ready")]).await.2, shown);
    assert_eq!(get(&state.router(), "/readyz", &[]).await.2, shown, "without a guard only this host can connect");
}

/// COMMON-67.
#[tokio::test(start_paused = true)]
async fn a_client_certificate_needs_no_token() {
    let (api, asked) = reviewer();
    let access = Arc::new(RequestAuthorizer::new(api.clone(), api, ReviewOptions::new(&[]), &Metrics::new()));
    let state = ServerState::new(Metrics::new(), logging::VerbosityHandle::new_detached());
    let named = |username: &str, group: &str| {
        let user = access::User::with_name_and_groups(username.into(), vec![group.into()]);
        state
            .router()
            .layer(middleware::from_fn_with_state(Arc::clone(&access), access::guard_request))
            .layer(Extension(Some(user)))
    };
    assert_eq!(get(&named("root", "system:masters"), "/debug/queue", &[]).await.0, 200);
    assert_eq!(asked.load(Ordering::Relaxed), 0);
    let (code, _, text) = get(&named("eve", "users"), "/metrics", &[]).await;
    assert_eq!((code, text.as_str()), (403, "forbidden: User \"eve\" cannot get path \"/metrics\"\n"));
    assert_eq!(asked.load(Ordering::Relaxed), 1, "only the permission is reviewed, not the user");
}

#[tokio::test(start_paused = true)]
async fn a_certificate_with_a_granted_request_is_exempt_from_the_limits_on_reviews() {
    let (router, asked, clock, _) = guarded(&[]);
    let user = access::User::with_name_and_groups("operator".into(), Vec::new());
    let certified = router.clone().layer(Extension(Some(user)));
    // The request also has a token, which is ignored.
    let bogus = [("authorization", "Bearer bogus"), ("peer", "10.0.0.1")];
    assert_eq!(get(&certified, "/readyz", &bogus).await.0, 200);
    clock.sleep(Duration::from_secs(11)).await;
    for n in 0..2000 {
        let (token, peer) = (format!("Bearer bad-{n}"), format!("10.1.{}.{}", n / 250, n % 250));
        get(&router, "/metrics", &[("authorization", &token), ("peer", &peer)]).await;
    }
    assert_eq!(
        get(&router, "/metrics", &bogus).await.0,
        429,
        "the exemption belongs to the certificate and not to the token"
    );
    let before = asked.load(Ordering::Relaxed);
    assert_eq!(get(&certified, "/readyz", &bogus).await.0, 200);
    assert_eq!(asked.load(Ordering::Relaxed), before + 1);
}

/// COMMON-67.
#[tokio::test]
async fn a_client_certificate_is_accepted_from_the_configured_authority_only() {
    let directory = std::env::temp_dir().join(format!("nonet-server-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let issue = |authority: &str| {
        let mut of = rcgen::CertificateParams::new(vec![]).unwrap();
        of.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        of.distinguished_name.push(rcgen::DnType::CommonName, authority);
        let authority_key = rcgen::KeyPair::generate().unwrap();
        let certificate = of.self_signed(&authority_key).unwrap();
        let mut client = rcgen::CertificateParams::new(vec![]).unwrap();
        client.distinguished_name.push(rcgen::DnType::CommonName, "root");
        client.distinguished_name.push(rcgen::DnType::OrganizationName, "system:masters");
        client.extended_key_usages.push(rcgen::ExtendedKeyUsagePurpose::ClientAuth);
        let key = rcgen::KeyPair::generate().unwrap();
        let signed = client.signed_by(&key, &rcgen::Issuer::new(of, authority_key)).unwrap();
        (certificate.pem(), signed.der().clone(), key.serialize_der())
    };
    let (ours, certificate, key) = issue("ours");
    let (_, stranger, stranger_key) = issue("theirs");
    let ca = directory.join("ca.crt");
    std::fs::write(&ca, ours).unwrap();
    let (api, _) = reviewer();
    let access = RequestAuthorizer::new(api.clone(), api, ReviewOptions::new(&[]), &Metrics::new());
    let settings = ServerSettings {
        secure_address: Some("127.0.0.1:0".parse().unwrap()),
        tls: TlsSettings { client_ca_file: Some(ca), ..TlsSettings::default() },
        ..ServerSettings::default()
    };
    let state = ServerState::new(Metrics::new(), logging::VerbosityHandle::new_detached());
    let server = start_server(&settings, &state, Some(access), &Clock::system()).unwrap();
    std::fs::remove_dir_all(directory).unwrap();
    let code = async |with: Option<(rustls::pki_types::CertificateDer<'static>, Vec<u8>)>| {
        let mut config = kube::Config::new(format!("https://{}", server.secure_address.unwrap()).parse().unwrap());
        config.accept_invalid_certs = true;
        if let Some((certificate, key)) = with {
            use base64::Engine as _;
            let encode = |what: &str, der: &[u8]| {
                let text = base64::engine::general_purpose::STANDARD.encode(der);
                let pem = format!("-----BEGIN {what}-----\n{text}\n-----END {what}-----\n");
                base64::engine::general_purpose::STANDARD.encode(pem)
            };
            config.auth_info.client_certificate_data = Some(encode("CERTIFICATE", &certificate));
            config.auth_info.client_key_data = Some(encode("PRIVATE KEY", &key).into());
        }
        let client = crate::client::build_client(&config).unwrap();
        let request = http::Request::get("/debug/queue").body(kube::client::Body::empty()).unwrap();
        client.send(request).await.map(|response| response.status().as_u16()).ok()
    };
    assert_eq!(code(None).await, Some(403), "a certificate is optional");
    assert_eq!(code(Some((certificate, key))).await, Some(200));
    assert_eq!(code(Some((stranger, stranger_key))).await, None);
}

#[tokio::test]
async fn without_http2_the_server_speaks_http1() {
    let settings = ServerSettings {
        secure_address: Some("127.0.0.1:0".parse().unwrap()),
        tls: TlsSettings { is_http1_only: true, ..TlsSettings::default() },
        is_port_shared: true,
        ..ServerSettings::default()
    };
    let state = ServerState::new(Metrics::new(), logging::VerbosityHandle::new_detached());
    let server = start_server(&settings, &state, None, &Clock::system()).unwrap();
    let mut config = kube::Config::new(format!("https://{}", server.secure_address.unwrap()).parse().unwrap());
    config.accept_invalid_certs = true;
    let client = crate::client::build_client(&config).unwrap();
    let answer = client.send(http::Request::get("/livez").body(kube::client::Body::empty()).unwrap()).await.unwrap();
    assert_eq!(answer.version(), http::Version::HTTP_11);
    // A second server can share the port.
    let second = ServerSettings { secure_address: server.secure_address, ..settings };
    assert!(start_server(&second, &state, None, &Clock::system()).is_ok());
}

/// COMMON-68.
#[tokio::test]
async fn the_default_address_stands_for_both_families() {
    let has_ipv6 = std::net::TcpListener::bind("[::1]:0").is_ok();
    for all in ["0.0.0.0:0", "[::]:0"].into_iter().filter(|all| has_ipv6 || all.starts_with('0')) {
        let (listener, address) = listen(all.parse().unwrap(), false).unwrap();
        for host in ["127.0.0.1", "::1"].into_iter().filter(|host| has_ipv6 || !host.contains(':')) {
            let to = SocketAddr::new(host.parse().unwrap(), address.port());
            let connected = tokio::net::TcpStream::connect(to).await;
            assert!(connected.is_ok(), "{all} does not answer on {to}: {connected:?}");
        }
        drop(listener);
    }
}

#[tokio::test]
async fn the_server_speaks_tls_and_plain_http_on_loopback() {
    let clock = Clock::system();
    let state = ServerState::new(Metrics::new(), logging::VerbosityHandle::new_detached());
    let anywhere: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let settings =
        ServerSettings { secure_address: Some(anywhere), debug_address: Some(anywhere), ..ServerSettings::default() };
    let server = start_server(&settings, &state, None, &clock).unwrap();
    for (scheme, address) in [("https", server.secure_address.unwrap()), ("http", server.debug_address.unwrap())] {
        let mut config = kube::Config::new(format!("{scheme}://{address}").parse().unwrap());
        config.accept_invalid_certs = true;
        let client = crate::client::build_client(&config).unwrap();
        let request = http::Request::get("/livez").body(Vec::new()).unwrap();
        assert_eq!(client.request_text(request).await.unwrap(), "ok", "{scheme}");
    }
    let taken = ServerSettings { secure_address: server.secure_address, ..ServerSettings::default() };
    let error = start_server(&taken, &state, None, &clock).unwrap_err().to_string();
    assert!(error.starts_with("cannot listen on 127.0.0.1:"), "{error}");
}
