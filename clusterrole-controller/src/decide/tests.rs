use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::world::{Roles, aggregated, plain, rule, with_selectors};

/// CLUSTERROLE-8, CLUSTERROLE-10.
#[test]
fn the_union_follows_the_selectors_then_the_names_then_the_rules() {
    let (a, b, c, d) = (rule("get", "a"), rule("get", "b"), rule("get", "c"), rule("get", "d"));
    let selectors = json!([{"matchLabels": {"z": "1"}}, {"matchExpressions": [
        {"key": "z", "operator": "DoesNotExist"}, {"key": "union", "operator": "DoesNotExist"}]}]);
    let roles = Roles::new([
        with_selectors("union", selectors, &[]),
        plain("z", &[d.clone(), a.clone()]),
        plain("B", std::slice::from_ref(&c)),
        plain("a", &[b.clone(), d.clone(), c.clone()]),
    ]);
    assert_eq!(roles.union("union"), [d, a, c, b]);
}

/// CLUSTERROLE-9.
#[test]
fn a_role_never_selects_itself() {
    let own = rule("get", "own");
    let roles = Roles::new([with_selectors("all", json!([{}]), &[own]), plain("other", &[rule("get", "other")])]);
    assert_eq!(roles.union("all"), [rule("get", "other")]);
}

/// CLUSTERROLE-10, CLUSTERROLE-11.
#[test]
fn rules_are_equal_if_their_lists_are_and_missing_ones_are_empty() {
    let rules = [
        json!({"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]}),
        json!({"verbs": ["list", "get"], "apiGroups": [""], "resources": ["pods"]}),
        json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}),
        json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"]}),
        json!({"verbs": ["get"], "nonResourceURLs": ["/healthz"]}),
        json!({"verbs": ["get"], "apiGroups": ["apps"], "resources": ["pods"]}),
        json!({"verbs": ["get"], "apiGroups": [""], "resources": ["nodes"]}),
    ];
    let mut again = rules.clone();
    for rule in &mut again {
        rule["resourceNames"] =
            if rule["resourceNames"].is_array() { rule["resourceNames"].clone() } else { json!([]) };
        rule["nonResourceURLs"] =
            if rule["nonResourceURLs"].is_array() { rule["nonResourceURLs"].clone() } else { Value::Null };
    }
    let roles = Roles::new([aggregated("union", &["a", "b"], &[]), plain("a", &rules), plain("b", &again)]);
    assert_eq!(roles.union("union"), rules, "and empty lists are left out");
}

/// CLUSTERROLE-12, CLUSTERROLE-14.
#[test]
fn a_selected_aggregated_role_counts_with_its_union() {
    let (viewed, edited) = (rule("get", "pods"), rule("delete", "pods"));
    let stale = rule("get", "secrets");
    let roles = Roles::new([
        aggregated("admin", &["edit"], &[]),
        aggregated("edit", &["edits", "view"], std::slice::from_ref(&stale)),
        aggregated("view", &["views"], &[stale]),
        plain("edits", std::slice::from_ref(&edited)),
        plain("views", std::slice::from_ref(&viewed)),
    ]);
    assert_eq!(roles.union("admin"), [edited.clone(), viewed.clone()]);
    assert_eq!(roles.union("edit"), [edited, viewed.clone()]);
    assert_eq!(roles.union("view"), [viewed]);
}

/// CLUSTERROLE-8, CLUSTERROLE-12.
#[test]
fn a_role_that_is_reached_twice_counts_where_it_is_reached_first() {
    let rules: Vec<Value> = ["b", "c", "x"].map(|resource| rule("get", resource)).into();
    let roles = Roles::new([
        // `a` reaches `c` before the union itself does.
        aggregated("union", &["a", "b", "c"], &[]),
        aggregated("a", &["x", "c"], &[]),
        plain("b", &rules[..1]),
        plain("c", &rules[1..2]),
        plain("x", &rules[2..]),
    ]);
    assert_eq!(roles.union("union"), [rules[2].clone(), rules[1].clone(), rules[0].clone()]);
}

/// CLUSTERROLE-16.
#[test]
fn roles_in_a_circle_get_the_rules_of_all_roles_that_the_circle_reaches() {
    let (left, right, gone) = (rule("get", "left"), rule("get", "right"), rule("get", "gone"));
    let circle = |rules: [&[Value]; 2]| {
        Roles::new([
            aggregated("one", &["left", "two"], rules[0]),
            aggregated("two", &["right", "one"], rules[1]),
            plain("left", std::slice::from_ref(&left)),
            plain("right", std::slice::from_ref(&right)),
        ])
    };
    let roles = circle([std::slice::from_ref(&gone), std::slice::from_ref(&gone)]);
    let (one, two) = (roles.union("one"), roles.union("two"));
    assert_eq!((&one[..], &two[..]), (&[left.clone(), right.clone()][..], &[right.clone(), left.clone()][..]));
    let settled = circle([&one, &two]);
    assert_eq!((settled.new_rules("one"), settled.new_rules("two")), (None, None));
}

