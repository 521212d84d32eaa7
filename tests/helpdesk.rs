//! The example of a help desk, in four browsers: two customers, an agent and an admin of one organisation.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::harness::{Browser, Database, Launch, PASSWORD, Scripts, Server, gatewright};

const TENANT: &str = "acme";

/// Sends a request from the page, in the organisation. Returns the status and the body.
const ASK: &str = r#"
    const [method, path, body, more, done] = arguments;
    const options = { method, headers: { "Content-Type": "application/json", "X-Tenant-ID": "acme", ...more } };
    if (body !== null) options.body = JSON.stringify(body);
    fetch(path, options)
        .then(async (answer) => ({ status: answer.status, text: await answer.text() }))
        .then(done, (error) => done({ status: 0, text: String(error) }));"#;

/// Follows the tickets and comments that the page's user may read: what a stream has shown, as `type subject`.
const LISTEN: &str = r#"
    const [done] = arguments;
    window.seen = [];
    const open = (path) => new Promise((opened, failed) => {
        const source = new EventSource(path);
        source.addEventListener("ready", () => opened());
        source.addEventListener("error", () => failed(new Error(path)));
        for (const kind of ["created", "updated", "deleted"]) {
            source.addEventListener(`entity.${kind}`, (event) => {
                const { record } = JSON.parse(event.data).data;
                window.seen.push(`${kind} ${record.subject ?? record.text ?? ""}`);
            });
        }
    });
    Promise.all([open("/tickets/_events?tenant=acme"), open("/comments/_events?tenant=acme")])
        .then(() => done("open"), (error) => done(String(error)));"#;

/// Somebody at a browser.
struct Person {
    browser: Browser,
    id: String,
}

impl Person {
    /// Registers, joins the organisation with these roles, signs in on the page and follows the streams.
    async fn joins(server: &Server, database: &Database, email: &str, roles: &str) -> Option<Self> {
        let browser = Browser::start(Scripts::On).await?;
        server.client().register(email).await.is(200);
        let words = ["tenant", "add-member", TENANT, email, "--unverified", "--roles", roles, "--database"];
        let url = database.url();
        let ended = gatewright(server.folder(), &[&words[..], &[&*url]].concat(), "");
        assert_eq!(ended.status, 0, "{}", ended.err);
        browser.open(&format!("http://{}/account", server.address())).await;
        browser.fill("Email", email).await;
        browser.fill("Password", PASSWORD).await;
        browser.press("Sign in").await;
        browser.sees(&format!("Signed in as {email}")).await;
        // The page of passkeys may send requests.
        browser.open(&format!("http://{}/account/sign-in", server.address())).await;
        browser.sees("Passkeys").await;
        let person = Self { browser, id: String::new() };
        let (_, me) = person.asks("GET", "/auth/me", Value::Null).await;
        let id = me["user"]["id"].as_str().unwrap().to_owned();
        assert_eq!(person.browser.run(LISTEN, json!([])).await, "open");
        Some(Self { id, ..person })
    }

    async fn asks_in(&self, language: &str, method: &str, path: &str, body: Value) -> (u64, Value) {
        let answer = self.browser.run(ASK, json!([method, path, body, { "Accept-Language": language }])).await;
        let text = answer["text"].as_str().unwrap();
        (answer["status"].as_u64().unwrap(), serde_json::from_str(text).unwrap_or_else(|_| json!(text)))
    }

    async fn asks(&self, method: &str, path: &str, body: Value) -> (u64, Value) {
        self.asks_in("en", method, path, body).await
    }

    /// A request that must succeed. Returns the record.
    async fn does(&self, method: &str, path: &str, body: Value) -> Value {
        let (status, answer) = self.asks(method, path, body).await;
        assert!((200..300).contains(&status), "{method} {path}: {status} {answer}");
        answer["data"].clone()
    }

    /// A request that must be refused with this status. Returns the names of the fields that its errors are about.
    async fn may_not(&self, status: u64, method: &str, path: &str, body: Value) -> Vec<String> {
        let (answered, answer) = self.asks(method, path, body).await;
        assert_eq!(answered, status, "{method} {path}: {answer}");
        let errors = answer["errors"].as_array().cloned().unwrap_or_default();
        errors.iter().map(|error| error["field"].as_str().unwrap().to_owned()).collect()
    }

    async fn subjects(&self, path: &str) -> Vec<String> {
        let list = self.does("GET", path, Value::Null).await;
        list.as_array().unwrap().iter().map(|ticket| ticket["subject"].as_str().unwrap().to_owned()).collect()
    }

