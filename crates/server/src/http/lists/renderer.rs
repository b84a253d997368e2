//! The thread that renders pages, and what it has rendered.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use engine::{BeaconTerms, SkuId, UnixMs};

use super::bounded::Bounded;
use super::json::{Reader, Showing, skus_of, write_sale, write_sales};
use super::kept::{KeptPage, Wanted};
use super::listing::Listing;
use super::page::{Page, SHOWN_ITEMS, SHOWN_SALES, States};
use super::{PAGE_CACHE_CONTROL, STALE_STOCK_MS};
use crate::clock::Clock;
use crate::http::HttpService;
use crate::http::pages::shelf::{PageShelf, SkuPages, item_view, sale_view};
use crate::http::reads::{Answers, ShowRead};
use crate::http::wire::answer::Answering;
use crate::intake::catalog::{Catalog, Shelf};
use crate::net::Ticket;
use crate::pages::{INDEX_ITEMS_MAX, LanguageId, Links, Rendered};

/// Requests that wait for a page; with more, the client is asked to come again. Many wait for the same one.
const WAITING_MAX: usize = 4096;
/// Pages that are kept beside the first ones of the sales, which are 28 at most and 4 in each language, and their bytes.
const KEPT_MAX: usize = 512;
const KEPT_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Orders come first where processors are few.
#[cfg(target_os = "linux")]
const NICE: i32 = 10;

/// A rendered page, and how long it shows what is.
#[derive(Debug)]
struct Kept {
    answer: Arc<KeptPage>,
    catalog_version: u64,
    /// Before and after, a sale is in another phase.
    times: Range<UnixMs>,
    skus: Vec<Range<u32>>,
    /// The sum of their counters' versions, none of which ever falls.
    stock_version: u64,
    /// When it was last known to show the stock as it is.
    looked_at: AtomicU64,
}

impl Kept {
    fn is_fresh(&self, catalog_version: u64, now: UnixMs) -> bool {
        self.catalog_version >= catalog_version
            && self.times.contains(&now)
            && now.0.abs_diff(self.looked_at.load(Ordering::Relaxed)) < STALE_STOCK_MS
    }

    /// Whether it may be kept for another while: its stock has not changed.
    fn look_again(&self, catalog: &Catalog, now: UnixMs) -> bool {
        let same = self.catalog_version == catalog.version
            && self.times.contains(&now)
            && self.stock_version == self.skus.iter().map(|skus| stock_version(catalog, skus)).sum::<u64>();
        if same {
            self.looked_at.store(now.0, Ordering::Relaxed);
        }
        same
    }
}

fn stock_version(catalog: &Catalog, skus: &Range<u32>) -> u64 {
    catalog.skus[skus.start as usize..skus.end as usize].iter().map(|sku| sku.counters.version()).sum()
}

#[derive(Debug)]
struct Rendering {
    shelf: Arc<Shelf>,
    clock: Arc<Clock>,
    pages: Arc<PageShelf>,
    /// That this server asks for draws.
    beacon: Option<BeaconTerms>,
    /// To pay, of a sale that is made without saying it.
    payment_default_ms: u64,
    kept: Mutex<KeptPages>,
    listing: Mutex<Arc<Listing>>,
}

#[derive(Debug)]
struct KeptPages {
    first: HashMap<Page, Arc<Kept>>,
    others: Bounded<Page, Arc<Kept>>,
}

impl KeptPages {
    fn get(&mut self, page: Page) -> Option<&Arc<Kept>> {
        if page.is_first_of_sales() { self.first.get(&page) } else { self.others.get(page) }
    }
}

/// Renders what a request waits for, on the thread.
type Job = Box<dyn FnOnce(&Rendering) -> ShowRead + Send>;

/// A request that waits.
struct Asked {
    event_loop: usize,
    ticket: Ticket,
    job: Job,
}

/// The lists, as the event loops see them. The thread ends when this is dropped.
#[derive(Debug)]
pub(in crate::http) struct Lists {
    rendering: Arc<Rendering>,
    waiting: Option<SyncSender<Asked>>,
    thread: Option<JoinHandle<()>>,
}

impl Lists {
    /// Starts the thread.
    pub(in crate::http) fn start(
        shelf: Arc<Shelf>,
        clock: Arc<Clock>,
        pages: Arc<PageShelf>,
        (beacon, payment_default_ms): (Option<BeaconTerms>, u64),
        answers: Answers,
    ) -> Lists {
        let kept = KeptPages { first: HashMap::new(), others: Bounded::new(KEPT_MAX, KEPT_BYTES_MAX) };
        let (kept, listing) = (Mutex::new(kept), Mutex::default());
        let rendering =
            Arc::new(Rendering { shelf, clock, pages, beacon, payment_default_ms, kept, listing });
        let (sender, waiting) = sync_channel(WAITING_MAX);
        let of_thread = Arc::clone(&rendering);
        let thread = std::thread::Builder::new()
            .name("lists".to_owned())
            .spawn(move || of_thread.answer_all(&waiting, &answers))
            .expect("the system starts a thread while the server starts");
        Lists { rendering, waiting: Some(sender), thread: Some(thread) }
    }

