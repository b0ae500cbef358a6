#!/bin/sh
# The suite must notice a broken sweep: replaces it by a process-group kill in a copy of the
# sources and expects the session tests to fail there. Takes a build; run by hand or nightly.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
cp -r "$root/Cargo.toml" "$root/Cargo.lock" "$root/src" "$root/crates" "$root/tests" "$copy/"
for optional in benches migrations prompts README.md; do
    if [ -e "$root/$optional" ]; then cp -r "$root/$optional" "$copy/"; fi
done
sweep="$copy/crates/supervisor/src/keeper/sweep.rs"
# The mutant: one group kill, the leader collected, and a false certificate.
awk '
    /^    loop \{$/ && !done {
        print "    if let Some(leader) = leader {"
        print "        swept.leader = waitpid(leader, None).ok();"
        print "    }"
        print "    swept.empty = true;"
        print "    if swept.empty { return swept; }"
        done = 1
    }
    { print }
' "$sweep" > "$sweep.new"
mv "$sweep.new" "$sweep"
export CARGO_TARGET_DIR="${MUTATION_TARGET_DIR:-$root/target/mutation}"
cd "$copy"
cargo build --quiet
cargo test --quiet --no-run --test sessions
# What the mutant leaves behind must not outlive this script.
contain=""
if unshare --user --map-root-user --pid --fork --mount-proc --kill-child true 2> /dev/null; then
    contain="unshare --user --map-root-user --pid --fork --mount-proc --kill-child"
fi
if $contain cargo test --quiet --test sessions lifecycle:: > "$copy/log" 2>&1; then
    echo "the mutant survived: the tests did not notice a process-group kill" >&2
    exit 1
fi
if ! grep -q "panicked" "$copy/log"; then
    echo "the mutant did not even build:" >&2
    tail -20 "$copy/log" >&2
    exit 2
fi
failed=$(grep -c "FAILED$" "$copy/log" || true)
echo "the mutant was noticed: $failed failing lines"
grep "panicked at" "$copy/log" | head -5
