#!/bin/sh
# Builds the Debian package, with manual pages and completions: `packaging/build-deb.sh [BINARY [FOLDER]]`.
#
# Without BINARY it builds one. The package is in target/debian, or in FOLDER. Needs `dpkg-dev`, which comes with
# Debian's compilers, and nothing else.
set -eu
cd "$(dirname "$0")/.."
folder=$(realpath -m "${2:-target/debian}")
if [ $# -eq 0 ]; then
  cargo build --locked --profile dist --package gatewright-cli
fi
binary=$(realpath "${1:-${CARGO_TARGET_DIR:-target}/dist/gatewright}")
mkdir -p "$folder"
stage=$(mktemp -d "$folder/stage-XXXXXX")
trap 'rm -rf "$stage"' EXIT
root=$stage/root

install -D -m 755 "$binary" "$root/usr/bin/gatewright"
install -D -m 644 packaging/gatewright.service "$root/usr/lib/systemd/system/gatewright.service"
install -D -m 644 README.md "$root/usr/share/doc/gatewright/README.md"
install -D -m 644 LICENSE-APACHE "$root/usr/share/doc/gatewright/copyright"
"$binary" man "$root/usr/share/man/man1"
gzip -9n "$root"/usr/share/man/man1/*
completions() {
  mkdir -p "$(dirname "$root$2")"
  "$binary" completions "$1" >"$root$2"
}
completions bash /usr/share/bash-completion/completions/gatewright
completions zsh /usr/share/zsh/vendor-completions/_gatewright
completions fish /usr/share/fish/vendor_completions.d/gatewright.fish

# The libraries that the binary is linked to, as Debian's packages. The tool reads its names from a debian/control.
mkdir -p "$stage/debian"
printf 'Source: gatewright\n\nPackage: gatewright\nArchitecture: any\n' >"$stage/debian/control"
libraries=$(cd "$stage" && dpkg-shlibdeps -O root/usr/bin/gatewright 2>/dev/null | sed -n 's/^shlibs:Depends=//p')

mkdir -p "$root/DEBIAN"
cat >"$root/DEBIAN/control" <<CONTROL
Package: gatewright
Version: $(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' Cargo.toml)
Architecture: $(dpkg --print-architecture)
Maintainer: $(cat packaging/debian/maintainer)
Installed-Size: $(du -sk "$root/usr" | cut -f1)
Depends: $libraries, adduser, init-system-helpers
Section: net
Priority: optional
Description: A backend as one binary
 A whole backend from one file: accounts, entities with REST endpoints, live
 event streams.
CONTROL
install -m 755 packaging/debian/postinst packaging/debian/prerm packaging/debian/postrm "$root/DEBIAN/"
(cd "$root" && find usr -type f -exec md5sum {} +) >"$root/DEBIAN/md5sums"
chmod -R u=rwX,go=rX "$root"
dpkg-deb --root-owner-group --build "$root" "$folder"
