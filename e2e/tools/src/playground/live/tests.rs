use std::collections::{BTreeMap, VecDeque};

use common::meta::NamespacedName;
use jiff::Timestamp;
use ratatui::{Terminal, backend::TestBackend};

use super::*;
use crate::playground::board::Note;

fn board() -> Board {
    let now = Timestamp::from_second(1_700_000_075).unwrap();
    let (new, old) = (Census([0, 1, 0, 2, 0, 0]), Census([0, 0, 0, 3, 1, 0]));
    let part = |name: &str, revision, size, pods| Part {
        name: name.to_owned(),
        revision,
        image: format!("web:1.{revision}"),
        size,
        pods,
    };
    let all = [new, old].into_iter().sum();
    let mut rollout = row("Deployment", "web", Progress::Underway, "rolling", "new 3/6  ready 5  available 5", all);
    rollout.parts = vec![part("web-new", 2, 4, new), part("web-old", 1, 3, old)];
    let report = |name: &str, state| Report {
        name: name.to_owned(),
        pid: 4711,
        state,
        leads: true,
        depth: 3,
        requests: 42,
        waiting: vec![("shop/web".to_owned(), vec!["1 Pod is not ready".to_owned()])],
        ..Report::default()
    };
    let note = Note { at: now, who: "limits".to_owned(), text: "too many".to_owned(), mood: Mood::Bad };
    Board {
        started: Timestamp::from_second(1_700_000_000).unwrap(),
        now,
        url: "https://127.0.0.1:6443".to_owned(),
        export: "export KUBECONFIG=/here".to_owned(),
        nodes: 6,
        node_line: None,
        has_example: true,
        status: "on its way".to_owned(),
        rows: vec![
            rollout,
            row("StatefulSet", "db", Progress::Underway, "rolling", "new 2/3  ready 2", new),
            row("DaemonSet", "logs", Progress::Done, "complete", "new 6/6 nodes  available 6", Census::default()),
            row("Service", "web", Progress::Done, "current", "endpoints 5/5", Census::default()),
        ],
        reports: BTreeMap::from([
            ("deployment-controller".to_owned(), report("deployment-controller", State::Running)),
            ("gone-controller".to_owned(), report("gone-controller", State::Ended("it ended with 1".to_owned()))),
        ]),
        history: VecDeque::from([note]),
        judged: 17,
        broken: 1,
    }
}

fn row(kind: &'static str, name: &str, progress: Progress, word: &'static str, text: &str, pods: Census) -> Row {
    let (key, text) = (NamespacedName::new("shop", name), text.to_owned());
    Row { kind, key, generation: 1, progress, word, text, pods, parts: Vec::new() }
}

fn screen(width: u16, height: u16) -> Vec<String> {
    screen_of(&board(), width, height)
}

fn screen_of(board: &Board, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, board)).unwrap();
    let buffer = terminal.backend().buffer().clone();
    let row = |y: u16| (0..width).map(|x| buffer[(x, y)].symbol().to_owned()).collect::<String>();
    (0..height).map(row).collect()
}

fn assert_shows(screen: &[String], expected: &[&str]) {
    let all = screen.join("\n");
    for part in expected {
        assert!(all.contains(part), "{part:?} is missing:\n{all}");
    }
}

#[test]
fn everything_is_on_the_screen() {
    let expected = [
        "https://127.0.0.1:6443 · 6 nodes · 1:15",
        "export KUBECONFIG=/here",
        "limits broken 1 times in 17 writes",
        "Deployment shop/web rolling   ○●●●●●× new 3/6  ready 5  available 5",
        "web-new                      revision 2   web:1.2                    size 4    ○●●",
        "web-old                      revision 1   web:1.1                    size 3    ●●●×",
        "StatefulSet shop/db rolling   ○●● new 2/3  ready 2",
        "DaemonSet shop/logs complete  new 6/6 nodes  available 6",
        "Service shop/web    current   endpoints 5/5",
        "leads  pid 4711  queue 3  requests 42",
        "shop/web waits: 1 Pod is not ready",
        "gone-controller           it ended with 1",
        "75.00s limits                    too many",
    ];
    assert_shows(&screen(140, 40), &expected);
}

