//! The handbook is correct: its links have targets, and the program of each language accepts each block of code.

mod commands;
mod errors;
mod languages;
mod links;
mod operating;
pub(crate) mod pages;
mod reference;
pub(crate) mod settings;
