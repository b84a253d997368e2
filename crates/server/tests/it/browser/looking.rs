//! What a reader of any page relies on: it fits, it is labelled, its policy is in force, text stays text.

use super::fake::FakeShop;
use super::webdriver::Browser;

/// A script that returns what is wrong with the page, as text. Names are computed the simple way: label, aria, content.
pub(super) const AUDIT: &str = r#"
const faults = [];
const wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
if (wide > 0) faults.push(`scrolls sideways by ${wide} px`);
for (const landmark of ["header", "main", "footer", "nav"]) {
  if (!document.querySelector(landmark)) faults.push(`no <${landmark}>`);
}
const heads = [...document.querySelectorAll("h1, h2, h3")].filter((head) => head.offsetParent);
if (heads.filter((head) => head.tagName === "H1").length !== 1) faults.push("not one h1");
heads.reduce((level, head) => {
  const next = Number(head.tagName[1]);
  if (next > level + 1) faults.push(`heading level skipped at ${head.textContent}`);
  return next;
}, 0);
for (const control of document.querySelectorAll("input:not([type=hidden]), button, a, summary, progress")) {
  if (!control.checkVisibility()) continue;
  const named = control.labels?.length || control.ariaLabel || control.getAttribute("aria-labelledby")
    || control.textContent.trim();
  if (!named) faults.push(`no name: ${control.outerHTML}`);
  const box = control.getBoundingClientRect();
  if (/^(INPUT|BUTTON)$/.test(control.tagName) && box.height < 44) faults.push(`too small: ${control.outerHTML}`);
}
for (const image of document.querySelectorAll("img")) {
  if (!image.hasAttribute("alt")) faults.push(`no alt: ${image.outerHTML}`);
  if (image.loading !== "lazy" && image.naturalWidth === 0) faults.push(`not loaded: ${image.src}`);
}
if (!document.documentElement.lang || !document.title) faults.push("no language or title");
return faults.join("\n");
"#;

#[test]
fn the_policy_is_in_force() {
    let (shop, browser) = (FakeShop::start(), Browser::start());
    browser.open(&format!("{}/", shop.base));
    let inject = "const script = document.createElement('script');
        script.textContent = 'window.injected = true';
        document.body.append(script);
        return window.injected ?? false";
    assert_eq!(browser.run(inject), false);
    assert!(browser.complaints().iter().any(|text| text.contains("Content Security Policy")));
}

#[test]
fn the_api_page_draws_the_document() {
    let (shop, browser) = (FakeShop::start(), Browser::start());
    browser.open(&format!("{}/api", shop.base));
    browser.wait_for_text("#outcome", "2 operations");
    browser.click(".operation summary");
    let operation = browser.text(".operation[open]");
    for part in ["POST", "/api/v1/orders", "Idempotency-Key", "NewOrder", "409", "curl -X POST"] {
        assert!(operation.contains(part), "{part} in {operation}");
    }
    browser.click(".operation[open] a[href='#schema-NewOrder']");
    browser.wait_for_text("#schema-NewOrder[open]", "<b>text, not markup</b>");
    browser.type_into("#filter", "clock");
    browser.wait_for_text("#outcome", "1 match");
    assert_eq!(browser.complaints(), [""; 0]);
}
