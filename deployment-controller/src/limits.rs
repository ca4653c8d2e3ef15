//! The desired number of Pods and how far a rollout may deviate from it.

use common::intstr::{IntOrString, IntOrStringError, Rounding, resolve_fenceposts};

use crate::objects::{DeploymentSpec, StrategyType};

/// `spec.replicas`, maxSurge and maxUnavailable as numbers of Pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RolloutLimits {
    /// `spec.replicas`.
    pub replicas: i64,
    /// maxSurge; 0 unless the strategy is `RollingUpdate`.
    pub max_surge: i64,
    /// maxUnavailable, at most `replicas`; 0 unless the strategy is `RollingUpdate`.
    pub max_unavailable: i64,
}

impl RolloutLimits {
    /// Computes the limits of a Deployment.
    ///
    /// # Errors
    /// Fails for the values that API validation refuses. Upstream reads a text without `%` as 0.
    pub fn from_spec(spec: &DeploymentSpec) -> Result<Self, String> {
        if spec.replicas < 0 {
            return Err(format!("spec.replicas: {} is out of range", spec.replicas));
        }
        let replicas = i64::from(spec.replicas);
        if spec.strategy.kind != StrategyType::RollingUpdate {
            return Ok(Self { replicas, max_surge: 0, max_unavailable: 0 });
        }
        let rolling = &spec.strategy.rolling_update;
        let (max_surge, max_unavailable) = (rolling.max_surge.as_ref(), rolling.max_unavailable.as_ref());
        check_range("maxSurge", max_surge, i32::MAX)?;
        // An integer maxUnavailable may exceed `spec.replicas`; a percentage may not exceed 100%.
        check_range("maxUnavailable", max_unavailable.filter(|v| matches!(v, IntOrString::Text(_))), 100)?;
        check_range("maxUnavailable", max_unavailable, i32::MAX)?;
        let (surge, unavailable) = resolve_fenceposts(max_surge, max_unavailable, spec.replicas).map_err(invalid)?;
        Ok(Self { replicas, max_surge: surge.into(), max_unavailable: i64::from(unavailable).min(replicas) })
    }

    /// Returns `spec.replicas` plus maxSurge: the maximum number of Pods in all ReplicaSets together.
    pub fn max_pods(&self) -> i64 {
        self.replicas + self.max_surge
    }

    /// Returns `spec.replicas` minus maxUnavailable: the minimum number of available Pods in all ReplicaSets together.
    pub fn min_available_pods(&self) -> i64 {
        self.replicas - self.max_unavailable
    }

    /// Returns the size to which the new ReplicaSet may grow from `current` when all ReplicaSets together have `total` replicas.
    /// Upstream: `NewRSNewReplicas`.
    pub fn new_set_size(&self, total: i64, current: i64) -> i64 {
        current + (self.max_pods() - total).max(0).min(self.replicas - current)
    }
}

/// Checks that `number`, an integer or a percentage of 100, is in `0..=max`.
fn check_range(field: &str, number: Option<&IntOrString>, max: i32) -> Result<(), String> {
    let Some(number) = number else { return Ok(()) };
    if (0..=max).contains(&number.resolve(100, Rounding::Down).map_err(invalid)?) {
        return Ok(());
    }
    Err(format!("spec.strategy.rollingUpdate.{field}: {number} is out of range"))
}

fn invalid(error: IntOrStringError) -> String {
    format!("spec.strategy.rollingUpdate: {error}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    /// DEPLOYMENT-89.
    #[test]
    fn a_negative_number_of_replicas_is_refused_under_every_strategy() {
        for strategy in ["RollingUpdate", "Recreate"] {
            let error = limits(-1, strategy, &json!(1), &json!(1)).unwrap_err();
            assert_eq!(error, "spec.replicas: -1 is out of range");
        }
    }

    fn limits(replicas: i32, strategy: &str, surge: &Value, unavailable: &Value) -> Result<RolloutLimits, String> {
        let spec: DeploymentSpec = serde_json::from_value(json!({"replicas": replicas, "template": {},
            "strategy": {"type": strategy, "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}}))
        .unwrap();
        RolloutLimits::from_spec(&spec)
    }

    /// DEPLOYMENT-25.
    #[test]
    fn max_surge_and_max_unavailable_resolve_to_pods() {
        for (replicas, surge, unavailable, want) in [
            (10, json!("25%"), json!("25%"), (3, 2)),
            (15, json!("25%"), json!("25%"), (4, 3)),
            (8, json!("25%"), json!("25%"), (2, 2)),
            (3, json!("25%"), json!("25%"), (1, 0)),
            (1, json!("25%"), json!("25%"), (1, 0)),
            (9, json!("50%"), json!("50%"), (5, 4)),
            (100, json!("1%"), json!("1%"), (1, 1)),
            (2, json!("0%"), json!("1%"), (0, 1)),
            (2, json!(0), json!("49%"), (0, 1)),
            (1, json!(0), json!("100%"), (0, 1)),
            (3, json!("150%"), json!(0), (5, 0)),
            (3, json!(0), json!(5), (0, 3)),
            (0, json!("25%"), json!("25%"), (0, 0)),
            (0, json!(3), json!(2), (3, 0)),
        ] {
            let got = limits(replicas, "RollingUpdate", &surge, &unavailable).unwrap();
            assert_eq!((got.max_surge, got.max_unavailable), want, "{replicas} {surge} {unavailable}");
        }
    }

    /// DEPLOYMENT-25.
    #[test]
    fn recreate_has_neither_surge_nor_unavailable_pods() {
        let got = limits(4, "Recreate", &json!("50%"), &json!("50%")).unwrap();
        assert_eq!((got.max_pods(), got.min_available_pods()), (4, 4));
    }

    /// DEPLOYMENT-89.
    #[test]
    fn malformed_limits_are_refused_with_a_one_line_error() {
        for (surge, unavailable, want) in [
            (json!("x%"), json!(1), r#": invalid value for IntOrString: "x%" is not an integer followed by %"#),
            (json!(1), json!("three"), r#": invalid value for IntOrString: "three" is not a percentage"#),
            (json!(1), json!("300%"), ".maxUnavailable: 300% is out of range"),
            (json!(-1), json!(1), ".maxSurge: -1 is out of range"),
            (json!(1), json!("-5%"), ".maxUnavailable: -5% is out of range"),
            (json!(1), json!(-5), ".maxUnavailable: -5 is out of range"),
        ] {
            let want = format!("spec.strategy.rollingUpdate{want}");
            assert_eq!(limits(4, "RollingUpdate", &surge, &unavailable).unwrap_err(), want);
            assert!(limits(4, "Recreate", &surge, &unavailable).is_ok(), "Recreate ignores the limits");
        }
    }

    proptest! {
        /// DEPLOYMENT-25.
        #[test]
        fn percentages_always_allow_a_surge_or_an_unavailable_pod(replicas in 1i32..10_000, surge in 0i32..200, unavailable in 0i32..=100) {
            let got = limits(replicas, "RollingUpdate", &json!(format!("{surge}%")), &json!(format!("{unavailable}%")));
            let got = got.unwrap();
            prop_assert!(got.max_surge + got.max_unavailable > 0);
            prop_assert!((0..=got.replicas).contains(&got.min_available_pods()));
        }
    }
}
