//! What an agent in a namespace sees of the files of this machine: only what its session may access.
//! Every other folder is empty, and everything but its own folder is read-only, which also holds for
//! what Landlock does not restrict, such as times of files. An agent whose own sandbox makes mounts
//! cannot have Landlock's rules for files: for it these mounts are the only wall. Whatever fails
//! here, the agent is not started.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use nix::fcntl::{OFlag, open};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::stat::Mode;

use crate::confinement::Confinement;
use crate::process::system;

/// Folders of the system that stay: software, and the processes of the session.
const KEPT: [&str; 9] = ["usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "nix", "proc"];

/// Of `/dev`, where no mount makes anything read-only: disks, terminals of the user, file systems
/// whose answers never come. A sandbox makes terminals of its own.
const DEVICES: [&str; 6] =
    ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];
const STREAMS: [(&str, &str); 4] = [
    ("/dev/fd", "/proc/self/fd"),
    ("/dev/stdin", "/proc/self/fd/0"),
    ("/dev/stdout", "/proc/self/fd/1"),
    ("/dev/stderr", "/proc/self/fd/2"),
];

/// Root may write these without a capability, and one of them names a program that the kernel runs.
const SETTINGS: [&str; 6] =
    ["/proc/sys", "/proc/sysrq-trigger", "/proc/bus", "/proc/fs", "/proc/irq", "/proc/scsi"];

/// Shared by all programs; a session has its own, and may write them.
const TEMPORARY: [&str; 2] = ["/tmp", "/dev/shm"];

/// Whether this namespace can have mounts of its own that are read-only: tried and undone.
pub fn is_possible() -> bool {
    let Some(place) = TEMPORARY.iter().map(Path::new).find(|path| path.is_dir()) else {
        return false;
    };
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    if mount(Some("tmpfs"), place, Some("tmpfs"), flags, Some("size=64k")).is_err() {
        return false;
    }
    let works = system::set_read_only(place, true, true).is_ok()
        && system::set_read_only(place, false, false).is_ok();
    umount2(place, MntFlags::MNT_DETACH).is_ok() && works
}

/// Changes the mounts of this process, which must be in a namespace of its own. `more` are further
/// paths to keep.
pub fn enter(allowed: &Confinement, more: &[&Path]) -> io::Result<()> {
    let lists = [&allowed.read, &allowed.execute, &allowed.write, &allowed.devices];
    let mut kept: Vec<PathBuf> = lists.into_iter().flatten().cloned().collect();
    kept.extend(DEVICES.map(PathBuf::from));
    let mut links: Vec<(PathBuf, PathBuf)> = kept
        .iter()
        .map(PathBuf::as_path)
        .chain(more.iter().copied())
        .flat_map(|path| links_on(path, MAX_LINKS))
        .collect();
    links.extend(STREAMS.map(|(path, target)| (path.into(), target.into())));
    // A folder of which a part is closed is only listed: its other parts are kept one by one.
    let is_listed =
        |path: &Path| fs::canonicalize(path).is_ok_and(|real| allowed.list.contains(&real));
    let whole = more.iter().filter(|path| !is_listed(path));
    kept.extend(whole.map(|path| (*path).to_owned()));
    let mut hidden = Vec::new();
    for entry in fs::read_dir("/")?.flatten() {
        let name = entry.file_name();
        let stays = KEPT.iter().any(|kept| name == *kept);
        if entry.file_type()?.is_dir() && !stays {
            hidden.push(entry.path());
        }
    }
    hidden.push("/dev/shm".into());
    // A folder that is allowed as a whole stays as it is.
    let real: Vec<PathBuf> = kept.iter().filter_map(|path| fs::canonicalize(path).ok()).collect();
    let is_kept = |folder: &PathBuf| real.iter().any(|path| folder.starts_with(path));
    hidden.retain(|folder| folder.is_dir() && !is_kept(folder));
    // Before anything is hidden: what stays is found by its descriptor afterwards.
    let plans: Vec<ViewPlan> =
        hidden.iter().map(|folder| ViewPlan::new(folder, &real, &links)).collect();
    for plan in &plans {
        plan.carry_out()?;
    }
    for path in &allowed.list {
        fs::create_dir_all(path)?;
        // A mount of its own stays read-only where the folder above is writable.
        bind(path, path)?;
    }
    for path in allowed.write.iter().filter(|path| path.exists()) {
        bind(path, path)?;
    }
    system::set_read_only(Path::new("/"), true, true)?;
    let open = allowed.write.iter().map(PathBuf::as_path).filter(|path| path.exists());
    let is_own = |path: &&Path| hidden.iter().any(|folder| folder == *path);
    let temporary = TEMPORARY.iter().map(Path::new).filter(is_own);
    // The sandbox writes the maps of its own namespace there.
    for path in open.chain(temporary).chain([Path::new("/proc")]) {
        system::set_read_only(path, false, false)?;
    }
    if nix::unistd::getuid().is_root() {
        for path in SETTINGS.iter().map(Path::new).filter(|path| path.exists()) {
            bind(path, path)?;
            system::set_read_only(path, true, true)?;
        }
    }
    Ok(())
}

