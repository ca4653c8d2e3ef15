//! Claims that exist already and do not give what their template requests.
//!
//! Upstream uses such a claim and says nothing: the Pod waits for a volume, or runs on one that is too small. Here the claim is used
//! as well, and users are told.

use common::intern::Text;

use crate::{
    plan::mismatch::{Mismatch, Mismatches},
    snapshot::Snapshot,
};

/// The most differences that are listed, and the most that are reported of one set within an hour.
pub const MAX_MISMATCHES: usize = 10;

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
                add(&mut found, &template.name, name, shortfall);
            }
        }
    }
    found
}

fn add(mismatches: &mut Mismatches, template: &Text, claim: &str, shortfall: String) {
    let Mismatches { listed, unlisted } = mismatches;
    let same = |known: &&mut Mismatch| known.template == *template && known.shortfall == shortfall;
    if let Some(known) = listed.iter_mut().find(same) {
        known.others += 1;
    } else if listed.len() < MAX_MISMATCHES {
        listed.push(Mismatch { template: template.clone(), claim: claim.to_owned(), shortfall, others: 0 });
    } else {
        *unlisted += 1;
    }
}

/// The differences that were not reported lately.
pub fn to_report(mismatches: &Mismatches, snapshot: &Snapshot) -> Vec<Mismatch> {
    let reported = &snapshot.reported;
    let room = MAX_MISMATCHES.saturating_sub(reported.count_since(snapshot.now));
    let is_new = |mismatch: &&Mismatch| !reported.has_lately(&mismatch.difference(), snapshot.now);
    mismatches.listed.iter().filter(is_new).take(room).cloned().collect()
}
