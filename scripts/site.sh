#!/usr/bin/env bash
# Builds the site of the documents in target/site/pages: the pages that docs/SUMMARY.md lists, the example
# programs, the OpenAPI document, and the rustdoc of the SDK. Then checks every link and anchor within it.
# Needs curl.
set -euo pipefail
cd "$(dirname "$0")/.."

# The versions are pinned, because each version of mdBook has other settings and anchors, and each version
# of the link checker has other findings.
MDBOOK_VERSION=0.5.4
HYPERLINK_VERSION=0.3.2
# Timeout of the start of a server, in tenths of a second.
START_TENTHS_MAX=300

target=${CARGO_TARGET_DIR:-target}
site=target/site
source=$site/source/src
pages=$site/pages
tools=$PWD/$site/tools

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

step() { printf '\n== %d:%02d %s\n' $((SECONDS / 60)) $((SECONDS % 60)) "$*"; }

# Installs a program from crates.io. It runs for seconds, so a quick build matters more than a fast binary.
install_crate() {
  local name=$1 version=$2
  if [ ! -x "$tools/$name-$version/bin/$name" ]; then
    env -u CARGO_TARGET_DIR CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_CODEGEN_UNITS=256 \
      cargo install "$name" --quiet --locked --version "$version" --root "$tools/$name-$version" "${@:3}"
  fi
}

# -- The sources of the book ---------------------------------------------------------------------------

# mdBook makes pages of Markdown alone, so a page wraps each program and licence.
# shellcheck disable=SC2016
wrap() {
  local file=$1 language=$2
  { printf '# `%s`\n\n````%s\n' "$file" "$language"; cat "$file"; echo '````'; } >"$source/$file.md"
}

