// SPDX-License-Identifier: Apache-2.0

//! The client of the interop matrix that uses hyper, through hyper-util's pool.
//! Arguments: BASE_URL DIRECTORY.

use std::collections::BTreeMap;
use std::io::BufRead;
use std::time::Duration;
use std::{env, error, fs, io};

use bytes::Bytes;
use futures_util::future::try_join_all;
use futures_util::stream;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use hyper::header::{CONNECTION, CONTENT_LENGTH, ETAG, EXPECT, IF_NONE_MATCH, TE, TRAILER};
use hyper::{HeaderMap, Method, Request};
use hyper_util::client::legacy::{connect::HttpConnector, Client};
use hyper_util::rt::TokioExecutor;
use serde_json::{json, Value};
use sha2::{Digest, Sha256};

type Error = Box<dyn error::Error>;
type Body = BoxBody<Bytes, io::Error>;

const PATIENCE: Duration = Duration::from_secs(30);
/// Size of the chunks of an upload, in bytes.
const PIECE: usize = 10_000;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let arguments: Vec<String> = env::args().collect();
    let (base, directory) = (&arguments[1], &arguments[2]);
    for name in io::stdin().lock().lines() {
        let answer = match tokio::time::timeout(PATIENCE, run(&name?, base, directory)).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => json!({"error": format!("{error:?}")}),
            Err(_) => json!({"error": "no answer in time"}),
        };
        println!("{answer}");
    }
    Ok(())
}

async fn run(name: &str, base: &str, directory: &str) -> Result<Value, Error> {
    let client = Session::new(base);
    let content = |file: &str| fs::read(format!("{directory}/{file}"));
    let mut tally = Tally::default();
    match name {
        "get100" => tally.add_all(client.small(100).await?),
        "down" => tally.add(client.get("/large").await?),
        "chunked-down" => tally.add(client.get("/chunked").await?),
        "trailer-down" => {
            let asked = HeaderMap::from_iter([(TE, "trailers".parse()?), (CONNECTION, "te".parse()?)]);
            tally.add(client.send(Method::GET, "/chunked", asked, empty()).await?);
        }
        "up" => tally.add(client.put(name, full(content("large")?)).await?),
        "chunked-up" => tally.add(client.put(name, chunked(content("chunked")?, false)).await?),
        "trailer-up" => tally.add(client.put(name, chunked(content("chunked")?, true)).await?),
        "expect" => tally.add(client.put(name, full(content("chunked")?)).await?),
        "head" => {
            let response = client.send(Method::HEAD, "/large", HeaderMap::new(), empty()).await?;
            tally.length = response.headers[CONTENT_LENGTH].to_str()?.parse()?;
            tally.add(response);
            tally.add_all(client.small(1).await?);
        }
        "not-modified" => {
            let first = client.get("/small/00").await?;
            let condition = HeaderMap::from_iter([(IF_NONE_MATCH, first.headers[ETAG].clone())]);
            tally.add(first);
            tally.add(client.send(Method::GET, "/small/00", condition, empty()).await?);
            tally.add_all(client.small(1).await?);
        }
        "concurrent" => {
            let sessions: Vec<Session> = (0..8).map(|_| Session::new(base)).collect();
            for responses in try_join_all(sessions.iter().map(|s| s.small(25))).await? {
                tally.add_all(responses);
            }
        }
        _ => return Err(format!("unknown case {name}").into()),
    }
    Ok(tally.answer())
}

/// A client with connections of its own.
struct Session<'a> {
    base: &'a str,
    client: Client<HttpConnector, Body>,
}

/// A response, received to its end.
struct Response {
    status: u16,
    headers: HeaderMap,
    body: Bytes,
    trailers: Option<HeaderMap>,
}

impl<'a> Session<'a> {
    fn new(base: &'a str) -> Self {
        Session { base, client: Client::builder(TokioExecutor::new()).build_http() }
    }

    async fn send(&self, method: Method, path: &str, headers: HeaderMap, body: Body) -> Result<Response, Error> {
        let mut request = Request::new(body);
        *request.method_mut() = method;
        *request.uri_mut() = format!("{}{path}", self.base).parse()?;
        *request.headers_mut() = headers;
        let (head, body) = self.client.request(request).await?.into_parts();
        let collected = body.collect().await?;
        Ok(Response {
            status: head.status.as_u16(),
            headers: head.headers,
            trailers: collected.trailers().cloned(),
            body: collected.to_bytes(),
        })
    }

    async fn get(&self, path: &str) -> Result<Response, Error> {
        self.send(Method::GET, path, HeaderMap::new(), empty()).await
    }

    async fn small(&self, count: usize) -> Result<Vec<Response>, Error> {
        let mut responses = Vec::new();
        for n in 0..count {
            responses.push(self.get(&format!("/small/{n:02}")).await?);
        }
        Ok(responses)
    }

    async fn put(&self, name: &str, body: Body) -> Result<Response, Error> {
        let mut headers = HeaderMap::new();
        match name {
            // hyper sends the body at once: it leaves waiting to its users.
            "expect" => headers.insert(EXPECT, "100-continue".parse()?),
            // Only trailers that are announced are sent.
            "trailer-up" => headers.insert(TRAILER, "x-check".parse()?),
            _ => None,
        };
        self.send(Method::PUT, &format!("/upload/{name}"), headers, body).await
    }
}

fn full(content: Vec<u8>) -> Body {
    Full::from(content).map_err(|never| match never {}).boxed()
}

fn empty() -> Body {
    full(Vec::new())
}

/// A body without a length, which hyper sends in chunks.
fn chunked(content: Vec<u8>, trailer: bool) -> Body {
    let content = Bytes::from(content);
    let mut frames: Vec<io::Result<Frame<Bytes>>> = (0..content.len())
        .step_by(PIECE)
        .map(|start| Ok(Frame::data(content.slice(start..content.len().min(start + PIECE)))))
        .collect();
    if trailer {
        let mut fields = HeaderMap::new();
        fields.insert("x-check", hyper::header::HeaderValue::from_static("interop"));
        frames.push(Ok(Frame::trailers(fields)));
    }
    BodyExt::boxed(StreamBody::new(stream::iter(frames)))
}

/// What came of the requests of a case.
#[derive(Default)]
struct Tally {
    statuses: BTreeMap<String, u32>,
    bodies: Sha256,
    length: u64,
    trailer: String,
}

impl Tally {
    fn add(&mut self, response: Response) {
        *self.statuses.entry(response.status.to_string()).or_default() += 1;
        self.bodies.update(&response.body);
        let value = response.trailers.as_ref().and_then(|t| t.get("x-check")).and_then(|v| v.to_str().ok());
        if let Some(value) = value {
            self.trailer = value.to_string();
        }
    }

    fn add_all(&mut self, responses: Vec<Response>) {
        responses.into_iter().for_each(|r| self.add(r));
    }

    fn answer(self) -> Value {
        let sha256 = format!("{:x}", self.bodies.finalize());
        json!({"statuses": self.statuses, "sha256": sha256, "length": self.length, "trailer": self.trailer})
    }
}
