//! Tests of the ClusterTrustBundle of the API server.

use std::sync::atomic::AtomicU64;

use crate::world::*;

const TRUST_BUNDLES: &str = "clustertrustbundles.certificates.k8s.io";
/// The resource in faults.
const PLURAL: &str = "clustertrustbundles";
const SIGNER: &str = "kubernetes.io/kube-apiserver-serving";
const GATE: &str = "ClusterTrustBundle";

/// A cluster whose server has the API, and whose loops have the gate.
fn gated(root_ca_file: &'static str) -> Cluster {
    cluster_with(root_ca_file).gate(GATE, true).server(|server| server.gate(GATE, true))
}

/// Returns a ClusterTrustBundle of the signer, or of another one.
fn trust_bundle(name: &str, signer: &str, text: &str) -> Value {
    json!({"apiVersion": "certificates.k8s.io/v1beta1", "kind": "ClusterTrustBundle", "metadata": {"name": name},
        "spec": {"signerName": signer, "trustBundle": text}})
}

/// Returns the names of the objects, and the text of each.
async fn all(world: &World) -> Vec<(String, String)> {
    let objects = world.list(TRUST_BUNDLES).await;
    let mut all: Vec<_> = objects
        .iter()
        .map(|object| (name(object).to_owned(), text(&object["spec"], "trustBundle").to_owned()))
        .collect();
    all.sort();
    all
}

/// Asserts that there is one object of the signer, with this text, and returns its name.
async fn assert_only(world: &World, expected: &str) -> String {
    let all = all(world).await;
    let [(name, text)] = &all[..] else { panic!("{all:?}") };
    let hash = name.strip_prefix("kubernetes.io:kube-apiserver-serving:").unwrap();
    assert_eq!((hash.len(), text.as_str()), (24, expected));
    name.clone()
}

/// SERVICEACCOUNT-13.
#[tokio::test(start_paused = true)]
async fn without_the_gate_nothing_is_published() {
    let world = cluster().server(|server| server.gate(GATE, true)).start().await;
    world.wait(300).await;
    assert_eq!(all(&world).await, []);
    assert_eq!((world.count("watch", TRUST_BUNDLES), world.count("list", TRUST_BUNDLES)), (0, 0));
    assert!(world.loops().ready().is_ok());
}

/// SERVICEACCOUNT-15, SERVICEACCOUNT-16, SERVICEACCOUNT-17.
#[tokio::test(start_paused = true)]
async fn there_is_one_object_of_the_signer_with_the_bundle() {
    let world = gated(CA_FILE).start().await;
    let name = assert_only(&world, CA).await;
    // Others are deleted, and a wrong one is corrected, a second later. Those of other signers stay.
    world.create(trust_bundle("kubernetes.io:kube-apiserver-serving:old", SIGNER, NEXT_CA)).await;
    world.create(trust_bundle("example.com:other:x", "example.com/other", NEXT_CA)).await;
    world.patch(TRUST_BUNDLES, &name, json!({"spec": {"trustBundle": NEXT_CA}})).await;
    world.wait(0.9).await;
    assert_eq!(world.own_write_lines(), [""; 0]);
    world.wait(0.2).await;
    assert_eq!(
        world.own_write_lines(),
        [
            format!("patch clustertrustbundles {name}"),
            "delete clustertrustbundles kubernetes.io:kube-apiserver-serving:old".to_owned(),
        ]
    );
    world.delete(TRUST_BUNDLES, "example.com:other:x").await;
    world.delete(TRUST_BUNDLES, &name).await;
    world.wait(1.2).await;
    assert_only(&world, CA).await;
    world.clear_log();
    world.wait(1200).await;
    assert_eq!(world.count_all(), 0);
}

/// SERVICEACCOUNT-16, SERVICEACCOUNT-28.
#[tokio::test(start_paused = true)]
async fn a_changed_bundle_replaces_the_object() {
    let file = TestFile::new("trust", CA);
    let mut world = gated(file.path()).start().await;
    let name = assert_only(&world, CA).await;
    file.write(NEXT_CA);
    world.wait(65).await;
    assert_ne!(assert_only(&world, NEXT_CA).await, name);
    world.clear_log();
    world.restart();
    world.wait(60).await;
    assert_eq!(world.own_write_lines(), [""; 0]);
}

