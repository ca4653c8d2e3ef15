use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn service(name: &str, selector: &BTreeMap<String, String>) -> Service {
    serde_json::from_value(json!({"metadata": {"name": name, "namespace": "ns", "uid": name},
        "spec": {"type": "ClusterIP", "selector": selector}}))
    .unwrap()
}

fn pod(name: &str, labels: &BTreeMap<String, String>) -> Arc<Pod> {
    let meta = json!({"name": name, "namespace": "ns", "uid": name, "labels": labels});
    Arc::new(serde_json::from_value(json!({ "metadata": meta })).unwrap())
}

fn names(index: &mut ServicePodIndex, service: &Service) -> Option<Vec<String>> {
    let meta = &service.metadata;
    let pods = index.selected_pods(&meta.namespace, &meta.name, &service.spec.selector).unwrap()?;
    Some(pods.iter().map(|pod| pod.metadata.name.to_string()).collect())
}

/// ENDPOINTSLICE-6.
#[test]
fn an_unreadable_pod_is_an_error_for_the_services_that_select_it() {
    let mut index = ServicePodIndex::default();
    let web = labels(&[("app", "web")]);
    let (a, b) = (service("a", &web), service("b", &labels(&[("app", "db")])));
    index.add_or_replace_service(&a);
    index.add_or_replace_service(&b);
    index.add_or_replace_pod(None, &pod("p", &web));
    let bad = |app: &str| {
        let meta = serde_json::from_value(json!({"name": "p", "namespace": "ns", "labels": {"app": app}})).unwrap();
        Arc::new(MalformedObject { meta, error: "spec is a number".to_owned() })
    };
    // The unreadable state of the Pod has different labels from its last readable state.
    let concerned: Vec<Arc<str>> = index.apply_malformed_pod_event(&bad("db"), false).into_iter().collect();
    assert_eq!(concerned, [Arc::from("a"), Arc::from("b")]);
    assert_eq!(names(&mut index, &a), Some(vec![]));
    let meta = &b.metadata;
    assert!(index.selected_pods(&meta.namespace, &meta.name, &b.spec.selector).is_err());
    index.apply_malformed_pod_event(&bad("db"), true);
    assert_eq!(names(&mut index, &b), Some(vec![]));
}

#[test]
fn deleted_objects_leave_nothing_in_the_index() {
    let mut index = ServicePodIndex::default();
    let web = labels(&[("app", "web"), ("tier", "a")]);
    let (service, pod) = (service("web", &web), pod("p", &web));
    for services_first in [true, false] {
        if services_first {
            index.add_or_replace_service(&service);
        }
        index.add_or_replace_pod(None, &pod);
        index.add_or_replace_service(&service);
        assert_eq!(names(&mut index, &service), Some(vec!["p".to_owned()]));
        if services_first {
            index.remove_pod(&pod);
        }
        index.remove_service(&"ns".into(), "web");
        index.remove_pod(&pod);
        assert!(index.namespaces.is_empty());
    }
}

/// Builds 10,000 Services with 3 Pods each. The first label of the selector is the same for all Services.
fn many() -> (Vec<Service>, Vec<Arc<Pod>>) {
    let labels_of =
        |n: usize| labels(&[("app.kubernetes.io/instance", "shop"), ("app.kubernetes.io/name", &format!("s{n}"))]);
    let services = (0..10_000).map(|n| service(&format!("s{n}"), &labels_of(n))).collect();
    let one = |n: usize| {
        let mut labels = labels_of(n / 3);
        labels.insert("pod".to_owned(), n.to_string());
        pod(&format!("p{n:05}"), &labels)
    };
    (services, (0..30_000).map(one).collect())
}

/// ENDPOINTSLICE-76.
#[test]
fn services_that_share_a_label_are_indexed_in_linear_time() {
    let (services, pods) = many();
    for services_first in [true, false] {
        let mut index = ServicePodIndex::default();
        if services_first {
            for service in &services {
                index.add_or_replace_service(service);
            }
        }
        for pod in &pods {
            let _ = index.add_or_replace_pod(None, pod);
        }
        for service in &services {
            index.add_or_replace_service(service);
        }
        assert_eq!(names(&mut index, &services[7]).unwrap(), ["p00021", "p00022", "p00023"]);
        let IndexOperationCounts { selector_comparison_count: tests, label_lookup_count: lookups, .. } =
            index.operation_counts();
        // One Service may be indexed under the label that all Services share. Every Pod is then tested against its selector.
        assert!(tests <= 2 * 30_000, "services first: {services_first}: {tests} tests");
        assert!(lookups <= 2 * (10_000 * 2 + 30_000 * 3), "{lookups} lookups");
    }
}

