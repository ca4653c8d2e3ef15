//! The policies of a Job: actions for failed Pods, and success before all indexes have succeeded.

use common::{json::null_as_default, prelude::*};
use serde::{Deserialize, Deserializer};

use super::pod::CachedPod;
use crate::indexes::CompletionIndexSet;

/// The action of a rule in a failure policy for a failed Pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FailurePolicyAction {
    /// The Job fails.
    FailJob,
    /// The index of the Pod fails.
    FailIndex,
    /// The failure does not count.
    Ignore,
    /// The failure counts as usual.
    Count,
}

impl FailurePolicyAction {
    fn parse(text: &str) -> Option<Self> {
        [Self::FailJob, Self::FailIndex, Self::Ignore, Self::Count].into_iter().find(|action| action.as_str() == text)
    }

    /// Returns the name of the action in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::FailJob => "FailJob",
            Self::FailIndex => "FailIndex",
            Self::Ignore => "Ignore",
            Self::Count => "Count",
        }
    }
}

/// `spec.podFailurePolicy`: rules that choose a [`FailurePolicyAction`] for a failed Pod.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct PodFailurePolicy {
    #[serde(deserialize_with = "null_as_default")]
    rules: Box<[Rule]>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Rule {
    /// `None` for an action unknown to this version. A rule without an action is skipped.
    #[serde(deserialize_with = "known_action")]
    action: Option<FailurePolicyAction>,
    on_exit_codes: Option<ExitCodes>,
    on_pod_conditions: Option<Box<[Pattern]>>,
}

