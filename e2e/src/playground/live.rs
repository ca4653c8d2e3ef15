//! The view for terminals.

use std::{io, time::Duration};

use ratatui::{
    DefaultTerminal, Frame,
    crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers},
    layout::{Constraint, Layout, Rect},
    style::{Color, Modifier, Style, Stylize as _},
    text::{Line, Span},
    widgets::{Block, Paragraph},
};
use tokio::sync::mpsc;

use super::{
    board::{Board, Mood},
    processes::{Report, State},
    rollout::{Part, Phase, Rollout},
};

/// What a person wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    /// To end.
    Quit,
    /// Another rollout.
    Update,
}

/// The terminal, in its own screen until this is dropped.
pub(super) struct Live {
    terminal: DefaultTerminal,
    wishes: mpsc::UnboundedReceiver<Wish>,
}

impl Live {
    /// Takes the terminal.
    pub(super) fn start() -> io::Result<Self> {
        let terminal = ratatui::try_init()?;
        let (sender, wishes) = mpsc::unbounded_channel();
        // Reading keys blocks: it has a thread of its own, which ends when nobody listens.
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

    /// The next wish. Ends where there is no keyboard any more.
    pub(super) async fn wish(&mut self) -> Wish {
        self.wishes.recv().await.unwrap_or(Wish::Quit)
    }

    /// Draws everything.
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
        _ => None,
    }
}

/// One sign for each state of a Pod, with its colour, in the order of a Pod's life.
const SIGNS: [(char, Color); 6] = [
    ('·', Color::Gray),
    ('○', Color::Yellow),
    ('◐', Color::Cyan),
    ('●', Color::Green),
    ('×', Color::Red),
    ('▪', Color::DarkGray),
];

fn draw(frame: &mut Frame<'_>, board: &Board) {
    let rollouts = rollout_lines(board, frame.area().width);
    let controllers = controller_lines(board);
    let height = |lines: &[Line<'_>]| u16::try_from(lines.len()).unwrap_or(u16::MAX).saturating_add(2);
    let room = frame.area().height.saturating_sub(5 + 1);
    let rollouts_height = height(&rollouts).min((room / 2).max(4));
    let controllers_height = height(&controllers).min(room.saturating_sub(rollouts_height) / 2);
    let [head, middle, players, history, foot] = Layout::vertical([
        Constraint::Length(5),
        Constraint::Length(rollouts_height),
        Constraint::Length(controllers_height),
        Constraint::Min(0),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    let elapsed = board.elapsed(board.now) as u64;
    let title =
        format!(" Nonet playground · {} · {} nodes · {}:{:02} ", board.url, board.nodes, elapsed / 60, elapsed % 60);
    panel(frame, head, title, head_lines(board));
    panel(frame, middle, legend(), rollouts);
    panel(frame, players, " Controllers ", controllers);
    let room = usize::from(history.height.saturating_sub(2));
    panel(frame, history, " What happened, newest first ", history_lines(board, room));
    frame.render_widget(Paragraph::new(" q quit   u roll out another image").style(Style::new().dim()), foot);
}

fn panel<'a>(frame: &mut Frame<'_>, area: Rect, title: impl Into<Line<'a>>, lines: Vec<Line<'a>>) {
    let block = Block::bordered().title(title).border_style(Style::new().fg(Color::DarkGray));
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

fn legend() -> Line<'static> {
    let mut spans = vec![Span::raw(" Rollouts · Pods: ")];
    for ((name, _), (sign, colour)) in super::world::Census::default().named().into_iter().zip(SIGNS) {
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
    vec![
        Line::from(vec![Span::raw("kubectl in another terminal:  "), Span::styled(&*board.export, Color::Cyan)]),
        Line::from(board.status.as_str()).bold(),
        Line::from(kept),
    ]
}

fn rollout_lines(board: &Board, width: u16) -> Vec<Line<'_>> {
    if board.rollouts.is_empty() {
        return vec![
            Line::from("no Deployments yet: kubectl create deployment hello --image=hello --replicas=3").dim(),
        ];
    }
    let mut lines = Vec::new();
    for rollout in &board.rollouts {
        lines.push(rollout_line(rollout));
        if let Phase::Failed(why) = &rollout.phase {
            lines.push(Line::from(format!("    {why}")).red());
        }
        let parts = rollout.parts.iter().filter(|p| p.size > 0 || p.pods != super::world::Census::default());
        lines.extend(parts.map(|part| part_line(part, width)));
    }
    lines
}

fn rollout_line(rollout: &Rollout) -> Line<'_> {
    let style = match rollout.phase {
        Phase::Complete => Style::new().fg(Color::Green),
        Phase::Failed(_) => Style::new().fg(Color::Red),
        Phase::Paused => Style::new().fg(Color::Magenta),
        Phase::Unseen | Phase::Progressing => Style::new().fg(Color::Yellow),
    };
    let all = rollout.pods();
    let mut spans = vec![
        Span::styled(format!("{:<24} ", rollout.key.to_string()), Style::new().add_modifier(Modifier::BOLD)),
        Span::styled(format!("{:<9}", rollout.phase.word()), style),
    ];
    spans.extend(bar(rollout));
    let ready = all.ready + all.available;
    spans.push(Span::raw(format!(
        " new {}/{}  old {}  ready {ready}  available {}",
        rollout.new.active(),
        rollout.wanted,
        rollout.old.active(),
        all.available
    )));
    if let Some(bounds) = rollout.bounds {
        spans.push(Span::raw(format!("  ({} to {} Pods)", bounds.least, bounds.most)).dim());
    }
    Line::from(spans)
}

/// New and available, new and not yet, old: out of what is wanted.
fn bar(rollout: &Rollout) -> Vec<Span<'static>> {
    const WIDTH: i32 = 24;
    let total = rollout.wanted.max(rollout.pods().active()).max(1);
    let cells = |n: i32| {
        usize::try_from((i64::from(n) * i64::from(WIDTH) / i64::from(total)).clamp(0, i64::from(WIDTH))).unwrap_or(0)
    };
    let done = cells(rollout.new.available);
    let coming = cells(rollout.new.active()).saturating_sub(done);
    let old = cells(rollout.pods().active()).saturating_sub(done + coming);
    let rest = (WIDTH as usize).saturating_sub(done + coming + old);
    vec![
        Span::styled("█".repeat(done), Color::Green),
        Span::styled("▓".repeat(coming), Color::Yellow),
        Span::styled("▒".repeat(old), Color::Blue),
        Span::styled("░".repeat(rest), Color::DarkGray),
    ]
}

