//! A folder of functions for a test, and a host that answers nothing.

#![expect(unreachable_pub, reason = "a module of tests")]

use std::time::Duration;

use gatewright_base::Ambient;
use gatewright_functions::{Data, Ended, Failure, Fault, Limits, Program, Step};
use serde_json::Value;

pub struct Folder(tempfile::TempDir);

impl Folder {
    pub fn new(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        for (file, text) in files {
            let path = folder.path().join(file);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
            std::fs::write(path, text).expect("written");
        }
        Self(folder)
    }

    pub fn program(&self) -> Result<Program, Vec<Fault>> {
        let limits = Limits { memory_bytes: 32 << 20, idle: 4 };
        Program::load(self.0.path(), limits, Ambient::system())
    }
}

pub fn program(text: &str) -> Program {
    let loaded = Folder::new(&[("all.ts", text)]).program();
    loaded.unwrap_or_else(|faults| panic!("{}", faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")))
}

pub fn data(value: Value) -> Data {
    Data::from(value)
}

/// Runs a function that asks for nothing.
pub fn run(program: &Program, name: &str, argument: Data) -> Result<Ended, Failure> {
    let function = program.functions().iter().find(|function| function.name == name).expect("declared").clone();
    let mut call = program.call(&function, argument, Duration::from_millis(300)).expect("prepared");
    match call.step() {
        Step::Ended(ended) => ended,
        Step::Wants(wanted) => panic!("{name} asks for {wanted:?}"),
    }
}

pub fn value(ended: Result<Ended, Failure>) -> Value {
    match ended {
        Ok(Ended::Value(value)) => value.into_json(),
        other => panic!("{other:?}"),
    }
}
