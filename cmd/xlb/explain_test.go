// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/xlb-project/xlb/internal/explain"
)

func TestExplainPrintsAnAccount(t *testing.T) {
	tests := []struct {
		name string
		args []string
		code int
	}{
		{"lost", []string{"GET", "http://www.shop.test/buy?x=1", "-H", "Cookie: lane=slow", "-H", "x-age: 33", "--listener", "web", "--draw", "57"}, exitOK},
		{"fraction", []string{"GET", "http://shop.test/buy", "--listener", "web", "--draw", "5"}, exitOK},
		{"fast", []string{"GET", "http://shop.test/buy", "-H", "x-canary: yes", "--listener", "web", "--draw", "57"}, exitOK},
		{"grpc", []string{"POST", "http://shop.test/buy", "-H", "content-type: application/grpc", "--listener", "web", "--draw", "57"}, exitOK},
		{"regex", []string{"GET", "http://shop.test/item/7", "--listener", "127.80.0.1:8080", "--draw", "57"}, exitOK},
		{"redirect", []string{"GET", "http://127.80.0.1:8080/old/x", "-H", "host: shop.test", "--draw", "57"}, exitOK},
		{"direct-response", []string{"GET", "http://shop.test/items", "--listener", "web", "--draw", "57"}, exitOK},
		{"cluster-header", []string{"GET", "http://shop.test/any", "-H", "x-cluster: web", "--listener", "web", "--draw", "57"}, exitOK},
		{"no-cluster", []string{"GET", "http://shop.test/any", "-H", "x-cluster: other", "--listener", "web", "--draw", "57"}, exitOK},
		{"connect", []string{"CONNECT", "http://shop.test:443", "--listener", "web", "--draw", "57"}, exitOK},
		{"refused", []string{"CONNECT", "http://shop.test", "--listener", "web", "--draw", "57"}, exitFailure},
		{"refused-coding", []string{"POST", "http://shop.test/buy", "-H", "transfer-encoding: gzip", "--listener", "web", "--draw", "57"}, exitFailure},
		{"method", []string{"PURGE", "http://a.test/only/x", "--listener", "web", "--draw", "57"}, exitOK},
		{"rewrite", []string{"GET", "http://a.test/only/x", "--listener", "web", "--draw", "57"}, exitOK},
		{"stripped-host", []string{"GET", "http://shop.test:8080/", "--listener", "stripped", "--draw", "57"}, exitOK},
		{"normalized", []string{"GET", "http://shop.test/item/../buy", "--listener", "web", "--draw", "57"}, exitOK},
		{"path-redirected", []string{"GET", "http://shop.test/item%2F7?x=%2f", "--listener", "web", "--draw", "57"}, exitOK},
		{"path-refused", []string{"GET", "http://shop.test/item/%00", "--listener", "web", "--draw", "57"}, exitOK},
		{"subsets", []string{"GET", "http://stages.example/", "--listener", "web", "--draw", "95"}, exitOK},
		{"subset-fallback", []string{"GET", "http://stages.example/lost", "--listener", "web", "--draw", "57"}, exitOK},
		{"tls", []string{"GET", "http://mesh.example/", "--listener", "web", "--draw", "57"}, exitOK},
		{"tls-mixed", []string{"GET", "http://mesh.example/mixed", "--listener", "web", "--draw", "57"}, exitOK},
		{"no-route", []string{"GET", "http://a.test/", "--listener", "web", "--draw", "57"}, exitFailure},
		{"no-virtual-host", []string{"GET", "http://127.80.0.1:8080/", "--draw", "57"}, exitFailure},
		{"json", []string{"GET", "http://www.shop.test/buy?x=1", "-H", "Cookie: lane=slow", "--listener", "web", "--draw", "57", "-o", "json"}, exitOK},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			code, stdout, stderr := call(t, append([]string{"explain", "--config", "testdata/explain.yaml"}, tt.args...)...)
			if code != tt.code {
				t.Errorf("code: got %d, want %d", code, tt.code)
			}
			compareOutput(t, "explain-"+tt.name+".txt", stdout+stderr)
		})
	}
}

func TestExplainAsksTheDaemon(t *testing.T) {
	address := adminAPI(t)
	var answer explain.Answer
	decode(t, &answer, "explain", "GET", "http://127.80.0.1:8080/buy", "-H", "x-canary: yes", "-H", "x-other: &=%", "--draw", "7", "--admin", address, "-o", "json")
	if answer.Winner != 1 || answer.Request.Draw != 7 || len(answer.Action.Clusters) != 2 {
		t.Errorf("got %+v", answer)
	}
	code, stdout, stderr := call(t, "explain", "GET", "http://127.80.0.1:8080/x", "--admin", address)
	if code != exitOK || stderr != "" || !strings.Contains(stdout, "\nfast path ") {
		t.Errorf("code %d, stderr %q, stdout:\n%s", code, stderr, stdout)
	}
}

