//! Writer of every log line. Lines may quote trackers, agents and helpers, so characters that act
//! on a terminal or a reader are removed.

use std::io::{self, Write};

use tracing_subscriber::fmt::MakeWriter;

use crate::model::{is_acting, without_pipeline_commands};

/// Creates writers that pass only plain text.
pub struct PlainWriters<M> {
    pub inner: M,
    /// Lines are coloured. The formatter then removes escapes in fields and messages.
    pub is_coloured: bool,
}

impl<'a, M: MakeWriter<'a>> MakeWriter<'a> for PlainWriters<M> {
    type Writer = PlainWriter<M::Writer>;

    fn make_writer(&'a self) -> Self::Writer {
        PlainWriter { inner: self.inner.make_writer(), is_coloured: self.is_coloured }
    }
}

/// Passes only plain text. The formatter writes a whole line at once.
pub struct PlainWriter<W> {
    inner: W,
    is_coloured: bool,
}

impl<W: Write> Write for PlainWriter<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let passes = |c: &char| !is_acting(*c) || self.is_coloured && *c == '\u{1b}';
        let plain: String = String::from_utf8_lossy(line).chars().filter(passes).collect();
        self.inner.write_all(without_pipeline_commands(&plain).as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::settings::LogFormat;

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_others_say_does_not_act_in_the_log() {
        use tracing_subscriber::layer::SubscriberExt as _;
        for format in [LogFormat::Human, LogFormat::Json] {
            let kept = Kept::default();
            let writer = kept.clone();
            let layer = super::super::logging::plain_layer(format, move || writer.clone(), false);
            tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
                let said =
                    "red \u{1b}[31m \u{9b}1m \u{202e}exe.txt\u{2066} \u{200b}\u{feff}##vso[x]end";
                tracing::error!(error = said, "helper said {said}");
            });
            let log = String::from_utf8(kept.0.lock().unwrap().clone()).unwrap();
            assert!(log.contains("exe.txt") && log.contains("end"), "{log}");
            assert!(log.contains("## vso[x]") && !log.contains("##vso["), "{log}");
            let acting: Vec<char> = log.chars().filter(|c| is_acting(*c)).collect();
            assert_eq!(acting, Vec::<char>::new(), "{format:?}: {log:?}");
        }
    }
}