/// Deeper chains are loops.
const MAX_LINKS: u32 = 40;

/// Every link on the way to a path, with its target: a program or a code base may be named by them.
fn links_on(path: &Path, left: u32) -> Vec<(PathBuf, PathBuf)> {
    let (mut found, mut at) = (Vec::new(), PathBuf::new());
    for part in path.components() {
        at.push(part);
        let Ok(target) = fs::read_link(&at) else { continue };
        let whole = at.parent().unwrap_or(Path::new("/")).join(&target);
        found.push((at.clone(), target));
        if left > 0 {
            found.extend(links_on(&whole, left - 1));
        }
        match fs::canonicalize(&at) {
            Ok(real) => at = real,
            Err(_) => break,
        }
    }
    found
}

/// A folder that becomes empty but for some of its content.
struct ViewPlan<'a> {
    folder: &'a Path,
    /// Real paths, parents first, each opened.
    kept: Vec<(PathBuf, bool, OwnedFd)>,
    /// Links, with their targets.
    links: Vec<(PathBuf, PathBuf)>,
}

impl<'a> ViewPlan<'a> {
    fn new(folder: &'a Path, real: &[PathBuf], links: &[(PathBuf, PathBuf)]) -> Self {
        let mut plan = Self { folder, kept: Vec::new(), links: links.to_vec() };
        plan.links.retain(|(path, _)| path.starts_with(folder));
        let mut real = real.to_vec();
        real.retain(|path| path.starts_with(folder) && path != folder);
        real.sort();
        real.dedup();
        for path in real {
            let known = plan
                .kept
                .iter()
                .any(|(parent, is_folder, _)| *is_folder && path.starts_with(parent));
            let flags = OFlag::O_PATH | OFlag::O_CLOEXEC;
            if let (false, Ok(found)) = (known, open(&path, flags, Mode::empty())) {
                let is_folder = path.is_dir();
                plan.kept.push((path, is_folder, found));
            }
        }
        plan
    }

    fn carry_out(&self) -> io::Result<()> {
        let is_temporary = TEMPORARY.iter().any(|path| self.folder == Path::new(path));
        let options = if is_temporary { "mode=1777,size=64m" } else { "mode=0755,size=1m" };
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
        // Where it is in another one that is empty now.
        fs::create_dir_all(self.folder)?;
        mount(Some("tmpfs"), self.folder, Some("tmpfs"), flags, Some(options))?;
        for (path, is_folder, found) in &self.kept {
            fs::create_dir_all(path.parent().unwrap_or(self.folder))?;
            match is_folder {
                true => fs::create_dir_all(path)?,
                false => drop(File::create(path)?),
            }
            bind(Path::new(&format!("/proc/self/fd/{}", found.as_raw_fd())), path)?;
        }
        for (path, target) in &self.links {
            fs::create_dir_all(path.parent().unwrap_or(self.folder))?;
            // Where its folder is kept as a whole, it is there.
            std::os::unix::fs::symlink(target, path).ok();
        }
        Ok(())
    }
}

fn bind(from: &Path, to: &Path) -> io::Result<()> {
    let flags = MsFlags::MS_BIND | MsFlags::MS_REC;
    mount(Some(from), to, None::<&str>, flags, None::<&str>).map_err(Into::into)
}
