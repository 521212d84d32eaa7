//! Black-box tests of the built server: commands, requests, screens, and the state after a crash.
//!
//! Nothing here uses the crates. [`harness`] starts the binary as a shell would and sends it HTTP requests.
#![cfg(test)]

mod accounts;
mod agreement;
mod banner;
mod browser_docs;
mod browser_origins;
mod browser_story;
mod checker;
mod client;
mod client_tabs;
mod commands;
mod connections;
mod console;
mod console_pages;
mod durability;
mod exports;
mod failover;
mod fanout;
mod files;
mod forms;
mod handbook;
mod harness;
mod helpdesk;
mod hostile;
mod keys;
mod limits;
mod lost_files;
mod memory;
mod operations;
mod outbox;
mod packages;
mod passkeys;
mod pooler;
mod presets;
mod projects;
mod providers;
mod races;
mod refusals;
mod relying_parties;
mod replicas;
mod revoked;
mod rolling;
mod schema_changes;
mod screens;
mod single_page;
mod story;
mod surfaces;
mod tenants;
mod tickets;
mod together;
mod tokens;
mod tour;
mod tracker;
mod tutorial;
