//! The contents of a package, laid out by the recipe with the binary under test.

use std::path::{Path, PathBuf};
use std::process::Output;

use super::world::World;

const RECIPE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/packaging/package");

fn text(output: &Output) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    format!("{}{}", String::from_utf8_lossy(out), String::from_utf8_lossy(err))
}

/// Runs a tool that must succeed.
fn tool(name: &str, args: &[&str]) -> String {
    let output = assert_cmd::Command::new(name).args(args).output().unwrap();
    assert!(output.status.success(), "{name} {args:?}: {}", text(&output));
    text(&output)
}

/// A package of the given kind; `None`, with a message, if its tool is missing.
fn package(world: &World, kind: &str, tool_name: &str) -> Option<PathBuf> {
    if assert_cmd::Command::new(tool_name).arg("--version").output().is_err() {
        eprintln!("SKIPPED: no {kind} was made: {tool_name} is not here");
        return None;
    }
    // Stripped, since it is packed several times here.
    let (built, small) = (env!("CARGO_BIN_EXE_heartbeat"), world.path("small"));
    let stripped = assert_cmd::Command::new("strip").args(["-o"]).arg(&small).arg(built).output();
    let binary = if stripped.is_ok_and(|o| o.status.success()) { small } else { built.into() };
    let made = assert_cmd::Command::new(RECIPE)
        .arg(kind)
        .env("HEARTBEAT_BINARY", binary)
        .env("OUT", world.path("out"))
        .env("DEB_OPTIONS", "-Zgzip -z1")
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", text(&made));
    let path = PathBuf::from(String::from_utf8(made.stdout).unwrap().trim());
    assert!(path.exists(), "{}", path.display());
    Some(path)
}

/// The unpacked binary works and has the same version.
fn answers(root: &Path) {
    let version = tool(root.join("usr/bin/heartbeat").to_str().unwrap(), &["--version"]);
    // A release names its commit as well.
    let expected = concat!("heartbeat ", env!("CARGO_PKG_VERSION"));
    assert!(version.starts_with(expected), "{version}");
    tool("gzip", &["-t", root.join("usr/share/man/man1/heartbeat.1.gz").to_str().unwrap()]);
}

#[tokio::test]
async fn a_debian_package_can_be_unpacked_and_its_scripts_do_what_they_say() {
    let world = World::new().await;
    let Some(deb) = package(&world, "deb", "dpkg-deb") else { return };
    let deb = deb.to_str().unwrap();
    let root = world.path("root");
    tool("dpkg-deb", &["-x", deb, root.to_str().unwrap()]);
    answers(&root);
    let field = |name: &str| tool("dpkg-deb", &["-f", deb, name]).trim().to_owned();
    assert_eq!(
        (field("Package").as_str(), field("Version").as_str()),
        ("heartbeat", env!("CARGO_PKG_VERSION"))
    );
    assert!(field("Depends").starts_with("libc6 (>= 2."), "{}", field("Depends"));
    let listed = tool("dpkg-deb", &["-c", deb]);
    assert!(listed.lines().all(|line| line.contains(" root/root ")), "{listed}");
    let control = world.path("control");
    tool("dpkg-deb", &["-e", deb, control.to_str().unwrap()]);
    assert_eq!(
        std::fs::read_to_string(control.join("conffiles")).unwrap(),
        "/etc/heartbeat/heartbeat.toml\n"
    );

    // The scripts, with stubs for everything that would change this machine.
    let bin = world.path("bin");
    std::fs::create_dir(&bin).unwrap();
    let log = world.path("called");
    for name in ["groupadd", "useradd", "install", "systemctl"] {
        world.script(&format!("bin/{name}"), &format!("echo {name} \"$@\" >> {}", log.display()));
    }
    world.script("bin/getent", "exit 2");
    let path = format!("{}:/usr/bin:/bin", bin.display());
    let run = |script: &str, arg: &str| {
        let mut command = assert_cmd::Command::new("sh");
        let done = command.arg(control.join(script)).arg(arg).env("PATH", &path).output().unwrap();
        assert!(done.status.success(), "{}", text(&done));
        text(&done)
    };
    let told = run("postinst", "configure");
    assert!(told.contains("doctor") && told.contains("/etc/heartbeat/environment"), "{told}");
    let called = std::fs::read_to_string(&log).unwrap();
    assert!(called.contains("groupadd --system heartbeat"), "{called}");
    assert!(called.contains("useradd --system --gid heartbeat"), "{called}");
    assert!(
        called.contains("install -d -m 700 -o heartbeat -g heartbeat /var/lib/heartbeat"),
        "{called}"
    );
    run("prerm", "remove");
}

