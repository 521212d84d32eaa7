//! Records which writes were sent, who may read them, and who received them.
//!
//! Every step gets a number from one counter, in the order in which the test sees it. A write happens between the
//! number of its request and that of its answer; so does each start and each end of a membership. The ledger reports
//! only violations that are certain in every order that these numbers allow.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard};

/// A user of the test, by number.
pub(crate) type Account = usize;
/// A project of the test, by number.
pub(crate) type Project = usize;

/// The readers of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Topic {
    /// A post: everybody may read it.
    Posts,
    /// A note: only its owner may read it.
    Notes(Account),
    /// A task: members of its project may read it, by its rule.
    Tasks(Project),
}

impl Topic {
    pub(crate) fn table(self) -> &'static str {
        match self {
            Self::Posts => "posts",
            Self::Notes(_) => "notes",
            Self::Tasks(_) => "tasks",
        }
    }

    /// Whether a resume shows every write. Under a rule it shows only the current state of a record.
    fn shows_every_write(self) -> bool {
        !matches!(self, Self::Tasks(_))
    }
}

/// The table of a listener's stream, and the listener's account.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Listening {
    pub(crate) table: &'static str,
    pub(crate) account: Option<Account>,
}

/// An event, as a listener received it.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) event: String,
    pub(crate) key: i64,
    pub(crate) version: i64,
    pub(crate) deleted: bool,
}

/// The result of a request to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Committed,
    /// No server received it.
    NotSent,
    /// There was no answer: it may have been written or not.
    Unknown,
}

struct Version {
    begun: u64,
    deleted: bool,
    /// Absent while it is unknown.
    committed: Option<bool>,
    /// The event's id, from the first listener that received it.
    event: Option<String>,
}

struct Record {
    topic: Topic,
    /// The first has number 1.
    versions: Vec<Version>,
}

/// A membership.
#[derive(Default)]
struct Span {
    granted: Option<u64>,
    leaving: Option<u64>,
    left: Option<u64>,
}

#[derive(Default)]
struct Listener {
    listening: Option<Listening>,
    /// The listener must receive writes that are sent after this number.
    since: u64,
    /// The versions that it received, by record.
    got: HashMap<i64, Vec<i64>>,
    /// The latest version that it received on its current connection, by record.
    connection: HashMap<i64, i64>,
    connections: usize,
}

#[derive(Default)]
struct State {
    now: u64,
    next_key: i64,
    records: BTreeMap<i64, Record>,
    spans: HashMap<(Account, Project), Vec<Span>>,
    listeners: Vec<Listener>,
    faults: Vec<String>,
    committed: usize,
    unknown: usize,
    received: usize,
    repeated: usize,
}

/// See the module's documentation.
pub(crate) struct Ledger(Mutex<State>);

