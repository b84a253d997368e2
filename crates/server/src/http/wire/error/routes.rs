//! What single routes answer: of orders and payments, the line, lists, images, rehearsals.

use engine::UnixMs;

use super::{More, Problem};

impl Problem {
    /// The provider was paid in another money than the sale sells for.
    pub(in crate::http) fn currency_differs(currency: &str) -> Problem {
        let detail = format!("The order is to be paid in {currency}; the payment is not recorded.");
        Problem::new(422, "currency_differs", "Another currency", detail)
    }

    pub(in crate::http) fn blank_address() -> Problem {
        let detail = "The address must have at least one field that says something.";
        Problem::new(422, "blank_address", "The address says nothing", detail)
    }

    pub(in crate::http) fn half_an_item() -> Problem {
        let detail = "The parameters sale and product name an item together: give both, or none.";
        Problem::new(422, "half_an_item", "The item is not named", detail)
    }

    pub(in crate::http) fn unknown_image(name: &str) -> Problem {
        let detail =
            format!("There is no image {name:?}: POST /api/v1/images adds one and answers with its name.");
        Problem::new(422, "unknown_image", "No such image", detail)
    }

    /// Not "no such order" alone: whoever typed it is to look again.
    pub(in crate::http) fn unknown_number() -> Problem {
        let detail = "No order of this shop has this number: was it misread, or is it another shop's? An order that was \
                      accepted a moment ago has none yet.";
        Problem::new(404, "unknown_order", "No such order", detail)
    }

    /// Of the address that a buyer follows to pay.
    pub(in crate::http) fn invalid_pay_link() -> Problem {
        let detail = "The address is not one that an order's page leads to: go to the order, and from there.";
        Problem::new(403, "forbidden", "Not allowed", detail)
    }

    pub(in crate::http) fn invalid_ticket() -> Problem {
        let detail =
            "The ticket is not one of this line: join it again, which gives the same place and its ticket.";
        Problem::new(403, "invalid_ticket", "The ticket proves no place here", detail)
    }

    pub(in crate::http) fn verification_required(challenge: String) -> Problem {
        let detail = "Before somebody joins this line, the challenge has to be worked out: send the answer as \"verification\". \
                      Whoever has a place is not asked again.";
        let problem =
            Problem::new(403, "verification_required", "Something has to be worked out first", detail);
        Problem { more: Some(More::Challenge(challenge.into())), ..problem }
    }

    pub(in crate::http) fn verification_token_required() -> Problem {
        let detail = "Before somebody joins this line, a check of the shop's has to be passed: send what it gave as \"verification\", \
                      which counts once. Whoever has a place is not asked again.";
        Problem::new(403, "verification_token_required", "A check has to be passed first", detail)
    }

    /// `opens_at`: from when this buyer may join; `None`: never.
    pub(in crate::http) fn line_not_open(opens_at: Option<UnixMs>) -> Problem {
        match opens_at {
            Some(at) => {
                let detail = "You may join this line from opens_at_ms on.";
                let problem =
                    Problem::new(403, "line_opens_later", "The line is not open to you yet", detail);
                Problem { more: Some(More::OpensAt(at)), ..problem }
            }
            None => {
                let detail = "Only whom the shop has invited may join this line.";
                Problem::new(403, "line_not_open", "The line is not open to you", detail)
            }
        }
    }

    pub(in crate::http) fn not_payable(detail: String) -> Problem {
        Problem::new(409, "not_payable", "The order can't be paid here", detail)
    }

    /// An operator's call that would do again what it does.
    pub(in crate::http) fn key_required() -> Problem {
        let detail = "Send an Idempotency-Key: without one a repeated call would move the stock twice.";
        Problem::new(400, "key_required", "An idempotency key is needed", detail)
    }

    pub(in crate::http) fn sale_deleted() -> Problem {
        let detail = "It was deleted before it started, and its number is never used again.";
        Problem::new(404, "sale_deleted", "The sale was deleted", detail)
    }

    /// Of sales, or of what has happened to orders.
    pub(in crate::http) fn cursor_ahead(detail: String) -> Problem {
        Problem::new(409, "cursor_ahead", "The cursor is ahead of this ledger", detail)
    }

    pub(in crate::http) fn cursor_of_items_ahead() -> Problem {
        let detail = "The cursor is behind the last item of this sale: begin without one.".to_owned();
        Problem { title: "The cursor is ahead of this sale", ..Problem::cursor_ahead(detail) }
    }

    pub(in crate::http) fn images_full(detail: String) -> Problem {
        Problem::new(409, "images_full", "No room for another image", detail)
    }

    pub(in crate::http) fn image_in_use() -> Problem {
        let detail = "An item of a sale that is not over shows it.";
        Problem::new(409, "image_in_use", "The image is in use", detail)
    }

    pub(in crate::http) fn image_not_fetched(detail: String) -> Problem {
        Problem::new(422, "image_not_fetched", "The image was not fetched", detail)
    }

    pub(in crate::http) fn not_an_image(detail: String) -> Problem {
        Problem::new(422, "not_an_image", "Not an image for a page", detail)
    }

    pub(in crate::http) fn no_rehearsal() -> Problem {
        let detail = "This server plays no rehearsal: its latest one, if there was one, ended by itself. If another server plays \
                      one, the operators' log says who began it.";
        Problem::new(409, "no_rehearsal", "No rehearsal is played here", detail)
    }

    pub(in crate::http) fn another_rehearsal() -> Problem {
        let detail = "The latest rehearsal of this server is not the one that is meant, and was not stopped: read again how it \
                      stands.";
        Problem::new(409, "another_rehearsal", "Another rehearsal was meant", detail)
    }

    pub(in crate::http) fn rehearsal_playing(detail: String) -> Problem {
        Problem::new(409, "rehearsal_playing", "A rehearsal is played", detail)
    }

    pub(in crate::http) fn machine_needed(detail: String) -> Problem {
        Problem::new(409, "machine_needed", "The machine is needed", detail)
    }

    pub(in crate::http) fn rehearsals_off(detail: String) -> Problem {
        Problem::new(403, "rehearsals_off", "Rehearsals are off", detail)
    }

    pub(in crate::http) fn line_not_rehearsed(detail: String) -> Problem {
        Problem::new(422, "line_not_rehearsed", "It is sold to a line", detail)
    }
}
