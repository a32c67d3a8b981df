#!/usr/bin/env bash
# Sends generated requests, valid and invalid ones, to a server and compares its answers with the strict
# document at /openapi.json?strict=true. Fails on any difference. `scripts/fuzz-api.toml` lists the exceptions
# with their reasons.
set -euo pipefail
cd "$(dirname "$0")/.."

# The most generated requests for each operation, in addition to the requests at every bound, and the most
# sequences of requests. Higher numbers take long and find little.
EXAMPLES_MAX=${FUZZ_EXAMPLES:-10}
SEQUENCES_MAX=${FUZZ_SEQUENCES:-40}
# The longest line of a finding that is shown. A request can have 64 KiB.
LINE_CHARS_MAX=1000
# The seed makes each run send the same requests.
SEED=${FUZZ_SEED:-1}

server=${CARGO_TARGET_DIR:-target}/debug/notify-server
tools=target/fuzz-api
if ! cmp -s scripts/fuzz-requirements.txt "$tools/requirements.txt"; then
  rm -rf "$tools"
  python3 -m venv "$tools"
  "$tools/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: \
    -r scripts/fuzz-requirements.txt
  cp scripts/fuzz-requirements.txt "$tools/requirements.txt"
fi

scratch=$(mktemp -d)
server_pid=
end() {
  if [ -n "$server_pid" ]; then
    kill "$server_pid" 2>/dev/null || true
    wait "$server_pid" 2>/dev/null || true
  fi
  rm -rf "$scratch"
}
trap end EXIT

member() { python3 -c 'import json, sys; print(json.load(sys.stdin)[sys.argv[1]])' "$1"; }
settings=(--data-dir "$scratch/data" --log warn)
"$server" app create fuzz --json "${settings[@]}" >"$scratch/app.json"
api_key=$(member api_key <"$scratch/app.json")
app=$(member id <"$scratch/app.json")
admin_key=$("$server" admin-key create --json "${settings[@]}" | member admin_key)

# All requests come from one address, which the rate limits would block.
"$server" serve "${settings[@]}" --listen 127.0.0.1:0 --rate-limit 0 --auth-failures-per-minute 0 \
  --poll-votes-per-minute 0 --web-requests-per-minute 0 --web-address-requests-per-minute 0 --web-subscriptions-per-minute 0 \
  >"$scratch/listening" 2>"$scratch/log" &
server_pid=$!
for _ in $(seq 300); do
  if grep -q '^listening on ' "$scratch/listening"; then break; fi
  kill -0 "$server_pid" || { cat "$scratch/log"; exit 1; }
  sleep 0.1
done
url=$(sed -n 's/^listening on //p' "$scratch/listening")
[ -n "$url" ] || { echo "the server did not start to listen"; exit 1; }

# Browsers may call from one origin.
page=https://shop.example
put() {
  KEY=$admin_key python3 - "$url/admin/v1/apps/$app/$1" "$2" <<'PY'
import os, sys, urllib.request
headers = {"Authorization": "Bearer " + os.environ["KEY"]}
request = urllib.request.Request(sys.argv[1], sys.argv[2].encode(), headers, method="PUT")
urllib.request.urlopen(request).close()
PY
}
put web "{\"allowed_origins\": [\"$page\"]}"
put providers/webpush '{"subject": "mailto:push@notify-fuzz.com"}'
publishable_key=$(KEY=$admin_key python3 - "$url/admin/v1/apps/$app/keys" <<'PY'
import json, os, sys, urllib.request
headers = {"Authorization": "Bearer " + os.environ["KEY"]}
request = urllib.request.Request(sys.argv[1], b'{"kind": "publishable"}', headers, method="POST")
print(json.load(urllib.request.urlopen(request))["api_key"])
PY
)
sed "s/@APP@/$app/" scripts/fuzz-api.toml >"$scratch/fuzz-api.toml"

failed=0
# One worker: Python 3.11 parses its own sources wrongly in two threads at once (gh-106905).
run() {
  echo "-- $1"
  shift
  # Other tests may run concurrently, and have timeouts. They may also make this one slow.
  nice -n 10 "$tools/bin/schemathesis" --config-file "$scratch/fuzz-api.toml" run \
    "$url/openapi.json?strict=true" --url "$url" --seed "$SEED" --workers 1 --no-color --warnings off \
    --continue-on-failure --suppress-health-check=too_slow "$@" \
    >"$scratch/found" 2>&1 || { cut -c "1-$LINE_CHARS_MAX" "$scratch/found"; failed=1; }
  # The number of test cases.
  grep -A1 '^Test cases:' "$scratch/found" || true
}
each=(--phases coverage,fuzzing --max-examples "$EXAMPLES_MAX")
run "/web/v1 from a page" -H "Origin: $page" --include-path-regex '^/web/v1/' "${each[@]}"
run "routes without a key" --exclude-path-regex '^/(v1|admin/v1|web/v1|device/v1)/' "${each[@]}"
run "/device/v1 with a publishable key" -H "X-API-Key: $publishable_key" \
  --include-path-regex '^/device/v1/' "${each[@]}"
run "/v1 with an API key" -H "X-API-Key: $api_key" --include-path-regex '^/v1/' "${each[@]}"
run "/v1 with an API key, in sequences" -H "X-API-Key: $api_key" --include-path-regex '^/v1/' \
  --phases stateful --max-examples "$SEQUENCES_MAX"
# These operations come last, because they may delete the application.
run "/admin/v1 with an admin key" -H "Authorization: Bearer $admin_key" \
  --include-path-regex '^/admin/v1/' "${each[@]}"

# A server that has crashed is also a finding.
kill -0 "$server_pid" || { cat "$scratch/log"; failed=1; }
exit "$failed"
