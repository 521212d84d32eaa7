//! Functions in TypeScript, inside the server.
//!
//! A [`Program`] is a folder of files. Their types are removed, each file is evaluated once in an engine of its own, and what it exports
//! is a list of [`Function`]s. A [`Call`] runs one of them in steps: it runs until it asks for something (a record, a mail), the host
//! answers, and it goes on. So the same call runs inside of a transaction, on whatever thread this has, and outside of one.
//!
//! Nothing of a call is left for the next: each begins with the memory that the engine had after the file was evaluated. Time, memory and
//! output of a call are bounded. What bounds cannot reach is a single operation of the engine, as a search in a text: its length is
//! bounded by the memory.

mod arena;
mod call;
mod data;
mod folder;
mod native;
mod program;
mod realm;
mod source;

pub use call::{Call, Ended, Failure, HostError, Line, Request, Step};
pub use data::Data;
pub use program::{Function, Limits, Program, Trigger};
pub use source::Fault;
