//! `doorbuster images`: pictures for the items of sales.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use clap::{Args, Subcommand};
use serde::Deserialize;
use serde_json::json;
use server::config::Environment;
use server::pages;

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

/// Whether the server fetches it.
pub(crate) fn is_address(image: &str) -> bool {
    image.starts_with("https://") || image.starts_with("http://")
}

/// Has the server keep an image, unless it is named already: an address, or a file of which a relative path begins at
/// `beside`. Returns its name.
pub(crate) fn keep(client: &Client, image: &str, beside: &Path) -> Result<String, Failure> {
    if pages::is_image_name(image) {
        return Ok(image.to_owned());
    }
    Ok(add(client, image, beside)?.read::<Added>()?.name)
}

/// The name that the server would give it, without asking. An address stays one.
pub(crate) fn name_of(image: &str, beside: &Path) -> Result<String, Failure> {
    if pages::is_image_name(image) || is_address(image) {
        return Ok(image.to_owned());
    }
    let picture = pages::Image::new(read(image, beside)?);
    Ok(picture.map_err(|why| Failure::usage(format!("{}: the image {why}", plain(image))))?.name())
}

/// Which of these names the server has no image of.
pub(crate) fn missing<'a>(client: &Client, names: &[&'a str]) -> Result<Vec<&'a str>, Failure> {
    let mut missing = names.to_vec();
    let mut cursor = String::new();
    while !missing.is_empty() {
        let page: Page = client.get(&format!("/images?cursor={cursor}"))?.read()?;
        missing.retain(|name| page.images.iter().all(|image| image.name != **name));
        let Some(next) = page.next_cursor else { break };
        cursor = plain(&next);
    }
    Ok(missing)
}

fn add(client: &Client, image: &str, beside: &Path) -> Result<Answer, Failure> {
    let answer = if is_address(image) {
        client.post("/images", &json!({ "url": image }), None)
    } else {
        client.post_bytes("/images", &read(image, beside)?)
    };
    answer.map_err(|failure| failure.of(&plain(image)))
}

fn read(image: &str, beside: &Path) -> Result<Vec<u8>, Failure> {
    let mut content = Vec::new();
    File::open(beside.join(image))
        .and_then(|file| file.take(FILE_BYTES_MAX).read_to_end(&mut content))
        .map_err(|error| Failure::usage(format!("{}: can't be read: {error}", plain(image))))?;
    Ok(content)
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
