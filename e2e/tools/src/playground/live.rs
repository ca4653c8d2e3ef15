//! The full-screen view for terminals.

use std::{fmt::Write as _, io, time::Duration};

use ratatui::{
    DefaultTerminal, Frame,
    crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers},
    layout::{Constraint, Layout, Rect},
    style::{Color, Modifier, Style, Stylize as _},
    text::{Line, Span},
    widgets::{Block, Borders, Paragraph},
};
use tokio::sync::mpsc;

use super::{
    board::{Board, Mood},
    processes::{Report, State},
    rows::{Part, Progress, Row},
    world::{Census, STATES},
};

/// A command that the user gives by a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    Quit,
    /// Roll out another image.
    Update,
    StopNode,
    StartNodes,
}

/// The terminal on the alternate screen. Dropping this restores it.
pub(super) struct Live {
    terminal: DefaultTerminal,
    wishes: mpsc::UnboundedReceiver<Wish>,
}

impl Live {
    /// Switches the terminal to the alternate screen, and starts to read keys.
    pub(super) fn start() -> io::Result<Self> {
        let terminal = ratatui::try_init()?;
        let (sender, wishes) = mpsc::unbounded_channel();
        // Reading keys blocks, so it has its own thread, which ends when the receiver is dropped.
        std::thread::spawn(move || {
            while !sender.is_closed() {
                let key = match event::poll(Duration::from_millis(100)) {
                    Ok(true) => event::read(),
                    Ok(false) => continue,
                    Err(_) => return,
                };
                if let Ok(Event::Key(key)) = key
                    && let Some(wish) = wish(key)
                    && sender.send(wish).is_err()
                {
                    return;
                }
            }
        });
        Ok(Self { terminal, wishes })
    }

    /// The next command; [`Wish::Quit`] if keys can no longer be read.
    pub(super) async fn wish(&mut self) -> Wish {
        self.wishes.recv().await.unwrap_or(Wish::Quit)
    }

    pub(super) fn draw(&mut self, board: &Board) -> io::Result<()> {
        self.terminal.draw(|frame| draw(frame, board)).map(drop)
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

fn wish(key: KeyEvent) -> Option<Wish> {
    if key.kind == KeyEventKind::Release {
        return None;
    }
    match key.code {
        KeyCode::Char('c' | 'd') if key.modifiers.contains(KeyModifiers::CONTROL) => Some(Wish::Quit),
        KeyCode::Char('q') => Some(Wish::Quit),
        KeyCode::Char('u') => Some(Wish::Update),
        KeyCode::Char('s') => Some(Wish::StopNode),
        KeyCode::Char('r') => Some(Wish::StartNodes),
        _ => None,
    }
}

/// The sign and the colour of each state of a Pod, in the order of a Pod's life.
pub(super) const SIGNS: [(char, Color); 6] = [
    ('·', Color::Gray),
    ('○', Color::Yellow),
    ('◐', Color::Cyan),
    ('●', Color::Green),
    ('×', Color::Red),
    ('▪', Color::DarkGray),
];

/// The width from which lines show all their columns.
const WIDE: u16 = 120;
/// Rows of the head and the foot.
const HEAD: u16 = 4;
const FOOT: u16 = 1;
/// Rows that the other panels leave for the history, with its title, if there is room.
const HISTORY: u16 = 6;

/// Draws the board on a screen of any size.
pub(super) fn draw(frame: &mut Frame<'_>, board: &Board) {
    // Nodes have a line if one of them is off, not ready or tainted.
    let head_height = HEAD + u16::from(board.node_line.is_some());
    let (width, room) = (frame.area().width, frame.area().height.saturating_sub(head_height + FOOT));
    let rows = |lines: &[Line<'_>]| u16::try_from(lines.len()).unwrap_or(u16::MAX).saturating_add(1);
    // If there is not enough room, first two controllers share a line, then ReplicaSets are left out, then lines are cut off.
    let mut workloads = workload_lines(board, width, Parts::Shown);
    let mut controllers = controller_lines(board);
    let too_high = |workloads: &[Line<'_>], controllers: &[Line<'_>]| {
        rows(workloads).saturating_add(rows(controllers)).saturating_add(HISTORY) > room
    };
    if too_high(&workloads, &controllers) {
        controllers = short_controller_lines(board, width);
    }
    if too_high(&workloads, &controllers) {
        workloads = workload_lines(board, width, Parts::Hidden);
    }
    let history_height = HISTORY.min(room / 4);
    let left = room.saturating_sub(rows(&workloads).saturating_add(history_height));
    let controllers_height = rows(&controllers).min(left.max(room / 3));
    let workloads_height = rows(&workloads).min(room.saturating_sub(controllers_height + history_height));
    let [head, middle, players, history, foot] = Layout::vertical([
        Constraint::Length(head_height),
        Constraint::Length(workloads_height),
        Constraint::Length(controllers_height),
        Constraint::Min(0),
        Constraint::Length(FOOT),
    ])
    .areas(frame.area());
    let elapsed = board.elapsed(board.now) as u64;
    let title =
        format!(" Nonet playground · {} · {} nodes · {}:{:02} ", board.url, board.nodes, elapsed / 60, elapsed % 60);
    panel(frame, head, title, head_lines(board));
    panel(frame, middle, legend(), workloads);
    panel(frame, players, " Controllers ", controllers);
    let room = usize::from(history.height.saturating_sub(1));
    panel(frame, history, " What happened, newest first ", history_lines(board, room, width));
    frame.render_widget(Paragraph::new(keys(board, width)).style(Style::new().dim()), foot);
}

/// The keys; those that do not fit are left out.
fn keys(board: &Board, width: u16) -> String {
    let mut all = vec!["q quit"];
    if board.has_example {
        all.push("u roll out another image");
    }
    if board.nodes > 0 {
        all.extend(["s stop a node", "r restart nodes"]);
    }
    if !board.reports.is_empty() {
        all.push("kill -9 a controller: it is started again");
    }
    let mut line = String::new();
    for key in all {
        let separator = if line.is_empty() { " " } else { "   " };
        if line.len() + separator.len() + key.len() <= usize::from(width) {
            line.extend([separator, key]);
        }
    }
    line
}

/// Lines under a title. If there is not enough room, the last line gives the number of missing lines.
fn panel<'a>(frame: &mut Frame<'_>, area: Rect, title: impl Into<Line<'a>>, mut lines: Vec<Line<'a>>) {
    let room = usize::from(area.height.saturating_sub(1));
    if lines.len() > room && room > 0 {
        let missing = lines.len() - room + 1;
        lines.truncate(room - 1);
        lines.push(Line::from(format!("... and {missing} more lines")).dim());
    }
    let block = Block::new().borders(Borders::TOP).title(title).border_style(Style::new().fg(Color::DarkGray));
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

fn legend() -> Line<'static> {
    let mut spans = vec![Span::raw(" Workloads · Pods: ")];
    for (name, (sign, colour)) in STATES.into_iter().zip(SIGNS) {
        spans.push(Span::styled(sign.to_string(), colour));
        spans.push(Span::raw(format!(" {name} ")));
    }
    Line::from(spans)
}

fn head_lines(board: &Board) -> Vec<Line<'_>> {
    let kept = if board.broken == 0 {
        Span::styled(format!("maxSurge and maxUnavailable kept in {} writes", board.judged), Color::Green)
    } else {
        Span::styled(format!("limits broken {} times in {} writes", board.broken, board.judged), Color::Red)
    };
    let mut lines = vec![
        Line::from(vec![Span::raw("kubectl in another terminal:  "), Span::styled(&*board.export, Color::Cyan)]),
        Line::from(board.status.as_str()).bold(),
        Line::from(kept),
    ];
    lines.extend(board.node_line.as_deref().map(|line| Line::from(line).yellow()));
    lines
}

/// Whether the ReplicaSets of a Deployment have lines of their own.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Parts {
    Shown,
    Hidden,
}

