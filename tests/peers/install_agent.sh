#!/bin/sh
# install_agent.sh KIND FOLDER: puts the pinned CLI of KIND (codex, copilot) into FOLDER and prints its path.
# The package comes from npm by name, is checked against its published sha512, and is fetched only
# once per FOLDER. It is never committed and never vendored: Copilot has a licence of its own.
set -eu

kind=${1:?usage: install_agent.sh KIND FOLDER}
folder=${2:?usage: install_agent.sh KIND FOLDER}

case $kind in
    codex)
        version=0.166.0-linux-x64 package=@openai/codex
        program=vendor/x86_64-unknown-linux-musl/bin/codex
        integrity='CxDm3+D1cpbGJeHrdzINoG+3wn9BVncP4qpZaaNYkxe8iPtRJOYyCJnnPoVjWRIBvI9vPKbRoifsMSA5xDaUpw=='
        ;;
    copilot)
        version=1.0.102 package=@github/copilot-linux-x64 program=copilot
        integrity='eGHPbsP0p2QgfVZCjtbGBFZPBOJQ0DN7xIbBRAo7oG8b1zfLirQIdfI4h8Iy68Dv2cKJGJZg2/EO7W7KpIMJOw=='
        ;;
    *) echo "install_agent.sh: no such kind: $kind" >&2; exit 2 ;;
esac

case "$(uname -s)-$(uname -m)" in
    Linux-x86_64) ;;
    *) echo "install_agent.sh: only Linux on x86-64 is pinned" >&2; exit 1 ;;
esac

mkdir -p "$folder"
cd "$folder"
if [ -x "$program" ] && [ "$(cat .version 2>/dev/null)" = "$version" ]; then
    echo "$PWD/$program"
    exit 0
fi

rm -rf "./$program" .version unpacked
archive=$(npm pack --silent "$package@$version" | tail -n 1)
trap 'rm -f "$archive"' EXIT
found=$(openssl dgst -sha512 -binary "$archive" | openssl base64 -A)
if [ "$found" != "$integrity" ]; then
    echo "install_agent.sh: $package@$version has sha512 $found, expected $integrity" >&2
    exit 1
fi
tar -xzf "$archive" --strip-components=1
echo "$version" >.version
echo "$PWD/$program"
