//! Events of a component that this process has not sent.

use std::time::Duration;

use serde::Deserialize;

use crate::{
    api::{Api, Error, escape},
    events::{EVENTS, SentEvents},
    json::Str,
    meta::Version,
};

/// How long one look lasts.
const LOOK: Duration = Duration::from_secs(30);

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow, rename = "type")]
    kind: Str<'a>,
    #[serde(borrow)]
    object: Object<'a>,
}

#[derive(Deserialize)]
struct Object<'a> {
    #[serde(borrow, default)]
    metadata: Metadata<'a>,
}

#[derive(Deserialize, Default)]
struct Metadata<'a> {
    #[serde(borrow, default)]
    name: Str<'a>,
}

/// Watches the Events of a component from a version on for a while, and says whether any of them is another's.
///
/// The server filters: what other components record does not arrive.
pub(super) async fn any(api: &Api, component: &str, from: Version, sent: &SentEvents) -> Result<bool, Error> {
    let selector = escape(&format!("reportingComponent={component}"));
    let query = format!("watch=true&fieldSelector={selector}&resourceVersion={from}&timeoutSeconds={}", LOOK.as_secs());
    let mut lines = api.watch(EVENTS, "", &query, "application/json").await?;
    let look = async {
        while let Some(line) = lines.next().await? {
            if is_foreign(&line, sent) {
                return Ok(true);
            }
        }
        Ok(false)
    };
    // The server ends the watch itself; one that does not is left.
    tokio::time::timeout(LOOK * 2, look).await.unwrap_or(Ok(false))
}

fn is_foreign(line: &[u8], sent: &SentEvents) -> bool {
    let Ok(line) = serde_json::from_slice::<Line<'_>>(line) else { return false };
    matches!(&*line.kind, "ADDED" | "MODIFIED") && !sent.contains(&line.object.metadata.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_new_events_of_unknown_names_are_foreign() {
        let sent = SentEvents::default();
        sent.note("web.18a2b3");
        let line =
            |kind: &str, name: &str| format!(r#"{{"type":"{kind}","object":{{"metadata":{{"name":"{name}"}}}}}}"#);
        assert!(!is_foreign(line("ADDED", "web.18a2b3").as_bytes(), &sent));
        assert!(is_foreign(line("ADDED", "web.18a2b4").as_bytes(), &sent));
        assert!(is_foreign(line("MODIFIED", "web.18a2b4").as_bytes(), &sent));
        assert!(!is_foreign(line("DELETED", "web.18a2b4").as_bytes(), &sent), "Events expire");
        assert!(!is_foreign(b"{\"type\":\"ERROR\"", &sent));
    }
}
