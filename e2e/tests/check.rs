//! What `kubectl nonet` knows of the controllers agrees with the controllers.

use common::process::built_in_flags::ControllersFlag;
use e2e::controllers;
use kubectl_nonet::controllers::{ALL, AccessRight, controller_of_loop};
use serde_json::Value;

use crate::repository::yaml;

#[test]
fn the_plugin_knows_the_older_name_of_every_loop() {
    for each in controllers::ALL.iter().flat_map(|controller| controller.loops) {
        assert!(controller_of_loop(each.name).is_some(), "{}", each.name);
        let older = if each.alias.is_empty() { each.name } else { each.alias };
        assert!(!ControllersFlag::parse(&format!("*,-{older}")).switches_loop_on(each.name), "{older}");
    }
}

#[test]
fn the_plugin_asks_for_rights_that_the_manifests_give() {
    for controller in ALL {
        let objects = yaml(&format!("deploy/controllers/{}/rbac.yaml", controller.name));
        let role = objects.iter().find(|object| object["kind"] == "ClusterRole").unwrap();
        let gives = |right: &AccessRight| {
            let has = |list: &Value, item: &str| list.as_array().unwrap().iter().any(|each| each == item);
            role["rules"].as_array().unwrap().iter().any(|rule| {
                has(&rule["apiGroups"], right.group)
                    && has(&rule["resources"], right.resource)
                    && has(&rule["verbs"], right.verb)
            })
        };
        for right in controller.rights {
            assert!(gives(right), "{}: {right:?}", controller.name);
        }
    }
}
