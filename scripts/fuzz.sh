#!/usr/bin/env bash
# Runs the fuzz targets in fuzz/ on stable Rust: one target, or each in turn. A finding ends the run. Then the
# input is below fuzz/target/artifacts/TARGET, and the command for it is printed.
#
#   ./scripts/fuzz.sh                     every target for a minute each
#   ./scripts/fuzz.sh feeds 1200          one target for 20 minutes
#   ./scripts/fuzz.sh feeds fuzz/target/artifacts/feeds/crash-…    one input
set -euo pipefail
cd "$(dirname "$0")/.."

SECONDS_DEFAULT=60
# Longest time for one input, in seconds. The slowest seeds take milliseconds.
INPUT_SECONDS_MAX=5
# Most memory of the process and of one allocation, in MB.
MEMORY_MB_MAX=1024
ALLOCATION_MB_MAX=64
HOST=$(rustc -vV | sed -n 's/^host: //p')

mapfile -t TARGETS < <(basename -s .rs fuzz/targets/*.rs)
target=${1:-}
if [ -n "$target" ] && [[ " ${TARGETS[*]} " != *" $target "* ]]; then
  echo "usage: $0 [TARGET] [SECONDS | FILE]; the targets are: ${TARGETS[*]}" >&2
  exit 2
fi

# Longest input of a target, in bytes: long enough for several items, short enough for many inputs a second.
bytes_max() {
  case $1 in
    feeds) echo 8192 ;;
    requests | json) echo 4096 ;;
    *) echo 1024 ;;
  esac
}

# The flags of `cargo fuzz`. They apply to the crates for the target, not to build scripts, because `--target`
# is given.
flags=(--cfg fuzzing -Cpasses=sancov-module
  -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters
  -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares
  -Ccodegen-units=1 -Cdebug-assertions)
build=(cargo build --manifest-path fuzz/Cargo.toml --target-dir fuzz/target --target "$HOST"
  --release --locked)
if [ -n "$target" ]; then build+=(--bin "$target"); else build+=(--bins); fi
RUSTFLAGS="${flags[*]}" CARGO_INCREMENTAL=0 "${build[@]}"

run() {
  local name=$1 limit=$2
  local found=fuzz/target/artifacts/$name corpus=fuzz/target/corpus/$name
  local binary=fuzz/target/$HOST/release/$name
  local options=(-timeout="$INPUT_SECONDS_MAX" -rss_limit_mb="$MEMORY_MB_MAX"
    -malloc_limit_mb="$ALLOCATION_MB_MAX" -artifact_prefix="$found/")
  mkdir -p "$found" "$corpus"
  if [ -f "$limit" ]; then
    "$binary" "${options[@]}" "$limit"
    return
  fi
  if [ -f "fuzz/dictionaries/$name.dict" ]; then
    options+=(-dict="fuzz/dictionaries/$name.dict")
  fi
  # What is generated goes to the first folder. The seeds are only read.
  "$binary" "${options[@]}" -max_len="$(bytes_max "$name")" -max_total_time="$limit" \
    -print_final_stats=1 -use_value_profile=1 "$corpus" "fuzz/corpus/$name" || {
    echo "$name: to repeat the finding: $0 $name FILE" >&2
    return 1
  }
}

for name in "${TARGETS[@]}"; do
  if [ -z "$target" ] || [ "$name" = "$target" ]; then
    echo "== $name"
    run "$name" "${2:-$SECONDS_DEFAULT}"
  fi
done