fn part_line(part: &Part, width: u16) -> Line<'_> {
    let name = format!("  {:<28} revision {:<3} {:<26} size {:<4} ", part.name, part.revision, part.image, part.size);
    let room = usize::from(width).saturating_sub(name.chars().count() + 3);
    let states = part.pods.named();
    let count: i32 = states.iter().map(|(_, n)| n).sum();
    let mut spans = vec![Span::raw(name).dim()];
    for ((state, n), (sign, colour)) in states.into_iter().zip(SIGNS) {
        if n > 0 && usize::try_from(count).is_ok_and(|count| count <= room) {
            spans.push(Span::styled(sign.to_string().repeat(usize::try_from(n).unwrap_or(0)), colour));
        } else if n > 0 {
            spans.push(Span::styled(format!("{n} {state} "), colour));
        }
    }
    Line::from(spans)
}

fn controller_lines(board: &Board) -> Vec<Line<'_>> {
    if board.reports.is_empty() {
        return vec![Line::from("none of this playground's own").dim()];
    }
    let mut lines = Vec::new();
    for report in board.reports.values() {
        lines.push(controller_line(report));
        for (key, error) in report.failing.iter().take(2) {
            lines.push(Line::from(format!("    {key} fails: {error}")).red());
        }
        for (key, waiting) in report.waiting.iter().take(3) {
            lines.push(Line::from(format!("    {key} waits: {}", waiting.join("; "))).dim());
        }
    }
    lines
}

fn controller_line(report: &Report) -> Line<'_> {
    let name = Span::styled(format!("{:<24} ", report.name), Style::new().add_modifier(Modifier::BOLD));
    let state = match &report.state {
        State::Starting => Span::styled("starts", Color::Yellow),
        State::Running if report.leads => Span::styled("leads", Color::Green),
        State::Running => Span::styled("stands by", Color::Yellow),
        State::Ended(why) => return Line::from(vec![name, Span::styled(why.as_str(), Color::Red)]),
    };
    let numbers = format!(
        "  queue {}  requests {}  CPU {:.2} s  {:.1} MB  pid {}{}",
        report.depth,
        report.requests,
        report.usage.cpu.as_secs_f64(),
        report.usage.resident as f64 / 1e6,
        report.pid,
        report.diagnostics.map_or_else(String::new, |address| format!("  http://{address}/debug/explain?format=text"))
    );
    Line::from(vec![name, state, Span::raw(numbers)])
}

fn history_lines(board: &Board, room: usize) -> Vec<Line<'_>> {
    let line = |note: &'_ super::board::Note| {
        let style = match note.mood {
            Mood::Plain => Style::new(),
            Mood::Good => Style::new().fg(Color::Green),
            Mood::Bad => Style::new().fg(Color::Red),
        };
        Line::from(vec![
            Span::raw(format!("{:7.2}s ", board.elapsed(note.at))).dim(),
            Span::raw(format!("{:<22} ", note.who)),
            Span::styled(note.text.clone(), style),
        ])
    };
    board.history.iter().rev().take(room).map(line).collect()
}

#[cfg(test)]
mod tests;
