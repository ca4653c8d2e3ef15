//! Tests of the ConfigMap of each namespace.

use crate::world::*;

const DESCRIPTION: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters.";

/// The description in the ConfigMap of the namespace.
async fn description(world: &World) -> Value {
    world.get(CONFIG_MAPS, ROOT_CA).await["metadata"]["annotations"]["kubernetes.io/description"].take()
}

/// SERVICEACCOUNT-6, SERVICEACCOUNT-8.
#[tokio::test(start_paused = true)]
async fn each_namespace_gets_the_bytes_of_the_file() {
    let world = cluster().start().await;
    let config_map = world.get(CONFIG_MAPS, ROOT_CA).await;
    assert_eq!(config_map["data"], json!({"ca.crt": CA}));
    assert_eq!(config_map["metadata"]["annotations"], json!({"kubernetes.io/description": DESCRIPTION}));
    assert_eq!(pick(&config_map, "binaryData immutable"), json!([null, null]));
    create_namespaces(&world, (0..20).map(|number| format!("n{number}"))).await;
    world.wait(0.5).await;
    assert_eq!(count_everywhere(&world, CONFIG_MAPS, ROOT_CA).await, INITIAL_NAMESPACES + 20);
    assert_eq!(world.count("create", CONFIG_MAPS), 20);
}

/// SERVICEACCOUNT-9, SERVICEACCOUNT-11, SERVICEACCOUNT-27, SERVICEACCOUNT-32.
#[tokio::test(start_paused = true)]
async fn a_wrong_config_map_is_repaired_and_keeps_what_others_have_added() {
    let mark =
        json!({"metadata": {"labels": {"team": "a"}, "annotations": {"note": "kept"}}, "binaryData": {"b": "AAAA"}});
    let no_description = json!({"metadata": {"annotations": {"kubernetes.io/description": ""}}});
    for wrong in [
        json!({"data": {"ca.crt": NEXT_CA}}),
        json!({"data": {"other": "x"}}),
        json!({"data": {"ca.crt": null, "other": "x", "more": "y"}}),
        json!({"data": null}),
        json!({"data": {"ca.crt": null}}),
        json!({"data": null, "binaryData": {"ca.crt": "AAAA"}}),
        json!({"data": {"ca.crt": null, "other": "x"}, "binaryData": {"ca.crt": "AAAA"}}),
        no_description.clone(),
        json!({"metadata": {"annotations": {"kubernetes.io/description": null}}, "data": {"ca.crt": "x"}}),
    ] {
        let world = cluster().start().await;
        world.patch(CONFIG_MAPS, ROOT_CA, mark.clone()).await;
        world.settle().await;
        assert_eq!(world.own_write_lines(), [""; 0], "what others add is right");
        world.patch(CONFIG_MAPS, ROOT_CA, wrong.clone()).await;
        world.wait(0.9).await;
        assert_eq!(world.own_write_lines(), [""; 0], "{wrong}");
        world.wait(0.2).await;
        assert_eq!(world.own_write_lines(), ["patch configmaps kube-root-ca.crt"], "{wrong}");
        let config_map = world.get(CONFIG_MAPS, ROOT_CA).await;
        assert_eq!(config_map["data"], json!({"ca.crt": CA}), "{wrong}");
        assert_eq!(config_map["binaryData"], json!({"b": "AAAA"}), "{wrong}");
        assert_eq!(config_map["metadata"]["labels"], json!({"team": "a"}), "{wrong}");
        let annotations = json!({"kubernetes.io/description": DESCRIPTION, "note": "kept"});
        assert_eq!(config_map["metadata"]["annotations"], annotations, "{wrong}");
        world.wait(3600).await;
        assert_eq!(world.own_writes().len(), 1, "{wrong}");
    }
}

/// SERVICEACCOUNT-10.
#[tokio::test(start_paused = true)]
async fn any_description_is_right() {
    let world = cluster().start().await;
    let description_of_user = json!({"metadata": {"annotations": {"kubernetes.io/description": "Ours"}}});
    world.patch_and_settle(CONFIG_MAPS, ROOT_CA, description_of_user).await;
    assert_eq!((world.own_writes().len(), description(&world).await), (0, json!("Ours")));
}

