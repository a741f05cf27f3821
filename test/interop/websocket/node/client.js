// SPDX-License-Identifier: Apache-2.0
//
// usage: client.js SPECIFICATION; README.md has the contract.
'use strict';

const readline = require('node:readline');
const WebSocket = require('ws');
const { messages, blocks } = require('./content');

const spec = JSON.parse(process.argv[2]);
const report = { Open: 0, Messages: 0, Bytes: 0, Pings: 0, Compressed: 0, Sent: 0, Errors: 0, Problems: [], Ends: {} };

// How many connections open at a time, and how many messages are ahead of their echoes.
const OPENING = 50;
const AHEAD = 4;

function problem(where, error) {
  report.Errors++;
  if (report.Problems.length < 10) report.Problems.push(`${where}: ${error.message ?? error}`);
}

// Peer is a connection with what it has received and nobody has taken yet.
class Peer {
  constructor(socket) {
    this.socket = socket;
    this.received = [];
    this.pongs = [];
    this.wake = () => {};
    this.end = null;
    socket.on('message', (data, binary) => this.put(this.received, binary ? data : data.toString()));
    socket.on('pong', (data) => this.put(this.pongs, data.toString()));
    socket.on('close', (code, reason) => this.ended(code, reason.toString()));
  }

  put(queue, item) {
    queue.push(item);
    this.wake();
  }

  ended(code, reason) {
    this.end = { code, reason };
    report.Open--;
    report.Ends[code] = (report.Ends[code] ?? 0) + 1;
    this.wake();
  }

  async until(ready, what) {
    const deadline = Date.now() + spec.Timeout * 1000;
    while (!ready()) {
      if (this.end) throw new Error(`closed with ${this.end.code} before ${what}`);
      await this.woken(deadline - Date.now(), what);
    }
  }

  woken(patience, what) {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`no ${what} within ${spec.Timeout} s`)), patience);
      this.wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  async take(queue, what) {
    await this.until(() => queue.length > 0, what);
    return queue.shift();
  }

  send(data, options = {}) {
    return new Promise((resolve, reject) => {
      this.socket.send(data, options, (error) => (error ? reject(error) : resolve()));
    });
  }

  async ping(data) {
    this.socket.ping(data);
    await this.until(() => this.pongs.includes(data), 'pong');
    report.Pings++;
  }

  async close(code, reason) {
    this.socket.close(code, reason);
    await this.closed();
    if (this.end.code !== code) throw new Error(`closed with ${code}, got ${this.end.code}`);
  }

  async closed() {
    await this.until(() => this.end !== null, 'close');
  }
}

function open(path) {
  return new Promise((resolve, reject) => {
    const socket = new WebSocket(spec.URL + path);
    socket.once('error', reject);
    socket.once('open', () => {
      socket.off('error', reject);
      socket.on('error', (error) => problem('open connection', error));
      if (spec.Case === 'down') socket.pause();
      report.Open++;
      if (socket.extensions !== '') report.Compressed++;
      resolve(new Peer(socket));
    });
  });
}

async function openAll(pathOf, count) {
  const peers = [];
  let next = 0;
  const worker = async () => {
    while (next < count) {
      const i = next++;
      try {
        peers[i] = await open(pathOf(i));
      } catch (error) {
        problem(`connection ${i}, open`, error);
      }
    }
  };
  await Promise.all(Array.from({ length: OPENING }, worker));
  return peers;
}

async function sendMessage(peer, { binary, fragmented, content }) {
  if (!fragmented) return peer.send(content, { binary });
  const data = Buffer.from(content);
  const middle = data.length >> 1;
  await peer.send(data.subarray(0, middle), { binary, fin: false });
  await Promise.all([
    peer.ping(`between fragments ${report.Pings}`),
    peer.send(data.subarray(middle), { binary, fin: true }),
  ]);
}

async function checkEcho(peer, { n, binary, content }) {
  const got = await peer.take(peer.received, `echo of message ${n}`);
  const same = binary ? Buffer.isBuffer(got) && got.equals(content) : got === content;
  if (!same) throw new Error(`echo of message ${n} differs: got ${got.length}, sent ${content.length}`);
  report.Messages++;
  report.Bytes += Buffer.byteLength(content);
}

async function converse(peer, i) {
  const waiting = [];
  for (const message of messages(spec.Seed, i, spec.Sizes ?? [], spec.Messages, spec.Size)) {
    if (waiting.length === AHEAD) await checkEcho(peer, waiting.shift());
    await sendMessage(peer, message);
    waiting.push(message);
  }
  for (const message of waiting) await checkEcho(peer, message);
  await peer.ping(`connection ${i}`);
  await peer.close(i % 2 ? 1000 : 4000 + (i % 1000), 'done');
}

async function askForClose(peer, i) {
  const code = spec.Codes[i];
  await peer.send(`${code} reason-${code}`);
  await peer.closed();
  const { code: got, reason } = peer.end;
  if (got !== code || reason !== `reason-${code}`) throw new Error(`asked for ${code}, got ${got} "${reason}"`);
}

async function download(peer) {
  peer.socket.resume();
  for (const block of blocks(spec.Seed, spec.Size)) {
    const got = await peer.take(peer.received, 'block');
    if (!block.equals(got)) throw new Error(`block after ${report.Bytes} bytes differs`);
    report.Bytes += block.length;
  }
  const end = await peer.take(peer.received, 'end');
  if (end !== 'end') throw new Error(`got ${end.length} more bytes than there are`);
  await peer.close(1000, 'done');
}

async function upload(peer) {
  for (const block of blocks(spec.Seed, spec.Size)) {
    await peer.send(block);
    report.Sent += block.length;
  }
  const verdict = await peer.take(peer.received, 'verdict');
  if (verdict !== 'same') throw new Error(`the server says ${verdict}`);
  await peer.close(1000, 'done');
}

const stream = (name) => () => `/${name}?seed=${spec.Seed}&size=${spec.Size}`;

// Each case: the path of connection i, how many there are, and what to do with each.
const cases = {
  echo: { path: (i) => (i % 2 ? '/fragments' : '/echo'), count: spec.Connections, play: converse },
  close: { path: () => '/close', count: (spec.Codes ?? []).length, play: askForClose },
  down: { path: stream('stream'), count: 1, play: download },
  up: { path: stream('sink'), count: 1, play: upload },
};

async function playAll(peers, play) {
  const live = peers.map((peer, i) => [peer, i]).filter(([peer]) => peer?.end === null);
  await Promise.all(live.map(([peer, i]) => play(peer, i).catch((error) => problem(`connection ${i}`, error))));
}

async function main() {
  const { path, count, play } = cases[spec.Case];
  const peers = await openAll(path, count);
  const early = spec.Case === 'up' ? playAll(peers, play) : null;
  console.log(JSON.stringify(report));
  for await (const command of readline.createInterface({ input: process.stdin })) {
    if (command === 'go') await (early ?? playAll(peers, play));
    console.log(JSON.stringify(report));
  }
  process.exit(0);
}

main();
