//! Existing claims that do not satisfy their template.

use std::fmt;

use common::intern::Text;

/// The claims of Pods in range that do not match their templates, grouped by difference.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeClaimMismatches {
    /// The differences, at most [`MAX_MISMATCHES`](crate::decide::mismatch::MAX_MISMATCHES).
    pub listed_mismatches: Vec<VolumeClaimMismatch>,
    /// Number of claims with a difference that is not listed.
    pub unlisted_volume_claim_count: usize,
}

/// Claims that differ from their template in the same way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeClaimMismatch {
    /// `metadata.name` of the claim template.
    pub template_name: Text,
    /// Name of the first claim with this difference.
    pub first_volume_claim_name: String,
    /// The difference in words.
    pub shortfall: String,
    /// Number of other claims of the template with the same difference.
    pub further_volume_claim_count: usize,
}

impl VolumeClaimMismatch {
    /// Returns the template and the difference, without the names of claims: one report covers all claims with this difference.
    pub fn describe_difference(&self) -> String {
        format!("{}: {}", self.template_name, self.shortfall)
    }
}

impl fmt::Display for VolumeClaimMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { template_name, first_volume_claim_name, shortfall, further_volume_claim_count } = self;
        write!(
            f,
            "PersistentVolumeClaim {first_volume_claim_name} does not match volumeClaimTemplate {template_name} and is used as it is: {shortfall}"
        )?;
        match further_volume_claim_count {
            0 => Ok(()),
            1 => f.write_str(" (1 more claim likewise)"),
            count => write!(f, " ({count} more claims likewise)"),
        }
    }
}
