//! Deletion without the dependents: they are released.

use crate::world::{ME, World, owners};

#[tokio::test(start_paused = true)]
async fn dependents_are_released_before_the_owner_goes() {
    let w = World::new().await;
    let (a, p) = (w.map("a", &[]).await, w.map("p", &[]).await);
    w.map("b", &[&a]).await;
    w.map("c", &[&a, &p]).await;
    w.settle().await;
    w.forget();
    w.remove("a", "Orphan").await;
    w.settle().await;
    assert_eq!(w.maps().await, ["b", "c", "p"]);
    assert!(owners(&w.get("b").await).is_empty());
    assert_eq!(owners(&w.get("c").await), ["p"]);
    assert_eq!((w.ended(), w.deleted()), (vec!["a".to_owned()], Vec::new()));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_left_half_released_by_a_server_that_fails() {
    use e2e::sandbox::{Action, Rule};
    let w = World::new().await;
    let a = w.map("a", &[]).await;
    for n in 0..5 {
        w.map(&format!("b{n}"), &[&a]).await;
    }
    w.settle().await;
    w.sandbox
        .faults()
        .add(Rule::new(Action::InternalError).identity(ME).verb("patch").resource("configmaps").skip(2).times(4));
    w.remove("a", "Orphan").await;
    w.settle().await;
    assert_eq!(w.maps().await, ["b0", "b1", "b2", "b3", "b4"]);
    for name in w.maps().await {
        assert!(owners(&w.get(&name).await).is_empty(), "{name}");
    }
    assert_eq!(w.deleted(), [""; 0]);
}
