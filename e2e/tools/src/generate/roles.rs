//! The roles of each controller, from the rules in `deploy/controllers/NAME/rules.yaml`, and the role of its shadow.

use std::{fs, io};

use kubectl_nonet::controllers::Controller;
use serde_json::Value;

use super::{File, fill, join, root, template};
use crate::controllers;

/// The verbs that a shadow keeps. It reads single objects only before it writes.
const READ_VERBS: [&str; 2] = ["list", "watch"];

struct Rule {
    groups: Vec<String>,
    resources: Vec<String>,
    verbs: Vec<String>,
}

impl Rule {
    fn parse(rule: &Value) -> Option<Self> {
        let strings = |field: &str| -> Option<Vec<String>> {
            rule[field].as_array()?.iter().map(|value| value.as_str().map(str::to_owned)).collect()
        };
        Some(Self { groups: strings("apiGroups")?, resources: strings("resources")?, verbs: strings("verbs")? })
    }

    fn grants(&self, verb: &str, group: &str, resource: &str) -> bool {
        let has = |list: &[String], item: &str| list.iter().any(|each| each == "*" || each == item);
        has(&self.groups, group) && has(&self.resources, resource) && has(&self.verbs, verb)
    }

    /// The part of the rule that only reads, as YAML.
    fn read_part(&self) -> Option<String> {
        let verbs: Vec<String> =
            self.verbs.iter().filter(|verb| READ_VERBS.contains(&verb.as_str())).cloned().collect();
        (!verbs.is_empty()).then(|| {
            let (groups, resources, verbs) = (flow(&self.groups), flow(&self.resources), flow(&verbs));
            format!("  - apiGroups: {groups}\n    resources: {resources}\n    verbs: {verbs}\n")
        })
    }
}

fn flow(list: &[String]) -> String {
    let quoted = |item: &String| if item.is_empty() || item == "*" { format!("\"{item}\"") } else { item.clone() };
    format!("[{}]", list.iter().map(quoted).collect::<Vec<_>>().join(", "))
}

/// The lines of the hand-written rules without the comment in their first line, and the rules.
fn own_rules(controller: &Controller) -> io::Result<(String, Vec<Rule>)> {
    let path = format!("deploy/controllers/{}/rules.yaml", controller.name);
    let wrong = |why: String| io::Error::other(format!("{path}: {why}"));
    let text = fs::read_to_string(root().join(&path)).map_err(|why| wrong(why.to_string()))?;
    let rules: Vec<Value> = serde_saphyr::from_str(&text).map_err(|why| wrong(why.to_string()))?;
    let rules = rules.iter().map(Rule::parse).collect::<Option<_>>();
    let rules = rules.ok_or_else(|| wrong("a rule needs apiGroups, resources and verbs".to_owned()))?;
    Ok((join(text.lines().skip(1).map(|line| format!("  {line}\n"))), rules))
}

/// The verbs that the own rules do not grant, as YAML.
fn missing_verbs(own: &[Rule], verbs: &[&str], group: &str, resource: &str) -> String {
    let missing = verbs.iter().filter(|verb| !own.iter().any(|rule| rule.grants(verb, group, resource)));
    flow(&missing.map(|verb| (*verb).to_owned()).collect::<Vec<_>>())
}

/// The rules by which a leader records Events and notices a second writer, as far as the own rules do not grant them.
fn second_writer_rules(name: &str, own: &[Rule]) -> String {
    let definition = controllers::ALL.iter().find(|definition| definition.name == name);
    let loops = definition.into_iter().flat_map(|definition| definition.loops);
    let without_owned_writes: Vec<_> = loops.filter(|one| one.owned_writes.is_empty()).collect();
    let (searches_events, searches_pods) = (
        without_owned_writes.iter().any(|one| !one.event_component.is_empty()),
        without_owned_writes.iter().any(|one| one.event_component.is_empty()),
    );
    let verbs: &[&str] = if searches_events { &["create", "patch", "list", "watch"] } else { &["create", "patch"] };
    let events = missing_verbs(own, verbs, "", "events");
    let lacks_lease = !own.iter().any(|rule| rule.grants("get", "coordination.k8s.io", "leases"));
    let mut text = String::new();
    if searches_pods && !own.iter().any(|rule| rule.grants("list", "", "pods")) {
        text.push_str(SECOND_WRITER_BY_PODS);
    }
    if lacks_lease || events.contains("list") {
        text.push_str(if searches_events { SECOND_WRITER_BY_EVENTS } else { SECOND_WRITER });
    }
    if lacks_lease {
        text.push_str(LEASE_OF_MANAGER);
    }
    text + &EVENTS.replace("VERBS", &events)
}

/// The text of `rbac.yaml`: a ClusterRole, a Role, and their bindings.
pub(crate) fn rbac(controller: &Controller) -> io::Result<String> {
    let (lines, rules) = own_rules(controller)?;
    let (_, template) = template!("controllers/NAME/rbac.yaml");
    let lease_verbs = missing_verbs(&rules, &["get", "watch", "update"], "coordination.k8s.io", "leases");
    let text = template
        .replace("OWN_RULES", &lines)
        .replace("SECOND_WRITER_RULES", &second_writer_rules(controller.name, &rules));
    let text = text.replace("LEASE_VERBS", &lease_verbs);
    Ok(fill(&text, controller))
}

/// The roles of a controller and of its shadow.
pub(super) fn files(controller: &Controller) -> io::Result<[File; 2]> {
    let read: String = own_rules(controller)?.1.iter().filter_map(Rule::read_part).collect();
    let (path, shadow) = template!("shadows/NAME/clusterrole.yaml");
    let shadow = shadow.replace("READ_RULES\n", &read);
    Ok([
        File::of_deploy(&fill("controllers/NAME/rbac.yaml", controller), &rbac(controller)?),
        File::of_deploy(&fill(path, controller), &fill(&shadow, controller)),
    ])
}

const SECOND_WRITER: &str =
    "  # To detect a second writer of the same objects, by the Lease of kube-controller-manager.\n";

const SECOND_WRITER_BY_EVENTS: &str =
    "  # To detect a second writer of the same objects, by Events that this controller has not sent and by the Lease of
  # kube-controller-manager.
";

const SECOND_WRITER_BY_PODS: &str =
    "  # To detect a second writer by the arguments of the Pods of kube-controller-manager: there is no other evidence.
  - apiGroups: [\"\"]
    resources: [pods]
    verbs: [list]
";

const LEASE_OF_MANAGER: &str = "  - apiGroups: [coordination.k8s.io]
    resources: [leases]
    resourceNames: [kube-controller-manager]
    verbs: [get]
";

const EVENTS: &str = "  - apiGroups: [\"\"]
    resources: [events]
    verbs: VERBS
";
