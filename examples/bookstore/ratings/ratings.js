// SPDX-License-Identifier: Apache-2.0

// How many stars, 1 to 5, each reader gives a book.

'use strict';

const http = require('http');

const readers = ['Anna', 'Bertil'];

// stars are the same whenever the same book is asked for.
function stars(book, reader) {
  return 1 + ((book * 7 + reader * 3) % 5);
}

function answer(response, status, value) {
  const body = JSON.stringify(value);
  response.writeHead(status, {
    'Content-Type': 'application/json',
    'Content-Length': Buffer.byteLength(body),
  });
  response.end(body);
}

const server = http.createServer((request, response) => {
  if (request.url === '/health') {
    answer(response, 200, {});
    return;
  }
  const match = /^\/ratings\/(\d+)$/.exec(request.url);
  if (request.method !== 'GET' || match === null) {
    answer(response, 404, { problem: 'ask for /ratings/NUMBER' });
    return;
  }
  const book = Number(match[1]);
  const ratings = {};
  readers.forEach((name, i) => { ratings[name] = stars(book, i); });
  answer(response, 200, { id: book, ratings });
});

const [host, port] = process.env.LISTEN.split(':');
server.listen(Number(port), host);
