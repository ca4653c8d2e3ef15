use std::fmt::Debug;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::object::Resource;

#[derive(Clone, Debug, serde::Deserialize)]
struct Pod {
    metadata: Meta,
    #[serde(default)]
    is_ready: bool,
}

impl Object for Pod {
    const RESOURCE: Resource = Resource::namespaced("", "v1", "pods", "Pod");
    type Indexes = ();
    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

/// The name and the selector of a Service.
type Service = (Arc<str>, Labels);
type ServicePodIndex = SelectorIndex<Pod, Labels>;

fn labels(pairs: &[(&str, &str)]) -> Labels {
    Labels::from_pairs(pairs.iter().copied())
}

fn pod(name: &str, labels: &Labels) -> Arc<Pod> {
    let meta = json!({"name": name, "namespace": "ns", "uid": name, "labels": labels});
    Arc::new(serde_json::from_value(json!({ "metadata": meta })).unwrap())
}

fn malformed(name: &str, labels: &Labels) -> Arc<MalformedObject> {
    let meta = serde_json::from_value(json!({"name": name, "namespace": "ns", "labels": labels})).unwrap();
    Arc::new(MalformedObject { meta, error: "spec is a number".to_owned() })
}

fn set<S: IndexableSelector>(index: &mut SelectorIndex<Pod, S>, (name, selector): &(Arc<str>, S)) {
    index.set_selector(&"ns".into(), name, selector);
}

fn names<S: IndexableSelector>(index: &SelectorIndex<Pod, S>, (name, selector): &(Arc<str>, S)) -> Option<Vec<String>> {
    let pods = index.selected_objects(&"ns".into(), name, selector).unwrap()?;
    Some(pods.iter().map(|pod| pod.metadata.name.to_string()).collect())
}

/// ENDPOINTSLICE-6.
#[test]
fn a_malformed_object_is_an_error_for_the_selectors_that_select_it() {
    let mut index = ServicePodIndex::default();
    let web = labels(&[("app", "web")]);
    let (a, b): (Service, Service) = (("a".into(), web.clone()), ("b".into(), labels(&[("app", "db")])));
    set(&mut index, &a);
    set(&mut index, &b);
    index.add_or_replace_object(None, &pod("p", &web));
    // The malformed state of the Pod has different labels from its last decoded state.
    let bad = malformed("p", &labels(&[("app", "db")]));
    let concerned: Vec<Arc<str>> = index.apply_malformed_object_event(&bad, false).into_iter().collect();
    assert_eq!(concerned, [Arc::from("a"), Arc::from("b")]);
    assert_eq!(names(&index, &a), Some(vec![]));
    assert!(index.selected_objects(&"ns".into(), "b", &b.1).is_err());
    index.apply_malformed_object_event(&bad, true);
    assert_eq!(names(&index, &b), Some(vec![]));
}

#[test]
fn deleted_objects_leave_nothing_in_the_index() {
    let selector = |value| Selector::from_value(&value);
    for selector in [
        selector(json!({"matchLabels": {"app": "web", "tier": "a"}})),
        selector(json!({"matchExpressions": [{"key": "app", "operator": "Exists"}]})),
        selector(json!({})),
    ] {
        let mut index = SelectorIndex::default();
        let (web, pod) = (("web".into(), selector), pod("p", &labels(&[("app", "web"), ("tier", "a")])));
        for selectors_first in [true, false] {
            if selectors_first {
                set(&mut index, &web);
            }
            index.add_or_replace_object(None, &pod);
            set(&mut index, &web);
            assert_eq!(names(&index, &web), Some(vec!["p".to_owned()]));
            if selectors_first {
                index.remove_object(&pod);
            }
            index.remove_selector(&"ns".into(), "web");
            index.remove_object(&pod);
            assert!(index.namespaces.is_empty());
        }
    }
}

/// Builds 10,000 Services with 3 Pods each. The first label of the selector is the same for all Services.
fn many() -> (Vec<Service>, Vec<Arc<Pod>>) {
    let labels_of = |n: usize, pod: Option<&str>| {
        let name = format!("s{n}");
        let pairs = [("app.kubernetes.io/instance", "shop"), ("app.kubernetes.io/name", name.as_str())];
        Labels::from_pairs(pairs.into_iter().chain(pod.map(|pod| ("pod", pod))))
    };
    let service = |n: usize| (format!("s{n}").into(), labels_of(n, None));
    let one = |n: usize| pod(&format!("p{n:05}"), &labels_of(n / 3, Some(&n.to_string())));
    ((0..10_000).map(service).collect(), (0..30_000).map(one).collect())
}

/// ENDPOINTSLICE-76.
#[test]
fn selectors_that_share_a_label_are_indexed_in_linear_time() {
    let (services, pods) = many();
    for services_first in [true, false] {
        let mut index = ServicePodIndex::default();
        if services_first {
            for service in &services {
                set(&mut index, service);
            }
        }
        for pod in &pods {
            let _ = index.add_or_replace_object(None, pod);
        }
        for service in &services {
            set(&mut index, service);
        }
        assert_eq!(names(&index, &services[7]).unwrap(), ["p00021", "p00022", "p00023"]);
        let IndexOperationCounts { selector_comparison_count: tests, label_lookup_count: lookups, .. } =
            index.operation_counts();
        // One Service may be indexed under the label that all Services share. Every Pod is then tested against its selector.
        assert!(tests <= 2 * 30_000, "services first: {services_first}: {tests} tests");
        assert!(lookups <= 2 * (10_000 * 2 + 30_000 * 3), "{lookups} lookups");
    }
}

/// ENDPOINTSLICE-5, ENDPOINTSLICE-76.
#[test]
fn an_event_of_an_object_costs_only_its_changes() {
    let (services, pods) = many();
    let mut index = ServicePodIndex::default();
    for service in &services {
        set(&mut index, service);
    }
    for pod in &pods {
        let _ = index.add_or_replace_object(None, pod);
    }
    let before = index.operation_counts();
    let mut changed = Pod::clone(&pods[0]);
    changed.is_ready = true;
    let (old, new) = index.add_or_replace_object(Some(&pods[0]), &Arc::new(changed.clone()));
    assert_eq!((old.len(), new.len()), (1, 1));
    let counts = index.operation_counts();
    let cost = (
        counts.selector_comparison_count - before.selector_comparison_count,
        counts.label_lookup_count - before.label_lookup_count,
        counts.object_list_change_count - before.object_list_change_count,
    );
    assert_eq!(cost, (0, 0, 1), "unchanged labels need no test");
    // Replaces the Pod with one that has an additional label, which is in no selector.
    index.remove_object(&changed);
    let before = index.operation_counts();
    let again = pod("p00000-again", &labels(&[("app.kubernetes.io/name", "s0"), ("new", "1")]));
    index.add_or_replace_object(None, &again);
    let counts = index.operation_counts();
    assert!(
        counts.selector_comparison_count - before.selector_comparison_count <= 1
            && counts.label_lookup_count - before.label_lookup_count == 4,
        "{before:?} {counts:?}"
    );
}

#[test]
fn huge_selectors_and_huge_label_sets_cost_their_size() {
    let huge = |tag: usize| -> Labels {
        let keys: Vec<String> = (0..1_000).map(|n| format!("label-{n}")).collect();
        let value = |n: usize| if n == tag { "own" } else { "same" };
        Labels::from_pairs(keys.iter().enumerate().map(|(n, key)| (key.as_str(), value(n))))
    };
    let mut index = ServicePodIndex::default();
    for n in 0..100 {
        set(&mut index, &(format!("s{n}").into(), huge(n)));
        index.add_or_replace_object(None, &pod(&format!("p{n}"), &huge(n)));
    }
    let IndexOperationCounts { selector_comparison_count: tests, label_lookup_count: lookups, .. } =
        index.operation_counts();
    assert!(lookups <= 2 * 2 * 100 * 1_000, "{lookups}");
    assert!(tests <= 100 * 100 + 200, "{tests}");
    assert_eq!(names(&index, &("s5".into(), huge(5))).unwrap(), ["p5"]);
}

#[test]
fn a_selector_without_equality_is_compared_once_with_each_label_set_of_its_namespace() {
    let expression = |operator: &str| json!({"key": "app", "operator": operator});
    let values = |operator: &str| json!({"key": "app", "operator": operator, "values": ["web"]});
    // How many of the Pods with `app=web`, with `app=db` and without labels each selector selects, 10 of each.
    for (selector, selected) in [
        (json!({"matchExpressions": [expression("Exists")]}), 20),
        (json!({"matchExpressions": [expression("DoesNotExist")]}), 10),
        (json!({"matchExpressions": [values("In")]}), 10),
        (json!({"matchExpressions": [values("NotIn")]}), 20),
        (json!({}), 30),
        (json!(null), 0),
        (json!({"matchExpressions": [expression("Unknown")]}), 0),
    ] {
        let service = ("s".into(), Selector::from_value(&selector));
        for selector_first in [true, false] {
            let mut index = SelectorIndex::default();
            index.set_selector(&"other".into(), &service.0, &service.1);
            if selector_first {
                set(&mut index, &service);
            }
            for (at, labels) in
                [labels(&[("app", "web")]), labels(&[("app", "db")]), Labels::empty()].iter().enumerate()
            {
                for n in 0..10 {
                    let old = pod(&format!("p{at}-{n}"), labels);
                    index.add_or_replace_object(None, &old);
                    index.add_or_replace_object(Some(&old), &old);
                }
            }
            set(&mut index, &service);
            assert_eq!(names(&index, &service).unwrap().len(), selected, "{selector}");
            assert_eq!(index.operation_counts().selector_comparison_count, 3, "{selector}");
        }
    }
}

/// A change of the object or selector at a position.
#[derive(Clone, Debug)]
enum Step<S> {
    SetSelector(S),
    RemoveSelector,
    PutObject(Labels),
    RemoveObject,
    /// Stores a state that cannot be decoded.
    PutMalformed(Labels),
    RemoveMalformed(Labels),
}

fn any_labels() -> impl Strategy<Value = Labels> {
    let text = |(key, value): (&u8, &u8)| (format!("k{key}"), format!("v{value}"));
    prop::collection::btree_map(0u8..4, 0u8..2, 0..4).prop_map(move |pairs| {
        let pairs: Vec<(String, String)> = pairs.iter().map(text).collect();
        Labels::from_pairs(pairs.iter().map(|(key, value)| (key.as_str(), value.as_str())))
    })
}

/// Generates null, empty, invalid and other selectors with all operators.
fn any_selector() -> impl Strategy<Value = Selector> {
    let operator = prop::sample::select(vec!["In", "NotIn", "Exists", "DoesNotExist"]);
    let expression = (0u8..4, operator, prop::collection::vec(0u8..3, 1..3)).prop_map(|(key, operator, values)| {
        let takes_values = operator == "In" || operator == "NotIn";
        let values: Vec<String> = values.iter().filter(|_| takes_values).map(|value| format!("v{value}")).collect();
        json!({"key": format!("k{key}"), "operator": operator, "values": values})
    });
    let fields = (prop::option::of(any_labels()), prop::collection::vec(expression, 0..3));
    let valid =
        fields.prop_map(|(labels, expressions)| json!({"matchLabels": labels, "matchExpressions": expressions}));
    let invalid = json!({"matchExpressions": [{"key": "k0", "operator": "Unknown"}]});
    prop_oneof![8 => valid, 1 => Just(Value::Null), 1 => Just(invalid)].prop_map(|value| Selector::from_value(&value))
}

fn any_steps<S: Clone + Debug + 'static>(
    selector: impl Strategy<Value = S> + 'static,
) -> impl Strategy<Value = Vec<(usize, Step<S>)>> {
    let step = prop_oneof![
        4 => selector.prop_map(Step::SetSelector),
        1 => Just(Step::RemoveSelector),
        4 => any_labels().prop_map(Step::PutObject),
        1 => Just(Step::RemoveObject),
        1 => any_labels().prop_map(Step::PutMalformed),
        1 => any_labels().prop_map(Step::RemoveMalformed),
    ];
    prop::collection::vec((0usize..5, step), 1..60)
}

