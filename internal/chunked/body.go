// SPDX-License-Identifier: Apache-2.0

package chunked

import (
	"errors"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// Phase says what the next byte of a body belongs to.
type Phase uint8

const (
	// Size: the digits of a chunk's size, or what ends them.
	Size Phase = iota
	// Ext: the name of an extension, behind ';'.
	Ext
	// ExtName: the rest of the name.
	ExtName
	// ExtEquals: a value, behind '='.
	ExtEquals
	// ExtValue: the rest of a token.
	ExtValue
	// ExtQuoted: the inside of a quoted value.
	ExtQuoted
	// ExtEscape: the byte behind a backslash in it.
	ExtEscape
	// ExtUnquoted: what ends an extension, behind the closing quote.
	ExtUnquoted
	// ExtSpace: whitespace behind a value: another extension comes, or the end of the line.
	ExtSpace
	// ExtNameSpace: whitespace behind a name: '=', another extension or the end of the line comes.
	ExtNameSpace
	// SizeSpace: whitespace behind a size: an extension comes, or the end of the line.
	SizeSpace
	// SizeLF: the LF of a size line.
	SizeLF
	// Data: Remaining bytes of a chunk.
	Data
	// DataCR: the CR behind the data.
	DataCR
	// DataLF: the LF behind the data.
	DataLF
	// TrailerStart: a trailer, or the CR of the last line.
	TrailerStart
	// TrailerName: the rest of a trailer's name.
	TrailerName
	// TrailerValue: its value up to CR.
	TrailerValue
	// TrailerLF: the LF of a trailer.
	TrailerLF
	// LastLF: the LF that ends the body.
	LastLF
	// Done: nothing; the body has ended.
	Done
)

// ErrMalformed is the one error of this package.
var ErrMalformed = errors.New("chunked body is malformed")

const (
	// MaxDigits keeps a chunk's size below 2^60.
	MaxDigits = 15
	// MaxOverhead bounds the bytes of extensions and trailers that a peer can
	// send without getting on: between two chunks' data, or behind the last.
	MaxOverhead = 60 << 10
)

// State is where a body stands. The zero value is its beginning.
type State struct {
	Phase Phase
	// Remaining bytes of the current chunk; in Size, the size as far as read.
	Remaining uint64
	// Digits of the size as far as read.
	Digits int
	// Name of the current trailer as far as read.
	Name []byte
}

// Body follows one body. The zero value stands at its beginning.
type Body struct {
	state State
	// begun: the reader has the beginning of the extensions of this line.
	begun bool
	// overhead counts towards MaxOverhead.
	overhead int
	// onTrailer is told of every trailer, value the bytes of the current one.
	onTrailer func(name, value string)
	value     []byte
}

// New returns a body that goes on from a state. onTrailer is called for each
// trailer, in order, whitespace around its value cut off; it may be nil.
func New(from State, onTrailer func(name, value string)) Body {
	return Body{state: from, begun: ofExtension(from.Phase), onTrailer: onTrailer}
}

// Done reports whether the whole body has been followed.
func (b *Body) Done() bool { return b.state.Phase == Done }

// Left is how many bytes of data come next, all of one chunk; 0 when others do.
func (b *Body) Left() uint64 {
	if b.state.Phase != Data {
		return 0
	}
	return b.state.Remaining
}

// Follow returns how many bytes at the beginning of p belong to the body: all,
// unless it ends in p. On an error it is the number before the offending byte.
func (b *Body) Follow(p []byte) (int, error) {
	at := 0
	for at < len(p) && !b.Done() {
		n, _, err := b.Next(p[at:])
		at += n
		if err != nil {
			return at, err
		}
	}
	return at, nil
}

// Cut is Follow that leaves out what readers differ about, extensions and whitespace behind a size, and trailers, unless these are to pass: the
// bytes of p that are to pass are moved to its beginning, and kept is how many they are. Extensions whose beginning was passed before the body
// was New pass to their end, with a quote closed in place of the first escape.
func (b *Body) Cut(p []byte, trailers bool) (kept, own int, err error) {
	for own < len(p) && !b.Done() {
		if b.state.Phase == Data {
			n := b.skip(len(p) - own)
			if kept != own {
				copy(p[kept:], p[own:own+n])
			}
			kept += n
			own += n
			continue
		}
		c := p[own]
		within := b.state.Phase
		if err := b.step(c); err != nil {
			return kept, own, err
		}
		own++
		if c, passes := b.passes(c, within, trailers); passes {
			p[kept] = c
			kept++
		}
	}
	return kept, own, nil
}

// passes says whether a byte passes that was taken within a phase, and what of it.
func (b *Body) passes(c byte, within Phase, trailers bool) (byte, bool) {
	switch now := b.state.Phase; {
	case ofTrailer(within), ofTrailer(now):
		return c, trailers
	case now == ExtEscape && b.begun:
		b.begun = false
		return '"', true
	case ofExtension(now):
		return c, b.begun
	}
	b.begun = false
	return c, true
}

// ofExtension reports a phase between a size and the end of its line.
func ofExtension(phase Phase) bool { return phase > Size && phase < SizeLF }

// ofTrailer reports a phase in the midst of a trailer: what leads to it, and from it, is one of the trailer's bytes.
func ofTrailer(phase Phase) bool {
	return phase == TrailerName || phase == TrailerValue || phase == TrailerLF
}

// Next follows the first run in p, which is all data or all something else, and
// returns its length. It takes at least one byte unless p is empty, the body has
// ended, or the first byte is an error.
func (b *Body) Next(p []byte) (n int, data bool, err error) {
	if b.state.Phase == Data {
		return b.skip(len(p)), true, nil
	}
	for n < len(p) && b.state.Phase != Data && b.state.Phase != Done {
		if err := b.step(p[n]); err != nil {
			return n, false, err
		}
		n++
	}
	return n, false, nil
}

// skip takes up to n bytes of data.
func (b *Body) skip(n int) int {
	n = int(min(uint64(n), b.state.Remaining))
	b.state.Remaining -= uint64(n)
	if b.state.Remaining == 0 {
		b.state.Phase = DataCR
	}
	return n
}

// step takes one byte that is not data.
func (b *Body) step(c byte) error {
	switch b.state.Phase {
	case Size:
		return b.size(c)
	case SizeLF:
		return b.lineEnd(c)
	case DataCR:
		return b.expect(c, '\r', DataLF)
	case DataLF:
		b.state.Digits = 0
		return b.expect(c, '\n', Size)
	case TrailerLF:
		return b.expect(c, '\n', TrailerStart)
	case LastLF:
		return b.expect(c, '\n', Done)
	}
	if b.overhead++; b.overhead > MaxOverhead {
		return ErrMalformed
	}
	if b.state.Phase < SizeLF {
		return b.extension(c)
	}
	return b.trailer(c)
}

func (b *Body) expect(c, want byte, next Phase) error {
	if c != want {
		return ErrMalformed
	}
	b.state.Phase = next
	return nil
}

// size takes a byte of a chunk's size, or what ends it.
func (b *Body) size(c byte) error {
	if d, ok := digit(c); ok {
		if b.state.Digits++; b.state.Digits > MaxDigits {
			return ErrMalformed
		}
		b.state.Remaining = b.state.Remaining<<4 | d
		return nil
	}
	if b.state.Digits == 0 {
		return ErrMalformed
	}
	return b.endOfExtension(c, SizeSpace)
}

func digit(c byte) (uint64, bool) {
	switch {
	case '0' <= c && c <= '9':
		return uint64(c - '0'), true
	case 'a' <= c && c <= 'f':
		return uint64(c-'a') + 10, true
	case 'A' <= c && c <= 'F':
		return uint64(c-'A') + 10, true
	}
	return 0, false
}

// endOfExtension takes what may stand behind an extension: the end of the line, another extension, or whitespace before that.
func (b *Body) endOfExtension(c byte, behindSpace Phase) error {
	switch {
	case c == ';':
		b.state.Phase = Ext
	case isSpace(c):
		b.state.Phase = behindSpace
	default:
		return b.expect(c, '\r', SizeLF)
	}
	return nil
}

// isSpace reports whitespace that a recipient of extensions has to take (BWS, RFC 9112 section 7.1.1), and what stands at a line's end, which no
// reader takes for another end.
func isSpace(c byte) bool { return c == ' ' || c == '\t' }

// lineEnd ends a size line. Behind a size of 0 come the trailers.
func (b *Body) lineEnd(c byte) error {
	if b.state.Remaining == 0 {
		return b.expect(c, '\n', TrailerStart)
	}
	b.overhead = 0
	return b.expect(c, '\n', Data)
}

// extension takes a byte of a chunk's extensions.
func (b *Body) extension(c byte) error {
	switch b.state.Phase {
	case Ext:
		return b.extensionStart(c)
	case ExtName, ExtNameSpace:
		return b.extensionName(c)
	case ExtEquals:
		switch {
		case isSpace(c):
			return nil
		case c == '"':
			b.state.Phase = ExtQuoted
			return nil
		}
		return b.token(c, ExtValue)
	case ExtQuoted, ExtEscape:
		return b.quoted(c)
	case SizeSpace:
		return b.endOfExtension(c, SizeSpace)
	case ExtValue:
		if isToken(c) {
			return nil
		}
	}
	return b.endOfExtension(c, ExtSpace)
}

// extensionStart takes the beginning of a name, or what stands behind an extension that is empty, which others take too.
func (b *Body) extensionStart(c byte) error {
	if isToken(c) {
		b.state.Phase = ExtName
		return nil
	}
	return b.endOfExtension(c, Ext)
}

// extensionName takes the rest of a name, and what may stand behind it.
func (b *Body) extensionName(c byte) error {
	switch {
	case c == '=':
		b.state.Phase = ExtEquals
		return nil
	case b.state.Phase == ExtName && isToken(c):
		return nil
	}
	return b.endOfExtension(c, ExtNameSpace)
}

func (b *Body) token(c byte, next Phase) error {
	if !isToken(c) {
		return ErrMalformed
	}
	b.state.Phase = next
	return nil
}

// quoted takes a byte of a quoted value (RFC 9110, section 5.6.4). Neither qdtext nor what a backslash escapes may be a control character: the end
// of the line is that of the value's reader and of all others.
func (b *Body) quoted(c byte) error {
	if !isValue(c) {
		return ErrMalformed
	}
	switch {
	case b.state.Phase == ExtEscape:
		b.state.Phase = ExtQuoted
	case c == '\\':
		b.state.Phase = ExtEscape
	case c == '"':
		b.state.Phase = ExtUnquoted
	}
	return nil
}

// trailer takes a byte of the trailer section.
func (b *Body) trailer(c byte) error {
	switch b.state.Phase {
	case TrailerStart:
		if c == '\r' {
			b.state.Phase = LastLF
			return nil
		}
		b.state.Name, b.value = b.state.Name[:0], b.value[:0]
		return b.name(c)
	case TrailerName:
		if c == ':' {
			b.state.Phase = TrailerValue
			return b.named()
		}
		return b.name(c)
	case TrailerValue:
		return b.trailerValue(c)
	}
	return ErrMalformed // a state that is none
}

// name takes a byte of a trailer's name. Where nobody wants the trailer, no more of it
// is kept than decides whether it is allowed.
func (b *Body) name(c byte) error {
	if b.onTrailer != nil || len(b.state.Name) <= maxForbidden {
		b.state.Name = append(b.state.Name, c)
	}
	return b.token(c, TrailerName)
}

func (b *Body) named() error {
	if !trailerAllowed(string(b.state.Name)) {
		return ErrMalformed
	}
	return nil
}

func (b *Body) trailerValue(c byte) error {
	if c == '\r' {
		b.state.Phase = TrailerLF
		if b.onTrailer != nil {
			b.onTrailer(string(b.state.Name), strings.Trim(string(b.value), " \t"))
		}
		return nil
	}
	if b.onTrailer != nil {
		b.value = append(b.value, c)
	}
	if !isValue(c) {
		return ErrMalformed
	}
	return nil
}

func isToken(c byte) bool { return httpguts.IsTokenRune(rune(c)) }

// isValue reports a byte of a field value (RFC 9110, section 5.5).
func isValue(c byte) bool { return c == '\t' || c >= ' ' && c != 0x7f }
