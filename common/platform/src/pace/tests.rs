//! Simulates a process in virtual time: events wait while the thread sleeps, and are handled on arrival otherwise.

use proptest::prelude::*;

use super::*;

const PERIOD: Duration = Duration::from_millis(20);

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// An event that arrives at the process.
#[derive(Clone, Copy, Debug, PartialEq)]
enum What {
    /// A watch event that causes no work.
    Foreign,
    /// A watch event that starts a sync. The request of the sync takes this long.
    Own(Duration),
    /// A watch event that adds a key with this delay.
    Later(Duration),
    /// The answer to the request of a sync.
    Answer,
    /// The delay of a key has passed.
    Due,
}

/// A handled arrival: its time, how long it waited, and whether a sync was under way when it arrived.
#[derive(Clone, Copy, Debug)]
struct Handled {
    what: What,
    at: Duration,
    waited: Duration,
    while_working: bool,
}

#[derive(Default)]
struct Run {
    handled: Vec<Handled>,
    wakes: usize,
}

#[expect(clippy::disallowed_methods, reason = "any instant will do: time is virtual")]
fn run(pace: &Pace, arrivals: &[(Duration, What)]) -> Run {
    let origin = Instant::now();
    let timer = pace.add_queue_timer();
    let mut coming: Vec<(Duration, What)> = arrivals.to_vec();
    let mut works: Vec<WorkGuard> = Vec::new();
    // Each element is the start and the end of a sync.
    let mut working: Vec<(Duration, Duration)> = Vec::new();
    let (mut now, mut run) = (Duration::ZERO, Run::default());
    while !coming.is_empty() {
        coming.sort_by_key(|(at, _)| *at);
        now = now.max(coming[0].0);
        run.wakes += 1;
        let arrived = coming.iter().take_while(|(at, _)| *at <= now).count();
        for (at, what) in coming.drain(..arrived).collect::<Vec<_>>() {
            let while_working = working.iter().any(|(from, to)| (*from..*to).contains(&at));
            run.handled.push(Handled { what, at, waited: now.saturating_sub(at), while_working });
            match what {
                What::Foreign => pace.record_watch_data(),
                What::Own(takes) => {
                    pace.record_watch_data();
                    works.push(pace.begin_work());
                    working.push((now, now + takes));
                    coming.push((now + takes, What::Answer));
                }
                What::Later(after) => {
                    pace.record_watch_data();
                    coming.push((now + after, What::Due));
                }
                What::Answer => drop(works.pop()),
                What::Due => drop(pace.begin_work()),
            }
        }
        // An idle worker sets the time at which the delay of the next key ends.
        if let Some((at, _)) = coming.iter().filter(|(_, what)| *what == What::Due).min_by_key(|(at, _)| *at) {
            timer.set(origin + *at);
        }
        now += pace.next_sleep_duration(origin + now);
    }
    run
}

/// COMMON-14.
#[test]
fn foreign_events_accumulate() {
    let stream: Vec<_> = (0..1000).map(|at| (ms(at), What::Foreign)).collect();
    assert_eq!(run(&Pace::new(Duration::ZERO), &stream).wakes, 1000);
    assert_eq!(run(&Pace::default(), &stream).wakes, 1000);
    assert_eq!(run(&Pace::new(PERIOD), &stream).wakes, 51);
}

/// COMMON-14.
#[test]
fn the_first_event_after_a_quiet_time_does_not_wait() {
    let events = [(ms(0), What::Foreign), (ms(25), What::Own(ms(3))), (ms(100), What::Own(ms(3)))];
    for handled in run(&Pace::new(PERIOD), &events).handled {
        assert_eq!(handled.waited, Duration::ZERO, "{handled:?}");
    }
}

#[test]
fn an_own_event_among_foreign_events_waits_for_at_most_a_period_and_the_next_one_does_not_wait() {
    let mut events: Vec<_> = (0..100).map(|at| (ms(at), What::Foreign)).collect();
    events.extend([(ms(30), What::Own(ms(50))), (ms(70), What::Own(ms(1)))]);
    let handled = run(&Pace::new(PERIOD), &events).handled;
    let own: Vec<_> = handled.iter().filter(|handled| matches!(handled.what, What::Own(_))).collect();
    assert_eq!((own[0].waited, own[1].waited), (ms(10), Duration::ZERO));
}

#[test]
#[expect(clippy::disallowed_methods, reason = "any instant will do: time is virtual")]
fn a_thread_sleeps_shortly_between_the_answers_of_many_requests() {
    let (pace, now) = (Pace::new(PERIOD), Instant::now());
    let timer = pace.add_queue_timer();
    let _sync = pace.begin_work();
    let mut requests: Vec<_> = (0..MANY_REQUESTS).map(|_| pace.begin_request()).collect();
    assert_eq!(pace.next_sleep_duration(now), ANSWER_PERIOD);
    timer.set(now + ms(1));
    assert_eq!(pace.next_sleep_duration(now), ms(1), "a key is due before");
    assert_eq!(pace.next_sleep_duration(now + ms(1)), Duration::ZERO, "the key is due");
    requests.pop();
    assert_eq!(pace.next_sleep_duration(now + ms(2)), Duration::ZERO, "an answer may start the next request");
    assert_eq!(Pace::new(Duration::ZERO).next_sleep_duration(now), Duration::ZERO);
}

proptest! {
    /// COMMON-14.
    #[test]
    fn no_arrival_waits_longer_than_allowed(
        events in prop::collection::vec(
            (0u64..400, prop_oneof![
                8 => Just(What::Foreign),
                1 => (0u64..40).prop_map(|takes| What::Own(ms(takes))),
                1 => (1u64..60).prop_map(|after| What::Later(ms(after))),
            ]),
            1..120,
        ),
    ) {
        let events: Vec<_> = events.into_iter().map(|(at, what)| (ms(at), what)).collect();
        for handled in run(&Pace::new(PERIOD), &events).handled {
            let Handled { what, at, waited, while_working } = handled;
            prop_assert!(waited <= PERIOD, "{handled:?}");
            prop_assert!(!while_working || waited.is_zero(), "{handled:?}");
            prop_assert!(!matches!(what, What::Answer | What::Due) || waited.is_zero(), "{handled:?}");
            let is_first = !events.iter().any(|(other, _)| *other != at && *other + PERIOD + PERIOD >= at && *other <= at);
            prop_assert!(!is_first || waited.is_zero(), "{handled:?} is the first for a while");
        }
    }
}
