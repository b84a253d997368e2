//! Writes the sale pages and what they load as files, for a CDN or nginx, off the event loops.
//!
//! A thread of its own looks several times a second which pages show another state than their sale is in. It
//! renders through the same shelf as the loops, so a change is rendered once.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use engine::SkuId;
use foldhash::fast::RandomState;

use crate::http::pages::shelf::Shown;
use crate::http::shared::Shared;
use crate::pages::LanguageId;

/// Between two looks: a page's file is at most this much older than its sale, and the time to write it.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// The thread that writes files; it ends when this is dropped.
#[derive(Debug)]
pub struct PageFiles {
    stop: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl PageFiles {
    /// Writes the assets, and then the pages whenever they change, into `dir`, which is made if it is missing.
    ///
    /// # Errors
    /// If the directory or an asset can't be written: better at the start than never noticed.
    pub fn start(shared: Arc<Shared>, dir: PathBuf) -> io::Result<PageFiles> {
        let assets = dir.join("assets");
        std::fs::create_dir_all(&assets)?;
        for (path, asset) in shared.pages.pages.assets() {
            let name = path.strip_prefix("/assets/").expect("every asset's path begins so");
            asset.write_file(&assets, name)?;
        }
        let (stop, stopped) = sync_channel(0);
        let thread = std::thread::Builder::new()
            .name("page-files".to_owned())
            .spawn(move || write_until(&shared, &dir, &stopped))?;
        Ok(PageFiles { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for PageFiles {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that writes pages panicked");
        }
    }
}

/// What was written of each page, by language.
type Written = HashMap<(SkuId, LanguageId), Shown, RandomState>;

fn write_until(shared: &Shared, dir: &Path, stopped: &Receiver<()>) {
    let mut written = Written::default();
    loop {
        write_changed(shared, dir, &mut written, stopped);
        match stopped.recv_timeout(LOOK_EVERY) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// One look at every SKU, in every language. A page that can't be written is tried again with the next look.
fn write_changed(shared: &Shared, dir: &Path, written: &mut Written, stopped: &Receiver<()>) {
    let catalog = shared.shelf.current();
    for number in 0..catalog.skus.len() {
        let sku = SkuId(u32::try_from(number).expect("the book numbers its SKUs by u32"));
        let now = shared.clock.now();
        for language in shared.pages.pages.languages().ids() {
            let page = (sku, language);
            if written.get(&page).is_some_and(|shown| shown.is_now(&catalog, sku, now)) {
                continue;
            }
            if stopped.try_recv() == Err(std::sync::mpsc::TryRecvError::Disconnected) {
                return;
            }
            let made = shared.pages.sku(&catalog, page, now);
            // The shelf keeps a page for a second though the stock's state has changed: it is written already.
            if written.get(&page).is_some_and(|written| written.is(&made.shown)) {
                continue;
            }
            let (sale, item) = catalog.item(sku).expect("the catalog has the SKUs that it counts");
            let name = shared.pages.pages.sale_file_name_in(language, sale.spec.id.0, item.product.0);
            match made.of_sale.write_file(dir, &name) {
                Ok(()) => {
                    // Not the page itself: there are files of all sales that there were.
                    written.insert(page, made.shown.clone());
                }
                Err(error) => {
                    tracing::warn!(%error, name, "a page could not be written; tried again");
                    return;
                }
            }
        }
    }
}
