//! An integer or a percentage: the type of `maxSurge`, `maxUnavailable` and similar fields.

use std::fmt;

use serde::{
    Deserialize, Deserializer, Serialize,
    de::{Unexpected, Visitor},
};

use crate::intern::Text;

/// An integer, or a string that should be a percentage, for example `25%`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum IntOrString {
    /// An absolute number.
    Int(i32),
    /// A string; only `n%` can be resolved.
    Text(Text),
}

/// Reasons why a string cannot be resolved to a number.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IntOrStringError {
    /// The string does not end in `%`.
    #[error("invalid value for IntOrString: {0:?} is not a percentage")]
    NotAPercentage(String),
    /// The text before `%` is not an integer.
    #[error("invalid value for IntOrString: {0:?} is not an integer followed by %")]
    NotAnInteger(String),
}

/// Direction in which a percentage of a total is rounded to an integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// Rounds to the next larger integer, as for `maxSurge`.
    Up,
    /// Rounds to the next smaller integer, as for `maxUnavailable`.
    Down,
}

impl IntOrString {
    /// Returns the absolute number, or the percentage of `total`, rounded in the direction of `rounding`.
    ///
    /// Accepts negative numbers and percentages over 100. Results outside the range of `i32` become its minimum or maximum.
    /// Upstream: `pkg/util/intstr`, `GetScaledValueFromIntOrPercent`.
    pub fn resolve(&self, total: i32, rounding: Rounding) -> Result<i32, IntOrStringError> {
        let text = match self {
            Self::Int(value) => return Ok(*value),
            Self::Text(text) => text.as_str(),
        };
        let number = text.strip_suffix('%').ok_or_else(|| IntOrStringError::NotAPercentage(text.to_owned()))?;
        let percent: i64 = number.parse().map_err(|_| IntOrStringError::NotAnInteger(text.to_owned()))?;
        let product = i128::from(percent) * i128::from(total);
        let (quotient, remainder) = (product.div_euclid(100), product.rem_euclid(100));
        let scaled = if rounding == Rounding::Up && remainder > 0 { quotient + 1 } else { quotient };
        Ok(scaled.clamp(i128::from(i32::MIN), i128::from(i32::MAX)) as i32)
    }
}

/// Resolves `maxSurge` (rounded up) and `maxUnavailable` (rounded down) against `desired`; a missing value counts as 0.
///
/// If both results are 0, `maxUnavailable` becomes 1, because a rollout must be able to proceed even if a quota forbids a
/// surge. Upstream: `pkg/controller/deployment/util`, `ResolveFenceposts`.
pub fn resolve_fenceposts(
    max_surge: Option<&IntOrString>,
    max_unavailable: Option<&IntOrString>,
    desired: i32,
) -> Result<(i32, i32), IntOrStringError> {
    let surge = max_surge.map_or(Ok(0), |v| v.resolve(desired, Rounding::Up))?;
    let unavailable = max_unavailable.map_or(Ok(0), |v| v.resolve(desired, Rounding::Down))?;
    Ok((surge, if surge == 0 && unavailable == 0 { 1 } else { unavailable }))
}

impl From<i32> for IntOrString {
    fn from(value: i32) -> Self {
        Self::Int(value)
    }
}

impl From<&str> for IntOrString {
    fn from(value: &str) -> Self {
        Self::Text(Text::new(value))
    }
}

impl fmt::Display for IntOrString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(value) => write!(f, "{value}"),
            Self::Text(text) => f.write_str(text),
        }
    }
}

