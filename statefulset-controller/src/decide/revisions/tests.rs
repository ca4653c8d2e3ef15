use serde_json::json;

use crate::{
    decide::revisions::{revisions_to_delete, with_created_revision},
    plan::revisions::{RevisionWrite, TemplateSource},
    world::{World, empty_set, pod, template, world},
};

fn chosen(world: &World) -> (String, String, String) {
    let revisions = world.plan().revisions;
    let step = match revisions.revision_write {
        RevisionWrite::Nothing => "nothing".to_owned(),
        RevisionWrite::Renumber { revision, number } => format!("{} is {number}", revision.meta.name),
        RevisionWrite::Create { number } => format!("new {number}"),
    };
    (step, revisions.current_revision.name.to_string(), revisions.update_revision.name.to_string())
}

fn words(step: &str, current: &str, update: &str) -> (String, String, String) {
    (step.to_owned(), current.to_owned(), update.to_owned())
}

/// STATEFULSET-34.
#[test]
fn a_new_template_gets_the_next_number() {
    let first = empty_set(1);
    let name = format!("web-{}", first.template_hash(0));
    assert_eq!(chosen(&first), words("new 1", &name, &name));
    let second = world(1).template("b");
    assert_eq!(chosen(&second), words("new 2", "web-a", &format!("web-{}", second.template_hash(0))));
    assert_ne!(second.template_hash(0), second.template_hash(1), "a collision gives another name");
}

/// STATEFULSET-34.
#[test]
fn the_revision_of_an_earlier_template_is_renumbered() {
    let world = world(1).revision("b", 2);
    assert_eq!(chosen(&world), words("web-a is 3", "web-a", "web-a"));
    assert_eq!(chosen(&world.clone().rollout_to("c")), words("nothing", "web-a", "web-c"));
    assert_eq!(chosen(&world.template("b")), words("nothing", "web-a", "web-b"));
}

/// STATEFULSET-37.
#[test]
fn a_missing_current_revision_is_replaced_by_the_update_revision() {
    let world = world(1).rollout_to("b").status(json!({"currentRevision": "web-gone"}));
    assert_eq!(chosen(&world), words("nothing", "web-b", "web-b"));
}

/// STATEFULSET-35.
#[test]
fn new_defaults_of_a_server_are_no_new_template() {
    let mut defaulted = template("a");
    defaulted["spec"]["dnsPolicy"] = json!("ClusterFirst");
    defaulted["spec"]["containers"][0]["terminationMessagePolicy"] = json!("File");
    for (field, value) in [("restartPolicy", json!("Always")), ("schedulerName", json!("default-scheduler"))] {
        defaulted["spec"][field] = value;
    }
    defaulted["spec"]["securityContext"] = json!({});
    defaulted["spec"]["terminationGracePeriodSeconds"] = json!(30);
    defaulted["spec"]["containers"][0]["terminationMessagePath"] = json!("/dev/termination-log");
    defaulted["spec"]["containers"][0]["imagePullPolicy"] = json!("IfNotPresent");
    let old = template("a");
    let world = empty_set(1).revision_of("old", 1, &old).spec("template", defaulted.clone());
    assert_eq!(chosen(&world), words("nothing", "web-old", "web-old"));
    let mut exact = world.clone();
    exact.features.compares_revisions_semantically = false;
    assert_eq!(chosen(&exact).0, "new 2");
    // Only the newest revision is compared with API defaults applied.
    assert_eq!(chosen(&world.revision("b", 2)).0, "new 3");
    // If defaults were removed from the template, the template gets a new revision.
    let world = empty_set(1).revision_of("new", 1, &defaulted).spec("template", old);
    assert_eq!(chosen(&world).0, "new 2");
}

/// STATEFULSET-35.
#[test]
fn a_null_that_a_server_no_longer_writes_is_no_new_template() {
    let mut old = template("a");
    old["metadata"]["creationTimestamp"] = json!(null);
    assert_eq!(chosen(&empty_set(1).revision_of("old", 1, &old)).0, "nothing");
}

