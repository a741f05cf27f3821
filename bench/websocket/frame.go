// SPDX-License-Identifier: Apache-2.0

// Package websocket measures the round trip of messages over WebSocket
// connections that stay open, and is the server that returns them.
//
// It speaks no more of RFC 6455 than that: final frames with data, and a close
// frame. A library's own work would be the larger part of what is measured.
package websocket

import (
	"bufio"
	"crypto/sha1" // RFC 6455 asks for it; nothing is secured by it
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
)

const (
	opcodeBinary = 2
	opcodeClose  = 8

	finalBit  = 0x80
	maskBit   = 0x80
	lengthOf2 = 126 // the length follows in two bytes
	maskSize  = 4

	// MaxMessage is the largest payload in bytes; its length fits in two bytes.
	MaxMessage = 1<<16 - 1
	// maxHead is the longest head of a frame with such a payload.
	maxHead = 4 + maskSize
)

// frame is what a head says of a frame.
type frame struct {
	opcode byte
	length int
	// mask is empty when the payload is as it is.
	mask []byte
}

// readHead reads the head of a frame; head is scratch space of maxHead bytes,
// and the mask lies in it.
func readHead(r io.Reader, head []byte) (frame, error) {
	if _, err := io.ReadFull(r, head[:2]); err != nil {
		return frame{}, err
	}
	if head[0]&finalBit == 0 {
		return frame{}, fmt.Errorf("frame %#x is not final: messages come whole here", head[0])
	}
	f := frame{opcode: head[0] &^ finalBit, length: int(head[1] &^ maskBit)}
	masked, have := head[1]&maskBit != 0, 2
	switch {
	case f.length > lengthOf2:
		return frame{}, fmt.Errorf("frame of more than %d bytes", MaxMessage)
	case f.length == lengthOf2:
		if _, err := io.ReadFull(r, head[2:4]); err != nil {
			return frame{}, err
		}
		f.length, have = int(binary.BigEndian.Uint16(head[2:])), 4
	}
	if !masked {
		return f, nil
	}
	f.mask = head[have : have+maskSize]
	_, err := io.ReadFull(r, f.mask)
	return f, err
}

// readPayload reads a frame's payload into buffer and takes the mask away.
func readPayload(r io.Reader, f frame, buffer []byte) ([]byte, error) {
	payload := buffer[:f.length]
	if _, err := io.ReadFull(r, payload); err != nil {
		return nil, err
	}
	if f.mask != nil {
		applyMask(payload, f.mask)
	}
	return payload, nil
}

// applyMask is its own inverse.
func applyMask(payload, mask []byte) {
	for i := range payload {
		payload[i] ^= mask[i%maskSize]
	}
}

// appendFrame appends a final frame; with a mask, as clients must, without one,
// as servers must.
func appendFrame(to []byte, opcode byte, payload, mask []byte) []byte {
	bit := byte(0)
	if mask != nil {
		bit = maskBit
	}
	to = append(to, finalBit|opcode)
	if len(payload) < lengthOf2 {
		to = append(to, bit|byte(len(payload)))
	} else {
		to = append(to, bit|lengthOf2)
		to = binary.BigEndian.AppendUint16(to, uint16(len(payload)))
	}
	to = append(to, mask...)
	begin := len(to)
	to = append(to, payload...)
	if mask != nil {
		applyMask(to[begin:], mask)
	}
	return to
}

// acceptOf answers a client's key (RFC 6455, section 4.2.2).
func acceptOf(key string) string {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// newReader buffers as much as the largest frame has.
func newReader(r io.Reader) *bufio.Reader { return bufio.NewReaderSize(r, maxHead+MaxMessage) }