# A page that lists the examples with the comments at their beginning, and its entries in the contents.
# shellcheck disable=SC2016
write_examples() {
  local folder=examples/src/bin file name comment
  mkdir -p "$source/$folder"
  echo "- [Examples]($folder/index.md)" >"$scratch/examples"
  {
    printf '# Examples\n\nEach program starts the servers that it needs. To run one:\n'
    printf '`cargo run -p notify-examples --bin NAME`\n\n'
    for file in "$folder"/*.rs; do
      name=$(basename "$file" .rs)
      comment=$(sed -n 's|^//! \?||p' "$file" | sed '/^$/Q' | tr '\n' ' ')
      echo "- [\`$name\`]($name.rs.md): $comment"
      echo "  - [\`$name\`]($file.md)" >>"$scratch/examples"
      wrap "$file" rust
    done
  } >"$source/$folder/index.md"
}

# Pages that lead to what other tools write. rustdoc does not write the index to which its pages link.
write_references() {
  mkdir -p "$source/rustdoc"
  cat >"$source/rustdoc/index.md" <<'MARKDOWN'
# The reference of the crates

- [`notify_client`](notify_client/index.html): the SDK, with each call, its errors and its options
- [`notify_core`](notify_core/index.html): the models of requests and answers
MARKDOWN
  echo '  - [The reference of the crates](rustdoc/index.md)' >"$scratch/crates"
  cat >"$source/openapi.md" <<'MARKDOWN'
# The API as OpenAPI

- [The reference page](openapi/index.html), which every server also has at `/docs`
- [`openapi.json`](openapi/openapi.json), the document for generators and other tools
MARKDOWN
  echo '  - [The API as OpenAPI](openapi.md)' >"$scratch/openapi"
}

# The book has the folders of the repository, so that the links between the documents also work there.
assemble() {
  local page listed licence
  rm -rf "$source"
  mkdir -p "$source"
  cp docs/book.toml docs/site.css "$source/.."
  mapfile -t listed < <(sed -n 's|.*](\(.*\))$|docs/\1|p' docs/SUMMARY.md | xargs realpath --relative-to=.)
  cp --parents "${listed[@]}" "$source"
  cp -r --parents docs/console "$source"
  write_examples
  write_references
  for licence in LICENSE-*; do
    wrap "$licence" text
    echo "- [$licence]($licence.md)" >>"$scratch/licences"
  done
  sed -e 's|](|](docs/|' -e 's|](docs/\.\./|](|' docs/SUMMARY.md >"$source/SUMMARY.md"
  # mdBook names pages after their files, and servers show index.html for a folder.
  find "$source" -name README.md -execdir mv {} index.md \;
  find "$source" -name '*.md' -exec sed -i -E \
    -e 's%(\]\([^):]*)README\.md([)#])%\1index.md\2%g' \
    -e 's#(\]\([^):]*examples/src/bin)\)#\1/index.md)#g' \
    -e 's#(\]\([^):]*(\.rs|LICENSE-[A-Za-z0-9]+))\)#\1.md)#g' {} +
  for page in crates openapi examples licences; do
    sed -i -e "/^<!-- $page -->\$/{r $scratch/$page" -e 'd}' "$source/SUMMARY.md"
  done
}

# -- The pages ------------------------------------------------------------------------------------------

build_book() {
  rm -rf "$pages"
  "$tools/mdbook-$MDBOOK_VERSION/bin/mdbook" build --dest-dir "$PWD/$pages" "$site/source" 2>&1 |
    tee "$scratch/log"
  if grep -q 'WARN\|ERROR' "$scratch/log"; then
    echo "mdBook found the faults above"
    exit 1
  fi
}

# The reference page of a server, with the requests that it can send turned off.
add_openapi() {
  local server=$target/debug/notify-server url file
  cargo build --quiet --workspace --all-features --bin notify-server
  mkdir -p "$pages/openapi"
  "$server" openapi >"$pages/openapi/openapi.json"
  "$server" serve --data-dir "$scratch/data" --log warn --listen 127.0.0.1:0 \
    >"$scratch/listening" 2>"$scratch/log" &
  server_pid=$!
  for _ in $(seq "$START_TENTHS_MAX"); do
    if grep -q '^listening on ' "$scratch/listening"; then break; fi
    kill -0 "$server_pid" || { cat "$scratch/log"; exit 1; }
    sleep 0.1
  done
  url=$(sed -n 's/^listening on //p' "$scratch/listening")
  curl -fsS "$url/docs" >"$scratch/page"
  mapfile -t files < <(grep -o '"docs/[^"]*"' "$scratch/page" | sed 's|"docs/\(.*\)"|\1|')
  for file in "${files[@]}"; do
    curl -fsS --compressed -o "$pages/openapi/$file" "$url/docs/$file"
  done
  sed -e 's|"docs/|"|g' \
    -e 's|<body>|&\n<p><a href="../index.html">Notify</a></p>|' "$scratch/page" >"$pages/openapi/index.html"
  sed -i -e "s|'openapi.json'|&, supportedSubmitMethods: []|" "$pages/openapi/start.js"
  # No check of links reads scripts.
  grep -q "'openapi.json', supportedSubmitMethods" "$pages/openapi/start.js"
}

add_rustdoc() {
  # Other crates that were documented before would be in the list of crates.
  rm -rf "$site/rustdoc"
  # The dependencies are partly those that the server has.
  CARGO_BUILD_BUILD_DIR="$(realpath "$target")" CARGO_TARGET_DIR="$site/rustdoc" \
    cargo doc --quiet --no-deps --all-features -p notify-core -p notify-client
  cp -r "$site/rustdoc/doc/." "$pages/rustdoc"
}

check_links() {
  cp -r "$pages" "$scratch/pages"
  # Two kinds of links are no faults: the script of rustdoc resolves ranges of source lines, and links in
  # the comments of traits of utoipa and tracing lead to pages of these crates.
  find "$scratch/pages/rustdoc" -name '*.html' -exec sed -i -E -e 's|(\.rs\.html#[0-9]+)-[0-9]+|\1|g' \
    -e 's/href="(#tymethod\.compose|dispatcher#[^"]*)"//g' {} +
  (cd "$scratch" && "$tools/hyperlink-$HYPERLINK_VERSION/bin/hyperlink" --check-anchors pages)
}

step "tools"
install_crate mdbook "$MDBOOK_VERSION" --no-default-features --features search
install_crate hyperlink "$HYPERLINK_VERSION"
step "pages"
assemble
build_book
step "OpenAPI"
add_openapi
step "rustdoc"
add_rustdoc
step "links"
check_links
step "built $pages"
