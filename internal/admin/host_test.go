// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"net/http"
	"strings"
	"testing"
)

// A name that leads here is not enough: whoever made it may run in the user's browser.
func TestOnlyOwnNamesAreAnswered(t *testing.T) {
	address := begin(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), "xlb.test", "Node.Example")
	for host, want := range map[string]int{
		"evil.example": 403, "evil.example:15000": 403, "127.0.0.1.evil.example": 403, "localhost.evil.example": 403, "notlocalhost": 403, "1.2.3": 403,
		"[::1].evil.example": 403, "evil.example.": 403, "sub.xlb.test": 403, "xlb.tes": 403, "0x7f000001": 403,
		"127.0.0.1": 200, "127.0.0.1:15000": 200, "[::1]:15000": 200, "[::1]": 200, "10.1.2.3:15000": 200, "localhost": 200, "LocalHost:15000": 200,
		"localhost.": 200, "a.localhost": 200, "xlb.test": 200, "XLB.test:80": 200, "node.example": 200, "": 200,
	} {
		for name, client := range map[string]*http.Client{"HTTP/1.1": {}, "HTTP/2": {Transport: overHTTP2(t)}} {
			request, err := http.NewRequest(http.MethodGet, "http://"+address+"/config_dump", http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			if host != "" {
				request.Host = host
			}
			answer, err := client.Do(request)
			if err != nil {
				t.Fatalf("%s, Host %q: %v", name, host, err)
			}
			answer.Body.Close()
			if answer.StatusCode != want {
				t.Errorf("%s, Host %q: got %d, want %d", name, host, answer.StatusCode, want)
			}
		}
	}
	if got := askRaw(t, address, "GET / HTTP/1.0\r\n\r\n"); !strings.Contains(got, " 200 ") {
		t.Errorf("without a Host: %q", got)
	}
	if got := askRaw(t, address, "GET http://evil.example/ HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"); !strings.Contains(got, " 403 ") {
		t.Errorf("a target with a name: %q", got)
	}
}