impl<'de> Deserialize<'de> for IntOrString {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct IntOrStringVisitor;
        impl Visitor<'_> for IntOrStringVisitor {
            type Value = IntOrString;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a 32-bit integer or a string")
            }
            fn visit_str<E: serde::de::Error>(self, v: &str) -> Result<IntOrString, E> {
                Ok(v.into())
            }
            fn visit_i64<E: serde::de::Error>(self, v: i64) -> Result<IntOrString, E> {
                i32::try_from(v).map(IntOrString::Int).map_err(|_| E::invalid_value(Unexpected::Signed(v), &self))
            }
            fn visit_u64<E: serde::de::Error>(self, v: u64) -> Result<IntOrString, E> {
                i32::try_from(v).map(IntOrString::Int).map_err(|_| E::invalid_value(Unexpected::Unsigned(v), &self))
            }
        }
        deserializer.deserialize_any(IntOrStringVisitor)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn value(text: &str) -> IntOrString {
        text.parse::<i32>().map_or_else(|_| text.into(), IntOrString::Int)
    }

    #[test]
    fn fenceposts_match_the_specification() {
        // Each row has replicas, `maxSurge` and `maxUnavailable`, and the expected pair of surge and unavailable Pods. At most
        // `replicas` Pods may be unavailable, so a Deployment with 0 replicas has 0 unavailable Pods.
        for (replicas, surge, unavailable, want) in [
            (10, "25%", "25%", (3, 2)),
            (15, "25%", "25%", (4, 3)),
            (8, "25%", "25%", (2, 2)),
            (3, "25%", "25%", (1, 0)),
            (1, "25%", "25%", (1, 0)),
            (9, "50%", "50%", (5, 4)),
            (100, "1%", "1%", (1, 1)),
            (2, "0%", "1%", (0, 1)),
            (2, "0", "49%", (0, 1)),
            (1, "0", "100%", (0, 1)),
            (3, "150%", "0", (5, 0)),
            (3, "0", "5", (0, 3)),
            (0, "25%", "25%", (0, 0)),
            (0, "3", "2", (3, 0)),
        ] {
            let got = resolve_fenceposts(Some(&value(surge)), Some(&value(unavailable)), replicas).unwrap();
            assert_eq!((got.0, got.1.min(replicas)), want, "{replicas} {surge} {unavailable}");
        }
        assert_eq!(resolve_fenceposts(None, None, 4), Ok((0, 1)));
        assert_eq!(resolve_fenceposts(Some(&2.into()), None, 4), Ok((2, 0)));
    }

    #[test]
    fn resolves_like_upstream() {
        #[derive(Deserialize)]
        struct Case {
            value: IntOrString,
            total: i32,
            up: Option<i64>,
            down: Option<i64>,
        }
        for line in include_str!("../tests/data/int-or-string.jsonl").lines() {
            let case: Case = serde_json::from_str(line).unwrap();
            let up = case.value.resolve(case.total, Rounding::Up).ok().map(i64::from);
            let down = case.value.resolve(case.total, Rounding::Down).ok().map(i64::from);
            assert_eq!((up, down), (case.up, case.down), "{line}");
        }
    }

    #[test]
    fn errors_name_the_problem() {
        assert_eq!(
            value("ten").resolve(1, Rounding::Up).unwrap_err().to_string(),
            r#"invalid value for IntOrString: "ten" is not a percentage"#
        );
        assert_eq!(
            value("x%").resolve(1, Rounding::Up).unwrap_err().to_string(),
            r#"invalid value for IntOrString: "x%" is not an integer followed by %"#
        );
        for bad in ["1.5", "4294967296", "true", "{}", "null"] {
            assert!(serde_json::from_str::<IntOrString>(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn huge_percentages_are_limited_to_the_range_of_i32() {
        assert_eq!(value("9999999999%").resolve(i32::MAX, Rounding::Up), Ok(i32::MAX));
        assert_eq!(value("-9999999999%").resolve(i32::MAX, Rounding::Down), Ok(i32::MIN));
    }

    proptest! {
        #[test]
        fn rounding_is_never_off_by_more_than_one(percent in 0i64..400, total in 0i32..1_000_000) {
            let value: IntOrString = format!("{percent}%").as_str().into();
            let (up, down) = (value.resolve(total, Rounding::Up).unwrap(), value.resolve(total, Rounding::Down).unwrap());
            prop_assert!(i64::from(down) * 100 <= percent * i64::from(total));
            prop_assert!(i64::from(up) * 100 >= percent * i64::from(total));
            prop_assert!((0..=1).contains(&(up - down)));
        }

        #[test]
        fn survives_the_round_trip(n in any::<i32>(), text in "[0-9a-z%]{0,6}") {
            for value in [IntOrString::Int(n), text.as_str().into()] {
                let json = serde_json::to_string(&value).unwrap();
                prop_assert_eq!(serde_json::from_str::<IntOrString>(&json).unwrap(), value);
            }
        }
    }
}
