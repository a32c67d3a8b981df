#!/usr/bin/env bash
# Runs the checks and tests: every part except `dependencies`, or the parts that are named. Installs what they
# need, on Debian as root. A part that fails does not end the run. CONTRIBUTING.md describes the parts.
set -euo pipefail
cd "$(dirname "$0")/.."

PARTS=(lint docs unit store simulation e2e browsers postgres)
# Runs only if it is named: it compiles cargo-deny for minutes, and needs the advisory database.
NAMED_PARTS=(dependencies)
# The version is pinned, because each version has other findings.
CARGO_DENY_VERSION=0.20.2
# Timeout of the download of the advisory database, in seconds.
ADVISORIES_SECONDS_MAX=120

for named in "$@"; do
  if [[ " ${PARTS[*]} ${NAMED_PARTS[*]} " != *" $named "* ]]; then
    echo "usage: $0 [PART]...; the parts are: ${PARTS[*]} ${NAMED_PARTS[*]}" >&2
    exit 2
  fi
done
asked=" ${*:-${PARTS[*]}} "
runs() { [[ $asked == *" $1 "* ]]; }
chosen=()
for name in "${PARTS[@]}" "${NAMED_PARTS[@]}"; do
  if runs "$name"; then chosen+=("$name"); fi
done

# The name of the running part, and its process group.
part=
part_pid=
# Each step prints its start time, because the whole run should take at most 20 minutes.
step() { printf '\n== %d:%02d %s: %s\n' $((SECONDS / 60)) $((SECONDS % 60)) "$part" "$*"; }

