#!/bin/sh
# Builds the Debian package, with manual pages and completions. Needs `cargo install cargo-deb`.
set -e
cd "$(dirname "$0")/.."
cargo build --locked --profile dist --package gatewright-cli
extra=target/debian-extra
rm -rf "$extra"
mkdir -p "$extra"
target/dist/gatewright man "$extra/man"
target/dist/gatewright completions bash > "$extra/gatewright.bash"
target/dist/gatewright completions zsh > "$extra/_gatewright"
target/dist/gatewright completions fish > "$extra/gatewright.fish"
cargo deb --no-build --profile dist --package gatewright-cli
