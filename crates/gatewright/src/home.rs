//! `GET /`: the page after a sign-in without `next`. In dev mode it is the start page of a developer.

use std::fmt::Write;
use std::sync::Arc;

use axum::response::{IntoResponse, Redirect, Response};
use gatewright_auth::screens;
use gatewright_base::{Identity, Principal};
use gatewright_db::dialect::quoted;
use gatewright_db::{Db, params};
use gatewright_http::html::{Page, Script, Width, escape};
use gatewright_http::locale::Locale;
use gatewright_http::{Caller, html};
use http::header::CACHE_CONTROL;

/// What `/` shows, or where it leads. A program with its own routes has no such page.
pub(crate) enum Home {
    /// Outside dev mode: to the front end, or to the sign-in.
    Leads {
        /// Where accounts are. `None` without accounts.
        auth: bool,
        app_url: Option<String>,
    },
    Start(StartPage),
}

/// The start page of a developer.
pub(crate) struct StartPage {
    pub(crate) db: Db,
    /// The path of the endpoints of accounts. `None` without accounts.
    pub(crate) auth_base: Option<String>,
    pub(crate) entities: Vec<Listed>,
    /// Other pages.
    pub(crate) places: Vec<Place>,
    /// A request to paste.
    pub(crate) command: Option<Vec<String>>,
    /// The path of the events of an entity, to watch.
    pub(crate) stream: Option<String>,
    /// What `check` warns of.
    pub(crate) warnings: Vec<String>,
}

/// Shows the events of an entity while the page is open.
static LIVE: Script = Script::new(include_str!("home.js"));

/// Another page.
pub(crate) struct Place {
    /// The key of its name.
    pub(crate) name: &'static str,
    /// Where the link leads: on this server a path, so that the browser stays at the host that it uses.
    pub(crate) href: String,
    /// The whole address.
    pub(crate) address: String,
}

/// An entity.
pub(crate) struct Listed {
    pub(crate) table: String,
    /// The path of its records. `None` without endpoints.
    pub(crate) path: Option<String>,
}

/// The most records that are counted. More are shown as more.
const MOST: i64 = 10_000;

impl Home {
    pub(crate) async fn show(self: Arc<Self>, Caller(identity): Caller) -> Response {
        // The next visitor at this browser sees another one.
        let headers = [(CACHE_CONTROL, "no-store")];
        let to = match (&*self, &identity) {
            (Self::Start(start), _) => return (headers, start.show(&identity).await).into_response(),
            (Self::Leads { app_url: Some(app), .. }, _) => app,
            (Self::Leads { auth: false, .. }, _) => return running(),
            (Self::Leads { .. }, Identity::Known(_)) => "/account",
            (Self::Leads { .. }, Identity::Pending(_)) => "/two-factor",
            (Self::Leads { .. }, Identity::Anonymous) => "/login",
        };
        (headers, Redirect::to(to)).into_response()
    }
}

/// A server without pages of its own.
fn running() -> Response {
    let locale = Locale::current();
    let heading = escape(locale.product());
    let text = locale.markup("home.running", &[]);
    html::page(locale.product(), &format!("<h1>{heading}</h1>\n<p>{text}</p>\n"))
}

impl StartPage {
    async fn show(&self, identity: &Identity) -> Response {
        let locale = Locale::current();
        let product = locale.product();
        let mut main = format!("<div class=\"top\">\n<div><h1>{}</h1>\n", locale.markup("home.title", &[]));
        self.push_caller(&mut main, &locale, identity);
        main.push_str("<div class=\"panels\">\n");
        self.push_entities(&mut main, &locale).await;
        push_list(
            &mut main,
            &locale,
            "home.places",
            self.places.iter().map(|place| {
                let (name, href, address) =
                    (locale.markup(place.name, &[]), escape(&place.href), escape(&place.address));
                format!("<div><a href=\"{href}\">{name}</a></div>\n<code class=\"small\">{address}</code>")
            }),
        );
        if let Some(command) = &self.command {
            let (title, copy) = (locale.markup("home.command", &[]), locale.markup("form.copy", &[]));
            let copied = locale.text("form.copied", &[]);
            // Writing to a String cannot fail.
            let _ = write!(
                main,
                "<section aria-labelledby=\"command-heading\">\n<h2 id=\"command-heading\">{title}</h2>\n\
                 <pre tabindex=\"0\"><code id=\"command\">{}</code></pre>\n\
                 <p class=\"acts\"><button type=\"button\" class=\"quiet\" data-copy=\"command\" data-done=\"{}\" hidden>\
                 {copy}</button></p>\n</section>\n",
                escape(&command.join("\n")),
                escape(&copied),
            );
        }
        self.push_stream(&mut main, &locale);
        push_list(
            &mut main,
            &locale,
            "home.warnings",
            self.warnings.iter().map(|warning| format!("<div>{}</div>", with_code(warning))),
        );
        main.push_str("</div>\n");
        let page = Page::new(product, &main).width(Width::Wide).script(&screens::SCRIPT);
        if self.stream.is_some() { page.script(&LIVE).connects().respond() } else { page.respond() }
    }

