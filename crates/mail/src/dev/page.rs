use std::fmt::Write as _;
use std::sync::Arc;

use axum::response::Response;
use gatewright_base::time;
use gatewright_http::html::{Page, Width, escape};

use crate::Mail;

/// The mailbox as a page: one article for each mail, its text and its links. The HTML part is not shown, so that
/// nothing in a mail can become part of this page.
pub(super) fn page(mails: &[Arc<Mail>]) -> Response {
    let mut main = String::from("<h1>Development mailbox</h1>\n");
    main.push_str(match mails {
        [] => "<p>No mail yet.</p>\n",
        _ => "<p>The newest mails come first; they are kept in memory only.</p>\n",
    });
    for (mail, number) in mails.iter().zip(1..) {
        article(&mut main, mail, number);
    }
    main.push_str("<p><a href=\"/dev/mail.json\">The same as JSON</a></p>\n");
    Page::new("Development mailbox", &main).width(Width::Wide).respond()
}

fn article(out: &mut String, mail: &Mail, number: usize) {
    let (subject, recipient) = (escape(&mail.subject), escape(mail.to.as_str()));
    let at = time::format(mail.written_at);
    // Writing to a String cannot fail.
    let _ = write!(
        out,
        "<article aria-labelledby=\"mail-{number}\">\n<h2 id=\"mail-{number}\">{subject}</h2>\n\
         <p>To <strong>{recipient}</strong>, <time datetime=\"{at}\">{at}</time></p>\n"
    );
    for paragraph in mail.text.expose().split("\n\n").map(str::trim).filter(|paragraph| !paragraph.is_empty()) {
        // The page's style breaks the long words of code, which links are, and of nothing else.
        let (before, after) = if paragraph.contains("://") { ("<code>", "</code>") } else { ("", "") };
        let text = escape(paragraph).replace('\n', "<br>\n");
        let _ = writeln!(out, "<p>{before}{text}{after}</p>");
    }
    out.push_str("<ul aria-label=\"Links\">\n");
    for link in &mail.links {
        let text = escape(link.expose());
        // Another scheme could run a script.
        let is_web = ["https://", "http://"].iter().any(|scheme| link.expose().starts_with(scheme));
        let _ = if is_web {
            writeln!(out, "<li><a href=\"{text}\" rel=\"noreferrer\"><code>{text}</code></a></li>")
        } else {
            writeln!(out, "<li><code>{text}</code></li>")
        };
    }
    out.push_str("</ul>\n</article>\n");
}
