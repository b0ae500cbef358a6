//! Process information on macOS, instead of `/proc`.
#![expect(unsafe_code, reason = "raw system calls; every block says why it is sound")]

use super::Stat;

/// The fields of `/proc/PID/stat`; times in microseconds since the epoch, CPU time in hundredths of
/// a second.
pub fn stat(pid: u32) -> Option<Stat> {
    let number = i32::try_from(pid).ok()?;
    // SAFETY: all-zero is a valid value of these plain structures.
    let mut info: libc::proc_bsdinfo = unsafe { std::mem::zeroed() };
    // SAFETY: as above.
    let mut task: libc::proc_taskinfo = unsafe { std::mem::zeroed() };
    fill(number, libc::PROC_PIDTBSDINFO, &mut info)?;
    // Not available for processes of other users; their CPU time counts as zero.
    fill(number, libc::PROC_PIDTASKINFO, &mut task);
    let used = nanoseconds(task.pti_total_user) + nanoseconds(task.pti_total_system);
    Some(Stat {
        pid,
        state: match info.pbi_status {
            5 => 'Z',
            4 => 'T',
            _ => 'S',
        },
        parent: info.pbi_ppid,
        own_ticks: used / 10_000_000,
        waited_ticks: 0,
        start_time: info.pbi_start_tvsec * 1_000_000 + info.pbi_start_tvusec,
        resident_pages: task.pti_resident_size / super::system::page_size().max(1),
        threads: u64::try_from(task.pti_threadnum).unwrap_or(1),
    })
}

/// Mach time runs at 24 MHz on Apple silicon and in nanoseconds elsewhere.
fn nanoseconds(mach: u64) -> u64 {
    if cfg!(target_arch = "aarch64") { mach.saturating_mul(125) / 3 } else { mach }
}

fn fill<T>(pid: i32, flavour: i32, into: &mut T) -> Option<()> {
    let size = i32::try_from(size_of::<T>()).ok()?;
    // SAFETY: the pointer is to `size` writable bytes of a plain structure.
    let got = unsafe { libc::proc_pidinfo(pid, flavour, 0, (&raw mut *into).cast(), size) };
    (got == size).then_some(())
}

pub fn all() -> Vec<u32> {
    // SAFETY: the pointer and the length in bytes describe the buffer given by `list`.
    list(|buffer, bytes| unsafe { libc::proc_listallpids(buffer.cast(), bytes) })
}

/// Direct children of a process.
pub fn children(pid: u32) -> Vec<u32> {
    let Ok(pid) = i32::try_from(pid) else { return Vec::new() };
    // SAFETY: the pointer and the length in bytes describe the buffer given by `list`.
    list(|buffer, bytes| unsafe { libc::proc_listchildpids(pid, buffer.cast(), bytes) })
}

fn list(call: impl Fn(*mut i32, i32) -> i32) -> Vec<u32> {
    let mut buffer = vec![0_i32; 8_192];
    let bytes = i32::try_from(buffer.len() * size_of::<i32>()).unwrap_or(i32::MAX);
    let count = usize::try_from(call(buffer.as_mut_ptr(), bytes)).unwrap_or(0);
    buffer.truncate(count);
    buffer.into_iter().filter_map(|pid| u32::try_from(pid).ok()).filter(|pid| *pid > 0).collect()
}

pub fn boot_id() -> String {
    let mut text = [0_u8; 64];
    let mut length = text.len();
    // SAFETY: the name is a valid C string, the buffer has `length` writable bytes.
    let result = unsafe {
        libc::sysctlbyname(
            c"kern.bootsessionuuid".as_ptr(),
            text.as_mut_ptr().cast(),
            &raw mut length,
            std::ptr::null_mut(),
            0,
        )
    };
    let end = if result == 0 { length.min(text.len()) } else { 0 };
    String::from_utf8_lossy(&text[..end]).trim_end_matches('\0').to_owned()
}
