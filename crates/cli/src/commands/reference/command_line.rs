//! Every command with its arguments, from the definitions that parse them.

use std::fmt::Write;

use clap::{Arg, Command, CommandFactory};

use crate::args::Args;

/// The page of the handbook with more about a command.
const MORE: [(&str, &str); 14] = [
    ("migrate", "migrations.md"),
    ("backup", "operations.md#backups-on-sqlite"),
    ("restore", "operations.md#restoring"),
    ("promote", "operations.md#from-sqlite-to-postgres"),
    ("verify", "operations.md#reading-every-record"),
    ("doctor", "operations.md#checking-a-running-deployment"),
    ("openapi", "openapi.md"),
    ("types", "typescript.md#types"),
    ("user invite", "authentication.md#invitations"),
    ("tenant add-member", "tenants.md"),
    ("service-account create", "api-tokens.md#service-accounts"),
    ("token issue", "api-tokens.md"),
    ("client create", "authorization-server.md#clients"),
    ("explain", "rules.md#explain"),
];

pub(super) fn text() -> String {
    let mut program = Args::command();
    program.build();
    let mut text = String::from("\nEvery command takes:\n\n");
    for argument in program.get_arguments().filter(|argument| argument.is_global_set()) {
        describe(&mut text, argument);
    }
    for command in program.get_subcommands_mut() {
        write(&mut text, "", command);
    }
    text.push('\n');
    text
}

fn write(text: &mut String, parent: &str, command: &mut Command) {
    if command.is_hide_set() || command.get_name() == "help" {
        return;
    }
    let name = format!("{parent}{}", command.get_name());
    if command.has_subcommands() {
        let parent = format!("{name} ");
        command.get_subcommands_mut().for_each(|command| write(text, &parent, command));
        return;
    }
    let usage = command.render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ");
    let about = command.get_long_about().or_else(|| command.get_about()).map(ToString::to_string).unwrap_or_default();
    let about: Vec<String> = about.split("\n\n").map(sentence).collect();
    let _infallible = write!(text, "\n### `{name}`\n\n`{usage}`\n\n{}\n", about.join("\n\n"));
    if let Some((_, page)) = MORE.iter().find(|(command, _)| *command == name) {
        let _infallible = write!(text, "\nMore: [{page}]({page}).\n");
    }
    let mut arguments = command
        .get_arguments()
        .filter(|argument| !argument.is_global_set() && !argument.is_hide_set() && argument.get_id() != "help")
        .peekable();
    if arguments.peek().is_some() {
        text.push('\n');
    }
    arguments.for_each(|argument| describe(text, argument));
}

fn describe(text: &mut String, argument: &Arg) {
    let values = argument.get_value_names().unwrap_or_default();
    let value: Vec<String> = values.iter().map(|value| format!(" {value}")).collect();
    let value = value.concat();
    let name = match argument.get_long() {
        Some(long) if argument.get_action().takes_values() => format!("--{long}{value}"),
        Some(long) => format!("--{long}"),
        None => value.trim_start().to_owned(),
    };
    let help = argument.get_long_help().or_else(|| argument.get_help()).map(ToString::to_string).unwrap_or_default();
    let _infallible = write!(text, "- `{name}`");
    if !help.is_empty() {
        let _infallible = write!(text, ": {}", sentence(&help));
    }
    let defaults: Vec<_> = argument.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    if !defaults.is_empty() && argument.get_action().takes_values() {
        let _infallible = write!(text, " Default: `{}`.", defaults.join(","));
    }
    let words: Vec<_> = argument.get_possible_values().iter().map(|word| format!("`{}`", word.get_name())).collect();
    if !words.is_empty() && argument.get_action().takes_values() {
        let _infallible = write!(text, " One of {}.", words.join(", "));
    }
    if let Some(variable) = argument.get_env() {
        let _infallible = write!(text, " Variable: `{}`.", variable.to_string_lossy());
    }
    text.push('\n');
}

/// The text with a full stop, which descriptions of one sentence lack.
fn sentence(text: &str) -> String {
    let text = text.trim();
    if text.ends_with(['.', ':']) { text.to_owned() } else { format!("{text}.") }
}
