//! A model server that is none: it speaks all three wires from a script, well or badly, and remembers what it was asked.
//!
//! ```no_run
//! use testkit::model_server::{ModelServer, Reply};
//!
//! let server = ModelServer::start();
//! server.reply(Reply::text("hello").split(1));
//! // … point a provider at `server.openai_url()` and call it …
//! assert_eq!(server.requests()[0].path, "/v1/chat/completions");
//! ```

mod anthropic;
mod chat;
mod encode;
mod read;
mod reply;
mod responses;
mod serve;

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    net::{SocketAddr, TcpListener},
    sync::{Arc, Mutex, MutexGuard},
};

use axum::{Router, routing::any};
use bytes::Bytes;
use lodge_models::{Completion, Usage};
use serde_json::{Value, json};
use tokio::sync::{oneshot, watch};

pub use reply::Reply;

/// A request as it arrived.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// `GET` or `POST`.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// Headers, names in lower case.
    pub headers: BTreeMap<String, String>,
    /// The body as JSON; null where it is none.
    pub body: Value,
    /// The body as it was.
    pub raw: Bytes,
}

/// The server. It ends when this is dropped.
pub struct ModelServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    _end: oneshot::Sender<()>,
}

struct Shared {
    state: Mutex<State>,
    /// How many answers were left by their reader before they ended.
    abandoned: watch::Sender<usize>,
    /// How many requests have come.
    count: watch::Sender<usize>,
}

struct State {
    script: VecDeque<Reply>,
    rehearses: bool,
    /// Whether whole answers have usage that the server sets, and writes down.
    counts: bool,
    paid: Vec<Usage>,
    window: Option<Window>,
    requests: Vec<Recorded>,
    lists: Vec<Recorded>,
    models: Value,
    props: Option<Value>,
    /// How often each very same request has failed, for scripts that fail a number of times.
    failures: HashMap<Bytes, u32>,
}

/// What a model holds.
struct Window {
    tokens: u64,
    bytes_per_token: usize,
}

impl Window {
    fn tokens_of(&self, bytes: usize) -> u64 {
        bytes.div_ceil(self.bytes_per_token) as u64
    }

    /// What providers say of a prompt that does not fit together with the answer that it asks for.
    fn refusal(&self, request: &Recorded) -> Option<Reply> {
        let prompt = self.tokens_of(request.raw.len());
        let bounds = ["max_tokens", "max_completion_tokens", "max_output_tokens"];
        let answer = bounds
            .iter()
            .find_map(|bound| request.body[bound].as_u64())
            .unwrap_or(1);
        if prompt + answer <= self.tokens {
            return None;
        }
        Some(if request.path.ends_with("/messages") {
            let message = format!(
                "input length and `max_tokens` exceed context limit: {prompt} + {answer} > {}, decrease input length or \
                 `max_tokens` and try again",
                self.tokens
            );
            let error = json!({"type": "invalid_request_error", "message": message});
            Reply::json(400, &json!({"type": "error", "error": error}))
        } else {
            Reply::error(400, "context_length_exceeded", "too long")
        })
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no test panics while it holds the script")
    }

    /// Says how long the prompt was, if this server measures, and writes down what an answer costs, if it counts.
    fn charge(&self, completion: &mut Completion, prompt: usize) {
        let mut state = self.state();
        if let Some(window) = &state.window {
            completion.usage.input_tokens = Some(window.tokens_of(prompt));
        }
        if state.counts {
            let number = state.paid.len() as u64 + 1;
            completion.usage = Usage {
                input_tokens: Some(1000 + number),
                output_tokens: Some(100 + 3 * number),
                cache_read_tokens: Some(10 + 7 * number),
                cost: Some(0.25 * number as f64),
                ..Usage::default()
            };
            state.paid.push(completion.usage.clone());
        }
    }
}

impl ModelServer {
    /// Starts a server that plays the replies that it is given, one for each request. It has a thread of its own, so that it
    /// serves blocking tests as well as asynchronous ones.
    pub fn start() -> Self {
        Self::new(false)
    }

    /// Starts a server behind which the rehearsal model answers whatever no reply was given for.
    pub fn rehearsing() -> Self {
        Self::new(true)
    }

    /// The same with a price: whoever gets a whole answer pays for it. No two answers have the same usage, so that no sum is
    /// right by chance.
    pub fn counting() -> Self {
        let server = Self::new(true);
        server.shared.state().counts = true;
        server
    }

    /// The usage of the whole answers that a server gave which counts.
    pub fn paid(&self) -> Vec<Usage> {
        self.shared.state().paid.clone()
    }

    fn new(rehearses: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port on loopback");
        listener.set_nonblocking(true).expect("a socket that can be polled");
        let address = listener.local_addr().expect("a bound socket has an address");
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                script: VecDeque::new(),
                rehearses,
                counts: false,
                paid: Vec::new(),
                window: None,
                requests: Vec::new(),
                lists: Vec::new(),
                props: None,
                models: json!({"object": "list", "data": [{"id": "rehearsal", "object": "model", "owned_by": "testkit"}]}),
                failures: HashMap::new(),
            }),
            abandoned: watch::Sender::new(0),
            count: watch::Sender::new(0),
        });
        let (end, ended) = oneshot::channel::<()>();
        let router = Router::new()
            .fallback(any(serve::answer))
            .with_state(Arc::clone(&shared));
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime");
            runtime.block_on(async move {
                let listener = tokio::net::TcpListener::from_std(listener).expect("a listening socket");
                tokio::select! {
                    _ = async { axum::serve(listener, router).await } => {}
                    _ = ended => {}
                }
            });
        });
        Self {
            address,
            shared,
            _end: end,
        }
    }

    /// Its address without a path, as the Anthropic wire wants it.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Its address with `/v1`, as the OpenAI wires want it.
    pub fn openai_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Adds a reply to the script.
    pub fn reply(&self, reply: Reply) -> &Self {
        self.shared.state().script.push_back(reply);
        self
    }

    /// Refuses from now on what does not fit into a window together with the answer that it asks for, and tells whole answers
    /// how many tokens their prompts were.
    pub fn set_window(&self, tokens: u64, bytes_per_token: usize) {
        self.shared.state().window = Some(Window {
            tokens,
            bytes_per_token,
        });
    }

    /// What `/models` answers from now on.
    pub fn set_models(&self, models: Value) {
        self.shared.state().models = models;
    }

    /// What `/props` answers from now on, as llama.cpp's server has it; not found until then.
    pub fn set_props(&self, props: Value) {
        self.shared.state().props = Some(props);
    }

    /// Questions about the server itself (`GET`): its list of models and its properties.
    pub fn list_requests(&self) -> Vec<Recorded> {
        self.shared.state().lists.clone()
    }

    /// All calls of a model so far.
    pub fn requests(&self) -> Vec<Recorded> {
        self.shared.state().requests.clone()
    }

    /// The last call of a model.
    pub fn last_request(&self) -> Recorded {
        self.shared.state().requests.last().expect("a request has come").clone()
    }

    /// Waits until so many calls of a model have come.
    pub async fn received(&self, count: usize) {
        let mut seen = self.shared.count.subscribe();
        seen.wait_for(|seen| *seen >= count)
            .await
            .expect("the sender lives as long as the server");
    }

    /// Waits until so many answers were left by their reader before they ended.
    pub async fn abandoned(&self, count: usize) {
        let mut seen = self.shared.abandoned.subscribe();
        seen.wait_for(|seen| *seen >= count)
            .await
            .expect("the sender lives as long as the server");
    }
}
