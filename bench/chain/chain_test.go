// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/tcptest"
)

func TestHeadsAreReadWithTheLengthOfTheirBody(t *testing.T) {
	tests := []struct {
		name, text string
		length     int
		fails      bool
	}{
		{"no body", "GET / HTTP/1.1\r\nHost: a\r\n\r\n", 0, false},
		{"a body", "POST / HTTP/1.1\r\ncontent-LENGTH:  12 \r\n\r\n", 12, false},
		{"a bad length", "POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 0, true},
		{"chunks", "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 0, true},
		{"an end too soon", "GET / HTTP/1.1\r\nHost", 0, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			first, length, err := ReadHead(bufio.NewReader(strings.NewReader(tt.text)))
			if (err != nil) != tt.fails || length != tt.length {
				t.Errorf("ReadHead() = %q, %d, %v, want %d, failure %v", first, length, err, tt.length, tt.fails)
			}
			if err == nil && !strings.HasPrefix(tt.text, string(first)) {
				t.Errorf("the first line is %q", first)
			}
		})
	}
}

func serve(t *testing.T, o Options) {
	t.Helper()
	stopped := make(chan error)
	go func() { stopped <- Serve(t.Context(), o) }()
	t.Cleanup(func() {
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	})
	for deadline := time.Now().Add(10 * time.Second); ; {
		response, err := http.Get("http://" + o.Listen.String() + HerePath)
		if err == nil {
			response.Body.Close()
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

func TestAnswersComeBackThroughTheChain(t *testing.T) {
	last := Options{Listen: tcptest.FreeAddress(t), Count: 2, Body: 5}
	serve(t, last)
	// The second address of the last service is asked.
	middle := Options{Listen: tcptest.FreeAddress(t), Count: 1, Next: Addresses(last.Listen, 2)[1]}
	serve(t, middle)
	front := Options{Listen: tcptest.FreeAddress(t), Count: 1, Next: middle.Listen}
	serve(t, front)
	for range 2 {
		response, err := http.Post("http://"+front.Listen.String()+"/", "text/plain", strings.NewReader(strings.Repeat("y", 100_000)))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || response.StatusCode != http.StatusOK || string(body) != "xxxxx" {
			t.Errorf("the answer is %s %q, %v, want that of the last service", response.Status, body, err)
		}
	}
}

func TestChainThatIsBrokenAnswersSo(t *testing.T) {
	o := Options{Listen: tcptest.FreeAddress(t), Count: 1, Next: tcptest.Refusing(t)}
	serve(t, o)
	response, err := http.Get("http://" + o.Listen.String() + "/")
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusBadGateway {
		t.Errorf("the answer is %s, want 502", response.Status)
	}
}

func TestAwaitWaitsForTheLastService(t *testing.T) {
	o := Options{Listen: tcptest.FreeAddress(t), Count: 2}
	serve(t, o)
	begin := time.Now()
	if have, err := Await(t.Context(), Addresses(o.Listen, 2)); err != nil || have.Count != 2 || have.At.Before(begin) {
		t.Errorf("Await() = %+v, %v", have, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if have, err := Await(ctx, Addresses(o.Listen, 3)); err == nil || have.Count != 2 {
		t.Errorf("Await() = %+v, %v, want an error and the two before the third service", have, err)
	}
}

func TestOptionsWithoutSenseAreRefused(t *testing.T) {
	if err := Serve(t.Context(), Options{}); err == nil {
		t.Error("a service without an address serves")
	}
}
