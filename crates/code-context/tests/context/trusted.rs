//! Very new files and folders are read again, because they could change without their time
//! changing.

use std::fs;
use std::path::Path;

/// Waits until everything written so far is old enough to be trusted, however coarse the file
/// system's clock is. `folder` is outside of the indexed folder.
pub fn wait_until_trusted(folder: &Path) {
    let probe = folder.join("probe");
    let time = || {
        fs::write(&probe, "x").unwrap();
        fs::metadata(&probe).unwrap().modified().unwrap()
    };
    let start = time();
    while time().duration_since(start).unwrap_or_default().as_millis() < 25 {
        std::thread::yield_now();
    }
}
