//! `gatewright reference DIR`: writes the generated parts of the handbook's pages. The command is hidden, because it is
//! for developers of Gatewright. A test compares the generated pages with those in the repository.

mod command_line;
mod configuration;
mod http;

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;

/// The marks before and after the generated part of a page.
const BEGIN: &str = "<!-- Written by `gatewright reference docs`. Do not edit: change the program. -->\n";
const END: &str = "<!-- Written by hand from here on. -->\n";

pub(crate) fn reference(folder: &Path) -> anyhow::Result<ExitCode> {
    for (name, text) in [("command-line.md", command_line::text()), ("http.md", http::text()?)] {
        let file = folder.join(name);
        let page = read(&file)?;
        let parts = page.split_once(BEGIN).and_then(|(before, rest)| Some((before, rest.split_once(END)?.1)));
        let (before, after) = parts.with_context(|| format!("{} has no place for it: {BEGIN}", file.display()))?;
        fs::write(&file, format!("{before}{BEGIN}{text}{END}{after}"))?;
    }
    let file = folder.join("configuration.md");
    fs::write(&file, configuration::rewritten(&read(&file)?)?)?;
    Ok(ExitCode::SUCCESS)
}

fn read(file: &Path) -> anyhow::Result<String> {
    fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))
}
