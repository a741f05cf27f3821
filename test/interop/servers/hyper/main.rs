// SPDX-License-Identifier: Apache-2.0

//! The server of the interop matrix that uses hyper.
//! Arguments: ADDRESS PORT DIRECTORY STORE.

use std::sync::Arc;
use std::{env, fs, io};

use bytes::Bytes;
use futures_util::stream;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Empty, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::header::{HeaderValue, CONTENT_LENGTH, ETAG, IF_NONE_MATCH, TRAILER};
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;

type Body = BoxBody<Bytes, io::Error>;

/// Size of the chunks of a response, in bytes.
const PIECE: usize = 10_000;

struct Server {
    directory: String,
    store: String,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> io::Result<()> {
    let arguments: Vec<String> = env::args().collect();
    let listener = TcpListener::bind(format!("{}:{}", arguments[1], arguments[2])).await?;
    let server = Arc::new(Server { directory: arguments[3].clone(), store: arguments[4].clone() });
    loop {
        let (connection, _) = listener.accept().await?;
        let server = server.clone();
        tokio::spawn(async move {
            let service = service_fn(move |request| {
                let server = server.clone();
                async move { server.answer(request).await }
            });
            // A client that is gone is the client's affair.
            let _ = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .serve_connection(TokioIo::new(connection), service)
                .await;
        });
    }
}

impl Server {
    async fn answer(&self, request: Request<Incoming>) -> io::Result<Response<Body>> {
        let path = request.uri().path().to_string();
        if let Some(name) = path.strip_prefix("/upload/") {
            return self.keep(name, request).await;
        }
        if path == "/chunked" {
            return self.chunked();
        }
        self.file(&path, &request)
    }

    fn file(&self, path: &str, request: &Request<Incoming>) -> io::Result<Response<Body>> {
        let etag = format!("\"{}\"", path.rsplit('/').next().unwrap_or_default());
        let response = Response::builder().header(ETAG, &etag);
        if request.headers().get(IF_NONE_MATCH).is_some_and(|asked| asked == etag.as_str()) {
            return response.status(StatusCode::NOT_MODIFIED).body(empty()).map_err(io::Error::other);
        }
        let content = fs::read(format!("{}{path}", self.directory))?;
        // hyper leaves out the body that a HEAD must not have.
        let body = Full::from(content).map_err(|never| match never {}).boxed();
        response.body(body).map_err(io::Error::other)
    }

    /// A body of frames has no length, and so hyper chunks.
    fn chunked(&self) -> io::Result<Response<Body>> {
        let content = Bytes::from(fs::read(format!("{}/chunked", self.directory))?);
        let mut frames: Vec<io::Result<Frame<Bytes>>> = (0..content.len())
            .step_by(PIECE)
            .map(|start| Ok(Frame::data(content.slice(start..content.len().min(start + PIECE)))))
            .collect();
        let mut fields = HeaderMap::new();
        fields.insert("x-check", HeaderValue::from_static("interop"));
        frames.push(Ok(Frame::trailers(fields)));
        let body = BodyExt::boxed(StreamBody::new(stream::iter(frames)));
        Response::builder().header(TRAILER, "x-check").body(body).map_err(io::Error::other)
    }

    async fn keep(&self, name: &str, request: Request<Incoming>) -> io::Result<Response<Body>> {
        let path = format!("{}/{name}", self.store);
        let collected = request.into_body().collect().await.map_err(io::Error::other)?;
        if let Some(value) = collected.trailers().and_then(|t| t.get("x-check")) {
            fs::write(format!("{path}.trailer"), value.as_bytes())?;
        }
        fs::write(&path, collected.to_bytes())?;
        Response::builder()
            .status(StatusCode::CREATED)
            .header(CONTENT_LENGTH, 0)
            .body(empty())
            .map_err(io::Error::other)
    }
}

fn empty() -> Body {
    Empty::new().map_err(|never| match never {}).boxed()
}
