//! Claims that exist already and do not give what their template requests.
//!
//! Upstream uses such a claim and says nothing: the Pod waits for a volume, or runs on one that is too small. Here the claim is used
//! as well, and users are told.

use std::fmt;

use common::intern::Text;

use crate::snapshot::Snapshot;

/// The most differences that are listed, and the most that are reported of one set within an hour.
pub const MAX_MISMATCHES: usize = 10;

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

/// The claims of Pods in range that do not match their templates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mismatches {
    /// The differences, at most [`MAX_MISMATCHES`].
    pub listed: Vec<Mismatch>,
    /// How many claims differ in a way that is not listed.
    pub unlisted: usize,
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

/// Compares the claims of the Pods in range with their templates.
pub fn mismatches(snapshot: &Snapshot) -> Mismatches {
    let (set, mut found) = (&snapshot.set, Mismatches::default());
    for template in &set.claims {
        // The claims of a template follow each other, and so each is looked at once.
        let prefix = format!("{}-{}-", template.name, set.metadata.name);
        let of_template = snapshot.claims.range(prefix.clone()..).take_while(|(name, _)| name.starts_with(&prefix));
        for (name, claim) in of_template {
            if claim.spec == template.spec || claim.metadata.is_deleting() {
                continue;
            }
            let ordinal: Option<i32> = name.get(prefix.len()..).and_then(|digits| digits.parse().ok());
            let is_wanted = |ordinal: &i32| set.wants(*ordinal) && set.claim_name(template, *ordinal) == *name;
            if ordinal.as_ref().is_some_and(is_wanted)
                && let Some(shortfall) = claim.spec.shortfall(&template.spec)
            {
                found.add(&template.name, name, shortfall);
            }
        }
    }
    found
}

impl Mismatches {
    fn add(&mut self, template: &Text, claim: &str, shortfall: String) {
        let same = |known: &&mut Mismatch| known.template == *template && known.shortfall == shortfall;
        if let Some(known) = self.listed.iter_mut().find(same) {
            known.others += 1;
        } else if self.listed.len() < MAX_MISMATCHES {
            let (template, claim) = (template.clone(), claim.to_owned());
            self.listed.push(Mismatch { template, claim, shortfall, others: 0 });
        } else {
            self.unlisted += 1;
        }
    }

    /// The differences that were not reported lately.
    pub fn to_report(&self, snapshot: &Snapshot) -> Vec<Mismatch> {
        let reported = &snapshot.reported;
        let room = MAX_MISMATCHES.saturating_sub(reported.count_since(snapshot.now));
        let is_new = |mismatch: &&Mismatch| !reported.has_lately(&mismatch.difference(), snapshot.now);
        self.listed.iter().filter(is_new).take(room).cloned().collect()
    }
}