impl Ledger {
    pub(crate) fn new(listeners: usize) -> Self {
        let listeners = (0..listeners).map(|_| Listener::default()).collect();
        Self(Mutex::new(State { listeners, ..State::default() }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// A key for a new record.
    pub(crate) fn new_key(&self) -> i64 {
        let mut state = self.state();
        state.next_key += 1;
        state.next_key
    }

    /// Records that a write is sent. Returns the number of the version that it creates.
    pub(crate) fn sends(&self, topic: Topic, key: i64, deleted: bool) -> i64 {
        let mut state = self.state();
        let begun = state.tick();
        let record = state.records.entry(key).or_insert_with(|| Record { topic, versions: Vec::new() });
        record.versions.push(Version { begun, deleted, committed: None, event: None });
        number(record.versions.len())
    }

    /// Records the result of the last write to the record.
    pub(crate) fn sent(&self, key: i64, outcome: Outcome) {
        let mut state = self.state();
        let record = state.records.get_mut(&key).expect("it was sent");
        match outcome {
            Outcome::Committed => {
                record.versions.last_mut().expect("it was sent").committed = Some(true);
                state.committed += 1;
            }
            Outcome::NotSent => {
                record.versions.pop();
            }
            Outcome::Unknown => state.unknown += 1,
        }
    }

    pub(crate) fn joins(&self, account: Account, project: Project) {
        let mut state = self.state();
        state.tick();
        state.spans.entry((account, project)).or_default().push(Span::default());
    }

    pub(crate) fn joined(&self, account: Account, project: Project) {
        let mut state = self.state();
        let now = state.tick();
        state.span(account, project).granted = Some(now);
    }

    pub(crate) fn leaves(&self, account: Account, project: Project) {
        let mut state = self.state();
        let now = state.tick();
        state.span(account, project).leaving = Some(now);
    }

    pub(crate) fn left(&self, account: Account, project: Project) {
        let mut state = self.state();
        let now = state.tick();
        state.span(account, project).left = Some(now);
    }

    /// Records a listener's first position.
    pub(crate) fn listens(&self, number: usize, listening: Listening) {
        let mut state = self.state();
        let since = state.tick();
        let listener = &mut state.listeners[number];
        (listener.listening, listener.since) = (Some(listening), since);
    }

    /// Records that a listener opened a stream.
    pub(crate) fn connects(&self, number: usize) {
        let listener = &mut self.state().listeners[number];
        listener.connections += 1;
        listener.connection.clear();
    }

    /// Records that a listener received an event.
    pub(crate) fn receives(&self, number: usize, received: Received) {
        self.state().receives(number, received);
    }

    pub(crate) fn fault(&self, fault: String) {
        self.state().faults.push(fault);
    }

    pub(crate) fn faults(&self) -> Vec<String> {
        self.state().faults.clone()
    }

    /// Records what is stored: the version of each existing record.
    pub(crate) fn settle(&self, stored: &HashMap<i64, i64>) {
        let mut state = self.state();
        let State { records, faults, listeners, .. } = &mut *state;
        for (key, record) in records.iter_mut() {
            let last = number(record.versions.len());
            if let Some(version) = record.versions.last_mut()
                && version.committed.is_none()
            {
                let there = stored.get(key);
                version.committed = Some(if version.deleted { there.is_none() } else { there == Some(&last) });
            }
            let committed = record.versions.iter().rposition(|version| version.committed == Some(true));
            let expected = committed.filter(|at| !record.versions[*at].deleted).map(|at| number(at + 1));
            if stored.get(key) != expected.as_ref() {
                faults.push(format!("record {key} is stored as {:?}, not as {expected:?}", stored.get(key)));
            }
            for (at, version) in record.versions.iter().enumerate() {
                let told = |listener: &Listener| listener.got.get(key).is_some_and(|got| got.contains(&number(at + 1)));
                if version.committed == Some(false) && listeners.iter().any(told) {
                    faults.push(format!("version {} of record {key} was never committed, and was shown", at + 1));
                }
            }
        }
    }

    /// The events that listeners must still receive.
    pub(crate) fn missing(&self) -> Vec<String> {
        self.state().missing()
    }

    /// Listeners that have a position.
    pub(crate) fn listening(&self) -> usize {
        self.state().listeners.iter().filter(|listener| listener.listening.is_some()).count()
    }

    pub(crate) fn committed(&self) -> usize {
        self.state().committed
    }

    /// A number that grows whenever something arrives for the first time.
    pub(crate) fn progress(&self) -> usize {
        let state = self.state();
        state.received + state.committed + state.listeners.iter().filter(|one| one.listening.is_some()).count()
    }

    pub(crate) fn resumes(&self) -> usize {
        self.state().listeners.iter().map(|listener| listener.connections.saturating_sub(1)).sum()
    }

    pub(crate) fn summary(&self) -> String {
        let resumes = self.resumes();
        let state = self.state();
        let memberships: usize = state.spans.values().map(Vec::len).sum();
        let State { committed, unknown, received, repeated, .. } = &*state;
        format!(
            "{committed} writes ({unknown} in doubt), {received} events received, {repeated} again, {resumes} resumes, \
             {memberships} memberships."
        )
    }
}

impl State {
    fn tick(&mut self) -> u64 {
        self.now += 1;
        self.now
    }

    fn span(&mut self, account: Account, project: Project) -> &mut Span {
        self.spans.get_mut(&(account, project)).and_then(|spans| spans.last_mut()).expect("they were asked in")
    }

    /// Whether the account may have been a member at any time from `begun` until now.
    fn may_have_read(&self, account: Account, project: Project, begun: u64) -> bool {
        let spans = self.spans.get(&(account, project));
        spans.is_some_and(|spans| spans.iter().any(|span| span.left.is_none_or(|left| left >= begun)))
    }

    /// Whether the account has been a member without interruption since `begun`.
    fn could_always_read(&self, account: Account, project: Project, begun: u64) -> bool {
        let last = self.spans.get(&(account, project)).and_then(|spans| spans.last());
        last.is_some_and(|span| span.granted.is_some_and(|granted| granted <= begun) && span.leaving.is_none())
    }

    fn receives(&mut self, number: usize, received: Received) {
        self.tick();
        let Received { event, key, version, deleted } = received;
        let listening = self.listeners[number].listening.expect("it has a position");
        let connection = self.listeners[number].connections;
        let who =
            format!("listener {number} {listening:?} on its connection {connection}, record {key} version {version}");
        let mut fault = |text: &str| self.faults.push(format!("{text}: {who}"));
        let Some(record) = self.records.get(&key) else { return fault("an event of no write") };
        let topic = record.topic;
        let place = usize::try_from(version - 1).ok();
        let Some(written) = place.and_then(|place| record.versions.get(place)) else {
            return fault("a write of nobody's");
        };
        if written.deleted != deleted || topic.table() != listening.table {
            return fault("an event of another kind or table");
        }
        if written.event.as_ref().is_some_and(|known| *known != event) {
            return fault("two events of one write");
        }
        let begun = written.begun;
        let may = match topic {
            Topic::Posts => true,
            Topic::Notes(owner) => listening.account == Some(owner),
            Topic::Tasks(project) => {
                listening.account.is_some_and(|account| self.may_have_read(account, project, begun))
            }
        };
        if !may {
            self.faults.push(format!("FORBIDDEN, {topic:?} sent at {begun}: {who}"));
        }
        if let Some(written) = self.records.get_mut(&key).and_then(|record| record.versions.get_mut(place.unwrap_or(0)))
        {
            written.event = Some(event);
        }
        // One who became a reader later gets the events from before by a resume, and may have got newer ones until then.
        let read_always = match topic {
            Topic::Posts | Topic::Notes(_) => true,
            Topic::Tasks(project) => {
                listening.account.is_some_and(|account| self.could_always_read(account, project, begun))
            }
        };
        let listener = &mut self.listeners[number];
        let got = listener.got.entry(key).or_default();
        let latest = got.iter().max().copied();
        let is_new = !got.contains(&version);
        if listener.connection.insert(key, version).is_some_and(|before| before >= version) {
            self.faults.push(format!("TWICE or OUT OF ORDER on one connection: {who}, which had got {got:?}"));
        }
        if is_new && read_always && latest.is_some_and(|latest| latest > version) {
            self.faults.push(format!("OUT OF ORDER: {who}, which had got {got:?}"));
        }
        let skips = topic.shows_every_write() && latest.is_some_and(|latest| version > latest + 1);
        if skips {
            self.faults.push(format!("LOST: {who}, which had got {got:?} alone"));
        }
        if is_new {
            got.push(version);
            self.received += 1;
        } else {
            self.repeated += 1;
        }
    }

    fn missing(&self) -> Vec<String> {
        let mut missing = Vec::new();
        for (key, record) in &self.records {
            let committed: Vec<(i64, &Version)> = record
                .versions
                .iter()
                .enumerate()
                .filter(|(_, version)| version.committed == Some(true))
                .map(|(at, version)| (number(at + 1), version))
                .collect();
            let wanted = if record.topic.shows_every_write() { 0 } else { committed.len().saturating_sub(1) };
            for (version, written) in &committed[wanted..] {
                for (number, listener) in self.listeners.iter().enumerate() {
                    let got = listener.got.get(key).is_some_and(|got| got.contains(version));
                    if !got && self.is_owed(listener, record.topic, written.begun) {
                        missing.push(format!(
                            "listener {number} {:?}: record {key} version {version} {:?}",
                            listener.listening, record.topic
                        ));
                    }
                }
            }
        }
        missing
    }

    fn is_owed(&self, listener: &Listener, topic: Topic, begun: u64) -> bool {
        let Some(Listening { table, account }) = listener.listening else { return false };
        let may = match topic {
            Topic::Posts => true,
            Topic::Notes(owner) => account == Some(owner),
            Topic::Tasks(project) => account.is_some_and(|account| self.could_always_read(account, project, begun)),
        };
        may && table == topic.table() && listener.since < begun
    }
}

fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap()
}
