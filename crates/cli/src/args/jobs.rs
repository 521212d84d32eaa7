//! Commands for jobs and functions.

use clap::Subcommand;

#[derive(Subcommand)]
pub(crate) enum JobCommand {
    /// Lists jobs with their schedules, their next times and their latest runs
    List {
        /// Prints JSON
        #[arg(long)]
        json: bool,
    },
    /// Runs a job now, on a running server, and waits for its end
    ///
    /// Exit status 1 if the run fails, or if no server begins it within 30 seconds.
    Run {
        /// The job's name
        name: String,
        /// Does not wait for the end
        #[arg(long)]
        no_wait: bool,
        /// Prints the run as JSON
        #[arg(long)]
        json: bool,
    },
    /// Lists the runs of a job, the latest first
    History {
        /// The job's name
        name: String,
        /// The maximum number to print, up to 100
        #[arg(long, default_value_t = 20, value_name = "N")]
        limit: u32,
        /// Prints JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Subcommand)]
pub(crate) enum FunctionCommand {
    /// Lists functions with their files and what runs them
    List {
        /// Prints JSON
        #[arg(long)]
        json: bool,
    },
}