fn workload_lines(board: &Board, width: u16, parts: Parts) -> Vec<Line<'_>> {
    if board.rows.is_empty() {
        let hint = "no workloads yet: kubectl create deployment hello --image=hello --replicas=3";
        return vec![Line::from(hint).dim()];
    }
    let name = |row: &Row| format!("{} {}", row.kind, row.key);
    let longest = board.rows.iter().map(|row| name(row).chars().count()).max().unwrap_or(0);
    let column = longest.min(usize::from(width) / 3);
    let mut lines = Vec::new();
    for row in &board.rows {
        let name: String = name(row).chars().take(column).collect();
        lines.push(row_line(Span::styled(format!("{name:<column$} "), Style::new().add_modifier(Modifier::BOLD)), row));
        let shown = row.parts.iter().filter(|_| parts == Parts::Shown);
        lines.extend(shown.map(|part| part_line(part, width)));
    }
    lines
}

/// The width of the column with the state of an object.
const STATE: usize = 9;

fn row_line<'a>(name: Span<'a>, row: &'a Row) -> Line<'a> {
    let style = match row.progress {
        Progress::Done => Style::new().fg(Color::Green),
        Progress::Underway => Style::new().fg(Color::Yellow),
        Progress::Failed => Style::new().fg(Color::Red),
        Progress::Suspended => Style::new().fg(Color::Magenta),
    };
    let mut spans = vec![name, Span::styled(format!("{:<STATE$} ", row.word), style)];
    let pods = pod_signs(row.pods, 12);
    if !pods.is_empty() {
        spans.extend(pods);
        spans.push(Span::raw(" "));
    }
    spans.push(Span::raw(row.text.as_str()));
    Line::from(spans)
}

/// A sign for each Pod, or numbers if there are more than `room`.
fn pod_signs(pods: Census, room: usize) -> Vec<Span<'static>> {
    let fits = usize::try_from(pods.0.iter().sum::<i32>()).is_ok_and(|count| count <= room);
    let counted = STATES.into_iter().zip(pods.0).zip(SIGNS).filter(|((_, n), _)| *n > 0);
    let text = |state: &str, n: i32, sign: char| {
        if fits { sign.to_string().repeat(usize::try_from(n).unwrap_or(0)) } else { format!("{n} {state} ") }
    };
    counted.map(|((state, n), (sign, colour))| Span::styled(text(state, n, sign), colour)).collect()
}

