use common::{
    api::Api,
    events,
    gate::closed_write_gate,
    metrics::Metrics,
    runtime::{LoopParts, SharedValues},
    settings::OperatorSettings,
};
use sandbox::{Action, Rule, Sandbox};
use serde_json::{Value, json};

use super::*;
use crate::objects::NodePlacement;

const NS: &str = "shop";

/// Starts both loops on a sandbox with one node. The loops run until the returned values are dropped.
async fn controller(sandbox: &Sandbox, clock: &Clock) -> (Arc<DaemonSetController>, Vec<Box<dyn std::any::Any>>) {
    controller_with(OperatorSettings::new(), sandbox, clock).await
}

async fn controller_with(
    settings: OperatorSettings,
    sandbox: &Sandbox,
    clock: &Clock,
) -> (Arc<DaemonSetController>, Vec<Box<dyn std::any::Any>>) {
    let node = |name: &str| json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
    sandbox.create(node("node-0")).await.unwrap();
    sandbox.create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NS}})).await.unwrap();
    let (keeper, gate) = closed_write_gate(clock.clone());
    keeper.open_without_deadline();
    let (metrics, client) = (Metrics::new(), sandbox.client("controllers"));
    let api = |name: &str| Api::new(client.clone(), clock.clone(), gate.clone(), name);
    let events = events::EventSender::start(api("events"), &metrics);
    let context = LoopContext {
        api: api("daemon-set-controller"),
        clock: clock.clone(),
        write_gate: gate.clone(),
        settings: Arc::new(settings),
        recorder: events.recorder_for_loop(events::ReportingLoop {
            component: DAEMON_SET_LOOP.event_component,
            client_name: DAEMON_SET_LOOP.user_agent_suffix,
        }),
        metrics,
        write_sampler: None,
        sync_callbacks: None,
        shared_values: SharedValues::default(),
        parts: LoopParts::default(),
    };
    let queue = context.new_queue("daemonset");
    let updates = context.new_queue("daemonset-node-updates");
    let controller = Arc::new(DaemonSetController::new(context.clone(), queue.clone(), updates.clone()));
    let nodes = Arc::new(QueueConsumer(NodeUpdates(Arc::clone(&controller))));
    let sets = Loop::start(DAEMON_SET_LOOP.name, context.clone(), Arc::clone(&controller), queue, 2);
    let nodes = Loop::start("daemonset-node-updates", context, nodes, updates, 2);
    (controller, vec![Box::new(sets), Box::new(nodes), Box::new(events), Box::new(keeper)])
}

fn set(name: &str) -> Value {
    let labels = json!({"app": name});
    json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": name, "namespace": NS},
        "spec": {"selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "img:1"}]}}}})
}

#[tokio::test(start_paused = true)]
async fn entries_of_deleted_sets_are_removed() {
    let clock = Clock::simulated(world::now(), 7);
    let sandbox = Sandbox::builder().clock(clock.clone()).build();
    let (controller, _at_work) = controller(&sandbox, &clock).await;
    let pause = |milliseconds| clock.sleep(Duration::from_millis(milliseconds));
    pause(1000).await;
    // With this latency, DaemonSets are deleted at all stages of their syncs.
    for resource in ["pods", "controllerrevisions", "daemonsets/status"] {
        sandbox.faults().add(Rule::new(Action::Latency(Duration::from_millis(20))).resource(resource));
    }
    let names: Vec<String> = (0..1000).map(|n| format!("agent-{n}")).collect();
    for (at, name) in names.iter().enumerate() {
        sandbox.create(set(name)).await.unwrap();
        if let Some(earlier) = at.checked_sub(1 + at % 7) {
            let _gone_before = sandbox.delete("daemonsets.apps", Some(NS), &names[earlier]).await;
        }
        pause(10).await;
    }
    assert!(controller.watch.node_indexes.len() > 0 && !controller.watch.parsed_templates.is_empty());
    for name in &names {
        let _gone_before = sandbox.delete("daemonsets.apps", Some(NS), name).await;
    }
    pause(60_000).await;
    assert_eq!(sandbox.count("daemonsets.apps"), 0);
    let kept = (
        controller.watch.node_indexes.len(),
        controller.watch.parsed_templates.len(),
        controller.watch.ledger.len(),
        controller.watch.pod_creation_pauses.len(),
    );
    assert_eq!(kept, (0, 0, 0, 0));
}

/// DAEMONSET-25.
#[tokio::test(start_paused = true)]
async fn entries_of_deleted_nodes_are_removed() {
    let clock = Clock::simulated(world::now(), 7);
    let sandbox = Sandbox::builder().clock(clock.clone()).build();
    let (controller, _at_work) = controller(&sandbox, &clock).await;
    let mut elsewhere = set("agent");
    elsewhere["spec"]["template"]["spec"]["nodeSelector"] = json!({"disk": "ssd"});
    let created = sandbox.create(elsewhere).await.unwrap();
    let settle = || clock.sleep(Duration::from_secs(5));
    settle().await;
    let uid = Uid::new(created["metadata"]["uid"].as_str().unwrap());
    let with = |work: &mut dyn FnMut(&mut node_indexes::DaemonSetRecord)| {
        controller.watch.node_indexes.with_record(&NamespacedName::new(NS, "agent"), &uid, |record| work(record));
    };
    with(&mut |record| {
        record.failed_pod_backoff.record_failed_pod_deletion(&Text::new("node-9"), clock.now());
    });
    for n in 0..20 {
        let name = format!("node-{n}");
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
        if n > 0 {
            sandbox.create(node).await.unwrap();
        }
        settle().await;
        sandbox.delete("nodes", None, &name).await.unwrap();
    }
    settle().await;
    with(&mut |record| {
        let undecided = record.node_index.as_ref().map(|node_index| node_index.nodes_with_undecided_eligibility.len());
        assert_eq!((undecided, record.failed_pod_backoff.len()), (Some(0), 0));
    });
}

// The sandbox refuses these operators, as an API server does without the gate, so the test builds the placement itself.
/// DAEMONSET-86.
#[tokio::test(start_paused = true)]
async fn tolerations_compare_numbers_only_with_the_gate() {
    for gate in [false, true] {
        let clock = Clock::simulated(world::now(), 7);
        let sandbox = Sandbox::builder().clock(clock.clone()).build();
        let settings = OperatorSettings::new().with_feature_gate("TaintTolerationComparisonOperators", gate);
        let (controller, _at_work) = controller_with(settings, &sandbox, &clock).await;
        sandbox.create(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"}})).await.unwrap();
        for (name, load) in [("node-0", "10"), ("node-1", "90")] {
            let taints = json!([{"key": "load", "value": load, "effect": "NoSchedule"}]);
            sandbox.merge("nodes", None, name, None, json!({"spec": {"taints": taints}})).await.unwrap();
        }
        clock.sleep(Duration::from_secs(5)).await;
        let less = json!({"key": "load", "operator": "Lt", "value": "50", "effect": "NoSchedule"});
        let placement = NodePlacement::new(&json!({"tolerations": [less]})).unwrap();
        let runs =
            ["node-0", "node-1"].map(|node| controller.decide_eligibility_on_node(&placement, node).should_run());
        assert_eq!(runs, [gate, false], "gate {gate}");
    }
}
