# SPDX-License-Identifier: Apache-2.0
"""The bookstore's page about a book: what details and reviews know of it, as HTML.

Each call to another service is a requests.get of its own, so it opens a connection and closes it. A part that cannot be had is left
out, with a word about it; the page itself still comes.
"""

import html
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import requests

DETAILS = os.environ["DETAILS_ADDR"]
REVIEWS = os.environ["REVIEWS_ADDR"]
# In seconds, for each call.
PATIENCE = 5


def ask(address, path, request_id):
    """Returns what a service answers as JSON, or None when it does not."""
    try:
        answer = requests.get(f"http://{address}{path}", headers={"X-Request-Id": request_id}, timeout=PATIENCE)
        answer.raise_for_status()
        return answer.json()
    except (requests.RequestException, ValueError):
        return None


def about(details):
    if details is None:
        return "<h1>The details are not available</h1>"
    rows = "".join(
        f"<tr><th>{html.escape(name)}</th><td>{html.escape(str(details[name]))}</td></tr>"
        for name in ("author", "year", "pages", "language")
    )
    return f'<h1>{html.escape(details["title"])}</h1><table class="details">{rows}</table>'


def opinion(review, colour):
    stars = ""
    if "stars" in review:
        count = review["stars"]
        stars = f'<span class="stars" style="color: {colour}">{"★" * count}{"☆" * (5 - count)}</span>'
    elif "problem" in review:
        stars = f'<span class="problem">{html.escape(review["problem"])}</span>'
    return f'<article><p>{html.escape(review["text"])}</p><p>{html.escape(review["reader"])} {stars}</p></article>'


def opinions(reviews):
    if reviews is None:
        return "<p>The reviews are not available</p>"
    colour = html.escape(reviews.get("colour", "black"))
    articles = "".join(opinion(review, colour) for review in reviews["reviews"])
    return f'{articles}<footer>reviews {html.escape(reviews["version"])}</footer>'


def page(book, request_id):
    details = ask(DETAILS, f"/details/{book}", request_id)
    reviews = ask(REVIEWS, f"/reviews/{book}", request_id)
    return (
        f'<!doctype html><html><head><meta charset="utf-8"><title>Book {book}</title></head>'
        f"<body>{about(details)}{opinions(reviews)}</body></html>\n"
    )


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # An answer is sent at once, head and body together.
    wbufsize = -1
    disable_nagle_algorithm = True

    def do_GET(self):
        book = self.path.removeprefix("/page/")
        if self.path == "/health":
            self.answer(200, "text/plain", "ok\n")
        elif book != self.path and book.isdigit():
            self.answer(200, "text/html; charset=utf-8", page(int(book), self.headers.get("X-Request-Id", "none")))
        else:
            self.answer(404, "text/plain", "ask for /page/NUMBER\n")

    def answer(self, status, kind, text):
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


if __name__ == "__main__":
    host, port = os.environ["LISTEN"].rsplit(":", 1)
    Server((host, int(port)), Handler).serve_forever()