fn part_line(part: &Part, width: u16) -> Line<'_> {
    let name = if width >= WIDE {
        format!("  {:<28} revision {:<3} {:<26} size {:<4} ", part.name, part.revision, part.image, part.size)
    } else {
        format!("  {:<22} revision {:<3} size {:<4} ", part.name, part.revision, part.size)
    };
    let room = usize::from(width).saturating_sub(name.chars().count());
    let mut spans = vec![Span::raw(name).dim()];
    spans.extend(pod_signs(part.pods, room));
    Line::from(spans)
}

/// One line for each controller, with its failing keys and its reasons for waiting.
fn controller_lines(board: &Board) -> Vec<Line<'_>> {
    if board.reports.is_empty() {
        return no_controllers();
    }
    let mut lines = Vec::new();
    for report in board.reports.values() {
        lines.push(controller_line(report));
        lines.extend(failing_lines(report, 2));
        lines.extend(waiting_lines(report, 3));
    }
    lines
}

fn no_controllers() -> Vec<Line<'static>> {
    vec![Line::from("none was started: see --controllers").dim()]
}

/// Two controllers in each line, then the failing keys, then the reasons for waiting.
fn short_controller_lines(board: &Board, width: u16) -> Vec<Line<'_>> {
    if board.reports.is_empty() {
        return no_controllers();
    }
    let column = usize::from(width) / 2;
    let reports: Vec<&Report> = board.reports.values().collect();
    let mut lines: Vec<Line<'_>> = reports
        .chunks(2)
        .map(|pair| {
            let mut spans = Vec::new();
            for report in pair {
                let state = state_span(report);
                let state = Span::styled(format!("{:<9} ", state.content), state.style);
                let name = format!("{:<14} ", report.name.trim_end_matches("-controller"));
                let pid = format!("pid {}", report.pid);
                let used = name.chars().count() + state.content.chars().count() + pid.chars().count();
                spans.push(Span::styled(name, Style::new().add_modifier(Modifier::BOLD)));
                spans.push(state);
                spans.push(Span::raw(pid));
                spans.push(Span::raw(" ".repeat(column.saturating_sub(used))));
            }
            Line::from(spans)
        })
        .collect();
    lines.extend(reports.iter().flat_map(|report| failing_lines(report, 1)));
    lines.extend(reports.iter().flat_map(|report| waiting_lines(report, 1)));
    lines
}

fn failing_lines(report: &Report, most: usize) -> impl Iterator<Item = Line<'_>> {
    report.failing.iter().take(most).map(|(key, error)| Line::from(format!("    {key} fails: {error}")).red())
}

fn waiting_lines(report: &Report, most: usize) -> impl Iterator<Item = Line<'_>> {
    report.waiting.iter().take(most).map(|(key, why)| Line::from(format!("    {key} waits: {}", why.join("; "))).dim())
}

fn state_span(report: &Report) -> Span<'static> {
    match &report.state {
        State::Starting => Span::styled("starts", Color::Yellow),
        State::Running if report.leads => Span::styled("leads", Color::Green),
        State::Running => Span::styled("stands by", Color::Yellow),
        State::Ended(_) => Span::styled("has ended", Color::Red),
    }
}

fn controller_line(report: &Report) -> Line<'_> {
    let name = Span::styled(format!("{:<25} ", report.name), Style::new().add_modifier(Modifier::BOLD));
    if let State::Ended(why) = &report.state {
        return Line::from(vec![name, Span::styled(why.as_str(), Color::Red)]);
    }
    let mut numbers = format!(
        "  pid {}  queue {}  requests {}  CPU {:.2} s  {:.1} MB",
        report.pid,
        report.depth,
        report.requests,
        report.usage.cpu.as_secs_f64(),
        report.usage.resident as f64 / 1e6,
    );
    if report.restarts > 0 {
        let _ = write!(numbers, "  restarts {}", report.restarts);
    }
    if let Some(address) = report.diagnostics {
        let _ = write!(numbers, "  http://{address}/debug/explain?format=text");
    }
    Line::from(vec![name, state_span(report), Span::raw(numbers)])
}

fn history_lines(board: &Board, room: usize, width: u16) -> Vec<Line<'_>> {
    // On a narrow screen, the common ending of the names is left out.
    let (suffix, column) = if width < WIDE { ("-controller", 14) } else { ("", 25) };
    let line = |note: &'_ super::board::Note| {
        let style = match note.mood {
            Mood::Plain => Style::new(),
            Mood::Good => Style::new().fg(Color::Green),
            Mood::Bad => Style::new().fg(Color::Red),
        };
        Line::from(vec![
            Span::raw(format!("{:7.2}s ", board.elapsed(note.at))).dim(),
            Span::raw(format!("{:<column$} ", note.who.strip_suffix(suffix).unwrap_or(&note.who))),
            Span::styled(note.text.clone(), style),
        ])
    };
    board.history.iter().rev().take(room).map(line).collect()
}

#[cfg(test)]
mod tests;