#[test]
fn the_picture_has_the_text_of_the_screen() {
    let picture = crate::playground::svg::picture(&board());
    for part in
        [">leads</text>", ">limits broken 1 times in 17 writes</text>", ">export KUBECONFIG=/here</text>", ">○</text>"]
    {
        assert!(picture.contains(part), "{part:?} is missing:\n{picture}");
    }
    assert!(picture.starts_with("<svg ") && picture.ends_with("</svg>\n"));
    assert_eq!(picture.matches("<text ").count(), picture.matches("</text>").count());
}

#[test]
fn a_node_that_is_off_has_its_place_on_every_screen() {
    let mut board = board();
    assert!(!screen_of(&board, 80, 24).join("\n").contains("nodes:"));
    let line = "nodes: 1 of 2 Ready; node-1 NotReady, switched off, unreachable:NoExecute";
    board.node_line = Some(line.to_owned());
    for (width, height) in [(80, 24), (140, 40)] {
        assert_shows(&screen_of(&board, width, height), &[line, "Deployment shop/web rolling", "q quit"]);
    }
}

#[test]
fn an_ordinary_terminal_shows_every_object_and_every_controller() {
    let mut board = board();
    let report = board.reports["deployment-controller"].clone();
    for name in ["cronjob", "daemonset", "endpointslice", "gc", "job", "node-lifecycle", "replicaset", "statefulset"] {
        let name = format!("{name}-controller");
        board.reports.insert(name.clone(), Report { name, waiting: Vec::new(), ..report.clone() });
    }
    let expected = [
        "Deployment shop/web rolling   ○●●●●●× new 3/6  ready 5",
        "StatefulSet shop/db rolling   ○●● new 2/3  ready 2",
        "DaemonSet shop/logs complete  new 6/6 nodes  available 6",
        "Service shop/web    current   endpoints 5/5",
        "cronjob        leads     pid 4711       daemonset      leads     pid 4711",
        "gone           has ended pid 4711",
        "statefulset    leads     pid 4711",
        "limits         too many",
    ];
    assert_shows(&screen_of(&board, 80, 24), &expected);
}

#[test]
fn what_has_no_room_is_counted() {
    let mut board = board();
    board.rows =
        (0..40).map(|n| row("Job", &format!("job-{n}"), Progress::Done, "complete", "", Census::default())).collect();
    assert_shows(&screen_of(&board, 80, 24), &["Job shop/job-0", "more lines", "What happened", "leads"]);
}

#[test]
fn a_small_terminal_is_no_problem() {
    for (width, height) in [(80, 24), (20, 8), (5, 3), (1, 1)] {
        assert_eq!(screen(width, height).len(), usize::from(height));
    }
}

#[test]
fn only_keys_that_do_something_are_shown_and_none_is_cut() {
    let mut board = board();
    let all = [
        (
            140,
            " q quit   u roll out another image   s stop a node   r restart nodes   kill -9 a controller: it is started again",
        ),
        (80, " q quit   u roll out another image   s stop a node   r restart nodes"),
        (5, ""),
    ];
    for (width, line) in all {
        assert_eq!(keys(&board, width), line);
    }
    board.has_example = false;
    assert_eq!(keys(&board, 80), " q quit   s stop a node   r restart nodes");
    (board.nodes, board.reports) = (0, BTreeMap::new());
    assert_eq!(keys(&board, 80), " q quit");
}

#[test]
fn keys_mean_what_they_say() {
    let press = |code, modifiers| wish(KeyEvent::new(code, modifiers));
    assert_eq!(press(KeyCode::Char('c'), KeyModifiers::CONTROL), Some(Wish::Quit));
    assert_eq!(press(KeyCode::Char('c'), KeyModifiers::NONE), None);
    assert_eq!(press(KeyCode::Char('q'), KeyModifiers::NONE), Some(Wish::Quit));
    assert_eq!(press(KeyCode::Char('u'), KeyModifiers::NONE), Some(Wish::Update));
    assert_eq!(press(KeyCode::Char('s'), KeyModifiers::NONE), Some(Wish::StopNode));
    assert_eq!(press(KeyCode::Char('r'), KeyModifiers::NONE), Some(Wish::StartNodes));
}
