//! Shell completions and manual pages, from the definitions of the arguments.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::Args;
use crate::output;

/// The script that completes commands and flags.
pub(crate) fn completions(shell: Shell) -> ExitCode {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "gatewright", &mut script);
    output::text(&script);
    ExitCode::SUCCESS
}

/// The manual page of the program, or those of all commands, written to a folder.
pub(crate) fn man(folder: Option<&Path>) -> anyhow::Result<ExitCode> {
    match folder {
        Some(folder) => {
            std::fs::create_dir_all(folder)
                .with_context(|| format!("cannot create the folder {}", folder.display()))?;
            clap_mangen::generate_to(Args::command(), folder)
                .with_context(|| format!("cannot write to {}", folder.display()))?;
            output::line(&format!("wrote manual pages to {}", folder.display()));
        }
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(Args::command()).render(&mut page).context("cannot create the page")?;
            output::text(&page);
        }
    }
    Ok(ExitCode::SUCCESS)
}