scratch=$(mktemp -d)
finish() {
  if [ -n "$part_pid" ]; then kill -- "-$part_pid" 2>/dev/null || true; fi
  rm -rf "$scratch"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

export CARGO_TERM_COLOR="${CARGO_TERM_COLOR:-never}"
# Backtraces are for people; without them the tests' own messages stay readable.
export RUST_BACKTRACE=0
# Long tests mostly wait for leases and timeouts and use little CPU time.
export RUST_TEST_THREADS="${RUST_TEST_THREADS:-4}"

# -- What the parts need -------------------------------------------------------------------------------

apt_install() {
  step "install $*"
  apt-get update -q && apt-get install -qy --no-install-recommends "$@"
}
# The compiler builds SQLite and the cryptography.
need_compiler() { command -v cc >/dev/null || apt_install build-essential; }
need_lints() {
  if ! cargo fmt --version >/dev/null 2>&1 || ! cargo clippy --version >/dev/null 2>&1; then
    step "install rustfmt and Clippy"
    rustup component add rustfmt clippy
  fi
}
# The linters of the deployment files and the generators of API requests and of clients come from PyPI.
need_python() { python3 -c 'import ensurepip, venv' 2>/dev/null || apt_install python3-venv; }
# systemd checks its unit, and lists the system calls of a group.
need_systemd() { command -v systemd-analyze >/dev/null || apt_install systemd; }
# The quick start in the README calls curl, and the console shows commands with curl.
need_curl() { command -v curl >/dev/null || apt_install curl; }
# The tests start their own PostgreSQL.
need_postgres() {
  if ! command -v initdb >/dev/null && ! ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1; then
    apt_install postgresql
  fi
}
# Tests send through it. Debian starts it as a service, which the tests do not use.
need_squid() { [ -x /usr/sbin/squid ] || command -v squid >/dev/null || apt_install squid; }
# A test opens a database behind it. Debian puts it into /usr/sbin.
need_pgbouncer() { [ -x /usr/sbin/pgbouncer ] || command -v pgbouncer >/dev/null || apt_install pgbouncer; }
# Tests fill a small disk that they mount in a namespace (util-linux), and make system calls fail (strace).
need_bad_disks() {
  if ! command -v strace >/dev/null || ! command -v unshare >/dev/null; then
    apt_install strace util-linux
  fi
}
# Tests run the files of docs/self-hosting.md. Debian puts nginx into /usr/sbin.
need_reverse_proxies() {
  if { [ -x /usr/sbin/nginx ] || command -v nginx >/dev/null; } && command -v caddy >/dev/null; then return; fi
  apt_install nginx caddy
}
need_chromium() { command -v chromium >/dev/null || apt_install chromium; }
need_firefox() { command -v firefox >/dev/null || apt_install firefox-esr; }
# axe-core, which checks the accessibility of the console, TypeScript and a generator of clients are from npm.
need_npm() { command -v npm >/dev/null || apt_install npm; }

lint_needs() { need_compiler; need_lints; need_python; need_systemd; }
docs_needs() { need_compiler; need_curl; }
unit_needs() { need_compiler; need_postgres; need_pgbouncer; }
store_needs() { need_compiler; need_postgres; need_pgbouncer; }
simulation_needs() { need_compiler; need_postgres; }
e2e_needs() {
  need_compiler; need_curl; need_postgres; need_bad_disks; need_systemd; need_python; need_npm
  need_reverse_proxies; need_squid
}
browsers_needs() { need_compiler; need_bad_disks; need_chromium; need_firefox; need_npm; }
dependencies_needs() { need_compiler; }
postgres_needs() { need_compiler; need_postgres; need_bad_disks; need_chromium; }

# -- What the parts do ---------------------------------------------------------------------------------

# Cargo always gets the whole workspace. It builds a single package with other features, which takes minutes.
cargo_test() { cargo test --workspace --all-features --no-fail-fast "$@"; }
# Some tests start the binaries. Built without a suite, the binaries would have other features.
build() {
  step "build"
  cargo build --workspace --all-features --bins "$@"
}
# Prints the suites of packages as cargo arguments, one per line.
suites() {
  local package path
  for package in "$@"; do
    for path in "$package"/tests/*; do
      if [ -f "$path/main.rs" ] || [[ $path == *.rs ]]; then
        echo "--test=$(basename "$path" .rs)"
      fi
    done
  done
}
docs_suites=(--test=docs --test=tidy)
browsers_suites=(--test=browser --test=console_browser --test=polls)
mapfile -t unit_suites < <(suites notify-core notify-server notify-client notify-cli notify-testing examples)
# All suites that no other part runs, so that a new suite is never left out.
mapfile -t e2e_suites < <(suites tests bench |
  grep -vxF -e "$(printf '%s\n' "${docs_suites[@]}" "${browsers_suites[@]}")")
# Suites that mostly wait, for leases, timeouts and disks. They run concurrently with the others.
waiting_suites=(--test=crash --test=unauthenticated)
mapfile -t busy_suites < <(printf '%s\n' "${e2e_suites[@]}" |
  grep -vxF -e "$(printf '%s\n' "${waiting_suites[@]}")")
postgres_suites=(--test=api --test=api_end_to_end --test=delivery --test=webhooks --test=polls
  --test=isolation)

# Runs a step of a part. If it fails, the part fails at its end: `status` is a variable of the part.
try() { "$@" || status=1; }

lint() {
  local status=0
  step "format"
  try cargo fmt --all --check
  step "deployment files"
  try ./scripts/lint-deploy.sh
  step "Clippy"
  try cargo clippy --workspace --all-targets --all-features --keep-going -- -D warnings
  # The binaries are built as users build them: one by one, and without the features for tests.
  try cargo clippy -p notify-push-server -- -D warnings
  try cargo clippy -p notify-push-cli -- -D warnings
  step "Clippy, without the console and the sandbox"
  try cargo clippy -p notify-push-server --no-default-features -- -D warnings
  step "crates that can be published"
  try cargo package --quiet --no-verify --allow-dirty -p notify-core -p notify-client -p notify-sandbox \
    -p notify-push-server -p notify-push-cli -p notify-testing
  return "$status"
}

dependencies() {
  local tools="$PWD/target/cargo-deny-$CARGO_DENY_VERSION"
  if ! command -v cargo-deny >/dev/null; then PATH="$PATH:$tools/bin"; fi
  if ! command -v cargo-deny >/dev/null; then
    step "install cargo-deny"
    # It runs for seconds, so a quick build matters more than a fast binary.
    env -u CARGO_TARGET_DIR CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_LTO=off \
      CARGO_PROFILE_RELEASE_CODEGEN_UNITS=256 \
      cargo install cargo-deny --locked --version "$CARGO_DENY_VERSION" --root "$tools"
  fi
  step "bans, licences and sources"
  cargo-deny --log-level error --locked check bans licenses sources
  cargo-deny --manifest-path fuzz/Cargo.toml --config deny.toml --log-level error --locked \
    check bans licenses sources
  step "advisories"
  timeout "$ADVISORIES_SECONDS_MAX" cargo-deny --log-level error fetch db
  cargo-deny --log-level error --locked check advisories
}

docs() {
  local status=0
  build "${docs_suites[@]}"
  step "documents and source tree"
  try cargo_test "${docs_suites[@]}"
  step "examples in the documentation"
  try cargo_test --doc
  step "rustdoc"
  RUSTDOCFLAGS="-D warnings" try cargo doc --workspace --all-features --no-deps --document-private-items
  return "$status"
}

# Together, the filters of the next three parts run each test of the libraries once.
unit() {
  local status=0
  step "libraries, without the store and delivery"
  try cargo_test --lib -- --skip store:: --skip delivery::
  step "programs, and the suites of their packages"
  try cargo_test --bins "${unit_suites[@]}"
  return "$status"
}
store() {
  step "the store, on both databases"
  # These tests mostly wait for PostgreSQL.
  RUST_TEST_THREADS=8 cargo_test --lib -- store::
}
simulation() {
  step "delivery and its simulation"
  cargo_test --lib -- delivery:: --skip store::
}

e2e() {
  local status=0
  build "${e2e_suites[@]}"
  step "the whole product; generated requests, and suites that mostly wait, run concurrently"
  begin_beside cargo_test "${waiting_suites[@]}"
  # The suites leave about a core idle, which the generated requests use for minutes.
  begin_beside ./scripts/fuzz-api.sh
  try cargo_test "${busy_suites[@]}"
  step "clients generated from the description"
  try ./scripts/test-generators.sh
  step "examples"
  local example name
  for example in examples/src/bin/*.rs; do
    name=$(basename "$example" .rs)
    printf -- '-- %s\n' "$name"
    try "${CARGO_TARGET_DIR:-target}/debug/$name"
  done
  step "suites that mostly wait, and the API against its own description"
  try end_beside
  return "$status"
}

browsers() {
  build "${browsers_suites[@]}"
  step "pages in real browsers"
  cargo_test "${browsers_suites[@]}"
}

postgres() {
  local status=0
  build "${postgres_suites[@]}" --test=crash
  step "suites on PostgreSQL; crash tests run concurrently"
  export NOTIFY_TEST_BACKEND=postgres
  NOTIFY_CRASH_RUNS=5 begin_beside cargo_test --test=crash -- --test-threads=2 points kills_at
  # Two tests run at a time. With more, requests would exceed their 4 seconds for storage.
  RUST_TEST_THREADS=2 try cargo_test "${postgres_suites[@]}"
  step "crash tests on PostgreSQL"
  try end_beside
  return "$status"
}

# Starts a command that runs concurrently with the next ones. `end_beside` waits for it and prints its output.
beside_pids=()
begin_beside() {
  "$@" >"$scratch/beside-${#beside_pids[@]}" 2>&1 &
  beside_pids+=($!)
}
end_beside() {
  local nth status=0
  for nth in "${!beside_pids[@]}"; do
    wait "${beside_pids[$nth]}" || status=$?
    cat "$scratch/beside-$nth"
  done
  beside_pids=()
  return "$status"
}

# -- The run -------------------------------------------------------------------------------------------

for part in "${chosen[@]}"; do "${part}_needs"; done
failed=()
for part in "${chosen[@]}"; do
  # Each part is a process group, which an interrupt ends as one. Its status is tested afterwards, because
  # Bash ignores `set -e` in a command whose status is tested at once.
  set -m
  (set -e +m; "$part") &
  part_pid=$!
  set +m
  wait "$part_pid" || failed+=("$part")
  part_pid=
  # The lints come first, because they fail soonest. Then everything is built at once. A failure shows again in
  # the parts that need what was not built.
  if [ "$part" = lint ] && [ "${#chosen[@]}" -eq "${#PARTS[@]}" ]; then build --tests || true; fi
done

part=${chosen[*]}
if [ "${#failed[@]}" -gt 0 ]; then
  step "failed: ${failed[*]}"
  exit 1
fi
step "passed"
