//! Existing claims that do not satisfy their template.
//!
//! Upstream uses such a claim without a report: the Pod waits for a volume, or runs on a volume that is too small. This
//! controller also uses the claim, and records an Event.

use common::prelude::*;

use crate::{
    plan::{VolumeClaimMismatch, VolumeClaimMismatches},
    snapshot::Snapshot,
};

/// The greatest number of differences that a plan lists, and that are reported for a set within an hour.
pub const MAX_MISMATCHES: usize = 10;

/// Compares the claims of the Pods in range with their templates.
pub fn find_mismatches(snapshot: &Snapshot) -> VolumeClaimMismatches {
    let (set, mut found) = (&snapshot.set, VolumeClaimMismatches::default());
    for template in &set.volume_claim_templates {
        // Claims are sorted by name, so the claims of a template are adjacent and each is compared once.
        let prefix = format!("{}-{}-", template.name, set.metadata.name);
        let of_template =
            snapshot.volume_claims.range(prefix.clone()..).take_while(|(name, _)| name.starts_with(&prefix));
        for (name, claim) in of_template {
            if claim.spec == template.spec || claim.metadata.is_deleting() {
                continue;
            }
            let ordinal: Option<i32> = name.get(prefix.len()..).and_then(|digits| digits.parse().ok());
            let is_wanted =
                |ordinal: &i32| set.contains_ordinal(*ordinal) && set.volume_claim_name(template, *ordinal) == *name;
            if ordinal.as_ref().is_some_and(is_wanted)
                && let Some(shortfall) = claim.spec.describe_shortfall(&template.spec)
            {
                add(&mut found, &template.name, name, shortfall);
            }
        }
    }
    found
}

fn add(mismatches: &mut VolumeClaimMismatches, template: &Text, claim: &str, shortfall: String) {
    let VolumeClaimMismatches { listed_mismatches: listed, unlisted_volume_claim_count: unlisted } = mismatches;
    let same = |known: &&mut VolumeClaimMismatch| known.template_name == *template && known.shortfall == shortfall;
    if let Some(known) = listed.iter_mut().find(same) {
        known.further_volume_claim_count += 1;
    } else if listed.len() < MAX_MISMATCHES {
        listed.push(VolumeClaimMismatch {
            template_name: template.clone(),
            first_volume_claim_name: claim.to_owned(),
            shortfall,
            further_volume_claim_count: 0,
        });
    } else {
        *unlisted += 1;
    }
}

/// Returns the differences to report: at most [`MAX_MISMATCHES`] in an hour, and each difference once in an hour.
pub fn unreported_mismatches(mismatches: &VolumeClaimMismatches, snapshot: &Snapshot) -> Vec<VolumeClaimMismatch> {
    let reported = &snapshot.reported_mismatches;
    let room = MAX_MISMATCHES.saturating_sub(reported.recently_reported_count(snapshot.now));
    let is_new = |mismatch: &&VolumeClaimMismatch| {
        !reported.was_reported_recently(&mismatch.describe_difference(), snapshot.now)
    };
    mismatches.listed_mismatches.iter().filter(is_new).take(room).cloned().collect()
}
