// SPDX-License-Identifier: Apache-2.0
'use strict';

// The server of the interop matrix that uses Node's http.

const fs = require('node:fs');
const http = require('node:http');
const path = require('node:path');
const { pipeline } = require('node:stream/promises');

const [address, port, directory, store] = process.argv.slice(2);

async function answer(request, response) {
  const { pathname } = new URL(request.url, 'http://interop.test');
  if (pathname.startsWith('/upload/')) {
    await keep(path.join(store, path.basename(pathname)), request, response);
  } else if (pathname === '/chunked') {
    await serveChunked(response);
  } else {
    serveFile(pathname, request, response);
  }
}

function serveFile(pathname, request, response) {
  const etag = `"${path.basename(pathname)}"`;
  response.setHeader('ETag', etag);
  if (request.headers['if-none-match'] === etag) {
    response.writeHead(304).end();
    return;
  }
  const content = fs.readFileSync(path.join(directory, pathname));
  response.setHeader('Content-Length', content.length);
  // Node leaves out what a HEAD must not have.
  response.end(content);
}

// serveChunked gives no length, and so Node chunks.
async function serveChunked(response) {
  response.setHeader('Trailer', 'X-Check');
  await pipeline(fs.createReadStream(path.join(directory, 'chunked')), response, { end: false });
  response.addTrailers({ 'X-Check': 'interop' });
  response.end();
}

async function keep(file, request, response) {
  await pipeline(request, fs.createWriteStream(file));
  // Before the body has been read there is no trailer.
  const trailer = request.trailers['x-check'];
  if (trailer) fs.writeFileSync(`${file}.trailer`, trailer);
  response.writeHead(201, { 'Content-Length': 0 }).end();
}

const server = http.createServer((request, response) => {
  answer(request, response).catch((error) => {
    console.error(error);
    response.destroy(error);
  });
});
server.keepAliveTimeout = 60_000;
server.listen(Number(port), address);
process.on('SIGTERM', () => process.exit(0));
