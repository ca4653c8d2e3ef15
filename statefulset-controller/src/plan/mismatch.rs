//! Existing claims that do not satisfy their template.

use std::fmt;

use common::intern::Text;

/// The claims of Pods in range that do not match their templates, grouped by difference.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimMismatches {
    /// The differences, at most [`MAX_MISMATCHES`](crate::decide::mismatch::MAX_MISMATCHES).
    pub listed_mismatches: Vec<ClaimMismatch>,
    /// Number of claims with a difference that is not listed.
    pub unlisted_claim_count: usize,
}

/// Claims that differ from their template in the same way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimMismatch {
    /// `metadata.name` of the claim template.
    pub template_name: Text,
    /// Name of the first claim with this difference.
    pub first_claim: String,
    /// The difference in words.
    pub shortfall: String,
    /// Number of other claims of the template with the same difference.
    pub other_claim_count: usize,
}

impl ClaimMismatch {
    /// Returns the template and the difference, without the names of claims: one report covers all claims with this difference.
    pub fn difference(&self) -> String {
        format!("{}: {}", self.template_name, self.shortfall)
    }
}

impl fmt::Display for ClaimMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { template_name: template, first_claim: claim, shortfall, other_claim_count: others } = self;
        write!(
            f,
            "PersistentVolumeClaim {claim} does not match volumeClaimTemplate {template} and is used as it is: {shortfall}"
        )?;
        match others {
            0 => Ok(()),
            1 => f.write_str(" (1 more claim likewise)"),
            _ => write!(f, " ({others} more claims likewise)"),
        }
    }
}
