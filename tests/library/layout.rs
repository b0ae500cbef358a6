//! Every test file belongs to a test binary: Cargo builds only what `Cargo.toml` lists, and a file
//! without its `mod` line would be a test that never runs.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The root file of every test binary, and of the library they share.
fn crate_roots() -> Vec<PathBuf> {
    let manifest: toml::Table =
        fs::read_to_string(root().join("Cargo.toml")).unwrap().parse().unwrap();
    let tests = manifest["test"].as_array().unwrap();
    let paths = tests.iter().map(|test| root().join(test["path"].as_str().unwrap()));
    paths.chain([root().join("tests/support/src/lib.rs")]).collect()
}

/// A file and all files reachable by its `mod` lines.
fn follow(file: &Path, found: &mut BTreeSet<PathBuf>) {
    let text = fs::read_to_string(file).unwrap();
    let shared = text.lines().any(|line| line.starts_with("#[path"));
    assert!(!shared, "{}: what binaries share belongs into tests/support", file.display());
    found.insert(file.to_owned());
    let is_folder = ["main.rs", "lib.rs", "mod.rs"].iter().any(|name| file.ends_with(name));
    let folder =
        if is_folder { file.parent().unwrap().to_owned() } else { file.with_extension("") };
    for line in text.lines() {
        let line = line.trim_start_matches("pub ");
        let Some(name) = line.strip_prefix("mod ").and_then(|rest| rest.strip_suffix(';')) else {
            continue;
        };
        let places = [folder.join(format!("{name}.rs")), folder.join(name).join("mod.rs")];
        let Some(place) = places.iter().find(|place| place.is_file()) else { continue };
        follow(place, found);
    }
}

fn rust_files(folder: &Path, found: &mut BTreeSet<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if entry.file_type().unwrap().is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.insert(path);
        }
    }
}

#[test]
fn every_file_is_part_of_a_binary() {
    let (mut built, mut present) = (BTreeSet::new(), BTreeSet::new());
    for file in crate_roots() {
        follow(&file, &mut built);
    }
    rust_files(&root().join("tests"), &mut present);
    present.retain(|path| !path.starts_with(root().join("tests/data")));
    let forgotten: Vec<_> = present.difference(&built).collect();
    assert!(forgotten.is_empty(), "no test binary has them: {forgotten:?}");
    assert!(built.len() > 90, "only {} files were found", built.len());
}

/// A renamed test must not return to the inner loop.
#[test]
fn tests_left_out_of_the_inner_loop_exist() {
    let profiles = fs::read_to_string(root().join(".config/nextest.toml")).unwrap();
    let mut files = BTreeSet::new();
    rust_files(&root().join("tests"), &mut files);
    rust_files(&root().join("crates"), &mut files);
    let code: String = files.iter().map(|file| fs::read_to_string(file).unwrap()).collect();
    let named = profiles.split("test(=").skip(1).map(|rest| rest.split(')').next().unwrap());
    let missing: Vec<_> = named
        .filter(|test| !code.contains(&format!("fn {}(", test.rsplit("::").next().unwrap())))
        .collect();
    assert!(profiles.contains("test(="), "no test is left out");
    assert!(missing.is_empty(), "they are named in .config/nextest.toml only: {missing:?}");
}

/// Features of heartbeat in a build, by the kinds of dependencies.
fn features(edges: &str) -> String {
    let output = assert_cmd::Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--locked", "--edges", edges, "--invert", "heartbeat-batch"])
        .args(["--manifest-path"])
        .arg(root().join("Cargo.toml"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn fault_points_are_in_builds_for_tests_only() {
    assert!(features("features").contains("fault-points"));
    let shipped = features("features,no-dev");
    assert!(!shipped.contains("fault-points"), "{shipped}");
}

/// Names of the crates in a build that people install.
fn shipped_crates(more: &[&str]) -> String {
    let output = assert_cmd::Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--locked", "--edges", "normal,build", "--prefix", "none"])
        .args(["--manifest-path"])
        .arg(root().join("Cargo.toml"))
        .args(more)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_crates_of_a_fleet_are_in_no_other_build() {
    let names = ["temporalio-client", "temporalio-protos", "temporalio-common"];
    let (usual, fleet) = (shipped_crates(&[]), shipped_crates(&["--features", "fleet"]));
    for name in names {
        assert!(!usual.contains(name) && fleet.contains(name), "{name}:\n{usual}");
    }
}
