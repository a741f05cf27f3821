# SPDX-License-Identifier: Apache-2.0
"""What the bank's services in Python share: an HTTP server, its answers, tokens, and connections to a database."""

import json
import os
import queue
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import jwt
import psycopg2

ALGORITHM = "RS256"
# How many connections a process keeps to its database.
CONNECTIONS = 4
# How long a database may take to come up, in seconds.
PATIENCE = 20


class Refusal(Exception):
    """An answer with a status that says what is wrong with the request."""

    def __init__(self, status, problem):
        super().__init__(problem)
        self.status = status


def key(variable):
    with open(os.environ[variable], encoding="ascii") as file:
        return file.read()


class Service(BaseHTTPRequestHandler):
    """Answers requests by the method that `routes` names for their verb and the first part of their path."""

    protocol_version = "HTTP/1.1"
    # An answer is sent at once, head and body together.
    wbufsize = -1
    disable_nagle_algorithm = True
    routes = {}
    public_key = None

    def do_GET(self):
        self.serve()

    def do_POST(self):
        self.serve()

    def serve(self):
        self.body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        url = urlsplit(self.path)
        self.query = {name: values[0] for name, values in parse_qs(url.query).items()}
        first, _, rest = url.path[1:].partition("/")
        try:
            if url.path == "/health":
                self.json(200, {})
            elif (self.command, first) in self.routes:
                self.routes[self.command, first](self, rest)
            else:
                raise Refusal(404, f"there is no {self.command} {url.path}")
        except Refusal as refusal:
            self.json(refusal.status, {"problem": str(refusal)})

    def claims(self, token=None):
        """Returns what a token says that this bank has signed; it comes with the request, unless given."""
        if token is None:
            token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        try:
            return jwt.decode(token, self.public_key, algorithms=[ALGORITHM])
        except jwt.PyJWTError as error:
            raise Refusal(401, f"the token is not accepted: {error}") from error

    def sent(self, *names):
        """Returns the named members of the JSON object that was sent."""
        try:
            value = json.loads(self.body)
            return [value[name] for name in names]
        except (ValueError, KeyError, TypeError) as error:
            raise Refusal(400, f"need a JSON object with {', '.join(names)}") from error

    def json(self, status, value):
        self.answer(status, "application/json", json.dumps(value))

    def answer(self, status, kind, text, **headers):
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass

    @classmethod
    def run(cls):
        host, port = os.environ["LISTEN"].rsplit(":", 1)
        Server((host, int(port)), cls).serve_forever()


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


class Database:
    """A few connections, each used by one request at a time."""

    def __init__(self):
        self.idle = queue.LifoQueue()
        for _ in range(CONNECTIONS):
            self.idle.put(self.connect())

    @staticmethod
    def connect():
        host, port = os.environ["ACCOUNTS_ADDR"].rsplit(":", 1)
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                connection = psycopg2.connect(host=host, port=port, user="postgres", dbname="postgres")
                connection.autocommit = True
                return connection
            except psycopg2.OperationalError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    @contextmanager
    def cursor(self):
        connection = self.idle.get()
        try:
            with connection.cursor() as cursor:
                yield cursor
        finally:
            self.idle.put(connection)
