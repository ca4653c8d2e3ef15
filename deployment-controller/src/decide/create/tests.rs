use serde_json::json;

use super::*;
use crate::{decide::conditions::*, world::DeploymentBuilder};

/// DEPLOYMENT-13.
#[test]
fn names_are_shortened_and_never_end_in_a_dot() {
    assert_eq!(replica_set_name("web", "766489fbc8"), "web-766489fbc8");
    let long = "a".repeat(253);
    assert_eq!(replica_set_name(&long, "766489fbc8"), format!("{}-766489fbc8", "a".repeat(242)));
    let dotted = format!("{}.{}", "a".repeat(241), "b".repeat(11));
    assert_eq!(replica_set_name(&dotted, "766489fbc8"), format!("{}-766489fbc8", "a".repeat(241)));
    let dashed = format!("{}-{}", "a".repeat(241), "b".repeat(11));
    assert_eq!(replica_set_name(&dashed, "766489fbc8"), format!("{}--766489fbc8", "a".repeat(241)));
    assert_eq!(replica_set_name(&"a".repeat(242), "766489fbc8").len(), 253);
}

/// DEPLOYMENT-3, DEPLOYMENT-14, DEPLOYMENT-15.
#[test]
fn the_first_set_contains_the_whole_template() {
    let mut world = DeploymentBuilder::new(4);
    world.status = json!({});
    world.annotations = json!({"note": "1"});
    world.spec["template"]["spec"]["nobodyKnows"] = json!({"this": [1, null]});
    world.spec["selector"]["matchExpressions"] = json!([{"key": "app", "operator": "Exists"}]);
    world.spec["minReadySeconds"] = json!(3);
    let plan = world.plan();
    let (name, body) = plan.created_set_name_and_body().unwrap();
    let hash = name.strip_prefix("web-").unwrap();
    let mut template = world.spec["template"].clone();
    template["metadata"]["labels"][POD_TEMPLATE_HASH_LABEL] = json!(hash);
    assert_eq!(
        body,
        json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": {
                "name": name, "namespace": "shop",
                "labels": {"app": "web", POD_TEMPLATE_HASH_LABEL: hash},
                "annotations": {"note": "1", REVISION_ANNOTATION: "1", "deployment.kubernetes.io/desired-replicas": "4",
                    "deployment.kubernetes.io/max-replicas": "5"},
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web",
                    "uid": "D", "controller": true, "blockOwnerDeletion": true}],
            },
            "spec": {
                "replicas": 4, "minReadySeconds": 3, "template": template,
                "selector": {"matchLabels": {"app": "web", POD_TEMPLATE_HASH_LABEL: hash},
                    "matchExpressions": [{"key": "app", "operator": "Exists"}]},
            },
        })
    );
    assert_eq!(plan.event_messages(), [format!("Scaled up replica set {name} from 0 to 4")]);
    let first = (Some("1".to_owned()), (NEW_REPLICA_SET_CREATED.to_owned(), "True".to_owned()));
    assert_eq!(plan.revision_and_progress_of_status_writes()[0], first);
    let last = plan.last_written_status();
    assert_eq!((last.observed_generation, last.unavailable_replicas, last.terminating_replicas), (1, 4, Some(0)));
}

/// DEPLOYMENT-61.
#[test]
fn without_a_deadline_only_the_revision_is_written() {
    let mut world = DeploymentBuilder::new(4);
    world.status = json!({});
    world.annotations = json!({});
    world.spec["progressDeadlineSeconds"] = json!(i32::MAX);
    assert_eq!(
        world.plan().revision_and_progress_of_status_writes()[0],
        (Some("1".to_owned()), (String::new(), String::new()))
    );
}

/// DEPLOYMENT-21.
#[test]
fn a_collision_raises_the_count_for_another_name() {
    let snapshot = DeploymentBuilder::new(1).snapshot();
    let mut status = DeploymentStatus::default();
    for want in [1, 2] {
        let steps = creation_failure_steps(&snapshot, &status, "web-x", &CreateFailure::Collision);
        assert_eq!((steps.len(), steps[0].on_failure), (1, OnFailure::Ignore));
        let Action::WriteStatus { status: written, revision: None } = &steps[0].action else { panic!() };
        assert_eq!(written.collision_count, Some(want));
        status = (**written).clone();
    }
}

/// DEPLOYMENT-23.
#[test]
fn a_refusal_is_reported_in_a_condition_and_an_event() {
    let mut world = DeploymentBuilder::new(1);
    let refused = CreateFailure::Refused("exceeded quota".to_owned());
    let message = r#"Failed to create new replica set "web-x": exceeded quota"#;
    let steps = creation_failure_steps(&world.snapshot(), &DeploymentStatus::default(), "web-x", &refused);
    let Action::WriteStatus { status, .. } = &steps[0].action else { panic!() };
    assert_eq!(&*find_progressing_condition(status).unwrap().message, message);
    assert_eq!(steps[1].event, Some(Event::warning(REPLICA_SET_CREATE_ERROR, message)));
    assert_eq!(
        creation_failure_steps(&world.snapshot(), status, "web-x", &refused).len(),
        1,
        "the condition is there already"
    );
    world.spec["progressDeadlineSeconds"] = json!(null);
    assert_eq!(creation_failure_steps(&world.snapshot(), &DeploymentStatus::default(), "web-x", &refused).len(), 1);
}

/// DEPLOYMENT-86.
#[test]
fn creation_stops_if_sets_are_always_stored_with_another_template() {
    let mut world = DeploymentBuilder::new(2);
    for made in 1..=MAX_CHANGED_CREATIONS {
        let (name, _) = world.plan().created_set_name_and_body().unwrap();
        world = world.with_set(&name, 2, 0);
        let plan = world.plan();
        if made < MAX_CHANGED_CREATIONS {
            assert_eq!(
                plan.created_set_name_and_body().unwrap().0,
                name,
                "the name is tried again although it is taken"
            );
            world.status["collisionCount"] = json!(made);
        } else {
            assert_eq!(plan.created_set_name_and_body(), None);
            assert!(plan.failure.as_ref().unwrap().contains("something changes ReplicaSets"));
            assert_eq!(plan.last_progressing_condition().0, REPLICA_SET_CREATE_ERROR);
        }
    }
    world.spec["template"]["metadata"]["annotations"] = json!({"try": "again"});
    assert!(world.plan().created_set_name_and_body().is_some());
}
