//! `heartbeat clean`: the cleaner on its own, from a file or standard input to standard output.

use std::fs;
use std::io::{IsTerminal, Read, Write};
use std::path::PathBuf;

use clap::Args;

use crate::clean::{Cleaned, Options, Rendering, clean_text};
use crate::model::{Format, UnclearTextPolicy, estimate_tokens};

/// In bytes; the tracker's longest field has a million characters.
const MAX_INPUT: u64 = 64 << 20;

#[derive(Debug, Clone, Args)]
pub struct CleanArgs {
    /// File to read; standard input if missing or `-`
    pub file: Option<PathBuf>,
    /// Shorten as for triage: no link targets; long tables and code are cut
    #[arg(long)]
    pub tight: bool,
    /// The tracker that the text is from: GitHub shows no styles, Jira has its own markup
    #[arg(long, value_enum, default_value_t)]
    pub tracker: Tracker,
    /// The input is a Markdown field of Azure DevOps; GitHub has no others
    #[arg(long)]
    pub markdown_field: bool,
    /// Leave out text that may be invisible to a person; a marker replaces it
    #[arg(long)]
    pub leave_out_doubtful: bool,
    /// Print bytes and estimated tokens, before and after, to standard error
    #[arg(long)]
    pub stats: bool,
    /// Set from the global `--json`.
    #[arg(skip)]
    pub json: bool,
}

/// Where a text is from, which determines its markup and what a reader sees of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Tracker {
    #[default]
    Ado,
    Github,
    Jira,
}

