// SPDX-License-Identifier: Apache-2.0

package chunked

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"net/textproto"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// reading is what a reader makes of bytes that begin with a body.
type reading struct {
	Data     string
	Trailers []string // name, value, name, value ...
	// Own is how many bytes belong to the body.
	Own int
}

// read feeds the bytes in pieces of a length. The error is ErrMalformed, or io.ErrUnexpectedEOF when they end too early.
func read(p string, step int) (got reading, err error) {
	body := New(State{}, func(name, value string) { got.Trailers = append(got.Trailers, name, value) })
	for !body.Done() && got.Own < len(p) {
		piece := []byte(p[got.Own:min(got.Own+step, len(p))])
		n, data, err := body.Next(piece)
		if err != nil {
			return got, err
		}
		if data {
			got.Data += string(piece[:n])
		}
		got.Own += n
	}
	if !body.Done() {
		return got, io.ErrUnexpectedEOF
	}
	return got, nil
}

func TestBodyIsReadStrictlyHoweverItIsCut(t *testing.T) {
	tests := []struct {
		name, bytes, data string
		trailers          []string
		own               int // -1: malformed
	}{
		{"empty", "0\r\n\r\n", "", nil, 5},
		{"chunks", "3\r\nabc\r\nA\r\n0123456789\r\n0\r\n\r\nrest", "abc0123456789", nil, 28},
		{"sizes in both cases and with zeros", "00a;x=y\r\n0123456789\r\n0A\r\n0123456789\r\n000\r\n\r\n", "01234567890123456789", nil, 44},
		{"longest size", "000000000000001\r\na\r\n0\r\n\r\n", "a", nil, 25},
		{"data that looks like framing", "6\r\n\r\n0\r\n\r\r\n0\r\n\r\n", "\r\n0\r\n\r", nil, 16},
		{"extensions", "1;a;b=c;d=\"e f;=\t\x80\";g=\"\"\r\nx\r\n0;z\r\n\r\n", "x", nil, 36},
		{"extensions with whitespace", "5; some; parameters=stuff\r\nhello\r\n0;\ta = b ;c\t=\"d\" ; e\r\n\r\n", "hello", nil, 58},
		{"whitespace behind sizes", "5 ;x\r\nhello\r\n1\t \t\r\na\r\n0 ; y\r\n\r\nmore", "helloa", nil, 31},
		{"whitespace at the ends of lines", "5;a \r\nhello\r\n1;a=b\t\r\nx\r\n1;a=\"b\" \t\r\ny\r\n0;a \r\n\r\n", "helloxy", nil, 46},
		{"empty extensions", "1;\r\na\r\n1; \t\r\nb\r\n1;;\r\nc\r\n1;a;;b ; ;\r\nd\r\n0;\r\n\r\n", "abcd", nil, 45},
		{"escapes", "1;a=\"b\\\"d\"\r\na\r\n1;a=\"\\\\\";b\r\nb\r\n1;a=\"\\\t\\ \\\x80\\d\"\r\nc\r\n0\r\n\r\n", "abc", nil, 54},
		{"an escaped CR is not taken for a value's", "1;a=\"\\\\\"\r\na\r\n0\r\n\r\n", "a", nil, 18},
		{"trailers", "0\r\nA: b\r\nC-9_:d \t\r\na:\r\n\r\nmore", "", []string{"A", "b", "C-9_", "d", "a", ""}, 25},
		{"a forbidden name's beginning", "0\r\nContent-Length-Not: 1\r\n\r\n", "", []string{"Content-Length-Not", "1"}, 28},

		{"size is no number", "x\r\n", "", nil, -1},
		{"size is empty", "\r\n", "", nil, -1},
		{"size is empty before an extension", ";a\r\n", "", nil, -1},
		{"size has a sign", "+1\r\na\r\n", "", nil, -1},
		{"size has an underscore", "1_0\r\n", "", nil, -1},
		{"size has a prefix", "0x1\r\n", "", nil, -1},
		{"size is too long", "0000000000000001\r\na\r\n", "", nil, -1},
		{"bare LF behind a size", "1\na\r\n", "", nil, -1},
		{"two CR behind a size", "1\r\r\na\r\n", "", nil, -1},
		{"data is longer than its size", "1\r\nab\r\n", "", nil, -1},
		{"bare LF behind data", "1\r\na\n0\r\n\r\n", "", nil, -1},
		{"whitespace in a name", "1;a b\r\na\r\n", "", nil, -1},
		{"whitespace in a value", "1;a=b c\r\na\r\n", "", nil, -1},
		{"extension without a value behind whitespace", "1;a= \r\na\r\n", "", nil, -1},
		{"whitespace in a size", "1 0\r\n", "", nil, -1},
		{"whitespace before a size", " 1\r\na\r\n", "", nil, -1},
		{"whitespace in place of a size", " ;a\r\na\r\n", "", nil, -1},
		{"whitespace behind a size, and a word", "1 a\r\na\r\n", "", nil, -1},
		{"whitespace behind a size, and CR CR", "1 \r\r\na\r\n", "", nil, -1},
		{"whitespace behind a size, and LF", "1 \na\r\n", "", nil, -1},
		{"'=' behind a size", "1 =a\r\na\r\n", "", nil, -1},
		{"LF behind whitespace", "1 \n;a\r\na\r\n", "", nil, -1},
		{"extension without a value", "1;a=\r\na\r\n", "", nil, -1},
		{"extension with two values", "1;a=b=c\r\na\r\n", "", nil, -1},
		{"extension with an open quote", "1;a=\"b\r\na\r\n", "", nil, -1},
		{"extension with a quote that an escape leaves open", "1;a=\"b\\\"\r\na\r\n", "", nil, -1},
		{"escaped CR", "1;a=\"\\\r\n\"\r\na\r\n", "", nil, -1},
		{"escaped LF", "1;a=\"\\\n\"\r\na\r\n", "", nil, -1},
		{"escaped NUL", "1;a=\"\\\x00\"\r\na\r\n", "", nil, -1},
		{"escaped DEL", "1;a=\"\\\x7f\"\r\na\r\n", "", nil, -1},
		{"CR in a quoted value", "1;a=\"\r\na\r\n\"\r\n", "", nil, -1},
		{"LF in a quoted value", "1;a=\"\n\"\r\na\r\n", "", nil, -1},
		{"escape in a token", "1;a=b\\;c\r\na\r\n", "", nil, -1},
		{"escape in a name", "1;a\\=b\r\na\r\n", "", nil, -1},
		{"extension without a name", "1;=b\r\na\r\n", "", nil, -1},
		{"quoted name", "1;\"a\"\r\na\r\n", "", nil, -1},
		{"bare CR behind an empty extension", "1;\r\r\na\r\n", "", nil, -1},
		{"bare LF behind an empty extension", "1;\na\r\n", "", nil, -1},
		{"vertical tab behind a size", "1\v\r\na\r\n", "", nil, -1},
		{"NUL behind an empty extension", "1;\x00\r\na\r\n", "", nil, -1},
		{"LF behind whitespace at the end of the line", "1;a \na\r\n", "", nil, -1},
		{"extension behind a quote", "1;a=\"b\"c\r\na\r\n", "", nil, -1},
		{"extension with a quote inside", "1;a=b\"c\"\r\na\r\n", "", nil, -1},
		{"extension with NUL", "1;a\x00\r\na\r\n", "", nil, -1},
		{"quoted DEL", "1;a=\"\x7f\"\r\na\r\n", "", nil, -1},
		{"trailer without a colon", "0\r\nabc\r\n\r\n", "", nil, -1},
		{"trailer without a name", "0\r\n: b\r\n\r\n", "", nil, -1},
		{"trailer with a space in its name", "0\r\na b: c\r\n\r\n", "", nil, -1},
		{"trailer with a space behind its name", "0\r\na : c\r\n\r\n", "", nil, -1},
		{"folded trailer", "0\r\n a: c\r\n\r\n", "", nil, -1},
		{"trailer with NUL", "0\r\na: \x00\r\n\r\n", "", nil, -1},
		{"bare CR in a trailer", "0\r\na: \rb\r\n\r\n", "", nil, -1},
		{"trailer about framing", "0\r\nTransfer-Encoding: chunked\r\n\r\n", "", nil, -1},
		{"bare LF at the end", "0\r\n\n", "", nil, -1},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			for step := 1; step <= len(tc.bytes); step++ {
				got, err := read(tc.bytes, step)
				if tc.own < 0 {
					if !errors.Is(err, ErrMalformed) {
						t.Fatalf("in steps of %d: read as %+v, %v", step, got, err)
					}
					continue
				}
				want := reading{tc.data, tc.trailers, tc.own}
				if diff := cmp.Diff(want, got); err != nil || diff != "" {
					t.Fatalf("in steps of %d: %v (-want +got):\n%s", step, err, diff)
				}
			}
		})
	}
}

