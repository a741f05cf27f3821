// SPDX-License-Identifier: Apache-2.0
'use strict';

// The cases of the matrix for libraries of Node. A library is a function that
// returns a client with connections of its own:
//
//   client.request(method, path, {headers, body, chunked, trailer, expect})
//     resolves to {status, headers, body, trailers, continued}
//   client.close()
//
// A body is a Buffer, to be sent with its length unless chunked is set.

const crypto = require('node:crypto');
const fs = require('node:fs');
const path = require('node:path');
const readline = require('node:readline');

const [base, directory] = process.argv.slice(2);

const content = (name) => fs.readFileSync(path.join(directory, name));
const small = (n) => `/small/${String(n).padStart(2, '0')}`;

// pieces of a body, so that it leaves in several chunks.
function* pieces(body, size = 10_000) {
  for (let start = 0; start < body.length; start += size) {
    yield body.subarray(start, start + size);
  }
}

// Tally is what came of the requests of a case.
class Tally {
  statuses = {};
  bodies = [];
  more = {};

  add(response) {
    this.statuses[response.status] = (this.statuses[response.status] ?? 0) + 1;
    this.bodies.push(response.body);
    if (response.trailers?.['x-check']) this.more.trailer = response.trailers['x-check'];
    if (response.continued) this.more.continued = true;
    return response;
  }

  answer() {
    const sha256 = crypto.createHash('sha256').update(Buffer.concat(this.bodies)).digest('hex');
    return { statuses: this.statuses, sha256, ...this.more };
  }
}

async function getSmall(client, count) {
  const responses = [];
  for (let n = 0; n < count; n++) responses.push(await client.request('GET', small(n)));
  return responses;
}

const get = (target) => async (client, tally) => tally.add(await client.request('GET', target));

const put = (name, file, how) => async (client, tally) =>
  tally.add(await client.request('PUT', `/upload/${name}`, { body: content(file), ...how }));

const cases = {
  'get100': async (client, tally) => (await getSmall(client, 100)).forEach((r) => tally.add(r)),
  'down': get('/large'),
  'up': put('up', 'large'),
  'chunked-down': get('/chunked'),
  'chunked-up': put('chunked-up', 'chunked', { chunked: true }),
  'trailer-down': async (client, tally) => tally.add(await client.request('GET', '/chunked', { headers: { TE: 'trailers' } })),
  'trailer-up': put('trailer-up', 'chunked', { chunked: true, trailer: { 'X-Check': 'interop' } }),
  'expect': put('expect', 'chunked', { expect: true }),

  async 'head'(client, tally) {
    const response = tally.add(await client.request('HEAD', '/large'));
    tally.more.length = Number(response.headers['content-length']);
    await get(small(0))(client, tally);
  },

  async 'not-modified'(client, tally) {
    const first = await get(small(0))(client, tally);
    tally.add(await client.request('GET', small(0), { headers: { 'If-None-Match': first.headers.etag } }));
    await get(small(0))(client, tally);
  },
};

async function concurrent(library, tally) {
  const all = await Promise.all(Array.from({ length: 8 }, async () => {
    const client = library(base);
    const responses = await getSmall(client, 25);
    client.close();
    return responses;
  }));
  all.flat().forEach((response) => tally.add(response));
}

async function run(library, name) {
  const tally = new Tally();
  if (name === 'concurrent') {
    await concurrent(library, tally);
    return tally.answer();
  }
  const client = library(base);
  await cases[name](client, tally);
  client.close();
  return tally.answer();
}

async function serve(library) {
  for await (const name of readline.createInterface({ input: process.stdin })) {
    const answer = await run(library, name).catch((error) => ({ error: String(error.stack ?? error) }));
    console.log(JSON.stringify(answer));
  }
}

module.exports = { pieces, serve };
