// SPDX-License-Identifier: Apache-2.0
// llhttp, as Node carries it, as an oracle of the fuzzer: see bpf/test/oracle.h.
'use strict';

const fs = require('node:fs');
const { HTTPParser } = require('_http_common');

const REQUEST = 1;
const HEADER_SIZE = 20;

// failure is the reason for which llhttp refused the message, or nothing if that reason is no difference.
// llhttp takes no whitespace in chunk extensions, where RFC 9112, section 7.1.1, allows it. It refuses such a
// message, so no boundary moves; the other oracles compare its length.
function failure(error) {
  if (error.code === 'HPE_STRICT' && /^Invalid character in chunk extensions/.test(error.reason)) return '';
  return error.code || error.message;
}

// check says what is wrong, or nothing.
function check(kind, data, head, body) {
  const parser = new HTTPParser();
  const type = kind === REQUEST ? HTTPParser.REQUEST : HTTPParser.RESPONSE;
  parser.initialize(type, {}, 1 << 20, 0);
  let headersAt = false;
  let complete = false;
  let bytes = 0;
  parser[HTTPParser.kOnHeadersComplete] = () => { headersAt = true; return 0; };
  parser[HTTPParser.kOnBody] = (b, offset, length) => { bytes += length === undefined ? b.length : length; };
  parser[HTTPParser.kOnMessageComplete] = () => { complete = true; };
  parser[HTTPParser.kOnHeaders] = () => {};
  const early = parser.execute(data.subarray(0, head - 1));
  if (early instanceof Error) return early.code || early.message;
  if (headersAt) return 'the head ends early';
  const last = parser.execute(data.subarray(head - 1, head));
  if (last instanceof Error) return last.code || last.message;
  if (!headersAt) return 'the head ends late';
  // A byte less than the whole body must not complete the message, the last one must. What the input cuts short
  // is made up: only lengths matter, and data of a length-framed body may be anything.
  if (body === 0) return complete ? '' : 'no end without a body';
  if (complete) return 'an end before the body';
  const rest = data.length - head >= body ? data.subarray(head, head + body) : null;
  if (rest === null && body > (1 << 20)) return '';
  const whole = rest || Buffer.alloc(body, 0x78);
  const most = parser.execute(whole.subarray(0, body - 1));
  if (most instanceof Error) return failure(most);
  if (complete) return 'the body ends early';
  const end = parser.execute(whole.subarray(body - 1));
  if (end instanceof Error) return failure(end);
  return complete ? '' : 'the body ends late';
}

function readFully(size) {
  const buffer = Buffer.alloc(size);
  for (let at = 0; at < size;) {
    const n = fs.readSync(0, buffer, at, size - at, null);
    if (n === 0) process.exit(0);
    at += n;
  }
  return buffer;
}

for (;;) {
  const header = readFully(HEADER_SIZE);
  const kind = header.readUInt32LE(0);
  const size = header.readUInt32LE(4);
  const head = header.readUInt32LE(8);
  const body = Number(header.readBigUInt64LE(12));
  const wrong = check(kind, readFully(size), head, body);
  if (wrong) process.stderr.write(`llhttp: ${wrong}\n`);
  fs.writeSync(1, Buffer.from([wrong ? 0 : 1]));
}
