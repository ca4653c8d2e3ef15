//! Syncs that store, renumber and delete the revisions of an owner.

use super::*;
use crate::revision::{CONTROLLER_REVISIONS, NumberEncoding, RevisionData};

/// Returns the data of a revision with the template of version `a`.
fn data() -> &'static RevisionData {
    Box::leak(Box::new(RevisionData::from_value(template("a"), NumberEncoding::Exact).unwrap()))
}

fn template(version: &str) -> Value {
    json!({"spec": {"containers": [{"name": "c", "image": version}]}})
}

/// Returns a revision with the template of this version and the controller `owner`, as stored on the server.
fn revision(version: &str, owner: &str) -> Value {
    let mut template = template(version);
    template["$patch"] = json!("replace");
    let owners = json!([{"kind": "ReplicaSet", "name": "web", "uid": owner, "controller": true}]);
    let metadata = json!({"name": "web-1", "uid": "web-1", "resourceVersion": "8", "ownerReferences": owners});
    json!({"metadata": metadata, "revision": 1, "data": {"spec": {"template": template}}})
}

/// Stores a revision and records the outcome as an Event.
async fn store(io: Io<'_, Memory>) -> Result<Requeue, SyncError> {
    let outcome =
        match RevisionStoreRequest::new(owner(), "web-1", data(), String::new()).send(RequestBody::default(), io).await
        {
            Ok(RevisionStoreOutcome::AlreadyExists(there)) => format!("there as {}", there.meta.name),
            Ok(RevisionStoreOutcome::NameTaken(refusal)) => format!("taken: {}", refusal.error),
            other => format!("{other:?}"),
        };
    io.record_event(EventType::Normal, "Stored", outcome);
    Ok(Requeue::AfterPlannedDelay)
}

#[tokio::test(start_paused = true)]
async fn a_revision_whose_name_is_taken_is_compared() {
    for (stored, outcome) in [("a", "Stored: there as web-1"), ("b", "Stored: taken: it exists")] {
        let world = world(move |method, _, _| match method {
            "POST" => (409, status("AlreadyExists", "it exists")),
            _ => (200, revision(stored, "OTHER")),
        });
        world.run(store).await.0.unwrap();
        assert_eq!(world.requests(), ["POST controllerrevisions", "GET web-1"]);
        assert_eq!(*world.events.lock(), [outcome]);
        assert_eq!(world.ledger.len(), 0);
    }
    let world = world(granting);
    world.run(store).await.0.unwrap();
    assert_eq!(world.requests(), ["POST controllerrevisions"]);
    assert!(world.ledger.may_have_unseen_write(&Uid::new("SET"), &CONTROLLER_REVISIONS));
}

async fn store_if_still_there(io: Io<'_, Memory>) -> Result<Requeue, SyncError> {
    let store = RevisionStoreRequest::new(owner(), "web-1", data(), String::new()).only_if_owner_exists();
    let _ = store.send(RequestBody::default(), io).await;
    Ok(Requeue::AfterPlannedDelay)
}

#[tokio::test(start_paused = true)]
async fn no_revision_is_stored_for_an_owner_that_does_not_exist() {
    let owner_as = |metadata: Value| (200, json!({"metadata": metadata}));
    let deleted =
        json!({"name": "web", "uid": "SET", "resourceVersion": "9", "deletionTimestamp": "2026-01-01T00:00:00Z"});
    for (answer, is_stored, is_gone) in [
        (owner_as(json!({"name": "web", "uid": "SET", "resourceVersion": "9"})), true, false),
        (owner_as(json!({"name": "web", "uid": "ANOTHER", "resourceVersion": "9"})), false, true),
        (owner_as(deleted), false, false),
        ((404, status("NotFound", "it does not exist")), false, true),
        ((403, status("Forbidden", "no")), false, false),
    ] {
        let shown = answer.clone();
        let world =
            world(move |method, path, body| if method == "GET" { shown.clone() } else { granting(method, path, body) });
        world.run(store_if_still_there).await.0.unwrap();
        let requests: &[&str] = if is_stored { &["GET web", "POST controllerrevisions"] } else { &["GET web"] };
        assert_eq!(world.requests(), requests, "{answer:?}");
        assert_eq!(world.ledger.len(), usize::from(is_stored || is_gone), "{answer:?}");
    }
}

/// Gives the revision `web-1` the serial number 3, and then deletes the revision.
async fn renumber(io: Io<'_, Memory>) -> Result<Requeue, SyncError> {
    let revision = Meta { name: "web-1".into(), uid: Uid::new("web-1"), ..pod("web-1").0.clone() };
    let renumbered = RevisionChange::set_revision_number(owner(), &revision, 3, io).await;
    renumbered.map_err(|refused| SyncError::new(SyncErrorClass::Conflict, format!("{refused:?}")))?;
    delete_revision(&revision, "it is unused", "cannot delete", io).await?;
    Ok(Requeue::AfterPlannedDelay)
}

#[tokio::test(start_paused = true)]
async fn a_revision_is_replaced_from_its_live_state_and_deleted_at_its_written_version() {
    let world = world(|method, name, _| match method {
        "GET" => (200, revision("b", "SET")),
        _ => (200, object(name, 9)),
    });
    let (outcome, account) = world.run(renumber).await;
    outcome.unwrap();
    assert_eq!(world.requests(), ["GET web-1", "PUT web-1", "DELETE web-1"]);
    let requests = world.requests.lock();
    let mut replaced = revision("b", "SET");
    replaced["revision"] = json!(3);
    assert_eq!(requests[1].1, replaced);
    assert_eq!(requests[2].1["preconditions"], json!({"uid": "web-1", "resourceVersion": "9"}));
    assert!(account.iter().all(|line| !line.contains("left out")), "{account:?}");
}

#[tokio::test(start_paused = true)]
async fn the_account_states_why_a_revision_was_not_replaced() {
    let numbered = |owner: &'static str| {
        let mut numbered = revision("b", owner);
        numbered["revision"] = json!(3);
        world(move |method, name, _| match method {
            "GET" => (200, numbered.clone()),
            _ => (200, object(name, 9)),
        })
    };
    let world = numbered("SET");
    let (outcome, account) = world.run(renumber).await;
    outcome.unwrap();
    assert_eq!(world.requests(), ["GET web-1", "DELETE web-1"]);
    assert!(account[1].ends_with("1 left out: ControllerRevision web-1 already has the wanted content"), "{account:?}");
    let (outcome, account) = numbered("OTHER").run(renumber).await;
    assert_eq!(outcome.unwrap_err().to_string(), "RevisionLost");
    let cause = "1 left out: ControllerRevision web-1 has another controller, or was replaced";
    assert!(account[1].ends_with(cause) && account[2].ends_with(cause), "{account:?}");
}
