// SPDX-License-Identifier: Apache-2.0

package health

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/xlb-project/xlb/internal/limits"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/rewrite"
)

// Probe asks one endpoint, again and again, one attempt at a time.
type Probe struct {
	config *model.HealthCheck
	// address is where it connects to, host what the Host field says.
	address, host string
	transport     *http.Transport
	connect       func(ctx context.Context) (net.Conn, error)
	// conn is a TCP check's, kept between attempts; nil: the next one connects.
	conn net.Conn
}

// Dial connects to an address in the way in which requests are sent to the endpoint.
type Dial func(ctx context.Context, to netip.AddrPort) (net.Conn, error)

// NewProbe returns the probe of one endpoint of that cluster Dial nil connects in plain text. Close ends it.
func NewProbe(config *model.HealthCheck, cluster string, e model.Endpoint, dial Dial) *Probe {
	to := checkAddress(e)
	p := &Probe{config: config, address: to.String(), host: cluster}
	p.connect = func(ctx context.Context) (net.Conn, error) {
		if dial != nil {
			return dial(ctx, to)
		}
		var d net.Dialer
		return d.DialContext(ctx, "tcp", p.address)
	}
	if config.HTTP == nil {
		return p
	}
	for _, host := range []string{config.HTTP.Host, e.Check.Hostname} {
		if host != "" {
			p.host = host
		}
	}
	p.transport = &http.Transport{
		DialContext:        func(ctx context.Context, _, _ string) (net.Conn, error) { return p.connect(ctx) },
		DisableCompression: true,
		// Envoy's bound of a response's head.
		MaxResponseHeaderBytes: int64(limits.HealthHTTP.HeadBytes),
		DisableKeepAlives:      !config.ReuseConnection,
		MaxConnsPerHost:        1,
	}
	return p
}

// checkAddress is the endpoint's, or what is configured in its place.
func checkAddress(e model.Endpoint) netip.AddrPort {
	ip, port := e.Address.Addr(), e.Address.Port()
	if own := e.Check.Address.Addr(); own.IsValid() {
		ip = own
	}
	if own := e.Check.Address.Port(); own != 0 {
		port = own
	}
	return netip.AddrPortFrom(ip, port)
}

// Attempt asks once, for at most the check's timeout. The error says what was wrong; it is nil exactly when the attempt has passed.
func (p *Probe) Attempt(ctx context.Context) (Result, error) {
	ctx, cancel := context.WithTimeout(ctx, p.config.Timeout)
	defer cancel()
	if p.config.HTTP != nil {
		return p.ask(ctx)
	}
	err := p.exchange(ctx)
	if err != nil || !p.config.ReuseConnection {
		p.hangUp()
	}
	return failureOf(err), err
}

// Close ends what is kept between attempts.
func (p *Probe) Close() {
	p.hangUp()
	if p.transport != nil {
		p.transport.CloseIdleConnections()
	}
}

// failureOf tells a time that was up from other failures.
func failureOf(err error) Result {
	switch {
	case err == nil:
		return Passed
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return TimedOut
	}
	return Unreachable
}

// ---- HTTP ----

// ask sends the request and reads the whole answer. It follows no redirect: that is the answer.
func (p *Probe) ask(ctx context.Context) (Result, error) {
	resp, err := p.transport.RoundTrip(p.request(ctx))
	if err != nil {
		return failureOf(err), err
	}
	n, err := io.CopyN(io.Discard, resp.Body, int64(limits.HealthHTTP.BodyBytes)+1)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if n > int64(limits.HealthHTTP.BodyBytes) {
		err = fmt.Errorf("it has more than %d bytes; let the endpoint answer health checks in short", limits.HealthHTTP.BodyBytes)
	}
	// What is wrong with the rest was found by reading it.
	_ = resp.Body.Close()
	if err != nil {
		return failureOf(err), fmt.Errorf("read answer: %w", err)
	}
	return p.judge(resp)
}

