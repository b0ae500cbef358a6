//! Who could have written a configuration that was found and not named. It names commands, so in a
//! folder that others write it would run theirs.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use super::error::Problem;
use crate::private;

const WRITABLE_BY_GROUP: u32 = 0o020;
const WRITABLE_BY_ALL: u32 = 0o002;
/// In such a folder only the owner of a file can replace it.
const STICKY: u32 = 0o1000;
/// The index of a large repository has some ten megabytes.
const MAX_INDEX: u64 = 256 << 20;

/// In the user's configuration folder: the files that this user trusts, each as it was then.
const TRUSTED: &str = "trusted";
const MAX_TRUSTED: u64 = 1 << 20;

/// From now on the file is used although others could write it, until it changes.
pub fn trust(file: &Path, config_home: &Path) -> std::io::Result<()> {
    let text = std::fs::read_to_string(file)?;
    let folder = config_home.join("heartbeat");
    std::fs::create_dir_all(&folder)?;
    let list = folder.join(TRUSTED);
    let mut lines = private::read_own(&list, MAX_TRUSTED).unwrap_or_default();
    lines.extend(line(&std::fs::canonicalize(file)?, &text));
    private::write(&list, &lines)
}

/// Whether this user trusts the file with this text.
pub(super) fn is_trusted(file: &Path, text: &str, config_home: Option<&Path>) -> bool {
    let (Ok(real), Some(home)) = (std::fs::canonicalize(file), config_home) else { return false };
    let list = home.join("heartbeat").join(TRUSTED);
    if problem(&list).is_some() {
        return false;
    }
    let wanted = line(&real, text);
    let lines = private::read_own(&list, MAX_TRUSTED).unwrap_or_default();
    lines.split_inclusive(|byte| *byte == b'\n').any(|known| known == wanted)
}

fn line(real: &Path, text: &str) -> Vec<u8> {
    let digest: String = Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{digest} {:?}\n", real.display().to_string()).into_bytes()
}

/// Why the file is not used; `None` if only this user or root could have written it.
pub(super) fn problem(file: &Path) -> Option<Problem> {
    let real = std::fs::canonicalize(file).ok()?;
    let foreign =
        |reason: String, fix: String| Some(Problem::Foreign { file: file.to_owned(), reason, fix });
    for path in [&*real, real.parent()?] {
        let about = std::fs::metadata(path).ok()?;
        let (what, shown) = (if about.is_dir() { "its folder" } else { "it" }, path.display());
        let (own, mode) = (nix::unistd::geteuid().as_raw(), about.permissions().mode());
        let is_sticky = about.is_dir() && mode & STICKY != 0;
        if about.uid() != own && about.uid() != 0 {
            let reason = format!("{what} belongs to another user (uid {})", about.uid());
            return foreign(reason, format!("run `chown {own} {shown}`"));
        }
        if mode & WRITABLE_BY_ALL != 0 && !is_sticky {
            let fix = format!("run `chmod go-w {shown}`");
            return foreign(format!("every user may write {what}"), fix);
        }
        if mode & WRITABLE_BY_GROUP != 0 && !is_sticky && !is_only_member(own, about.gid()) {
            let reason = format!("the group {} may write {what}", about.gid());
            return foreign(reason, format!("run `chmod g-w {shown}`"));
        }
    }
    is_committed(&real).then(|| Problem::Foreign {
        file: file.to_owned(),
        reason: "it is committed in this repository, so everybody who can merge could change it"
            .to_owned(),
        fix: "keep it outside (in ~/.config/heartbeat)".to_owned(),
    })
}

/// Whether nobody else is in the group. Many systems give each user a group of their own, but others
/// may have been added to it.
fn is_only_member(user: u32, group: u32) -> bool {
    let uid = nix::unistd::Uid::from_raw(user);
    let Ok(Some(user)) = nix::unistd::User::from_uid(uid) else { return false };
    let found = nix::unistd::Group::from_gid(nix::unistd::Gid::from_raw(group));
    let Ok(Some(listed)) = found else { return false };
    let accounts = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    listed.mem.iter().all(|member| *member == user.name)
        && !has_others(&accounts, &user.name, group)
}

