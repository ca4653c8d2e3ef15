//! Discovered resources that can be collected.

use std::collections::BTreeSet;

use common::{
    api::{Api, Error},
    discovery::DiscoveredResources,
    prelude::*,
};

/// Verbs that a resource must support to be collected.
const REQUIRED_VERBS: [&str; 3] = ["delete", "list", "watch"];
/// Group and plural of resources that are neither watched nor collected.
const IGNORED_RESOURCES: [(&str, &str); 2] = [("", "events"), ("events.k8s.io", "events")];

/// Reads the served resources, and returns them with those that can be collected. It is an error if there are none of these.
pub(crate) async fn discover(api: &Api) -> Result<(DiscoveredResources, BTreeSet<Resource>), Error> {
    let discovered_resources = DiscoveredResources::read(api).await?;
    let collectable_resources = collectable_resources(&discovered_resources);
    if collectable_resources.is_empty() {
        return Err(Error::Unsent("the API server serves nothing that can be collected".to_owned()));
    }
    Ok((discovered_resources, collectable_resources))
}

/// Returns the resources that can be watched and collected, each in the version that the server prefers.
fn collectable_resources(discovered_resources: &DiscoveredResources) -> BTreeSet<Resource> {
    let is_ignored = |resource: &Resource| IGNORED_RESOURCES.contains(&(resource.group(), resource.plural()));
    let all =
        discovered_resources.resources.iter().filter(|found| found.is_preferred && found.supports(&REQUIRED_VERBS));
    all.map(|found| found.resource.clone()).filter(|resource| !is_ignored(resource)).collect()
}

#[cfg(test)]
mod tests;
