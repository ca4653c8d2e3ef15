//! What daemonset-controller promises for DaemonSets, on any cluster.
//!
//! Scenes may share a cluster. Each of them has its own nodes, which have a label with its namespace.

use std::collections::BTreeMap;

use testkit::scene::prelude::*;

/// The label of a test's nodes. Its value is the test's namespace.
const TEST: &str = "nonet.io/test";
const HASH: &str = "controller-revision-hash";

suite! {
    Suite::new("daemonset")
        .controller(&daemonset_controller::DEFINITION, &["--tune=daemonset-failed-pod-backoff=2s"]);
    EVERYWHERE.sample() =>
        every_node_gets_one_pod revisions_are_stored_byte_for_byte;
    SIMULATED.sample() =>
        a_rollout_makes_no_more_nodes_unavailable_than_allowed;
    SIMULATED =>
        pods_are_made_of_the_template_and_pinned_to_their_node selectors_and_affinities_choose_nodes
        taints_keep_pods_away_or_drive_them_away tolerations_let_pods_run_on_tainted_nodes
        a_node_that_joins_gets_a_pod_and_one_that_leaves_counts_no_more
        a_cordoned_node_keeps_its_pod_and_gets_the_next_one a_relabelled_node_loses_its_pod
        a_rollout_with_surge_leaves_no_node_without_an_available_pod a_broken_template_stops_at_the_limit
        on_delete_leaves_it_to_users failed_pods_are_replaced_after_a_growing_delay
        of_two_pods_on_a_node_the_older_one_stays the_template_of_before_is_numbered_anew
        history_status_and_undo_work_as_kubectl_does_them history_is_as_long_as_the_limit
        orphans_are_adopted_and_strangers_released labels_taken_away_release_and_given_back_adopt
        a_pod_is_available_after_min_ready_seconds nothing_is_made_while_the_set_is_deleted
        a_settled_set_is_left_alone;
}

/// Nodes of a test. They go when this is taken away.
struct Nodes {
    context: Context,
    names: Vec<String>,
}

impl Nodes {
    /// Starts that many nodes, and waits until the API server has them, with the test's label.
    async fn start(c: &Context, count: usize) -> Result<Self, Failure> {
        let mut nodes = Self { context: c.clone(), names: Vec::new() };
        for _ in 0..count {
            nodes.join().await?;
        }
        Ok(nodes)
    }

    /// Starts one more.
    async fn join(&mut self) -> Result<String, Failure> {
        let c = &self.context;
        let name = c.nodes().add();
        self.names.push(name.clone());
        let untainted = async || {
            let node = c.client().get(NODES, "", &name).await.ok()?;
            (is_ready(&node) && node["spec"].get("taints").is_none()).then_some(())
        };
        c.until(&format!("node {name} to be ready"), untainted).await?;
        let labels = json!({"metadata": {"labels": {TEST: c.namespace()}}});
        merge_node(c, &name, labels).await?;
        Ok(name)
    }

    /// A line for a Pod of this image on each node.
    fn with(&self, image: &str) -> Vec<String> {
        self.names.iter().map(|node| format!("{node} {image}")).collect()
    }

    /// Takes one away for good.
    async fn leave(&mut self, name: &str) -> Outcome {
        self.context.nodes().remove(name).unwrap();
        self.names.retain(|other| other != name);
        let gone = async || self.context.client().get(NODES, "", name).await.is_err().then_some(());
        self.context.until(&format!("node {name} to be gone"), gone).await
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        for name in &self.names {
            let _ = self.context.nodes().remove(name);
        }
    }
}

async fn merge_node(c: &Context, name: &str, patch: Value) -> Outcome {
    c.client().patch(NODES, "", name, "", PatchKind::Merge, &patch).await?;
    Ok(())
}

async fn taint(c: &Context, name: &str, effect: &str) -> Outcome {
    merge_node(c, name, json!({"spec": {"taints": [{"key": "nonet.io/taint", "value": "a", "effect": effect}]}})).await
}

async fn untaint(c: &Context, name: &str) -> Outcome {
    merge_node(c, name, json!({"spec": {"taints": null}})).await
}

/// A DaemonSet for the test's nodes.
fn agent(c: &Context) -> Builder {
    let selector = json!({TEST: c.namespace()});
    daemon_set("agent").set("spec/template/spec/nodeSelector", selector)
}

pub(crate) fn limits(max_unavailable: impl Into<Value>, max_surge: impl Into<Value>) -> Value {
    let rolling = json!({"maxUnavailable": max_unavailable.into(), "maxSurge": max_surge.into()});
    json!({"type": "RollingUpdate", "rollingUpdate": rolling})
}

/// The node that a Pod is for.
pub(crate) fn target(pod: &Value) -> &str {
    let pin = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0/matchFields/0/values/0";
    let bound = pod["spec"]["nodeName"].as_str();
    bound.or_else(|| pod.pointer(pin).and_then(Value::as_str)).unwrap_or_default()
}

fn hash(pod: &Value) -> &Value {
    &pod["metadata"]["labels"][HASH]
}

/// The Pods of the namespace, each as its node and image.
async fn images(c: &Context) -> Result<Vec<String>, Failure> {
    let line = |pod: &Value| format!("{} {}", target(pod), text(&pod["spec"]["containers"][0], "image"));
    let mut images: Vec<String> = c.list(PODS).await?.iter().map(line).collect();
    images.sort();
    Ok(images)
}

async fn until_images(c: &Context, what: &str, wanted: &[String]) -> Outcome {
    let mut wanted = wanted.to_vec();
    wanted.sort();
    c.until(what, async || images(c).await.is_ok_and(|images| images == wanted).then_some(())).await
}

