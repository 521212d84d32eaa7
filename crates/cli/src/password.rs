use std::io::{BufRead, IsTerminal, Read};

use anyhow::{Context, bail};
use gatewright_base::Secret;

/// The limit of bytes to read: longer than any accepted password.
const LONGEST: u64 = 64 * 1024;

/// Asks for a new password twice without showing it, or reads one line of standard input.
pub(crate) fn read(from_stdin: bool) -> anyhow::Result<Secret> {
    if from_stdin {
        let mut line = String::new();
        let mut input = std::io::stdin().lock().take(LONGEST);
        input.read_line(&mut line).context("cannot read the password from standard input")?;
        let password = line.strip_suffix('\n').map_or(&*line, |line| line.strip_suffix('\r').unwrap_or(line));
        if password.is_empty() {
            bail!("standard input has no password; write it there as one line");
        }
        return Ok(Secret::new(password));
    }
    if !std::io::stdin().is_terminal() {
        bail!("there is no terminal to ask for the password; give --password-stdin and write it to standard input");
    }
    let ask = |prompt| rpassword::prompt_password(prompt).map(Secret::new).context("cannot ask for the password");
    let password = ask("Password: ")?;
    if password != ask("Repeat the password: ")? {
        bail!("the two passwords differ; try again");
    }
    Ok(password)
}
