//! A log file with rotation; also detects rotation by another process.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::private;

/// Appends whole lines; keeps `keep` older files with a number, 1 being the newest.
#[derive(Debug)]
pub struct LogFile {
    path: PathBuf,
    max_size: u64,
    keep: u32,
    file: File,
}

impl LogFile {
    /// Opens the file for appending; creates its folder if missing.
    pub fn open(path: &Path, max_size: u64, keep: u32) -> io::Result<Self> {
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            private::create_folder(folder)?;
        }
        Ok(Self { path: path.into(), max_size, keep, file: append_to(path)? })
    }

    /// Reopens the path if another process has rotated our file.
    fn refresh(&mut self) -> io::Result<u64> {
        let ours = self.file.metadata()?;
        match fs::symlink_metadata(&self.path) {
            Ok(there) if (there.dev(), there.ino()) == (ours.dev(), ours.ino()) => Ok(there.len()),
            _ => {
                self.file = append_to(&self.path)?;
                Ok(self.file.metadata()?.len())
            }
        }
    }

    fn rotate(&mut self) -> io::Result<()> {
        if self.keep == 0 {
            fs::remove_file(&self.path)?;
        } else {
            for number in (1..self.keep).rev() {
                match fs::rename(self.numbered(number), self.numbered(number + 1)) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                    _ => {}
                }
            }
            fs::rename(&self.path, self.numbered(1))?;
        }
        self.file = append_to(&self.path)?;
        Ok(())
    }

    fn numbered(&self, number: u32) -> PathBuf {
        let mut name: OsString = self.path.clone().into_os_string();
        name.push(format!(".{number}"));
        name.into()
    }
}

fn append_to(path: &Path) -> io::Result<File> {
    // In a folder that others write, somebody may have put a link or a pipe there.
    private::open_regular_with(private::options().create(true).append(true), path)
}

impl Write for LogFile {
    /// Each call is one whole line: the subscriber writes that way.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let size = self.refresh()?;
        let would_be = size.saturating_add(u64::try_from(line.len()).unwrap_or(u64::MAX));
        if size > 0 && would_be > self.max_size {
            // If rotation fails, the log grows further instead of stopping.
            drop(self.rotate());
        }
        self.file.write_all(line)?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn line(n: usize) -> String {
        format!("line {n:04}\n")
    }

    #[test]
    fn no_line_is_lost_or_cut_and_the_oldest_files_go() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("logs/heartbeat.log");
        let mut log = LogFile::open(&path, 100, 3).unwrap();
        for n in 0..50 {
            log.write_all(line(n).as_bytes()).unwrap();
        }
        let mut all = String::new();
        for name in ["heartbeat.log.3", "heartbeat.log.2", "heartbeat.log.1", "heartbeat.log"] {
            let text = fs::read_to_string(path.with_file_name(name)).unwrap();
            assert!(text.len() <= 100 && text.ends_with('\n'), "{name}: {}", text.len());
            all.push_str(&text);
        }
        assert!(!path.with_file_name("heartbeat.log.4").exists());
        let newest: String = (0..50).map(line).collect();
        assert!(newest.ends_with(&all), "a gap or a doubled line:\n{all}");
        assert!(all.lines().count() >= 31);
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_file_that_was_moved_away_is_begun_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("heartbeat.log");
        let mut log = LogFile::open(&path, 1000, 1).unwrap();
        log.write_all(b"before\n").unwrap();
        fs::rename(&path, folder.path().join("moved")).unwrap();
        log.write_all(b"after\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "after\n");
        assert_eq!(fs::read_to_string(folder.path().join("moved")).unwrap(), "before\n");
    }

    #[test]
    fn neither_a_link_nor_a_pipe_is_written_to() {
        let folder = tempfile::tempdir().unwrap();
        let [target, link, pipe, log] =
            ["target", "link", "pipe", "log"].map(|name| folder.path().join(name));
        fs::write(&target, "kept").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        // With a reader, so that opening it would succeed.
        let _reader = fs::OpenOptions::new().read(true).write(true).open(&pipe).unwrap();
        for path in [&link, &pipe] {
            let refused = LogFile::open(path, 1000, 1).unwrap_err().to_string();
            assert!(refused.contains("not a regular file"), "{refused}");
        }
        let mut log_file = LogFile::open(&log, 1000, 1).unwrap();
        fs::remove_file(&log).unwrap();
        std::os::unix::fs::symlink(&target, &log).unwrap();
        log_file.write_all(b"later\n").unwrap_err();
        assert_eq!(fs::read_to_string(&target).unwrap(), "kept");
    }

    #[test]
    fn two_writers_share_one_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("heartbeat.log");
        let mut one = LogFile::open(&path, 60, 9).unwrap();
        let mut two = LogFile::open(&path, 60, 9).unwrap();
        for n in 0..12 {
            let writer = if n % 2 == 0 { &mut one } else { &mut two };
            writer.write_all(line(n).as_bytes()).unwrap();
        }
        let mut all = String::new();
        for n in (1..=9).rev() {
            let aside = folder.path().join(format!("heartbeat.log.{n}"));
            all.push_str(&fs::read_to_string(aside).unwrap_or_default());
        }
        all.push_str(&fs::read_to_string(&path).unwrap());
        assert_eq!(all, (0..12).map(line).collect::<String>());
    }
}
