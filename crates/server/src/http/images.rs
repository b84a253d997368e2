//! Images of items, on two threads of their own: one waits for the disk or the ledger's server, the other for the shop's servers,
//! so that no buyer waits for these.
//!
//! One at a time each, few waiting; with more, the client is asked to come again. Must not: know a route.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use super::HttpService;
use super::call::Call;
use super::lists::KeptPage;
use super::pages::shelf::PageShelf;
use super::pending::{Pending, Waiting};
use super::reads::{Answers, ShowRead};
use super::wire::error::Problem;
use crate::image_origins::ImageOrigins;
use crate::ledger::{ImageError, KeptImage, Source};
use crate::net::{Answer, Ticket};
use crate::pages::{Image, is_image_name};
use engine::UnixMs;

/// Works that wait for a thread at one time.
const WAITING_MAX: usize = 32;

/// What the thread works with.
#[derive(Debug)]
pub(super) struct Images {
    ledger: Source,
    origins: ImageOrigins,
    shelf: Arc<PageShelf>,
    /// Held while one is kept.
    keeping: Mutex<()>,
}

impl Images {
    /// Keeps an image; it can be named in a sale from then on.
    pub(super) fn keep(&self, image: Image, at: UnixMs) -> Result<Image, Problem> {
        let _one_at_a_time = self.keeping.lock().unwrap_or_else(PoisonError::into_inner);
        self.ledger.add_image(&image.name(), image.bytes(), at)?;
        self.shelf.put_image(&image);
        Ok(image)
    }

    pub(super) fn fetch(&self, url: &str) -> Result<Image, Problem> {
        self.origins.fetch(url).map_err(|why| Problem::image_not_fetched(format!("No image came: {why}.")))
    }

    /// For whoever wants to see it.
    pub(super) fn load(&self, name: &str) -> Result<Arc<KeptPage>, Problem> {
        if let Some(kept) = self.shelf.image(name) {
            return Ok(kept);
        }
        let content = self.ledger.image(name)?.ok_or_else(Problem::not_found)?;
        let image = Image::new(content).map_err(|error| Problem::internal(format!("The image {error}.")))?;
        Ok(self.shelf.put_image(&image))
    }

    /// That each of these can be shown.
    pub(super) fn check(&self, names: &[String]) -> Result<(), Problem> {
        let unknown = |name| Problem::unknown_image(name);
        if let Some(name) = names.iter().find(|name| !is_image_name(name)) {
            return Err(unknown(name));
        }
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        self.ledger.missing_image(&names)?.map_or(Ok(()), |name| Err(unknown(name)))
    }

    pub(super) fn list(&self, after: &str, max: usize) -> Result<Vec<KeptImage>, Problem> {
        Ok(self.ledger.images(after, max)?)
    }

    pub(super) fn remove(&self, name: &str) -> Result<(), Problem> {
        self.shelf.remove_image(name);
        if self.ledger.remove_image(name)? { Ok(()) } else { Err(Problem::unknown_image(name)) }
    }
}

impl From<ImageError> for Problem {
    fn from(error: ImageError) -> Problem {
        match error {
            ImageError::Full { .. } => Problem::images_full(format!("{error}.")),
            ImageError::Files(_) | ImageError::MySql(_) => {
                tracing::warn!(%error, "images can't be kept or read");
                Problem::unavailable(format!("Images can't be kept or read now: {error}."))
            }
        }
    }
}

type Work = Box<dyn FnOnce(&Images) -> Result<ShowRead, Problem> + Send>;

struct WaitingWork {
    event_loop: usize,
    ticket: Ticket,
    work: Work,
}

/// The threads, as the event loops see them. They end after this is dropped; nothing is lost with what they do then.
#[derive(Debug)]
pub(super) struct ImageThreads {
    keeper: SyncSender<WaitingWork>,
    fetcher: SyncSender<WaitingWork>,
}

impl ImageThreads {
    pub(super) fn start(
        ledger: Source,
        origins: ImageOrigins,
        shelf: Arc<PageShelf>,
        answers: Answers,
    ) -> ImageThreads {
        let images = Arc::new(Images { ledger, origins, shelf, keeping: Mutex::default() });
        let start = |name: &str| {
            let (sender, waiting) = sync_channel(WAITING_MAX);
            let (images, answers) = (Arc::clone(&images), answers.clone());
            let thread = std::thread::Builder::new().name(name.to_owned());
            let started = thread.spawn(move || work_all(&images, &waiting, &answers));
            drop(started.expect("the system starts a thread while the server starts"));
            sender
        };
        ImageThreads { keeper: start("images"), fetcher: start("image-fetches") }
    }
}

fn work_all(images: &Images, waiting: &Receiver<WaitingWork>, answers: &Answers) {
    while let Ok(WaitingWork { event_loop, ticket, work }) = waiting.recv() {
        let done = work(images).unwrap_or_else(|problem| ShowRead::new(move |_, _| Err(problem)));
        answers.give(event_loop, ticket, done);
    }
}

impl HttpService {
    /// Has the thread answer that waits for no other server than the ledger's.
    pub(super) fn ask_images(
        &mut self,
        call: &Call<'_>,
        work: impl FnOnce(&Images) -> Result<ShowRead, Problem> + Send + 'static,
    ) -> Result<Answer, Problem> {
        self.ask_of_images(call, |threads| &threads.keeper, work)
    }

    /// Has the thread answer that may wait for a server of the shop.
    pub(super) fn ask_for_fetch(
        &mut self,
        call: &Call<'_>,
        work: impl FnOnce(&Images) -> Result<ShowRead, Problem> + Send + 'static,
    ) -> Result<Answer, Problem> {
        self.ask_of_images(call, |threads| &threads.fetcher, work)
    }

    fn ask_of_images(
        &mut self,
        call: &Call<'_>,
        thread: impl FnOnce(&ImageThreads) -> &SyncSender<WaitingWork>,
        work: impl FnOnce(&Images) -> Result<ShowRead, Problem> + Send + 'static,
    ) -> Result<Answer, Problem> {
        let (event_loop, ticket) = (self.client.event_loop(), call.ticket);
        let work = WaitingWork { event_loop, ticket, work: Box::new(work) };
        thread(&self.shared.images).try_send(work).map_err(|_too_many| Problem::busy())?;
        self.pending.put(call.ticket, Pending::new(call, Waiting::Thread));
        Ok(Answer::Later)
    }
}