/// CLUSTERROLE-18, CLUSTERROLE-22.
#[test]
fn rules_are_written_only_if_they_differ_and_order_counts() {
    let (a, b) = (rule("get", "a"), rule("get", "b"));
    let has = |rules: Value| {
        let mut union = aggregated("union", &["a", "b"], &[]);
        union["rules"] = rules;
        Roles::new([union, plain("a", std::slice::from_ref(&a)), plain("b", std::slice::from_ref(&b))])
    };
    assert_eq!(has(json!([a, b])).new_rules("union"), None);
    for rules in [json!([b, a]), json!([a]), json!([a, b, a]), json!([]), Value::Null] {
        assert_eq!(has(rules.clone()).new_rules("union"), Some(json!([a, b])), "{rules}");
    }
    let empty = |rules: Value| {
        let mut union = aggregated("union", &["nobody"], &[]);
        union["rules"] = rules;
        Roles::new([union]).new_rules("union")
    };
    assert_eq!((empty(Value::Null), empty(json!([])), empty(json!([a]))), (None, None, Some(json!([]))));
}

/// CLUSTERROLE-17.
#[test]
fn each_role_is_visited_once_and_a_chain_of_thousands_needs_no_thread_stack() {
    const LENGTH: usize = 3000;
    let name = |index: usize| format!("r{index:04}");
    // Each role of the chain selects the next one twice, and the last one selects the first one.
    let link = |index: usize| {
        let next = name((index + 1) % LENGTH);
        aggregated(&name(index), &[&next, &next, "leaf"], &[])
    };
    let leaf = rule("get", "leaf");
    let roles = Roles::new((0..LENGTH).map(link).chain([plain("leaf", std::slice::from_ref(&leaf))]));
    assert_eq!(roles.union(&name(1)), [leaf]);
    assert_eq!(roles.select_count.get(), 3 * LENGTH);
}

/// CLUSTERROLE-17.
#[test]
fn the_order_of_thousands_of_rules_stays() {
    let rules: Vec<Value> = (0..10_000).map(|index| rule("get", &format!("r{index}"))).collect();
    let roles = Roles::new([aggregated("union", &["big", "again"], &[]), plain("big", &rules), plain("again", &rules)]);
    assert_eq!(roles.union("union"), rules);
}

#[test]
fn the_situation_has_the_numbers_of_rules() {
    let [a, b, c] = ["a", "b", "c"].map(|resource| rule("get", resource));
    let roles = Roles::new([
        aggregated("union", &["a", "b"], std::slice::from_ref(&a)),
        plain("a", &[a.clone(), b.clone()]),
        plain("b", &[b, c]),
    ]);
    let plan = decide(&roles.snapshot("union"));
    assert_eq!(plan.situation(), "it has 1 rules, and the union of 2 ClusterRoles has 3");
}

/// The rules that upstream gives the role `name` in the end: each round fills every role from the rules that roles have then.
fn rules_of_upstream(edges: &[Vec<usize>], own_rules: &[Vec<usize>], role: usize) -> Vec<usize> {
    let mut rules: Vec<Vec<usize>> = own_rules.to_vec();
    for _ in 0..edges.len() {
        for (from, selected) in edges.iter().enumerate().filter(|(_, selected)| !selected.is_empty()) {
            let mut union = Vec::new();
            for rule in selected.iter().flat_map(|to| &rules[*to]) {
                if !union.contains(rule) {
                    union.push(*rule);
                }
            }
            rules[from] = union;
        }
    }
    rules[role].clone()
}

proptest! {
    /// CLUSTERROLE-39.
    #[test]
    fn without_a_circle_the_list_is_that_of_upstream(
        selected in prop::collection::vec(prop::collection::vec(any::<prop::sample::Index>(), 0..4), 7),
        own_rules in prop::collection::vec(prop::collection::vec(0..6_usize, 0..4), 8),
    ) {
        // There is no circle, because each role selects later roles only. The last one is not aggregated.
        let mut edges: Vec<Vec<usize>> = Vec::new();
        for (from, selected) in selected.iter().enumerate() {
            edges.push(selected.iter().map(|index| from + 1 + index.index(7 - from)).collect());
        }
        edges.push(Vec::new());
        let name = |index: usize| format!("r{index}");
        let rules = |indexes: &[usize]| indexes.iter().map(|index| rule("get", &name(*index))).collect::<Vec<_>>();
        let roles = Roles::new(edges.iter().enumerate().map(|(index, selected)| {
            let names: Vec<String> = selected.iter().map(|to| name(*to)).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let rules = rules(&own_rules[index]);
            if names.is_empty() { plain(&name(index), &rules) } else { aggregated(&name(index), &names, &rules) }
        }));
        for (index, _) in edges.iter().enumerate().filter(|(_, selected)| !selected.is_empty()) {
            let wanted = rules(&rules_of_upstream(&edges, &own_rules, index));
            let has = rules(&own_rules[index]);
            let written = roles.new_rules(&name(index));
            prop_assert_eq!(written, (wanted != has).then(|| json!(wanted)));
        }
    }
}
