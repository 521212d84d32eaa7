use gatewright_http::Problem;
use jiff::Timestamp;
use serde::Serialize;

use super::{Moment, Visit};
use crate::devices::device_name;
use crate::screens::fragment;
use crate::session::Client;

/// A list of browsers, each with a button to end its entry, and a button to end all except the current one.
#[derive(Serialize)]
pub(crate) struct Browsers {
    /// The keys of its texts.
    pub(crate) words: Words,
    pub(crate) rows: Vec<Browser>,
    /// Where the button for all others posts to.
    pub(crate) end_others: String,
}

/// The keys of a list's texts.
#[derive(Serialize)]
pub(crate) struct Words {
    /// The heading of the list.
    pub(crate) about: Option<&'static str>,
    /// Of `{begun}` and `{last}`.
    pub(crate) since: &'static str,
    pub(crate) end: &'static str,
    /// The same with `{name}` and `{last}`, for users of screen readers.
    pub(crate) end_one: &'static str,
    pub(crate) end_others: &'static str,
}

#[derive(Serialize)]
pub(crate) struct Browser {
    device: String,
    address: Option<String>,
    begun: Moment,
    last: Moment,
    current: bool,
    end: String,
}

#[derive(Serialize)]
struct Context<'a> {
    #[serde(flatten)]
    list: &'a Browsers,
    others: bool,
    csrf: Option<&'a str>,
    next: Option<&'a str>,
}

impl Browser {
    /// An entry that was first seen at `begun`. Its button posts to `end`, unless it is the current one.
    pub(crate) fn new(client: &Client, begun: Timestamp, last: Timestamp, current: bool, end: String) -> Self {
        Self {
            device: device_name(client.user_agent()),
            address: client.address().map(|address| address.to_string()),
            begun: Moment::new(begun),
            last: Moment::new(last),
            current,
            end,
        }
    }
}

impl Browsers {
    pub(crate) fn show(&self, visit: &Visit<'_>) -> Result<String, Problem> {
        let others = self.rows.iter().any(|row| !row.current);
        fragment("account/browsers.html", &Context { list: self, others, csrf: visit.csrf, next: None })
    }
}