func (p *Probe) request(ctx context.Context) *http.Request {
	c := p.config.HTTP
	r := &http.Request{
		Method: c.Method,
		// Opaque: the path is sent as it is written.
		URL:    &url.URL{Scheme: "http", Host: p.address, Opaque: c.Path},
		Host:   p.host,
		Header: http.Header{"User-Agent": {"Envoy/HC"}},
	}
	changeHeader(r.Header, &c.Changes)
	return r.WithContext(ctx)
}

// changeHeader applies changes of which all values are literal.
func changeHeader(h http.Header, changes *rewrite.HeaderChanges) {
	for _, name := range changes.Remove {
		h.Del(name)
		if name == "user-agent" {
			// Absent, net/http would send its own.
			h["User-Agent"] = nil
		}
	}
	for _, s := range changes.Set {
		value, present := literal(s.Value), len(h.Values(s.Name)) > 0
		switch {
		case value == "" && !s.KeepEmpty:
		case s.How == rewrite.AppendOrAdd, s.How == rewrite.AddIfAbsent && !present:
			h.Add(s.Name, value)
		case s.How == rewrite.OverwriteOrAdd, s.How == rewrite.OverwriteIfExists && present:
			h.Set(s.Name, value)
		}
	}
}

func literal(f rewrite.Format) string {
	var text strings.Builder
	for _, part := range f.Parts {
		text.WriteString(part.Text)
	}
	return text.String()
}

func (p *Probe) judge(resp *http.Response) (Result, error) {
	c := p.config.HTTP
	switch {
	case !within(c.Expected, resp.StatusCode) && within(c.Retriable, resp.StatusCode):
		return Retriable, fmt.Errorf("status %d", resp.StatusCode)
	case !within(c.Expected, resp.StatusCode):
		return Failed, fmt.Errorf("status %d", resp.StatusCode)
	case len(resp.Header.Values("x-envoy-degraded")) > 0:
		return PassedDegraded, nil
	}
	return Passed, nil
}

func within(ranges []model.StatusRange, status int) bool {
	return slices.ContainsFunc(ranges, func(r model.StatusRange) bool { return r.First <= status && status < r.Behind })
}

// ---- TCP ----

// exchange connects, sends, and reads until the expected blocks have come. A check that expects nothing is done when it has
// connected; as in Envoy it hangs up and does not wait for what it has to send.
func (p *Probe) exchange(ctx context.Context) error {
	c := p.config.TCP
	if err := p.dial(ctx); err != nil {
		return err
	}
	if len(c.Receive) == 0 {
		p.hangUp()
		return nil
	}
	conn := p.conn
	if err := conn.SetDeadline(time.Time{}); err != nil {
		return err
	}
	// Reads and writes that wait fail with the time that is up.
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	if _, err := p.conn.Write(c.Send); err != nil {
		return err
	}
	return p.expect(c.Receive)
}

func (p *Probe) dial(ctx context.Context) (err error) {
	if p.conn == nil {
		p.conn, err = p.connect(ctx)
	}
	return err
}

func (p *Probe) expect(blocks [][]byte) error {
	var answer []byte
	buffer := make([]byte, 4<<10)
	for !inOrder(answer, blocks) {
		if len(answer) > limits.HealthTCP.BodyBytes {
			return fmt.Errorf("%d bytes have come without what is expected", len(answer))
		}
		n, err := p.conn.Read(buffer)
		answer = append(answer, buffer[:n]...)
		if err != nil && !inOrder(answer, blocks) {
			return err
		}
	}
	return nil
}

// inOrder reports whether the blocks lie in b one behind the other, whatever is between them.
func inOrder(b []byte, blocks [][]byte) bool {
	for _, block := range blocks {
		i := bytes.Index(b, block)
		if i < 0 {
			return false
		}
		b = b[i+len(block):]
	}
	return true
}

func (p *Probe) hangUp() {
	if p.conn == nil {
		return
	}
	// Nothing is lost with it.
	_ = p.conn.Close()
	p.conn = nil
}
