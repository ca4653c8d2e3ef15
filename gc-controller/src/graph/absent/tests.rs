use common::meta::Uid;

use super::*;
use crate::graph::Graph;

/// GC-18, GC-87.
#[test]
fn a_used_identity_stays_and_the_size_is_bounded() {
    let kind = Graph::default().intern_kind("v1", "ConfigMap");
    let nth = |n: usize| Identity { kind, namespace: "ns".into(), name: "n".into(), uid: Uid::new(&n.to_string()) };
    let mut absent = AbsentObjects::default();
    for n in 0..3 * ABSENT_CAPACITY {
        absent.insert(nth(n));
        assert!(absent.contains(&nth(0)), "{n}");
    }
    assert!(!absent.contains(&nth(1)));
    assert!(absent.young.len() + absent.old.len() <= ABSENT_CAPACITY);
    let long = Identity { name: "n".repeat(MAX_IDENTITY_BYTES + 1).as_str().into(), ..nth(0) };
    absent.insert(long.clone());
    assert!(!absent.contains(&long));
}