func TestExplainSaysWhatIsWrongWithTheQuestion(t *testing.T) {
	address := adminAPI(t)
	file := []string{"--config", "testdata/explain.yaml"}
	live := []string{"--admin", address}
	const want = "want http://host[:port]/path; listeners take plain HTTP"
	tests := []struct {
		args, where []string
		want        string
	}{
		{[]string{"GET"}, file, "explain: want a method and a URL, as in: xlb explain GET http://127.80.0.1:8080/cart; see: xlb explain --help"},
		{[]string{"G T", "http://a/"}, live, `method "G T": want a method such as GET`},
		{[]string{"GET", "https://a/"}, live, `url "https://a/": ` + want},
		{[]string{"GET", "a/b"}, file, `url "a/b": ` + want},
		{[]string{"GET", "http://a/b c"}, file, `url "http://a/b c": a path or query of other bytes than printable ASCII; write those as %XX`},
		{[]string{"GET", "http://user@a/"}, live, `url "http://user@a/": ` + want},
		{[]string{"GET", "http://a:99999"}, file, `url "http://a:99999": port 99999: want 1 to 65535`},
		{[]string{"GET", "http://a/", "-H", "x"}, live, `header "x": want 'name: value', without control characters`},
		{[]string{"GET", "http://a/", "-H", ":path: /b"}, file, `header ":path: /b": want 'name: value', without control characters`},
		{[]string{"GET", "http://a/", "-H", "host:"}, file, `header "host:": the host must not be empty; leave the header out to take the URL's`},
		{[]string{"GET", "http://a/", "-H", "x: " + strings.Repeat("x", explain.MaxHead)}, live,
			"request: its head has 3104 bytes, more than 3072; leave out headers that no route asks about"},
		{[]string{"GET", "http://127.80.0.9/"}, live, `url "http://127.80.0.9/": no listener has the address 127.80.0.9:80; name one with --listener: shop (127.80.0.1:8080)`},
		{[]string{"GET", "http://shop.test/"}, file,
			`url "http://shop.test/": its host is a name, and there are 2 listeners; choose one with --listener: web (127.80.0.1:8080), stripped (127.80.0.2:80)`},
		{[]string{"GET", "http://shop.test/", "--listener", "x"}, live, `listener "x": the configuration has none of that name or address; it has shop (127.80.0.1:8080)`},
		{[]string{"GET", "http://shop.test/"}, []string{"--config", "/nonexistent.yaml"}, "read configuration: open /nonexistent.yaml: no such file or directory; name a readable Envoy v3 bootstrap"},
	}
	for _, tt := range tests {
		t.Run(tt.want, func(t *testing.T) {
			code, stdout, stderr := call(t, append(append([]string{"explain"}, tt.args...), tt.where...)...)
			if code != exitRefused || stdout != "" || !strings.HasSuffix(stderr, tt.want+"\n") || strings.Count(stderr, "\n") != 1 {
				t.Errorf("got code %d, stdout %q, stderr %q, want %q", code, stdout, stderr, tt.want)
			}
		})
	}
}

func TestDisagreementIsLoud(t *testing.T) {
	a := &explain.Answer{
		Winner: 1, Routes: []explain.Route{{Position: 1, Match: "prefix /"}}, VirtualHost: &explain.VirtualHost{Name: "all", Domain: "*"},
		Action: &explain.Action{Kind: explain.Forward}, Disagreement: "the kernel sends the request elsewhere",
	}
	var stdout bytes.Buffer
	if err := printAnswer(&env{stdout: &stdout}, formatText, a); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(stdout.String(), "\nDISAGREEMENT  the kernel sends the request elsewhere\n") {
		t.Errorf("stdout:\n%s", stdout.String())
	}
	if err := verdictOn(a); err == nil || exitCode(&runError{err}) != exitFailure || !strings.Contains(err.Error(), "defect of XLB") {
		t.Errorf("error: %v", err)
	}
}

func TestLongListOfRoutesIsCut(t *testing.T) {
	var routes []explain.Route
	for i := range 1000 {
		routes = append(routes, explain.Route{Position: i + 1, Match: fmt.Sprintf("prefix /%d", i), Lost: "path"})
	}
	routes[900].Lost, routes[900].Because = "header", "x, and there is no x"
	routes[999].Lost = ""
	rows := routeRows(routes)
	if len(rows) != mostRoutes+4 {
		t.Fatalf("%d rows: %q", len(rows), rows)
	}
	want := "[... 880 more lack the path] [901 - prefix /900 lacks x, and there is no x] [... 98 more lack the path] [1000 - prefix /999 won]"
	var got []string
	for _, row := range rows[mostRoutes:] {
		got = append(got, "["+strings.Join(strings.Fields(strings.Join(row, " ")), " ")+"]")
	}
	if text := strings.Join(got, " "); text != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
}