fn known_action<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<FailurePolicyAction>, D::Error> {
    Ok(FailurePolicyAction::parse(&Text::deserialize(deserializer)?))
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ExitCodes {
    container_name: Option<Text>,
    operator: Text,
    #[serde(deserialize_with = "null_as_default")]
    values: Box<[i32]>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Pattern {
    #[serde(rename = "type")]
    kind: Text,
    status: Option<Text>,
}

impl ExitCodes {
    fn matches(&self, (container, code): &(Text, i32)) -> bool {
        let is_matched = match &*self.operator {
            "In" => self.values.contains(code),
            "NotIn" => !self.values.contains(code),
            _ => false,
        };
        is_matched && self.container_name.as_ref().is_none_or(|name| name == container)
    }
}

impl Pattern {
    fn matches(&self, (kind, status): &(Text, Text)) -> bool {
        // Older servers may not have set the default, `True`.
        let wanted = self.status.as_deref().filter(|wanted| !wanted.is_empty()).unwrap_or("True");
        self.kind == *kind && **status == *wanted
    }
}

/// The property of a Pod that a rule matched.
enum Cause<'a> {
    Exit(&'a str, i32),
    Condition(&'a str),
}

impl PodFailurePolicy {
    /// Returns the action of the first rule that matches a Pod. Upstream: `pkg/controller/job`, `matchPodFailurePolicy`.
    pub fn matching_action(&self, pod: &CachedPod) -> Option<FailurePolicyAction> {
        self.find_matching_rule(pod).map(|(_, action, _)| action)
    }

    /// Returns the message for the condition of the Job, if the first rule that matches this Pod makes the Job fail.
    pub fn job_failure_message(&self, pod: &CachedPod) -> Option<String> {
        let (at, action, cause) =
            self.find_matching_rule(pod).filter(|(_, action, _)| *action == FailurePolicyAction::FailJob)?;
        let name = format!("{}/{}", pod.meta().namespace, pod.meta().name);
        let what = match cause {
            Cause::Exit(container, code) => {
                format!("Container {container} for pod {name} failed with exit code {code}")
            }
            Cause::Condition(kind) => format!("Pod {name} has condition {kind}"),
        };
        Some(format!("{what} matching {} rule at index {at}", action.as_str()))
    }

    fn find_matching_rule<'a>(&self, pod: &'a CachedPod) -> Option<(usize, FailurePolicyAction, Cause<'a>)> {
        let evidence = &pod.failure_policy_input;
        self.rules.iter().enumerate().find_map(|(at, rule)| {
            let action = rule.action?;
            let cause = if let Some(codes) = &rule.on_exit_codes {
                let (container, code) = evidence.container_exit_codes.iter().find(|exit| codes.matches(exit))?;
                Cause::Exit(container, *code)
            } else {
                let patterns = rule.on_pod_conditions.as_ref()?;
                let is_matched = |condition: &&(Text, Text)| patterns.iter().any(|pattern| pattern.matches(condition));
                Cause::Condition(&evidence.conditions().find(is_matched)?.0)
            };
            Some((at, action, cause))
        })
    }
}

/// `spec.successPolicy`: rules for the success of an Indexed Job before all indexes have succeeded.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct SuccessPolicy {
    rules: Box<[SuccessRule]>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SuccessRule {
    succeeded_indexes: Option<Box<str>>,
    succeeded_count: Option<i64>,
}

impl SuccessPolicy {
    /// Returns the position of the first rule that the succeeded indexes meet. Upstream: `pkg/controller/job`,
    /// `matchSuccessPolicy`.
    pub fn first_matching_rule_position(
        &self,
        succeeded_index_set: &CompletionIndexSet,
        completions: u32,
    ) -> Option<usize> {
        if succeeded_index_set.is_empty() {
            return None;
        }
        let enough = |count: usize, wanted: Option<i64>| wanted.is_some_and(|wanted| count as i64 >= wanted);
        self.rules.iter().position(|rule| match &rule.succeeded_indexes {
            Some(text) => {
                let wanted = CompletionIndexSet::parse(text, completions);
                let reached = wanted.common_index_count(succeeded_index_set);
                !wanted.is_empty() && (reached == wanted.len() || enough(reached, rule.succeeded_count))
            }
            None => enough(succeeded_index_set.len(), rule.succeeded_count),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn failed(mut status: Value) -> CachedPod {
        status["phase"] = json!("Failed");
        pod(&status)
    }

    fn pod(status: &Value) -> CachedPod {
        let pod = json!({"metadata": {"name": "j-x", "namespace": "shop"}, "spec": {}, "status": status});
        serde_json::from_str(&pod.to_string()).unwrap()
    }

    fn exited(name: &str, code: i32) -> Value {
        json!({"name": name, "state": {"terminated": {"exitCode": code}}})
    }

    fn policy(rules: &Value) -> PodFailurePolicy {
        serde_json::from_str(&json!({ "rules": rules }).to_string()).unwrap()
    }

    /// JOB-46.
    #[test]
    fn exit_codes_are_matched_in_the_order_of_containers() {
        let pod = failed(json!({
            "containerStatuses": [exited("a", 0), exited("b", 42), {"name": "c", "state": {"running": {}},
                "lastState": {"terminated": {"exitCode": 7}}}],
            "initContainerStatuses": [exited("i", 5)],
        }));
        let rule = |operator: &str, values: Value, container: Value| json!([{"action": "FailJob", "onExitCodes": {"operator": operator, "values": values, "containerName": container}}]);
        for (rules, want) in [
            (rule("In", json!([42]), json!(null)), Some(("b", 42))),
            (rule("In", json!([42]), json!("a")), None),
            (rule("In", json!([7]), json!(null)), None),
            (rule("In", json!([5, 42]), json!("i")), Some(("i", 5))),
            (rule("NotIn", json!([42]), json!(null)), Some(("i", 5))),
            (rule("NotIn", json!([42, 5]), json!(null)), None),
            (rule("NotIn", json!([1]), json!("a")), None),
            (rule("Between", json!([42]), json!(null)), None),
        ] {
            let failure = |(name, code)| format!("Container {name} for pod shop/j-x failed with exit code {code}");
            let want = want.map(|exit| format!("{} matching FailJob rule at index 0", failure(exit)));
            assert_eq!(policy(&rules).job_failure_message(&pod), want, "{rules}");
        }
    }

    /// JOB-46.
    #[test]
    fn conditions_are_matched_by_type_and_status() {
        let mut status = json!({"conditions": [{"type": "Ready", "status": "False"},
            {"type": "DisruptionTarget", "status": "True"}]});
        let rules = |pattern: Value| json!([{"action": "FailJob", "onPodConditions": [pattern]}]);
        let text = "Pod shop/j-x has condition DisruptionTarget matching FailJob rule at index 0".to_owned();
        for phase in ["Failed", "Running"] {
            status["phase"] = json!(phase);
            let pod = pod(&status);
            let fails_job = |pattern| policy(&rules(pattern)).job_failure_message(&pod);
            assert_eq!(fails_job(json!({"type": "DisruptionTarget", "status": "True"})), Some(text.clone()));
            assert_eq!(fails_job(json!({"type": "DisruptionTarget"})), Some(text.clone()));
            assert_eq!(fails_job(json!({"type": "DisruptionTarget", "status": "False"})), None);
        }
    }

    /// JOB-46.
    #[test]
    fn the_first_rule_with_a_known_action_decides() {
        let pod = failed(json!({"containerStatuses": [exited("c", 1)]}));
        let rule = |action: &str| json!({"action": action, "onExitCodes": {"operator": "In", "values": [1]}});
        let rules = json!([{"action": "Count"}, rule("Explode"), rule("Count"), rule("FailJob")]);
        assert_eq!(policy(&rules).matching_action(&pod), Some(FailurePolicyAction::Count));
        assert_eq!(policy(&rules).job_failure_message(&pod), None);
        assert_eq!(
            policy(&json!([rule("Count"), rule("Ignore")])).matching_action(&pod),
            Some(FailurePolicyAction::Count)
        );
        assert_eq!(policy(&json!([])).matching_action(&pod), None);
        assert_eq!(policy(&json!(null)).matching_action(&pod), None);
    }

    /// JOB-48.
    #[test]
    fn success_rules_are_met_as_specified() {
        let met = |succeeded: &str, rules: Value| {
            let policy: SuccessPolicy = serde_json::from_str(&json!({ "rules": rules }).to_string()).unwrap();
            policy.first_matching_rule_position(&CompletionIndexSet::parse(succeeded, 10), 10)
        };
        for (succeeded, rules, want) in [
            ("0,2-4", json!([{"succeededIndexes": "0,2"}]), Some(0)),
            ("0,2-4", json!([{"succeededIndexes": "0-5", "succeededCount": 3}]), Some(0)),
            ("0,2-4", json!([{"succeededIndexes": "0-2"}]), None),
            ("0,2-4", json!([{"succeededIndexes": "x"}, {"succeededCount": 4}]), Some(1)),
            ("0,2-4", json!([{"succeededCount": 5}]), None),
            ("1", json!([{"succeededCount": 0}]), Some(0)),
            ("", json!([{"succeededCount": 0}]), None),
            ("1", json!([{}]), None),
        ] {
            assert_eq!(met(succeeded, rules.clone()), want, "{succeeded} {rules}");
        }
    }
}
