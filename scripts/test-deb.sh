#!/usr/bin/env bash
# Installs the Debian package in a new Debian that systemd boots, runs the server there, upgrades, removes
# and purges. Needs root, mmdebstrap, systemd-container and lintian.
#
#   ./scripts/test-deb.sh [target/packages/notify-server_….deb]
set -euo pipefail
cd "$(dirname "$0")/.."

# The oldest Debian that is supported.
RELEASE=bookworm
# How long each wait for systemd may take, in seconds.
WAIT_MAX=60

fail() { echo "$0: $*" >&2; exit 1; }
step() { printf -- '-- %s\n' "$*"; }
package=${1:-$(compgen -G 'target/packages/notify-server_*.deb')} || fail "there is no package"

step "lintian"
lintian --tag-display-limit 0 --suppress-tags bogus-mail-host "$package"

scratch=$(mktemp -d)
debian=$scratch/debian
machine=notify-deb-$$
nspawn=
finish() {
  local status=$?
  if [ "$status" -ne 0 ] && [ -n "$nspawn" ]; then
    in_debian journalctl --no-pager --unit=notify --lines=30 || true
    cat "$scratch/console"
  fi
  if [ -n "$nspawn" ]; then kill -TERM "$nspawn" 2>/dev/null || true; wait "$nspawn" || true; fi
  rm -rf "$scratch"
}
trap finish EXIT

step "Debian $RELEASE"
mmdebstrap --quiet --variant=minbase --include=systemd,systemd-sysv,dbus,ca-certificates \
  "$RELEASE" "$debian"
install -m 0644 "$package" "$debian/root/notify-server.deb"
systemd-nspawn --quiet --directory="$debian" --machine="$machine" --register=no --keep-unit --boot \
  --console=pipe >"$scratch/console" 2>&1 </dev/null &
nspawn=$!

# Runs a command in the namespaces of the new Debian, whose first process is systemd.
first=
booted=
in_debian() { nsenter --target="$first" --all --wdns=/ env -i PATH=/usr/sbin:/usr/bin HOME=/root "$@"; }
for ((tries = 0; tries < WAIT_MAX * 4; tries++)); do
  first=$(pgrep --parent "$nspawn" --exact systemd || true)
  if [ -n "$first" ] && in_debian systemctl is-system-running 2>/dev/null | grep -qE 'running|degraded'; then
    booted=1
    break
  fi
  read -rt 0.25 <> <(:) || true
done
[ -n "$booted" ] || fail "systemd did not boot within $WAIT_MAX s"
is() { [ "$2" = "$3" ] || fail "$1: '$2', not '$3'"; }
stat_of() { in_debian stat --format='%U:%G %a' "$1"; }

# Every file whose name is like those of the package, without the data.
named() { in_debian find /etc /usr /var -xdev -iname '*notify*' -not -path '/var/lib/notify*' | sort; }
named_before=$(named)

step "install"
in_debian dpkg --install /root/notify-server.deb
is "a fresh install" "$(in_debian systemctl is-active notify || true)" inactive
is "the settings" "$(stat_of /etc/notify/notify.env)" "root:root 600"
is "the data folder" "$(stat_of /var/lib/notify)" "notify:notify 700"
in_debian sh -c 'echo NOTIFY_PUBLIC_URL=https://notify.example.com >>/etc/notify/notify.env'
key=$(in_debian runuser -u notify -- notify-server --data-dir /var/lib/notify app create test --json)
[[ $key == *nk_* ]] || fail "no key was created"

step "start"
in_debian systemctl enable --now notify
ready() {
  local tries
  for ((tries = 0; tries < WAIT_MAX * 4; tries++)); do
    if in_debian notify-server healthcheck 2>/dev/null; then return; fi
    read -rt 0.25 <> <(:) || true
  done
  fail "the server is not ready"
}
ready
before=$(in_debian systemctl show --property=MainPID --value notify)
is "the user" "$(in_debian stat --format=%U "/proc/$before")" notify
in_debian env NOTIFY_API_KEY="$(grep -o 'nk_[A-Za-z0-9_]*' <<<"$key")" notify devices list >/dev/null

step "upgrade"
in_debian dpkg --install /root/notify-server.deb
ready
after=$(in_debian systemctl show --property=MainPID --value notify)
[ "$before" != "$after" ] || fail "the old server still runs"
in_debian grep -q notify.example.com /etc/notify/notify.env || fail "the settings were replaced"

step "remove"
in_debian dpkg --remove notify-server
is "after the removal" "$(in_debian systemctl is-active notify || true)" inactive
[ -e "$debian/etc/notify/notify.env" ] || fail "a removal deletes the settings"

step "purge"
in_debian dpkg --purge notify-server
[ ! -e "$debian/etc/notify" ] || fail "a purge keeps the settings"
[ -e "$debian/var/lib/notify/notify.db" ] || fail "a purge deletes the data"
is "left over" "$(named)" "$named_before"
step "passed"
