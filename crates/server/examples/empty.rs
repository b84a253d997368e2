//! The floor of the net layer: answers every request with an empty 200, and `/page` with 10 KB from memory.
//! `/later` is answered by way of another thread, as an order is. To be measured against nginx.
//!
//! `cargo run --release -p server --example empty -- 127.0.0.1:8080 [certificate.pem key.pem]`

use std::net::TcpListener;
use std::path::Path;
use std::sync::{Arc, Mutex};

use server::net::{
    Answer, EventLoop, HttpRequest, Limits, Prepared, Replies, ResponseWriter, Service, Stop, Ticket, Tls,
    Waker,
};

/// What the loop and the answering thread exchange: a batch there, a batch back.
#[derive(Default)]
struct Exchange {
    asked: Mutex<Vec<Ticket>>,
    ready: Mutex<Vec<Ticket>>,
    more: std::sync::Condvar,
}

struct Floor {
    page: Prepared,
    batch: Vec<Ticket>,
    exchange: Arc<Exchange>,
}

impl Service for Floor {
    fn body_bytes_max(&self, _method: &str, _path: &str, _headers: &[httparse::Header<'_>]) -> usize {
        64 * 1024
    }

    fn call(
        &mut self,
        request: &HttpRequest<'_>,
        ticket: Ticket,
        response: &mut ResponseWriter<'_>,
    ) -> Answer {
        match request.path {
            "/later" => {
                self.batch.push(ticket);
                return Answer::Later;
            }
            "/page" => response.prepared(&self.page, &[]),
            _ => response.head(200).empty(),
        }
        Answer::Ready
    }

    fn round_ended(&mut self) {
        if !self.batch.is_empty() {
            self.exchange.asked.lock().expect("no thread panics while it holds it").append(&mut self.batch);
            self.exchange.more.notify_one();
        }
    }

    fn deliver(&mut self, replies: &mut Replies<'_>) {
        let ready = std::mem::take(&mut *self.exchange.ready.lock().expect("no thread panics with it"));
        for ticket in ready {
            replies.reply(ticket, |response| response.head(200).empty());
        }
    }

    fn protocol_error(&mut self, status: u16, detail: &str, response: &mut ResponseWriter<'_>) {
        response.head(status).body("text/plain", detail.as_bytes());
    }
}

fn answer_later(exchange: &Exchange, waker: &Waker) {
    loop {
        let asked = exchange.asked.lock().expect("no thread panics while it holds it");
        let mut asked = exchange.more.wait_while(asked, |asked| asked.is_empty()).expect("no thread panics");
        let mut batch = std::mem::take(&mut *asked);
        drop(asked);
        exchange.ready.lock().expect("no thread panics while it holds it").append(&mut batch);
        waker.wake();
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let address = arguments.first().map_or("127.0.0.1:8080", String::as_str);
    let tls = match arguments.get(1..3) {
        Some([certificate, key]) => Some(Tls::load(Path::new(certificate), Path::new(key))?.config()),
        _ => None,
    };
    let mut event_loop = EventLoop::new(TcpListener::bind(address)?, Limits::default(), tls)?;
    let exchange = Arc::new(Exchange::default());
    let page = Prepared::new(200, &[], "text/html", &[b'x'; 10 * 1024]);
    let mut floor = Floor { page, batch: Vec::new(), exchange: Arc::clone(&exchange) };
    let waker = event_loop.waker();
    std::thread::spawn(move || answer_later(&exchange, &waker));
    println!("listening on http://{address}/");
    event_loop.run(&mut floor, &Stop::new())?;
    Ok(())
}
