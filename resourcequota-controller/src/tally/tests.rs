use common::informer::Sink as _;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{
    objects::Pod,
    world::{GATES, entry, sums_of},
};

struct World {
    tally: Arc<Tally>,
    sink: TallySink<Pod>,
    events: Arc<Mutex<Vec<TallyEvent>>>,
}

impl World {
    fn new() -> Self {
        let events = Arc::<Mutex<Vec<TallyEvent>>>::default();
        let seen = Arc::clone(&events);
        let tally = Arc::new(Tally::new(GATES, move |_, event| seen.lock().push(event)));
        tally.add_namespace(&"shop".into());
        Self { sink: TallySink::new(Arc::clone(&tally), None), tally, events }
    }

    fn list(sink: &TallySink<Pod>, pods: &[Value], version: &str) {
        let mut set = sink.begin_set();
        for pod in pods {
            sink.add_to_set(&mut set, entry(pod), ChangeOrigin::Initial);
        }
        sink.complete_set(set, ResourceVersion::parse(version), ChangeOrigin::Initial);
    }

    fn delete(&self, name: &str, version: u64) {
        let meta = json!({"name": name, "namespace": "shop", "resourceVersion": version.to_string()}).to_string();
        self.sink.remove_deleted(&serde_json::from_str::<Meta>(&meta).unwrap());
    }

    fn sums(&self) -> UsageSums {
        self.tally.read(&"shop".into(), |tally| tally.sums.clone()).unwrap()
    }

    /// Returns whether the namespace is listed, and its unreadable object.
    fn state(&self) -> (bool, Option<String>) {
        self.tally.read(&"shop".into(), |tally| (tally.is_listed(), tally.unreadable())).unwrap()
    }

    fn events(&self) -> Vec<TallyEvent> {
        std::mem::take(&mut self.events.lock())
    }
}

fn pod(name: &str, version: u64, cpu: u32) -> Value {
    json!({"metadata": {"name": name, "uid": name, "resourceVersion": version.to_string()},
        "spec": {"containers": [{"name": "a", "resources": {"requests": {"cpu": cpu.to_string()}}}]}})
}

#[test]
fn only_a_release_and_the_first_list_are_events() {
    // RESOURCEQUOTA-13, RESOURCEQUOTA-14, RESOURCEQUOTA-87
    let world = World::new();
    assert_eq!(world.state(), (false, None));
    World::list(&world.sink, &[pod("a", 1, 2)], "1");
    assert_eq!((world.state(), world.events()), ((true, None), vec![TallyEvent::Listed]));
    world.sink.put_object(entry(&pod("b", 2, 2)));
    world.sink.put_object(entry(&pod("b", 3, 3)));
    assert_eq!(world.events(), [], "an addition or an increase was charged by admission");
    world.sink.put_object(entry(&pod("b", 4, 1)));
    assert_eq!(world.events(), [TallyEvent::Released]);
    let mut again = pod("b", 6, 1);
    again["metadata"]["uid"] = json!("other");
    world.sink.put_object(entry(&again));
    assert_eq!(world.events(), [TallyEvent::Released], "another object was charged");
    world.sink.put_object(entry(&pod("b", 5, 0)));
    assert_eq!(world.events(), [], "an older state is ignored");
    world.delete("b", 7);
    assert_eq!(world.events(), [TallyEvent::Released]);
    World::list(&world.sink, &[pod("a", 1, 2)], "8");
    assert_eq!(world.events(), [], "the list shows the same objects");
    let mut short = pod("a", 9, 2);
    short["spec"]["activeDeadlineSeconds"] = json!(5);
    world.sink.put_object(entry(&short));
    assert_eq!(world.events(), [TallyEvent::Released], "it left a scope");
    World::list(&world.sink, &[], "10");
    assert_eq!((world.events(), world.sums()), (vec![TallyEvent::Released], UsageSums::default()));
}

#[test]
fn a_namespace_without_a_quota_is_not_kept() {
    let world = World::new();
    let mut other = pod("a", 1, 2);
    other["metadata"]["namespace"] = json!("other");
    World::list(&world.sink, &[other.clone()], "1");
    world.sink.put_object(entry(&other));
    assert_eq!(world.sink.len(), 0);
    world.sink.put_object(entry(&pod("a", 2, 2)));
    world.tally.remove_namespace(&"shop".into());
    assert_eq!(world.sink.len(), 0);
}

#[test]
fn the_list_of_a_new_namespace_brings_back_no_older_state() {
    let world = World::new();
    let namespace_sink = TallySink::new(Arc::clone(&world.tally), Some("shop".into()));
    world.sink.put_object(entry(&pod("new", 7, 1)));
    world.sink.put_object(entry(&pod("changed", 6, 5)));
    world.delete("deleted", 8);
    World::list(&namespace_sink, &[pod("changed", 2, 1), pod("deleted", 3, 1), pod("old", 4, 2)], "5");
    assert_eq!(world.sums(), sums_of::<Pod>(&[pod("new", 7, 1), pod("changed", 6, 5), pod("old", 4, 2)]));
    assert_eq!(world.events(), [TallyEvent::Listed]);
    World::list(&namespace_sink, &[pod("old", 4, 2)], "5");
    assert_eq!((world.sink.len(), world.events()), (3, vec![]), "a first list that ends second is ignored");
}

