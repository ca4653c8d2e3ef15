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
        Self { sink: TallySink::of_cluster(Arc::clone(&tally)), tally, events }
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

    fn state(&self) -> TallyState {
        self.tally.read(&"shop".into(), NamespaceTally::state).unwrap()
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
    assert_eq!(world.state(), TallyState::Unlisted);
    World::list(&world.sink, &[pod("a", 1, 2)], "1");
    assert_eq!((world.state(), world.events()), (TallyState::Counted, vec![TallyEvent::Listed]));
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
    World::list(&world.sink, &[], "9");
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
    let namespace_sink = TallySink::of_namespace(Arc::clone(&world.tally), "shop".into());
    world.sink.put_object(entry(&pod("new", 7, 1)));
    world.sink.put_object(entry(&pod("changed", 6, 5)));
    world.delete("deleted", 8);
    World::list(&namespace_sink, &[pod("changed", 2, 1), pod("deleted", 3, 1), pod("old", 4, 2)], "5");
    assert_eq!(world.sums(), sums_of::<Pod>(&[pod("new", 7, 1), pod("changed", 6, 5), pod("old", 4, 2)]));
    assert_eq!(world.events(), [TallyEvent::Listed]);
}

#[test]
fn an_unreadable_object_stops_the_count_of_its_namespace_until_it_can_be_read() {
    let world = World::new();
    World::list(&world.sink, &[pod("a", 1, 2)], "1");
    let meta = serde_json::from_value(json!({"name": "a", "namespace": "shop", "resourceVersion": "2"})).unwrap();
    let malformed = common::object::MalformedObject { meta, error: "no number".to_owned() };
    world.sink.put_object(CacheEntry::Unreadable(Arc::new(malformed)));
    assert_eq!(world.state(), TallyState::Unreadable("a cannot be read: no number".to_owned()));
    world.events();
    world.sink.put_object(entry(&pod("a", 3, 2)));
    assert_eq!((world.state(), world.events()), (TallyState::Counted, vec![TallyEvent::Released]));
}

#[test]
fn objects_with_equal_usage_share_it() {
    let world = World::new();
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
