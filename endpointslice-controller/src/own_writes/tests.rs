use super::*;

fn meta(uid: &str, version: &str) -> Meta {
    Meta { uid: Uid::new(uid), resource_version: Version::parse(version), ..Meta::default() }
}

fn version(text: &str) -> Wrote {
    Wrote::Version(Version::parse(text))
}

/// ENDPOINTSLICE-10.
#[test]
fn an_event_that_arrives_before_its_answer_is_an_own_one() {
    let (own, service) = (OwnWrites::default(), Key::new("ns", "web"));
    own.begin(&service);
    assert_eq!(own.author_of(&service, &meta("a", "5")), Author::Undecided);
    assert!(!own.finish(&service, Some((&Uid::new("a"), version("5")))));
    assert_eq!(own.author_of(&service, &meta("a", "5")), Author::Own);
    assert_eq!(own.author_of(&service, &meta("a", "6")), Author::Other);
}

/// ENDPOINTSLICE-10.
#[test]
fn writes_of_others_in_the_meantime_are_noticed() {
    let (own, service) = (OwnWrites::default(), Key::new("ns", "web"));
    let a = Uid::new("a");
    for (uid, seen, wrote) in [("a", "6", Some("5")), ("b", "4", Some("5")), ("a", "5", None)] {
        own.begin(&service);
        assert_eq!(own.author_of(&service, &meta(uid, seen)), Author::Undecided);
        assert!(own.finish(&service, wrote.map(|wrote| (&a, version(wrote)))));
        own.forget(&service);
    }
}

#[test]
fn deleted_slices_leave_no_state() {
    let (own, service, a) = (OwnWrites::default(), Key::new("ns", "web"), Uid::new("a"));
    // In turn: the event arrives before the answer, the event arrives after the answer, the write fails, the Service is
    // deleted.
    own.begin(&service);
    assert_eq!(own.author_of_deletion(&service, &meta("a", "5")), Author::Undecided);
    assert!(!own.finish(&service, Some((&a, Wrote::Deletion))));
    assert!(own.0.lock().is_empty());
    own.begin(&service);
    assert!(!own.finish(&service, Some((&a, Wrote::Deletion))));
    assert_eq!(own.author_of_deletion(&service, &meta("a", "5")), Author::Own);
    assert!(own.0.lock().is_empty());
    own.begin(&service);
    assert!(!own.finish(&service, None));
    assert!(own.0.lock().is_empty());
    own.begin(&service);
    own.forget(&service);
    assert!(!own.finish(&service, Some((&a, version("5")))));
    assert!(own.0.lock().is_empty());
}
