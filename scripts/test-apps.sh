#!/usr/bin/env bash
# Compiles the listings in docs/apps.md, and runs each of them against a server: a device registers, logs in,
# reports an event and logs out. The keychain and Android's preferences are stubs. Needs root, mmdebstrap, jq,
# a JDK, python3-venv and libandroid-json-java.
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
server=
finish() {
  if [ -n "$server" ]; then kill "$server" 2>/dev/null || true; wait "$server" || true; fi
  rm -rf "$scratch"
}
trap finish EXIT

step "server"
exec {keys}< <(exec target/debug/notify-server sandbox --with-server)
server=$!
read -rt "$WAIT_MAX" -u "$keys" json || fail "the server did not start within $WAIT_MAX s"
NOTIFY_URL=$(jq -r .url <<<"$json")
NOTIFY_API_KEY=$(jq -r .api_key <<<"$json")
NOTIFY_ADMIN_KEY=$(jq -r .admin_key <<<"$json")
export NOTIFY_URL NOTIFY_API_KEY NOTIFY_ADMIN_KEY
publishable=$("$notify" keys create --publishable --name apps -o json | jq -r .api_key)

# Prints the listing of a language, with the address of the server and the key in place of the examples.
listing() {
  awk -v "fence=\`\`\`$1" '$0 == fence { inside = 1; next } /^```/ { inside = 0 } inside' docs/apps.md |
    sed "s#https://notify.example#$NOTIFY_URL#; s#np_…#$publishable#"
}

# Runs an app as a user, sends the user a notification, and checks that the app reported it as opened.
check() {
  local name=$1 line id
  shift
  step "$name: run"
  coproc app { "$@" "$("$notify" users token "$name" -o json | jq -r .user_token)"; }
  local pid=$app_PID answers=${app[0]} input=${app[1]}
  read -rt "$WAIT_MAX" -u "$answers" line || fail "$name: no answer within $WAIT_MAX s"
  [ "$line" = "logged in" ] || fail "$name: $line"
  id=$("$notify" send --user "$name" --text Hello -o json 2>/dev/null | jq -r .id)
  echo "$id" >&"$input"
  read -rt "$WAIT_MAX" -u "$answers" line || fail "$name: no answer within $WAIT_MAX s"
  [ "$line" = "logged out" ] || fail "$name: $line"
  wait "$pid"
  counts=$("$notify" notifications get "$id" -o json | jq -c '[.counts.targeted, .engagement.opened]')
  [ "$counts" = "[1,1]" ] || fail "$name: targeted and opened are $counts, not [1,1]"
}

step "swift: Debian $RELEASE"
debian=$scratch/debian
mmdebstrap --quiet --variant=minbase \
  --include=swiftlang,swiftlang-dev,libc6-dev,libstdc++-14-dev "$RELEASE" "$debian"
cp -r tests/apps/swift "$debian/app"
listing swift >"$debian/app/NotifyDevice.swift"
# The compiler finds its own files through /proc.
in_debian() { unshare --mount --pid --fork --mount-proc="$debian/proc" chroot "$debian" "$@"; }
for version in 5 6; do
  step "swift: compile as Swift $version"
  # shellcheck disable=SC2016 # The inner shell expands it.
  in_debian sh -ec 'cd /app
    swiftc -emit-module -emit-library -module-name Security Security.swift -o libSecurity.so
    swiftc -swift-version "$1" -warnings-as-errors -I. -L. -lSecurity -Xlinker -rpath -Xlinker /app \
      main.swift FoundationNetworking.swift NotifyDevice.swift -o app' sh "$version"
done
check swift in_debian /app/app

step "kotlin: compile"
python3 -m venv "$scratch/python"
"$scratch/python/bin/pip" install --quiet --disable-pip-version-check --no-deps "$KOTLIN"
jars=$(dirname "$(find "$scratch/python" -name 'kotlin-stdlib-*.jar')")
library=$(compgen -G "$jars/kotlin-stdlib-*.jar")
listing kotlin >"$scratch/NotifyDevice.kt"
java -cp "$jars/*" org.jetbrains.kotlin.cli.jvm.K2JVMCompiler -Werror -no-stdlib -no-reflect \
  -classpath "$library:$JSON" -d "$scratch/classes" tests/apps/kotlin/*.kt "$scratch/NotifyDevice.kt"
check kotlin java -cp "$scratch/classes:$library:$JSON" MainKt
