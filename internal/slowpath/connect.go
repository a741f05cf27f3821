// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"
)

// sendConnect connects to an endpoint. Where the route terminates CONNECT, that
// alone makes it a success; otherwise the endpoint is sent the request and asked.
// The response's Body owns the connection. net/http's transport has no part in
// this: it has no CONNECT whose payload can be written after the answer.
func (x *exchange) sendConnect(endpoint netip.AddrPort) (*http.Response, error) {
	conn, err := x.proxy.dial(x.ctx, "tcp", endpoint.String())
	if err != nil {
		return nil, err
	}
	upstream := conn.(*upstreamConn)
	x.upstream.Store(upstream)
	stream := &endpointStream{upstreamConn: upstream, from: upstream}
	// Interrupts the waiting for an answer; the tunnel has its own end.
	stream.detach = context.AfterFunc(x.ctx, func() { _ = upstream.Close() })
	if x.route.TerminateConnect {
		return established(stream), nil
	}
	resp, err := x.askEndpoint(stream)
	if err != nil {
		_ = stream.Close()
		return nil, err
	}
	return resp, nil
}

// established is Envoy's own answer to CONNECT.
func established(stream *endpointStream) *http.Response {
	header := http.Header{"Date": {time.Now().UTC().Format(http.TimeFormat)}}
	return &http.Response{StatusCode: http.StatusOK, Status: "200 OK", Header: header, Body: stream}
}

// askEndpoint forwards CONNECT and reads up to a final head. From a success on
// the stream is the payload, whatever framing the head declares (RFC 9110
// section 9.3.6); any other answer is read as a response is.
func (x *exchange) askEndpoint(stream *endpointStream) (*http.Response, error) {
	if _, err := io.WriteString(stream, x.connectHead()); err != nil {
		return nil, fmt.Errorf("send CONNECT: %w", err)
	}
	limit := &io.LimitedReader{R: stream.upstreamConn, N: int64(x.proxy.config.Limits.HeadBytes)}
	reader := bufio.NewReader(limit)
	resp, err := x.finalHead(reader)
	if err != nil {
		return nil, fmt.Errorf("read answer to CONNECT: %w", err)
	}
	limit.N = math.MaxInt64
	stream.from = reader
	if resp.StatusCode >= http.StatusMultipleChoices {
		stream.from = resp.Body
	}
	resp.Body = stream
	return resp, nil
}

func (x *exchange) connectHead() string {
	var b strings.Builder
	b.WriteString("CONNECT " + x.head.target + " HTTP/1.1\r\nHost: " + x.head.target + "\r\n")
	// A strings.Builder takes everything.
	_ = x.outgoingHeader().WriteSubset(&b, framingFields)
	b.WriteString("\r\n")
	return b.String()
}

// finalHead forwards informational heads. It leaves 101, which is not one of
// them, to the caller.
func (x *exchange) finalHead(r *bufio.Reader) (*http.Response, error) {
	for {
		resp, err := http.ReadResponse(r, x.incoming)
		if err != nil || resp.StatusCode >= http.StatusOK || resp.StatusCode == http.StatusSwitchingProtocols {
			return resp, err
		}
		x.watchdog.progress()
		if !x.head.http10 {
			// A dead client is found by the watchdog or by the final response.
			_ = x.out.informational(x, resp.StatusCode, resp.Header)
		}
	}
}

// establish passes a success on, and what follows it.
func (x *exchange) establish(resp *http.Response) (bool, error) {
	removeHopByHop(resp.Header)
	return x.switchTo(resp.Body.(*endpointStream), resp)
}

// endpointStream is a connection to an endpoint behind the head of its answer.
type endpointStream struct {
	*upstreamConn
	from   io.Reader
	detach func() bool
}

func (s *endpointStream) Read(p []byte) (int, error) { return s.from.Read(p) }

// Close implements io.Closer. The rest of a body is not read.
func (s *endpointStream) Close() error {
	s.detach()
	return s.upstreamConn.Close()
}

var _ net.Conn = (*endpointStream)(nil)