    /// The events of an entity, while the page is open.
    fn push_stream(&self, main: &mut String, locale: &Locale) {
        let Some(stream) = &self.stream else { return };
        let t = |key: &str| locale.markup(key, &[]);
        let _ = writeln!(
            main,
            "<section aria-labelledby=\"live\">\n<h2 id=\"live\">{}</h2>\n<p id=\"live-state\" class=\"state\" role=\"status\">{}</p>\n\
             <ul class=\"rows\" data-stream=\"{2}\" data-open=\"{3}\" data-refused=\"{4}\"></ul>\n\
             <p class=\"small\"><code>{2}</code></p>\n</section>",
            t("home.live"),
            t("home.live_waits"),
            escape(stream),
            escape(&locale.text("home.live_open", &[])),
            escape(&locale.text("home.live_refused", &[])),
        );
    }

    /// Who is signed in, and the way out.
    fn push_caller(&self, main: &mut String, locale: &Locale, identity: &Identity) {
        let Some(base) = &self.auth_base else {
            main.push_str("</div>\n</div>\n");
            return;
        };
        let (text, is_signed_in) = match identity {
            Identity::Known(principal) => (locale.markup("home.signed_in", &[("name", name(principal))]), true),
            Identity::Pending(_) => (locale.markup("home.pending", &[("href", "/two-factor")]), true),
            Identity::Anonymous => {
                let links = [("sign_in", "/login"), ("register", "/register")];
                (locale.markup("home.anonymous", &links), false)
            }
        };
        let _ = writeln!(main, "<p class=\"lead\">{text}</p></div>");
        if is_signed_in {
            let _ = writeln!(
                main,
                "<form method=\"post\" action=\"{}/logout\">\n<button type=\"submit\" class=\"quiet\">{}</button>\n</form>",
                escape(base),
                locale.markup("home.sign_out", &[])
            );
        }
        main.push_str("</div>\n");
    }

    async fn push_entities(&self, main: &mut String, locale: &Locale) {
        let t = |key: &str| locale.markup(key, &[]);
        let _ =
            writeln!(main, "<section aria-labelledby=\"entities\">\n<h2 id=\"entities\">{}</h2>", t("home.entities"));
        if self.entities.is_empty() {
            let _ = writeln!(main, "<p class=\"state\">{}</p>\n</section>", t("home.no_entities"));
            return;
        }
        let _ = writeln!(
            main,
            "<table>\n<thead><tr><th scope=\"col\">{}</th><th scope=\"col\" class=\"number\">{}</th>\
             <th scope=\"col\">{}</th></tr></thead>\n<tbody>",
            t("home.entity"),
            t("home.records"),
            t("home.address")
        );
        for Listed { table, path } in &self.entities {
            let path = path.as_deref().map(|path| format!("<a href=\"{0}\"><code>{0}</code></a>", escape(path)));
            let _ = writeln!(
                main,
                "<tr><td>{}</td><td class=\"number\">{}</td><td>{}</td></tr>",
                escape(table),
                self.count(table).await,
                path.unwrap_or_default()
            );
        }
        main.push_str("</tbody>\n</table>\n</section>\n");
    }

    /// The number of an entity's rows, in words. Unknown if the table cannot be read.
    async fn count(&self, table: &str) -> String {
        let sql = format!("SELECT COUNT(*) AS n FROM (SELECT 1 FROM {} LIMIT {}) AS counted", quoted(table), MOST + 1);
        match self.db.query_opt(sql, params![]).await.map(|row| row.map(|row| row.get::<i64>("n"))) {
            Ok(Some(Ok(count))) if count > MOST => format!("&gt; {MOST}"),
            Ok(Some(Ok(count))) => count.to_string(),
            Ok(Some(Err(_)) | None) | Err(_) => "?".to_owned(),
        }
    }
}

fn name(principal: &Principal) -> &str {
    principal.email.as_deref().unwrap_or(principal.subject.as_str())
}

/// A section with a list of markup. Nothing without items.
fn push_list(main: &mut String, locale: &Locale, title: &str, items: impl Iterator<Item = String>) {
    let mut items = items.peekable();
    if items.peek().is_none() {
        return;
    }
    let id = title.replace('.', "-");
    let _ = writeln!(
        main,
        "<section aria-labelledby=\"{id}\">\n<h2 id=\"{id}\">{}</h2>\n<ul class=\"rows\">",
        locale.markup(title, &[])
    );
    for item in items {
        let _ = writeln!(main, "<li>{item}</li>");
    }
    main.push_str("</ul>\n</section>\n");
}

/// A sentence whose words in backquotes are code.
fn with_code(text: &str) -> String {
    let mut markup = String::new();
    for (index, part) in text.split('`').enumerate() {
        let _ = if index % 2 == 0 {
            write!(markup, "{}", escape(part))
        } else {
            write!(markup, "<code>{}</code>", escape(part))
        };
    }
    markup
}
