#!/bin/sh
# Builds the Debian package, with manual pages and completions. Needs `cargo install cargo-deb`.
set -e
cd "$(dirname "$0")/.."
cargo build --locked --release --package gatewright-cli
extra=target/debian-extra
rm -rf "$extra"
mkdir -p "$extra"
target/release/gatewright man "$extra/man"
target/release/gatewright completions bash > "$extra/gatewright.bash"
target/release/gatewright completions zsh > "$extra/_gatewright"
target/release/gatewright completions fish > "$extra/gatewright.fish"
cargo deb --no-build --package gatewright-cli
