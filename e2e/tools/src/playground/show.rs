//! The main loop of the playground: takes in writes and reports, checks them, and updates the view.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, Result, anyhow, bail};
use common::{app::ProgramDefinition, clock::Instant};
use http::Method;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedReceiver;

use super::{
    NAME,
    board::{Board, Mood, deed_line},
    example::{self, Example, Next},
    flags::Flags,
    ground::Ground,
    limits::Limits,
    live::{Live, Wish},
    plain::Plain,
    print,
    processes::{Processes, Report, State},
    rows::{POWER, is_off, node_state},
    svg,
    world::{Object, World},
};
use crate::{program::Signals, sandbox::Write};

/// The period of updates of the view while objects change ...
const TICK: Duration = Duration::from_millis(50);
/// ... and while no object changes, since Pods become available by the passing of time.
const TICK_IDLE: Duration = Duration::from_millis(250);

/// The message at the end of the example.
const YOURS: &str = "the cluster is yours: use kubectl in another terminal; Ctrl-C ends everything";

enum View {
    Plain(Plain),
    Live(Box<Live>),
}

struct Show<'a> {
    flags: &'a Flags,
    ground: &'a Ground,
    board: Board,
    world: World,
    limits: Limits,
    /// The example; `None` with `--bare`.
    example: Option<Example>,
    /// The last version of the example's images.
    version: u32,
    view: View,
    /// Whether an object has changed since the last update of the view, and the time of that update.
    changed: bool,
    looked: Instant,
    /// The last process id of each controller as the leader.
    leaders: BTreeMap<String, u32>,
    /// The reasons for exit code 1 with `--exit-when-done`.
    failures: Vec<String>,
    done: bool,
}