/// The only Pod for a node.
async fn pod_on(c: &Context, node: &str) -> Result<Value, Failure> {
    let mut pods = c.list(PODS).await?;
    pods.retain(|pod| target(pod) == node);
    match &mut pods[..] {
        [pod] => Ok(pod.take()),
        others => c.fail(&format!("{} Pods are for node {node}", others.len())).await,
    }
}

/// Waits until the status shows that many desired nodes, each with an available Pod of the newest template.
async fn complete(c: &Context, nodes: usize) -> Result<Value, Failure> {
    let wanted = json!(nodes);
    c.until(&format!("DaemonSet agent to be complete on {nodes} nodes"), async || {
        let set = c.get(DAEMON_SETS, "agent").await.ok()?;
        let fields = ["desiredNumberScheduled", "currentNumberScheduled", "updatedNumberScheduled", "numberAvailable"];
        let counted = fields.iter().all(|field| set["status"].get(field).unwrap_or(&json!(0)) == &wanted);
        (counted && set["status"]["observedGeneration"] == set["metadata"]["generation"]).then_some(set)
    })
    .await
}

/// Waits until fields of the status have these values; a field that is absent is 0.
async fn until_status(c: &Context, wanted: Value) -> Outcome {
    c.until(&format!("the status to show {wanted}"), async || {
        let set = c.get(DAEMON_SETS, "agent").await.ok()?;
        let zero = json!(0);
        let shown = wanted.as_object()?.iter().all(|(field, value)| set["status"].get(field).unwrap_or(&zero) == value);
        (shown && set["status"]["observedGeneration"] == set["metadata"]["generation"]).then_some(())
    })
    .await
}

async fn every_node_gets_one_pod(c: Context) -> Outcome {
    let tolerant = daemon_set("agent").set("spec/template/spec/tolerations", json!([{"operator": "Exists"}]));
    let set = c.create(DAEMON_SETS, tolerant).await?;
    // Other tests take nodes away and add others meanwhile: only those that are there all the time are asked about.
    let names = async || -> Option<Vec<String>> {
        let nodes = c.client().list(NODES, "", "").await.ok()?;
        Some(nodes.iter().filter_map(|node| node["metadata"]["name"].as_str().map(str::to_owned)).collect())
    };
    let before = names().await.unwrap_or_default();
    c.until("every node to have one ready Pod", async || {
        let pods = c.pods_of(&set).await.ok()?;
        let now = names().await?;
        let ready = |node: &String| pods.iter().filter(|pod| target(pod) == node && is_ready(pod)).count();
        before.iter().filter(|node| now.contains(node)).all(|node| ready(node) == 1).then_some(())
    })
    .await?;
    assert!(before.len() > 1, "{before:?}");
    c.until_event("DaemonSet", "agent", "Normal SuccessfulCreate Created pod: agent-").await
}

/// DAEMONSET-21, DAEMONSET-33, DAEMONSET-36, DAEMONSET-56.
async fn pods_are_made_of_the_template_and_pinned_to_their_node(c: Context) -> Outcome {
    let nodes = Nodes::start(&c, 2).await?;
    let set = agent(&c)
        .set("spec/template/metadata/labels/tier", "node")
        .set("spec/template/metadata/annotations/note", "kept")
        .set("spec/template/spec/tolerations", json!([{"key": "own", "operator": "Exists"}]));
    let set = c.create(DAEMON_SETS, set).await?;
    let status = complete(&c, 2).await?["status"].clone();
    let all = json!({"currentNumberScheduled": 2, "numberMisscheduled": 0, "desiredNumberScheduled": 2, "numberReady": 2,
        "observedGeneration": 1, "updatedNumberScheduled": 2, "numberAvailable": 2});
    assert_eq!(status, all);
    let revisions = c.list(CONTROLLER_REVISIONS).await?;
    let [revision] = &revisions[..] else { return c.fail("there is not one revision").await };
    let owner = json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": set["metadata"]["uid"],
        "controller": true, "blockOwnerDeletion": true}]);
    for node in &nodes.names {
        let mut pod = pod_on(&c, node).await?;
        // The node's place comes with the node.
        pod["metadata"]["labels"].as_object_mut().unwrap().retain(|key, _| !key.starts_with("topology."));
        let meta = &pod["metadata"];
        assert_eq!(
            meta["labels"],
            json!({"app": "agent", "tier": "node", HASH: hash(revision), "pod-template-generation": "1"})
        );
        assert_eq!((&meta["annotations"]["note"], &meta["generateName"]), (&json!("kept"), &json!("agent-")));
        assert_eq!(meta["ownerReferences"], owner);
        let pin = json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]);
        let required = "requiredDuringSchedulingIgnoredDuringExecution";
        assert_eq!(pod["spec"]["affinity"], json!({"nodeAffinity": {required: {"nodeSelectorTerms": pin}}}));
        let tolerations = pod["spec"]["tolerations"].as_array().unwrap();
        let short = |toleration: &Value| {
            let key = toleration["key"].as_str().unwrap_or_default();
            format!(
                "{} {}",
                key.trim_start_matches("node.kubernetes.io/"),
                toleration["effect"].as_str().unwrap_or("-")
            )
        };
        let wanted = [
            "own -",
            "not-ready NoExecute",
            "unreachable NoExecute",
            "disk-pressure NoSchedule",
            "memory-pressure NoSchedule",
            "pid-pressure NoSchedule",
            "unschedulable NoSchedule",
        ];
        assert_eq!(tolerations.iter().map(short).collect::<Vec<_>>(), wanted);
        assert!(tolerations.iter().all(|t| t["operator"] == "Exists" && t.get("tolerationSeconds").is_none()));
    }
    let (meta, data) = (&revision["metadata"], &revision["data"]["spec"]["template"]);
    assert_eq!(meta["name"], format!("agent-{}", hash(revision).as_str().unwrap()));
    assert_eq!((&meta["ownerReferences"], &revision["revision"]), (&owner, &json!(1)));
    assert_eq!((&data["$patch"], data["spec"].get("affinity")), (&json!("replace"), None));
    assert_eq!(data["spec"]["tolerations"].as_array().map(Vec::len), Some(1), "those of Pods are not in the history");
    Ok(())
}