/// SERVICEACCOUNT-9.
#[tokio::test(start_paused = true)]
async fn a_deleted_config_map_is_back_after_a_second() {
    let world = cluster().start().await;
    world.delete(CONFIG_MAPS, ROOT_CA).await;
    world.wait(0.9).await;
    assert_eq!(data(&world).await, Value::Null);
    world.wait(0.2).await;
    assert_eq!(data(&world).await, json!({"ca.crt": CA}));
}

/// SERVICEACCOUNT-12.
#[tokio::test(start_paused = true)]
async fn immutable_data_backs_off_until_it_is_deleted() {
    let world = cluster().start().await;
    world.delete(CONFIG_MAPS, ROOT_CA).await;
    let mut immutable = object("v1", "ConfigMap", ROOT_CA, Value::Null);
    (immutable["data"], immutable["immutable"]) = (json!({"ca.crt": NEXT_CA}), json!(true));
    world.create(immutable).await;
    world.wait(3600).await;
    world.assert_count("patch", CONFIG_MAPS, 15..=25);
    let explained = world.loops().explain(Some(&format!("{NAMESPACE}/{ROOT_CA}")));
    let error = explained[1]["lastError"]["error"].as_str().unwrap().to_owned();
    assert!(
        error.ends_with("field is immutable when `immutable` is set")
            && error.starts_with("cannot write kube-root-ca.crt: "),
        "{error}"
    );
    world.delete(CONFIG_MAPS, ROOT_CA).await;
    world.wait(2).await;
    assert_eq!(data(&world).await, json!({"ca.crt": CA}));
}

/// SERVICEACCOUNT-10.
#[tokio::test(start_paused = true)]
async fn an_immutable_config_map_that_is_right_is_described_and_left_alone() {
    let world = cluster().start().await;
    world.patch(CONFIG_MAPS, ROOT_CA, json!({"immutable": true})).await;
    world.settle().await;
    let no_description = json!({"metadata": {"annotations": {"kubernetes.io/description": null}}});
    world.patch(CONFIG_MAPS, ROOT_CA, no_description).await;
    world.settle().await;
    assert_eq!((world.own_writes().len(), description(&world).await), (1, json!(DESCRIPTION)));
    assert_eq!(world.get(CONFIG_MAPS, ROOT_CA).await["immutable"], true);
}

/// SERVICEACCOUNT-33.
#[tokio::test(start_paused = true)]
async fn another_writer_causes_one_repair_a_second_however_fast_it_is() {
    for interval in [0.01, 0.2, 0.99] {
        let world = cluster().start().await;
        for number in 0..(60.0 / interval) as usize {
            world.patch(CONFIG_MAPS, ROOT_CA, json!({"data": {"ca.crt": format!("{number}")}})).await;
            world.wait(interval).await;
        }
        world.assert_count("patch", CONFIG_MAPS, 25..=62);
        world.wait(3).await;
        assert_eq!(data(&world).await, json!({"ca.crt": CA}), "every {interval} s");
    }
}

/// SERVICEACCOUNT-12, SERVICEACCOUNT-26, COMMON-26.
#[tokio::test(start_paused = true)]
async fn refused_repairs_back_off_and_are_made_up_for() {
    for action in [Action::Conflict, Action::Forbidden, Action::InternalError, Action::CutBefore, Action::CutAfter] {
        let world = cluster().start().await;
        world.fault(rule(action.clone(), "patch", CONFIG_MAPS).times(5));
        world.patch(CONFIG_MAPS, ROOT_CA, json!({"data": {"ca.crt": "x"}})).await;
        world.wait(60).await;
        assert_eq!(data(&world).await, json!({"ca.crt": CA}), "{action:?}");
        assert!(world.count("patch", CONFIG_MAPS) <= 6, "{action:?}");
        let writes = world.sandbox.writes().all();
        assert_eq!(writes.iter().filter(|write| write.identity == CONTROLLER).count(), 1, "{action:?}");
    }
}

