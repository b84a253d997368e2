//! docs/runbook.md as HTML: what the console's verdict leads to, also where nothing else can be reached.
//!
//! A heading's anchor is the heading in small letters, with hyphens, as the verdicts name it. Must not: read anything that was not
//! compiled in.

use pulldown_cmark::{CowStr, Event, Parser, Tag, TagEnd, html};

const TEXT: &str = include_str!("../../../../docs/runbook.md");

/// All but how it was tried, which helps nobody at night.
fn advice() -> &'static str {
    TEXT.split_once("\n## Made to happen\n").map_or(TEXT, |(advice, _tried)| advice)
}

/// Links lead within the page; the other documents are not served, and what leads to them is plain text.
pub(super) fn html() -> String {
    let mut events: Vec<Event<'_>> = Vec::new();
    let mut led = false;
    // Where a heading began.
    let mut heading = None;
    for mut event in Parser::new(advice()) {
        match &mut event {
            Event::Start(Tag::Heading { .. }) => heading = Some(events.len()),
            Event::End(TagEnd::Heading(_)) => {
                let begun = heading.take().expect("what ends has begun");
                let words: String = events[begun..].iter().filter_map(text).collect();
                if let Event::Start(Tag::Heading { id, .. }) = &mut events[begun] {
                    *id = Some(words.to_lowercase().replace(' ', "-").into());
                }
            }
            Event::Start(Tag::Link { dest_url, .. }) => {
                led = dest_url.starts_with('#');
                if !led {
                    continue;
                }
            }
            Event::End(TagEnd::Link) if !led => continue,
            _ => {}
        }
        events.push(event);
    }
    let mut html = String::with_capacity(2 * TEXT.len());
    html::push_html(&mut html, events.into_iter());
    html
}

fn text<'e>(event: &'e Event<'_>) -> Option<&'e str> {
    match event {
        Event::Text(text) | Event::Code(text) => Some(CowStr::as_ref(text)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_have_anchors_and_links_lead_to_them_alone() {
        let html = html();
        let anchors: Vec<_> =
            html.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        let links: Vec<_> =
            html.split(" href=\"#").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        assert_eq!(anchors.len(), advice().lines().filter(|line| line.starts_with('#')).count() - comments());
        assert!(html.contains("<h3 id=\"disk-takes-no-writes\">Disk takes no writes</h3>"), "{html}");
        assert!(links.len() > 5 && links.iter().all(|link| anchors.contains(link)), "{links:?}");
        assert_eq!(html.matches(" href=").count(), links.len(), "nothing leads elsewhere");
        assert_eq!(html.matches("<a ").count(), html.matches("</a>").count());
        assert!(!html.contains("](") && !html.contains("**"), "all of it is read");
        assert!(!html.contains("Made to happen") && TEXT.contains("\n## Made to happen\n"));
    }

    /// Lines of a script that look like headings.
    fn comments() -> usize {
        let code = TEXT.split("```").skip(1).step_by(2);
        code.flat_map(str::lines).filter(|line| line.starts_with('#')).count()
    }
}