/// Takes the steps, and compares every answer of the index with a search by `matches` among all objects and selectors.
fn check_against_search<S: IndexableSelector>(
    steps: Vec<(usize, Step<S>)>,
    matches: fn(&S, &Labels) -> bool,
) -> Result<(), TestCaseError> {
    let mut index = SelectorIndex::<Pod, S>::default();
    let mut selectors: BTreeMap<usize, (Arc<str>, S)> = BTreeMap::new();
    let mut pods: BTreeMap<usize, Arc<Pod>> = BTreeMap::new();
    let mut bad: BTreeMap<usize, Labels> = BTreeMap::new();
    let selecting = |selectors: &BTreeMap<usize, (Arc<str>, S)>, labels: Option<&Labels>| -> SelectorNames {
        let selecting =
            selectors.values().filter(|(_, selector)| labels.is_some_and(|labels| matches(selector, labels)));
        selecting.map(|(name, _)| Arc::clone(name)).collect()
    };
    let labels_of = |pod: &Option<Arc<Pod>>| pod.as_ref().map(|pod| pod.metadata.labels.clone());
    for (at, step) in steps {
        match step {
            Step::SetSelector(selector) => {
                let named = (format!("s{at}").into(), selector);
                set(&mut index, &named);
                selectors.insert(at, named);
            }
            Step::RemoveSelector => {
                selectors.remove(&at);
                index.remove_selector(&"ns".into(), &format!("s{at}"));
            }
            Step::PutObject(labels) => {
                bad.remove(&at);
                let new = pod(&format!("p{at}"), &labels);
                let old = pods.insert(at, Arc::clone(&new));
                let (names_before, names) = index.add_or_replace_object(old.as_deref(), &new);
                prop_assert_eq!(names, selecting(&selectors, Some(&labels)));
                prop_assert_eq!(names_before, selecting(&selectors, labels_of(&old).as_ref()));
            }
            Step::RemoveObject => {
                if let Some(old) = pods.remove(&at) {
                    prop_assert_eq!(index.remove_object(&old), selecting(&selectors, Some(&old.metadata.labels)));
                }
            }
            Step::PutMalformed(ref labels) | Step::RemoveMalformed(ref labels) => {
                let is_gone = matches!(step, Step::RemoveMalformed(_));
                let names = index.apply_malformed_object_event(&malformed(&format!("p{at}"), labels), is_gone);
                let before = selecting(&selectors, labels_of(&pods.remove(&at)).as_ref());
                prop_assert_eq!(names, &before | &selecting(&selectors, Some(labels)));
                bad.remove(&at);
                bad.extend((!is_gone).then(|| (at, labels.clone())));
            }
        }
        for named @ (name, selector) in selectors.values() {
            if bad.values().any(|labels| matches(selector, labels)) {
                prop_assert!(index.selected_objects(&"ns".into(), name, selector).is_err());
                continue;
            }
            let selected = pods.values().filter(|pod| matches(selector, &pod.metadata.labels));
            let wanted: Vec<String> = selected.map(|pod| pod.metadata.name.to_string()).collect();
            prop_assert_eq!(names(&index, named), Some(wanted));
        }
        let wanted = pods.get(&0).map(|pod| &pod.metadata.labels);
        let found = index.selectors_of_objects_where(|pod| &*pod.metadata.name == "p0");
        prop_assert_eq!(
            found.into_iter().map(|key| key.name).collect::<SelectorNames>(),
            selecting(&selectors, wanted)
        );
    }
    Ok(())
}

proptest! {
    /// ENDPOINTSLICE-4, ENDPOINTSLICE-5.
    #[test]
    fn an_index_of_equal_labels_finds_what_a_search_finds(steps in any_steps(any_labels())) {
        check_against_search(steps, |selector, labels| !selector.is_empty() && labels.contains_all(selector))?;
    }

    #[test]
    fn an_index_of_selectors_finds_what_a_search_finds(steps in any_steps(any_selector())) {
        check_against_search(steps, Selector::matches)?;
    }
}