/// DAEMONSET-12.
async fn selectors_and_affinities_choose_nodes(c: Context) -> Outcome {
    let nodes = Nodes::start(&c, 3).await?;
    for (node, (disk, size)) in nodes.names.iter().zip([("ssd", "10"), ("ssd", "3"), ("hdd", "10")]) {
        merge_node(&c, node, json!({"metadata": {"labels": {"disk": disk, "size": size}}})).await?;
    }
    let required = |terms: Value| {
        let affinity = json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}});
        json!({"spec": {"template": {"spec": {"affinity": {"nodeAffinity": affinity}}}}})
    };
    let on = |chosen: &[usize], image: &str| -> Vec<String> {
        chosen.iter().map(|at| format!("{} {image}", nodes.names[*at])).collect()
    };
    let ssd = json!({"key": "disk", "operator": "In", "values": ["ssd"]});
    let large = json!({"key": "size", "operator": "Gt", "values": ["5"]});
    let named = json!({"key": "metadata.name", "operator": "In", "values": [&nodes.names[2]]});
    let set = agent(&c).set("spec/template/spec/nodeSelector/disk", "ssd");
    c.create(DAEMON_SETS, set.set("spec/updateStrategy", limits("100%", 0))).await?;
    until_images(&c, "a Pod on each node with an SSD", &on(&[0, 1], "img:1")).await?;
    let without = json!({"spec": {"template": {"spec": {"nodeSelector": {"disk": null}}}}});
    for (terms, chosen, what) in [
        (json!([{"matchExpressions": [ssd, large]}]), &[0][..], "a Pod on the large node with an SSD"),
        (json!([{"matchExpressions": [ssd]}, {"matchFields": [named]}]), &[0, 1, 2], "a Pod on nodes of either term"),
        (json!([{"matchExpressions": [large], "matchFields": [named]}]), &[2], "a Pod on the node of that name"),
    ] {
        c.merge(DAEMON_SETS, "agent", without.clone()).await?;
        c.merge(DAEMON_SETS, "agent", required(terms)).await?;
        until_images(&c, what, &on(chosen, "img:1")).await?;
        complete(&c, chosen.len()).await?;
    }
    Ok(())
}

/// DAEMONSET-14, DAEMONSET-22.
async fn taints_keep_pods_away_or_drive_them_away(c: Context) -> Outcome {
    let mut nodes = Nodes::start(&c, 2).await?;
    c.create(DAEMON_SETS, agent(&c)).await?;
    complete(&c, 2).await?;
    let tainted = nodes.names[0].clone();
    taint(&c, &tainted, "NoSchedule").await?;
    let stays = json!({"desiredNumberScheduled": 1, "currentNumberScheduled": 1, "numberMisscheduled": 1});
    until_status(&c, stays).await?;
    assert_eq!(images(&c).await?.len(), 2, "its Pod stays");
    let other = nodes.names[1].clone();
    taint(&c, &other, "PreferNoSchedule").await?;
    let joined = nodes.join().await?;
    taint(&c, &joined, "NoSchedule").await?;
    let two: Vec<String> = [&tainted, &other].iter().map(|node| format!("{node} img:1")).collect();
    // It may get a Pod before the controller sees the taint. That one is deleted, and no other comes.
    let has_two = async || {
        for pod in c.list(PODS).await.ok()?.iter().filter(|pod| target(pod) == joined) {
            c.delete(PODS, pod["metadata"]["name"].as_str()?, "Background").await.ok()?;
        }
        (images(&c).await.ok()?.len() == two.len()).then_some(())
    };
    c.until("the tainted node to have no Pod", has_two).await?;
    until_images(&c, "the others to keep theirs", &two).await?;
    taint(&c, &tainted, "NoExecute").await?;
    until_images(&c, "the Pod to be driven away", &two[1..]).await?;
    until_status(&c, json!({"desiredNumberScheduled": 1, "numberMisscheduled": 0, "numberAvailable": 1})).await?;
    untaint(&c, &tainted).await?;
    until_images(&c, "the Pod to come back", &two).await?;
    untaint(&c, &joined).await?;
    complete(&c, 3).await?;
    Ok(())
}

async fn tolerations_let_pods_run_on_tainted_nodes(c: Context) -> Outcome {
    let nodes = Nodes::start(&c, 2).await?;
    taint(&c, &nodes.names[0], "NoExecute").await?;
    taint(&c, &nodes.names[1], "NoSchedule").await?;
    c.create(DAEMON_SETS, agent(&c)).await?;
    until_status(&c, json!({"desiredNumberScheduled": 0, "currentNumberScheduled": 0})).await?;
    let tolerated = |value: &str| {
        let toleration = json!([{"key": "nonet.io/taint", "operator": "Equal", "value": value}]);
        json!({"spec": {"template": {"spec": {"tolerations": toleration}}}})
    };
    c.merge(DAEMON_SETS, "agent", tolerated("b")).await?;
    until_status(&c, json!({"desiredNumberScheduled": 0, "currentNumberScheduled": 0})).await?;
    c.merge(DAEMON_SETS, "agent", tolerated("a")).await?;
    complete(&c, 2).await?;
    Ok(())
}

