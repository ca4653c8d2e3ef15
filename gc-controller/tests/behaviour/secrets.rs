//! The contents of Secrets, which the collector has the right to read.

use crate::world::*;

/// Contents of a Secret, encoded as answers have them. It is also the "lie" by which the test finds them in answers.
const CONTENTS: &str = "dG9wIHNlY3JldA==";

#[tokio::test(start_paused = true)]
async fn contents_of_secrets_are_in_no_answer_to_the_collector() {
    let mut w = cluster().lies(&[(CONTENTS, CONTENTS)]).stopped().await;
    let owners = [create_map(&w, "a").await, create_map(&w, "b").await].map(|owner| reference(&owner, true));
    let secret = |name: &str, references: &[Value], finalizers: Value| {
        let metadata = json!({"finalizers": finalizers});
        merged(map(name, references), json!({"kind": "Secret", "data": {"key": CONTENTS}, "metadata": metadata}))
    };
    w.create(secret("released", &owners, json!([]))).await;
    w.create(secret("deleted", &owners[..1], json!([]))).await;
    w.create(secret("held", &owners[..1], json!(["example.com/hold"]))).await;
    w.create(secret("owner", &[], json!([]))).await;
    w.start();
    w.settle().await;
    w.create(secret("later", &owners[..1], json!([]))).await;
    w.settle().await;
    w.clear_log();
    delete_map_and_settle(&w, "a", "Background").await;
    for (name, propagation) in [("released", "Orphan"), ("owner", "Foreground")] {
        let path = format!("/api/v1/namespaces/{NAMESPACE}/secrets/{name}");
        w.delete_with(&path, json!({"propagationPolicy": propagation})).await;
    }
    w.settle().await;
    let left = w.list("secrets").await;
    assert_eq!(left.iter().map(name).collect::<Vec<_>>(), ["held"]);
    for verb in ["get", "patch", "delete"] {
        assert!(w.count(verb, "secrets") > 0, "{verb}");
    }
    assert_eq!(w.told_lies(), 0, "answers to the collector have contents of Secrets");
    // Pods are watched as whole objects, so that the same text in a Pod is found.
    let pod = json!({"kind": "Pod", "metadata": {"annotations": {"note": CONTENTS}}, "spec": pod_spec("img:1")});
    w.create(merged(map("web", &[]), pod)).await;
    w.settle().await;
    w.assert_all_lies_were_told();
}