/// SERVICEACCOUNT-27.
#[tokio::test(start_paused = true)]
async fn a_repair_that_was_decided_on_a_stale_cache_changes_nothing() {
    let world = cluster().start().await;
    world.hold("configmaps");
    world.patch(CONFIG_MAPS, ROOT_CA, json!({"data": {"ca.crt": "x"}})).await;
    world.wait(1).await;
    world.release("configmaps");
    world.wait(0.5).await;
    world.hold("configmaps");
    // A user puts it right, and adds to it, before the repair is decided on the wrong state.
    world.patch(CONFIG_MAPS, ROOT_CA, json!({"data": {"ca.crt": CA}, "immutable": true})).await;
    world.wait(30).await;
    assert_eq!(world.own_write_lines(), [""; 0]);
    assert!(world.count("patch", CONFIG_MAPS) >= 1, "the repair was tried");
    world.release("configmaps");
    world.clear_log();
    world.wait(60).await;
    assert_eq!(world.count_all(), 0);
}

/// SERVICEACCOUNT-23.
#[tokio::test(start_paused = true)]
async fn only_the_objects_with_these_names_are_watched() {
    let reads = [
        ("serviceaccount-controller", &["namespaces", "serviceaccounts?metadata.name=default"][..]),
        ("root-ca-certificate-publisher-controller", &["namespaces", "configmaps?metadata.name=kube-root-ca.crt"]),
        ("kube-apiserver-serving-clustertrustbundle-publisher-controller", &[]),
    ];
    conformance::each_choice_of_loops_watches_only_what_it_reads(serviceaccount_controller::LOOPS, &reads).await;
}

/// SERVICEACCOUNT-21, SERVICEACCOUNT-22.
#[tokio::test(start_paused = true)]
async fn syncs_are_counted_by_the_code_of_their_result() {
    let world = cluster().start().await;
    let count = |code: &str| format!("root_ca_cert_publisher_sync_total{{code=\"{code}\"}}");
    // The creation in each namespace, and the sync a second later.
    assert_eq!(world.metric(&count("200")), 2 * INITIAL_NAMESPACES as u64);
    world.fault(rule(Action::Forbidden, "create", CONFIG_MAPS).times(2));
    world.fault(rule(Action::CutBefore, "create", CONFIG_MAPS).times(1));
    world.create(namespace("late")).await;
    world.wait(5).await;
    assert_eq!((world.metric(&count("403")), world.metric(&count("500"))), (2, 1));
    let metrics = world.metrics();
    for line in [
        "root_ca_cert_publisher_sync_duration_seconds_bucket{code=\"200\",le=\"0.001\"}",
        "root_ca_cert_publisher_sync_duration_seconds_bucket{code=\"403\",le=\"16.384\"} 2",
        "workqueue_adds_total{name=\"serviceaccount\"}",
        "workqueue_adds_total{name=\"root_ca_cert_publisher\"}",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
}

/// SERVICEACCOUNT-19.
#[tokio::test(start_paused = true)]
async fn a_shadow_writes_nothing_and_says_what_it_would_write() {
    let world = cluster().shadow().start().await;
    world.wait(300).await;
    world.assert_wrote_nothing();
    let plans = world.loops().plans(&format!("{NAMESPACE}/{DEFAULT}"));
    assert_eq!(plans[0].1, ["create ServiceAccount default: the namespace lacks it"]);
    assert_eq!(world.events().await, [""; 0]);
}

/// SERVICEACCOUNT-19.
#[test]
fn the_loops_have_the_names_and_aliases_of_upstream() {
    let chosen = |flags: &[&str]| -> Vec<&str> {
        let options = testkit::scene::program_options(&serviceaccount_controller::DEFINITION, flags);
        options.loops.iter().map(|definition| definition.name).collect()
    };
    assert_eq!(chosen(&["--controllers=serviceaccount"]), ["serviceaccount-controller"]);
    assert_eq!(chosen(&["--controllers=root-ca-cert-publisher"]), ["root-ca-certificate-publisher-controller"]);
    let third = "kube-apiserver-serving-clustertrustbundle-publisher-controller";
    assert_eq!(chosen(&["--controllers=*,-serviceaccount,-root-ca-cert-publisher"]), [third]);
}
