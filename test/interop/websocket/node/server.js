// SPDX-License-Identifier: Apache-2.0
//
// usage: server.js ADDRESS; README.md has the contract.
'use strict';

const http = require('node:http');
const readline = require('node:readline');
const { WebSocketServer } = require('ws');
const { blocks } = require('./content');

const state = { Open: 0, Opened: 0, Messages: 0, Sent: 0, Ends: {} };
const sinks = [];

function echo(socket, fragmented) {
  socket.on('message', (data, binary) => {
    state.Messages++;
    if (!fragmented) return socket.send(data, { binary });
    const middle = data.length >> 1;
    socket.send(data.subarray(0, middle), { binary, fin: false });
    socket.send(data.subarray(middle), { binary, fin: true });
  });
}

function closeWhenAsked(socket) {
  socket.once('message', (data) => {
    const [code, reason] = data.toString().split(' ');
    socket.close(Number(code), reason);
  });
}

const sent = (socket, data) => new Promise((resolve, reject) => {
  socket.send(data, (error) => (error ? reject(error) : resolve()));
});

async function stream(socket, seed, size) {
  for (const block of blocks(seed, size)) {
    await sent(socket, block);
    state.Sent += block.length;
  }
  await sent(socket, 'end');
}

function sink(socket, seed, size) {
  const expected = blocks(seed, size);
  let missing = size;
  let same = true;
  socket.on('message', (data) => {
    const { value } = expected.next();
    same &&= value !== undefined && value.equals(data);
    missing -= data.length;
    if (missing <= 0) socket.send(same ? 'same' : 'different');
  });
  sinks.push(socket);
  socket.pause();
}

function serve(socket, request) {
  const url = new URL(request.url, 'ws://server');
  const parameter = (name) => Number(url.searchParams.get(name));
  switch (url.pathname) {
    case '/echo': return echo(socket, false);
    case '/fragments': return echo(socket, true);
    case '/close': return closeWhenAsked(socket);
    // A client that leaves ends its stream; the connection's end is counted below.
    case '/stream': return stream(socket, parameter('seed'), parameter('size')).catch(() => {});
    case '/sink': return sink(socket, parameter('seed'), parameter('size'));
    default: return socket.close(1008, 'no such path');
  }
}

const listener = http.createServer();
const server = new WebSocketServer({ server: listener });
server.on('connection', (socket, request) => {
  state.Open++;
  state.Opened++;
  socket.on('close', (code) => {
    state.Open--;
    state.Ends[code] = (state.Ends[code] ?? 0) + 1;
  });
  // What a peer that resets does; "close" follows.
  socket.on('error', () => {});
  serve(socket, request);
});

listener.listen({ host: process.argv[2], port: 0, backlog: 4096 }, () => {
  const { address, port } = listener.address();
  console.log(JSON.stringify({ Address: `${address}:${port}` }));
});

const commands = readline.createInterface({ input: process.stdin });
commands.on('line', (line) => {
  if (line === 'read') for (const socket of sinks.splice(0)) socket.resume();
  console.log(JSON.stringify(state));
});
commands.on('close', () => process.exit(0));
