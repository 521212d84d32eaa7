//! Load benchmarks over real sockets. Each runs Gatewright and a hand-written program that does the same work with the
//! same durability, in one run on one machine, and prints ratios: absolute numbers say more about the machine.
//!
//! `cargo xtask bench crud` creates, gets and lists records on SQLite and, when a Postgres server is installed, on
//! Postgres. The programs under load are child processes; the load comes from this one.
//!
//! `cargo xtask bench cursor` reads the first page of a million records by cursor and the ten thousandth, on SQLite and
//! Postgres.
//!
//! `cargo xtask bench instructions` counts the processor's instructions for one request of each kind, and compares them with
//! the counts in `instructions.json`. Needs valgrind.
//!
//! `cargo xtask bench limits` asks the limiters for decisions, in memory beside the `governor` crate, and in Redis beside
//! the cheapest command that Redis has.
//!
//! `cargo xtask bench log` creates records with the event log and without, on SQLite and Postgres.
//!
//! `cargo xtask bench outbox` delivers a backlog to one and to four consumers, on SQLite and Postgres, and tells the time
//! from a commit to its handler.
//!
//! `cargo xtask bench rules` lists 25 of a million records under a rule over two relations, beside the plain list, on SQLite
//! and Postgres.
//!
//! `cargo xtask bench streams` opens 1,000 and 5,000 event streams on one server: what an idle one costs, how soon a write has
//! reached them all, and what an event costs under load. Linux only.
//!
//! `cargo xtask bench timing` compares how long `forgot-password` and a refused `login` take for a known and for an
//! unknown address.

mod child;
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
mod streams;
mod timing;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Runtime::new()?;
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["crud", rest @ ..] => runtime.block_on(crud::run(rest)),
        ["cursor", rest @ ..] => runtime.block_on(cursor::run(rest)),
        ["instructions", rest @ ..] => runtime.block_on(instructions::run(rest)),
        ["limits", rest @ ..] => limits::run(rest, &runtime),
        ["log", rest @ ..] => runtime.block_on(log::run(rest)),
        ["outbox"] => runtime.block_on(outbox::run()),
        ["rules", rest @ ..] => runtime.block_on(rules::run(rest)),
        ["streams", rest @ ..] => runtime.block_on(streams::run(rest)),
        ["timing"] => runtime.block_on(timing::run()),
        // The programs to compare with, started as children by the benchmarks.
        ["floor", "sqlite", file, commits] => runtime.block_on(floor::sqlite::serve(file, *commits == "single")),
        ["floor", "postgres", url] => runtime.block_on(floor::postgres::serve(url)),
        _ => anyhow::bail!(
            "name a benchmark: crud [seconds], cursor [records], instructions [write | profiles FOLDER], limits [seconds], \
             log [seconds], outbox, rules [records], streams [seconds], timing"
        ),
    }
}
