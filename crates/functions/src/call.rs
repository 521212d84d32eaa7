//! One call of a function. The code runs in steps: between two of them, the server does what it has asked for.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::data::Data;
use crate::program::{Function, Shared};
use crate::realm::{self, Realm, Thrown};

/// The most bytes that a call may give out: requests, lines of the log and its result together.
const OUTPUT: usize = 8 << 20;

/// A call of a function.
///
/// ```no_run
/// # fn example(program: &gatewright_functions::Program) -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use gatewright_functions::{Data, Step};
///
/// let function = program.functions()[0].clone();
/// let mut call = program.call(&function, Data::Null, Duration::from_millis(250)).map_err(|fault| fault.to_string())?;
/// let ended = loop {
///     match call.step() {
///         Step::Ended(ended) => break ended,
///         Step::Wants(requests) => {
///             for request in requests {
///                 call.answer(request.id, Ok(Data::Null));
///             }
///         }
///     }
/// };
/// # let _ = ended; Ok(()) }
/// ```
pub struct Call {
    shared: Arc<Shared>,
    /// Until the call is dropped.
    realm: Option<Realm>,
    function: Arc<Function>,
    state: State,
    left: Duration,
    room: usize,
    lines: Vec<Line>,
    /// Requests without an answer.
    open: usize,
}

enum State {
    New(Data),
    Running(Vec<(u32, Result<Data, HostError>)>),
    Ended,
}

/// What comes next.
#[derive(Debug)]
pub enum Step {
    /// These requests have to be [answered](Call::answer), in any order, some or all before the next step.
    Wants(Vec<Request>),
    /// The function has ended.
    Ended(Result<Ended, Failure>),
}

/// What a function asks of the server.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// For the answer.
    pub id: u32,
    /// `db`, `system`, `mail`, `emit`, `fetch`, `timer`.
    pub operation: String,
    /// The arguments of the operation.
    pub arguments: Vec<Data>,
}

/// How a function has ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Ended {
    /// Of `before`, `{values}`; of a route, `{status, headers, body}`; otherwise null.
    Value(Data),
    /// It refused, by `refuse(status, answer)`.
    Refused {
        /// As given.
        status: Data,
        /// A text, or an object of fields and texts.
        answer: Data,
    },
}

/// Why a function did not end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// Its time is used up.
    Timeout,
    /// Its memory is used up.
    Memory,
    /// It waits for something that never comes.
    NeverEnds,
    /// An exception.
    Thrown {
        /// With the name of its class.
        message: String,
        /// The code of the error of the server that it was, if it was one.
        code: Option<String>,
        /// Places of the source, one on each line.
        stack: String,
    },
}

/// An error of the server, as an exception in the function.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HostError {
    /// As of the answer by REST. 500 if the function is wrong.
    pub status: u16,
    /// The code of the problem.
    pub code: String,
    /// What went wrong.
    pub message: String,
    /// The errors of fields.
    pub errors: Option<Data>,
}

/// A line that a function has logged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// `debug`, `info`, `warn`, `error`.
    pub level: String,
    /// The text.
    pub text: String,
}

impl Call {
    pub(crate) fn new(
        shared: Arc<Shared>,
        realm: Realm,
        function: Arc<Function>,
        argument: Data,
        time: Duration,
    ) -> Self {
        let state = State::New(argument);
        Self { shared, realm: Some(realm), function, state, left: time, room: OUTPUT, lines: Vec::new(), open: 0 }
    }

    /// The function that is called.
    pub fn function(&self) -> &Arc<Function> {
        &self.function
    }

    /// The time that is left for the code. Waiting for answers takes none of it.
    pub fn left(&self) -> Duration {
        self.left
    }

    /// Leaves the code at most this time from now on.
    pub fn restrict(&mut self, time: Duration) {
        self.left = self.left.min(time);
    }

    /// Answers a request. The code goes on in the next step.
    pub fn answer(&mut self, id: u32, answer: Result<Data, HostError>) {
        if let State::Running(answers) = &mut self.state {
            answers.push((id, answer));
        }
    }

    /// The lines that were logged since they were last taken.
    pub fn take_lines(&mut self) -> Vec<Line> {
        std::mem::take(&mut self.lines)
    }

    /// Runs the code until it wants something, ends, or has used up its time.
    pub fn step(&mut self) -> Step {
        let Some(mut realm) = self.realm.take() else { return Step::Ended(Err(Failure::NeverEnds)) };
        realm.watch.begin(self.left);
        let done = self.run(&mut realm);
        self.left = realm.watch.left();
        let is_over = realm.watch.is_over();
        self.realm = Some(realm);
        let step = match done {
            _ if is_over => Step::Ended(Err(Failure::Timeout)),
            Ok(step) => step,
            Err(thrown) => Step::Ended(Err(self.failure(&thrown.message, None, &thrown.stack))),
        };
        if matches!(step, Step::Ended(_)) {
            self.state = State::Ended;
        }
        step
    }

