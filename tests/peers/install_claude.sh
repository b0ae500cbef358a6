#!/bin/sh
# install_claude.sh FOLDER: puts the pinned Claude Code CLI into FOLDER and prints its path.
# The package comes from npm by name, is checked against its published sha512, and is fetched only
# once per FOLDER. It is proprietary software: it is never committed and never vendored.
set -eu

version=2.1.325
package=@anthropic-ai/claude-code-linux-x64
integrity='BqZzMvP/zgLLL34S+7OzbG+cyoFp7gwWHU5koVwsyMlTAz+0zZAmbY+UkzvtN2RXxp6AcMenbYIjQJxoXfUY3w=='

folder=${1:?usage: install_claude.sh FOLDER}

case "$(uname -s)-$(uname -m)" in
    Linux-x86_64) ;;
    *) echo "install_claude.sh: only Linux on x86-64 is pinned" >&2; exit 1 ;;
esac

mkdir -p "$folder"
cd "$folder"
if [ -x claude ] && [ "$(cat .version 2>/dev/null)" = "$version" ]; then
    echo "$PWD/claude"
    exit 0
fi

rm -f claude .version
archive=$(npm pack --silent "$package@$version" | tail -n 1)
trap 'rm -f "$archive"' EXIT
found=$(openssl dgst -sha512 -binary "$archive" | openssl base64 -A)
if [ "$found" != "$integrity" ]; then
    echo "install_claude.sh: $package@$version has sha512 $found, expected $integrity" >&2
    exit 1
fi
tar -xzf "$archive" --strip-components=1 package/claude
echo "$version" >.version
echo "$PWD/claude"
