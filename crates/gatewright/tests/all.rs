//! What the crate promises, tested through its public interface.
#![expect(clippy::unwrap_used, reason = "a helper that fails fails its test")]

mod all {
    mod app;
    mod config;
}