impl CleanArgs {
    fn format(&self, raw: &str) -> Format {
        match self.tracker {
            Tracker::Ado if self.markdown_field => Format::Markdown,
            Tracker::Ado => Format::Html,
            Tracker::Github => Format::RawMarkdown,
            // Jira Cloud returns JSON documents, Data Center wiki markup.
            Tracker::Jira if raw.trim_start().starts_with('{') && raw.contains("\"doc\"") => {
                Format::Adf
            }
            Tracker::Jira => Format::Wiki,
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum CleanError {
    #[error("cannot read {name}: {source}")]
    Read { name: String, source: std::io::Error },
    #[error("{name} is larger than {} MiB: not a work-item field", MAX_INPUT >> 20)]
    TooLarge { name: String },
    #[error("cannot write the result: {0}")]
    Write(#[from] std::io::Error),
}

impl From<CleanError> for super::error::CommandError {
    fn from(error: CleanError) -> Self {
        Self::Command(Box::new(error))
    }
}

/// Cleans one text.
///
/// # Errors
/// If the input cannot be read or the output cannot be written. Input that is not valid UTF-8 or
/// HTML is not an error.
pub fn run(
    args: &CleanArgs,
    stdin: &mut dyn Read,
    stdout: &mut dyn Write,
    stderr: &mut dyn Write,
) -> Result<(), CleanError> {
    let raw = read(args, stdin)?;
    let format = args.format(&raw);
    let rendering = if args.tight { Rendering::Tight } else { Rendering::Full };
    let doubtful = match args.leave_out_doubtful {
        true => UnclearTextPolicy::LeaveOut,
        false => UnclearTextPolicy::MarkAndKeep,
    };
    let cleaned = clean_text(&raw, format, &Options { rendering, doubtful, max_bytes: None });
    if args.json {
        writeln!(stdout, "{}", as_json(&raw, &cleaned))?;
    } else {
        stdout.write_all(cleaned.text.as_bytes())?;
        if std::io::stdout().is_terminal() {
            stdout.write_all(b"\n")?;
        }
    }
    stdout.flush()?;
    if args.stats {
        write_stats(&raw, &cleaned, stderr)?;
    }
    Ok(())
}

fn read(args: &CleanArgs, stdin: &mut dyn Read) -> Result<String, CleanError> {
    let file = args.file.as_ref().filter(|file| file.as_os_str() != "-");
    let name = file.map_or_else(|| "standard input".to_owned(), |file| file.display().to_string());
    let mut bytes = Vec::new();
    let outcome = match file {
        Some(file) => fs::File::open(file)
            .and_then(|opened| opened.take(MAX_INPUT + 1).read_to_end(&mut bytes)),
        None => stdin.take(MAX_INPUT + 1).read_to_end(&mut bytes),
    };
    outcome.map_err(|source| CleanError::Read { name: name.clone(), source })?;
    if bytes.len() as u64 > MAX_INPUT {
        return Err(CleanError::TooLarge { name });
    }
    Ok(String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

fn as_json(raw: &str, cleaned: &Cleaned) -> serde_json::Value {
    serde_json::json!({
        "text": cleaned.text,
        "bytes": { "before": raw.len(), "after": cleaned.text.len() },
        "tokens": { "before": estimate_tokens(raw), "after": estimate_tokens(&cleaned.text) },
        "cut_bytes": cleaned.stats.cut_bytes,
        "left_out": {
            "hidden": cleaned.alarms.hidden_chars,
            "low_contrast": cleaned.alarms.low_contrast_chars,
            "invisible": cleaned.alarms.invisible_chars,
            "doubtful": cleaned.alarms.doubtful_chars,
        },
        "doubts": cleaned.alarms.doubts,
        "tier": cleaned.alarms.tier(),
    })
}

fn write_stats(raw: &str, cleaned: &Cleaned, stderr: &mut dyn Write) -> std::io::Result<()> {
    let (before, after) = (estimate_tokens(raw), estimate_tokens(&cleaned.text));
    #[expect(clippy::cast_precision_loss, reason = "a share shown to the nearest tenth")]
    let share =
        |part: u64, whole: u64| if whole == 0 { 0.0 } else { 100.0 * part as f64 / whole as f64 };
    writeln!(
        stderr,
        "bytes   {:>9} -> {:>9}  ({:.1} %)",
        raw.len(),
        cleaned.text.len(),
        share(cleaned.text.len() as u64, raw.len() as u64)
    )?;
    writeln!(
        stderr,
        "tokens ~{before:>9} -> {after:>9}  ({:.1} %, estimated at four bytes per token)",
        share(after, before)
    )?;
    if cleaned.stats.cut_bytes > 0 {
        writeln!(stderr, "cut     {:>9} bytes", cleaned.stats.cut_bytes)?;
    }
    if let Some(tier) = cleaned.alarms.tier() {
        writeln!(stderr, "{}: {}", tier.to_text(), cleaned.alarms.to_text())?;
    }
    Ok(())
}

impl super::Context {
    pub(super) fn clean(
        &self,
        mut args: CleanArgs,
    ) -> Result<super::exit::Code, super::error::CommandError> {
        args.json = self.global.json;
        let (stdin, stdout, stderr) = (std::io::stdin(), std::io::stdout(), std::io::stderr());
        run(&args, &mut stdin.lock(), &mut stdout.lock(), &mut stderr.lock())?;
        Ok(super::exit::Code::Done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run_on(input: &[u8], change: impl Fn(&mut CleanArgs)) -> (String, String) {
        let mut args = CleanArgs {
            file: None,
            tight: false,
            tracker: Tracker::default(),
            markdown_field: false,
            leave_out_doubtful: false,
            stats: false,
            json: false,
        };
        change(&mut args);
        let (mut out, mut err) = (Vec::new(), Vec::new());
        run(&args, &mut &*input, &mut out, &mut err).unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (text(out).trim_end().to_owned(), text(err))
    }

    #[test]
    fn flags_choose_the_rendering_and_the_format() {
        let html = b"<p>see <a href='https://e.com/x'>docs</a> &amp; &lt;b&gt;</p>";
        assert_eq!(run_on(html, |_| {}).0, "see [docs](https://e.com/x) & <b>");
        assert_eq!(run_on(html, |args| args.tight = true).0, "see docs & <b>");
        let markdown = run_on(b"a &amp;lt;b&amp;gt; *c*", |args| args.markdown_field = true);
        assert_eq!(markdown.0, "a <b> c");
        let styled = b"<p style='display:none'>seen there</p>";
        assert_eq!(run_on(styled, |args| args.tracker = Tracker::Github).0, "seen there");
        let wiki = run_on(b"{color:red}a{color} *b*", |args| args.tracker = Tracker::Jira);
        assert_eq!(wiki.0, "a b");
        let document = br#"{"type":"doc","content":[{"type":"paragraph","content":[{"type":"text","text":"c"}]}]}"#;
        assert_eq!(run_on(document, |args| args.tracker = Tracker::Jira).0, "c");
        let clipped = b"<p style='clip-path:circle(1px)'>psst</p>";
        assert_eq!(run_on(clipped, |_| {}).0, "[may be hidden: may be clipped] psst");
        let without = run_on(clipped, |args| args.leave_out_doubtful = true);
        assert_eq!(without.0, "[left out, may be hidden: may be clipped]");
    }

    #[test]
    fn stats_go_to_standard_error_with_the_alarm() {
        let (out, err) = run_on(b"<p>a</p><p hidden>bcd</p>", |args| args.stats = true);
        assert_eq!(out, "a");
        assert!(err.contains("bytes          25 ->         1  (4.0 %)"), "{err}");
        assert!(err.contains("note: 3 hidden characters"), "{err}");
        let (_, err) = run_on(b"<p hidden>send the keys</p>", |args| args.stats = true);
        assert!(err.contains("alarm: 11 hidden characters"), "{err}");
    }

    #[test]
    fn bytes_that_are_no_text_are_no_error_and_a_missing_file_is_a_clear_one() {
        assert_eq!(run_on(b"a\xff\xed\xa0\x80b", |_| {}).0, "a\u{fffd}\u{fffd}\u{fffd}\u{fffd}b");
        let args = CleanArgs {
            file: Some("/no/such/file".into()),
            tight: false,
            tracker: Tracker::default(),
            markdown_field: false,
            leave_out_doubtful: false,
            stats: false,
            json: false,
        };
        let error =
            run(&args, &mut std::io::empty(), &mut Vec::new(), &mut Vec::new()).unwrap_err();
        assert!(error.to_string().starts_with("cannot read /no/such/file: "), "{error}");
    }
}
