#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the requests in the tests of other readers of HTTP, as a JSON list of {corpus, source, bytes}.

usage: collect.py DIRECTORY GOROOT

DIRECTORY holds source archives (*.tar.gz) that scripts/install-deps has fetched, GOROOT a Go toolchain.
A request is a literal of a test's source, or a *.http file of gunicorn's, that begins with a method, a
space and a target, and has a line break. Bytes are in base64. What occurs twice in a corpus is printed
once. Fails if an archive holds fewer requests than are known to be in it: then the extraction is broken.
"""
import ast
import base64
import json
import pathlib
import re
import sys
import tarfile

# The fewest requests that each corpus must yield.
LEAST = {"aiohttp": 40, "go": 60, "gunicorn": 70, "h11": 10, "http-parser": 40, "httptools": 3, "waitress": 10}

# Long literals are tests of limits, which the conformance suite has.
LONGEST = 8192

BEGINNING = re.compile(rb"\A(?:\r?\n)*[^\s\x00-\x1f]{1,32}[ \t]+[^\r\n]{0,4096}\r?\n")
RESPONSE = re.compile(rb"\A(?:\r?\n)*HTTP/")
# Distinguishes requests from other text of two words.
OF_HTTP = re.compile(rb"\A[^\r\n]*HTTP|\n\r?\n", re.MULTILINE)

ESCAPES = {"n": b"\n", "r": b"\r", "t": b"\t", "0": b"\0", "a": b"\a", "b": b"\b", "f": b"\f", "v": b"\v",
           "\\": b"\\", '"': b'"', "'": b"'"}
ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|.|\n)", re.DOTALL)


def unescape(text):
    """The bytes of a literal of C or Go."""
    out, at = b"", 0
    for m in ESCAPE.finditer(text):
        out += text[at:m.start()].encode("utf-8", "surrogateescape")
        code = m.group(1)
        if code[0] == "x" and len(code) == 3:
            out += bytes([int(code[1:], 16)])
        elif code != "\n":
            out += ESCAPES.get(code, code.encode())
        at = m.end()
    return out + text[at:].encode("utf-8", "surrogateescape")


def python_literals(source):
    """Constants of bytes and text, and concatenations of them."""
    def value(node):
        if isinstance(node, ast.Constant) and isinstance(node.value, bytes):
            return node.value
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return node.value.encode("utf-8", "surrogateescape")
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            left, right = value(node.left), value(node.right)
            return None if left is None or right is None else left + right
        return None

    for node in ast.walk(ast.parse(source)):
        found = value(node)
        if found is not None:
            yield found


STRING = r'"(?:[^"\\\n]|\\.)*"'
C_RUN = re.compile(STRING + r"(?:\s*" + STRING + r")*")
GO_RUN = re.compile(f"(?:{STRING}|`[^`]*`)" + r"(?:\s*\+\s*" + f"(?:{STRING}|`[^`]*`))*")
GO_PART = re.compile(f"{STRING}|`[^`]*`")
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)


def c_literals(source):
    """String literals, adjacent ones as one, as the C compiler joins them."""
    for run in C_RUN.findall(COMMENT.sub("", source)):
        yield b"".join(unescape(part[1:-1]) for part in re.findall(STRING, run))


def go_literals(source):
    """String literals, and sums of them."""
    for run in GO_RUN.findall(source):
        parts = GO_PART.findall(run)
        yield b"".join(p[1:-1].encode() if p[0] == "`" else unescape(p[1:-1]) for p in parts)


def gunicorn_file(source):
    """The format of gunicorn's tests/treq.py: line ends are written as \\r\\n, those of the file count for nothing."""
    text = source.replace("\n", "").replace("\\r", "\r").replace("\\n", "\n").replace("\\0", "\0")
    text = text.replace("\\t", "\t").replace("\\\\", "\\")
    yield text.encode("utf-8", "surrogateescape")


# By the path in an archive: the corpus, and what finds literals. The first that matches counts.
READERS = [
    (re.compile(r"^gunicorn-[^/]+/tests/requests/.*\.http$"), "gunicorn", gunicorn_file),
    (re.compile(r"^httptools-[^/]+/vendor/http-parser/test\.c$"), "http-parser", c_literals),
    (re.compile(r"^httptools-[^/]+/tests/test_[^/]*\.py$"), "httptools", python_literals),
    (re.compile(r"^h11-[^/]+/h11/tests/test_[^/]*\.py$"), "h11", python_literals),
    (re.compile(r"^waitress-[^/]+/tests/test_[^/]*\.py$"), "waitress", python_literals),
    (re.compile(r"^aiohttp-[^/]+/tests/test_(http_parser|web_protocol|web_server)\.py$"), "aiohttp", python_literals),
]


def archives(directory):
    """Path and text of each file in each archive."""
    for archive in sorted(pathlib.Path(directory).glob("*.tar.gz")):
        with tarfile.open(archive) as tar:
            for member in sorted(tar.getmembers(), key=lambda m: m.name):
                if member.isfile():
                    yield member.name, tar.extractfile(member)


def literals(directory, goroot):
    """Corpus, source and bytes of each literal."""
    for name, file in archives(directory):
        for pattern, corpus, reader in READERS:
            if pattern.search(name):
                text = file.read().decode("utf-8", "surrogateescape")
                for found in reader(text):
                    yield corpus, name, found
                break
    for path in sorted(pathlib.Path(goroot, "src/net/http").glob("*_test.go")):
        for found in go_literals(path.read_text(errors="surrogateescape")):
            yield "go", "net/http/" + path.name, found


def is_request(found):
    """Whether bytes look like the beginning of a request, well-formed or not."""
    return BEGINNING.match(found) and not RESPONSE.match(found) and OF_HTTP.search(found)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    seen, requests = set(), []
    for corpus, source, found in literals(sys.argv[1], sys.argv[2]):
        if len(found) > LONGEST or not is_request(found):
            continue
        if (corpus, found) in seen:
            continue
        seen.add((corpus, found))
        requests.append({"corpus": corpus, "source": source, "bytes": base64.b64encode(found).decode()})
    for corpus, least in LEAST.items():
        count = sum(r["corpus"] == corpus for r in requests)
        print(f"{corpus}: {count} requests", file=sys.stderr)
        if count < least:
            sys.exit(f"{corpus}: {count} requests, at least {least} are expected: is its archive in {sys.argv[1]}?")
    json.dump(requests, sys.stdout)


if __name__ == "__main__":
    main()
