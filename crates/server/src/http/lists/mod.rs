//! Lists by the page: the sales and the items of a sale, as JSON and as pages for people.
//!
//! Each distinct page is rendered on a thread of its own, once per change of what it shows; for the stock alone once a
//! second at most. What was rendered is kept, within bounds, and shared by the readers of all loops, so a list costs a
//! loop one lookup and one copy into the socket. What operators alone see is rendered whenever they ask.
//!
//! Sales are listed by their place in the order of creation, which never changes, the newest first: a cursor is such a
//! place, so sales that are made, change or end between two pages are neither shown twice nor make another be left out.
//!
//! Must not: render on an event loop, or write an answer whose size grows with what there is.

mod bounded;
mod json;
mod kept;
mod listing;
mod page;
mod renderer;

use super::HttpService;
use super::call::Call;
use super::pending::{Pending, Waiting};
use super::wire::answer::Answering;
use super::wire::error::Problem;
use crate::net::Answer;

pub(in crate::http) use bounded::Bounded;
pub(in crate::http) use json::{Reader, write_sale_with};
pub(in crate::http) use kept::{KeptPage, PAGE_HEADERS, Wanted};
pub(in crate::http) use page::{Page, items_page, sales_page};
pub(in crate::http) use renderer::Lists;

/// How long a page stays although the stock of what it shows has changed: `/api/v1/stock` has it as it is.
pub(in crate::http) const STALE_STOCK_MS: u64 = 1000;
/// A browser or a CDN may keep a page this long; it asks with the tag afterwards. A page's script asks for what changes
/// faster.
pub(in crate::http) const PAGE_CACHE_CONTROL: &str = "public, max-age=1";

impl HttpService {
    /// Answers with a page of a list: what was rendered, or as soon as that is done.
    pub(in crate::http) fn show_list(
        &mut self,
        page: Page,
        call: &Call<'_>,
        out: &mut Answering<'_, '_>,
    ) -> Result<Answer, Problem> {
        let wanted = Wanted::of(&call.fields);
        let is_operator = page.has_more_for_operators() && self.who(call).is_some();
        if page.has_more_for_operators() && !is_operator {
            self.check_guess(call)?;
        }
        let reader = if is_operator {
            Reader::Operator
        } else if let Some(kept) = self.shared.lists.fresh(page, self.catalog.version, call.now) {
            kept.answer(&wanted, out);
            return Ok(Answer::Ready);
        } else {
            Reader::Anybody
        };
        let asked = (self.client.event_loop(), call.ticket);
        if !self.shared.lists.ask(asked, page, reader, wanted.to_owned()) {
            return Err(Problem::busy());
        }
        self.pending.put(call.ticket, Pending::new(call, Waiting::Thread));
        Ok(Answer::Later)
    }
}
