//! Progress for a person who waits: live bars on a terminal, plain lines anywhere else.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use crate::event::fold::{RunView, SessionView, Step};
use crate::event::{Event, Recorded};
use crate::model::SessionId;
use crate::model::text::{clip, in_words};
use crate::report::lines::{line, short_key};

/// How progress is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Bars that move, and lines above them.
    Live,
    /// One line per event.
    Lines,
    /// Nothing.
    Silent,
}

/// Shows events until the run has ended or its journal is gone. Progress goes to standard error,
/// so that standard output holds results only.
pub async fn show(mut events: Receiver<Recorded>, progress: Progress) {
    let mut view = RunView::default();
    let mut screen = (progress == Progress::Live).then(Screen::new);
    loop {
        let recorded = match events.recv().await {
            Ok(recorded) => recorded,
            Err(RecvError::Lagged(_)) => continue,
            Err(RecvError::Closed) => break,
        };
        view.apply(&recorded);
        if let Some(text) = line(&recorded, &view) {
            match (&screen, progress) {
                (Some(screen), _) => screen.say(&text),
                (None, Progress::Lines) => write_line(&text),
                (None, _) => {}
            }
        }
        if let Some(screen) = &mut screen {
            screen.update(&view);
        }
        if matches!(recorded.event, Event::RunEnded { .. }) {
            break;
        }
    }
    if let Some(screen) = screen {
        screen.clear();
    }
}

/// One line to whoever waits, unless they want to hear nothing.
pub fn say(progress: Progress, text: &str) {
    if progress != Progress::Silent {
        write_line(text);
    }
}

/// A reader that went away is no reason to stop the run.
fn write_line(text: &str) {
    let mut stderr = std::io::stderr().lock();
    drop(writeln!(stderr, "{text}"));
}

struct Screen {
    bars: MultiProgress,
    stage: ProgressBar,
    sessions: BTreeMap<SessionId, ProgressBar>,
}

impl Screen {
    fn new() -> Self {
        let bars = MultiProgress::new();
        let stage = bars.add(ProgressBar::new_spinner().with_style(style("{spinner} {wide_msg}")));
        stage.enable_steady_tick(Duration::from_millis(120));
        Self { bars, stage, sessions: BTreeMap::new() }
    }

    fn say(&self, text: &str) {
        let width = usize::from(console::Term::stderr().size().1);
        let text = clip(text, width);
        // Without a terminal there is nothing to keep clean.
        drop(self.bars.println(text));
    }

    fn update(&mut self, view: &RunView) {
        self.stage.set_message(headline(view));
        for (id, session) in &view.sessions {
            let bar = self.sessions.entry(*id).or_insert_with(|| {
                let bar = ProgressBar::new_spinner()
                    .with_style(style("  {spinner} {elapsed:>4} {wide_msg}"));
                bar.enable_steady_tick(Duration::from_millis(120));
                self.bars.add(bar)
            });
            bar.set_message(session_line(view, session));
        }
        self.sessions.retain(|id, bar| {
            let alive = view.sessions.contains_key(id);
            if !alive {
                bar.finish_and_clear();
            }
            alive
        });
    }

    fn clear(self) {
        self.stage.finish_and_clear();
        // Nothing is left to draw.
        drop(self.bars.clear());
    }
}

/// The template is ours, so it always parses; a plain spinner is shown if it does not.
fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner())
}

fn headline(view: &RunView) -> String {
    let step = match view.step {
        Step::Starting => "starting".into(),
        Step::Fetching => format!("fetching: {} items", view.fetched),
        Step::Triaging => format!("triage: {} of {} verdicts", view.triaged, view.work),
        Step::Analysing => {
            let deep = view.deep.max(view.analysed);
            format!("analysis: {} of {deep} findings, {} failed", view.analysed, view.failed)
        }
        Step::Ended => "done".into(),
    };
    format!("{step} · {} spent", view.cost)
}

fn session_line(view: &RunView, session: &SessionView) -> String {
    let subject = session.item.as_ref().map_or_else(
        || "all changed items".into(),
        |item| format!("{} {}", short_key(item), clip(view.title(item), 30)),
    );
    let state = session
        .stopping
        .as_ref()
        .map_or_else(|| in_words(session.verdict), |reason| format!("stopping: {reason}"));
    let last = if session.last_progress.is_empty() {
        String::new()
    } else {
        format!(" · {}", clip(&session.last_progress, 30))
    };
    let limit = session.limit_ms / 60_000;
    let (stage, most) = (session.stage, session.worst_case);
    format!("of {limit} min · {stage} {subject} · {state}{last} · ≤ {most}")
}
