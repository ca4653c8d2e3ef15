//! Tests with refused patches, missing rights, and a loop that is switched off.

use crate::world::*;

/// VOLUME-11.
#[tokio::test(start_paused = true)]
async fn a_refused_patch_is_retried_until_it_succeeds() {
    for (action, retries) in [
        (Action::Conflict, 1..=2),
        (Action::Forbidden, 1..=2),
        (Action::InternalError, 1..=2),
        (Action::CutBefore, 1..=2),
        (Action::CutAfter, 0..=2),
    ] {
        for (resource, object) in [(CLAIMS, claim("o")), (VOLUMES, volume("o")), (CLASSES, class("o"))] {
            let world = cluster().start().await;
            world.create(object).await;
            let plural = resource.split('.').next().unwrap();
            world.fault(rule(action.clone(), "patch", plural).times(1));
            world.delete(resource, "o").await;
            world.wait(70).await;
            assert!(!exists(&world, resource, "o").await, "{action:?} {resource}");
            let (least, most) = (1 + retries.start(), 1 + retries.end());
            world.assert_count("patch", resource, least..=most);
        }
    }
}

/// VOLUME-10, VOLUME-11.
#[tokio::test(start_paused = true)]
async fn an_object_that_was_replaced_is_not_touched() {
    for resource in [CLAIMS, VOLUMES, CLASSES] {
        let world = cluster().start().await;
        let object = || match resource {
            CLAIMS => claim("o"),
            VOLUMES => volume("o"),
            _ => class("o"),
        };
        world.create(object()).await;
        world.settle().await;
        world.clear_log();
        let plural = resource.split('.').next().unwrap();
        world.delay(plural, 30);
        world.delete(resource, "o").await;
        set_finalizers(&world, resource, "o", &[]).await;
        world.create(object()).await;
        world.wait(120).await;
        assert_eq!(finalizers_of(&world, resource, "o").await.len(), 1, "{resource}");
        world.assert_wrote_nothing();
    }
}

/// VOLUME-27.
#[tokio::test(start_paused = true)]
async fn a_claim_without_a_namespace_is_retried_after_a_backoff() {
    let (is_gone, attempts) = (Arc::new(std::sync::atomic::AtomicBool::new(true)), Arc::default());
    let (gone, counted): (_, Arc<std::sync::atomic::AtomicU64>) = (Arc::clone(&is_gone), Arc::clone(&attempts));
    let filter: RequestFilter = Arc::new(move |request: &LoopRequest| {
        let is_refused = request.method() == Method::PATCH && gone.load(Ordering::Relaxed);
        is_refused.then(|| {
            counted.fetch_add(1, Ordering::Relaxed);
            answer(
                404,
                &json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404,
                "message": "namespaces \"shop\" not found", "details": {"name": "shop", "kind": "namespaces"}}),
            )
        })
    });
    let world = cluster().filter(filter).start().await;
    world.create(claim("data")).await;
    world.delete(CLAIMS, "data").await;
    world.wait(60).await;
    let tried = attempts.load(Ordering::Relaxed);
    assert!((10..=16).contains(&tried), "{tried}");
    assert!(world.explain()["lastError"]["error"].as_str().unwrap().contains("namespaces \"shop\" not found"));
    is_gone.store(false, Ordering::Relaxed);
    world.wait(120).await;
    assert!(!exists(&world, CLAIMS, "data").await);
}

/// VOLUME-51.
#[tokio::test(start_paused = true)]
async fn missing_rights_keep_every_finalizer() {
    let rule = |resources: &[&str], verbs: &[&str]| json!({"apiGroups": ["*"], "resources": resources, "verbs": verbs});
    let all = ["pods", CLAIMS, VOLUMES, "volumeattributesclasses"];
    let mut rules = vec![rule(&all, &["list", "watch"]), rule(&["events"], &["create", "patch"])];
    let world = cluster().rights(json!(rules)).start().await;
    for (resource, object) in [(CLAIMS, claim("o")), (VOLUMES, volume("o")), (CLASSES, class("o"))] {
        world.create(object).await;
        world.delete(resource, "o").await;
    }
    world.create(without_node(pod("p", json!([ephemeral("a")])))).await;
    world.wait(60).await;
    for resource in [CLAIMS, VOLUMES, CLASSES] {
        assert!(exists(&world, resource, "o").await, "{resource}");
    }
    world.assert_event("Warning FailedBinding ephemeral volume a: create PVC p-a: ").await;
    rules.extend([rule(&all[1..], &["patch"]), rule(&[CLAIMS], &["create"])]);
    world.sandbox.grant(CONTROLLER, json!(rules)).await.unwrap();
    world.wait(100).await;
    for resource in [CLAIMS, VOLUMES, CLASSES] {
        assert!(!exists(&world, resource, "o").await, "{resource}");
    }
    let event = "Warning FailedBinding ephemeral volume a: create PVC p-a: persistentvolumeclaims \"p-a\" is forbidden: cannot set blockOwnerDeletion";
    world.assert_event(event).await;
    rules.push(rule(&["pods/finalizers"], &["update"]));
    world.sandbox.grant(CONTROLLER, json!(rules)).await.unwrap();
    world.wait(200).await;
    assert!(exists(&world, CLAIMS, "p-a").await);
}

/// VOLUME-1, VOLUME-63.
#[tokio::test(start_paused = true)]
async fn a_process_watches_only_what_its_loops_read() {
    use volume_controller::LOOPS;
    for (loops, watched) in [
        (&LOOPS[..1], vec!["pods", CLAIMS]),
        (&LOOPS[1..2], vec![VOLUMES]),
        (&LOOPS[2..3], vec![CLAIMS, VOLUMES, CLASSES]),
        (&LOOPS[3..], vec!["pods", CLAIMS]),
        (LOOPS, vec!["pods", CLAIMS, VOLUMES, CLASSES]),
    ] {
        let mut world = cluster().loops(loops).stopped().await;
        world.clear_log();
        world.start();
        world.settle().await;
        for resource in ["pods", CLAIMS, VOLUMES, CLASSES] {
            assert_eq!(world.count("watch", resource) > 0, watched.contains(&resource), "{resource}: {watched:?}");
            assert!(world.count("watch", resource) <= 1, "{resource} is watched once");
        }
    }
}

/// VOLUME-46, VOLUME-47, VOLUME-48, VOLUME-49.
#[tokio::test(start_paused = true)]
async fn queues_have_upstreams_names() {
    let world = cluster().start().await;
    world.wait(1).await;
    let metrics = world.metrics();
    for queue in ["pvcprotection", "pvprotection", "vacprotection", "ephemeral_volume"] {
        assert!(metrics.contains(&format!("workqueue_depth{{name=\"{queue}\"}}")), "{queue}");
    }
    let workers = &volume_controller::ephemeral::CONCURRENT_EPHEMERAL_VOLUME_SYNCS;
    assert_eq!(OperatorSettings::new().worker_count(workers), 5);
    let names: Vec<_> = volume_controller::LOOPS.iter().map(|one| (one.alias, one.user_agent_suffix)).collect();
    let expected = [
        ("pvc-protection", "pvc-protection-controller"),
        ("pv-protection", "pv-protection-controller"),
        ("", "volumeattributesclass-protection-controller"),
        ("ephemeral-volume", "ephemeral-volume-controller"),
    ];
    assert_eq!(names, expected);
}