/// Runs until a signal, the key q, or `--exit-when-done` ends it.
pub(super) async fn show(
    flags: &Flags,
    live: bool,
    ground: &Ground,
    chosen: &[&'static ProgramDefinition],
    mut writes: UnboundedReceiver<Arc<Write>>,
    processes: &mut Processes,
    signals: &mut Signals,
) -> Result<()> {
    let mut show = Show::start(flags, live, ground, chosen).await?;
    let mut tick = tokio::time::interval(TICK);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let ended = loop {
        tokio::select! {
            biased;
            () = signals.next() => break Ok(()),
            wish = show.wish() => match wish {
                Wish::Quit => break Ok(()),
                Wish::Update => show.update().await?,
                Wish::StopNode => show.stop_node().await?,
                Wish::StartNodes => show.start_nodes().await?,
            },
            Some(reports) = processes.next() => show.heard(reports)?,
            Some(write) = writes.recv() => {
                show.wrote(&write)?;
                while let Ok(write) = writes.try_recv() {
                    show.wrote(&write)?;
                }
            }
            _ = tick.tick() => {
                show.look().await?;
                processes.ask(show.board.unfinished());
                if let Some(result) = show.verdict() {
                    break result;
                }
            }
        }
    };
    show.end(ended)
}

impl<'a> Show<'a> {
    async fn start(
        flags: &'a Flags,
        live: bool,
        ground: &'a Ground,
        chosen: &[&'static ProgramDefinition],
    ) -> Result<Self> {
        let now = ground.clock.now();
        let board = Board {
            started: now,
            now,
            url: ground.server.url(),
            export: ground.kubeconfig.export(),
            nodes: flags.nodes(),
            node_line: None,
            has_example: !flags.bare,
            status: if flags.bare { YOURS.to_owned() } else { String::new() },
            rows: Vec::new(),
            reports: BTreeMap::new(),
            history: VecDeque::new(),
            judged: 0,
            broken: 0,
        };
        let view = if live {
            View::Live(Box::new(Live::start().context("cannot use the terminal")?))
        } else {
            View::Plain(Plain::default())
        };
        let mut show = Self {
            flags,
            ground,
            board,
            world: World::default(),
            limits: Limits::default(),
            example: None,
            version: 1,
            view,
            changed: true,
            looked: ground.clock.monotonic_now(),
            leaders: BTreeMap::new(),
            failures: Vec::new(),
            done: false,
        };
        show.say(now, NAME, format!("API server on {} with {} nodes", show.board.url, show.board.nodes), Mood::Plain)?;
        if matches!(show.view, View::Plain(_)) {
            print(&show.board.export)?;
        }
        if flags.bare {
            if matches!(show.view, View::Plain(_)) {
                show.say(now, NAME, YOURS.to_owned(), Mood::Plain)?;
            }
            return Ok(show);
        }
        for object in example::objects()? {
            ground.sandbox.apply(object).await?;
        }
        let controllers = chosen.iter().map(|definition| definition.name).collect();
        show.example = Some(Example::applied(controllers, ground.clock.monotonic_now()));
        let text = format!("applied the example in namespace {}: {}", example::NAMESPACE, example::SUMMARY);
        show.say(ground.clock.now(), NAME, text, Mood::Good)?;
        Ok(show)
    }

    /// Adds a line of history, and prints it in the plain view.
    fn say(&mut self, at: Timestamp, who: &str, text: String, mood: Mood) -> Result<()> {
        let note = self.board.note(at, who, text, mood);
        match self.view {
            View::Plain(_) => Plain::note(&self.board, &note).context("cannot write to stdout"),
            View::Live(_) => Ok(()),
        }
    }

    /// The next command of the user; never returns without a terminal.
    async fn wish(&mut self) -> Wish {
        match &mut self.view {
            View::Live(live) => live.wish().await,
            View::Plain(_) => std::future::pending().await,
        }
    }

    fn wrote(&mut self, write: &Write) -> Result<()> {
        self.changed = true;
        self.world.apply(write);
        if write.resource == "nodes" && write.group.is_empty() {
            self.node_changed(write)?;
        }
        let broken = self.limits.judge(&self.world, write);
        self.board.judged = self.limits.judged();
        if let Some(text) = broken {
            self.board.broken += 1;
            self.failures.push(text.clone());
            self.say(write.at, "limits", text, Mood::Bad)?;
        }
        Ok(())
    }

    /// Reports a change of a node, and switches the node if its annotation has changed.
    fn node_changed(&mut self, write: &Write) -> Result<()> {
        let (before, after) = (write.before().map(Object), write.after().map(Object));
        let [was_off, is_off] = [&before, &after].map(|node| node.as_ref().is_some_and(is_off));
        if was_off != is_off {
            self.ground.switch(&write.name, is_off);
        }
        // New nodes have no lines of their own.
        let (Some(before), Some(after)) = (before, after) else { return Ok(()) };
        let (before, after) = (node_state(&before), node_state(&after));
        if before == after {
            return Ok(());
        }
        self.say(write.at, "nodes", format!("{} is {after}", write.name), Mood::Plain)
    }

    /// The names of the nodes that are switched off, or of those that are on.
    fn nodes(&self, are_off: bool) -> Vec<String> {
        let nodes = self.world.all("Node").filter(|node| is_off(node) == are_off);
        nodes.map(|node| node.text("/metadata/name").to_owned()).collect()
    }

    /// Switches the next node off.
    async fn stop_node(&mut self) -> Result<()> {
        match self.nodes(false).first() {
            Some(name) => self.annotate(name, json!("off")).await,
            None => self.say(self.ground.clock.now(), NAME, "every node is switched off".to_owned(), Mood::Plain),
        }
    }

    async fn start_nodes(&mut self) -> Result<()> {
        for name in self.nodes(true) {
            self.annotate(&name, Value::Null).await?;
        }
        Ok(())
    }

    async fn annotate(&self, node: &str, power: Value) -> Result<()> {
        let patch = json!({"metadata": {"annotations": {POWER: power}}});
        match self.ground.sandbox.merge("nodes", None, node, None, patch).await {
            Ok(_) => Ok(()),
            // The node was deleted.
            Err(refused) if refused.code == 404 => Ok(()),
            Err(refused) => Err(refused.into()),
        }
    }

    fn heard(&mut self, mut reports: Vec<Report>) -> Result<()> {
        for report in &mut reports {
            let deeds = report.deeds.iter_mut().map(|deed| &mut deed.key);
            for key in deeds.chain(report.failing.iter_mut().map(|(key, _)| key)) {
                *key = self.world.name_of(key).to_owned();
            }
        }
        let deeds = reports.iter().flat_map(|r| r.deeds.iter().map(|deed| (deed.at, r.name.clone(), deed_line(deed))));
        let mut deeds: Vec<_> = deeds.filter_map(|(at, who, line)| Some((at, who, line?))).collect();
        deeds.sort();
        for (at, who, line) in deeds {
            self.say(at, &who, line, Mood::Plain)?;
        }
        for report in reports {
            let known = self.board.reports.get(&report.name).map_or(&State::Starting, |known| &known.state);
            let (was_running, has_ended) = (*known == State::Running, matches!(known, State::Ended(_)));
            match &report.state {
                State::Ended(why) if !has_ended => {
                    let why = why.clone();
                    self.failures.push(format!("{} {why}", report.name));
                    self.say(self.ground.clock.now(), &report.name, why, Mood::Bad)?;
                }
                State::Running if !was_running && report.restarts > 0 => {
                    let text =
                        format!("runs again, process {}; it leads once the Lease of the last one expires", report.pid);
                    self.say(self.ground.clock.now(), &report.name, text, Mood::Plain)?;
                }
                _ => {}
            }
            if report.leads && self.leaders.insert(report.name.clone(), report.pid) != Some(report.pid) {
                let address = report.diagnostics.map_or_else(String::new, |a| format!(", diagnostics on http://{a}"));
                let text = format!("leads, process {}{address}", report.pid);
                self.say(self.ground.clock.now(), &report.name, text, Mood::Good)?;
            }
            self.board.reports.insert(report.name.clone(), report);
        }
        Ok(())
    }

    /// Updates the view and checks the progress of the example.
    async fn look(&mut self) -> Result<()> {
        let (now, instant) = (self.ground.clock.now(), self.ground.clock.monotonic_now());
        if !self.changed && instant - self.looked < TICK_IDLE {
            return Ok(());
        }
        (self.changed, self.looked) = (false, instant);
        self.board.look(&self.world, now);
        if let View::Plain(plain) = &mut self.view {
            plain.objects(&self.board).context("cannot write to stdout")?;
        }
        let next = match &mut self.example {
            Some(example) => example.look(&self.board.rows, &self.limits, instant),
            None => Next::Wait,
        };
        match next {
            Next::Wait => {}
            Next::Went(lines) => self.say_all(lines)?,
            Next::Update(lines) => {
                self.say_all(lines)?;
                self.update().await?;
            }
            Next::Done(lines) => {
                self.say_all(lines)?;
                self.done = true;
                let text = match self.board.broken {
                    0 => format!(
                        "the example is done; {} writes were judged: maxSurge and maxUnavailable were kept at every one",
                        self.board.judged
                    ),
                    n => format!("the example is done, but maxSurge or maxUnavailable were not kept {n} times"),
                };
                let mood = if self.board.broken == 0 { Mood::Good } else { Mood::Bad };
                self.say(self.ground.clock.now(), NAME, text, mood)?;
                if !self.flags.exit_when_done && matches!(self.view, View::Plain(_)) {
                    self.say(now, NAME, YOURS.to_owned(), Mood::Plain)?;
                }
            }
            Next::Late(why) => {
                let waiting = self.waiting();
                let why = if waiting.is_empty() { why } else { format!("{why}; {waiting}") };
                self.failures.push(why.clone());
                self.say(now, NAME, why, Mood::Bad)?;
            }
        }
        if let Some(example) = &self.example {
            example.status().clone_into(&mut self.board.status);
        }
        if let View::Live(live) = &mut self.view {
            live.draw(&self.board).context("cannot draw")?;
        }
        Ok(())
    }

    fn say_all(&mut self, lines: Vec<String>) -> Result<()> {
        let now = self.ground.clock.now();
        lines.into_iter().try_for_each(|line| self.say(now, NAME, line, Mood::Good))
    }

    /// The reasons for waiting of all controllers, in one line.
    fn waiting(&self) -> String {
        let one = |r: &Report| -> Vec<String> {
            r.waiting.iter().map(|(key, why)| format!("{} waits for {key}: {}", r.name, why.join(", "))).collect()
        };
        self.board.reports.values().flat_map(one).collect::<Vec<_>>().join("; ")
    }

    /// Rolls out the next version of the example's images, except for objects that the user has deleted.
    async fn update(&mut self) -> Result<()> {
        self.limits.begin();
        let version = self.version + 1;
        let mut updated = Vec::new();
        for (path, patch, name) in example::updates(version) {
            let media = "application/strategic-merge-patch+json";
            match self.ground.sandbox.send(Method::PATCH, &path, media, Some(&patch)).await {
                Ok(_) => updated.push(name),
                Err(refused) if refused.code == 404 => {}
                Err(refused) => return Err(refused.into()),
            }
        }
        if updated.is_empty() {
            let text = "there is no example whose images could be updated".to_owned();
            return self.say(self.ground.clock.now(), NAME, text, Mood::Plain);
        }
        self.version = version;
        let text = format!("updated the images of {} to version 1.{version}", updated.join(", "));
        self.say(self.ground.clock.now(), NAME, text, Mood::Good)
    }

    /// The result with `--exit-when-done`; `None` while the example is in progress.
    fn verdict(&self) -> Option<Result<()>> {
        if !self.flags.exit_when_done || (!self.done && self.failures.is_empty()) {
            return None;
        }
        Some(match self.failures.first() {
            None => Ok(()),
            Some(why) => Err(anyhow!("{why}")),
        })
    }

    /// Restores the terminal, writes the picture, and prints the important lines of the history.
    fn end(self, ended: Result<()>) -> Result<()> {
        let Self { view, board, flags, .. } = self;
        let was_live = matches!(view, View::Live(_));
        drop(view);
        if let Some(path) = &flags.svg {
            std::fs::write(path, svg::picture(&board)).context("--svg: cannot write the picture")?;
        }
        if was_live {
            for note in board.history.iter().filter(|note| note.mood != Mood::Plain) {
                Plain::note(&board, note).context("cannot write to stdout")?;
            }
        }
        if let (Ok(()), true, false) = (&ended, flags.exit_when_done, self.done) {
            bail!("stopped before the example was done");
        }
        ended
    }
}
