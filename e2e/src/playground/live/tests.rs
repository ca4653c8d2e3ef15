use std::collections::{BTreeMap, VecDeque};

use common::meta::Key;
use jiff::Timestamp;
use ratatui::{Terminal, backend::TestBackend};

use super::*;
use crate::{
    playground::{
        board::Note,
        world::{Bounds, Census},
    },
    process::Usage,
};

fn board() -> Board {
    let now = Timestamp::from_second(1_700_000_075).unwrap();
    let new = Census { running: 1, available: 2, ..Census::default() };
    let old = Census { available: 3, terminating: 1, ..Census::default() };
    let part = |name: &str, revision, size, pods| Part {
        name: name.to_owned(),
        revision,
        image: format!("web:1.{revision}"),
        size,
        pods,
    };
    let rollout = Rollout {
        key: Key::new("shop", "web"),
        revision: "2".to_owned(),
        image: "web:1.2".to_owned(),
        wanted: 6,
        bounds: Some(Bounds { most: 8, least: 5 }),
        phase: Phase::Progressing,
        new,
        old,
        parts: vec![part("web-new", 2, 4, new), part("web-old", 1, 3, old)],
    };
    let report = |name: &str, state| Report {
        name: name.to_owned(),
        pid: 4711,
        state,
        diagnostics: None,
        leads: true,
        depth: 3,
        requests: 42,
        usage: Usage::default(),
        failing: Vec::new(),
        waiting: vec![("shop/web".to_owned(), vec!["1 Pod is not ready".to_owned()])],
        deeds: Vec::new(),
    };
    let note = Note { at: now, who: "limits".to_owned(), text: "too many".to_owned(), mood: Mood::Bad };
    Board {
        started: Timestamp::from_second(1_700_000_000).unwrap(),
        now,
        url: "https://127.0.0.1:6443".to_owned(),
        export: "export KUBECONFIG=/here".to_owned(),
        nodes: 6,
        status: "on its way".to_owned(),
        rollouts: vec![rollout],
        reports: BTreeMap::from([
            ("deployment-controller".to_owned(), report("deployment-controller", State::Running)),
            ("gone-controller".to_owned(), report("gone-controller", State::Ended("it ended with 1".to_owned()))),
        ]),
        history: VecDeque::from([note]),
        judged: 17,
        broken: 1,
    }
}

fn screen(width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, &board())).unwrap();
    let buffer = terminal.backend().buffer().clone();
    let row = |y: u16| (0..width).map(|x| buffer[(x, y)].symbol().to_owned()).collect::<String>();
    (0..height).map(row).collect()
}

#[test]
fn everything_is_on_the_screen() {
    let all = screen(140, 40).join("\n");
    for expected in [
        "https://127.0.0.1:6443 · 6 nodes · 1:15",
        "export KUBECONFIG=/here",
        "limits broken 1 times in 17 writes",
        "shop/web                 rolling",
        "new 3/6  old 3  ready 5  available 5  (5 to 8 Pods)",
        "web-new                      revision 2   web:1.2                    size 4    ○●●",
        "web-old                      revision 1   web:1.1                    size 3    ●●●×",
        "leads  queue 3  requests 42",
        "shop/web waits: 1 Pod is not ready",
        "gone-controller          it ended with 1",
        "75.00s limits                 too many",
    ] {
        assert!(all.contains(expected), "{expected:?} is missing:\n{all}");
    }
}

#[test]
fn a_small_terminal_is_no_problem() {
    for (width, height) in [(80, 24), (20, 8), (5, 3), (1, 1)] {
        assert_eq!(screen(width, height).len(), usize::from(height));
    }
}

#[test]
fn keys_mean_what_they_say() {
    let press = |code, modifiers| wish(KeyEvent::new(code, modifiers));
    assert_eq!(press(KeyCode::Char('c'), KeyModifiers::CONTROL), Some(Wish::Quit));
    assert_eq!(press(KeyCode::Char('c'), KeyModifiers::NONE), None);
    assert_eq!(press(KeyCode::Char('q'), KeyModifiers::NONE), Some(Wish::Quit));
    assert_eq!(press(KeyCode::Char('u'), KeyModifiers::NONE), Some(Wish::Update));
}
