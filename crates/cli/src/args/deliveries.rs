//! Commands for deliveries: events to consumers, and mails.

use clap::Subcommand;
use gatewright::events::outbox::RowStatus;
use gatewright::mail::stored::MailStatus;

#[derive(Subcommand)]
pub(crate) enum OutboxCommand {
    /// Lists rows, newest first
    List {
        /// Only rows with this status: pending or dispatched
        #[arg(long, value_parser = row_status)]
        status: Option<RowStatus>,
        /// The maximum number to print, up to 500
        #[arg(long, default_value_t = 50, value_name = "N")]
        limit: u32,
        /// The number to skip
        #[arg(long, default_value_t = 0, value_name = "N")]
        offset: u32,
        /// Prints JSON
        #[arg(long)]
        json: bool,
    },
    /// Shows the state of a row at each consumer
    Deliveries {
        /// The row's id, as `outbox list` prints it
        #[arg(value_parser = super::parsers::id)]
        row: String,
        /// Prints JSON
        #[arg(long)]
        json: bool,
    },
    /// Retries the dead and abandoned deliveries of a row
    Replay {
        /// The row's id, as `outbox list` prints it
        #[arg(value_parser = super::parsers::id)]
        row: String,
        /// Only the delivery to this consumer
        #[arg(long, value_name = "NAME")]
        consumer: Option<String>,
    },
    /// Counts rows and deliveries
    Stats {
        /// Prints JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Subcommand)]
pub(crate) enum MailCommand {
    /// Lists mails, newest first
    List {
        /// Only mails with this status: pending, sending, failed or expired
        #[arg(long, value_parser = mail_status)]
        status: Option<MailStatus>,
        /// Only mails to this address
        #[arg(long, value_name = "EMAIL")]
        to: Option<String>,
        /// The maximum number to print, up to 200
        #[arg(long, default_value_t = 50, value_name = "N")]
        limit: u32,
        /// Prints JSON
        #[arg(long)]
        json: bool,
    },
    /// Sends a mail now, unless its link has expired
    Retry {
        /// The mail's id, as `mail list` prints it
        #[arg(value_parser = super::parsers::id)]
        id: String,
    },
    /// Removes a mail without sending it
    Discard {
        /// The mail's id, as `mail list` prints it
        #[arg(value_parser = super::parsers::id)]
        id: String,
    },
}

fn mail_status(text: &str) -> Result<MailStatus, String> {
    MailStatus::parse(text).ok_or_else(|| "expected pending, sending, failed or expired".to_owned())
}

fn row_status(text: &str) -> Result<RowStatus, String> {
    RowStatus::parse(text).ok_or_else(|| "expected pending or dispatched".to_owned())
}
