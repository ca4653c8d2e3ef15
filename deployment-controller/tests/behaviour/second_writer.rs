//! A leader detects a second writer of its Deployments, without false alarms.

use std::time::Duration;

use common::{
    app::{LeadershipMode, StartParameters, start_loops},
    process::leader,
    settings::OperatorSettings,
};
use sandbox::Sandbox;
use serde_json::json;

use crate::world::{CONTROLLER_IDENTITY, DEPLOYMENTS, NAMESPACE, World, web_deployment};

/// DEPLOYMENT-72.
#[tokio::test(start_paused = true)]
async fn only_writes_of_a_second_writer_raise_the_alarm() {
    let mut world = World::with_sandbox(Sandbox::builder().managed_fields(true), OperatorSettings::new()).await;
    world.crash();
    let names = ["web", "api", "db"];
    for name in names {
        let mut object = web_deployment(2);
        object["metadata"]["name"] = json!(name);
        for labels in ["/spec/selector/matchLabels", "/spec/template/metadata/labels"] {
            *object.pointer_mut(labels).unwrap() = json!({"app": name});
        }
        world.create_object(object).await;
    }
    let election = leader::ElectionSettings {
        leads_without_release: true,
        ..leader::ElectionSettings::new("kube-system", "deployment-controller", "me".to_owned())
    };
    let assembly = start_loops(StartParameters {
        leadership: LeadershipMode::Elected(election),
        second_writer_search_period: Duration::from_mins(5),
        ..StartParameters::new(
            world.sandbox.client(CONTROLLER_IDENTITY),
            world.clock.clone(),
            deployment_controller::LOOPS,
        )
    });
    let is_found = || {
        let line = "nonet_second_writer{controller=\"deployment-controller\",evidence=\"writes\"} 1";
        assembly.metrics().render_prometheus().contains(line)
    };
    world.wait(180.0).await;
    // Writes of this loop, of a user and of the other loops raise no alarm.
    for replicas in [1, 4, 2, 5, 3, 4] {
        for name in names {
            world
                .sandbox
                .merge(DEPLOYMENTS, Some(NAMESPACE), name, None, json!({"spec": {"replicas": replicas}}))
                .await
                .unwrap();
        }
        world.wait(30.0).await;
    }
    world.wait(120.0).await;
    assert!(!is_found());

    for name in names {
        let path = format!(
            "/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{name}/status?fieldManager=kube-controller-manager"
        );
        let patch = json!({"status": {"collisionCount": 1}});
        let kind = "application/merge-patch+json";
        world.sandbox.send(http::Method::PATCH, &path, kind, Some(&patch)).await.unwrap();
        world.wait(20.0).await;
    }
    world.wait(30.0).await;
    assert!(is_found());
    let events = world.sandbox.list("events", Some("kube-system")).await.unwrap();
    let found: Vec<_> = events.iter().filter(|event| event["reason"] == "SecondWriterFound").collect();
    assert_eq!(found.len(), 1, "{events:#?}");
    assert_eq!(found[0]["involvedObject"]["name"], "deployment-controller");
}
