// SPDX-License-Identifier: Apache-2.0

package balance

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"testing"
	"time"
)

func marshal(t *testing.T, config object) []byte {
	t.Helper()
	text, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// servers answers at so many addresses with the address, after a delay.
func servers(t *testing.T, n int, delay time.Duration) []netip.AddrPort {
	t.Helper()
	server := &http.Server{
		ReadHeaderTimeout: time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(delay)
			local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
			_, _ = io.WriteString(w, local.String())
		}),
	}
	t.Cleanup(func() { _ = server.Close() })
	var addresses []netip.AddrPort
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		addresses = append(addresses, netip.MustParseAddrPort(l.Addr().String()))
		go func() { _ = server.Serve(l) }()
	}
	return addresses
}

// ask sends requests one after the other and counts who answers.
func ask(t *testing.T, client *http.Client, listener netip.AddrPort, cluster string, requests int) map[netip.AddrPort]int {
	t.Helper()
	counts := map[netip.AddrPort]int{}
	for range requests {
		response, err := client.Get(fmt.Sprintf("http://%s/%s", listener, cluster))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		switch response.StatusCode {
		case http.StatusOK:
			counts[netip.MustParseAddrPort(string(body))]++
		case http.StatusServiceUnavailable:
			counts[Failed]++
		default:
			t.Fatalf("%s: %s: %s", cluster, response.Status, body)
		}
	}
	return counts
}
