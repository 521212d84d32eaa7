//! The commands as a shell sees them: what they print where, and how they end.
#![expect(clippy::unwrap_used, reason = "a helper that fails fails its test")]

mod all {
    mod check;
    mod harness;
    mod init;
    mod migrate;
    mod serve;
    mod tenants;
    mod types;
    mod users;
    mod verify;
}