    fn run(&mut self, realm: &mut Realm) -> Result<Step, Thrown> {
        match std::mem::replace(&mut self.state, State::Running(Vec::new())) {
            State::New(argument) => realm.start(self.function.index, &argument)?,
            State::Running(answers) => {
                for (id, answer) in answers {
                    self.open = self.open.saturating_sub(1);
                    match answer {
                        Ok(data) => realm.settle(id, true, &data)?,
                        Err(error) => realm.settle(id, false, &Data::from(error))?,
                    }
                }
            }
            State::Ended => return Ok(Step::Ended(Err(Failure::NeverEnds))),
        }
        while !realm.watch.is_over() {
            match realm.runtime.execute_pending_job() {
                Ok(true) => {}
                Ok(false) => break,
                // The engine itself refused: memory or time.
                Err(_) if realm.watch.is_over() => break,
                Err(_) => return Ok(Step::Ended(Err(Failure::Memory))),
            }
        }
        if realm.watch.is_over() {
            return Ok(Step::Ended(Err(Failure::Timeout)));
        }
        let taken = realm.take(&mut self.room)?;
        Ok(self.read(&taken))
    }

    fn read(&mut self, taken: &Data) -> Step {
        if let Some(Data::List(lines)) = taken.get("lines") {
            self.lines.extend(lines.iter().filter_map(line));
        }
        if let Some(outcome @ Data::Object(_)) = taken.get("outcome") {
            return Step::Ended(self.ended(outcome));
        }
        let requests = match taken.get("requests") {
            Some(Data::List(requests)) => requests.iter().filter_map(request).collect(),
            _ => Vec::new(),
        };
        self.open += requests.len();
        if self.open == 0 {
            return Step::Ended(Err(Failure::NeverEnds));
        }
        Step::Wants(requests)
    }

    fn ended(&self, outcome: &Data) -> Result<Ended, Failure> {
        if let Some(refusal) = outcome.get("refusal") {
            let part = |key: &str| refusal.get(key).cloned().unwrap_or(Data::Null);
            return Ok(Ended::Refused { status: part("status"), answer: part("answer") });
        }
        if let Some(error) = outcome.get("error") {
            let text = |key: &str| error.get(key).and_then(Data::as_str);
            let (message, stack) = (text("message").unwrap_or_default(), text("stack").unwrap_or_default());
            return Err(self.failure(message, text("code"), stack));
        }
        Ok(Ended::Value(outcome.get("value").cloned().unwrap_or(Data::Null)))
    }

    fn failure(&self, message: &str, code: Option<&str>, stack: &str) -> Failure {
        if message.contains("out of memory") {
            return Failure::Memory;
        }
        let stack = realm::mapped(&self.shared.modules, stack);
        Failure::Thrown { message: message.to_owned(), code: code.map(str::to_owned), stack }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if let Some(realm) = self.realm.take() {
            self.shared.keep(&self.function.file, realm);
        }
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").field("function", &self.function.name).field("left", &self.left).finish_non_exhaustive()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Timeout => f.write_str("its time is used up"),
            Self::Memory => f.write_str("its memory is used up"),
            Self::NeverEnds => f.write_str("it waits for something that never comes"),
            Self::Thrown { message, stack, .. } if stack.is_empty() => f.write_str(message),
            Self::Thrown { message, stack, .. } => write!(f, "{message}\n{stack}"),
        }
    }
}

impl std::error::Error for Failure {}

impl From<HostError> for Data {
    fn from(error: HostError) -> Self {
        let mut entries = vec![
            ("status".to_owned(), Self::Number(error.status.into())),
            ("code".to_owned(), Self::from(error.code)),
            ("message".to_owned(), Self::from(error.message)),
        ];
        entries.extend(error.errors.map(|errors| ("errors".to_owned(), errors)));
        Self::Object(entries)
    }
}

fn line(taken: &Data) -> Option<Line> {
    let Data::List(parts) = taken else { return None };
    let [level, text] = parts.as_slice() else { return None };
    Some(Line { level: level.as_str()?.to_owned(), text: text.as_str()?.to_owned() })
}

fn request(taken: &Data) -> Option<Request> {
    let Data::List(parts) = taken else { return None };
    let [Data::Number(id), operation, Data::List(arguments)] = parts.as_slice() else { return None };
    let id = id.as_u64().and_then(|id| u32::try_from(id).ok())?;
    Some(Request { id, operation: operation.as_str()?.to_owned(), arguments: arguments.clone() })
}
