//! Rolling updates, and the update strategy `OnDelete`.

use crate::world::*;

/// STATEFULSET-2, STATEFULSET-39.
#[tokio::test(start_paused = true)]
async fn an_earlier_template_is_read_only_to_create_a_pod_from_it() {
    let world = cluster().start().await;
    let partition = json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 3}}});
    world.create_and_settle(set(3, partition)).await;
    let current = world.status().await["currentRevision"].as_str().unwrap().to_owned();
    assert_eq!(world.count("get", REVISIONS), 0, "the set itself has the template");
    world.roll_out_and_settle("img:2").await;
    assert_eq!(world.count("get", REVISIONS), 0);
    world.delete_and_settle("pods", "web-1").await;
    assert_eq!(images(&world).await[1], "web-1 img:1");
    assert_eq!(world.count("get", REVISIONS), 1);
    // While the revision cannot be read, the Pod is missing, and an Event gives the reason.
    world.fault(rule(Action::InternalError, "get", "controllerrevisions"));
    world.delete("pods", "web-2").await;
    world.wait(10).await;
    assert_eq!(images(&world).await, ["web-0 img:1", "web-1 img:1"]);
    let start = "Warning FailedCreate Create Pod web-2 in StatefulSet web failed error: cannot read ControllerRevision";
    world.assert_event(&format!("{start} {current}")).await;
    assert_eq!(world.status().await["readyReplicas"], json!(2));
    world.clear_faults();
    world.settle().await;
    assert_eq!(images(&world).await[2], "web-2 img:1");
}

/// STATEFULSET-2.
#[tokio::test(start_paused = true)]
async fn an_earlier_template_is_read_once_for_a_burst_of_pods() {
    let world = cluster().start().await;
    let more = json!({"podManagementPolicy": "Parallel",
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 20}}});
    world.create_and_settle(set(20, more)).await;
    world.roll_out_and_settle("img:2").await;
    world.clear_log();
    world.hold("pods");
    for ordinal in 0..20 {
        world.delete("pods", &format!("web-{ordinal}")).await;
    }
    world.wait(60).await;
    assert_eq!(pod_and_claim_writes(&world), [""; 0]);
    world.release("pods");
    world.settle().await;
    assert_eq!(pod_and_claim_writes(&world).iter().filter(|what| what.starts_with('+')).count(), 20);
    assert_images(&world, "img:1").await;
    world.assert_count("get", REVISIONS, 1..=2);
}

/// STATEFULSET-69.
#[tokio::test(start_paused = true)]
async fn a_metric_shows_how_many_pods_may_be_unavailable_with_the_gate() {
    let gate = "MaxUnavailableStatefulSet";
    let world = cluster().gate(gate, true).server(|server| server.gate(gate, true)).start().await;
    let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "50%"}});
    world.create_and_settle(set(4, json!({"podManagementPolicy": "Parallel", "updateStrategy": strategy}))).await;
    let metrics = world.metrics();
    let labels = "statefulset_namespace=\"shop\",statefulset_name=\"web\",pod_management_policy=\"Parallel\"";
    assert!(
        metrics.contains(&format!("statefulset_controller_statefulset_max_unavailable{{{labels}}} 2")),
        "{metrics}"
    );
    world.delete("statefulsets.apps", "web").await;
    world.wait(1).await;
    assert!(!world.metrics().contains(labels), "the series is removed with the set");
}
