//! Load benchmarks over real sockets. Each compares Gatewright with a hand-written program that does the same work with
//! the same durability, in one run on one machine. It prints ratios, because absolute numbers depend on the machine.
//!
//! `cargo xtask bench accounts` reads and writes with credentials, reads while others sign in, and starts a server, on SQLite.
//!
//! `cargo xtask bench crud` creates, gets and lists records on SQLite and, if a Postgres server is installed, on
//! Postgres. The programs under load are child processes. This process creates the load.
//!
//! `cargo xtask bench cursor` reads the first page of a million records by cursor and the ten thousandth page, on
//! SQLite and Postgres.
//!
//! `cargo xtask bench instructions` counts the processor's instructions for one request of each kind, and compares them with
//! the counts in `instructions.json`. Needs valgrind.
//!
//! `cargo xtask bench limits` measures decisions of the limiters: in memory, compared with the crate `governor`, and in
//! Redis, compared with the cheapest Redis command.
//!
//! `cargo xtask bench log` creates records with and without the event log, on SQLite and Postgres.
//!
//! `cargo xtask bench outbox` delivers a backlog to one and to four consumers, on SQLite and Postgres, and measures the
//! time from a commit to its handler.
//!
//! `cargo xtask bench rules` lists 25 of a million records under a rule over two relations, compared with the plain
//! list, on SQLite and Postgres.
//!
//! `cargo xtask bench search` searches a million records with three words, beside FTS5 and `tsquery` by hand, and compares creates
//! with and without an index, on SQLite and Postgres.
//!
//! `cargo xtask bench streams` opens 1,000 and 5,000 event streams on one server. It measures the cost of an idle
//! stream, the time until all streams have a write, and the cost of an event under load. Linux only.
//!
//! `cargo xtask bench timing` compares the response times of `forgot-password` and of a refused `login` for a known and
//! for an unknown address.
//!
//! `cargo xtask bench writes` compares creates with and without a sequence and a key of two fields, and a caller's latencies beside
//! another caller's batches, on SQLite and Postgres.

mod accounts;
mod child;
mod credentials;
mod crud;
mod cursor;
mod engines;
mod floor;
mod group;
mod instructions;
mod limits;
mod load;
mod log;
mod median;
mod outbox;
mod rules;
mod search;
mod streams;
mod timing;
mod writes;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Runtime::new()?;
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["accounts", rest @ ..] => runtime.block_on(accounts::run(rest)),
        ["crud", rest @ ..] => runtime.block_on(crud::run(rest)),
        ["cursor", rest @ ..] => runtime.block_on(cursor::run(rest)),
        ["instructions", rest @ ..] => runtime.block_on(instructions::run(rest)),
        ["limits", rest @ ..] => limits::run(rest, &runtime),
        ["log", rest @ ..] => runtime.block_on(log::run(rest)),
        ["outbox"] => runtime.block_on(outbox::run()),
        ["rules", rest @ ..] => runtime.block_on(rules::run(rest)),
        ["search", rest @ ..] => runtime.block_on(search::run(rest)),
        ["streams", rest @ ..] => runtime.block_on(streams::run(rest)),
        ["timing"] => runtime.block_on(timing::run()),
        ["writes", rest @ ..] => runtime.block_on(writes::run(rest)),
        // The programs for comparison. The benchmarks start them as children.
        ["floor", "sqlite", file, commits] => runtime.block_on(floor::sqlite::serve(file, *commits == "single")),
        ["floor", "postgres", url] => runtime.block_on(floor::postgres::serve(url)),
        _ => anyhow::bail!(
            "name a benchmark: accounts [seconds], crud [seconds], cursor [records], instructions [write | profiles FOLDER], limits [seconds], \
             log [seconds], outbox, rules [records], search [records], streams [seconds], timing, \
             writes [seconds]"
        ),
    }
}