#[test]
fn only_a_new_namespace_with_objects_is_read_by_an_informer_of_its_own() {
    // RESOURCEQUOTA-80
    let world = World::new();
    let in_namespace = |namespace: &str, version| {
        let mut pod = pod("a", version, 2);
        pod["metadata"]["namespace"] = json!(namespace);
        pod
    };
    assert!(!world.tally.add_namespace(&"early".into()), "the first list is still to come");
    World::list(&world.sink, &[in_namespace("early", 1), in_namespace("old", 2)], "5");
    assert_eq!(world.events(), [TallyEvent::Listed; 2]);
    world.sink.put_object(entry(&in_namespace("grown", 6)));
    let added = ["empty", "old", "grown", "early"].map(|namespace| world.tally.add_namespace(&namespace.into()));
    assert_eq!(added, [false, true, true, false]);
    let is_listed = |namespace: &str| world.tally.read(&namespace.into(), NamespaceTally::is_listed).unwrap();
    assert_eq!(["empty", "old", "grown"].map(is_listed), [true, false, false]);
    world.tally.remove_namespace(&"early".into());
    assert!(world.tally.add_namespace(&"early".into()), "its objects were forgotten");
}

#[test]
fn a_namespace_that_is_added_during_a_list_is_read_again_if_it_has_objects() {
    let world = World::new();
    let mut set = world.sink.begin_set();
    world.tally.add_namespace(&"empty".into());
    world.tally.add_namespace(&"full".into());
    let namespace_sink = TallySink::new(Arc::clone(&world.tally), Some("full".into()));
    let mut full = pod("a", 1, 2);
    full["metadata"]["namespace"] = json!("full");
    World::list(&namespace_sink, &[full.clone()], "3");
    world.events();
    world.sink.add_to_set(&mut set, entry(&full), ChangeOrigin::Initial);
    world.sink.complete_set(set, ResourceVersion::parse("4"), ChangeOrigin::Initial);
    let mut events = world.events();
    events.sort();
    assert_eq!(events, [TallyEvent::Listed, TallyEvent::Listed, TallyEvent::Unlisted]);
    assert_eq!(world.sink.len(), 0, "its changes between both versions are unknown");
}

#[test]
fn an_unreadable_object_stops_the_count_of_its_namespace_until_it_can_be_read() {
    let world = World::new();
    World::list(&world.sink, &[pod("a", 1, 2)], "1");
    let meta = serde_json::from_value(json!({"name": "a", "namespace": "shop", "resourceVersion": "2"})).unwrap();
    let malformed = common::object::MalformedObject { meta, error: "no number".to_owned() };
    world.sink.put_object(CacheEntry::Unreadable(Arc::new(malformed)));
    assert_eq!(world.state(), (true, Some("a cannot be read: no number".to_owned())));
    world.events();
    world.sink.put_object(entry(&pod("a", 3, 2)));
    assert_eq!((world.state(), world.events()), ((true, None), vec![TallyEvent::Released]));
}

#[test]
fn objects_with_equal_usage_share_it() {
    let world = World::new();
    World::list(&world.sink, &[], "0");
    for number in 0..1000 {
        world.sink.put_object(entry(&pod(&format!("p{number}"), number + 1, 2)));
    }
    assert_eq!(world.tally.state.lock().shared_usages.len(), 1);
}

/// A change of the objects.
#[derive(Clone, Debug)]
enum Change {
    Put(u8, u32, Option<&'static str>),
    Delete(u8),
    Relist,
}

fn change() -> impl Strategy<Value = Change> {
    let class = prop_oneof![Just(None), Just(Some("gold")), Just(Some("iron"))];
    prop_oneof![
        6 => (0..6u8, 0..4u32, class).prop_map(|(name, cpu, class)| Change::Put(name, cpu, class)),
        3 => (0..6u8).prop_map(Change::Delete),
        1 => Just(Change::Relist),
    ]
}

proptest! {
    #[test]
    fn the_sums_equal_those_of_a_full_count(changes in proptest::collection::vec(change(), 0..60)) {
        let world = World::new();
        World::list(&world.sink, &[], "1");
        let mut objects = std::collections::BTreeMap::<u8, Value>::new();
        for (number, change) in changes.into_iter().enumerate() {
            let version = number as u64 + 2;
            match change {
                Change::Put(name, cpu, class) => {
                    let mut pod = pod(&name.to_string(), version, cpu);
                    pod["spec"]["priorityClassName"] = json!(class);
                    pod["status"] = json!({"phase": if cpu == 0 { "Failed" } else { "Running" }});
                    world.sink.put_object(entry(&pod));
                    objects.insert(name, pod);
                }
                Change::Delete(name) => {
                    world.delete(&name.to_string(), version);
                    objects.remove(&name);
                }
                // A list after a lost watch, in which an object is missing.
                Change::Relist => {
                    objects.pop_first();
                    let listed: Vec<_> = objects.values().cloned().collect();
                    World::list(&world.sink, &listed, &version.to_string());
                }
            }
            let all: Vec<_> = objects.values().cloned().collect();
            prop_assert_eq!(world.sums(), sums_of::<Pod>(&all));
        }
    }
}
