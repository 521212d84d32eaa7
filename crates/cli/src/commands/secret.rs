use std::process::ExitCode;

use gatewright::config::fresh_secret;
use gatewright_base::Ambient;

use crate::output;

pub(crate) fn secret() -> ExitCode {
    output::line(fresh_secret(&Ambient::system()).expose());
    ExitCode::SUCCESS
}