    /// Waits until the page's streams have shown this last, and returns everything that they have shown.
    async fn is_shown(&self, last: &str) -> Vec<String> {
        let deadline = Instant::now() + Duration::from_mins(1);
        loop {
            let seen = self.browser.run("arguments[0](window.seen);", json!([])).await;
            let seen: Vec<String> = serde_json::from_value(seen).unwrap();
            if seen.last().is_some_and(|seen| seen == last) {
                return seen;
            }
            assert!(Instant::now() < deadline, "{last} is not shown: {seen:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_customer_an_agent_and_an_admin_work_at_the_help_desk() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/helpdesk/gatewright.toml");
    let example = fs::read_to_string(example).unwrap();
    for database in Database::all().await {
        let server = Launch::configured(&example).start(&database).await;
        let joins = async |name: &str, roles: &str| {
            Person::joins(&server, &database, &format!("{name}@example.com"), roles).await
        };
        let customers = tokio::join!(joins("cleo", "member"), joins("dora", "member"));
        let (Some(cleo), Some(dora)) = customers else { return };
        let (Some(ben), Some(ada)) = tokio::join!(joins("ben", "agent"), joins("ada", "admin")) else { return };

        // The customer asks. The server says who asked, and counts.
        let printer = cleo.does("POST", "/tickets", json!({"subject": "The printer is on fire"})).await;
        assert_eq!((&printer["number"], &printer["requester"]), (&json!(1), &json!(cleo.id)));
        let printer = format!("/tickets/{}", printer["id"].as_str().unwrap());
        let made = ben.does("POST", "/tickets", json!({"subject": "Door is stuck", "priority": "high"})).await;
        assert_eq!((&made["number"], &made["requester"]), (&json!(2), &json!(ben.id)));
        let phoned = json!({"subject": "Asked by phone", "requester": cleo.id});
        assert_eq!(ben.does("POST", "/tickets", phoned).await["number"], 3);
        assert_eq!(cleo.subjects("/tickets?sort=number").await, ["The printer is on fire", "Asked by phone"]);
        assert_eq!(ada.subjects("/tickets").await.len(), 3);
        ben.is_shown("created Asked by phone").await;
        assert_eq!(
            cleo.is_shown("created Asked by phone").await,
            ["created The printer is on fire", "created Asked by phone"]
        );

        // What only agents decide, one door after another.
        let theirs = json!({"priority": "high", "assignee": cleo.id, "subject": "The printer burns"});
        assert_eq!(cleo.may_not(403, "PATCH", &printer, theirs).await, ["priority", "assignee"]);
        let theirs = json!({"subject": "Mine first", "priority": "high"});
        assert_eq!(cleo.may_not(403, "POST", "/tickets", theirs.clone()).await, ["priority"]);
        cleo.may_not(403, "POST", "/tickets", json!({"subject": "As Ben", "requester": ben.id})).await;
        let (status, batch) = cleo
            .asks(
                "POST",
                "/_batch",
                json!({"operations": [
                    {"op": "create", "entity": "tickets", "as": "mine", "data": theirs},
                    {"op": "create", "entity": "comments", "data": {"ticket": {"$ref": "mine"}, "text": "Quick!"}},
                ]}),
            )
            .await;
        assert!((400..500).contains(&status), "{batch}");
        assert_eq!(cleo.subjects("/tickets").await.len(), 2, "nothing of the batch is stored");

        // The agent works on it. A refused value names its field, in the reader's language.
        let early = json!({"dueAt": "2020-01-01T00:00:00Z", "status": "waiting"});
        assert_eq!(ben.may_not(422, "PATCH", &printer, early.clone()).await, ["dueAt", "assignee"]);
        let (_, german) = ben.asks_in("de", "PATCH", &printer, early).await;
        assert!(german["errors"][0]["message"].as_str().unwrap().starts_with("muss nach der"), "{german}");
        let taken =
            ben.does("PATCH", &printer, json!({"status": "waiting", "assignee": ben.id, "priority": "high"})).await;
        assert_eq!(taken["status"], "waiting");
        cleo.is_shown("updated The printer is on fire").await;

        // A note among agents never reaches the customer.
        let ticket = printer.rsplit('/').next().unwrap();
        let comment = |text: &str, internal: bool| json!({"ticket": ticket, "text": text, "internal": internal});
        cleo.may_not(403, "POST", "/comments", comment("I am an agent", true)).await;
        ben.does("POST", "/comments", comment("Their printer is from 1987", true)).await;
        ben.does("POST", "/comments", comment("Please unplug it", false)).await;
        ben.is_shown("created Please unplug it").await;
        let seen = cleo.is_shown("created Please unplug it").await;
        assert!(!seen.iter().any(|event| event.contains("1987")), "{seen:?}");
        let comments = cleo.does("GET", "/comments?sort=created_at", Value::Null).await;
        assert_eq!(comments.as_array().unwrap().len(), 1, "{comments}");

        // A colleague reads along, and no longer when the customer takes her out.
        let reads_along = json!({"watchers": {"$append": [dora.id]}, "tags": {"$append": ["smoke"]}});
        cleo.does("PATCH", &printer, reads_along).await;
        assert_eq!(dora.is_shown("updated The printer is on fire").await.len(), 1);
        let tagged = format!("/tickets?filter={}", "watchers%20%3D%20%40me%20%26%26%20tags%20has%20%27smoke%27");
        assert_eq!(dora.subjects(&tagged).await, ["The printer is on fire"]);
        assert_eq!(dora.does("GET", "/comments", Value::Null).await.as_array().unwrap().len(), 1);
        dora.may_not(403, "PATCH", &printer, json!({"subject": "Mine"})).await;
        let stranger = json!({"watchers": ["0190d2b3-0000-7000-8000-00000000000a"]});
        assert_eq!(cleo.may_not(422, "PATCH", &printer, stranger).await, ["watchers"]);
        cleo.does("PATCH", &printer, json!({"watchers": {"$remove": [dora.id]}})).await;
        dora.is_shown("deleted ").await;
        dora.may_not(404, "GET", &printer, Value::Null).await;

        // The customer closes the ticket, and neither opens it again nor deletes it.
        cleo.does("PATCH", &printer, json!({"status": "closed"})).await;
        cleo.may_not(403, "PATCH", &printer, json!({"status": "open"})).await;
        for person in [&cleo, &ben] {
            person.may_not(403, "DELETE", &printer, Value::Null).await;
        }

        are_named_and_counted(&cleo, &ben).await;

        // A filter has a name of its own for each account, whatever its case.
        let filter = json!({"name": "Open", "filter": "status = 'open'"});
        ben.does("POST", "/saved_filters", filter).await;
        let again = json!({"name": "OPEN", "filter": "status = 'waiting'"});
        assert_eq!(ben.may_not(409, "POST", "/saved_filters", again.clone()).await, ["user", "name"]);
        ada.does("POST", "/saved_filters", again).await;
        ben.does(
            "POST",
            "/saved_filters?on_conflict=user,name",
            json!({"user": ben.id, "name": "open", "filter": "number > 1"}),
        )
        .await;
        assert_eq!(ben.does("GET", "/saved_filters", Value::Null).await.as_array().unwrap().len(), 1);

        // The admin deletes it, with its comments. Its number is not given again.
        ada.does("DELETE", &printer, Value::Null).await;
        cleo.is_shown("deleted The printer is on fire").await;
        assert_eq!(cleo.does("POST", "/tickets", json!({"subject": "Another printer"})).await["number"], 4);
        assert_eq!(ben.does("GET", "/comments", Value::Null).await, json!([]));
    }
}

/// Agents see who asked, by name, and how much there is to do. Customers see ids.
async fn are_named_and_counted(cleo: &Person, ben: &Person) {
    cleo.does("PATCH", "/auth/me", json!({"profile": {"displayName": "Cleo"}})).await;
    let named = "/tickets?include=requester&filter=requester.displayName%20%3D%20%22Cleo%22&sort=number";
    let tickets = ben.does("GET", named, Value::Null).await;
    assert_eq!(tickets[0]["_included"]["requester"]["displayName"], "Cleo", "{tickets}");
    assert_eq!(tickets.as_array().unwrap().len(), 2);
    cleo.may_not(403, "GET", named, Value::Null).await;
    cleo.may_not(403, "GET", "/users", Value::Null).await;
    let included = cleo.does("GET", "/tickets?include=requester", Value::Null).await;
    assert_eq!(included[0]["_included"]["requester"], json!({"id": cleo.id}));
    let people = ben.does("GET", "/users?q=example.com&fields=email&sort=email", Value::Null).await;
    assert_eq!(people.as_array().unwrap().len(), 4, "{people}");
    let days = ben.does("GET", "/tickets?group=day(created_at)", Value::Null).await;
    assert_eq!(days[0]["count"], 3, "{days}");
    let load = ben.does("GET", "/workload?include=assignee", Value::Null).await;
    assert_eq!((load.as_array().unwrap().len(), &load[0]["tickets"]), (1, &json!(2)), "{load}");
    cleo.may_not(403, "GET", "/workload", Value::Null).await;
    let (status, csv) = ben.asks("GET", "/tickets?format=csv&fields=number,subject&sort=number", Value::Null).await;
    assert_eq!((status, csv.as_str().unwrap().lines().nth(1)), (200, Some("1,The printer is on fire")));
}
