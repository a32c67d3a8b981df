#!/usr/bin/env bash
# Generates clients from /openapi.json as docs/api.md says, checks their types, and sends a notification with
# each. Needs Python, npm and curl.
#
#   cargo build --workspace --all-features --bins && ./scripts/test-generators.sh
set -euo pipefail
cd "$(dirname "$0")/.."

# How long the server may take to answer, in seconds.
WAIT_MAX=60

fail() { echo "$0: $*" >&2; exit 1; }
step() { printf -- '-- %s\n' "$*"; }

tools=$PWD/target/generators
wanted=$(cat scripts/generators-requirements.txt tests/generators/package-lock.json | cksum)
if [ "$(cat "$tools/installed" 2>/dev/null)" != "$wanted" ]; then
  step "install the generators"
  rm -rf "$tools"
  python3 -m venv "$tools"
  "$tools/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: \
    -r scripts/generators-requirements.txt
  cp tests/generators/package.json tests/generators/package-lock.json "$tools"
  npm ci --prefix "$tools" --ignore-scripts --no-audit --no-fund --silent
  echo "$wanted" >"$tools/installed"
fi
export PATH=$tools/bin:$tools/node_modules/.bin:$PATH

scratch=$(mktemp -d)
server_pid=
finish() {
  if [ -n "$server_pid" ]; then
    kill "$server_pid" 2>/dev/null || true
    wait "$server_pid" || true
  fi
  rm -rf "$scratch"
}
trap finish EXIT

step "server"
server=${CARGO_TARGET_DIR:-target}/debug/notify-server
exec {keys}< <(exec "$server" sandbox --with-server --listen 127.0.0.1:0 --log warn)
server_pid=$!
read -rt "$WAIT_MAX" -u "$keys" started || fail "the server did not start within $WAIT_MAX s"
member() { python3 -c 'import json, sys; print(json.load(sys.stdin)[sys.argv[1]])' "$1"; }
NOTIFY_URL=$(member url <<<"$started")
NOTIFY_API_KEY=$(member api_key <<<"$started")
control_url=$(member control_url <<<"$started")
export NOTIFY_URL NOTIFY_API_KEY
curl -fsS -o /dev/null -H "X-API-Key: $NOTIFY_API_KEY" "$NOTIFY_URL/v1/devices" --data '{"device_id": "phone",
  "platform": "android", "sdk_type": "android_push", "push_token": "token-of-the-phone"}'

step "validate both documents"
for query in "" "?strict=true"; do
  curl -fsS -o "$scratch/openapi.json" "$NOTIFY_URL/openapi.json$query"
  openapi-spec-validator "$scratch/openapi.json"
done

# The commands and programs of docs/api.md: blocks of sh, and those that name a file. The generators are installed
# already.
work=$scratch/work
mkdir "$work"
cp tests/generators/* "$work"
ln -s "$tools/node_modules" "$work/node_modules"
sed -n '/^## Generated clients$/,/^## [^G]/p' docs/api.md >"$scratch/section"
awk -v folder="$work" '
  /^```/ { file = $1 == "```sh" ? folder "/generate.sh" : NF == 2 ? folder "/" $2 : ""; next }
  file { print > file }' "$scratch/section"
sed -i "/^pip install /d; /^npm install /d; s#http://127.0.0.1:8080#$NOTIFY_URL#" "$work/generate.sh"
cd "$work"
step "generate clients"
bash -euo pipefail -c '. ./generate.sh' >"$scratch/generated" 2>&1 || {
  cat "$scratch/generated"
  fail "a generator failed"
}
# openapi-python-client leaves out what it cannot read, with a warning, and succeeds.
if grep -i -A5 -e '^warning' -e ' ERROR ' "$scratch/generated"; then fail "a generator left something out"; fi

# Waits until the phone has got exactly one notification.
check_delivered() {
  local count
  count=$(curl -fsS "$control_url/delivered?device_id=phone" | member messages |
    python3 -c 'import ast, sys; print(len(ast.literal_eval(sys.stdin.read())))')
  [ "$count" = 1 ] || fail "$1: $count notifications were delivered"
  curl -fsS -o /dev/null -X DELETE "$control_url/delivered"
}

step "openapi-python-client"
export PYTHONPATH=$work/notify-client:$work/openapi-client PYTHONDONTWRITEBYTECODE=1
MYPYPATH=$work/notify-client mypy --strict --no-error-summary send.py openapi_python_client.py \
  notify-client/notify_client
id=$(python3 send.py)
check_delivered openapi-python-client
python3 openapi_python_client.py "$id"

step "openapi-typescript and openapi-fetch"
tsc --project tsconfig.json
node send.js >/dev/null
check_delivered openapi-fetch

step "openapi-generator"
python3 -c 'import compileall, sys; sys.exit(not compileall.compile_dir("openapi-client", quiet=1))'
python3 openapi_generator.py
check_delivered openapi-generator