/// SERVICEACCOUNT-14, SERVICEACCOUNT-34.
#[tokio::test(start_paused = true)]
async fn the_newest_version_that_is_served_is_used() {
    for (beta, alpha, version) in [(true, true, "v1beta1"), (false, true, "v1alpha1")] {
        let cluster = cluster().gate(GATE, true);
        let cluster = cluster.server(|server| server.gate(GATE, beta).gate("ClusterTrustBundleV1Alpha1", alpha));
        let is_other = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&is_other);
        let counts: RequestFilter = Arc::new(move |request| {
            let (path, newest) = (request.uri().path(), format!("/apis/certificates.k8s.io/{version}/{PLURAL}"));
            counted.fetch_add(u64::from(path.contains(PLURAL) && !path.starts_with(&newest)), Ordering::Relaxed);
            None
        });
        let world = cluster.filter(counts).start().await;
        let object = world.list(TRUST_BUNDLES).await.remove(0);
        assert_eq!(object["spec"]["trustBundle"], CA);
        let path = format!("/apis/certificates.k8s.io/{version}/clustertrustbundles/{}", name(&object));
        world.delete_with(&path, json!({})).await;
        world.wait(5).await;
        assert_only(&world, CA).await;
        assert_eq!(is_other.load(Ordering::Relaxed), 0, "requests in another version than {version}");
    }
}

/// SERVICEACCOUNT-34.
#[tokio::test(start_paused = true)]
async fn a_server_without_the_api_is_asked_less_and_less() {
    let searches = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&searches);
    let counts: RequestFilter = Arc::new(move |request| {
        counted.fetch_add(u64::from(request.uri().path() == "/apis"), Ordering::Relaxed);
        None
    });
    let world = cluster().gate(GATE, true).filter(counts).start().await;
    world.wait(3600).await;
    assert!(world.loops().ready().is_ok());
    assert!(data(&world).await.is_object());
    // After 1, 3, 7, ... 1023 s, and then every ten minutes.
    let searches = searches.load(Ordering::Relaxed);
    assert!((13..=16).contains(&searches), "{searches}");
}

/// SERVICEACCOUNT-17.
#[tokio::test(start_paused = true)]
async fn a_refused_deletion_stops_neither_the_others_nor_the_retries() {
    let world = gated(CA_FILE).start().await;
    let old = |number: usize| format!("kubernetes.io:kube-apiserver-serving:old-{number}");
    let mut refuses_one = rule(Action::Forbidden, "delete", PLURAL);
    refuses_one.matcher.name = Some(old(0));
    world.fault(refuses_one);
    for number in 0..3 {
        world.create(trust_bundle(&old(number), SIGNER, NEXT_CA)).await;
    }
    world.wait(20).await;
    let names: Vec<String> = all(&world).await.into_iter().map(|(name, _)| name).collect();
    assert_eq!((names.len(), names.contains(&old(0))), (2, true), "{names:?}");
    world.assert_count("delete", TRUST_BUNDLES, 10..=20);
    assert!(world.metric("clustertrustbundle_publisher_sync_total{code=\"403\"}") > 5);
    world.clear_faults();
    world.wait(30).await;
    assert_only(&world, CA).await;
}

/// SERVICEACCOUNT-17.
#[tokio::test(start_paused = true)]
async fn an_object_that_is_gone_already_is_no_failure() {
    let world = gated(CA_FILE).start().await;
    let old = "kubernetes.io:kube-apiserver-serving:old";
    world.create(trust_bundle(old, SIGNER, NEXT_CA)).await;
    world.wait(0.5).await;
    world.hold(PLURAL);
    world.delete(TRUST_BUNDLES, old).await;
    world.wait(20).await;
    world.assert_count("delete", TRUST_BUNDLES, 1..=1);
    assert!(!world.metrics().contains("clustertrustbundle_publisher_sync_total{code=\"404\"}"));
}

