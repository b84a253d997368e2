//! Images of items: operators add, list and remove them, and buyers' pages show them.

use engine::{Action, By, Phase, Role};
use serde::Deserialize;

use crate::http::HttpService;
use crate::http::actions::Done;
use crate::http::call::Call;
use crate::http::lists::Wanted;
use crate::http::reads::ShowRead;
use crate::http::route::{BodyLimit, Handler, Route};
use crate::http::wire::answer::Answering;
use crate::http::wire::body::read_object;
use crate::http::wire::error::Problem;
use crate::http::wire::{Object, parameter};
use crate::net::Answer;
use crate::pages::{Image, NotAnImage, is_image_name};

pub(in crate::http) const ROUTES: &[Route] = &[
    Route::get("/api/v1/images", Handler::Operator(Role::Viewer, HttpService::list_images)),
    Route::post("/api/v1/images", Handler::Operator(Role::Operator, HttpService::add_image))
        .body(BodyLimit::Operator),
    Route::post(
        "/api/v1/images/{name?}/remove",
        Handler::Operator(Role::Operator, HttpService::remove_image),
    ),
    Route::get("/images/{sale}/{product}/{name*}", Handler::Anybody(HttpService::image)),
];

/// Images on one page of their list.
const PAGE_IMAGES: usize = 500;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Elsewhere {
    url: String,
}

impl HttpService {
    /// The body is the image, or says where it is.
    fn add_image(&mut self, call: &Call<'_>) -> Result<Answer, Problem> {
        let (now, by) = (call.now, call.operator());
        if call.fields.content_type.is_some_and(|kind| kind.trim_start().starts_with("application/json")) {
            let Elsewhere { url } = read_object(call)?;
            return self.ask_for_fetch(call, move |images| {
                let image = images.fetch(&url)?;
                Ok(show_image(&images.keep(image, now)?, by))
            });
        }
        let image = Image::new(call.request.body.to_vec())?;
        self.ask_images(call, move |images| Ok(show_image(&images.keep(image, now)?, by)))
    }

    fn list_images(&mut self, call: &Call<'_>) -> Result<Answer, Problem> {
        let after = parameter(call.request.query, "cursor").unwrap_or_default();
        if !after.is_empty() && !is_image_name(after) {
            return Err(Problem::invalid("\"cursor\" must be the next_cursor of an earlier answer."));
        }
        let after = after.to_owned();
        self.ask_images(call, move |images| {
            let mut found = images.list(&after, PAGE_IMAGES + 1)?;
            let more = found.len() > PAGE_IMAGES;
            found.truncate(PAGE_IMAGES);
            Ok(ShowRead::new(move |service, out| {
                service.scratch.clear();
                let mut object = Object::begin(&mut service.scratch);
                object.list("images", &found, |out, image| {
                    Object::begin(out)
                        .text("name", &image.name)
                        .number("bytes", image.bytes)
                        .number("added_at_ms", image.added_at.0)
                        .end();
                });
                match found.last().filter(|_| more) {
                    Some(last) => object.text("next_cursor", &last.name),
                    None => object.raw("next_cursor", b"null"),
                }
                .end();
                out.json(200, &service.scratch);
                Ok(())
            }))
        })
    }

    /// Not while somebody may buy what it shows.
    fn remove_image(&mut self, call: &Call<'_>) -> Result<Answer, Problem> {
        let name = call.params.name.to_owned();
        if !is_image_name(&name) {
            return Err(Problem::unknown_image(&name));
        }
        let open = self.catalog.sales.iter().filter(|sale| sale.phase(call.now) != Phase::Ended);
        let mut items = open.flat_map(|sale| &sale.spec.items);
        if items.any(|item| item.image.as_ref().is_some_and(|image| image.name == name)) {
            return Err(Problem::image_in_use());
        }
        let by = call.operator();
        self.ask_images(call, move |images| {
            images.remove(&name)?;
            let (request, show) = Done { action: Action::ImageRemoved, about: name, by }.keep(|_, out| {
                out.empty(204, &[]);
                Ok(())
            });
            Ok(ShowRead::ask(request, show))
        })
    }

    /// An image that an item of a sale has, and no other: nobody can have a server look for what is not there.
    fn image(&mut self, call: &Call<'_>, out: &mut Answering<'_, '_>) -> Result<Answer, Problem> {
        let sku = self.catalog.sku_id(call.params.sale, call.params.product);
        let item = sku.and_then(|sku| self.catalog.item(sku)).map(|(_, item)| item);
        let image = item.and_then(|item| item.image.as_ref()).filter(|image| image.name == call.params.name);
        let name = &image.ok_or_else(Problem::not_found)?.name;
        let wanted = Wanted::of(&call.fields);
        if let Some(kept) = self.shared.pages.image(name) {
            kept.answer(&wanted, out);
            return Ok(Answer::Ready);
        }
        let (name, wanted) = (name.clone(), wanted.to_owned());
        self.ask_images(call, move |images| {
            let kept = images.load(&name)?;
            Ok(ShowRead::new(move |_, out| {
                kept.answer(&wanted, out);
                Ok(())
            }))
        })
    }
}

fn show_image(image: &Image, by: By) -> ShowRead {
    let (name, kind, bytes) = (image.name(), image.content_type(), image.bytes().len() as u64);
    let done = Done { action: Action::ImageAdded, about: name.clone(), by };
    let (request, show) = done.keep(move |service, out| {
        service.scratch.clear();
        let mut object = Object::begin(&mut service.scratch);
        object.text("name", &name).text("content_type", kind).number("bytes", bytes).end();
        out.json(201, &service.scratch);
        Ok(())
    });
    ShowRead::ask(request, show)
}

impl From<NotAnImage> for Problem {
    fn from(why: NotAnImage) -> Problem {
        Problem::not_an_image(format!("The image {why}."))
    }
}
