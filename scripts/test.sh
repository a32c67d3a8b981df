#!/usr/bin/env bash
# Installs what the tests need and runs them all: formatting, lints, documentation, tests, examples.
set -euo pipefail
cd "$(dirname "$0")/.."

# Each step tells when it began: the whole run has 30 minutes.
step() { printf '\n== %d:%02d %s\n' $((SECONDS / 60)) $((SECONDS % 60)) "$*"; }

# A C compiler builds SQLite and the cryptography; Debian calls the package build-essential.
if ! command -v cc >/dev/null; then
  step "install a C compiler"
  apt-get update -q && apt-get install -qy --no-install-recommends build-essential
fi

# Disks that are full or fail: a mount namespace (util-linux) and system calls that fail (strace).
if ! command -v strace >/dev/null || ! command -v unshare >/dev/null; then
  step "install strace and util-linux"
  apt-get update -q && apt-get install -qy --no-install-recommends strace util-linux
fi

# The store's tests run on both databases; they start a PostgreSQL of their own, as its user.
if ! command -v initdb >/dev/null && ! ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1; then
  step "install PostgreSQL"
  apt-get update -q && apt-get install -qy --no-install-recommends postgresql
fi

# The page of a poll and the SDK for browsers run in real browsers; their tests fail without them.
if ! command -v chromium >/dev/null; then
  step "install Chromium"
  apt-get update -q && apt-get install -qy --no-install-recommends chromium
fi
if ! command -v firefox >/dev/null; then
  step "install Firefox"
  apt-get update -q && apt-get install -qy --no-install-recommends firefox-esr
fi

# The files that run Notify: systemd reads its unit, Python brings the other linters and what tests the
# API against its description.
if ! command -v systemd-analyze >/dev/null || ! python3 -c 'import ensurepip, venv' 2>/dev/null; then
  step "install systemd and python3-venv"
  apt-get update -q && apt-get install -qy --no-install-recommends systemd python3-venv
fi

export CARGO_TERM_COLOR="${CARGO_TERM_COLOR:-never}"
# Backtraces are for people; without them the tests' own messages stay readable.
export RUST_BACKTRACE=0
# Those that take long wait for leases and time limits, hardly for the processor.
export RUST_TEST_THREADS="${RUST_TEST_THREADS:-4}"

step "format"
cargo fmt --all --check

step "files that run Notify"
./scripts/lint-deploy.sh

# What is run is built once, with one set of features: what one package alone is built with differs, and
# costs minutes. Some tests start the binaries.
step "build"
cargo build --workspace --all-features --bins --tests

# They take what the tests leave of the processor, which wait more than they compute; in a folder of
# their own, since cargo builds one thing at a time in one.
lints() {
  renice -n 19 "$BASHPID" >/dev/null
  ionice -c 3 -p "$BASHPID" || true
  export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/lints"
  cargo clippy --workspace --all-targets --all-features -- -D warnings
  # As users build them: without what tests add.
  cargo clippy -p notify-server -p notify-cli -- -D warnings
  export RUSTDOCFLAGS="-D warnings"
  cargo doc --workspace --all-features --no-deps --document-private-items
}
step "lints and documentation, beside the tests"
found=$(mktemp)
set -m # a group of its own, which ends as one
lints >"$found" 2>&1 &
lints_pid=$!
set +m
trap 'kill -- "-$lints_pid" 2>/dev/null || true; rm -f "$found"' EXIT
lints_end() { wait "$lints_pid" || { cat "$found"; exit 1; }; }
# Nobody waits for the end of the tests to hear of what was found at their beginning.
look_at_lints() { kill -0 "$lints_pid" 2>/dev/null || lints_end; }

step "tests"
cargo test --workspace --all-features

look_at_lints
step "tests on PostgreSQL"
# Two at once: a request has 4 seconds for its storage here too.
NOTIFY_TEST_BACKEND=postgres RUST_TEST_THREADS=2 cargo test --workspace --all-features \
  --test api --test api_end_to_end --test delivery --test webhooks --test polls --test isolation

look_at_lints
step "crash tests on PostgreSQL"
NOTIFY_TEST_BACKEND=postgres NOTIFY_CRASH_RUNS=5 cargo test --workspace --all-features \
  --test crash -- --test-threads=6 points kills_at

look_at_lints
step "the API against its own description"
./scripts/fuzz-api.sh

step "examples"
for example in examples/src/bin/*.rs; do
  name=$(basename "$example" .rs)
  printf -- '-- %s\n' "$name"
  "${CARGO_TARGET_DIR:-target}/debug/$name"
done

step "what the lints found"
lints_end
echo nothing

step "all passed"