/// DAEMONSET-9, DAEMONSET-27, DAEMONSET-73.
async fn a_node_that_joins_gets_a_pod_and_one_that_leaves_counts_no_more(c: Context) -> Outcome {
    let mut nodes = Nodes::start(&c, 2).await?;
    c.create(DAEMON_SETS, agent(&c)).await?;
    complete(&c, 2).await?;
    let joined = nodes.join().await?;
    complete(&c, 3).await?;
    let on_joined = pod_on(&c, &joined).await?["metadata"]["uid"].clone();
    let left = nodes.names[0].clone();
    nodes.leave(&left).await?;
    complete(&c, 2).await?;
    assert_eq!(pod_on(&c, &joined).await?["metadata"]["uid"], on_joined, "no other Pod is touched");
    // What is bound to a node that is gone is the garbage collector's.
    assert_eq!(pod_on(&c, &left).await?["metadata"].get("deletionTimestamp"), None);
    Ok(())
}

async fn a_cordoned_node_keeps_its_pod_and_gets_the_next_one(c: Context) -> Outcome {
    let nodes = Nodes::start(&c, 1).await?;
    c.create(DAEMON_SETS, agent(&c)).await?;
    complete(&c, 1).await?;
    let node = &nodes.names[0];
    let before = pod_on(&c, node).await?;
    // As `kubectl cordon` and the node lifecycle controller do it.
    let taint = json!([{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]);
    merge_node(&c, node, json!({"spec": {"unschedulable": true, "taints": taint}})).await?;
    c.stays("the Pod", Duration::from_secs(2), async || {
        pod_on(&c, node).await.is_ok_and(|pod| pod["metadata"]["uid"] == before["metadata"]["uid"])
    })
    .await?;
    c.delete(PODS, name(&before), "Background").await?;
    c.until("another Pod to run there", async || {
        let pod = pod_on(&c, node).await.ok()?;
        (pod["metadata"]["uid"] != before["metadata"]["uid"] && is_ready(&pod)).then_some(())
    })
    .await?;
    complete(&c, 1).await?;
    Ok(())
}

/// DAEMONSET-9, DAEMONSET-12, DAEMONSET-22.
async fn a_relabelled_node_loses_its_pod(c: Context) -> Outcome {
    let nodes = Nodes::start(&c, 2).await?;
    c.create(DAEMON_SETS, agent(&c)).await?;
    complete(&c, 2).await?;
    let [kept, lost] = &nodes.names[..] else { unreachable!() };
    merge_node(&c, lost, json!({"metadata": {"labels": {TEST: null}}})).await?;
    until_images(&c, "the Pod to go", &[format!("{kept} img:1")]).await?;
    until_status(&c, json!({"desiredNumberScheduled": 1, "numberMisscheduled": 0, "numberUnavailable": 0})).await?;
    merge_node(&c, lost, json!({"metadata": {"labels": {TEST: c.namespace()}}})).await?;
    complete(&c, 2).await?;
    c.until_event("DaemonSet", "agent", "Normal SuccessfulDelete Deleted pod: agent-").await
}

/// How many Pods that count each node has in a state.
fn ready_by_node(state: &State, nodes: &[String]) -> BTreeMap<String, usize> {
    let ready = |node: &String| state.pods.values().filter(|pod| target(pod) == node && is_ready(pod)).count();
    nodes.iter().map(|node| (node.clone(), ready(node))).collect()
}

/// How many Pods that are not terminating each node has in a state, at most.
fn most_per_node(state: &State, nodes: &[String]) -> usize {
    let stays = |pod: &Value| pod["metadata"].get("deletionTimestamp").is_none();
    let live = |node: &String| state.pods.values().filter(|pod| target(pod) == node && stays(pod)).count();
    nodes.iter().map(live).max().unwrap_or(0)
}

/// DAEMONSET-49.
async fn a_rollout_makes_no_more_nodes_unavailable_than_allowed(c: Context) -> Outcome {
    let nodes = Nodes::start(&c, 5).await?;
    let set = agent(&c).set("spec/updateStrategy", limits("30%", 0)).script("sim/ready-after", "0.3");
    c.create(DAEMON_SETS, set).await?;
    complete(&c, 5).await?;
    let recorder = c.record().await?;
    c.merge(DAEMON_SETS, "agent", image("img:2")).await?;
    complete(&c, 5).await?;
    let states = recorder.stop().await?;
    let without = |state: &State| ready_by_node(state, &nodes.names).values().filter(|ready| **ready == 0).count();
    let most = states.iter().map(without).max();
    c.check(most == Some(2), &format!("30 % of 5 nodes are 2: {most:?} were unavailable at once")).await?;
    let twice = states.iter().find(|state| most_per_node(state, &nodes.names) > 1);
    c.check(twice.is_none(), "a node had two Pods").await?;
    let wanted = nodes.with("img:2");
    until_images(&c, "all Pods to be of the new template", &wanted).await
}

/// DAEMONSET-52.
async fn a_rollout_with_surge_leaves_no_node_without_an_available_pod(c: Context) -> Outcome {
    let nodes = Nodes::start(&c, 4).await?;
    let set = agent(&c).set("spec/updateStrategy", limits(0, "25%")).script("sim/ready-after", "0.3");
    c.create(DAEMON_SETS, set).await?;
    complete(&c, 4).await?;
    let recorder = c.record().await?;
    c.merge(DAEMON_SETS, "agent", image("img:2")).await?;
    let wanted = nodes.with("img:2");
    until_images(&c, "all Pods to be of the new template", &wanted).await?;
    complete(&c, 4).await?;
    for state in recorder.stop().await? {
        let ready = ready_by_node(&state, &nodes.names);
        c.check(ready.values().all(|ready| *ready > 0), &format!("a node was without a ready Pod: {ready:?}")).await?;
        let two = |node: &&String| most_per_node(&state, std::slice::from_ref(node)) > 1;
        let surging = nodes.names.iter().filter(two).count();
        c.check(surging < 2, &format!("{surging} nodes had two Pods")).await?;
        c.check(most_per_node(&state, &nodes.names) < 3, "a node had three Pods").await?;
    }
    Ok(())
}

async fn a_broken_template_stops_at_the_limit(c: Context) -> Outcome {
    let nodes = Nodes::start(&c, 3).await?;
    c.create(DAEMON_SETS, agent(&c)).await?;
    complete(&c, 3).await?;
    let mut never = image("img:broken");
    never["spec"]["template"]["metadata"] = json!({"annotations": {"sim/never-ready": "true"}});
    c.merge(DAEMON_SETS, "agent", never).await?;
    let stuck = json!({"updatedNumberScheduled": 1, "numberUnavailable": 1, "numberReady": 2, "numberAvailable": 2});
    until_status(&c, stuck.clone()).await?;
    let images_now = images(&c).await?;
    c.stays("stuck at its limit", Duration::from_secs(2), async || {
        images(&c).await.is_ok_and(|images| images == images_now)
    })
    .await?;
    // The remedy: the unavailable Pod of the broken template is replaced without regard to the limit.
    let mut back = image("img:1");
    back["spec"]["template"]["metadata"] = json!({"annotations": {"sim/never-ready": null}});
    c.merge(DAEMON_SETS, "agent", back).await?;
    complete(&c, 3).await?;
    let wanted = nodes.with("img:1");
    until_images(&c, "all Pods to be of the first template", &wanted).await
}

/// DAEMONSET-55.
async fn on_delete_leaves_it_to_users(c: Context) -> Outcome {
    let nodes = Nodes::start(&c, 2).await?;
    c.create(DAEMON_SETS, agent(&c).set("spec/updateStrategy", json!({"type": "OnDelete"}))).await?;
    complete(&c, 2).await?;
    c.merge(DAEMON_SETS, "agent", image("img:2")).await?;
    until_status(&c, json!({"updatedNumberScheduled": 0, "numberAvailable": 2})).await?;
    let [kept, changed] = &nodes.names[..] else { unreachable!() };
    let old = [format!("{kept} img:1"), format!("{changed} img:1")];
    c.stays("of the old template", Duration::from_secs(2), async || {
        images(&c).await.is_ok_and(|images| images.iter().all(|line| old.contains(line)))
    })
    .await?;
    let victim = pod_on(&c, changed).await?;
    c.delete(PODS, name(&victim), "Background").await?;
    until_images(&c, "the next one to be of the new template", &[old[0].clone(), format!("{changed} img:2")]).await?;
    until_status(&c, json!({"updatedNumberScheduled": 1, "numberAvailable": 2})).await
}

/// DAEMONSET-24, DAEMONSET-26.
async fn failed_pods_are_replaced_after_a_growing_delay(c: Context) -> Outcome {
    let nodes = Nodes::start(&c, 1).await?;
    let set = agent(&c).script("sim/fail-reason", "OutOfcpu");
    c.create(DAEMON_SETS, set).await?;
    // The first failed Pod is deleted at once, the second one after two seconds, the third one after four.
    let recorder = c.record().await?;
    c.sleep(Duration::from_secs(9)).await;
    let states = recorder.stop().await?;
    let mut seen: Vec<&str> = states
        .iter()
        .flat_map(|state| state.pods.values())
        .filter(|pod| pod["status"]["phase"] == "Failed")
        .filter_map(|pod| pod["metadata"]["uid"].as_str())
        .collect();
    seen.sort_unstable();
    seen.dedup();
    c.check((3..=4).contains(&seen.len()), &format!("{} Pods have failed within nine seconds", seen.len())).await?;
    let found = format!("Warning FailedDaemonPod Found failed daemon pod {}/agent-", c.namespace());
    c.until_event("DaemonSet", "agent", &found).await?;
    // A new template begins anew.
    let healthy = json!({"spec": {"template": {"metadata": {"annotations": {"sim/fail-reason": null}}}}});
    c.merge(DAEMON_SETS, "agent", healthy).await?;
    complete(&c, 1).await?;
    assert_eq!(nodes.names.len(), images(&c).await?.len());
    // Likewise a Pod that has succeeded.
    let pod = pod_on(&c, &nodes.names[0]).await?;
    let name = pod["metadata"]["name"].as_str().unwrap();
    c.merge_status(PODS, name, json!({"status": {"phase": "Succeeded"}})).await?;
    let found = format!("Normal SucceededDaemonPod Found succeeded daemon pod {}/{name} on node", c.namespace());
    c.until_event("DaemonSet", "agent", &found).await?;
    c.until("another Pod", async || {
        let other = pod_on(&c, &nodes.names[0]).await.ok()?;
        (other["metadata"]["uid"] != pod["metadata"]["uid"]).then_some(())
    })
    .await?;
    complete(&c, 1).await?;
    Ok(())
}

/// A second Pod of the set for the same node, as another active controller would create it.
fn twin(pod: &Value) -> Value {
    let meta = &pod["metadata"];
    json!({"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "c", "image": "img:1"}],
            "affinity": pod["spec"]["affinity"], "tolerations": pod["spec"]["tolerations"]},
        "metadata": {"name": "agent-twin", "labels": meta["labels"], "ownerReferences": meta["ownerReferences"]}})
}

