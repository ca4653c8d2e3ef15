use std::sync::Arc;

use common::settings::OperatorSettings;
use serde_json::json;
use testkit::context_without_server;

use super::*;
use crate::{
    objects::PERSISTENT_VOLUME_CLAIMS,
    world::{empty_set, sync_time},
};

fn controller() -> StatefulSetController {
    let clock = Clock::simulated(sync_time(), 0);
    let context = context_without_server(&clock, OperatorSettings::new());
    StatefulSetController::new(&context, Queue::new(clock, BackoffSettings::default(), None))
}

#[tokio::test(start_paused = true)]
async fn a_template_is_parsed_once_until_it_changes() {
    let controller = controller();
    let mut set = empty_set(3).set;
    let mut template = |version: u64| {
        set["metadata"]["resourceVersion"] = json!(version.to_string());
        set["status"] = json!({"replicas": version});
        if version > 2 {
            set["spec"]["template"]["spec"]["containers"][0]["image"] = json!("img:b");
        }
        controller.sets.replace_objects_for_tests(
            vec![serde_json::from_str(&set.to_string()).unwrap()],
            ResourceVersion::parse(&version.to_string()),
        );
        match controller.observe(&NamespacedName::new("shop", "web"), sync_time()) {
            Ok(snapshot) => snapshot.template,
            _ => panic!("the caches allow a decision"),
        }
    };
    let (first, same, changed) = (template(1), template(2), template(3));
    assert!(Arc::ptr_eq(&first, &same), "a new status does not change the template");
    assert_ne!(first.revision_data().bytes(), changed.revision_data().bytes());
}

/// STATEFULSET-5.
#[tokio::test(start_paused = true)]
async fn the_event_of_an_awaited_write_enqueues_its_set() {
    let (controller, key) = (controller(), NamespacedName::new("shop", "web"));
    let set = serde_json::from_str(&empty_set(3).set.to_string()).unwrap();
    controller.sets.replace_objects_for_tests(vec![set], ResourceVersion::parse("5"));
    controller.claims.replace_objects_for_tests(Vec::new(), ResourceVersion::parse("8"));
    let ledger = &controller.watch.ledger;
    ledger.record_write(&Uid::new("SET"), PERSISTENT_VOLUME_CLAIMS, ResourceVersion::parse("9"));
    let claim = Meta { namespace: "shop".into(), resource_version: ResourceVersion::parse("9"), ..Meta::default() };
    assert!(ledger.take_keys_awaiting(&PERSISTENT_VOLUME_CLAIMS, &claim).is_empty());
    assert!(matches!(controller.observe(&key, sync_time()), Err(NoSnapshot::Waiting { .. })));
    assert_eq!(ledger.take_keys_awaiting(&PERSISTENT_VOLUME_CLAIMS, &claim), [key]);
}
