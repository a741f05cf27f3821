// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httputil"
	"sync"
	"time"

	"github.com/xlb-project/xlb/test/e2e/body"
)

// Transfer is one request with a body each way.
type Transfer struct {
	Seed uint64
	// Upload and Download are body sizes in bytes; an upload of 0 is a GET.
	Upload, Download int64
	// UploadFraming is FramingLength or FramingChunked.
	UploadFraming string
	// DownloadFraming is any of the three.
	DownloadFraming string
	// Crumbs has the origin send the download in writes of crumb bytes.
	Crumbs bool
}

// TransferSpec describes clients that check bodies in both directions against
// the origin's /body.
type TransferSpec struct {
	Address string
	// Style of the system calls, one of the Style constants.
	Style string
	// Clients that share the transfers, one connection each.
	Clients   int
	Transfers []Transfer
	// Timeout of one transfer.
	Timeout time.Duration
	// Pauses has clients stop reading now and then, at random, for up to this long.
	Pauses time.Duration
}

// TransferReport is the program's only answer.
type TransferReport struct {
	Done     int
	Bytes    int64
	Problems []string
	Peers    map[string]int
	Elapsed  time.Duration
	ServedBy map[string]int
}

type transfers struct {
	spec TransferSpec

	mu     sync.Mutex // guards report
	report TransferReport
}

func runTransfer(s *stdio) error {
	if err := quiet(); err != nil {
		return err
	}
	t := &transfers{}
	if err := s.spec(&t.spec); err != nil {
		return err
	}
	t.report.Peers, t.report.ServedBy = map[string]int{}, map[string]int{}
	dial, err := dialerOf(t.spec.Style)
	if err != nil {
		return err
	}
	began := time.Now()
	work := make(chan Transfer)
	var clients sync.WaitGroup
	for range t.spec.Clients {
		clients.Go(func() { t.client(dial, work) })
	}
	for _, transfer := range t.spec.Transfers {
		work <- transfer
	}
	close(work)
	clients.Wait()
	t.report.Elapsed = time.Since(began)
	return s.answer(&t.report)
}

// client works on one connection for as long as that is kept alive.
func (t *transfers) client(dial dialer, work <-chan Transfer) {
	var conn *transferConn
	for transfer := range work {
		reused := conn != nil
		if !reused {
			conn = t.open(dial)
		}
		if conn == nil {
			continue
		}
		keep, err := t.transfer(conn, transfer)
		if err != nil {
			t.problem(fmt.Sprintf("%+v (connection reused: %v): %v", transfer, reused, err))
		}
		if !keep {
			conn.Close()
			conn = nil
		}
	}
	if conn != nil {
		conn.Close()
	}
}

// transferConn pairs a connection with its buffered reader.
type transferConn struct {
	conn
	r *bufio.Reader
}

func (t *transfers) open(dial dialer) *transferConn {
	c, err := dial(t.spec.Address)
	if err != nil {
		t.problem(fmt.Sprintf("connect: %v", err))
		return nil
	}
	peer, err := c.Peer()
	if err != nil {
		t.problem(fmt.Sprintf("getpeername: %v", err))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.report.Peers[peer]++
	return &transferConn{conn: c, r: bufio.NewReaderSize(c, 64<<10)}
}

func (t *transfers) problem(what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.report.Problems = append(t.report.Problems, what)
}

// transfer does one exchange and tells whether the connection can go on.
func (t *transfers) transfer(c *transferConn, what Transfer) (keep bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), t.spec.Timeout)
	defer cancel()
	// A watchdog, because raw descriptors have no deadlines.
	stop := context.AfterFunc(ctx, c.Abort)
	defer stop()
	defer func() {
		if ctx.Err() != nil {
			err = fmt.Errorf("given up by the client after %v: %w", t.spec.Timeout, err)
		}
	}()

	if err := what.send(c); err != nil {
		return false, fmt.Errorf("send: %w", err)
	}
	response, err := http.ReadResponse(c.r, nil)
	if err != nil {
		return false, fmt.Errorf("receive the head: %w", err)
	}
	got := sha256.New()
	n, err := t.receive(got, response.Body, what)
	if err != nil {
		return false, fmt.Errorf("receive the body after %d bytes: %w", n, err)
	}
	t.mu.Lock()
	t.report.Done++
	t.report.Bytes += what.Upload + n
	t.report.ServedBy[response.Header.Get(Identity)]++
	t.mu.Unlock()
	return !response.Close, what.check(response, n, body.Sum(got))
}

// receive reads a body, in pieces of up to a mebibyte where the clients make pauses between them.
func (t *transfers) receive(to io.Writer, from io.Reader, what Transfer) (n int64, err error) {
	if t.spec.Pauses == 0 {
		return io.Copy(to, from)
	}
	random := rand.New(rand.NewPCG(what.Seed, 3))
	for {
		time.Sleep(time.Duration(random.Int64N(int64(t.spec.Pauses))))
		piece, err := io.CopyN(to, from, 1+random.Int64N(1<<(4+random.IntN(17))))
		n += piece
		if errors.Is(err, io.EOF) {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}

// check compares a response with what the transfer asked for.
func (w Transfer) check(response *http.Response, size int64, digest string) error {
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", response.StatusCode)
	}
	var problems []error
	if size != w.Download || digest != body.Digest(w.Seed, w.Download) {
		problems = append(problems, fmt.Errorf("the download differs: got %d bytes, want %d", size, w.Download))
	}
	if got := response.Header.Get(UploadDigest); got != body.Digest(w.Seed+1, w.Upload) {
		problems = append(problems, errors.New("the upload differs"))
	}
	return errors.Join(problems...)
}

// send writes the request in writes of random sizes; the first one may hold
// the head and the beginning of the body.
func (w Transfer) send(c io.Writer) error {
	random := rand.New(rand.NewPCG(w.Seed, 1))
	out := bufio.NewWriterSize(c, 1+random.IntN(32<<10))
	method, framing := "POST", fmt.Sprintf("Content-Length: %d\r\n", w.Upload)
	switch {
	case w.Upload == 0:
		method, framing = "GET", ""
	case w.UploadFraming == FramingChunked:
		framing = "Transfer-Encoding: chunked\r\n"
	}
	fmt.Fprintf(out, "%s /body?seed=%d&size=%d&framing=%s&crumbs=%t HTTP/1.1\r\nHost: e2e.test\r\n%s\r\n",
		method, w.Seed, w.Download, w.DownloadFraming, w.Crumbs, framing)
	if random.IntN(2) == 0 {
		// As most clients do: the head in a write of its own.
		if err := out.Flush(); err != nil {
			return err
		}
	}
	if err := w.sendBody(out, random); err != nil {
		return err
	}
	return out.Flush()
}

func (w Transfer) sendBody(out io.Writer, random *rand.Rand) error {
	if w.Upload == 0 {
		return nil
	}
	upload := body.New(w.Seed+1, w.Upload)
	if w.UploadFraming != FramingChunked {
		return copyInPieces(out, upload, random)
	}
	chunks := httputil.NewChunkedWriter(out)
	if err := copyInPieces(chunks, upload, random); err != nil {
		return err
	}
	if err := chunks.Close(); err != nil {
		return err
	}
	// NewChunkedWriter leaves the trailer section to its caller.
	_, err := io.WriteString(out, "\r\n")
	return err
}
