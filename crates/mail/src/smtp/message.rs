//! A [`Mail`] as an Internet message (RFC 5322).

use std::time::SystemTime;

use lettre::message::header::{HeaderName, HeaderValue};
use lettre::message::{Message, MultiPart, SinglePart};

use crate::{Mail, Mailbox, SendError};

/// Builds the message, the same bytes each time.
///
/// `Auto-Submitted` (RFC 3834) keeps holiday notices from answering.
pub(super) fn build(mail: &Mail, from: &Mailbox) -> Result<Message, SendError> {
    // Encoded words could contain a line break without harm, but no legitimate text does.
    if mail.subject.chars().any(char::is_control) {
        return Err(SendError::permanent("the subject has line breaks or other control characters in it"));
    }
    let auto_submitted = HeaderName::new_from_ascii_str("Auto-Submitted");
    let builder = Message::builder()
        .from(from.to_lettre())
        .to(mail.to.to_lettre().into())
        .subject(&mail.subject)
        .date(SystemTime::from(mail.written_at))
        .message_id(Some(format!("<{}@{}>", mail.id, from.address().domain())))
        .raw_header(HeaderValue::new(auto_submitted, "auto-generated".to_owned()));
    let text = SinglePart::plain(mail.text.expose().to_owned());
    let message = match &mail.html {
        None => builder.singlepart(text),
        Some(html) => {
            // The boundary comes from the mail, not from a global generator. An id is never a line of a text.
            let parts = MultiPart::alternative().boundary(format!("=_{}", mail.id.simple()));
            builder.multipart(parts.singlepart(text).singlepart(SinglePart::html(html.expose().to_owned())))
        }
    };
    message.map_err(|error| SendError::permanent(format!("the mail cannot be built: {error}")))
}