    /// The page, if it was rendered and shows what this reader's catalog has.
    pub(super) fn fresh(&self, page: Page, catalog_version: u64, now: UnixMs) -> Option<Arc<KeptPage>> {
        let mut pages = self.rendering.kept();
        let kept = pages.get(page).filter(|kept| kept.is_fresh(catalog_version, now))?;
        Some(Arc::clone(&kept.answer))
    }

    /// Has a page rendered, and the request answered with it; false: too many wait.
    pub(super) fn ask(
        &self,
        asked: (usize, Ticket),
        page: Page,
        reader: Reader,
        wanted: Wanted<'static>,
    ) -> bool {
        self.hand_over(
            asked,
            Box::new(move |rendering: &Rendering| match reader {
                Reader::Operator => {
                    let body = rendering.for_operator(page);
                    ShowRead::new(move |_, out| {
                        out.json(200, &body);
                        Ok(())
                    })
                }
                Reader::Anybody => {
                    let kept = rendering.page(page);
                    ShowRead::new(move |_, out| {
                        kept.answer(&wanted, out);
                        Ok(())
                    })
                }
            }),
        )
    }

    /// Has the pages of a SKU rendered, and the request answered by what `show` makes of them; false: too many wait.
    pub(in crate::http) fn ask_for_sku(
        &self,
        asked: (usize, Ticket),
        (sku, language): (SkuId, LanguageId),
        show: impl FnOnce(&mut HttpService, &SkuPages, &mut Answering<'_, '_>) + Send + 'static,
    ) -> bool {
        self.hand_over(
            asked,
            Box::new(move |rendering: &Rendering| {
                let (catalog, now) = (rendering.shelf.current(), rendering.clock.now());
                let pages = rendering.pages.sku(&catalog, (sku, language), now);
                ShowRead::new(move |service, out| {
                    show(service, &pages, out);
                    Ok(())
                })
            }),
        )
    }

    fn hand_over(&self, (event_loop, ticket): (usize, Ticket), job: Job) -> bool {
        let waiting = self.waiting.as_ref().expect("it is there until this is dropped");
        waiting.try_send(Asked { event_loop, ticket, job }).is_ok()
    }

    /// SKUs of the sales that are not over, or in whose lines somebody may order still, the newest sale's first.
    pub(in crate::http) fn current_skus(&self, catalog: &Catalog, now: UnixMs, max: usize) -> Vec<u32> {
        let listing = self.rendering.listing(catalog, now);
        let sales = listing.before(States::Current, u32::MAX).map(|place| &catalog.sales[place as usize]);
        sales.flat_map(|sale| skus_of(sale, 0, u32::MAX)).take(max).collect()
    }

    /// Whether it is fresh or not.
    #[cfg(test)]
    pub(in crate::http) fn kept(&self, page: Page) -> Option<Arc<KeptPage>> {
        self.rendering.kept().get(page).map(|kept| Arc::clone(&kept.answer))
    }

    #[cfg(test)]
    pub(in crate::http) fn kept_size(&self) -> (usize, usize) {
        let kept = self.rendering.kept();
        let (entries, bytes) = kept.others.size();
        let first_bytes: usize = kept.first.values().map(|kept| kept.answer.bytes()).sum();
        (entries + kept.first.len(), bytes + first_bytes)
    }
}

impl Drop for Lists {
    fn drop(&mut self) {
        // Without a sender the thread ends after what it is rendering.
        self.waiting = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that renders lists panicked");
        }
    }
}

