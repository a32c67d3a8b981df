#!/usr/bin/env bash
# Writes the pictures of the console to docs/console, or to the folder that is named. Needs Chromium and
# pngquant; installs them on Debian as root.
set -euo pipefail
cd "$(dirname "$0")/.."

folder="${1:-docs/console}"
# The limit of all pictures together, in bytes.
BYTES_MAX=1700000
# Few colours keep the pictures small.
COLOURS=12

missing=()
for tool in chromium pngquant; do
  command -v "$tool" >/dev/null || missing+=("$tool")
done
if [ "${#missing[@]}" -gt 0 ]; then
  apt-get update -q && apt-get install -qy --no-install-recommends "${missing[@]}"
fi

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cargo build --quiet --workspace --all-features --bin console-pictures
"${CARGO_TARGET_DIR:-target}/debug/console-pictures" "$scratch"

mkdir -p "$folder"
# Pictures of pages that no longer exist are removed.
rm -f "$folder"/*.png
for picture in "$scratch"/*.png; do
  pngquant --speed 1 --strip --nofs --output "$folder/$(basename "$picture")" "$COLOURS" "$picture"
done
bytes=$(cat "$folder"/*.png | wc -c)
echo "$(ls "$folder"/*.png | wc -l) pictures, $bytes bytes"
if [ "$bytes" -gt "$BYTES_MAX" ]; then
  echo "the pictures are larger than $BYTES_MAX bytes" >&2
  exit 1
fi
