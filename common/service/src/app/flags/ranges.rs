//! Checks that the values of flags are in the ranges that upstream allows.

use crate::settings::TunableValue;

/// Name, smallest and largest value of each flag with a range. Upstream: `cmd/kube-controller-manager/app/options`, `Validate`.
const RANGES: &[(&str, i64, i64)] = &[
    ("concurrent-service-endpoint-syncs", 1, 50),
    ("max-endpoints-per-slice", 1, 1000),
    ("mirroring-concurrent-service-endpoint-syncs", 1, 50),
    ("mirroring-max-endpoints-per-subset", 1, 1000),
];

/// Flags for shares: numbers from 0 to 1.
const SHARES: &[&str] = &["node-taint-alarm-share", "node-taint-max-share"];

/// Checks that the value of a flag in [`SHARES`] is from 0 to 1. Values of other flags pass.
pub(super) fn check_share(flag: &str, text: &str, value: TunableValue) -> Result<(), String> {
    match value {
        TunableValue::Ratio(share) if SHARES.contains(&flag) && !(0.0..=1.0).contains(&share) => {
            Err(format!("--{flag} must be between 0 and 1, but is {text}"))
        }
        _ => Ok(()),
    }
}

/// Checks that the value of a flag in [`RANGES`] is in its range. Values of other flags pass. The error has upstream's wording.
pub(super) fn check_range(flag: &str, value: i64) -> Result<(), String> {
    match RANGES.iter().find(|(name, ..)| *name == flag) {
        Some((_, least, _)) if value < *least => Err(format!("{flag} must not be less than {least}, but got {value}")),
        Some((_, _, most)) if value > *most => Err(format!("{flag} must not be more than {most}, but got {value}")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ENDPOINTSLICE-71.
    #[test]
    fn values_out_of_range_are_refused_with_upstreams_error() {
        for (flag, value, error) in [
            ("concurrent-service-endpoint-syncs", 0, "must not be less than 1, but got 0"),
            ("concurrent-service-endpoint-syncs", 51, "must not be more than 50, but got 51"),
            ("max-endpoints-per-slice", 1001, "must not be more than 1000, but got 1001"),
            ("mirroring-max-endpoints-per-subset", -1, "must not be less than 1, but got -1"),
        ] {
            assert_eq!(check_range(flag, value), Err(format!("{flag} {error}")));
        }
        assert_eq!(
            (check_range("max-endpoints-per-slice", 1000), check_range("concurrent-job-syncs", 999)),
            (Ok(()), Ok(()))
        );
    }
}
