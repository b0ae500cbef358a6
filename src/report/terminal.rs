//! Progress for a waiting person: one live block on a terminal, plain lines elsewhere.

use std::io::Write;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use jiff::Timestamp;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use crate::clock::Clock;
use crate::event::fold::{RunView, SessionView, Step};
use crate::event::{Event, Recorded};
use crate::model::text::{clip, in_words};
use crate::model::{plain_text, without_pipeline_commands};
use crate::report::lines::short_key;
use crate::report::narrator::Narrator;
use crate::report::paint::is_own_colour;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// A live block with lines above it.
    Live,
    /// One line per event.
    Lines,
    Silent,
}

/// Redraw interval of the live block.
const DRAW_EVERY: Duration = Duration::from_millis(150);

/// Shows events until the run has ended or its journal is closed. Progress goes to standard error,
/// so that standard output contains only results.
pub async fn show(mut events: Receiver<Recorded>, progress: Progress, clock: Clock) {
    let (mut view, mut narrator) = (RunView::default(), Narrator::default());
    let screen = (progress == Progress::Live).then(Screen::new);
    let say = |lines: Vec<String>| {
        for text in lines {
            match (&screen, progress) {
                (Some(screen), _) => screen.say(&text),
                (None, Progress::Lines) => write_line(&text),
                (None, _) => {}
            }
        }
    };
    let mut timer = tokio::time::interval(DRAW_EVERY);
    loop {
        let recorded = tokio::select! {
            received = events.recv() => match received {
                Ok(recorded) => recorded,
                Err(RecvError::Lagged(_)) => continue,
                Err(RecvError::Closed) => break,
            },
            _ = timer.tick(), if screen.is_some() => {
                if let Some(screen) = &screen {
                    screen.draw(&view, clock.now());
                }
                continue;
            }
        };
        view.apply(&recorded);
        say(narrator.lines(&recorded, &view));
        if matches!(recorded.event, Event::RunEnded { .. }) {
            break;
        }
    }
    say(narrator.rest(&view));
    if let Some(screen) = screen {
        screen.clear();
    }
}

/// Prints one line unless progress is silent.
pub fn say(progress: Progress, text: &str) {
    if progress != Progress::Silent {
        write_line(text);
    }
}

/// Makes text that may quote a tracker or an agent safe for a terminal: our colours stay, all other
/// control characters are removed.
pub fn text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for (number, part) in text.split('\u{1b}').enumerate() {
        if number > 0 && is_own_colour(part) {
            out.push('\u{1b}');
        }
        out.push_str(&plain_text(part));
    }
    out
}

/// A closed standard error does not stop the run.
fn write_line(text: &str) {
    let mut stderr = std::io::stderr().lock();
    drop(writeln!(stderr, "{}", without_pipeline_commands(&self::text(text))));
}

/// One block at the bottom of the terminal: the run's step, and a line per live session. It is one
/// multi-line bar, drawn and removed as a whole: with one bar per session, the first drawing of a
/// new bar leaves a copy of the block above it.
struct Screen {
    block: ProgressBar,
}

impl Screen {
    fn new() -> Self {
        let block = ProgressBar::new_spinner().with_style(
            ProgressStyle::with_template("{spinner} {msg}")
                // The template is constant and always parses.
                .unwrap_or_else(|_| ProgressStyle::default_spinner()),
        );
        Self { block }
    }

    fn say(&self, text: &str) {
        self.block.println(clip(&self::text(text), columns()));
    }

    fn draw(&self, view: &RunView, now: Timestamp) {
        let width = columns().saturating_sub(2);
        let session = |session: &SessionView| format!("\n  {}", session_line(view, session, now));
        let lines: String = view.sessions.values().map(session).collect();
        let text = self::text(&format!("{}{lines}", headline(view)));
        let clipped: Vec<String> = text.lines().map(|line| clip(line, width)).collect();
        self.block.set_message(clipped.join("\n"));
        self.block.tick();
    }

    fn clear(self) {
        self.block.finish_and_clear();
    }
}

fn columns() -> usize {
    usize::from(console::Term::stderr().size().1).max(20)
}

fn headline(view: &RunView) -> String {
    let step = match view.step {
        Step::Starting => "starting".into(),
        Step::Fetching => format!("fetching: {} items so far", view.fetched),
        Step::Triaging => format!("triage: {} of {} verdicts", view.triaged, view.to_triage),
        Step::Analysing => {
            let failed = match view.failed {
                0 => String::new(),
                failed => format!(", {failed} failed"),
            };
            format!("analysis: {} of {} findings{failed}", view.analysed, view.to_analyse)
        }
        Step::Ended => "done".into(),
    };
    let waits = view.waits_for.as_ref().filter(|_| view.sessions.is_empty());
    let waits = waits.map(|what| format!(" · waits: {what}")).unwrap_or_default();
    format!("{step} · {} spent{waits}", view.cost.with_estimate(view.cost_estimated))
}

fn session_line(view: &RunView, session: &SessionView, now: Timestamp) -> String {
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
    let elapsed = now.duration_since(session.started_at).as_secs().max(0);
    let limit = session.limit_ms / 60_000;
    let (stage, most) = (session.stage, session.worst_case);
    format!("{elapsed:>3} s of {limit} min · {stage} {subject} · {state}{last} · ≤ {most}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::paint::Paint;

    #[test]
    fn our_colours_reach_the_terminal_and_nothing_else_that_acts() {
        let paint = Paint::Colour;
        for own in [
            paint.bold("a"),
            paint.dim("a"),
            paint.red("a"),
            paint.yellow("a"),
            paint.green("a"),
            paint.cyan("a"),
        ] {
            assert_eq!(text(&own), own);
        }
        let hostile = "\u{1b}[2J\u{1b}[8mx\u{1b}]0;t\u{7}\u{1b}";
        assert_eq!(text(hostile), "[2J[8mx]0;t");
    }
}