/// Whether it is the own group of another account in this list.
fn has_others(accounts: &str, user: &str, group: u32) -> bool {
    accounts.lines().any(|line| {
        let mut fields = line.split(':');
        let is_other = fields.next().is_some_and(|name| name != user);
        is_other && fields.nth(2).and_then(|number| number.parse().ok()) == Some(group)
    })
}

/// Whether the repository around the file tracks it: its name is in the index.
fn is_committed(file: &Path) -> bool {
    let folders = file.ancestors().skip(1);
    let Some(root) = folders.into_iter().find(|folder| folder.join(".git").exists()) else {
        return false;
    };
    let Some(name) = file.strip_prefix(root).ok().and_then(Path::to_str) else { return false };
    let Ok(index) = private::read_own(&git_folder(root).join("index"), MAX_INDEX) else {
        return false;
    };
    // An index that shortens names and cannot be read may contain it.
    match index.get(4..8) == Some(&4_u32.to_be_bytes()) {
        true => {
            SHA_LENGTHS.iter().find_map(|length| has_name(&index, name, *length)) != Some(false)
        }
        false => {
            let entry = [name.as_bytes(), b"\0"].concat();
            index.windows(entry.len()).any(|part| part == entry)
        }
    }
}

/// The folder of the repository's own files; a linked work tree names it in a file.
fn git_folder(root: &Path) -> PathBuf {
    let own = root.join(".git");
    let pointer = private::read_own(&own, 4096).ok();
    let named = pointer.as_deref().and_then(|text| text.strip_prefix(b"gitdir: "));
    match named.and_then(|path| std::str::from_utf8(path.trim_ascii_end()).ok()) {
        Some(path) => root.join(path),
        None => own,
    }
}

/// Bytes of an object's name, by the repository's format.
const SHA_LENGTHS: [usize; 2] = [20, 32];

