//! One attempt to buy, under one key, and every answer that its buyer got.

use std::time::Instant;

use crate::exchange::Response;

/// What one request came to, as its buyer sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// 201 or 202: there is an order, or will be.
    Accepted { id: String, replayed: bool },
    /// By a rule of the sale: there is none, and this request made none.
    Refused { code: String },
    /// It was accepted, and the ledger had no units for it: only after the gate lost memory.
    Rejected,
    /// Too busy, or closed for the moment: this request made no order; ask again.
    TurnedAway { status: u16, code: String },
    /// 503 `outcome_unknown`: ask again with the same key.
    Unknown,
    /// No answer came.
    Lost,
}

impl Answer {
    /// Of a request to place an order. What no server may ever answer fails the test.
    pub(crate) fn of(response: std::io::Result<Response>) -> Answer {
        let Ok(response) = response else { return Answer::Lost };
        let text = |name: &str| response.json()[name].as_str().unwrap_or_default().to_owned();
        match (response.status, text("code").as_str()) {
            (201 | 202, _) => {
                let replayed = response.head.to_ascii_lowercase().contains("idempotency-replayed: true");
                Answer::Accepted { id: text("id"), replayed }
            }
            (503, "outcome_unknown") => Answer::Unknown,
            (429 | 503, code) => Answer::TurnedAway { status: response.status, code: code.to_owned() },
            (409, "order_rejected") => Answer::Rejected,
            (409, code) if code != "key_conflict" => Answer::Refused { code: code.to_owned() },
            _ => panic!("no answer to an order: {response:?}"),
        }
    }

    /// As the table shows it.
    pub(crate) fn label(&self) -> String {
        match self {
            Answer::Accepted { .. } => "accepted".to_owned(),
            Answer::Refused { code } => format!("409 {code}"),
            Answer::Rejected => "409 order_rejected".to_owned(),
            Answer::TurnedAway { status, code } => format!("{status} {code}"),
            Answer::Unknown => "503 outcome_unknown".to_owned(),
            Answer::Lost => "no answer".to_owned(),
        }
    }
}

/// An answer with its times.
#[derive(Clone, Debug)]
pub(crate) struct TimedAnswer {
    pub(crate) sent: Instant,
    pub(crate) at: Instant,
    pub(crate) answer: Answer,
}

/// How an order was closed by its buyer, or would have been if the answer had come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Closed {
    /// The status that was answered.
    Answered(&'static str),
    /// The request was sent, its answer did not come or was no clear one.
    Perhaps,
}

#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    pub(crate) buyer: u64,
    pub(crate) key: String,
    pub(crate) product: u64,
    pub(crate) quantity: u32,
    pub(crate) answers: Vec<TimedAnswer>,
    pub(crate) closed: Option<Closed>,
}

impl Attempt {
    pub(crate) fn new(buyer: u64, key: String, product: u64, quantity: u32) -> Attempt {
        Attempt { buyer, key, product, quantity, answers: Vec::new(), closed: None }
    }

    pub(crate) fn body(&self, sale: u64) -> String {
        let Attempt { product, quantity, .. } = self;
        format!(
            r#"{{"sale":{sale},"product":{product},"quantity":{quantity},"address":{{"city":"Berlin"}}}}"#
        )
    }

    /// Adds an answer, which must not contradict an earlier one.
    pub(crate) fn hear(&mut self, answer: TimedAnswer) {
        if let Some(id) = self.order() {
            match &answer.answer {
                Answer::Accepted { id: again, .. } => {
                    assert_eq!(id, again, "two orders under one key: {self:?}")
                }
                Answer::Refused { .. } => panic!("accepted, then refused: {self:?} {answer:?}"),
                Answer::Rejected | Answer::TurnedAway { .. } | Answer::Unknown | Answer::Lost => {}
            }
        }
        self.answers.push(answer);
    }

    /// The id of its order, if an answer named one.
    pub(crate) fn order(&self) -> Option<&str> {
        self.answers.iter().find_map(|timed| match &timed.answer {
            Answer::Accepted { id, .. } => Some(id.as_str()),
            _ => None,
        })
    }

    /// Whether some request of it may have been carried out without its buyer knowing.
    pub(crate) fn is_doubtful(&self) -> bool {
        self.was(|answer| matches!(answer, Answer::Unknown | Answer::Lost))
    }

    /// Whether its first acceptance was of an order that an earlier request had made.
    fn is_found(&self) -> bool {
        let first = self.answers.iter().find(|timed| matches!(timed.answer, Answer::Accepted { .. }));
        first.is_some_and(|timed| matches!(timed.answer, Answer::Accepted { replayed: true, .. }))
    }

    fn was(&self, is: impl Fn(&Answer) -> bool) -> bool {
        self.answers.iter().any(|timed| is(&timed.answer))
    }

    /// Whether its order was made by a request to which no answer came.
    pub(crate) fn is_unanswered(&self) -> bool {
        self.is_found() && !self.was(|answer| *answer == Answer::Unknown)
    }

    /// Whether its order was made after its buyer had been refused, by an earlier request that was held up.
    pub(crate) fn is_late(&self) -> bool {
        self.is_found() && self.was(|answer| matches!(answer, Answer::Refused { .. }))
    }

    /// Whether its buyer knows what became of it.
    pub(crate) fn is_decided(&self) -> bool {
        if self.order().is_some() {
            return true;
        }
        match self.answers.last().map(|timed| &timed.answer) {
            Some(Answer::Accepted { .. } | Answer::Refused { .. } | Answer::Rejected) => true,
            Some(Answer::TurnedAway { .. }) => !self.is_doubtful(),
            Some(Answer::Unknown | Answer::Lost) | None => false,
        }
    }
}
