#!/usr/bin/env bash
# systemd.sh BINARY: boots a systemd of its own over an overlay of this machine's files, without a
# network, and takes the service through its life: install, start, kill, restart, stop, uninstall.
# Prints one line per check; leaves with 1 at the first that fails, with 77 where no systemd can boot.
set -u
binary=$1
[ "$(id -u)" = 0 ] && command -v systemd-nspawn unshare nsenter >/dev/null || { echo "needs root, systemd-nspawn and nsenter"; exit 77; }
if [ -z "${OWN_MOUNTS:-}" ]; then
    OWN_MOUNTS=1 exec unshare --mount "$0" "$@"
fi

place=$(mktemp -d)
nspawn=""
finish() {
    [ -n "$nspawn" ] && kill -TERM "$nspawn" 2>/dev/null && wait "$nspawn" 2>/dev/null
    umount -R "$place/root" "$place" 2>/dev/null
    rm -rf "$place" 2>/dev/null
}
trap finish EXIT
mount -t tmpfs tmpfs "$place" && mkdir "$place"/{root,upper,work} &&
    mount -t overlay overlay -o "lowerdir=/,upperdir=$place/upper,workdir=$place/work" "$place/root" || { echo "no overlay file system"; exit 77; }
# Nothing that this machine has enabled starts there.
rm -rf "$place"/root/etc/systemd/system/*.wants
tr -d - < /proc/sys/kernel/random/uuid > "$place/root/etc/machine-id"
cp "$binary" "$place/root/usr/local/bin/heartbeat"
systemd-nspawn --quiet --directory="$place/root" --register=no --keep-unit --private-network \
    --machine="heartbeat-test-$$" --boot -- --unit=multi-user.target > "$place/boot.log" 2>&1 < /dev/null &
nspawn=$!

inside() { nsenter -t "$(pgrep -P "$nspawn" | head -n 1)" -m -u -i -n -p -C env -i HOME=/root PATH=/usr/local/bin:/usr/bin:/bin "$@"; }
# until SECONDS WHAT COMMAND...: waits for it; fails loudly.
until_true() {
    local end=$((SECONDS + $1)) what=$2
    shift 2
    until "$@" >/dev/null 2>&1; do
        [ $SECONDS -lt $end ] || { echo "FAILED: $what"; inside journalctl -u heartbeat --no-pager -n 40; exit 1; }
        sleep 0.2
    done
    echo "ok  $what"
}
agents() { inside pgrep -f "simulate agent" | wc -l; }
some_agents() { [ "$(agents)" -gt 0 ]; }
no_agents() { [ "$(agents)" = 0 ]; }
restarted() { [ "$(inside systemctl show -p NRestarts --value heartbeat)" = 1 ] && inside systemctl is-active heartbeat; }

booted() { inside systemctl is-system-running | grep -Eq "running|degraded"; }
for _ in $(seq 300); do booted 2>/dev/null && break; kill -0 "$nspawn" 2>/dev/null || break; sleep 0.2; done
booted 2>/dev/null || { echo "systemd does not boot here: $(tail -n 1 "$place/boot.log")"; exit 77; }
echo "ok  $(inside systemctl --version | head -n 1) boots"

inside bash -s <<'SETUP' || { echo "FAILED: the setup"; exit 1; }
set -e
mkdir -p /srv/heartbeat /srv/code /etc/heartbeat && cd /srv/heartbeat && echo 'fn total() -> u32 { 1 }' > /srv/code/total.rs
(setsid heartbeat simulate ado --port 18080 --token good > ado.txt 2>&1 < /dev/null &)
until [ -s ado.txt ]; do sleep 0.1; done
heartbeat init --base-url "$(head -n 1 ado.txt)" --project Parcel --repository /srv/code > /dev/null
sed -i 's|^cron = .*|cron = "*/2 * * * * *"|; s|^first_run = .*|first_run = "process"|; s|^max_load_per_core = .*|max_load_per_core = 1000.0|
    s|^pass_env = .*|pass_env = ["ANTHROPIC_BASE_URL"]|
    s|^max_memory_pressure = .*|max_memory_pressure = 100.0|; s|^command = .*|command = ["heartbeat", "simulate", "agent", "--pace", "600000"]|' heartbeat.toml
(umask 077; printf 'AZURE_DEVOPS_PAT=good\nANTHROPIC_API_KEY=x\nANTHROPIC_BASE_URL=http://127.0.0.1:18080\n' > /etc/heartbeat/environment)
heartbeat service install > installed.txt
grep -q 'systemctl enable --now heartbeat.service' installed.txt
mkdir -p /etc/systemd/system/heartbeat.service.d && printf '[Service]\nRestartSec=1s\n' > /etc/systemd/system/heartbeat.service.d/test.conf
systemctl daemon-reload
systemctl enable --now heartbeat.service 2> /dev/null
SETUP
until_true 30 "the service is active: it has said that it is ready" inside systemctl is-active heartbeat
until_true 60 "a scheduled run starts a session in the service's control group" some_agents
inside systemctl kill --kill-whom=main --signal=KILL heartbeat
until_true 30 "after SIGKILL systemd starts it again" restarted
until_true 60 "the next run has sessions again" some_agents
inside systemctl stop heartbeat
until_true 30 "after a stop no agent is alive" no_agents
[ "$(inside systemctl show -p Result --value heartbeat)" = success ] || { echo "FAILED: the stop was no success"; exit 1; }
inside bash -c 'cd /srv/heartbeat && heartbeat service uninstall' >/dev/null
[ -z "$(inside find /etc/systemd/system -name heartbeat.service)" ] || { echo "FAILED: something of the unit stays"; exit 1; }
echo "ok  nothing of the unit stays after uninstall"
