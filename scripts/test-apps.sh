#!/usr/bin/env bash
# Compiles the listings in docs/apps.md, and runs each app against a server: it logs in before it has a push
# token, registers, shows an enriched notification, reports that it was opened, and logs out. A proxy refuses
# its first reports. The classes of Apple, Android and Firebase are stubs in tests/apps. Needs root,
# mmdebstrap, jq, curl, a JDK, python3-venv and libandroid-json-java.
#
#   cargo build --workspace --all-features --bins && ./scripts/test-apps.sh
set -euo pipefail
cd "$(dirname "$0")/.."

# The oldest Debian that has a Swift compiler.
RELEASE=trixie
# The kernel for notebooks contains the compiler, which no other package of a registry does.
KOTLIN=kotlin-jupyter-kernel==0.19.0.944
# Android's own classes for JSON.
JSON=/usr/share/java/com.android.json.jar
# How long the server and an app may take to answer, in seconds.
WAIT_MAX=60

fail() { echo "$0: $*" >&2; exit 1; }
step() { printf -- '-- %s\n' "$*"; }
notify=$PWD/target/debug/notify
scratch=$(mktemp -d)
started=()
finish() {
  for pid in "${started[@]}"; do kill "$pid" 2>/dev/null || true; wait "$pid" || true; done
  rm -rf "$scratch"
}
trap finish EXIT

step "server"
exec {keys}< <(exec target/debug/notify-server sandbox --with-server --listen 127.0.0.1:0)
started+=($!)
read -rt "$WAIT_MAX" -u "$keys" json || fail "the server did not start within $WAIT_MAX s"
value() { jq -r ".$1" <<<"$json"; }
NOTIFY_URL=$(value url)
NOTIFY_API_KEY=$(value api_key)
NOTIFY_ADMIN_KEY=$(value admin_key)
export NOTIFY_URL NOTIFY_API_KEY NOTIFY_ADMIN_KEY
curl -fsS --insecure "$(value sandbox_url)/sandbox/config/fcm" | jq '.enriched_as_data = true' |
  "$notify" providers put fcm - >/dev/null
publishable=$("$notify" keys create --publishable --name apps --allow-tag news \
  --allow-attribute favourite_team -o json | jq -r .api_key)
campaign=$("$notify" campaigns create - -o json <<'JSON' | jq -r .id
{"name": "Orders", "layout_id": "content_with_two", "settings": {}, "features": [{"position": 1,
  "type": "action_button", "data": {"type": "url", "title": "Track", "url": "https://shop.example/7"}}]}
JSON
)

# Writes the listings of a language to a folder, each to the file that its fence names, with the address of the
# proxy and the key in place of the examples. Starts the proxy.
proxy=
write_listings() {
  exec {port}< <(exec python3 tests/apps/proxy.py "$NOTIFY_URL")
  started+=($!)
  read -rt "$WAIT_MAX" -u "$port" proxy || fail "the proxy did not start within $WAIT_MAX s"
  proxy=http://127.0.0.1:$proxy
  awk -v fence="\`\`\`$1" -v folder="$2" '
    /^```/ { file = ($1 == fence && NF == 2) ? folder "/" $2 : "" ; next }
    file { print > file }' docs/apps.md
  sed -i "s#https://notify.example#$proxy#; s#np_…#$publishable#" "$2"/NotifyDevice.*
}

# Runs an app as a user, sends the user a notification, passes its payload to the app, and checks what the app
# registered and reported.
check() {
  local name=$1 line id device payload
  shift
  step "$name: run"
  coproc app { "$@" "$("$notify" users token "$name" -o json | jq -r .user_token)"; }
  local pid=$app_PID answers=${app[0]} input=${app[1]}
  heard() {
    read -rt "$WAIT_MAX" -u "$answers" line || fail "$name: no answer within $WAIT_MAX s"
    [ "$line" = "$1" ] || fail "$name: $line"
  }
  heard "logged in"
  id=$("$notify" send --user "$name" --text Hello --url shop://order/7 --image-url "$proxy/image.png" \
    --campaign "$campaign" --tag news --audience 'favourite_team = blue' -o json | jq -r .id)
  device=$("$notify" devices list --user "$name" -o json | jq -r '.devices[0].device_id')
  payload=$(curl -fsS "$(value control_url)/delivered?device_id=$device" |
    jq -c --arg id "$id" '.messages[] | select(.notification_id == $id) | .payload')
  [ -n "$payload" ] || fail "$name: the notification was not sent"
  echo "$payload" >&"$input"
  heard reported
  counts=$("$notify" notifications get "$id" -o json |
    jq -c '[.counts.targeted, .engagement.received, .engagement.opened, .engagement.clicked]')
  [ "$counts" = "[1,1,1,1]" ] || fail "$name: targeted, received, opened and clicked are $counts"
  echo >&"$input"
  heard "logged out"
  wait "$pid"
}

step "swift: Debian $RELEASE"
debian=$scratch/debian
mmdebstrap --quiet --variant=minbase \
  --include=swiftlang,swiftlang-dev,libc6-dev,libstdc++-14-dev "$RELEASE" "$debian"
cp -r tests/apps/swift "$debian/app"
write_listings swift "$debian/app"
# The compiler finds its own files through /proc.
in_debian() { unshare --mount --pid --fork --mount-proc="$debian/proc" chroot "$debian" "$@"; }
# shellcheck disable=SC2016 # The inner shell expands it.
in_debian sh -ec 'cd /app
  for module in Security UserNotifications UIKit; do
    swiftc -swift-version 6 -emit-module -emit-library -module-name "$module" "$module.swift" -o "lib$module.so"
  done'
for version in 5 6; do
  step "swift: compile as Swift $version"
  # shellcheck disable=SC2016 # The inner shell expands it.
  in_debian sh -ec 'cd /app
    swiftc -swift-version "$1" -warnings-as-errors -I. -L. -lSecurity -lUserNotifications -lUIKit \
      -Xlinker -rpath -Xlinker /app main.swift FoundationNetworking.swift NotifyDevice.swift \
      AppDelegate.swift NotificationService.swift -o app' sh "$version"
done
check swift in_debian env HOME=/app /app/app

step "kotlin: compile"
python3 -m venv "$scratch/python"
"$scratch/python/bin/pip" install --quiet --disable-pip-version-check --no-deps "$KOTLIN"
jars=$(dirname "$(find "$scratch/python" -name 'kotlin-stdlib-*.jar')")
library=$(compgen -G "$jars/kotlin-stdlib-*.jar")
mkdir "$scratch/kotlin"
write_listings kotlin "$scratch/kotlin"
java -cp "$jars/*" org.jetbrains.kotlin.cli.jvm.K2JVMCompiler -Werror -no-stdlib -no-reflect \
  -classpath "$library:$JSON" -d "$scratch/classes" tests/apps/kotlin/*.kt "$scratch"/kotlin/*.kt
check kotlin java -cp "$scratch/classes:$library:$JSON" MainKt
