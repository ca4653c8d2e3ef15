use std::{sync::Arc, time::Duration};

use common::prelude::*;
use serde_json::json;

use super::{
    conditions::{TrueConditions, of_failed_discovery, of_findings, set_conditions},
    content::{Content, Failure, Findings, KindState, is_waiting},
    decide,
    verdict::judge,
};
use crate::objects::{finalizers_of, remove_finalizer};
use crate::world::*;

fn names(content: &Content) -> Vec<String> {
    content.kinds.iter().map(|kind| format!("{}/{}", kind.resource.api_version(), kind.resource.plural())).collect()
}

/// Returns the verdict so many seconds after the deletion of the namespace.
fn verdict(states: Vec<(Resource, KindState)>, seconds: i64) -> Verdict {
    judge("shop", &content(&[]), &kinds(states), seconds)
}

type Verdict = Result<Option<Duration>, Failure>;

fn failure_text(verdict: Verdict) -> String {
    verdict.unwrap_err().text
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// NAMESPACE-9, NAMESPACE-19.
#[test]
fn content_is_what_can_be_deleted_in_the_first_version_that_has_it() {
    let found = discovered(&[
        ("", &[("v1", "pods events bindings:create /nodes pods/status configmaps:delete"), ("v2*", "")]),
        ("events.k8s.io", &[("v1", "events")]),
        ("x.io", &[("v3*", ""), ("v2", "webs"), ("v1", "webs others:list,delete")]),
    ]);
    let content = Content::from_discovery(&found).unwrap();
    let expected =
        ["v1/pods", "v1/events", "v1/configmaps", "events.k8s.io/v1/events", "x.io/v2/webs", "x.io/v1/others"];
    assert_eq!(names(&content), expected);
    assert_eq!(content.stale_group_versions.into_iter().collect::<Vec<_>>(), ["v2", "x.io/v3"]);
}

/// NAMESPACE-11.
#[test]
fn discovery_without_core_content_is_a_failure() {
    for groups in [&[][..], &[("apps", &[("v1", "deployments")][..])], &[("", &[("v1*", "")])]] {
        let failure = Content::from_discovery(&discovered(groups)).unwrap_err();
        assert!(failure.text.contains("no resources in the core group"), "{failure:?}");
    }
}

/// NAMESPACE-12, NAMESPACE-13.
#[test]
fn pods_are_visited_first_and_failed_kinds_last() {
    let content = content(&[]);
    let order = |findings: &Findings| {
        let [known_empty, others] = findings.order_of_visits(&content);
        assert!(known_empty.is_empty());
        others.iter().map(|kind| kind.resource.plural().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(order(&Findings::default()), ["pods", "configmaps", "deployments"]);
    let failed = kinds(vec![(MAPS, failed("no")), (PODS, failed("no"))]);
    let findings = Findings { kinds: Arc::new(failed), ..Findings::default() };
    assert_eq!(order(&findings), ["pods", "deployments", "configmaps"]);
}

/// NAMESPACE-21.
#[test]
fn a_kind_is_known_to_be_empty_only_after_a_visit() {
    let content = content(&[]);
    let known_empty = |findings: Findings| findings.order_of_visits(&content)[0].len();
    let visited = Some(Arc::clone(&content.kinds));
    assert_eq!(known_empty(Findings::default()), 0);
    assert_eq!(known_empty(Findings { visited: visited.clone(), ..Findings::default() }), 3);
    let held = Arc::new(kinds(vec![(MAPS, remaining(&[object("a", json!({}))]))]));
    assert_eq!(known_empty(Findings { visited, kinds: held }), 2);
    let other_verbs: &[(&str, &[(&str, &str)])] = &[("", &[("v1", "configmaps:delete pods")])];
    let visited = Some(Content::from_discovery(&discovered(other_verbs)).unwrap().kinds);
    assert_eq!(known_empty(Findings { visited, ..Findings::default() }), 1, "the verbs of a kind have changed");
}

/// NAMESPACE-18.
#[test]
fn an_object_waits_for_its_grace_period_or_a_finalizer_of_somebody() {
    assert!(is_waiting(&terminating("a", &[], 30)));
    assert!(is_waiting(&terminating("a", &["example.com/hold", "orphan"], 0)));
    assert!(!is_waiting(&terminating("a", &["orphan", "foregroundDeletion"], 0)));
    assert!(!is_waiting(&terminating("a", &[], 0)));
    assert!(!is_waiting(&object("a", json!({"finalizers": ["example.com/hold"]}))));
    let mut remains = KindState::default();
    assert!(!remains.only_waits());
    remains.add(&terminating("a", &["example.com/hold"], 0));
    assert!(remains.only_waits());
    assert!(!KindState { failure: failed("no").failure, ..remains.clone() }.only_waits());
    remains.add(&object("b", json!({})));
    assert!(!remains.only_waits());
}

/// NAMESPACE-20, NAMESPACE-59.
#[test]
fn the_first_hundred_finalizers_are_counted_with_the_name_of_one_object() {
    let mut remains = KindState::default();
    for number in 0..150 {
        let own = format!("example.com/{number:03}");
        remains.add(&object(&format!("o{number}"), json!({"finalizers": [own, "example.com/000"]})));
    }
    assert_eq!((remains.count, remains.finalizers.len()), (150, 100));
    let first = &remains.finalizers["example.com/000"];
    assert_eq!((first.0, &*first.1), (151, "o0"));
    assert_eq!(&*remains.finalizers["example.com/099"].1, "o99");
}

/// NAMESPACE-36.
#[test]
fn a_namespace_is_finalized_exactly_when_nothing_remains() {
    assert_eq!(verdict(vec![], 5), Ok(None));
    for state in [failed("no"), remaining(&[object("a", json!({}))]), unserved()] {
        assert_ne!(verdict(vec![(MAPS, state)], 5), Ok(None));
    }
    let stale = judge("shop", &content(&["x.io/v1"]), &kinds(vec![]), 5);
    assert!(failure_text(stale).contains("x.io/v1: stale GroupVersion discovery: x.io/v1"));
}

fn unserved() -> KindState {
    KindState { unserved_since: Some(after(1)), ..KindState::default() }
}

/// NAMESPACE-22, NAMESPACE-24, NAMESPACE-53.
#[test]
fn pods_are_expected_to_be_gone_after_the_largest_grace_period() {
    let pods = |grace: i64| vec![(PODS, remaining(&[2, grace, 1].map(|grace| terminating("a", &[], grace))))];
    assert_eq!(verdict(pods(30), 5), Ok(Some(seconds(16))));
    assert_eq!(verdict(pods(30), 29), Ok(Some(seconds(16))));
    assert_eq!(verdict(pods(31), 5), Ok(Some(seconds(16))));
    assert_eq!(verdict(pods(i64::MAX), 5), Ok(Some(seconds(86_400))));
    // The grace period has ended.
    let text = failure_text(verdict(pods(30), 30));
    assert_eq!(text, "unexpected items still remain in namespace: shop for gvr: /v1, Resource=pods");
    // The grace period of other kinds has no meaning.
    failure_text(verdict(vec![(MAPS, remaining(&[terminating("a", &[], 30)]))], 5));
}

/// NAMESPACE-23, NAMESPACE-24, NAMESPACE-61.
#[test]
fn finalizers_and_unserved_kinds_have_estimates() {
    let held = remaining(&[terminating("a", &["example.com/hold"], 0)]);
    assert_eq!(verdict(vec![(MAPS, held.clone())], 5), Ok(Some(seconds(8))));
    assert_eq!(verdict(vec![(MAPS, unserved())], 5), Ok(Some(seconds(6))));
    assert_eq!(verdict(vec![(MAPS, held.clone()), (DEPLOYMENTS, unserved())], 5), Ok(Some(seconds(8))));
    // A Pod with a finalizer, whose grace period has ended.
    assert_eq!(
        verdict(vec![(PODS, remaining(&[terminating("a", &["example.com/hold"], 30)]))], 31),
        Ok(Some(seconds(8)))
    );
    assert_eq!(
        verdict(vec![(PODS, remaining(&[terminating("a", &["example.com/hold"], 30)]))], 5),
        Ok(Some(seconds(16)))
    );
}

/// NAMESPACE-25, NAMESPACE-42.
#[test]
fn a_failure_has_precedence_over_an_estimate() {
    let held = remaining(&[terminating("a", &["example.com/hold"], 0)]);
    let free = remaining(&[object("b", json!({}))]);
    let states = vec![(MAPS, held), (PODS, failed("pods are forbidden")), (DEPLOYMENTS, free)];
    let failure = verdict(states, 5).unwrap_err();
    assert_eq!(
        failure.text,
        "pods are forbidden, unexpected items still remain in namespace: shop for gvr: apps/v1, Resource=deployments"
    );
    assert_eq!(failure.class, SyncErrorClass::Request("forbidden"));
    let failure = judge("shop", &content(&["x.io/v1"]), &kinds(vec![(PODS, failed("a"))]), 5).unwrap_err();
    assert!(failure.text.ends_with("x.io/v1: stale GroupVersion discovery: x.io/v1, a"), "{failure:?}");
    assert_eq!(failure.class, SyncErrorClass::Unserved);
}

fn messages(conditions: TrueConditions) -> Vec<String> {
    let text = |condition| match condition {
        Some((reason, message)) => format!("{reason}: {message}"),
        None => "-".to_owned(),
    };
    conditions.into_iter().map(text).collect()
}

/// NAMESPACE-27, NAMESPACE-28, NAMESPACE-29, NAMESPACE-30, NAMESPACE-31, NAMESPACE-32.
#[test]
fn conditions_say_what_remains_and_what_failed() {
    assert_eq!(messages(of_findings("shop", &content(&[]), &kinds(vec![]), 5)), ["-"; 5]);
    let hold = "example.com/hold";
    let states = vec![
        (MAPS, remaining(&[terminating("a", &[hold, "a.io/x"], 0), terminating("b", &[hold], 0)])),
        (DEPLOYMENTS, KindState { failure: failed("denied").failure, ..remaining(&[terminating("c", &[hold], 0)]) }),
        (PODS, failed("a timeout")),
        (Resource::namespaced("", "v1", "secrets", "secrets"), remaining(&[terminating("s", &["a.io/x"], 0)])),
    ];
    let stale = content(&["y.io/v1", "x.io/v2"]);
    assert_eq!(
        messages(of_findings("shop", &stale, &kinds(states), 5)),
        [
            "DiscoveryFailed: Discovery failed for some groups, 2 failing: unable to retrieve the complete list of server APIs: \
             x.io/v2: stale GroupVersion discovery: x.io/v2, y.io/v1: stale GroupVersion discovery: y.io/v1",
            "-",
            "ContentDeletionFailed: Failed to delete all resource types, 2 remaining: a timeout, denied",
            "SomeResourcesRemain: Some resources are remaining: configmaps. has 2 resource instances, \
             deployments.apps has 1 resource instances, secrets. has 1 resource instances",
            "SomeFinalizersRemain: Some content in the namespace has finalizers remaining: a.io/x in 2 resource instances, \
             example.com/hold in 3 resource instances",
        ]
    );
    let failure = Failure { text: "no discovery".to_owned(), class: SyncErrorClass::Unserved };
    assert_eq!(messages(of_failed_discovery(&failure)), ["DiscoveryFailed: no discovery", "-", "-", "-", "-"]);
}

fn none_is_true() -> TrueConditions {
    [const { None }; 5]
}

/// NAMESPACE-26, NAMESPACE-27, NAMESPACE-28, NAMESPACE-29, NAMESPACE-30, NAMESPACE-31, NAMESPACE-33.
#[test]
fn conditions_are_appended_in_order_and_written_only_if_they_change() {
    let mut namespace = live(&["kubernetes"]);
    namespace["status"]["conditions"] =
        json!([{"type": "Mine", "status": "True", "lastTransitionTime": null, "more": 1}]);
    assert!(set_conditions(&mut namespace, none_is_true(), after(1)).unwrap());
    let conditions = namespace["status"]["conditions"].as_array().unwrap().clone();
    let fields = |condition: &serde_json::Value| {
        ["type", "status", "reason", "message"]
            .map(|field| condition[field].as_str().unwrap_or_default().to_owned())
            .join("|")
    };
    assert_eq!(
        conditions.iter().map(fields).collect::<Vec<_>>(),
        [
            "Mine|True||",
            "NamespaceDeletionDiscoveryFailure|False|ResourcesDiscovered|All resources successfully discovered",
            "NamespaceDeletionGroupVersionParsingFailure|False|ParsedGroupVersions|All legacy kube types successfully parsed",
            "NamespaceDeletionContentFailure|False|ContentDeleted|All content successfully deleted, may be waiting on finalization",
            "NamespaceContentRemaining|False|ContentRemoved|All content successfully removed",
            "NamespaceFinalizersRemaining|False|ContentHasNoFinalizers|All content-preserving finalizers finished",
        ]
    );
    assert_eq!(conditions[0]["more"], 1, "other conditions stay as they are");
    assert!(!set_conditions(&mut namespace, none_is_true(), after(2)).unwrap());
    let remaining = |message: &str| [None, None, None, Some(("SomeResourcesRemain", message.to_owned())), None];
    let time = |namespace: &serde_json::Value| namespace["status"]["conditions"][4]["lastTransitionTime"].clone();
    assert!(set_conditions(&mut namespace, remaining("a"), after(3)).unwrap());
    assert_eq!(time(&namespace), after(3).to_string());
    assert!(set_conditions(&mut namespace, remaining("b"), after(4)).unwrap());
    assert_eq!(time(&namespace), after(3).to_string(), "the status has not changed");
    namespace["status"]["conditions"] = json!("text");
    set_conditions(&mut namespace, none_is_true(), after(5)).unwrap_err();
}

/// NAMESPACE-35, NAMESPACE-59.
#[test]
fn long_messages_are_truncated() {
    let mut namespace = live(&["kubernetes"]);
    let long = || [None, None, Some(("ContentDeletionFailed", "\u{e9}".repeat(40_000))), None, None];
    assert!(set_conditions(&mut namespace, long(), after(1)).unwrap());
    let message = namespace["status"]["conditions"][2]["message"].as_str().unwrap().to_owned();
    assert!((32_760..=32_768).contains(&message.len()) && message.ends_with("\u{e9}..."), "{}", message.len());
    assert!(!set_conditions(&mut namespace, long(), after(2)).unwrap());
}

/// NAMESPACE-37, NAMESPACE-41.
#[test]
fn only_the_finalizer_of_this_controller_is_removed() {
    let mut namespace = live(&["z.io/z", "kubernetes", "a.io/a", "z.io/z"]);
    let before = namespace.clone();
    assert!(remove_finalizer(&mut namespace));
    assert_eq!(namespace["spec"]["finalizers"], json!(["a.io/a", "z.io/z"]));
    assert_eq!(namespace["metadata"], before["metadata"], "all metadata is kept");
    let only_others = namespace.clone();
    assert!(!remove_finalizer(&mut namespace));
    assert_eq!(namespace, only_others);
    let mut last = live(&["kubernetes"]);
    assert!(remove_finalizer(&mut last));
    assert_eq!(last["spec"]["finalizers"], json!([]));
    assert!(finalizers_of(&json!({"spec": {}})).is_empty() && !remove_finalizer(&mut json!({"spec": {}})));
}

/// NAMESPACE-44.
#[test]
fn the_plan_says_what_remains_and_which_finalizer_holds_it() {
    let failed_maps = KindState {
        failure: failed("configmaps is forbidden").failure,
        ..remaining(&[terminating("a", &["example.com/hold"], 0)])
    };
    let findings = Findings {
        kinds: Arc::new(kinds(vec![(MAPS, failed_maps), (DEPLOYMENTS, unserved())])),
        ..Findings::default()
    };
    let plan = decide(&snapshot(findings));
    assert!(plan.situation.starts_with("terminating since 2026-"), "{}", plan.situation);
    assert_eq!(
        plan.waiting,
        [
            "configmaps: 1 remaining",
            "configmaps: finalizer example.com/hold in 1, for example in a",
            "configmaps: configmaps is forbidden",
            "deployments.apps: the server lists the kind in discovery and answers its list with 404",
        ]
    );
}
