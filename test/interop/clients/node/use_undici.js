// SPDX-License-Identifier: Apache-2.0
'use strict';

const { Readable } = require('node:stream');

const { Client } = require('undici');

const { pieces, serve } = require('./cases.js');

const patience = 30_000;

function client(base) {
  const connection = new Client(base, { headersTimeout: patience, bodyTimeout: patience });
  return {
    async request(method, path, { headers, body, chunked } = {}) {
      const upload = chunked ? Readable.from(pieces(body)) : body;
      const response = await connection.request({ method, path, headers, body: upload });
      const received = Buffer.from(await response.body.arrayBuffer());
      return { status: response.statusCode, headers: response.headers, body: received, trailers: response.trailers };
    },
    close: () => connection.destroy(),
  };
}

serve(client);
