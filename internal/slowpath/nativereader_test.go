// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"encoding/binary"
	"io"
	"os"
	"os/exec"
	"testing"
)

// Kinds of messages of bpf/test/reader.c.
const (
	nativeRequest uint32 = 1 + iota
	nativeResponse
	nativeHeadResponse
)

// Values of enum scan_flags and enum phase in bpf/lib that these tests ask for.
const (
	nativeChunked = 8
	nativeUpgrade = 16

	nativePhaseHead = 0
)

// nativeAnswer is struct reader_answer of bpf/test/reader.c.
type nativeAnswer struct {
	// Verdict is 0 for a head that the fast path would move.
	Verdict, Head               uint32
	Length                      uint64
	Phase, Status, Flags        uint32
	HostLen, PathLen, PathMarks uint32
	Host, Path                  [256]byte
	BodyBytes                   uint64
	BodyPhase, BodyMalformed    uint32
	// BodyTrailer: what stands behind BodyBytes is the daemon's: a trailer, or what of extensions readers differ about.
	BodyTrailer, _ uint32
}

func (a *nativeAnswer) host() string { return string(a.Host[:a.HostLen]) }

func (a *nativeAnswer) path() string { return string(a.Path[:a.PathLen]) }

// nativeReader is the parser of bpf/lib in a process of its own.
type nativeReader struct {
	t    testing.TB
	to   io.Writer
	from io.Reader
}

// startNative starts the program that XLB_READER names, as scripts/fuzz does. nil: there is none, and the slow path is compared with the other
// readers only.
func startNative(t testing.TB) *nativeReader {
	t.Helper()
	name := os.Getenv("XLB_READER")
	if name == "" {
		t.Log("without the fast path's reader, which scripts/fuzz --check compiles: XLB_READER is not set")
		return nil
	}
	cmd := exec.Command(name)
	cmd.Stderr = os.Stderr
	to, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	from, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("XLB_READER: %v", err)
	}
	t.Cleanup(func() {
		_ = to.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	})
	return &nativeReader{t, to, from}
}

func (r *nativeReader) read(kind uint32, raw []byte) (a nativeAnswer) {
	r.t.Helper()
	message := binary.NativeEndian.AppendUint32(nil, kind)
	message = binary.NativeEndian.AppendUint32(message, uint32(len(raw)))
	if _, err := r.to.Write(append(message, raw...)); err != nil {
		r.t.Fatalf("%q: %v", raw, err)
	}
	if err := binary.Read(r.from, binary.NativeEndian, &a); err != nil {
		r.t.Fatalf("%q: %v", raw, err)
	}
	return a
}