func TestCutLeavesOutWhatReadersDifferAboutHoweverTheBodyIsCut(t *testing.T) {
	for _, tc := range []struct{ name, bytes, want string }{
		{"nothing", "1\r\na\r\n0\r\n\r\nmore", "1\r\na\r\n0\r\n\r\n"},
		{"extensions", "1;x=y\r\na\r\n2;a=\"b\\\"d\"\r\n;;\r\n1;\r\nb\r\n0; \t;\r\n\r\nmore", "1\r\na\r\n2\r\n;;\r\n1\r\nb\r\n0\r\n\r\n"},
		{"some", "1\r\na\r\n2\r\nbc\r\n0;z\r\nA: b\r\nAuthorization:c\r\nd:\r\n\r\nmore", "1\r\na\r\n2\r\nbc\r\n0\r\n\r\n"},
		{"whitespace behind sizes", "5 ;x; y\r\nhello\r\n1 \t\r\na\r\n3\r\n1 ;\r\n0 \t;z\r\nA: b\r\n\r\nmore", "5\r\nhello\r\n1\r\na\r\n3\r\n1 ;\r\n0\r\n\r\n"},
		{"data that looks like them", "b\r\n0\r\nA: b\r\n\r\n\r\n0\r\nA: b\r\n\r\n", "b\r\n0\r\nA: b\r\n\r\n\r\n0\r\n\r\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for step := 1; step <= len(tc.bytes); step++ {
				var body Body
				got, at := "", 0
				for !body.Done() {
					piece := []byte(tc.bytes[at:min(at+step, len(tc.bytes))])
					kept, own, err := body.Cut(piece, false)
					if err != nil {
						t.Fatal(err)
					}
					got += string(piece[:kept])
					at += own
				}
				if end := len(strings.TrimSuffix(tc.bytes, "more")); got != tc.want || at != end {
					t.Fatalf("in steps of %d: %d bytes, of which %q passes; want %d, %q", step, at, got, end, tc.want)
				}
			}
		})
	}
}

