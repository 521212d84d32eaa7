//! Scripts that the tour runs in pages.

/// Opens every form that waits to be asked for.
pub(super) const OPENED: &str = "for (const form of document.querySelectorAll('details.asked, details.fold')) form.open = true; arguments[0](null);";

/// Lets the browser send a form with empty fields.
pub(super) const UNGUARDED: &str = "for (const form of document.forms) form.noValidate = true; arguments[0](null);";

/// The position of a page's refusal, if it is outside of the window.
pub(super) const REFUSAL: &str = r#"
const refusal = [...document.querySelectorAll("[role=alert]:not([hidden])")].find((part) => part.textContent);
const top = refusal?.getBoundingClientRect().top ?? 0;
arguments[0](top >= 0 && top < innerHeight ? null : top);
"#;

/// Facts about a page: its language, the number of links and buttons in its main part, and elements that are wider than
/// their parents.
pub(super) const PAGE: &str = r#"
const parts = [...document.querySelectorAll("main *")];
arguments[0]({
  language: document.documentElement.lang,
  ways: document.querySelectorAll("main a[href], main button").length,
  cut: parts.filter((part) => part.clientWidth > 0 && part.scrollWidth > part.clientWidth + 1 && !part.matches("input, select, textarea, pre") && getComputedStyle(part).clipPath === "none")
    .map((part) => part.outerHTML.slice(0, 200)),
});
"#;