impl Rendering {
    fn kept(&self) -> MutexGuard<'_, KeptPages> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer_all(&self, waiting: &Receiver<Asked>, answers: &Answers) {
        #[cfg(target_os = "linux")]
        if let Err(error) = rustix::process::setpriority_process(None, NICE) {
            tracing::debug!(%error, "the thread that renders lists has no lower priority");
        }
        while let Ok(Asked { event_loop, ticket, job }) = waiting.recv() {
            answers.give(event_loop, ticket, job(self));
        }
    }

    /// Which sales are where now, looked through again only if that has changed.
    fn listing(&self, catalog: &Catalog, now: UnixMs) -> Arc<Listing> {
        let mut listing = self.listing.lock().unwrap_or_else(PoisonError::into_inner);
        if !listing.holds(catalog.version, now) {
            *listing = Arc::new(Listing::of(catalog, now));
        }
        Arc::clone(&listing)
    }

    fn page(&self, page: Page) -> Arc<KeptPage> {
        let (catalog, now) = (self.shelf.current(), self.clock.now());
        let listing = self.listing(&catalog, now);
        let page = page.as_given(&listing);
        if let Some(kept) = self.kept().get(page)
            && (kept.is_fresh(catalog.version, now) || kept.look_again(&catalog, now))
        {
            return Arc::clone(&kept.answer);
        }
        let (answer, skus, stock_version) = self.render(page, &catalog, &listing, now);
        let answer = Arc::new(answer);
        let kept = Arc::new(Kept {
            answer: Arc::clone(&answer),
            catalog_version: catalog.version,
            times: listing.times(),
            skus,
            stock_version,
            looked_at: AtomicU64::new(now.0),
        });
        let mut pages = self.kept();
        if page.is_first_of_sales() {
            pages.first.insert(page, kept);
        } else {
            pages.others.put(page, kept, answer.bytes());
        }
        answer
    }

    fn for_operator(&self, page: Page) -> Vec<u8> {
        let (catalog, now) = (self.shelf.current(), self.clock.now());
        let listing = self.listing(&catalog, now);
        json(page, self.showing(&catalog, now, Reader::Operator), &listing, |_| {})
    }

    fn showing<'a>(&'a self, catalog: &'a Catalog, now: UnixMs, reader: Reader) -> Showing<'a> {
        let payment_default_ms = Some(self.payment_default_ms);
        Showing { catalog, now, reader, beacon: self.beacon.as_ref(), payment_default_ms }
    }

    fn render(
        &self,
        page: Page,
        catalog: &Catalog,
        listing: &Listing,
        now: UnixMs,
    ) -> (KeptPage, Vec<Range<u32>>, u64) {
        let (mut skus, mut version) = (Vec::new(), 0);
        // Before the stock is read: a change in between is another version.
        let note = |shown: Range<u32>| {
            version += stock_version(catalog, &shown);
            skus.push(shown);
        };
        let answer = match page {
            Page::Sales { .. } | Page::Items { .. } => {
                let body = json(page, self.showing(catalog, now, Reader::Anybody), listing, note);
                KeptPage::json(&Rendered::list_json(body), PAGE_CACHE_CONTROL)
            }
            Page::SalesHtml { .. } | Page::ItemsHtml { .. } => {
                KeptPage::page(&self.html(page, (catalog, now), listing, note), PAGE_CACHE_CONTROL)
            }
        };
        (answer, skus, version)
    }

    fn html(
        &self,
        page: Page,
        (catalog, now): (&Catalog, UnixMs),
        listing: &Listing,
        mut note: impl FnMut(Range<u32>),
    ) -> Rendered {
        let mut view = |place: u32, (from, size): (u32, u32)| {
            let sale = &catalog.sales[place as usize];
            let skus = skus_of(sale, from, size);
            note(skus.clone());
            let items = skus.map(|sku| item_view(catalog, sale, (sku - sale.first_sku.0) as usize));
            sale_view(sale, items.collect(), now)
        };
        match page {
            Page::SalesHtml { states, before, language } => {
                let mut places = listing.before(states, before);
                let places_shown: Vec<u32> = places.by_ref().take(SHOWN_SALES).collect();
                let views: Vec<_> =
                    places_shown.iter().map(|place| view(*place, (0, INDEX_ITEMS_MAX))).collect();
                let ended = states == States::Ended;
                let of_ended = if ended { "state=ended&amp;" } else { "" };
                let links = Links {
                    next: places.next().map(|place| format!("/?{of_ended}cursor={}", place + 1)),
                    to_ended: !ended && listing.has_ended(),
                    to_current: ended,
                };
                self.pages.pages.index(language, &views, &links)
            }
            Page::ItemsHtml { sale, from, language } => {
                let shown = view(sale, (from, SHOWN_ITEMS));
                let next = from + SHOWN_ITEMS;
                let more = (next as usize) < shown.items_total;
                let links = Links {
                    next: more.then(|| format!("/sales/{}?cursor={next}", shown.id)),
                    to_ended: false,
                    to_current: true,
                };
                self.pages.pages.sale_items(language, &shown, &links)
            }
            Page::Sales { .. } | Page::Items { .. } => unreachable!("those are JSON"),
        }
    }
}

fn json(page: Page, showing: Showing<'_>, listing: &Listing, mut shown: impl FnMut(Range<u32>)) -> Vec<u8> {
    let mut body = Vec::with_capacity(4096);
    match page {
        Page::Sales { states, before, size } => {
            write_sales(&mut body, showing, listing.before(states, before), size, shown);
        }
        Page::Items { sale, from, size } => {
            let sale = &showing.catalog.sales[sale as usize];
            shown(skus_of(sale, from, size.into()));
            write_sale(&mut body, showing, sale, (from, size.into()));
        }
        Page::SalesHtml { .. } | Page::ItemsHtml { .. } => unreachable!("those are for people"),
    }
    body
}