// The kernel has passed the beginning of a line, whose rest is here.
func TestCutEndsExtensionsWhoseBeginningHasPassed(t *testing.T) {
	for _, tc := range []struct {
		name        string
		phase       Phase
		bytes, want string
	}{
		{"a name", Ext, " a;b\r\n", " a;b\r\n"},
		{"no name", Ext, "\r\n", "\r\n"},
		{"the rest of a name", ExtName, "a = b\r\n", "a = b\r\n"},
		{"behind a name", ExtNameSpace, " ;c\r\n", " ;c\r\n"},
		{"a value", ExtEquals, "b;c=\"d\"\r\n", "b;c=\"d\"\r\n"},
		{"the rest of a value", ExtValue, "b ;c\r\n", "b ;c\r\n"},
		{"the rest of a quoted value", ExtQuoted, "b;\";c\r\n", "b;\";c\r\n"},
		{"an escape", ExtQuoted, "b\\\"c\";d=\"\\\"\"\r\n", "b\"\r\n"},
		{"an escape in the next value", ExtUnquoted, ";d=\"\\\"\"\r\n", ";d=\"\"\r\n"},
		{"whitespace at the end", ExtSpace, " \r\n", " \r\n"},
		{"behind a size", Size, ";a\r\n", "\r\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			whole, want := tc.bytes+"x\r\n1;z=\"\\y\"\r\ny\r\n0;\r\n\r\n", tc.want+"x\r\n1\r\ny\r\n0\r\n\r\n"
			for step := 1; step <= len(whole); step++ {
				body, got := New(State{Phase: tc.phase, Remaining: 1, Digits: 1}, nil), ""
				for at := 0; !body.Done(); {
					piece := []byte(whole[at:min(at+step, len(whole))])
					kept, own, err := body.Cut(piece, false)
					if err != nil {
						t.Fatal(err)
					}
					got += string(piece[:kept])
					at += own
				}
				if got != want {
					t.Fatalf("in steps of %d: %q passes, want %q", step, got, want)
				}
			}
		})
	}
}

func TestFollowStopsBeforeTheOffendingByte(t *testing.T) {
	var body Body
	if n, err := body.Follow([]byte("1\r\nax\r\n")); n != 4 || !errors.Is(err, ErrMalformed) {
		t.Errorf("got %d, %v", n, err)
	}
}

func TestEveryForbiddenTrailerIsRefusedWhateverItsCase(t *testing.T) {
	for name := range forbidden {
		for _, written := range []string{name, strings.ToUpper(name), textproto.CanonicalMIMEHeaderKey(name)} {
			if _, err := read("0\r\n"+written+": x\r\n\r\n", 5); !errors.Is(err, ErrMalformed) {
				t.Errorf("%s: %v", written, err)
			}
		}
		if len(name) > maxForbidden {
			t.Errorf("%s is longer than maxForbidden", name)
		}
	}
}