#[tokio::test]
async fn an_archive_can_be_unpacked_anywhere() {
    let world = World::new().await;
    let Some(archive) = package(&world, "archive", "tar") else { return };
    let root = world.path("root");
    std::fs::create_dir(&root).unwrap();
    tool(
        "tar",
        &["-xzf", archive.to_str().unwrap(), "-C", root.to_str().unwrap(), "--strip-components=1"],
    );
    answers(&root);
    let name = archive.file_name().unwrap().to_str().unwrap();
    assert!(name.starts_with(concat!("heartbeat-", env!("CARGO_PKG_VERSION"), "-")), "{name}");

    // A release is this with checksums; its installer refuses what does not match them.
    let release = concat!(env!("CARGO_MANIFEST_DIR"), "/packaging/release");
    let out = archive.parent().unwrap();
    tool(release, &["sums", out.to_str().unwrap()]);
    let install = |prefix: &Path| {
        let mut command = assert_cmd::Command::new("sh");
        let command = command.arg(out.join("install.sh")).arg("--from").arg(out);
        command.arg("--prefix").arg(prefix).output().unwrap()
    };
    let good = install(&world.path("good"));
    assert!(text(&good).contains("checksum verified"), "{}", text(&good));
    tool(world.path("good/bin/heartbeat").to_str().unwrap(), &["--version"]);
    let mut bytes = std::fs::read(&archive).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&archive, bytes).unwrap();
    let bad = install(&world.path("bad"));
    assert_eq!(bad.status.code(), Some(1));
    assert!(text(&bad).contains("nothing was installed"), "{}", text(&bad));
    assert!(!world.path("bad").exists());
}

#[test]
fn the_image_pins_the_tested_agent_and_leaves_what_was_built_behind() {
    let file = |name: &str| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"))
    };
    let value = |text: &str, key: &str| -> String {
        let line = text.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_default();
        line.to_owned()
    };
    let image = file("packaging/Dockerfile");
    let tested = value(&file("tests/peers/install_claude.sh"), "version=");
    assert_eq!(value(&image, "ARG CLAUDE_VERSION="), tested);
    assert!(
        image.contains("\nUSER 10001\n") && image.contains("\nENTRYPOINT [\"tini\", "),
        "{image}"
    );
    let ignored = file("packaging/Dockerfile.dockerignore");
    assert!(ignored.lines().any(|line| line == "target"), "{ignored}");
    let python = std::env::var_os("HEARTBEAT_TEST_PYTHON").map(PathBuf::from);
    let linter =
        python.map(|python| python.with_file_name("hadolint")).filter(|path| path.exists());
    let Some(linter) = linter else {
        eprintln!("SKIPPED: the Dockerfile was not linted: hadolint is not here");
        return;
    };
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/packaging/Dockerfile");
    assert_eq!(tool(linter.to_str().unwrap(), &["--no-color", path]), "");
}