/// DAEMONSET-23.
async fn of_two_pods_on_a_node_the_older_one_stays(c: Context) -> Outcome {
    let nodes = Nodes::start(&c, 1).await?;
    c.create(DAEMON_SETS, agent(&c)).await?;
    complete(&c, 1).await?;
    let first = pod_on(&c, &nodes.names[0]).await?;
    // Creation times are whole seconds.
    c.sleep(Duration::from_millis(1100)).await;
    c.create(PODS, twin(&first)).await?;
    c.until_gone(PODS, "agent-twin").await?;
    assert_eq!(pod_on(&c, &nodes.names[0]).await?["metadata"]["uid"], first["metadata"]["uid"]);
    c.until_event("DaemonSet", "agent", "Normal SuccessfulDelete Deleted pod: agent-twin").await
}

/// DAEMONSET-38.
async fn the_template_of_before_is_numbered_anew(c: Context) -> Outcome {
    let nodes = Nodes::start(&c, 1).await?;
    let set = c.create(DAEMON_SETS, agent(&c)).await?;
    complete(&c, 1).await?;
    let first = hash(&pod_on(&c, &nodes.names[0]).await?).clone();
    c.merge(DAEMON_SETS, "agent", image("img:2")).await?;
    complete(&c, 1).await?;
    c.merge(DAEMON_SETS, "agent", image("img:1")).await?;
    complete(&c, 1).await?;
    assert_eq!(c.revisions_of(&set).await?, ["2 img:2", "3 img:1"]);
    assert_eq!(*hash(&pod_on(&c, &nodes.names[0]).await?), first, "the revision is used again");
    Ok(())
}

