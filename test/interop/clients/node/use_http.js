// SPDX-License-Identifier: Apache-2.0
'use strict';

const http = require('node:http');

const { pieces, serve } = require('./cases.js');

const patience = 30_000;

function client(base) {
  const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
  return {
    request: (method, path, how = {}) => exchange(new URL(path, base), { method, agent, timeout: patience }, how),
    close: () => agent.destroy(),
  };
}

function exchange(url, options, how) {
  return new Promise((resolve, reject) => {
    const request = http.request(url, { ...options, headers: headersOf(how) });
    let continued = false;
    request.on('error', reject);
    request.on('timeout', () => request.destroy(new Error('no answer in time')));
    request.on('response', (response) => receive(response).then(
      (body) => resolve({ status: response.statusCode, headers: response.headers, body, trailers: response.trailers, continued }),
      reject));
    if (!how.expect) {
      send(request, how);
      return;
    }
    request.on('continue', () => {
      continued = true;
      send(request, how);
    });
    request.flushHeaders();
  });
}

function headersOf({ headers, body, chunked, trailer, expect }) {
  const all = { ...headers };
  if (body && !chunked) all['Content-Length'] = body.length;
  if (trailer) all.Trailer = Object.keys(trailer).join(', ');
  if (expect) all.Expect = '100-continue';
  return all;
}

function send(request, { body, trailer }) {
  for (const piece of pieces(body ?? Buffer.alloc(0))) request.write(piece);
  if (trailer) request.addTrailers(trailer);
  request.end();
}

async function receive(response) {
  const all = [];
  for await (const piece of response) all.push(piece);
  return Buffer.concat(all);
}

serve(client);
