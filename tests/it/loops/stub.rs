//! An OpenAI-compatible endpoint that says what a test wants, on loopback.
//!
//! Takes one request after the other, each on a connection of its own. Never thinks.

use std::collections::VecDeque;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::support::soon;

/// What the endpoint does with a request.
pub(super) enum Answer {
    /// Status 200, and this as the model's words.
    Says(String),
    /// Another status.
    Status(u16),
    /// Status 200, and this body.
    Body(Vec<u8>),
    /// Closes the connection.
    Closes,
    /// Keeps the connection and says nothing.
    IsSilent,
}

/// An endpoint.
pub(super) struct Stub {
    address: String,
    asked: mpsc::Receiver<String>,
    /// Ends with the endpoint.
    _serving: JoinSet<()>,
}

impl Stub {
    /// One that answers like this, in order.
    pub(super) async fn start(answers: Vec<Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (tell, asked) = mpsc::channel(16);
        let mut serving = JoinSet::new();
        serving.spawn(serve(listener, answers.into(), tell));
        Self {
            _serving: serving,
            address: format!("http://{address}/v1/chat/completions"),
            asked,
        }
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// The next request, head and body.
    pub(super) async fn request(&mut self) -> String {
        soon("a request", self.asked.recv()).await.unwrap()
    }

    /// Whether a request came that nobody looked at.
    pub(super) fn was_asked(&mut self) -> bool {
        self.asked.try_recv().is_ok()
    }
}

async fn serve(listener: TcpListener, mut answers: VecDeque<Answer>, tell: mpsc::Sender<String>) {
    let mut silent = Vec::new();
    while let Some(answer) = answers.pop_front() {
        let (mut stream, _) = listener.accept().await.unwrap();
        let request = read_request(&mut stream).await;
        let _ = tell.send(request).await;
        let (status, body) = match answer {
            Answer::Says(words) => {
                let message = serde_json::json!({"role": "assistant", "content": words});
                let body = serde_json::json!({"choices": [{"index": 0, "message": message}]});
                (200, body.to_string().into_bytes())
            }
            Answer::Status(status) => (status, b"{}".to_vec()),
            Answer::Body(body) => (200, body),
            Answer::Closes => continue,
            Answer::IsSilent => {
                silent.push(stream);
                continue;
            }
        };
        let head = format!(
            "HTTP/1.1 {status} Said\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        // Whoever has read enough may be gone.
        let _ = stream.write_all(head.as_bytes()).await;
        let _ = stream.write_all(&body).await;
    }
}

/// One request with a body of known length.
async fn read_request(stream: &mut TcpStream) -> String {
    let mut text = String::new();
    loop {
        let mut piece = vec![0; 64 * 1024];
        let length = stream.read(&mut piece).await.unwrap();
        assert!(length > 0, "the request is cut off: {text}");
        text.push_str(std::str::from_utf8(&piece[..length]).unwrap());
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let head = head.to_lowercase();
            let (_, rest) = head.split_once("content-length: ").unwrap();
            let wanted: usize = rest.lines().next().unwrap().trim().parse().unwrap();
            if body.len() >= wanted {
                return text;
            }
        }
    }
}
