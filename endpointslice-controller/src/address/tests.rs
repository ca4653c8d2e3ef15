use super::*;

/// ENDPOINTSLICE-18.
#[test]
fn addresses_are_read_leniently_and_written_in_one_form() {
    for (text, canonical) in [
        ("10.0.0.1", Some("10.0.0.1")),
        ("010.000.0.001", Some("10.0.0.1")),
        ("::ffff:10.0.0.1", Some("10.0.0.1")),
        ("::FFFF:0a00:0001", Some("10.0.0.1")),
        ("2001:DB8:0:0:0:0:0:1", Some("2001:db8::1")),
        ("64:ff9b::192.000.2.33", Some("64:ff9b::c000:221")),
        ("::", Some("::")),
        ("256.0.0.1", None),
        ("1.2.3", None),
        ("1.2.3.4.5", None),
        ("1.2.3.", None),
        ("fe80::1%eth0", None),
        ("", None),
        ("web", None),
    ] {
        assert_eq!(parse_ip(text).map(|address| address.to_string()).as_deref(), canonical, "{text}");
        if let Some(address) = parse_ip(text) {
            assert_eq!(is_canonical_text(address, text), canonical == Some(text), "{text}");
            assert!(canonical.is_some_and(|canonical| is_canonical_text(address, canonical)), "{text}");
        }
    }
    assert!(
        !is_canonical_text([10, 0, 0, 1].into(), "10.0.0.12") && !is_canonical_text([10, 0, 0, 12].into(), "10.0.0.1")
    );
}