/// SERVICEACCOUNT-17, SERVICEACCOUNT-18.
#[tokio::test(start_paused = true)]
async fn while_the_object_is_refused_nothing_is_deleted_and_the_config_maps_are_published() {
    for action in [Action::Invalid, Action::Conflict] {
        let mut world = gated(CA_FILE).stopped().await;
        world.fault(rule(action.clone(), "create", PLURAL));
        world.create(trust_bundle("kubernetes.io:kube-apiserver-serving:old", SIGNER, NEXT_CA)).await;
        world.start();
        world.wait(20).await;
        assert_eq!((all(&world).await.len(), world.count("delete", TRUST_BUNDLES)), (1, 0), "{action:?}");
        assert_eq!(data(&world).await, json!({"ca.crt": CA}));
        world.assert_count("create", TRUST_BUNDLES, 10..=14);
        world.clear_faults();
        world.wait(30).await;
        assert_only(&world, CA).await;
    }
}

/// SERVICEACCOUNT-13, SERVICEACCOUNT-30.
#[tokio::test(start_paused = true)]
async fn without_a_bundle_the_objects_stay_as_they_are() {
    let mut world = gated("/does/not/exist").stopped().await;
    world.create(trust_bundle("kubernetes.io:kube-apiserver-serving:old", SIGNER, NEXT_CA)).await;
    world.start();
    world.wait(300).await;
    assert_eq!(all(&world).await.len(), 1);
    let explained = world.loops().explain(Some("bundle"));
    assert!(explained[2]["waiting"].to_string().contains("there is no usable bundle yet"), "{explained:#}");
}

/// SERVICEACCOUNT-20, SERVICEACCOUNT-21, SERVICEACCOUNT-22.
#[tokio::test(start_paused = true)]
async fn the_right_to_attest_for_the_signer_is_needed() {
    let rule = |group: &str, resource: &str, verbs: Value| json!({"apiGroups": [group], "resources": [resource], "verbs": verbs});
    let group = "certificates.k8s.io";
    let verbs = json!(["list", "watch", "create", "patch", "delete"]);
    let mut rules = vec![
        rule("", "namespaces", json!(["list", "watch"])),
        rule("", "serviceaccounts", json!(["list", "watch", "create"])),
        rule("", "configmaps", json!(["list", "watch", "create", "patch"])),
        rule(group, "clustertrustbundles", verbs),
    ];
    let world = gated(CA_FILE).rights(json!(rules)).start().await;
    world.wait(10).await;
    assert_eq!(all(&world).await, []);
    let error = world.loops().explain(Some("bundle"))[2]["lastError"]["error"].as_str().unwrap().to_owned();
    assert!(
        error.contains("user not permitted to attest for signerName \"kubernetes.io/kube-apiserver-serving\""),
        "{error}"
    );
    let mut attest = rule(group, "signers", json!(["attest"]));
    attest["resourceNames"] = json!([SIGNER]);
    rules.push(attest);
    world.sandbox.grant(CONTROLLER, json!(rules)).await.unwrap();
    world.wait(30).await;
    assert_only(&world, CA).await;
    let metrics = world.metrics();
    assert!(metrics.contains("workqueue_adds_total{name=\"ca_cert_publisher_cluster_trust_bundles\"}"));
    assert!(metrics.contains("clustertrustbundle_publisher_sync_duration_seconds_bucket{code=\"403\",le=\"0.001\"}"));
}

/// SERVICEACCOUNT-16.
#[tokio::test(start_paused = true)]
async fn a_sync_waits_until_the_cache_shows_the_writes_of_the_last_one() {
    let file = TestFile::new("unseen", CA);
    let world = gated(file.path()).start().await;
    world.hold(PLURAL);
    file.write(NEXT_CA);
    world.wait(65).await;
    assert_only(&world, NEXT_CA).await;
    world.clear_log();
    let both = format!("{CA}{NEXT_CA}");
    file.write(&both);
    world.wait(65).await;
    let written = world.own_writes();
    assert!(written.iter().all(|write| write.resource == CONFIG_MAPS), "{:?}", world.own_write_lines());
    world.release(PLURAL);
    world.wait(5).await;
    assert_only(&world, &both).await;
}
