//! Watches for Events that another process has sent under the component of a loop.

use std::time::Duration;

use serde::Deserialize;

use crate::{
    api::{Api, Error, FIELD_MANAGER, percent_encode},
    events::{EVENTS, SentEventNames},
    meta::ResourceVersion,
    write_sampler::{JsonWatchEvent, WatchedObject},
};

/// Duration of one watch of Events.
const WATCH_DURATION: Duration = Duration::from_secs(30);

/// Watches the Events of a component for [`WATCH_DURATION`], and returns whether another process has sent one of them.
///
/// A field selector keeps the Events of other components on the server. An Event without the field manager of
/// kube-controller-manager does not count, because operators may use the name of a built-in controller as their component.
pub(super) async fn watch_for_foreign_event(api: &Api, component: &str, sent: &SentEventNames) -> Result<bool, Error> {
    // The watch starts at the version of this list, because Events may be stored apart from all other resources.
    let page = api.list(&EVENTS, "", "limit=1").await?;
    let from = serde_json::from_slice::<Page>(&page)?.metadata.resource_version;
    let selector = percent_encode(&format!("reportingComponent={component}"));
    let query = format!(
        "watch=true&fieldSelector={selector}&resourceVersion={from}&timeoutSeconds={}",
        WATCH_DURATION.as_secs()
    );
    let mut lines = api.watch(&EVENTS, "", &query, "application/json").await?;
    let watching = async {
        while let Some(line) = lines.next_frame().await? {
            if is_foreign(&line, sent) {
                return Ok(true);
            }
        }
        Ok(false)
    };
    // The server ends the watch after `timeoutSeconds`. If the server does not, this timeout drops the watch.
    tokio::time::timeout(WATCH_DURATION * 2, watching).await.unwrap_or(Ok(false))
}

#[derive(Deserialize)]
struct Page {
    metadata: PageMetadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PageMetadata {
    resource_version: ResourceVersion,
}

fn is_foreign(line: &[u8], sent: &SentEventNames) -> bool {
    let Ok(JsonWatchEvent { kind, object: WatchedObject { metadata } }) = serde_json::from_slice(line) else {
        return false;
    };
    matches!(&*kind, "ADDED" | "MODIFIED")
        && metadata.managed_fields.iter().any(|entry| &*entry.manager == FIELD_MANAGER)
        && !sent.contains(&metadata.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// COMMON-77.
    #[test]
    fn only_new_events_with_unknown_names_are_foreign() {
        let sent = SentEventNames::default();
        sent.record_name("web.18a2b3");
        let by = |manager: &str, kind: &str, name: &str| {
            let metadata =
                format!(r#"{{"name":"{name}","managedFields":[{{"manager":"{manager}","operation":"Update"}}]}}"#);
            format!(r#"{{"type":"{kind}","object":{{"metadata":{metadata}}}}}"#)
        };
        let line = |kind: &str, name: &str| by(FIELD_MANAGER, kind, name);
        assert!(
            !is_foreign(by("my-operator", "ADDED", "web.18a2b4").as_bytes(), &sent),
            "an operator with that component"
        );
        assert!(!is_foreign(line("ADDED", "web.18a2b3").as_bytes(), &sent));
        assert!(is_foreign(line("ADDED", "web.18a2b4").as_bytes(), &sent));
        assert!(is_foreign(line("MODIFIED", "web.18a2b4").as_bytes(), &sent));
        assert!(!is_foreign(line("DELETED", "web.18a2b4").as_bytes(), &sent), "Events expire");
        assert!(!is_foreign(b"{\"type\":\"ERROR\"", &sent));
    }
}