/// What `kubectl rollout status` says of a set, by the numbers it goes by. Upstream: `polymorphichelpers`,
/// `DaemonSetStatusViewer`.
fn rollout_status(set: &Value) -> &'static str {
    let number = |field: &str| set["status"][field].as_i64().unwrap_or(0);
    let desired = number("desiredNumberScheduled");
    if set["metadata"]["generation"].as_i64() > Some(number("observedGeneration")) {
        "waiting for the spec to be observed"
    } else if number("updatedNumberScheduled") < desired {
        "waiting for new Pods"
    } else if number("numberAvailable") < desired {
        "waiting for available Pods"
    } else {
        "rolled out"
    }
}

/// Waits until `kubectl rollout status` would end. The Pods are as the set wants them from then on.
async fn rolled_out(c: &Context, nodes: &Nodes, image: &str) -> Outcome {
    c.until_object(DAEMON_SETS, "agent", "the rollout to end", |set| rollout_status(set) == "rolled out").await?;
    let mut wanted = nodes.with(image);
    wanted.sort();
    let shown = images(c).await?;
    c.check(shown == wanted, &format!("the rollout has ended with {shown:?}, not with {wanted:?}")).await?;
    let ready = c.list(PODS).await?.iter().filter(|pod| is_ready(pod)).count();
    c.check(ready == nodes.names.len(), &format!("the rollout has ended with {ready} ready Pods")).await
}

/// What `kubectl describe` shows besides the fields of the set: its Pods by phase, and the Events on it.
async fn described(c: &Context, set: &Value) -> Result<(BTreeMap<String, usize>, Vec<String>), Failure> {
    let mut phases = BTreeMap::new();
    for pod in c.client().list(PODS, c.namespace(), "labelSelector=app%3Dagent").await? {
        if pod["metadata"]["ownerReferences"][0]["uid"] == set["metadata"]["uid"] {
            *phases.entry(text(&pod["status"], "phase").to_owned()).or_default() += 1;
        }
    }
    let uid = set["metadata"]["uid"].as_str().unwrap_or_default();
    let mut events = c.client().list(EVENTS, c.namespace(), "fieldSelector=involvedObject.name%3Dagent").await?;
    events.retain(|event| event["involvedObject"]["uid"] == uid);
    let line = |event: &Value| [text(event, "type"), text(event, "reason"), text(event, "message")].join(" ");
    Ok((phases, events.iter().map(line).collect()))
}

