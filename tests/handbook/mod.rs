//! The handbook is true: its links lead somewhere, and each block of code is accepted by the program that reads it.

mod commands;
mod errors;
mod languages;
mod links;
mod operating;
pub(crate) mod pages;
mod reference;
pub(crate) mod settings;
