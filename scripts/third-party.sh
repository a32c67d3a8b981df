#!/usr/bin/env bash
# Writes the licences of the crates in a binary, which must accompany it.
#
#   ./scripts/third-party.sh FOLDER TARGET FILE
#
# FOLDER is that of the package, such as notify-server, and TARGET that of cargo build.
set -euo pipefail
cd "$(dirname "$0")/.."

# The version is pinned, because each version writes other texts.
CARGO_ABOUT_VERSION=0.9.3

if [ $# -ne 3 ]; then
  echo "usage: $0 FOLDER TARGET FILE" >&2
  exit 2
fi

tool=$PWD/target/cargo-about-$CARGO_ABOUT_VERSION
if [ ! -x "$tool/bin/cargo-about" ]; then
  # It runs for a minute or two. To optimise it would take longer.
  env -u RUSTFLAGS CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_LTO=off \
    CARGO_PROFILE_RELEASE_CODEGEN_UNITS=256 \
    cargo install cargo-about --locked --quiet --features cli --version "$CARGO_ABOUT_VERSION" --root "$tool"
fi
"$tool/bin/cargo-about" about generate --locked --fail --target "$2" \
  --config deploy/third-party/about.toml --manifest-path "$1/Cargo.toml" \
  --output-file "$3" deploy/third-party/about.hbs