/// What `kubectl rollout`, `get -o wide` and `describe` read and write. DAEMONSET-36, DAEMONSET-38, DAEMONSET-60.
async fn history_status_and_undo_work_as_kubectl_does_them(c: Context) -> Outcome {
    let nodes = Nodes::start(&c, 2).await?;
    let set = agent(&c).set("metadata/annotations", json!({"kubernetes.io/change-cause": "first"}));
    let set = c.create(DAEMON_SETS, set).await?;
    complete(&c, 2).await?;
    let cause = json!({"metadata": {"annotations": {"kubernetes.io/change-cause": "second"}}});
    c.merge(DAEMON_SETS, "agent", cause).await?;
    let replaced = c.pods_of(&set).await?;
    c.merge(DAEMON_SETS, "agent", image("img:2")).await?;
    rolled_out(&c, &nodes, "img:2").await?;
    assert_eq!(c.revisions_of(&set).await?, ["1 img:1 first", "2 img:2 second"]);
    // The undo: the data of the revision before the newest, as a strategic merge patch of the set.
    let all = c.list(CONTROLLER_REVISIONS).await?;
    let Some(first) = all.iter().find(|r| r["revision"] == 1) else { return c.fail("revision 1 is missing").await };
    c.client().patch(DAEMON_SETS, c.namespace(), "agent", "", PatchKind::Strategic, &first["data"]).await?;
    rolled_out(&c, &nodes, "img:1").await?;
    for node in &nodes.names {
        assert_eq!(hash(&pod_on(&c, node).await?), hash(first), "the revision is used again");
    }
    let again = c.get(CONTROLLER_REVISIONS, name(first)).await?;
    assert_eq!((&again["data"], &again["metadata"]["labels"]["app"]), (&first["data"], &json!("agent")));
    assert_eq!(c.revisions_of(&set).await?, ["2 img:2 second", "3 img:1 first"]);
    let row = c.table_row(DAEMON_SETS, "agent").await?;
    for column in ["Desired", "Current", "Ready", "Up-to-date", "Available"] {
        assert_eq!(row[column], json!(2), "{column}");
    }
    assert_eq!((&row["Images"], &row["Selector"]), (&json!("img:1"), &json!("app=agent")));
    let present = c.pods_of(&set).await?;
    let created = present.iter().map(|pod| format!("Normal SuccessfulCreate Created pod: {}", name(pod)));
    let deleted = replaced.iter().map(|pod| format!("Normal SuccessfulDelete Deleted pod: {}", name(pod)));
    let expected: Vec<String> = created.chain(deleted).collect();
    assert_eq!(expected.len(), 4);
    // Events are written after what they report.
    c.until("the Events of what was done", async || {
        let (_, events) = described(&c, &set).await.ok()?;
        expected.iter().all(|event| events.contains(event)).then_some(())
    })
    .await?;
    assert_eq!(described(&c, &set).await?.0, BTreeMap::from([("Running".to_owned(), 2)]));
    Ok(())
}

/// DAEMONSET-37.
async fn revisions_are_stored_byte_for_byte(c: Context) -> Outcome {
    let set = daemon_set("agent").set("spec/template/spec/containers/0/args", json!(["a<b", "x&y", "\u{2028}"]));
    let none = json!({"nonet.io/none": "here"});
    c.create(DAEMON_SETS, set.set("spec/template/spec/nodeSelector", none)).await?;
    complete(&c, 0).await?;
    let revisions = c.list(CONTROLLER_REVISIONS).await?;
    let [revision] = &revisions[..] else { return c.fail("there is not one revision").await };
    // JSON shows any stored form as the canonical one; only this shows the bytes.
    let path = CONTROLLER_REVISIONS.path(c.namespace(), name(revision), "");
    let body = c.read(&path, "application/vnd.kubernetes.protobuf").await?;
    let text = String::from_utf8_lossy(&body);
    let wanted = r#"{"spec":{"template":{"$patch":"replace","metadata":{"labels":{"app":"agent"}},"spec":{"containers":[{"args":["a\u003cb","x\u0026y","\u2028"],"image":"img:1","imagePullPolicy":"IfNotPresent","name":"c","resources":{},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File"}],"dnsPolicy":"ClusterFirst","nodeSelector":{"nonet.io/none":"here"},"restartPolicy":"Always","schedulerName":"default-scheduler","securityContext":{},"terminationGracePeriodSeconds":30}}}}"#;
    assert!(text.contains(wanted), "{text}");
    Ok(())
}

/// DAEMONSET-41.
async fn history_is_as_long_as_the_limit(c: Context) -> Outcome {
    let _nodes = Nodes::start(&c, 1).await?;
    let set = c.create(DAEMON_SETS, agent(&c).set("spec/revisionHistoryLimit", 1)).await?;
    complete(&c, 1).await?;
    for version in 2..5 {
        c.merge(DAEMON_SETS, "agent", image(&format!("img:{version}"))).await?;
        complete(&c, 1).await?;
    }
    c.until("the oldest revisions to go", async || {
        c.revisions_of(&set).await.is_ok_and(|revisions| revisions == ["3 img:3", "4 img:4"]).then_some(())
    })
    .await
}

/// DAEMONSET-18, DAEMONSET-19.
async fn orphans_are_adopted_and_strangers_released(c: Context) -> Outcome {
    let nodes = Nodes::start(&c, 2).await?;
    let [with_stray, other] = &nodes.names[..] else { unreachable!() };
    let stray = pod("stray", "agent").set("spec/nodeName", with_stray.as_str());
    let stray = stray.set("metadata/labels/controller-revision-hash", "old");
    let stray = c.create(PODS, stray).await?;
    let set = agent(&c).set("spec/updateStrategy", json!({"type": "OnDelete"}));
    let set = c.create(DAEMON_SETS, set).await?;
    c.until_object(PODS, "stray", "the stray to be adopted", |pod| {
        pod["metadata"]["ownerReferences"][0]["uid"] == set["metadata"]["uid"]
    })
    .await?;
    until_status(&c, json!({"currentNumberScheduled": 2, "numberAvailable": 2, "updatedNumberScheduled": 1})).await?;
    assert_eq!(pod_on(&c, with_stray).await?["metadata"]["uid"], stray["metadata"]["uid"], "it has the node's place");
    let outdated = pod_on(&c, other).await?;
    let name = name(&outdated);
    c.merge(PODS, name, json!({"metadata": {"labels": {"app": "taken"}}})).await?;
    c.until("the Pod to be released, and another one to take its place", async || {
        let released = c.get(PODS, name).await.ok()?["metadata"].get("ownerReferences").is_none();
        let pods = c.pods_of(&set).await.ok()?;
        (released && pods.iter().filter(|pod| target(pod) == other).count() == 1).then_some(())
    })
    .await?;
    // Deleted with its Pods left behind, and created again: nothing restarts.
    let before: Vec<Value> = c.pods_of(&set).await?.iter().map(|pod| pod["metadata"]["uid"].clone()).collect();
    c.delete(DAEMON_SETS, "agent", "Orphan").await?;
    let orphaned = json!({"metadata": {"ownerReferences": null}});
    for resource in [PODS, CONTROLLER_REVISIONS] {
        for object in c.list(resource.clone()).await? {
            c.merge(resource.clone(), text(&object["metadata"], "name"), orphaned.clone()).await?;
        }
    }
    c.merge(DAEMON_SETS, "agent", json!({"metadata": {"finalizers": null}})).await?;
    c.until_gone(DAEMON_SETS, "agent").await?;
    let again = agent(&c).set("spec/updateStrategy", json!({"type": "OnDelete"}));
    let set = c.create(DAEMON_SETS, again).await?;
    until_status(&c, json!({"currentNumberScheduled": 2, "numberAvailable": 2, "updatedNumberScheduled": 1})).await?;
    let after: Vec<Value> = c.pods_of(&set).await?.iter().map(|pod| pod["metadata"]["uid"].clone()).collect();
    assert_eq!((after, c.list(CONTROLLER_REVISIONS).await?.len()), (before, 1));
    Ok(())
}

