// SPDX-License-Identifier: Apache-2.0
//
// What is sent, made from a seed; README.md says how.
'use strict';

const crypto = require('node:crypto');

const BLOCK_SIZE = 64 << 10;

function shake(seed, size) {
  // OpenSSL refuses an output of no bytes.
  if (size === 0) return Buffer.alloc(0);
  return crypto.createHash('shake256', { outputLength: size }).update(seed).digest();
}

// messages yields what connection i sends: the given sizes, then count random ones of at most limit bytes.
function* messages(seed, i, sizes, count, limit) {
  for (let n = 0; n < sizes.length + count; n++) {
    const name = `${seed}/${i}/${n}`;
    const dice = shake(name, 8);
    const size = n < sizes.length ? sizes[n] : Math.floor(limit ** (dice.readUInt32LE(0) / 2 ** 32)) + dice[7] % 2;
    const binary = dice[4] % 2 === 0;
    const fragmented = dice[5] % 4 === 0 && size > 1;
    // Every byte becomes a character of one or two bytes: UTF-8 that can be split in the middle.
    const payload = shake(name, binary ? size : Math.ceil(size / 2));
    yield { n, binary, fragmented, content: binary ? payload : payload.toString('latin1') };
  }
}

// blocks yields a stream of size bytes.
function* blocks(seed, size) {
  const block = shake(String(seed), BLOCK_SIZE);
  for (let index = 0; size > 0; index++) {
    block.writeUInt32LE(index, 0);
    yield Buffer.from(block.subarray(0, Math.min(size, BLOCK_SIZE)));
    size -= BLOCK_SIZE;
  }
}

module.exports = { messages, blocks };
