//! Commands for the keys that sign JWTs.

use clap::Subcommand;

#[derive(Subcommand)]
pub(crate) enum KeyCommand {
    /// Lists the keys in the order in which they sign
    ///
    /// With --json: `{"items":[{"kid","algorithm","state","createdAt","signsFrom","acceptedUntil"}],"total"}`; `state` is
    /// `waiting`, `signing`, `verifying` or `expired`. The secret of HS256 has no `kid`.
    List {
        /// Prints JSON
        #[arg(long)]
        json: bool,
    },
    /// Adds a key, which is published at once and signs seven minutes later
    Rotate,
}