#[tokio::test]
async fn a_package_holds_everything_and_its_unit_is_sound() {
    let world = World::new().await;
    let root = world.path("package");
    let staged = assert_cmd::Command::new(RECIPE)
        .args(["stage", root.to_str().unwrap()])
        .env("HEARTBEAT_BINARY", env!("CARGO_BIN_EXE_heartbeat"))
        .output()
        .unwrap();
    assert!(staged.status.success(), "{}", String::from_utf8_lossy(&staged.stderr));
    for file in [
        "usr/bin/heartbeat",
        "usr/share/man/man1/heartbeat.1.gz",
        "usr/share/man/man1/heartbeat-doctor.1.gz",
        "usr/share/bash-completion/completions/heartbeat",
        "usr/share/zsh/vendor-completions/_heartbeat",
        "usr/share/fish/vendor_completions.d/heartbeat.fish",
        "usr/share/doc/heartbeat/UPGRADING.md",
        "usr/share/doc/heartbeat/copyright",
        "etc/heartbeat/heartbeat.toml",
        "usr/lib/systemd/system/heartbeat.service",
    ] {
        assert!(root.join(file).metadata().is_ok_and(|data| data.len() > 0), "{file}");
    }
    let config = root.join("etc/heartbeat/heartbeat.toml");
    let config: heartbeat::settings::Config =
        toml::from_str(&std::fs::read_to_string(config).unwrap()).unwrap();
    assert_eq!(config.state.dir, std::path::Path::new("/var/lib/heartbeat"));
    assert_eq!(config.report.dir, std::path::Path::new(""));
    let unit =
        std::fs::read_to_string(root.join("usr/lib/systemd/system/heartbeat.service")).unwrap();
    for line in [
        "ExecStart=/usr/bin/heartbeat --config /etc/heartbeat/heartbeat.toml",
        "User=heartbeat",
        "StateDirectory=heartbeat",
        "EnvironmentFile=-/etc/heartbeat/environment",
    ] {
        assert!(unit.lines().any(|found| found == line), "{line} is not in\n{unit}");
    }
    let own = world.folder.path().to_str().unwrap();
    assert!(!unit.contains(own) && !unit.contains("/target/"), "names this machine:\n{unit}");
}

/// What both pipelines run: the findings are the summary, "not now" is no failure, a failure is one.
#[tokio::test(flavor = "multi_thread")]
async fn a_pipeline_gets_its_summary_and_heartbeats_exit_code() {
    const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/packaging/run-in-ci");
    let world = World::new().await;
    let config = world.path("heartbeat.toml");
    let run = |more: &[&str]| {
        let mut command = assert_cmd::Command::new("sh");
        command
            .arg(SCRIPT)
            .arg(world.path("summary.md"))
            .args(["--config", config.to_str().unwrap()])
            .args(more)
            .env("HEARTBEAT", env!("CARGO_BIN_EXE_heartbeat"))
            .env("HOME", world.path("home"))
            .env("TRACKER_TOKEN", super::world::TOKEN)
            .env("ANTHROPIC_API_KEY", "not-a-key")
            .env("ANTHROPIC_BASE_URL", support::messages_api::reachable());
        tokio::task::block_in_place(|| command.output().unwrap())
    };
    let summary = || std::fs::read_to_string(world.path("summary.md")).unwrap();
    let good = run(&[]);
    assert_eq!(good.status.code(), Some(0), "{}", text(&good));
    assert!(
        summary().contains("## Findings") && summary().contains("Suggested change"),
        "{}",
        summary()
    );
    let full = ["--set", "limits.min_free_memory=900000 GiB", "--set", "limits.admission_wait=1s"];
    let busy = run(&full);
    assert_eq!(busy.status.code(), Some(0), "not now is no failure: {}", text(&busy));
    let bad = run(&["--set", "source.project=Nowhere"]);
    assert_ne!(bad.status.code(), Some(0), "{}", text(&bad));
    assert!(summary().contains("heartbeat ended with exit code"), "{}", summary());
}

/// The files for GitHub Actions and Azure Pipelines, by the schemas that their hosts publish.
#[test]
fn the_pipelines_fit_the_schemas_of_their_hosts() {
    let python = std::env::var_os("HEARTBEAT_TEST_PYTHON").map(PathBuf::from);
    let checker = python.map(|python| python.with_file_name("check-jsonschema"));
    let Some(checker) = checker.filter(|path| path.exists()) else {
        eprintln!("SKIPPED: the pipelines were not checked: check-jsonschema is not here");
        return;
    };
    for (schema, file) in [
        ("vendor.github-actions", "packaging/github-action/action.yml"),
        ("vendor.azure-pipelines", "packaging/azure-pipelines.yml"),
        ("vendor.github-workflows", ".github/workflows/ci.yml"),
        ("vendor.github-workflows", ".github/workflows/release.yml"),
    ] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
        // Azure's schema has patterns of another dialect, and takes booleans as words.
        let mut args = vec!["--regex-variant", "nonunicode", "--builtin-schema", schema];
        if schema == "vendor.azure-pipelines" {
            args.extend(["--data-transform", "azure-pipelines"]);
        }
        args.push(path.to_str().unwrap());
        tool(checker.to_str().unwrap(), &args);
    }
}