func TestForbiddenTrailersAreKnownWithoutTheirValues(t *testing.T) {
	var body Body // keeps no more of a name than it must
	if _, err := body.Follow([]byte("0\r\ntransfer-encoding: x\r\n\r\n")); !errors.Is(err, ErrMalformed) {
		t.Errorf("got %v", err)
	}
	body = Body{}
	if _, err := body.Follow([]byte("0\r\ntransfer-encodings: x\r\n\r\n")); err != nil || !body.Done() {
		t.Errorf("got %v, done %t", err, body.Done())
	}
}

func TestOverheadIsBounded(t *testing.T) {
	// Read by pieces, each of which could go on for ever.
	tests := []struct {
		name, first, again string
		endless            bool
	}{
		{"extension's name", "1;", "aaaaaaaa", true},
		{"extensions", "1", ";a=b;c", true},
		{"whitespace behind a size", "1", " \t", true},
		{"quoted extension", "1;a=\"", "        ", true},
		{"escapes", "1;a=\"", "\\\"\\\\", true},
		{"empty extensions", "1", "; ;", true},
		{"trailer's name", "0\r\n", "aaaaaaaa", true},
		{"trailer's value", "0\r\na:", "aaaaaaaa", true},
		{"trailers", "0\r\n", "a: b\r\n", true},
		{"extensions of chunks with data", "", "1;chunk-signature=0123456789abcdef\r\na\r\n", false},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			body, followed := Body{}, 0
			piece := []byte(tc.first)
			for followed < 2*MaxOverhead {
				n, err := body.Follow(piece)
				followed += n
				if err != nil {
					break
				}
				piece = []byte(tc.again)
			}
			if endless := followed < MaxOverhead+MaxOverhead/2; endless != tc.endless {
				t.Errorf("followed %d bytes", followed)
			}
			if tc.endless && followed < MaxOverhead {
				t.Errorf("refused after %d bytes, less than %d", followed, MaxOverhead)
			}
		})
	}
}

// FuzzBody: what is accepted is cut alike in pieces of any length, and what passes of it is read alike
// by net/http, which accepts more.
func FuzzBody(f *testing.F) {
	for _, s := range []string{
		"0\r\n\r\n", "3\r\nabc\r\n0\r\n\r\nGET", "A;a;b=c;d=\"e; f\"\r\n0123456789\r\n00\r\nX: y \r\nx:\r\n\r\n", "1;a=\"\\\"\r\na\r\n", "0\r\nContent-Length: 1\r\n\r\n",
		"3 ;x\r\nabc\r\n0 \t\r\n\r\nGET", "1;a=\"b\\\"d\"\r\na\r\n0;;\r\n\r\n", "1;a \r\na\r\n0; \r\n\r\n",
	} {
		f.Add(s, 1)
	}
	f.Fuzz(func(t *testing.T, p string, step int) {
		if len(p) > 4<<10 {
			return // net/http has a limit of its own for lines
		}
		whole, wholeErr := read(p, max(len(p), 1))
		cut, cutErr := read(p, min(max(step, 1), len(p)+1))
		if !errors.Is(cutErr, wholeErr) || wholeErr == nil && !cmp.Equal(whole, cut) {
			t.Fatalf("%q: whole %+v (%v), cut %+v (%v)", p, whole, wholeErr, cut, cutErr)
		}
		if wholeErr != nil {
			return
		}
		passed, body := []byte(p), Body{}
		kept, own, err := body.Cut(passed, true)
		if err != nil || own != whole.Own {
			t.Fatalf("%q: %d bytes are followed, %v, want %d", p, own, err, whole.Own)
		}
		whole.Own = kept
		if diff := cmp.Diff(readByNetHTTP(t, string(passed[:kept])+"GET"), sorted(whole)); diff != "" {
			t.Fatalf("%q (-net/http +ours):\n%s", p, diff)
		}
	})
}

func readByNetHTTP(t *testing.T, p string) reading {
	t.Helper()
	r := bufio.NewReader(strings.NewReader("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + p))
	request, err := http.ReadRequest(r)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(request.Body)
	if err != nil {
		t.Fatalf("net/http refuses %q: %v", p, err)
	}
	rest, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	got := reading{Data: string(data), Own: len(p) - len(rest)}
	for name, values := range request.Trailer {
		for _, v := range values {
			got.Trailers = append(got.Trailers, name, v)
		}
	}
	return sorted(got)
}

// sorted puts trailers of one name behind each other, as a header holds them.
func sorted(r reading) reading {
	pairs := slices.Collect(slices.Chunk(r.Trailers, 2))
	for _, pair := range pairs {
		pair[0] = textproto.CanonicalMIMEHeaderKey(pair[0])
	}
	slices.SortStableFunc(pairs, func(a, b []string) int { return strings.Compare(a[0], b[0]) })
	r.Trailers = slices.Concat(pairs...)
	return r
}