/// DAEMONSET-19, DAEMONSET-81.
async fn labels_taken_away_release_and_given_back_adopt(c: Context) -> Outcome {
    let nodes = Nodes::start(&c, 1).await?;
    let node = &nodes.names[0];
    let set = c.create(DAEMON_SETS, agent(&c).set("spec/updateStrategy", json!({"type": "OnDelete"}))).await?;
    complete(&c, 1).await?;
    let first = pod_on(&c, node).await?;
    let name = name(&first);
    let merge = async |metadata: Value| c.merge(PODS, name, json!({ "metadata": metadata })).await;
    let until_owned = async |what: &str, owned: bool| {
        c.until_object(PODS, name, what, |pod| pod["metadata"]["ownerReferences"][0]["kind"].is_string() == owned)
            .await
            .map(drop)
    };
    merge(json!({"ownerReferences": null})).await?;
    until_owned("the orphan to be adopted", true).await?;
    merge(json!({"labels": {HASH: null}})).await?;
    c.until_object(PODS, name, "the Pod to have the label with its hash again", |pod| hash(pod) == "").await?;
    // Of two Pods on a node the older one stays. Creation times are whole seconds.
    c.sleep(Duration::from_millis(1100)).await;
    merge(json!({"labels": null})).await?;
    until_owned("the Pod to be released", false).await?;
    let until_one = async |what: &str, is_first: bool| {
        c.until(what, async || {
            let pods = c.pods_of(&set).await.ok()?;
            (pods.len() == 1 && (pods[0]["metadata"]["name"] == name) == is_first).then_some(())
        })
        .await
    };
    until_one("another Pod to take its place", false).await?;
    merge(json!({"labels": {"app": "agent"}})).await?;
    until_owned("the Pod to be adopted without the label of its revision", true).await?;
    let labels = c.get(PODS, name).await?["metadata"]["labels"].clone();
    assert_eq!(labels, json!({"app": "agent", HASH: ""}), "the label is added so that the watch shows the Pod");
    until_one("the younger Pod to go", true).await?;
    until_status(&c, json!({"currentNumberScheduled": 1, "updatedNumberScheduled": 0})).await?;
    // The watch shows it again.
    c.delete(PODS, name, "Background").await?;
    complete(&c, 1).await?;
    Ok(())
}

/// DAEMONSET-10, DAEMONSET-48.
async fn a_pod_is_available_after_min_ready_seconds(c: Context) -> Outcome {
    let _nodes = Nodes::start(&c, 1).await?;
    c.create(DAEMON_SETS, agent(&c).set("spec/minReadySeconds", 3)).await?;
    until_status(&c, json!({"numberReady": 1, "numberAvailable": 0, "numberUnavailable": 1})).await?;
    complete(&c, 1).await?;
    Ok(())
}

/// DAEMONSET-6.
async fn nothing_is_made_while_the_set_is_deleted(c: Context) -> Outcome {
    let nodes = Nodes::start(&c, 2).await?;
    c.create(DAEMON_SETS, agent(&c)).await?;
    complete(&c, 2).await?;
    c.merge(DAEMON_SETS, "agent", json!({"metadata": {"finalizers": ["example.com/wait"]}})).await?;
    c.delete(DAEMON_SETS, "agent", "Background").await?;
    let victim = pod_on(&c, &nodes.names[0]).await?;
    c.delete(PODS, name(&victim), "Background").await?;
    until_images(&c, "the Pod to go", &[format!("{} img:1", nodes.names[1])]).await?;
    let alone = async || images(&c).await.is_ok_and(|images| images.len() == 1);
    c.stays("as it is", Duration::from_secs(2), alone).await
}

async fn a_settled_set_is_left_alone(c: Context) -> Outcome {
    let nodes = Nodes::start(&c, 2).await?;
    c.create(DAEMON_SETS, agent(&c)).await?;
    complete(&c, 2).await?;
    // What changes about a node besides its labels and taints concerns no DaemonSet.
    let change = async || {
        for n in 0..5 {
            merge_node(&c, &nodes.names[0], json!({"metadata": {"annotations": {"seen": n.to_string()}}})).await?;
        }
        Ok(())
    };
    c.left_alone(&[DAEMON_SETS, PODS, CONTROLLER_REVISIONS], change).await
}
