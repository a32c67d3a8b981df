#!/usr/bin/env bash
# Builds the files of a release for one target, in target/packages: the archive of the static binaries, the
# Debian package, the SBOMs and SHA256SUMS. The same commit, toolchain and target give the same files.
#
#   ./scripts/dist.sh [ARGUMENT OF cargo build]...
#   TARGET=x86_64-unknown-linux-gnu ./scripts/dist.sh    # glibc; for trials only (docs/operations.md)
set -euo pipefail
cd "$(dirname "$0")/.."

# The version is pinned, because each version writes other files.
CARGO_DEB_VERSION=3.8.0
CARGO_CYCLONEDX_VERSION=0.5.9

export TARGET="${TARGET:-$(uname -m)-unknown-linux-musl}"
export LC_ALL=C.UTF-8 TZ=UTC
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
# Who releases, as in the commit.
maintainer=$(git log -1 --format='%an <%ae>')
version=$(sed -n '/^\[workspace.package\]/,/^\[/ s/^version = "\(.*\)"$/\1/p' Cargo.toml)
root=$PWD
packages=$root/target/packages
# Files that the Debian package contains besides those of the repository (notify-server/Cargo.toml).
generated=$root/target/generated
binaries=$root/target/$TARGET/dist
rm -rf "$packages" "$generated"
mkdir -p "$packages" "$generated"

fail() { echo "$0: $*" >&2; exit 1; }
step() { printf -- '-- %s\n' "$*"; }
need() { command -v "$1" >/dev/null || fail "$1 is missing: install Debian's package $2"; }

# -- The binaries ----------------------------------------------------------------------------------------

need readelf binutils
need help2man help2man
standard_library=$(rustc --print target-libdir --target "$TARGET")
compgen -G "$standard_library/libstd-*.rlib" >/dev/null ||
  fail "Rust has no standard library for $TARGET: run rustup target add $TARGET"

cargo_home=${CARGO_HOME:-$HOME/.cargo}
# No path of this machine is in the binaries. Flags of RUSTFLAGS do not apply to build scripts.
export RUSTFLAGS="-C target-feature=+crt-static --remap-path-prefix=$root=. --remap-path-prefix=$cargo_home=cargo"
name=${TARGET//-/_}
export "CFLAGS_$name=-ffile-prefix-map=$root=. -ffile-prefix-map=$cargo_home=cargo"
case $TARGET in
*-musl)
  need musl-gcc musl-tools
  export "CC_$name=musl-gcc"
  ;;
esac

step "notify-server and notify for $TARGET"
CARGO_TARGET_DIR=$root/target cargo build --profile dist --locked --target "$TARGET" \
  -p notify-push-server -p notify-push-cli "$@"
for binary in notify-server notify; do
  if readelf --wide --program-headers --dynamic "$binaries/$binary" | grep -E 'INTERP|NEEDED'; then
    fail "$binary loads libraries"
  fi
  if readelf --wide --section-headers "$binaries/$binary" | grep -F .symtab; then
    fail "$binary is not stripped"
  fi
  reported=$("$binaries/$binary" --version)
  [ "$reported" = "$binary $version" ] || fail "$binary reports version '$reported', not $version"
done

# -- What the binaries say about themselves --------------------------------------------------------------

step "man pages, completions and changelog"
man() {
  help2man --no-info --section "$2" --name "$3" --manual "Notify" --source "notify $version" \
    "$binaries/$1" | gzip -9n >"$generated/$1.$2.gz"
}
man notify-server 8 "push-notification server"
man notify 1 "command of the Notify server"
"$binaries/notify" completions bash >"$generated/notify.bash"
"$binaries/notify" completions zsh >"$generated/_notify"
"$binaries/notify" completions fish >"$generated/notify.fish"
printf 'notify-server (%s-1) unstable; urgency=medium\n\n  * %s\n\n -- %s  %s\n' "$version" \
  "Release $version: see changelog.gz in this folder." \
  "$maintainer" \
  "$(date --rfc-email --date="@$SOURCE_DATE_EPOCH")" >"$generated/changelog"

# -- The files -------------------------------------------------------------------------------------------

# Tools run for seconds, so a quick build matters more than a fast binary.
tool() {
  local folder=$root/target/$1-$2
  if [ ! -x "$folder/bin/$1" ]; then
    env -u RUSTFLAGS CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_LTO=off \
      CARGO_PROFILE_RELEASE_CODEGEN_UNITS=256 \
      cargo install "$1" --locked --quiet --version "$2" --root "$folder"
  fi
  PATH="$folder/bin:$PATH"
}
step "install cargo-deb and cargo-cyclonedx"
tool cargo-deb "$CARGO_DEB_VERSION"
tool cargo-cyclonedx "$CARGO_CYCLONEDX_VERSION"

step "licences of the crates"
./scripts/third-party.sh notify-server "$TARGET" "$generated/notify-server-licences.txt"
./scripts/third-party.sh notify-cli "$TARGET" "$generated/notify-licences.txt"

step "archive"
folder=notify-$version-$TARGET
content=$generated/$folder
# The folders of docs/operations.md, whose commands work in the archive too.
mkdir -p "$content/deploy/systemd" "$content/completions" "$content/man"
install -t "$content" "$binaries/notify-server" "$binaries/notify"
install -m 0644 -t "$content" README.md CHANGELOG.md LICENSE-MIT LICENSE-APACHE docs/operations.md \
  docs/configuration.md "$generated"/*-licences.txt
install -m 0644 -t "$content/deploy/systemd" deploy/systemd/*
install -m 0644 -t "$content/completions" "$generated/notify.bash" "$generated/_notify" "$generated/notify.fish"
install -m 0644 -t "$content/man" "$generated"/*.gz
tar --directory "$generated" --sort=name --format=gnu --owner=0 --group=0 --numeric-owner \
  --mode=u=rwX,go=rX --mtime="@$SOURCE_DATE_EPOCH" --create "$folder" | gzip -9n >"$packages/$folder.tar.gz"

step "Debian package"
CARGO_TARGET_DIR=$root/target cargo deb --package notify-push-server --no-build --no-strip --profile dist \
  --target "$TARGET" --locked --maintainer "$maintainer" --output "$packages/"

# cargo-cyclonedx writes next to each manifest, so it runs in a copy of the commit.
step "SBOMs"
copy=$generated/copy
mkdir "$copy"
git archive HEAD | tar --directory "$copy" --extract
for package in notify-server notify-cli; do
  cargo cyclonedx --quiet --manifest-path "$copy/$package/Cargo.toml" --target "$TARGET" \
    --format json --spec-version 1.5 --override-filename sbom
  sed "s|file://$copy|file:///notify|" "$copy/$package/sbom.json" \
    >"$packages/$package-$version-$TARGET.cdx.json"
done

step "SHA256SUMS"
cd "$packages"
sha256sum -- notify* | tee SHA256SUMS