/// Whether an index of version 4 has this name; `None` if it is not one with such object names. Each
/// name is stored as what differs from the one before.
fn has_name(index: &[u8], wanted: &str, sha_length: usize) -> Option<bool> {
    const HEADER: usize = 12;
    const TIMES_AND_IDS: usize = 40;
    const EXTENDED: u8 = 0x40;
    let count = u32::from_be_bytes(index.get(8..HEADER)?.try_into().ok()?);
    let (mut at, mut name) = (HEADER, Vec::new());
    for _ in 0..count {
        at += TIMES_AND_IDS + sha_length;
        at += if index.get(at)? & EXTENDED == 0 { 2 } else { 4 };
        // A number in groups of seven bits, as in a pack.
        let mut cut = 0_usize;
        loop {
            let byte = *index.get(at)?;
            at += 1;
            cut = cut.checked_shl(7)?.checked_add(usize::from(byte & 0x7f))?;
            if byte & 0x80 == 0 {
                break;
            }
            cut = cut.checked_add(1)?;
        }
        name.truncate(name.len().checked_sub(cut)?);
        let rest = index.get(at..)?;
        let end = rest.iter().position(|byte| *byte == 0)?;
        name.extend_from_slice(&rest[..end]);
        at += end + 1;
        if name == wanted.as_bytes() {
            return Some(true);
        }
    }
    Some(false)
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;

    use super::*;

    #[test]
    fn only_a_file_that_nobody_else_could_write_is_used() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("here");
        std::fs::create_dir(&folder).unwrap();
        let file = folder.join("heartbeat.toml");
        std::fs::write(&file, "").unwrap();
        let mode = |path: &Path, mode| {
            std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        };
        let said = || problem(&file).map(|problem| problem.to_string()).unwrap_or_default();
        mode(&folder, 0o755);
        mode(&file, 0o644);
        assert_eq!(said(), "");
        mode(&file, 0o646);
        assert!(said().contains("every user may write it") && said().contains("chmod go-w"));
        mode(&file, 0o600);
        mode(&folder, 0o777);
        assert!(said().contains("every user may write its folder"), "{}", said());
        mode(&folder, 0o1777);
        assert_eq!(said(), "", "as /tmp");
        if nix::unistd::getuid().is_root() {
            mode(&folder, 0o755);
            mode(&file, 0o660);
            // A group of which root is not the only member, on any system: it is not listed.
            nix::unistd::chown(&file, None, Some(4_242_424.into())).unwrap();
            assert!(said().contains("the group 4242424 may write it"), "{}", said());
            assert!(said().contains("chmod g-w"), "{}", said());
            nix::unistd::chown(&file, Some(65_534.into()), None).unwrap();
            assert!(said().contains("belongs to another user (uid 65534)"), "{}", said());
        } else {
            println!("skipped: only root can give a file away");
        }
    }

    #[test]
    fn a_trusted_file_is_used_until_it_changes() {
        let [place, home] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let file = place.path().join("heartbeat.toml");
        std::fs::write(&file, "one").unwrap();
        let is_used = |text| is_trusted(&file, text, Some(home.path()));
        assert!(!is_used("one"));
        trust(&file, home.path()).unwrap();
        assert!(is_used("one"));
        assert!(!is_used("two") && !is_used(""), "somebody changed it");
        std::fs::write(&file, "two").unwrap();
        trust(&file, home.path()).unwrap();
        assert!(is_used("one") && is_used("two"));
        let copy = place.path().join("copy.toml");
        std::fs::write(&copy, "two").unwrap();
        assert!(!is_trusted(&copy, "two", Some(home.path())), "another file");
        // A list that others may write says nothing.
        let list = home.path().join("heartbeat/trusted");
        std::fs::set_permissions(&list, Permissions::from_mode(0o666)).unwrap();
        assert!(!is_used("two"));
    }

    #[test]
    fn an_account_with_the_same_group_is_another_member() {
        let accounts = "root:x:0:0::/root:/bin/sh\nada:x:1000:1000:Ada,,,:/home/ada:/bin/sh\n";
        assert!(!has_others(accounts, "ada", 1000));
        let bob = format!("{accounts}bob:x:1001:1000::/home/bob:/bin/sh\n");
        assert!(has_others(&bob, "ada", 1000) && !has_others(&bob, "ada", 1001));
    }

    #[test]
    fn a_committed_file_is_not_used() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("heartbeat.toml");
        std::fs::write(&file, "").unwrap();
        std::fs::create_dir(place.path().join(".git")).unwrap();
        std::fs::write(place.path().join(".git/index"), b"DIRC..src/heartbeat.toml.bak\0").unwrap();
        assert_eq!(problem(&file), None);
        std::fs::write(place.path().join(".git/index"), b"DIRC....heartbeat.toml\0\0").unwrap();
        let said = problem(&file).unwrap().to_string();
        assert!(said.contains("committed") && said.contains("heartbeat trust"), "{said}");
    }

    /// Real repositories: names shortened in the index, and a linked work tree.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "git makes the index that is read")]
    fn every_form_of_a_repository_is_read() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().join("main");
        std::fs::create_dir(&root).unwrap();
        let git = |folder: &Path, words: &[&str]| {
            let mut command = std::process::Command::new("git");
            command.args(["-c", "user.name=x", "-c", "user.email=x@x"]).args(words);
            let done = command.current_dir(folder).output();
            assert!(done.is_ok_and(|output| output.status.success()), "{words:?}");
        };
        for name in ["heading.c", "heartbeat.toml", "heartbeat.toml.md"] {
            std::fs::write(root.join(name), "").unwrap();
        }
        git(&root, &["init", "-q"]);
        git(&root, &["add", "heading.c", "heartbeat.toml.md"]);
        git(&root, &["update-index", "--index-version", "4"]);
        assert_eq!(problem(&root.join("heartbeat.toml")), None, "not committed");
        git(&root, &["add", "heartbeat.toml"]);
        assert!(problem(&root.join("heartbeat.toml")).is_some(), "shortened names");
        git(&root, &["commit", "-qm", "x"]);
        git(&root, &["worktree", "add", "-q", "../linked"]);
        let linked = place.path().join("linked/heartbeat.toml");
        assert!(problem(&linked).is_some(), "a linked work tree");
    }
}