/// STATEFULSET-38, STATEFULSET-84.
#[test]
fn unused_revisions_are_kept_up_to_the_limit() {
    let history = |limit: i32, versions: &[&str], world: World| {
        let world = versions.iter().enumerate().fold(world, |world, (at, v)| world.revision(v, 2 + at as i64));
        let world = world.spec("revisionHistoryLimit", json!(limit));
        let (plan, snapshot) = (world.plan(), world.snapshot());
        let forgotten = revisions_to_delete(&snapshot.set, &plan.revisions, &snapshot.pods.to_keep);
        forgotten.iter().map(|r| r.meta.name.to_string()).collect::<Vec<_>>()
    };
    let (old, at_rest) = (["b", "c", "d", "e"], || world(1));
    assert_eq!(history(2, &old, at_rest()), ["web-b", "web-c"]);
    assert_eq!(history(0, &old, at_rest()).len(), 4);
    assert_eq!(history(4, &old, at_rest()).len(), 0);
    assert_eq!(history(-1, &old, at_rest()).len(), 0);
    assert_eq!(history(0, &old, world(2).pod(pod(1).of_revision("c"))), ["web-b", "web-d", "web-e"], "a Pod uses it");
    let mut stated = at_rest();
    stated.set["status"]["updateRevision"] = json!("web-e");
    assert_eq!(history(0, &old, stated), ["web-b", "web-c", "web-d"], "the status names it");
}

/// STATEFULSET-38.
#[test]
fn a_terminating_revision_is_not_deleted_again() {
    let mut world =
        ["b", "c", "d"].iter().zip(2..).fold(world(1), |world, (version, number)| world.revision(version, number));
    for revision in world.revisions.iter_mut().filter(|revision| revision["metadata"]["name"] == "web-b") {
        revision["metadata"]["deletionTimestamp"] = json!("2026-11-21T09:00:00Z");
    }
    let world = world.spec("revisionHistoryLimit", json!(1));
    let (plan, snapshot) = (world.plan(), world.snapshot());
    let forgotten = revisions_to_delete(&snapshot.set, &plan.revisions, &snapshot.pods.to_keep);
    assert_eq!(forgotten.iter().map(|revision| &*revision.meta.name).collect::<Vec<_>>(), ["web-c"]);
}

/// STATEFULSET-38.
#[test]
fn chosen_revisions_are_never_deleted() {
    let world = world(1).rollout_to("b").spec("revisionHistoryLimit", json!(0));
    let (plan, snapshot) = (world.plan(), world.snapshot());
    assert!(revisions_to_delete(&snapshot.set, &plan.revisions, &[]).is_empty());
}

/// STATEFULSET-36.
#[test]
fn a_current_revision_with_the_planned_name_stays_current() {
    // The name that template `b` gets is taken by the current revision, which holds template `a`.
    let taken = empty_set(1).template("b").template_hash(0);
    let world = empty_set(1).template("b").revision_of(&taken, 1, &template("a"));
    let name = format!("web-{taken}");
    let world = world.status(json!({"currentRevision": name, "updateRevision": name}));
    assert_eq!(chosen(&world), words("new 2", &name, &name));
    let (plan, snapshot) = (world.plan(), world.snapshot());
    let after = with_created_revision(&plan.revisions, &snapshot.template, "web-next", 1);
    assert_eq!((&*after.current_revision.name, &*after.update_revision.name), (&*name, "web-next"));
    let TemplateSource::Stored(stored) = after.current_revision.template_source else {
        panic!("the set has another template")
    };
    assert_eq!(*stored.meta.name, *name);
    // Without a stored current revision, the new revision is the current and the update revision.
    let first = empty_set(1);
    let after = with_created_revision(&first.plan().revisions, &first.snapshot().template, "web-next", 1);
    assert_eq!((&*after.current_revision.name, &*after.update_revision.name), ("web-next", "web-next"));
}

/// STATEFULSET-83.
#[test]
fn no_revision_of_a_terminating_set_is_written() {
    // The garbage collector has removed the owner references of the revisions, so no revision is found.
    let recorded = json!({"currentRevision": "web-a", "updateRevision": "web-b"});
    let orphaned = empty_set(1).template("b").status(recorded).being_deleted();
    assert_eq!(chosen(&orphaned), words("nothing", "web-a", "web-b"));
    assert_eq!(chosen(&world(1).revision("b", 2).being_deleted()).0, "nothing", "none is renumbered");
    assert_eq!(chosen(&empty_set(1).being_deleted()).0, "nothing");
}

#[test]
fn an_explanation_names_the_write_of_a_revision() {
    let first = |world: &World| world.actions().first().cloned();
    let renumbered = world(1).revision("b", 2);
    let line = "renumber ControllerRevision web-a: the template equals an earlier revision, which becomes number 3";
    assert_eq!(first(&renumbered).as_deref(), Some(line));
    let new = world(1).template("b");
    let name = format!("web-{}", new.template_hash(0));
    let line = format!("create ControllerRevision {name}: the template is new, its revision is number 2");
    assert_eq!(first(&new), Some(line));
    assert_eq!(first(&world(1)), None);
    // A plan with only the write of a revision has one action.
    let paused = renumbered.spec("updateStrategy", json!({"type": "OnDelete"}));
    assert_eq!(paused.actions().len(), 1, "{:?}", paused.actions());
}
