//! What was written, who may read it, and who has got it.
//!
//! Everything that happens gets a number from one counter, in the order in which the test sees it. A write lies between the
//! number at which it was sent and that at which it was answered, and so does each grant and each end of a membership. What is
//! judged is certain in every order that these numbers allow.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard};

/// A user of the test, by number.
pub(crate) type Account = usize;
/// A project of the test, by number.
pub(crate) type Project = usize;

/// Whose record it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Topic {
    /// A post: everybody reads it.
    Posts,
    /// A note: its owner reads it.
    Notes(Account),
    /// A task: members of its project read it, as the rule says.
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

    /// Whether a resume shows every write. Under a rule it shows a record as it is now alone.
    fn shows_every_write(self) -> bool {
        !matches!(self, Self::Tasks(_))
    }
}

/// What a listener has a stream of, and who they are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Listening {
    pub(crate) table: &'static str,
    pub(crate) account: Option<Account>,
}

/// An event as a listener got it.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) event: String,
    pub(crate) key: i64,
    pub(crate) version: i64,
    pub(crate) deleted: bool,
}

/// How a request to write ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Committed,
    /// No server has got it.
    NotSent,
    /// There was no answer that says so.
    Unknown,
}

struct Version {
    begun: u64,
    deleted: bool,
    /// Absent while it is unknown.
    committed: Option<bool>,
    /// The event's id, from the first who got it.
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
    /// Writes that are sent after this are to be seen.
    since: u64,
    /// The versions that it got, by record.
    got: HashMap<i64, Vec<i64>>,
    /// The latest that it got on its present connection, by record.
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

    /// A write is sent. Returns the number of the version that it makes.
    pub(crate) fn sends(&self, topic: Topic, key: i64, deleted: bool) -> i64 {
        let mut state = self.state();
        let begun = state.tick();
        let record = state.records.entry(key).or_insert_with(|| Record { topic, versions: Vec::new() });
        record.versions.push(Version { begun, deleted, committed: None, event: None });
        number(record.versions.len())
    }

    /// The last write to the record has ended so.
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

    /// A listener has its first position.
    pub(crate) fn listens(&self, number: usize, listening: Listening) {
        let mut state = self.state();
        let since = state.tick();
        let listener = &mut state.listeners[number];
        (listener.listening, listener.since) = (Some(listening), since);
    }

    /// A listener has opened a stream.
    pub(crate) fn connects(&self, number: usize) {
        let listener = &mut self.state().listeners[number];
        listener.connections += 1;
        listener.connection.clear();
    }

    /// A listener got an event.
    pub(crate) fn receives(&self, number: usize, received: Received) {
        self.state().receives(number, received);
    }

    pub(crate) fn fault(&self, fault: String) {
        self.state().faults.push(fault);
    }

    pub(crate) fn faults(&self) -> Vec<String> {
        self.state().faults.clone()
    }

    /// Says what is stored: the version of each record that is there.
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

    /// What listeners have still to get.
    pub(crate) fn owed(&self) -> Vec<String> {
        self.state().owed()
    }

    /// Listeners that have a position.
    pub(crate) fn listening(&self) -> usize {
        self.state().listeners.iter().filter(|listener| listener.listening.is_some()).count()
    }

    pub(crate) fn committed(&self) -> usize {
        self.state().committed
    }

    /// A number that grows as long as something arrives for the first time.
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

    /// Whether the account may have been a member at any time from `begun` to now.
    fn may_have_read(&self, account: Account, project: Project, begun: u64) -> bool {
        let spans = self.spans.get(&(account, project));
        spans.is_some_and(|spans| spans.iter().any(|span| span.left.is_none_or(|left| left >= begun)))
    }

    /// Whether the account has been a member since `begun`, without a break.
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
        let listener = &mut self.listeners[number];
        let got = listener.got.entry(key).or_default();
        let latest = got.iter().max().copied();
        let is_new = !got.contains(&version);
        if listener.connection.insert(key, version).is_some_and(|before| before >= version) {
            self.faults.push(format!("TWICE or OUT OF ORDER on one connection: {who}, which had got {got:?}"));
        }
        if is_new && latest.is_some_and(|latest| latest > version) {
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

    fn owed(&self) -> Vec<String> {
        let mut owed = Vec::new();
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
                        owed.push(format!(
                            "listener {number} {:?}: record {key} version {version} {:?}",
                            listener.listening, record.topic
                        ));
                    }
                }
            }
        }
        owed
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
