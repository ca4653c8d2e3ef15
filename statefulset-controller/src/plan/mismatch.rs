//! Claims that exist already and do not give what their template requests.

use std::fmt;

use common::intern::Text;

/// The claims of Pods in range that do not match their templates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mismatches {
    /// The differences, as many as are listed at most.
    pub listed: Vec<Mismatch>,
    /// How many claims differ in a way that is not listed.
    pub unlisted: usize,
}

/// Claims that differ from their template in the same way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The name of the template.
    pub template: Text,
    /// The first of the claims.
    pub claim: String,
    /// In what it falls short.
    pub shortfall: String,
    /// How many other claims of the template fall short in the same way.
    pub others: usize,
}

impl Mismatch {
    /// The difference without the claims that have it: it is reported once, however many claims come to have it.
    pub fn difference(&self) -> String {
        format!("{}: {}", self.template, self.shortfall)
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { template, claim, shortfall, others } = self;
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