/// ENDPOINTSLICE-5, ENDPOINTSLICE-76.
#[test]
fn an_event_of_a_pod_costs_only_its_changes() {
    let (services, pods) = many();
    let mut index = ServicePodIndex::default();
    for service in &services {
        index.add_or_replace_service(service);
    }
    for pod in &pods {
        let _ = index.add_or_replace_pod(None, pod);
    }
    let before = index.operation_counts();
    let mut changed = Pod::clone(&pods[0]);
    changed.is_ready = true;
    let (old, new) = index.add_or_replace_pod(Some(&pods[0]), &Arc::new(changed.clone()));
    assert_eq!((old.len(), new.len()), (1, 1));
    let work = index.operation_counts();
    let cost = (
        work.selector_comparison_count - before.selector_comparison_count,
        work.label_lookup_count - before.label_lookup_count,
        work.pod_list_change_count - before.pod_list_change_count,
    );
    assert_eq!(cost, (0, 0, 1), "unchanged labels need no test");
    // Replaces the Pod with one that has an additional label, which is in no selector.
    index.remove_pod(&changed);
    let before = index.operation_counts();
    index.add_or_replace_pod(None, &pod("p00000-again", &labels(&[("app.kubernetes.io/name", "s0"), ("new", "1")])));
    let work = index.operation_counts();
    assert!(
        work.selector_comparison_count - before.selector_comparison_count <= 1
            && work.label_lookup_count - before.label_lookup_count == 4,
        "{before:?} {work:?}"
    );
}

#[test]
fn huge_selectors_and_huge_label_sets_cost_their_size() {
    let huge = |tag: usize| -> BTreeMap<String, String> {
        (0..1_000).map(|n| (format!("label-{n}"), (if n == tag { "own" } else { "same" }).to_owned())).collect()
    };
    let mut index = ServicePodIndex::default();
    for n in 0..100 {
        index.add_or_replace_service(&service(&format!("s{n}"), &huge(n)));
        index.add_or_replace_pod(None, &pod(&format!("p{n}"), &huge(n)));
    }
    let IndexOperationCounts { selector_comparison_count: tests, label_lookup_count: lookups, .. } =
        index.operation_counts();
    assert!(lookups <= 2 * 2 * 100 * 1_000, "{lookups}");
    assert!(tests <= 100 * 100 + 200, "{tests}");
    assert_eq!(names(&mut index, &service("s5", &huge(5))).unwrap(), ["p5"]);
}

proptest! {
    /// ENDPOINTSLICE-4, ENDPOINTSLICE-5.
    #[test]
    fn members_are_the_pods_that_selectors_match(
        steps in proptest::collection::vec(
            (any::<bool>(), 0usize..5, proptest::option::of(proptest::collection::btree_map(0u8..4, 0u8..2, 0..4))), 1..60),
    ) {
        let text = |labels: &BTreeMap<u8, u8>| -> BTreeMap<String, String> {
            labels.iter().map(|(key, value)| (format!("k{key}"), format!("v{value}"))).collect()
        };
        let mut index = ServicePodIndex::default();
        let mut services: BTreeMap<usize, Service> = BTreeMap::new();
        let mut pods: BTreeMap<usize, Arc<Pod>> = BTreeMap::new();
        let selecting = |services: &BTreeMap<usize, Service>, pod: Option<&Pod>| -> ServiceNames {
            let selects = |service: &&Service| {
                service.has_applicable_selector() && pod.is_some_and(|pod| pod.metadata.labels.contains_all(&service.spec.selector))
            };
            services.values().filter(selects).map(|service| Arc::clone(&service.metadata.name)).collect()
        };
        for (of_service, at, labels) in steps {
            match (of_service, labels) {
                (true, Some(labels)) => {
                    let service = service(&format!("s{at}"), &text(&labels));
                    index.add_or_replace_service(&service);
                    services.insert(at, service);
                }
                (true, None) => {
                    services.remove(&at);
                    index.remove_service(&"ns".into(), &format!("s{at}"));
                }
                (false, Some(labels)) => {
                    let new = pod(&format!("p{at}"), &text(&labels));
                    let old = pods.insert(at, Arc::clone(&new));
                    let (before, after) = index.add_or_replace_pod(old.as_deref(), &new);
                    prop_assert_eq!(after, selecting(&services, Some(&new)));
                    prop_assert_eq!(before, selecting(&services, old.as_deref()));
                }
                (false, None) => {
                    if let Some(old) = pods.remove(&at) {
                        prop_assert_eq!(index.remove_pod(&old), selecting(&services, Some(&old)));
                    }
                }
            }
            for service in services.values() {
                let selected = pods.values().filter(|pod| pod.metadata.labels.contains_all(&service.spec.selector));
                let wanted: Vec<String> = selected.map(|pod| pod.metadata.name.to_string()).collect();
                prop_assert_eq!(names(&mut index, service), service.has_applicable_selector().then_some(wanted));
            }
        }
    }
}
