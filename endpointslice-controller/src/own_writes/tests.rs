use super::*;

fn version(text: &str) -> RecordedWrite {
    RecordedWrite::NewVersion(ResourceVersion::parse(text))
}

/// ENDPOINTSLICE-10.
#[test]
fn an_event_that_arrives_before_its_answer_is_an_own_one() {
    let (own, service) = (OwnWrites::default(), NamespacedName::new("ns", "web"));
    own.begin_request(&service);
    assert_eq!(own.author_of(&service, &Uid::new("a"), version("5")), ChangeAuthor::Undecided);
    assert!(!own.finish_request(&service, Some((&Uid::new("a"), version("5")))));
    assert_eq!(own.author_of(&service, &Uid::new("a"), version("5")), ChangeAuthor::ThisProcess);
    assert_eq!(own.author_of(&service, &Uid::new("a"), version("6")), ChangeAuthor::AnotherWriter);
}

/// ENDPOINTSLICE-10.
#[test]
fn writes_of_others_in_the_meantime_are_noticed() {
    let (own, service) = (OwnWrites::default(), NamespacedName::new("ns", "web"));
    let a = Uid::new("a");
    for (uid, seen, wrote) in [("a", "6", Some("5")), ("b", "4", Some("5")), ("a", "5", None)] {
        own.begin_request(&service);
        assert_eq!(own.author_of(&service, &Uid::new(uid), version(seen)), ChangeAuthor::Undecided);
        assert!(own.finish_request(&service, wrote.map(|wrote| (&a, version(wrote)))));
        own.forget_service(&service);
    }
}

#[test]
fn deleted_slices_leave_no_state() {
    let (own, service, a) = (OwnWrites::default(), NamespacedName::new("ns", "web"), Uid::new("a"));
    // Four cases follow: the event arrives before the answer, the event arrives after the answer, the write fails, and the
    // Service is deleted before the answer arrives.
    own.begin_request(&service);
    assert_eq!(own.author_of(&service, &a, RecordedWrite::Deletion), ChangeAuthor::Undecided);
    assert!(!own.finish_request(&service, Some((&a, RecordedWrite::Deletion))));
    assert!(own.0.lock().is_empty());
    own.begin_request(&service);
    assert!(!own.finish_request(&service, Some((&a, RecordedWrite::Deletion))));
    assert_eq!(own.author_of(&service, &a, RecordedWrite::Deletion), ChangeAuthor::ThisProcess);
    assert!(own.0.lock().is_empty());
    own.begin_request(&service);
    assert!(!own.finish_request(&service, None));
    assert!(own.0.lock().is_empty());
    own.begin_request(&service);
    own.forget_service(&service);
    assert!(!own.finish_request(&service, Some((&a, version("5")))));
    assert!(own.0.lock().is_empty());
}
