//! `doorbuster images`: pictures for the items of sales.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use clap::{Args, Subcommand};
use serde::Deserialize;
use serde_json::json;
use server::config::Environment;

use crate::client::{Answer, Client, ServerArguments};
use crate::failure::Failure;
use crate::output::{self, numbers, plain, words};
use crate::time::format_utc;

/// Of a file that is sent; the server takes less, and says how much.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// Add, list and remove images of items.
#[derive(Args, Debug)]
#[command(after_help = "\
An item of a sale shows an image that was added before, by its name:

  doorbuster images add shoe.webp                             prints the name, like 3f2a...9c.webp
  doorbuster images add https://img.shop.example/shoe.webp    the server fetches it (shop.image_origins allows from where)
  doorbuster sale create drop.toml                            which names it, or a file that is added then, with image = \"shoe.webp\"
  doorbuster images list
  doorbuster images remove 3f2a...9c.webp                     not while an item of a sale that is not over shows it

An image is a PNG, JPEG, WebP, AVIF or SVG file of at most 512 KiB; square ones fill their place. Its name is of its content: adding the same
image again changes nothing. Images lie beside SQLite's ledger in the folder images, or in the ledger's database: back that up, too.")]
pub(crate) struct ImagesArguments {
    #[command(subcommand)]
    command: ImagesCommand,
}

#[derive(Subcommand, Debug)]
enum ImagesCommand {
    /// Keep images, and print the name of each
    Add {
        /// Files, or addresses that the server fetches
        #[arg(required = true, value_name = "FILE|URL")]
        images: Vec<String>,
        #[command(flatten)]
        server: ServerArguments,
    },
    /// Show all images by their names
    List {
        #[command(flatten)]
        server: ServerArguments,
    },
    /// Remove images that no sale needs any more
    Remove {
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
        #[command(flatten)]
        server: ServerArguments,
    },
}

#[derive(Deserialize)]
struct Added {
    name: String,
}

/// A page of the list, as the API gives it.
#[derive(Deserialize)]
struct Page {
    images: Vec<Image>,
    next_cursor: Option<String>,
}

#[derive(Deserialize)]
struct Image {
    name: String,
    bytes: u64,
    added_at_ms: u64,
}

pub(crate) fn run(arguments: &ImagesArguments, environment: &Environment) -> Result<(), Failure> {
    match &arguments.command {
        ImagesCommand::Add { images, server } => {
            let client = Client::connect(server, environment)?;
            for image in images {
                let answer = add(&client, image, Path::new(""))?;
                let name = || Ok::<_, Failure>(format!("{}\n", answer.read::<Added>()?.name));
                output::print(&if server.json { answer.text() } else { name()? })?;
            }
            Ok(())
        }
        ImagesCommand::List { server } => list(server, environment),
        ImagesCommand::Remove { names, server } => {
            let client = Client::connect(server, environment)?;
            for name in names {
                let removed = client.post(&format!("/images/{}/remove", plain(name)), &json!({}), None);
                removed.map_err(|failure| failure.of(&plain(name)))?;
                output::print(&format!("{}: removed\n", plain(name)))?;
            }
            Ok(())
        }
    }
}

/// Has the server keep an image: an address, or a file of which a relative path begins at `beside`. Returns its name.
pub(crate) fn keep(client: &Client, image: &str, beside: &Path) -> Result<String, Failure> {
    Ok(add(client, image, beside)?.read::<Added>()?.name)
}

fn add(client: &Client, image: &str, beside: &Path) -> Result<Answer, Failure> {
    let of = |failure: Failure| failure.of(&plain(image));
    if image.starts_with("https://") || image.starts_with("http://") {
        return client.post("/images", &json!({ "url": image }), None).map_err(of);
    }
    let mut content = Vec::new();
    File::open(beside.join(image))
        .and_then(|file| file.take(FILE_BYTES_MAX).read_to_end(&mut content))
        .map_err(|error| of(Failure::usage(format!("can't be read: {error}"))))?;
    client.post_bytes("/images", &content).map_err(of)
}

fn list(server: &ServerArguments, environment: &Environment) -> Result<(), Failure> {
    let client = Client::connect(server, environment)?;
    let (mut rows, mut cursor) = (Vec::new(), String::new());
    loop {
        let answer = client.get(&format!("/images?cursor={cursor}"))?;
        if server.json {
            output::print(&answer.text())?;
        }
        let page: Page = answer.read()?;
        rows.extend(
            page.images
                .iter()
                .map(|image| [plain(&image.name), image.bytes.to_string(), format_utc(image.added_at_ms)]),
        );
        match page.next_cursor {
            Some(next) => cursor = plain(&next),
            None => break,
        }
    }
    match rows.as_slice() {
        _ if server.json => Ok(()),
        [] => output::print("no images: `doorbuster images add FILE` adds one\n"),
        _ => output::print(&output::table([words("name"), numbers("bytes"), words("added")], &rows)),
    }
}
